"""The ordered fold over matches, against all earlier results, one by one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sase.runtime.errors import SaseRunError
from sase.runtime.operator.results import Counted, Deciding, Fold, Tree, compiled, run

COUNTED = (
    Counted("avg+(b.v)", "avg", "b", "v", "double"),
    Counted("sum+(a.v)", "sum", "a", "v", "bigint"),
    Counted("count+(b.v)", "count", "b", "v", "bigint"),
    Counted("min+(b.v)", "min", "b", "v", "bigint"),
    Counted("max+(a.v)", "max", "a", "v", "bigint"),
)
V = ("term", "b", "v")
CONDITIONS: list[Tree] = [
    (">=", V, ("coalesce", ("told", "avg+(b.v)"), ("term", "a", "v"))),
    ("or", ("is null", ("told", "sum+(a.v)")), ("<", ("told", "sum+(a.v)"), ("*", V, ("term", "a", "v")))),
    ("not", (">", ("told", "count+(b.v)"), V)),
    ("and", ("<=", ("coalesce", ("told", "min+(b.v)"), V), V), ("!=", ("told", "count+(b.v)"), ("term", "a", "v"))),
    ("<", ("-", ("coalesce", ("told", "max+(a.v)"), V), ("negative", V)), ("term", "a", "big")),
]
EVENT = pa.struct([("ts", pa.int64()), ("v", pa.int64()), ("big", pa.int64()), ("row", pa.int64())])
Event = dict[str, Any]
Match = dict[str, Event]
Choice = tuple[Literal["first", "last"] | None, bool]
"""Of the a's of one b, and whether events are used up."""


@st.composite
def candidates(draw: st.DrawFn) -> list[Match]:
    """In the order of their last events, the b's; several share one."""
    values = st.none() | st.integers(-4, 9)
    times = draw(st.lists(st.integers(0, 20), min_size=2, max_size=8))
    events = [{"ts": at, "v": draw(values), "big": 9, "row": row} for row, at in enumerate(sorted(times))]
    pairs = [{"a": a, "b": b} for b in events for a in events if a["ts"] < b["ts"] and draw(st.booleans())]
    return sorted(pairs, key=lambda pair: pair["b"]["ts"])


def one_by_one(
    matches: list[Match], condition: Tree, within: int | None, choice: Choice
) -> list[tuple[int, int, list[Any]]]:
    """The rows of each result, and the aggregates with the results of its moment."""

    def told(results: list[Match], now: int) -> dict[str, Any]:
        answer = {}
        for each in COUNTED:
            events = {match[each.variable]["row"]: match[each.variable] for match in results}.values()
            inside = [event for event in events if within is None or now - event["ts"] < within]
            values = [event["v"] for event in inside if event["v"] is not None]
            of = {"avg": lambda v: sum(v) / len(v), "sum": sum, "count": len, "min": min, "max": max}[each.kind]
            answer[each.name] = of(values) if values or each.kind == "count" else None  # type: ignore[operator]
        return answer

    def chosen(now: list[Match]) -> list[Match]:
        mode, exclusive = choice
        used = {event["row"] for match in results for event in match.values()} if exclusive else set()
        now = [match for match in now if not used.intersection(event["row"] for event in match.values())]
        of = {"first": min, "last": max}.get(mode or "")
        best = {
            row: of(m["a"]["ts"] for m in now if m["b"]["row"] == row) for row in {m["b"]["row"] for m in now} if of
        }
        return [match for match in now if best.get(match["b"]["row"], match["a"]["ts"]) == match["a"]["ts"]]

    results: list[Match] = []
    answer = []
    for moment in sorted({match["b"]["ts"] for match in matches}):
        before = told(results, moment)
        now = [match for match in matches if match["b"]["ts"] == moment and holds(condition, match, before)]
        now = chosen(now)
        results += now
        after = list(told(results, moment).values())
        answer += [(match["a"]["row"], match["b"]["row"], after) for match in now]
    return answer


def holds(condition: Tree, match: Match, told: dict[str, Any]) -> bool:
    terms: dict[tuple[str, str], list[Any]] = {}
    function = compiled(condition, terms)
    for (variable, column), values in terms.items():
        values[:] = [match[variable][column]]
    return function(0, told) is True


def found(table: pa.Table | pa.RecordBatch) -> list[tuple[int, int, list[Any]]]:
    names = [each.name for each in COUNTED]
    return [(row["a"]["row"], row["b"]["row"], [row[name] for name in names]) for row in table.to_pylist()]


CHOICES: list[Choice] = [(None, False), ("first", False), ("last", False), (None, True), ("last", True)]


@given(
    candidates(),
    st.sampled_from(CONDITIONS),
    st.none() | st.integers(1, 20),
    st.integers(1, 5),
    st.sampled_from(CHOICES),
)
@settings(deadline=None)
def test_results_are_those_of_all_earlier_ones(
    matches: list[Match], condition: Tree, within: int | None, size: int, choice: Choice
) -> None:
    matches = [each for each in matches if within is None or each["b"]["ts"] - each["a"]["ts"] < within]
    expected = one_by_one(matches, condition, within, choice)
    mode, exclusive = choice
    deciding = Deciding(
        COUNTED, (condition,), last=("b",), time="ts", order=None, row="row", within=within,
        among=("a", "b") if mode or exclusive else (), select=(("a", mode),) if mode else (), exclusive=exclusive,
    )  # fmt: skip
    columns = [[match[name] for match in matches] for name in "ab"]
    table = pa.table([pa.array(column, EVENT) for column in columns], ["0", "1"])
    batches = table.to_batches(max_chunksize=size)
    whole = [row for batch in run(deciding, iter(batches), ["a", "b"]) for row in found(batch)]
    assert whole == expected

    # Moment by moment, with nothing kept but the state.
    parts, kept = [], list[pa.Table]()
    for moment in sorted({match["b"]["ts"] for match in matches}):
        now = table.rename_columns(["a", "b"]).filter(
            pa.array([match["b"]["ts"] == moment for match in matches], pa.bool_())
        )
        fold = Fold(deciding, kept)
        parts += found(fold.decide(now, fold.moments(now)))
        kept = fold.state(moment + 1)
    assert parts == expected


@pytest.mark.parametrize(("now", "kept"), [(4, [0, 1]), (5, [1])])
def test_what_is_used_up_is_kept_as_long_as_a_window_reaches_it(now: int, kept: list[int]) -> None:
    deciding = Deciding(
        COUNTED, (), last=("b",), time="ts", order=None, row="row", within=5, among=("a", "b"), exclusive=True
    )
    events = [{**dict.fromkeys((field.name for field in EVENT), None), "row": at, "ts": at} for at in (0, 1)]
    match = pa.table([pa.array([event], EVENT) for event in events], ["a", "b"])
    fold = Fold(deciding)
    assert fold.decide(match, fold.moments(match)).num_rows == 1
    state = fold.state(now)
    assert state[-1].column("row").to_pylist() == kept
    again = Fold(deciding, state)
    assert again.decide(match, again.moments(match)).num_rows == 0


def test_values_are_those_of_spark() -> None:
    def value(*tree: Any, told: Any = None) -> Any:
        return compiled(tree, {})(0, {"it": told})

    it = ("told", "it")
    assert value("=", it, it, told=float("nan")) is True, "NaN is itself"
    assert value(">", it, it, told=None) is None
    assert value("<", ("+", it, it), it, told=Decimal("-0.5")) is True
    assert value("/", it, it, told=3) == 1.0
    with pytest.raises(SaseRunError, match="does not fit into 64 bits"):
        value("*", it, it, told=2**40)
    with pytest.raises(SaseRunError, match="divides by zero"):
        value("/", it, it, told=0)
