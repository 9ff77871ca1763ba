"""What a worker leaves out is what Spark would drop: never a row of which the condition may hold."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sase
from sase.compiler.plan.physical import Arrive
from sase.runtime.operator.thinning import Tree, possible

DOUBLES = st.none() | st.floats() | st.sampled_from((0.0, -0.0, 1.0, math.nan, math.inf))
NUMBERS: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from("xy").map(lambda name: ("column", name)) | st.sampled_from((0.5, 2.0)).map(lambda n: ("number", n)),
    lambda parts: st.tuples(st.sampled_from("+-*"), parts, parts),
    max_leaves=4,
)
CONDITIONS: st.SearchStrategy[Tree] = st.recursive(
    st.tuples(st.sampled_from(("=", "!=", "<", "<=", ">", ">=")), NUMBERS, NUMBERS),
    lambda parts: st.tuples(st.sampled_from(("and", "or")), parts, parts),
    max_leaves=3,
)


def value(tree: Tree, row: dict[str, Any]) -> Any:
    """As Spark has it: NULL makes NULL, and NaN is itself, and above everything."""
    sign, *parts = tree
    if sign == "column":
        return row[parts[0]]
    if sign == "number":
        return parts[0]
    left, right = (value(part, row) for part in parts)
    if sign in ("and", "or"):
        strong = sign == "or"
        return strong if strong in (left, right) else None if None in (left, right) else not strong
    if left is None or right is None:
        return None
    if sign in "+-*":
        return {"+": left + right, "-": left - right, "*": left * right}[sign]
    left, right = ((math.isnan(each), 0.0 if math.isnan(each) else each) for each in (left, right))
    signs = {"=": left == right, "!=": left != right, "<": left < right, "<=": left <= right}
    return {**signs, ">": left > right, ">=": left >= right}[sign]


@given(CONDITIONS, st.lists(st.fixed_dictionaries({"x": DOUBLES, "y": DOUBLES}), min_size=1, max_size=6))
@settings(deadline=None)
def test_no_row_is_left_out_of_which_it_may_hold(tree: Tree, rows: list[dict[str, Any]]) -> None:
    table = pa.table({name: pa.array([row[name] for row in rows], pa.float64()) for name in "xy"})
    kept = possible(tree, table.column).tolist() if "column" in str(tree) else [True] * len(rows)
    for row, is_kept in zip(rows, kept, strict=True):
        known = not any(each is None or math.isnan(each) for each in row.values())
        assert is_kept or value(tree, row) is not True
        assert not is_kept or value(tree, row) is True or not known or "inf" in str(row) or overflows(tree, row)


def overflows(tree: Tree, row: dict[str, Any]) -> bool:
    """Some number on the way is none."""
    sign, *parts = tree
    if sign in ("column", "number"):
        return False
    found = value(tree, row)
    return any(overflows(part, row) for part in parts) or (isinstance(found, float) and not math.isfinite(found))


CATALOG = sase.Catalog(
    types={name: {"ts": "bigint", "id": "bigint", "v": "bigint", "x": "double", "f": "float"} for name in "AB"}
)
MEAN = ("column", "avg*(b.x)")


@pytest.mark.parametrize(
    ("where", "tree"),
    [
        ("b.x > 1.5 * avg*(b.x)", (">", ("column", "x"), ("*", ("number", 1.5), MEAN))),
        ("b.v < avg*(b.x) AND b.id = 3", ("<", ("column", "v"), MEAN)),
        ("b.v < avg*(b.x) AND avg*(b.x) > 2", ("and", ("<", ("column", "v"), MEAN), (">", MEAN, ("number", 2.0)))),
        ("(b.x > avg*(b.x) OR 2.5 + b.v > b.x)", None),  # decimals have rules of their own
        ("b.x > avg*(b.x) / 2", None),  # a division may fail
        ("b.v >= max*(b.v)", None),  # whole numbers need not fit into doubles
        ("b.f > avg*(b.x)", None),
        ("(b.x > avg*(b.x) OR b.id = 3)", None),
        ("a.x > avg*(b.x)", None),  # of two events
    ],
)
def test_what_a_worker_can_tell(where: str, tree: Tree | None) -> None:
    query = sase.compile(f"EVENT SEQ(A a, B b) WHERE {where} WITHIN 5", CATALOG)
    step = query.compiled.physical.only(Arrive)
    assert step is not None and step.thinned == tree


def test_every_state_of_the_last_events_has_a_word() -> None:
    def thinned(text: str) -> Tree | None:
        step = sase.compile(text, CATALOG, arrivals="before").compiled.physical.only(Arrive)
        assert step is not None
        return step.thinned

    assert thinned("EVENT SEQ(B a, B b) WHERE b.x > avg*(b.x) WITHIN 5") is None, "any B may be the first"
    assert thinned("EVENT SEQ(A a, !(B n), B b) WHERE b.x > avg*(b.x) WITHIN 5") is None, "any B may forbid"
    assert thinned("EVENT SEQ(A a, !(A n), B b) WHERE b.x > avg*(b.x) WITHIN 5") is not None


def test_in_slices_only_the_last_state_is_asked() -> None:
    step = sase.compile("EVENT SEQ(B a, B b) WHERE b.x > avg*(b.x) WITHIN 5", CATALOG).compiled.physical.only(Arrive)
    assert step is not None and step.inside and step.thinned == (">", ("column", "x"), MEAN)
