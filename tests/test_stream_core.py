"""The core of a stream without Spark around it: same answers as batch, at the right moment, with a bounded state.

Spark computes the state bits and the terms of a random stream once; then its events are cut into random micro-batches,
shuffled within the allowed delay, and driven through the buckets.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from random_queries import Case, cases
from streams import follow, shuffled
from test_random_queries import TRAP_STREAM, TRAPS, compare, frame

import sase
from sase.compiler.rules import NAMES
from sase.runtime.stream import Options, Stream, watch

PLANS: dict[str, dict[str, Any]] = {
    "a stream": {},
    "negation outside the kernel": {"negation": "anti-join"},
    "the basic plan": {"disable": NAMES},
    "tests in selection": {"equivalence": "selection"},
    "Multi-PAIS": {"equivalence": "multi-pais"},
}
EXAMPLES = settings.default.max_examples // 6
SCHEDULES = 3


def answers(spark: SparkSession, case: Case, plan: str, seed: int) -> dict[str, DataFrame]:
    """The answers of a plan on several schedules of the same events."""
    query = sase.compile(case.query, case.catalog, stream=True, **PLANS[plan])
    events = frame(spark, case)
    stream: Stream = query.module.follow(events, Options())
    if stream.task is None:
        return {plan: stream.matches()}
    rows = relevant(query, events)
    unit = 1 if query.module.SOURCE.time_kind == "integer" else 60_000_000
    found: dict[str, DataFrame] = {}
    for number in range(SCHEDULES):
        random = Random(seed + number)
        delay = random.choice([0, 1, 4, 20]) * unit
        batches = shuffled(rows.column(stream.task.time).to_pylist(), delay, random)
        run = follow(stream.task, rows, batches, delay)
        assert not run.late
        assert run.state_rows[-1] == 0, "what nothing can reach any more is forgotten"
        found[f"{plan}, {number}"] = stream.finish(table(spark, run.matches, stream))
    return found


def relevant(query: sase.Query, events: DataFrame) -> pa.Table:
    """The events as they reach a bucket."""
    job = query.module
    watched = job.relevant_events(watch(events, job.SOURCE, job.OURS, None))
    good = watched.where(f"{job.OURS.reason} IS NULL").drop(job.OURS.reason, job.OURS.record, job.OURS.clock)
    return good.toArrow()


def table(spark: SparkSession, batches: list[pa.RecordBatch], stream: Stream) -> DataFrame:
    if not batches:
        return spark.createDataFrame([], stream.found)
    return spark.createDataFrame(pa.Table.from_batches(batches), stream.found)


@settings(max_examples=EXAMPLES)
@given(case=cases(windowed=True), plan=st.sampled_from(list(PLANS)), seed=st.integers(0, 10**6))
def test_a_stream_gives_the_answer_of_the_judge(spark: SparkSession, case: Case, plan: str, seed: int) -> None:
    compare(case, answers(spark, case, plan, seed))


@pytest.mark.parametrize("query", [query for query, _ in TRAPS])
def test_traps(spark: SparkSession, query: str) -> None:
    both = {"ts": "bigint", "id": "bigint", "n": "bigint"}
    catalog = sase.Catalog(types={"A": both, "B": both, "C": both, "D": {"ts": "bigint", "n": "bigint"}})
    text = query if "WITHIN" in query else f"{query} WITHIN 100"
    case = Case(text, catalog, [dict(zip(("type", *both), row, strict=True)) for row in TRAP_STREAM])
    compare(case, answers(spark, case, "negation outside the kernel" if "!" in query else "a stream", 7))
