"""Queries that programs write: long, deep, and with lengths of any size. They compile, or say why not and where."""

from __future__ import annotations

import sys

import pytest

import sase
from sase.compiler.core import durations
from sase.compiler.core.errors import SaseError
from sase.compiler.languages.sase.parser import MOST_LEVELS

CATALOG = sase.Catalog(
    types={name: {"ts": "bigint", "id": "bigint", "a": "int", "b": "int", "s": "string"} for name in "AB"}
)


def compiled(where: str) -> sase.Query:
    return sase.compile(f"EVENT SEQ(A x, B y) WHERE {where} WITHIN 10", CATALOG)


# ---- chains -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connector", "term"),
    [
        (" OR ", "x.a = {}"),
        (" AND ", "x.a != {}"),
        (" OR ", "x.a = y.b - {}"),
        (" OR ", "(x.a = {} AND x.b > 1)"),
        (" + ", "{}"),
        (" < ", "{}"),
    ],
    ids=["or", "and", "or of two events", "or of and", "sum", "comparison"],
)
def test_a_chain_may_be_long(connector: str, term: str) -> None:
    """Longer than Python's recursion is deep."""
    last = sys.getrecursionlimit() + 50
    chain = connector.join(term.format(number) for number in range(last + 1))
    written = compiled(chain if term != "{}" else f"x.a < {chain}" if connector == " + " else chain).job
    assert str(last) in written


def test_a_list_may_be_long() -> None:
    listed = ", ".join(map(str, range(5000)))
    assert f"a IN ({listed})" in compiled(f"x.a IN ({listed})").job


def test_a_long_sum_over_two_events_is_left_to_spark() -> None:
    total = " + ".join(["x.a + y.b"] * 500)
    query = compiled(f"{total} > 3")
    assert [f"{total} > 3"] == [str(part) for part in query.compiled.plan.selection.predicates]
    assert len(query.job) < 4 * len(total), "the places of its thousand sums are not in the job"


def test_not_of_a_long_chain_is_many_predicates() -> None:
    chain = " OR ".join(f"x.a = {number}" for number in range(500))
    assert [str(part) for part in compiled(f"NOT ({chain})").compiled.query.predicates] == [
        f"NOT x.a = {number}" for number in range(500)
    ]


@pytest.mark.parametrize("connector", ["OR", "AND"])
def test_a_long_chain_is_written_as_it_was(connector: str) -> None:
    """However it is nested inside, it reads from left to right and without parentheses."""
    chain = f" {connector} ".join(f"x.a = {number}" for number in range(7))
    (part,) = compiled(f"NOT ({chain}) OR x.b = 1").compiled.query.predicates
    assert str(part) == f"NOT ({chain}) OR x.b = 1"


# ---- nesting ------------------------------------------------------------------------------------


def test_parentheses_that_do_nothing_may_be_many() -> None:
    (part,) = compiled("(" * 2000 + "x.a = " + "(" * 2000 + "1" + ")" * 4000).compiled.query.predicates
    assert str(part) == "x.a = (1)"


NESTED = {
    "parentheses": ("x.a = 1 OR (x.b = 1 AND (", "x.a = 2", "))"),
    "not": ("NOT ", "x.a = 1", ""),
    "minus": ("- ", "x.a", " = 1"),
    "calls": ("abs(", "x.a", ")"),
    "case": ("CASE WHEN x.a = 1 THEN 1 ELSE ", "0", " END"),
    "plus and minus": ("x.a + x.b - ", "1", ""),
}


def nested(kind: str, times: int) -> str:
    opening, core, closing = NESTED[kind]
    if kind == "minus":
        return opening * times + core + closing
    inner = opening * times + core + closing * times
    return inner if kind in ("parentheses", "not") else f"{inner} = 1"


@pytest.mark.parametrize("kind", NESTED)
def test_what_nests_too_deeply_says_so_and_where(kind: str) -> None:
    compiled(nested(kind, MOST_LEVELS // 6))
    with pytest.raises(SaseError) as caught:
        compiled(nested(kind, 20 * MOST_LEVELS))
    (found,) = caught.value.diagnostics
    assert found.message == "this is nested too deeply"
    assert found.help == (
        "use fewer parentheses or calls inside each other; a chain of AND, OR or + may be as long as you like"
    )
    assert 26 < found.span.start < found.span.end <= len(caught.value.text)


@pytest.mark.parametrize("kind", NESTED)
def test_the_deepest_that_is_allowed_compiles(kind: str) -> None:
    """Between what compiles and what is refused there is nothing that fails in another way."""
    fine, refused = 40, 20 * MOST_LEVELS
    compiled(nested(kind, fine))
    while refused - fine > 1:
        times = (fine + refused) // 2
        try:
            compiled(nested(kind, times))
            fine = times
        except SaseError as error:
            assert "nested too deeply" in str(error)
            refused = times


# ---- lengths of time ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("12 hours", (("12", "hours"),)),
        (" 1h30min ", (("1", "h"), ("30", "min"))),
        ("1.5 days", (("1.5", "days"),)),
        ("10000", (("10000", None),)),
        ("1 2", None),
        ("5 3 minutes", None),
        ("hours", None),
        ("", None),
        ("9" * 5000 + "!", None),
        ("1 h " * 5000 + "!", None),
    ],
)  # fmt: skip
def test_lengths_of_time_are_read_in_one_pass(text: str, parts: durations.Parts | None) -> None:
    assert durations.parse(text) == parts


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (f"x.id = {'9' * 5000}", "a number has at most 38 digits"),
        (f"x.id = 0.{'9' * 5000}", "a number has at most 38 digits"),
        (f"x.id > {'9' * 5000} hours", "this length of time is too long"),
        ("x.id > 1e99 hours", "this length of time is too long"),
    ],
    ids=["integer", "decimal", "digits", "exponent"],
)
def test_numbers_have_an_end(where: str, message: str) -> None:
    with pytest.raises(SaseError, match=message):
        compiled(where)


@pytest.mark.parametrize("amount", ["1e999999999", "1/3", "1_000", "soon", ""])
def test_an_amount_is_a_plain_number(amount: str) -> None:
    with pytest.raises(ValueError):
        durations.microseconds(amount, "hours")
