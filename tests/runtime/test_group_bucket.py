"""Totals of matches on a stream: what comes in micro-batches adds up to what all of it does."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sase.runtime.errors import SaseRunError
from sase.runtime.pattern import Total
from sase.runtime.stream.group_bucket import GroupBucket, GroupTask
from sase.runtime.stream.worker import cell, opened

TASK = GroupTask(
    shown=("g", "h"),
    totals=(
        Total("n", "count"),
        Total("whole", "sum"),
        Total("real", "sum", real=True),
        Total("exact", "sum"),
        Total("low", "min"),
        Total("high", "max"),
    ),
)
EXACT = pa.decimal128(20, 2)
KINDS = [pa.string(), pa.float64(), pa.int64(), pa.int64(), pa.float64(), EXACT, pa.string(), pa.int64()]
SCHEMA = pa.schema(list(zip([*TASK.shown, *(each.name for each in TASK.totals)], KINDS, strict=True)))


class Driven:
    """Nothing but its state outlives a call, and that is written and read."""

    def __init__(self, task: GroupTask) -> None:
        self.task = task
        self.state: bytes | None = None

    def told(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        state = None if self.state is None else opened(self.state)
        arrived = pa.Table.from_pylist(rows, SCHEMA) if rows else None
        step = GroupBucket(self.task).advance(state, arrived, 0)
        self.state = None if step.state is None else cell(step.state, "state")
        return [row for batch in step.matches for row in batch.to_pylist()]


def added(random: Random) -> dict[str, Any]:
    return {
        "g": random.choice(["x", "y", None]),
        "h": random.choice([0.0, -0.0, 1.5]),
        "n": 1,
        "whole": random.randint(-3, 3),
        "real": float(random.randint(0, 3)),
        "exact": Decimal(random.randint(-(10**19), 10**19)) / 100,
        "low": random.choice(["a", "b", None]),
        "high": random.choice([1, 2, None]),
    }


def summed(rows: list[dict[str, Any]]) -> dict[tuple[Any, Any], tuple[Any, ...]]:
    found = {}
    for key in {(row["g"], row["h"]) for row in rows}:
        own = [row for row in rows if (row["g"], row["h"]) == key]
        low = [row["low"] for row in own if row["low"] is not None]
        high = [row["high"] for row in own if row["high"] is not None]
        sums = [sum(row[name] for row in own) for name in ("n", "whole", "real", "exact")]
        found[key] = (*sums, min(low, default=None), max(high, default=None))
    return found


def test_the_last_row_of_a_group_is_what_all_matches_come_to() -> None:
    for seed in range(60):
        random = Random(seed)
        rows = [added(random) for _ in range(random.randint(0, 30))]
        driven, last = Driven(TASK), dict[tuple[Any, Any], tuple[Any, ...]]()
        while rows_left := rows[sum(value[0] for value in last.values()) :]:
            batch = rows_left[: random.randint(1, 8)]
            told = {(row.pop("g"), row.pop("h")): tuple(row.values()) for row in driven.told(batch)}
            assert told.keys() == {(row["g"], row["h"]) for row in batch}, "those that have changed"
            last |= told
            assert driven.told([]) == []
        assert last == summed(rows), seed


def test_a_group_may_be_told_of_once() -> None:
    driven, random = Driven(GroupTask(TASK.shown, TASK.totals, once=True)), Random(0)
    first, second = (dict(added(random), g=name, h=1.5) for name in "xy")
    assert [row["g"] for row in driven.told([first])] == ["x"]
    assert [row["g"] for row in driven.told([first, second])] == ["y"]
    assert driven.told([first]) == []


def test_a_sum_that_becomes_too_large_is_an_error() -> None:
    driven, row = Driven(TASK), added(Random(0))
    driven.told([dict(row, exact=Decimal(10**18 - 1))])
    with pytest.raises(SaseRunError, match=r"a sum of decimals is too large for 20 digits: CAST\(sum\(…\) AS double\)"):
        driven.told([dict(row, exact=Decimal(10**18 - 1))])
