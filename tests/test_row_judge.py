"""The judge of row patterns against answers that were worked out by hand, or are printed in public documentation."""

from __future__ import annotations

import pytest

from tests.row_judge import (
    Aggregate,
    Anchor,
    At,
    Classifier,
    Clause,
    Concat,
    Either,
    Empty,
    Exclude,
    MatchNumber,
    Operation,
    Permute,
    Repeat,
    SkipError,
    Variable,
    answer,
    first_match,
)

A, B, C = map(Variable, "ABC")


def star(part, greedy=True):  # type: ignore[no-untyped-def]
    return Repeat(part, 0, None, greedy)


def labels(pattern, rows=4, define=None, **more):  # type: ignore[no-untyped-def]
    """The variables of the match at the first of some equal rows."""
    trail = first_match(Clause(pattern, define or {}, **more), [{"x": n} for n in range(rows)], 0, 1)
    return None if trail is None else "".join(mapped.variable for mapped in trail)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (star(A), "AAAA"),
        (star(A, greedy=False), ""),
        (Concat((star(A), B)), "AAAB"),
        (Concat((star(A, greedy=False), B)), "B"),
        (Either((A, Concat((A, B)))), "A"),
        (Repeat(Either((B, A)), 2, 3), "BBB"),
        (Repeat(A, 2, 3, greedy=False), "AA"),
        (Permute((C, B, A)), "CBA"),
        (Concat((star(Repeat(A, 0, 1)), B)), "AAAB"),
        (star(Repeat(A, 0, 1, greedy=False)), ""),
        (Concat((A, Anchor("$"))), None),
        (Concat((Anchor("^"), star(A, greedy=False), Anchor("$"))), "AAAA"),
        (Empty(), ""),
        (Repeat(A, 5, None), None),
    ],
    ids=str,
)
def test_preference(pattern, expected) -> None:  # type: ignore[no-untyped-def]
    assert labels(pattern) == expected


PRICES = [{"price": price} for price in (90, 80, 70, 80, 90, 85, 80, 95, 95)]
V_SHAPE = Clause(
    Concat((A, Repeat(B, 1, None), Repeat(C, 1, None))),
    {"B": Operation(At("price"), "<", At("price", step=-1)), "C": Operation(At("price"), ">", At("price", step=-1))},
    {
        "n": MatchNumber(),
        "start": At("price", "A"),
        "bottom": At("price", "B"),
        "peak": At("price", "C"),
        "rows": Aggregate("count", None),
        "kind": Classifier(),
    },
)


def test_v_shapes() -> None:
    """Prices fall and rise: the second V begins behind the last row of the first."""
    assert answer(V_SHAPE, PRICES) == [
        {"n": 1, "start": 90, "bottom": 70, "peak": 90, "rows": 5, "kind": "C"},
        {"n": 2, "start": 85, "bottom": 80, "peak": 95, "rows": 3, "kind": "C"},
    ]


def test_all_rows_show_running_values_and_final_ones() -> None:
    measures = {"now": At("price", "B"), "end": At("price", "B", final=True), "n": Aggregate("count", "price")}
    clause = Clause(V_SHAPE.pattern, V_SHAPE.define, measures, rows="ALL ROWS PER MATCH WITH UNMATCHED ROWS")
    assert [tuple(row.values()) for row in answer(clause, PRICES)] == [
        (0, None, 70, 1),
        (1, 80, 70, 2),
        (2, 70, 70, 3),
        (3, 70, 70, 4),
        (4, 70, 70, 5),
        (5, None, 80, 1),
        (6, 80, 80, 2),
        (7, 80, 80, 3),
        (8, None, None, None),
    ]


def test_first_with_an_offset_is_running_in_all_rows() -> None:
    """As in Oracle: there is no second row yet, where the first one is mapped."""
    clause = Clause(star(A), measures={"second": At("x", first=True, offset=1)}, rows="ALL ROWS PER MATCH")
    assert [row["second"] for row in answer(clause, [{"x": n} for n in range(3)])] == [None, 1, 1]


def test_empty_matches_have_numbers() -> None:
    clause = Clause(
        star(A),
        {"A": Operation(At("x"), ">", At("x", step=-1))},
        {"n": MatchNumber(), "rows": Aggregate("count", None), "sum": Aggregate("sum", "x"), "kind": Classifier()},
    )
    rows = [{"x": x} for x in (1, 2, 3, 1)]
    one = [(1, 0, None, None), (2, 2, 5, "A"), (3, 0, None, None)]
    assert [tuple(row.values()) for row in answer(clause, rows)] == one
    omit = Clause(star(A), clause.define, clause.measures, rows="ALL ROWS PER MATCH OMIT EMPTY MATCHES")
    assert [tuple(row.values()) for row in answer(omit, rows)] == [(1, 2, 1, 2, "A"), (2, 2, 2, 5, "A")]


def test_excluded_rows_count_and_are_not_shown() -> None:
    clause = Clause(
        Concat((A, Exclude(Repeat(B, 2, 2)), C)),
        measures={"rows": Aggregate("count", None)},
        rows="ALL ROWS PER MATCH",
    )
    rows = [{"x": n} for n in range(4)]
    assert answer(clause, rows) == [{"row": 0, "rows": 1}, {"row": 3, "rows": 4}]


@pytest.mark.parametrize(
    ("skip", "starts"),
    [("PAST LAST ROW", [0, 3]), ("TO NEXT ROW", [0, 1, 2, 3]), ("TO FIRST B", [0, 1, 2, 3]), ("TO LAST B", [0, 2])],
)
def test_where_the_next_match_begins(skip: str, starts: list[int]) -> None:
    clause = Clause(Concat((A, Repeat(B, 2, 2))), measures={"x": At("x", first=True)}, skip=skip)
    assert [row["x"] for row in answer(clause, [{"x": n} for n in range(6)])][: len(starts)] == starts


@pytest.mark.parametrize("skip", ["TO FIRST A", "TO LAST C"])
def test_a_skip_that_goes_nowhere_is_an_error(skip: str) -> None:
    with pytest.raises(SkipError):
        answer(Clause(Concat((A, Repeat(C, 0, 0), B)), skip=skip), [{"x": n} for n in range(6)])


def test_running_conditions_look_at_what_was_mapped_so_far() -> None:
    """Rows are taken while their sum is small: bins."""
    full = Operation(Aggregate("sum", "x"), "<=", At("x", first=True, final=None))
    assert (
        labels(Repeat(A, 1, None), define={"A": Operation(Aggregate("sum", "x"), "<", At("x", step=2))}) == "AAAA"[:2]
    )
    assert labels(Repeat(A, 1, None), define={"A": full}) == "A"


def test_a_window_leaves_the_most_preferred_match_that_fits() -> None:
    clause = Clause(Repeat(A, 1, None), measures={"rows": Aggregate("count", None)}, within=("x", 2))
    assert [row["rows"] for row in answer(clause, [{"x": n} for n in range(5)])] == [2, 2, 1]
