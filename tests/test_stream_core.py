"""The core of a stream without Spark around it: same answers as batch, at the right moment, with a bounded state.

Spark computes the state bits and the terms of a random stream once; then its events are cut into random micro-batches,
shuffled within the allowed delay, and driven through the buckets.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from brute_force import evaluate
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from random_queries import Case, cases
from streams import Timers, Value, follow, shuffled
from test_random_queries import EDGE_CASES, FLOAT_CASE, TRAP_CATALOG, TRAP_EVENTS, TRAPS, collect, compare, frame

import sase
from sase.compiler.plan.physical import Remember
from sase.compiler.plan.rules import NAMES
from sase.runtime.errors import SaseRunError
from sase.runtime.pattern import Negated, Pattern
from sase.runtime.stream.bucket import Bucket, Step, StreamTask
from sase.runtime.stream.ssc import Stream
from sase.runtime.stream.watch import Options, watch
from sase.runtime.stream.worker import EPOCH, BucketWorker, cell

PLANS: dict[str, dict[str, Any]] = {
    "a stream": {},
    "negation outside the kernel": {"negation": "anti-join"},
    "the basic plan": {"disable": NAMES},
    "tests in selection": {"equivalence": "selection"},
    "Multi-PAIS": {"equivalence": "multi-pais"},
}
SCHEDULES = 3


def answers(spark: SparkSession, case: Case, plan: str, seed: int) -> dict[str, DataFrame]:
    """The answers of a plan on several schedules of the same events: those that differ before Spark goes on with them,
    for which the order counts only where it has to choose."""
    query = sase.compile(case.query, case.catalog, stream=True, **PLANS[plan])
    events = frame(spark, case)
    stream: Stream = query.module.follow(events, Options())
    if stream.task is None:
        return {plan: stream.matches()}
    remembered = query.compiled.physical.only(Remember)
    assert remembered is not None
    assert sorted(Bucket(stream.task).columns) == list(remembered.columns), "what a checkpoint is named by"
    relevant_rows = relevant(query, events)
    unit = 1 if query.module.SOURCE.time_kind == "integer" else 60_000_000
    found: dict[str, DataFrame] = {}
    known: list[Counter[str]] = []
    for number in range(SCHEDULES):
        random = Random(seed + number)
        delay = random.choice([0, 1, 4, 20]) * unit
        batches = shuffled(relevant_rows.column(stream.task.time).to_pylist(), delay, random)
        run = follow(stream.task, relevant_rows, batches, delay, ahead=bool(number % 2))
        assert not run.late
        assert run.state_rows[-1] == 0, "what nothing can reach any more is forgotten"
        bag = Counter(repr(row) for matches in run.matches for row in matches.to_pylist())
        if stream.task.candidates is not None or bag not in known:
            found[f"{plan}, {number}"] = stream.finish(table(spark, run.matches, stream))
        known.append(bag)
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
    # In one partition, as the matches of a bucket are: what is chosen among them is chosen in their order.
    return spark.createDataFrame(pa.Table.from_batches(batches), stream.found).coalesce(1)


@settings(max_examples=tries(6))
@given(case=cases(windowed=True), plan=st.sampled_from(list(PLANS)), seed=st.integers(0, 10**6))
def test_a_stream_gives_the_answer_of_the_judge(spark: SparkSession, case: Case, plan: str, seed: int) -> None:
    compare(case, answers(spark, case, plan, seed))


def test_traps(spark: SparkSession) -> None:
    """All queries in one Spark job."""
    windowed = [query if "WITHIN" in query else f"{query} WITHIN 100" for query, _ in TRAPS]
    traps = [Case(query, TRAP_CATALOG, TRAP_EVENTS) for query in windowed]
    expected: dict[str, Counter[Any]] = {}
    found: dict[str, DataFrame] = {}
    for place, case in enumerate([*traps, *EDGE_CASES, FLOAT_CASE]):
        plan = "negation outside the kernel" if "!" in case.query and place % 2 else "a stream"
        for name, answer in answers(spark, case, plan, place).items():
            found[f"{case.query}: {name}"] = answer.select(F.to_json(F.struct("*")).alias("match"))
            expected[f"{case.query}: {name}"] = Counter(
                json.dumps(_without_null(match), sort_keys=True) for match in evaluate(*case)
            )
    bags: dict[str, Counter[Any]] = {name: Counter() for name in found}
    for name, row in collect(found):
        bags[name][json.dumps(json.loads(row["match"]), sort_keys=True)] += 1
    assert bags == expected


def _without_null(value: Any) -> Any:
    return {k: _without_null(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


# ---- without Spark: a stream of one table, whose state bits are its types --------------------------


def task(pattern: Pattern, **more: Any) -> StreamTask:
    """A, B and C fill the first, second and third variable."""
    options: dict[str, Any] = {"outside": (), "limit": None, "shown": ("type", "time"), "by": ("id",), **more}
    emit = tuple((variable, ("time",)) for variable in pattern.positive)
    return StreamTask(
        pattern=pattern, time="time", order=None, states="states", emit=emit, batch_rows=1000, chunk_rows=0, jit=True,
        **options,
    )  # fmt: skip


def rows(*events: tuple[str, int, int]) -> pa.Table:
    types, times, ids = zip(*events, strict=True)
    states = [1 << "ABC".index(name) for name in types]
    return pa.table({"type": types, "time": times, "id": ids, "states": pa.array(states, pa.int64())})


def found(step: Step) -> list[tuple[int, ...]]:
    return [tuple(event["time"] for event in row.values()) for batch in step.matches for row in batch.to_pylist()]


MIDDLE = Pattern(("x", "z"), (Negated("y", "x", "z"),), within=10)
TRAILING = Pattern(("x", "z"), (Negated("y", "z", None),), within=10)


def test_a_match_comes_out_as_soon_as_its_last_event_is_released() -> None:
    bucket = Bucket(task(MIDDLE))
    step = bucket.advance(None, rows(("A", 1, 7), ("B", 5, 7), ("B", 6, 7)), 0)
    assert (found(step), step.wake) == ([], 6)
    step = bucket.advance(step.state, None, 5)
    assert (found(step), step.wake) == ([], 6), "at the watermark, more events of that time may come"
    step = bucket.advance(step.state, None, 6)
    assert (found(step), step.wake) == ([(1, 5)], 7)
    step = bucket.advance(step.state, rows(("C", 6, 7)), 6)
    step = bucket.advance(step.state, None, 7)
    assert found(step) == [(1, 6)], "neither is before the other"


def test_a_trailing_negation_is_decided_at_the_end_of_its_window() -> None:
    bucket = Bucket(task(TRAILING))
    step = bucket.advance(None, rows(("A", 1, 7), ("B", 5, 7), ("A", 2, 8), ("B", 3, 8)), 0)
    step = bucket.advance(step.state, rows(("C", 10, 7)), 6)
    assert (found(step), step.wake) == ([], 11)
    step = bucket.advance(step.state, None, 11)
    assert (found(step), step.wake) == ([], 12), "there was a C at 10"
    step = bucket.advance(step.state, rows(("C", 12, 8)), 12)
    assert found(step) == [(2, 3)], "a C at 12 is past its window, and no event of that key is needed to know"


def test_a_leading_negation_is_remembered_while_a_trailing_one_is_waited_for() -> None:
    """C at 1 forbids (4, 5), whose window ends long after that of C: it is forgotten two windows later, no sooner."""
    both = Pattern(("x", "z"), (Negated("y", None, "x"), Negated("w", "z", None)), within=5)
    bucket = Bucket(task(both))
    step = bucket.advance(None, rows(("C", 1, 7), ("A", 4, 7), ("B", 5, 7), ("B", 8, 7)), 0)
    for watermark in (5, 6, 8):
        step = bucket.advance(step.state, None, watermark)
        assert found(step) == []
    step = bucket.advance(step.state, None, 9)
    assert found(step) == [(4, 8)]


def test_late_events_are_returned_and_change_nothing() -> None:
    bucket = Bucket(task(MIDDLE))
    step = bucket.advance(None, rows(("A", 4, 7)), 3)
    step = bucket.advance(step.state, rows(("C", 4, 7), ("B", 6, 7), ("B", 5, 7)), 5)
    assert step.late is not None and step.late.to_pylist() == [{"type": "C", "time": 4}], "at the watermark is in time"
    assert found(bucket.advance(step.state, None, 9)) == [(4, 5), (4, 6)]


def test_a_key_with_too_many_events_is_named() -> None:
    bucket = Bucket(task(MIDDLE, limit=2))
    step = bucket.advance(None, rows(("A", 4, 7), ("A", 4, 8), ("A", 5, 8)), 3)
    with pytest.raises(SaseRunError, match="3 events of id=8 are waiting in the window: raise --max-window"):
        bucket.advance(step.state, rows(("B", 6, 8)), 3)


def test_events_that_can_no_longer_take_part_are_forgotten() -> None:
    bucket = Bucket(task(MIDDLE))
    step = bucket.advance(None, rows(("A", 1, 7), ("B", 5, 7), ("A", 6, 8)), 0)
    step = bucket.advance(step.state, None, 7)
    assert step.state is not None and step.state.column("time").to_pylist() == [1, 6], "the B has been reported"
    step = bucket.advance(step.state, None, 11)
    assert step.state is not None and step.state.column("time").to_pylist() == [6]
    step = bucket.advance(step.state, None, 16)
    assert (step.state, step.wake) == (None, None)


class Worked:
    """What Spark does with a worker: a state and a timer, of which it knows when it expires."""

    def __init__(self, told: StreamTask) -> None:
        self.told = told
        self.events, self.timer, self.timers = Value(), Value(), Timers()

    def step(self, arrived: pa.Table | None, watermark: int, name: str = "this") -> dict[str, int]:
        timer, now = self.timer, watermark + EPOCH
        cells = [] if arrived is None else [cell(arrived)]
        frame = pd.DataFrame({"kind": ["events"] * len(cells), "size": len(cells) and arrived.num_rows, "rows": cells})
        expired = bool(timer.value) and timer.value[0] <= now
        self.timers.difference_update({at for at in self.timers if at <= now})
        worker = BucketWorker(self.told, name, "integer")
        rows = worker.step(self.timers, self.events, timer, 0, [frame], now, expired and arrived is None)
        return pd.concat(rows).groupby("kind")["size"].sum().to_dict()


def test_a_worker_keeps_every_state_and_refuses_that_of_another_query() -> None:
    worked = Worked(task(TRAILING))
    step, timers = worked.step, worked.timers
    assert step(rows(("A", 1, 7)), 0) == {"state": 1}
    assert step(rows(("B", 3, 7), ("B", 4, 7)), 2) == {"state": 3}
    assert timers == {11 + EPOCH}
    with pytest.raises(SaseRunError, match="the checkpoint holds the state of another query"):
        step(None, 3, "that")
    assert step(rows(("B", 4, 7)), 5) == {"state": 3, "rejected": 1}
    assert step(None, 11) == {"match": 2, "state": 2}
    assert timers == {14 + EPOCH}
    assert step(None, 14) == {"state": 0}
    assert (worked.events.value, worked.timer.value, timers) == (None, None, set())
    assert BucketWorker(task(TRAILING), "", "timestamp")._moment(1_001) == 2, "in milliseconds, and not before its time"


def test_a_bucket_may_work_behind_the_watermark() -> None:
    """Where results that it reads may be late; events are not, and time goes by the watermark for them."""
    worked = Worked(replace(task(TRAILING), behind=5))
    step, timers = worked.step, worked.timers
    assert step(rows(("A", 1, 7), ("B", 3, 7)), 0) == {"state": 2}
    assert step(rows(("B", 4, 7)), 5) == {"state": 2, "rejected": 1}
    assert timers == {11 + 5 + EPOCH}
    assert step(None, 16)["match"] == 1


def test_the_state_is_flat_over_many_windows() -> None:
    """A million events, 1,000 keys, 500 windows: never more than what two windows and the delay hold."""
    random = np.random.default_rng(0)
    bucket, state, watermark = Bucket(task(TRAILING)), None, -1
    sizes, matches, batch = [], 0, 20_000
    for start in range(0, 1_000_000, batch):
        time = start + random.integers(0, batch, batch)  # in any order
        states = np.choose(random.integers(0, 3, batch), [1, 2, 4]).astype(np.int64)
        events = {"type": ["E"] * batch, "time": time, "id": random.integers(0, 1000, batch), "states": states}
        step = bucket.advance(state, pa.table(events), watermark)
        matches += sum(found.num_rows for found in step.matches)
        step = bucket.advance(step.state, None, start + batch)
        matches += sum(found.num_rows for found in step.matches)
        state, watermark = step.state, start + batch
        sizes.append(0 if state is None else state.num_rows)
    assert matches > 0
    assert max(sizes) <= 40, "about one event a tick, and a window of 10"
