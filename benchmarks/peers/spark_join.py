"""Self-joins in Spark SQL: naive, and bucketed by window with a bucketed anti-join, which is the honest rival."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from benchmarks.peers import Run, Task, Unavailable, Verbatim, sql
from benchmarks.peers.spark import into_noop

if TYPE_CHECKING:
    from benchmarks.bench import Bench


def prepare_naive(bench: Bench, task: Task) -> Run:
    return _prepare(bench, task, sql.naive(task.shape))


def prepare_bucketed(bench: Bench, task: Task) -> Run:
    return _prepare(bench, task, sql.bucketed(task.shape, sql.SPARK))


def prepare_verbatim(bench: Bench, task: Task) -> Run:
    if not isinstance(task.query, Verbatim) or not task.query.sql:
        raise Unavailable("this query is not spelled out in SQL")
    return _prepare(bench, task, task.query.sql)


def _prepare(bench: Bench, task: Task, query: str) -> Run:
    events = bench.events(task.source)

    def build() -> DataFrame:
        events.createOrReplaceTempView("events")
        return bench.spark.sql(query)

    return into_noop(bench.spark, build)
