"""The kernel alone, in this process, on one core: what the paper measured, without Spark's scan, shuffle and sort.

It runs the very function that the compiled job hands to `mapInArrow`, on the events that the function would get.
Selection and anti-joins come after it, in Spark, so its rows are sequences and not yet matches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import mean
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.peers import OverLimit, Run, Taken, Task, Unavailable
from benchmarks.peers.sase_job import compiled

if TYPE_CHECKING:
    from benchmarks.bench import Bench

_ROWS = 10_000
"""Rows of a batch, as Spark sends them."""

_LEAST, _MOST = 0.2, 100
"""A run that takes less time than this, in seconds, is repeated to fill it, but not more often than that."""

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def prepare(bench: Bench, task: Task) -> Run:
    worker, events = _tapped(bench, task)
    batches = events.toArrow().to_batches(_ROWS)

    def once(limit: float) -> Taken:
        rows, started = 0, time.perf_counter()
        for batch in worker(iter(batches)):
            rows += batch.num_rows
            if time.perf_counter() - started > limit:
                raise OverLimit
        return Taken(time.perf_counter() - started, rows)

    def run(limit: float, *, count: bool) -> Taken:
        taken = once(limit)
        repetitions = min(int(_LEAST / max(taken.seconds, 1e-6)), _MOST)
        return Taken(mean([taken.seconds, *(once(limit).seconds for _ in range(repetitions))]), taken.rows)

    return run


def _tapped(bench: Bench, task: Task) -> tuple[Worker, DataFrame]:
    """The worker of the job and its input, as one sorted partition."""
    events, taps = bench.events(task.source), []
    original = type(events).mapInArrow

    def tap(self: DataFrame, worker: Worker, *arguments: Any, **more: Any) -> DataFrame:
        taps.append((worker, self))
        return original(self, worker, *arguments, **more)

    query = compiled(task, partitions=1)
    with patch.object(type(events), "mapInArrow", tap):
        query.run(events)
    if not taps:
        raise Unavailable("this plan needs no kernel")
    return taps[0]
