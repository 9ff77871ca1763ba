"""Running totals: random streams, cut into micro-batches; the last row of a key is what all its matches come to."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from counts_judge import Row, sequences
from test_products import random_pattern

from sase.runtime.errors import SaseRunError
from sase.runtime.pattern import Total, Totals
from sase.runtime.stream.bucket import StreamTask
from sase.runtime.stream.totals import TotalsBucket
from sase.runtime.stream.worker import cell, opened
from tests.streams import shuffled


class Driven:
    """A bucket as Spark has it: nothing but its state outlives a call, and that is written and read."""

    def __init__(self, pattern: Totals, *, jit: bool = False, once: bool = False, order: str | None = None) -> None:
        self.task = StreamTask(pattern, ("g",), "t", order, "s", (), 100, 0, jit, shown=("t",), once=once)
        self.state: bytes | None = None
        self.wake: int | None = None
        self.told: list[list[dict[str, Any]]] = []
        self.late: list[dict[str, Any]] = []

    def call(self, arrived: pa.Table | None, watermark: int) -> None:
        if arrived is None and (self.wake is None or self.wake > watermark):
            return
        state = None if self.state is None else opened(self.state)
        step = TotalsBucket(self.task).advance(state, arrived, watermark)
        assert (step.state is None) == (step.wake is None)
        assert step.wake is None or step.wake > watermark
        self.told.append([row for batch in step.matches for row in batch.to_pylist()])
        self.late += step.late.to_pylist() if step.late is not None else []
        self.state, self.wake = None if step.state is None else cell(step.state, "state"), step.wake

    @property
    def remembered(self) -> int:
        return 0 if self.state is None else opened(self.state).num_rows


def table_of(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    return pa.table({name: pa.array(each, pa.int64()) for name, each in zip("gtsv", columns, strict=True)})


def totals_of(pattern: Totals, name: str, rows: list[Row]) -> dict[int | None, dict[str, Any]]:
    """By group: what the judge's sequences come to."""
    taken: dict[int | None, list[int]] = {}
    count: dict[int | None, int] = {}
    for group in sorted({row[0] for row in rows}):
        mine = [row for row in rows if row[0] == group]
        key = group if pattern.shown else None
        for match in sequences(pattern, mine):
            count[key] = count.get(key, 0) + 1
            taken.setdefault(key, []).extend(mine[row][3] for variable, row in match if variable == name)
    return {
        key: {
            **({} if key is None else {"g": key}),
            "n": n,
            "sum": sum(taken[key]),
            "real": float(sum(taken[key])),
            "low": min(taken[key], default=None),
            "high": max(taken[key], default=None),
        }
        for key, n in count.items()
    }


@pytest.mark.parametrize("jit", [True, False])
def test_the_last_row_of_a_key_is_what_batch_says(jit: bool) -> None:
    chance, seen, several = Random(23), 0, 0
    for _ in range(250 if jit else 80):
        pattern = random_pattern(chance)
        name = chance.choice(pattern.positive)
        totals = (
            Total("n", "count"),
            Total("sum", "sum", name, "v"),
            Total("real", "sum", name, "v", real=True),
            Total("low", "min", name, "v"),
            Total("high", "max", name, "v"),
        )
        shown = chance.choice([("g",), ("g",), ()])
        pattern = replace(pattern, within=pattern.within or 6, shown=shown, totals=totals)
        rows = [
            (
                chance.randint(0, 2),
                chance.randint(0, 15),
                sum(pattern.bit(each) for each in pattern.variables if chance.random() < (0.2 if "n" in each else 0.4)),
                chance.randint(-5, 5),
            )
            for _ in range(chance.randint(1, 25))
        ]
        rows = sorted(row for row in rows if row[2])
        bucket, table, delay = Driven(pattern, jit=jit), table_of(rows), chance.choice([0, 1, 4, 20])
        times = [row[1] for row in rows]
        watermark = latest = -(1 << 52)
        for batch in shuffled(times, delay, chance):
            bucket.call(table.take(pa.array(batch, pa.int64())) if batch else None, watermark)
            latest = max([latest, *(times[row] for row in batch)])
            watermark = max(watermark, latest - delay)
        for beyond in (1, 100):
            bucket.call(None, latest + beyond)
        last = {row.get("g"): row for told in bucket.told for row in told}
        assert last == totals_of(pattern, name, rows), (pattern, rows)
        assert not bucket.late
        assert bucket.remembered == 0 or bucket.wake is None, "no event is remembered when its window is over"
        seen += bool(last)
        several += sum(map(bool, bucket.told)) > 1
        for told in bucket.told:
            assert len({row.get("g") for row in told}) == len(told), "a key is told of once in a micro-batch"
    assert seen > 30 and several > 10


def test_a_key_is_told_of_once_where_that_is_all() -> None:
    pattern = Totals(("a", "b"), within=10, shown=("g",), totals=(Total("n", "count", real=True),))
    bucket = Driven(pattern, once=True)
    bucket.call(table_of([(1, 1, 1, 0), (1, 2, 2, 0), (2, 1, 1, 0)]), 0)
    bucket.call(table_of([(1, 5, 2, 0), (2, 5, 2, 0)]), 3)
    bucket.call(None, 6)
    assert [[row["g"] for row in told] for told in bucket.told] == [[], [1], [2]]


@pytest.mark.parametrize("at", [(0, 1), (1, 0)])
def test_what_is_simultaneous_goes_by_its_tie_breaker(at: tuple[int, int]) -> None:
    pattern = Totals(("a", "b"), within=10, shown=("g",), totals=(Total("n", "count"),))
    for begin in (0, 1):  # whichever arrives first
        bucket = Driven(pattern, order="v")
        events = [(1, 5, 1, at[0]), (1, 5, 2, at[1])]
        bucket.call(table_of(events[begin:] + events[:begin]), 0)
        bucket.call(None, 6)
        assert bucket.told[-1] == ([{"g": 1, "n": 1}] if at == (0, 1) else [])


def test_totals_that_grow_too_large_over_time_are_an_error() -> None:
    pattern = Totals(("a", "b"), within=2, shown=("g",), totals=(Total("s", "sum", "b", "v"),))
    bucket = Driven(pattern)
    half = 2**62
    bucket.call(table_of([(1, 1, 1, 0), (1, 2, 2, half)]), 0)
    bucket.call(table_of([(1, 11, 1, 0), (1, 12, 2, half)]), 3)
    assert bucket.told[-1] == [{"g": 1, "s": half}]
    with pytest.raises(SaseRunError, match="or their sum is too large"):
        bucket.call(None, 20)


def test_what_comes_too_late_takes_no_part() -> None:
    pattern = Totals(("a", "b"), within=10, shown=("g",), totals=(Total("n", "count"),))
    bucket = Driven(pattern)
    bucket.call(table_of([(1, 1, 1, 0), (1, 4, 1, 0), (1, 6, 2, 0)]), 4)
    bucket.call(None, 7)
    assert bucket.late == [{"t": 1}]
    assert bucket.told[-1] == [{"g": 1, "n": 1}]
