"""Random streams for tests: events cut into micro-batches, and a stand-in for what Spark does between them.

`follow` drives a `Bucket`, the core of a streaming job, as Spark would: the watermark moves after each micro-batch, a
bucket is called if it has new events or its timer has expired, and nothing but its state outlives the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from sase.runtime.kernels.encode import group_codes
from sase.runtime.pattern import Pattern
from sase.runtime.stream.bucket import Bucket, StreamTask
from sase.runtime.stream.horizon import COPY, TIMELY

BEGINNING = -(1 << 52)
BUCKETS = 2


def shuffled(ticks: Sequence[int], delay: int, random: Random) -> list[list[int]]:
    """Row numbers in micro-batches, in an order in which no event comes more than `delay` after a later one."""
    arrival = [(tick + random.randint(0, delay), random.random(), row) for row, tick in enumerate(ticks)]
    order = [row for _, _, row in sorted(arrival)]
    cuts = sorted(random.sample(range(len(order) + 1), min(len(order), random.randint(0, 6))))
    return [order[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(order)], strict=True)]


@dataclass
class Run:
    matches: list[pa.RecordBatch] = field(default_factory=list)
    late: list[dict[str, object]] = field(default_factory=list)
    found_at: list[int] = field(default_factory=list)
    """The watermark at which each batch of matches came out."""
    watermarks: list[int] = field(default_factory=list)
    """Of all micro-batches."""
    state_rows: list[int] = field(default_factory=list)
    """Events in all states after each micro-batch."""


def follow(
    task: StreamTask,
    rows: pa.Table,
    batches: Sequence[Sequence[int]],
    delay: int,
    results: Sequence[int] = (),
    ahead: bool = False,
) -> Run:
    """`results` are rows that come in no batch of their own, but when the watermark has passed them. `ahead`, a bucket
    goes by the watermark as it is behind its micro-batch."""
    run = Run()
    places = _places(task, _marked(task, rows, results))
    times = rows.column(task.time).to_pylist()
    before = BEGINNING
    states: list[pa.Table | None] = [None] * BUCKETS
    wakes: list[int | None] = [None] * BUCKETS
    watermark, latest, seen = BEGINNING, BEGINNING, 0
    far = 3 * (task.pattern.within or 1) if isinstance(task.pattern, Pattern) else 1000
    end = max(rows.column(task.time).to_pylist(), default=0) + far + delay + 1
    for number, batch in enumerate([*batches, *[[]] * 2]):
        seen_at = watermark
        if ahead and len(batch):
            watermark = max(watermark, max(times[row] for row in batch) - delay)
        run.watermarks.append(watermark)
        # A worker lives as long as a task: nothing may be kept in it, but it numbers what it finds.
        bucket = Bucket(task)
        bucket.seen = seen
        for place in range(BUCKETS):
            here = [*batch, *(row for row in results if before <= times[row] < watermark)]
            arrived = places[place].take(pa.array(here, pa.int64())).filter(pa.compute.field("_here"))
            wake = wakes[place]
            if not arrived.num_rows and (wake is None or wake > watermark):
                continue
            rows_here = arrived.drop_columns("_here") if arrived.num_rows else None
            step = bucket.advance(states[place], rows_here, watermark, seen_at)
            states[place], wakes[place] = step.state, step.wake
            assert (step.state is None) == (step.wake is None)
            assert step.wake is None or step.wake > watermark
            for found in step.matches:
                run.matches.append(found)
                run.found_at.append(watermark)
            if step.late is not None:
                run.late += step.late.to_pylist()
        seen = bucket.seen
        run.state_rows.append(sum(state.num_rows for state in states if state is not None))
        before = watermark
        if len(batch):
            latest = max(latest, *(rows.column(task.time)[row].as_py() for row in batch))
        watermark = max(watermark, latest - delay)
        if number >= len(batches) - 1:  # nothing follows: time goes on alone
            watermark = end if number >= len(batches) else watermark
    return run


def _marked(task: StreamTask, rows: pa.Table, results: Sequence[int]) -> pa.Table:
    states = rows.column(task.states).to_numpy().copy()
    states[np.array(results, np.int64)] |= TIMELY
    return rows.set_column(rows.schema.get_field_index(task.states), task.states, pa.array(states))


def _places(task: StreamTask, rows: pa.Table) -> list[pa.Table]:
    """The rows as each bucket gets them; `_here` tells which it does get."""
    own = group_codes([rows.column(name) for name in task.by], rows.num_rows) % (BUCKETS if task.spreads else 1)
    states = rows.column(task.states).to_numpy()
    everywhere = task.everywhere
    places = []
    for place in range(BUCKETS):
        here = own == place
        copied = (states & everywhere != 0) & ~here
        bits = np.where(here, states, states & (everywhere | TIMELY) | COPY)
        table = rows.set_column(rows.schema.get_field_index(task.states), task.states, pa.array(bits))
        places.append(table.append_column("_here", pa.array(here | copied)))
    return places


class Value:
    """A state of Spark's, as long as the test."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None

    def exists(self) -> bool:
        return self.value is not None

    def get(self) -> tuple[Any, ...] | None:
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value

    def clear(self) -> None:
        self.value = None


class Timers(set[int]):
    registerTimer, deleteTimer = set.add, set.remove
