"""What any evaluation on Spark pays: the scan of the relevant events, their shuffle by key and their sort by time.

The columns are those of the input that the query looks at: the time, the type and the attributes it mentions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.peers import Run, Task, Unavailable
from benchmarks.peers.spark import into_noop

if TYPE_CHECKING:
    from benchmarks.bench import Bench


def prepare(bench: Bench, task: Task) -> Run:
    return into_noop(bench.spark, lambda: _sorted_events(bench, task))


def prepare_identity(bench: Bench, task: Task) -> Run:
    """The floor and a Python worker that hands every batch back."""

    def build() -> DataFrame:
        events = _sorted_events(bench, task)
        return events.mapInArrow(_identity, events.schema)

    return into_noop(bench.spark, build)


def prepare_unsorted(bench: Bench, task: Task) -> Run:
    """The scan, the shuffle and that worker, with no sort at all: what is left if a sort were free."""

    def build() -> DataFrame:
        events = _shuffled_events(bench, task)
        return events.mapInArrow(_identity, events.schema)

    return into_noop(bench.spark, build)


def _sorted_events(bench: Bench, task: Task) -> DataFrame:
    _, _, key = task.reads
    return _shuffled_events(bench, task).sortWithinPartitions(*key, "ts")


def _shuffled_events(bench: Bench, task: Task) -> DataFrame:
    types, columns, key = task.reads
    if not key:
        raise Unavailable("the floor is shuffled by a key, and this query has none")
    return bench.events(task.source).where(F.col("type").isin(*types)).select(*columns).repartition(*key)


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
