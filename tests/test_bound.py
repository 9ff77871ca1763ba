"""The bound query: what every layer below asks of it."""

from __future__ import annotations

import sase
from sase.compiler.core.bound import Apart, BoundQuery, Earliest

CATALOG = sase.Catalog(types={name: {"ts": "bigint", "id": "bigint"} for name in "ABCDEFG"})


def bound(query: str) -> BoundQuery:
    return sase.compile(query, CATALOG).compiled.query


def test_the_order_of_time_is_asked() -> None:
    query = bound("EVENT SEQ(!(A k), B x, !(C m), !(D n), E y, F z, !(G p)) WITHIN 10")
    assert (query.first.name, query.last.name) == ("x", "z")
    assert query.neighbours("k") == (None, "x")
    assert query.neighbours("m") == query.neighbours("n") == ("x", "y")
    assert query.neighbours("p") == ("z", None)
    assert [variable.name for variable in query.leading] == ["k"]
    assert [variable.name for variable in query.trailing] == ["p"]
    before = {(one.name, other.name) for one in query.variables for other in query.variables
              if query.before(one.name, other.name)}  # fmt: skip
    names = "kxmnyzp"
    written = {(one, other) for at, one in enumerate(names) for other in names[at + 1 :]}
    assert before == written - {("m", "n")}


def test_a_lone_variable_is_first_and_last() -> None:
    query = bound("EVENT A x")
    assert query.first is query.last is query.variables[0]
    assert query.leading == query.trailing == ()
    assert not query.before("x", "x")


def test_variables_and_predicates_know_their_place_in_the_text() -> None:
    text = "EVENT SEQ(A x, !(ANY(B, C) n), D) WHERE x.id + 1 = d.id AND (n.id > 3) AND [id] WITHIN 10"
    query = bound(text)
    assert [text[one.span.start : one.span.end] for one in query.variables] == ["A x", "!(ANY(B, C) n)", "D"]
    assert [text[part.span.start : part.span.end] for part in query.predicates] == ["x.id + 1 = d.id", "n.id > 3"]


def test_a_place_in_the_text_is_no_difference() -> None:
    one, other = bound("EVENT SEQ(A x, B y) WHERE x.id > y.id"), bound("EVENT  SEQ(A x,  B y) WHERE ( x.id >  y.id)")
    assert (one.variables, one.predicates) == (other.variables, other.predicates)


def test_a_sequence_is_one_branch_that_is_a_chain() -> None:
    query = bound("EVENT SEQ(!(A k), B x, !(C m), E y, !(G p)) WHERE m.id = x.id AND p.id > 1 WITHIN 10")
    (branch,) = query.branches
    leading, between, trailing = branch.groups
    assert query.is_sequence and branch.is_chain
    assert branch.apart == (Apart("x", "y", 10),) and branch.instant == Earliest(10)
    assert (leading.before, leading.apart) == ({("k", "x")}, (Apart("k", "y", 10),))
    assert (between.before, between.apart) == ({("x", "m"), ("m", "y")}, ())
    assert (trailing.before, trailing.apart) == ({("y", "p")}, (Apart("x", "p", 10),))
    assert [str(part) for part in trailing.predicates] == ["p.id > 1"]
