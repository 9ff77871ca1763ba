"""Aggregates over all that has arrived: the worker against all events of the window, one by one, and Spark's slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from streams import follow, shuffled

from sase.runtime.arrivals import with_arrivals
from sase.runtime.errors import SaseRunError
from sase.runtime.operator.arrivals import FIRST, TOTAL, Arriving, Running, Task, run, told, totals
from sase.runtime.operator.matcher import Task as KernelTask
from sase.runtime.pattern import ARRIVES, Pattern
from sase.runtime.stream.bucket import StreamTask

KINDS = ("avg", "sum", "count", "min", "max")
Row = tuple[int, int, str, Any]
"""Ticks, tie-breaker, type, value."""
ARROW = {"bigint": pa.int64(), "double": pa.float64(), "decimal(38,2)": pa.decimal128(38, 2)}


def columns(of: str) -> tuple[Running, ...]:
    results = {"count": "bigint", "avg": "double"}
    return tuple(Running(f"{kind}*", kind, "v", ("A", "B"), results.get(kind, of)) for kind in KINDS)


def one_by_one(rows: Sequence[Row], within: int | None) -> dict[Row, list[Any]]:
    """By event of type A: the aggregates in the order of KINDS."""
    found = {}
    for row in rows:
        if row[2] == "A":
            inside = [
                other[3]
                for other in rows
                if other[:2] <= row[:2] and (within is None or row[0] - other[0] < within)
                if other[2] in "AB" and other[3] is not None
            ]
            found[row] = [of(inside) for of in AGGREGATES]
    return found


def average(values: list[Any]) -> float | None:
    if not values:
        return None
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return sum(map(float, values))
    total = sum(map(Fraction, values))
    return total.numerator / (total.denominator * len(values))


def whole(values: list[Any]) -> Any:
    if not values:
        return None
    if isinstance(values[0], float) and all(map(math.isfinite, values)):
        total = sum(map(Fraction, values))
        try:
            return total.numerator / total.denominator
        except OverflowError:
            return math.inf if total > 0 else -math.inf
    return sum(values)


def ranked(value: Any) -> Any:
    return (isinstance(value, float) and math.isnan(value), value)


AGGREGATES: tuple[Callable[[list[Any]], Any], ...] = (
    average,
    whole,
    len,
    lambda values: min(values, key=ranked, default=None),
    lambda values: max(values, key=ranked, default=None),
)


def in_slices(
    rows: Sequence[Row], within: int | None, length: int, of: str, batch: int, jit: bool = True
) -> dict[Row, list[Any]]:
    """As Spark cuts them: own rows, copies where the window ends, totals in between, in any order."""
    kept = ("ticks", "what", "0", "1")
    task = Task(columns(of), ("n", "v"), "t", "type", ("A", "B", "C"), "n", ("A",), within, jit, batch, kept)
    kinds = [ARROW[each.result] for each in task.running]
    value = {"bigint": pa.int64(), "double": pa.float64(), "decimal(38,2)": pa.decimal128(10, 2)}[of]
    numbers = [("ticks", pa.int64()), ("slice", pa.int64()), ("what", pa.int8())]
    schema = pa.schema([("0", pa.int64()), ("1", value), *numbers, ("payload", pa.binary())])
    own = [(*row[1::2], row[0], row[0] // length, {"A": 1, "B": 2, "C": 4}[row[2]], None) for row in rows]
    fed = [(*row[:4], row[4] & ~1, None) for row in own if row[4] < 4]
    parts = [row for each in totals(task, iter(batches(fed, schema, batch))) for row in each.to_pylist()]
    last = max((row[3] for row in own), default=0)
    between = range(1, last + 1) if within is None else range(1, within // length)
    bases = [(None, None, FIRST, part["slice"] + after, TOTAL, part["payload"]) for part in parts for after in between]
    copied = []
    if within is not None:
        for row in fed:
            reach = range(row[3] + max(1, within // length), (row[2] + within - 1) // length + 1)
            copied += [(*row[:3], slice, *row[4:]) for slice in reach]
    everything = sorted([*own, *copied, *bases], key=lambda row: hash(row[:1] + row[2:4]))
    answer = {}
    for each in run(task, iter(batches(everything, schema, batch)), kinds):
        for row in each.to_pylist():
            assert row["what"] == 1
            answer[row["ticks"], row["0"], "A", row["1"]] = [row[name.name] for name in task.running]
    return answer


def batches(rows: list[Any], schema: pa.Schema, size: int) -> list[pa.RecordBatch]:
    listed = [rows[at : at + size] for at in range(0, len(rows), size)]
    return [pa.record_batch([list(column) for column in zip(*part, strict=True)], schema=schema) for part in listed]


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-(2**60), 2**60),
    "double": st.floats(width=64) | st.sampled_from((1e308, -1e308, 0.1, 1e-320, -0.0)),
    "decimal(38,2)": st.integers(-9999, 9999).map(lambda cents: Decimal(cents).scaleb(-2)),
}


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[Row]]:
    of = draw(st.sampled_from(sorted(VALUES)))
    drawn = draw(st.lists(st.tuples(st.integers(0, 40), st.sampled_from("AABC"), st.none() | VALUES[of]), max_size=14))
    ordered = sorted(drawn, key=lambda row: row[0])
    return of, [(ticks, at // 2, kind, value) for at, (ticks, kind, value) in enumerate(ordered)]


@given(streams(), st.none() | st.integers(1, 30), st.integers(1, 12), st.integers(1, 5), st.booleans())
@settings(deadline=None)
def test_slices_give_what_all_events_one_by_one_give(
    stream: tuple[str, list[Row]], within: int | None, length: int, batch: int, jit: bool
) -> None:
    of, rows = stream
    if len({(*row[:2], repr(row[3]), row[2]) for row in rows}) < len(rows):
        return  # the answer is by event, and these could not be told apart
    expected = {repr(row): repr_of(values) for row, values in one_by_one(rows, within).items()}
    found = in_slices(rows, within, length, of, batch, jit)
    assert {repr(row): repr_of(values) for row, values in found.items()} == expected


@given(streams(), st.integers(1, 30), st.integers(0, 10**6), st.sampled_from((0, 1, 5, 30)))
@settings(deadline=None, max_examples=50)
def test_a_stream_tells_every_event_what_had_arrived(
    stream: tuple[str, list[Row]], within: int, seed: int, delay: int
) -> None:
    """In buckets of keys, each of which has all that counts; the last event of each match has its columns."""
    of, rows = stream
    expected = one_by_one(rows, within)
    names = [each.name for each in columns(of)]
    task = StreamTask(
        pattern=Pattern(("x", "y"), within=within),
        by=("id",),
        time="time",
        order="n",
        states="states",
        emit=(("x", ("number",)), ("y", ("number", *names))),
        batch_rows=1000,
        chunk_rows=0,
        jit=True,
        shown=("number",),
        arriving=Arriving(columns(of), "type", ("A",), within),
    )
    value = {"bigint": pa.int64(), "double": pa.float64(), "decimal(38,2)": pa.decimal128(10, 2)}[of]
    # An event of any type is an x, and an A is a y.
    table = pa.table(
        {
            "number": pa.array(range(len(rows)), pa.int64()),
            "time": pa.array([row[0] for row in rows], pa.int64()),
            "n": pa.array([row[1] for row in rows], pa.int64()),
            "id": pa.array([at % 3 for at in range(len(rows))], pa.int64()),
            "type": pa.array([row[2] for row in rows], pa.string()),
            "v": pa.array([row[3] for row in rows], value),
            "states": pa.array([1 | (2 | ARRIVES if row[2] == "A" else row[2] == "B" and ARRIVES) for row in rows]),
            **{each.name: pa.nulls(len(rows), ARROW[each.result]) for each in columns(of)},
        }
    )
    random = Random(seed)
    batches = shuffled([row[0] for row in rows], delay, random)
    run = follow(task, table, batches, delay, ahead=random.random() < 0.5)
    assert not run.late and run.state_rows[-1:] in ([], [0])
    found = [row for batch in run.matches for row in batch.to_pylist()]
    for match in found:
        assert repr_of([match["y"][name] for name in names]) == repr_of(expected[rows[match["y"]["number"]]])
    pairs = [
        (one, other)
        for one, first in enumerate(rows)
        for other, second in enumerate(rows)
        if first[:2] < second[:2] and second[0] - first[0] < within and second[2] == "A" and one % 3 == other % 3
    ]
    assert sorted((match["x"]["number"], match["y"]["number"]) for match in found) == sorted(pairs)


def repr_of(values: list[Any]) -> list[str]:
    """Equal to the last bit; 0.0 and -0.0 are one number, and a decimal has its two digits."""
    return [repr(value + 0.0 if isinstance(value, float) else value) for value in values]


@given(streams(), st.integers(1, 30), st.integers(1, 12), st.integers(1, 5), st.booleans())
@settings(deadline=None)
def test_the_last_events_of_slices_are_told_before_the_kernel(
    stream: tuple[str, list[Row]], within: int, length: int, batch: int, jit: bool
) -> None:
    """An A may be the last event, a C the first, and a B counts. Copies may not be the last."""
    of, rows = stream
    task = KernelTask(
        Pattern(("x", "y"), within=within), ("id", "slice"), "time", "n", "states", (), 1000, batch, jit, code="id"
    )
    value = {"bigint": pa.int64(), "double": pa.float64(), "decimal(38,2)": pa.decimal128(10, 2)}[of]
    numbers = [(name, pa.int64()) for name in ("number", "time", "n", "slice", "states")]
    told_of = [(each.name, ARROW[each.result]) for each in columns(of)]
    schema = pa.schema([*numbers, ("type", pa.string()), ("v", value), *told_of])
    bits = {"A": 2 | ARRIVES, "B": ARRIVES, "C": 1}
    sent = [
        (at, row[0], row[1], slice, bits[row[2]] & ~(2 if slice > row[0] // length else 0), row[2], row[3], *5 * [None])
        for at, row in enumerate(rows)
        for slice in range(row[0] // length, (row[0] + within - 1) // length + 1)
    ]
    Random(len(sent)).shuffle(sent)
    arriving = Arriving(columns(of), "type", ("A",), within, slice="slice")
    found = [row for each in told(task, arriving, iter(batches(sent, schema, batch))) for row in each.to_pylist()]
    assert {row["states"] for row in found} <= {1, 2}, "what only counts is through"
    expected = one_by_one(rows, within)
    last = {row["number"]: repr_of([row[each.name] for each in columns(of)]) for row in found if row["states"] == 2}
    assert last == {at: repr_of(expected[row]) for at, row in enumerate(rows) if row[2] == "A"}
    assert sum(row["states"] == 2 for row in found) == len(last), "each is told once"


def test_a_last_event_that_no_match_can_have_is_left_out() -> None:
    """99 does not count, and what is compared with NULL is for Spark to decide."""
    task = KernelTask(Pattern(("x", "y"), within=9), ("slice",), "time", None, "states", (), 9, 9, True, code="slice")
    running = (Running("avg*(y.v)", "avg", "v", ("A",), "double"),)
    arriving = Arriving(running, None, ("A",), 9, "slice", (">", ("column", "v"), ("column", "avg*(y.v)")))
    rows = pa.record_batch(
        {
            "time": [0, 1, 2, 3, 4],
            "slice": [0, 0, 0, 0, 0],
            "states": [1, 3 | ARRIVES, 3 | ARRIVES, 2 | ARRIVES, 2 | ARRIVES],
            "v": pa.array([99, 4, 6, 2, None], pa.int64()),
        }
    )
    found = [row for each in told(task, arriving, iter([rows])) for row in each.to_pylist()]
    assert [(row["time"], row["states"]) for row in found] == [(0, 1), (1, 1), (2, 3), (4, 2)]


def test_a_sum_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(SaseRunError, match=r"^sum\* is 9223372036854775808, which does not fit into 64 bits"):
        in_slices([(0, 0, "A", 2**63 - 1), (1, 0, "A", 1)], None, 5, "bigint", 9)


def test_spark_cuts_them_like_that(spark: SparkSession) -> None:
    rows: list[Row] = [(at * 7 % 50, at, "ABC"[at % 3], None if at % 5 == 4 else at * 37 % 101) for at in range(60)]
    events = spark.createDataFrame(rows, "ts bigint, `n.o` bigint, type string, v bigint")
    for within in (None, 1, 5, 16, 17, 40, 10**15):
        frame = with_arrivals(
            events, columns("bigint"), time="ts", type="type", order="n.o", types=["A"], within=within
        )
        assert frame.columns == ["ts", "n.o", "type", "v", *(f"{kind}*" for kind in KINDS)]
        found = {tuple(row)[:4]: list(row)[4:] for row in frame.collect() if row[2] == "A"}
        assert found == one_by_one(rows, within)
