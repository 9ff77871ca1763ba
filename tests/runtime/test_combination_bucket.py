"""A stream of combinations finds what a brute force finds, when it is due, however the events are cut."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from combinations import judge, number, streamed
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import Timers, Value, follow, shuffled
from test_combinations import answer, bindings_of, chosen, is_accepted
from test_kernel import SCHEMA, random_rows

from sase.runtime.pattern import Apart, Branch, Combination, Earliest, Group
from sase.runtime.stream.bucket import Bucket, Step, StreamTask
from sase.runtime.stream.worker import EPOCH, BucketWorker, cell


def stream_task(pattern: Combination, **changes: Any) -> StreamTask:
    emit = tuple((variable, ("number",)) for variable in (*pattern.positive, *pattern.collected))
    task = StreamTask(
        pattern, ("key",), "time", "seq", "states", emit, batch_rows=64, chunk_rows=0, jit=True,
        started="started", detected="detected", shown=("number",), groups=bindings_of(pattern),
        candidates="candidate" if pattern.deferred else None,
    )  # fmt: skip
    return replace(task, **changes)


@settings(max_examples=settings().max_examples)
@given(streamed(), st.integers(0, 2**32))
def test_same_matches_as_a_brute_force_when_they_are_due(pattern: Combination, seed: int) -> None:
    random = Random(seed)
    order = random.choice(["seq", None])
    rows = random_rows(pattern, random.choice([6, 10, 16]), seed)
    if order is None:
        rows = [{**row, "seq": 0} for row in rows]
    delay = random.choice([0, 1, 4, 20])
    batches = shuffled([row["time"] for row in rows], delay, random)

    results = random.choice([[], [at for at in range(len(rows)) if random.random() < 0.4]])
    batches = [[row for row in batch if row not in results] for batch in batches]
    ahead = not results and random.random() < 0.5
    task = stream_task(pattern, order=order)
    run = follow(task, pa.Table.from_pylist(rows, SCHEMA), batches, delay, results, ahead)

    expected = judge(pattern, rows)
    found = [(match, at) for some, at in zip(run.matches, run.found_at, strict=True) for match in some.to_pylist()]
    answers = [(answer(match), at) for match, at in found]
    assert Counter(each for each, _ in answers) == Counter((m.events, m.started, m.detected) for m in expected)
    if not pattern.select and not pattern.exclusive:  # else a match may wait for others of its moment
        due = {(m.events, m.started, m.detected): m.due for m in expected}
        assert all(at == min(each for each in run.watermarks if each >= due[match]) for match, at in answers)
    assert not run.late
    assert run.state_rows[-1] == 0, "what nothing can reach any more is forgotten"


@given(streamed(), st.integers(0, 2**32))
def test_what_is_left_to_decide_is_decided_before_the_choice(pattern: Combination, seed: int) -> None:
    """All that a choice is among is due in one micro-batch. What is used up would be known too late."""
    pattern = replace(pattern, exclusive=False, deferred=True)
    random = Random(seed)
    rows = random_rows(pattern, random.choice([6, 10, 16]), seed)
    batches = shuffled([row["time"] for row in rows], 4, random)
    run = follow(stream_task(pattern), pa.Table.from_pylist(rows, SCHEMA), batches, 4, ahead=random.random() < 0.5)
    expected = judge(pattern, rows, lambda branch, bound: is_accepted(branch, map(number, bound.values())))
    batches_of: dict[int, list[pa.RecordBatch]] = {}
    for at, matches in zip(run.found_at, run.matches, strict=True):
        batches_of.setdefault(at, []).append(matches)
    found = [each for some in batches_of.values() for each in chosen(pattern, some)]
    assert Counter(found) == Counter((each.events, each.started, each.detected) for each in expected)


BESIDE = Combination(
    (
        Branch(
            ("a", "b"), apart=(Apart("a", "b", 10), Apart("b", "a", 10)), instant=Earliest(10),
            groups=(Group(("c",), apart=tuple(Apart(u, v, 10) for u, v in ("ac", "ca", "bc", "cb"))),),
        ),
    )
)  # fmt: skip
"""AND(A a, B b, NOT C c) WITHIN 10: decided 10 after the earlier of the two."""

TYPED = pa.schema({"time": pa.int64(), "id": pa.int64(), "states": pa.int64()})


def events(*named: str) -> pa.Table:
    """Of one key: "a3" is an event of a at 3."""
    states = [1 << "abc".index(name[0]) for name in named]
    return pa.table([[int(name[1:]) for name in named], [7] * len(named), states], schema=TYPED)


def task_of(pattern: Combination) -> StreamTask:
    emit = tuple((variable, ("time",)) for variable in pattern.positive)
    return StreamTask(
        pattern, ("id",), "time", None, "states", emit, batch_rows=1000, chunk_rows=0, jit=True, shown=("time",)
    )  # fmt: skip


def test_an_open_group_is_decided_when_the_watermark_reaches_its_end() -> None:
    bucket = Bucket(task_of(BESIDE))

    def found(step: Step) -> list[tuple[int, ...]]:
        return [tuple(event["time"] for event in row.values()) for each in step.matches for row in each.to_pylist()]

    step = bucket.advance(None, events("b1", "a3", "a30", "c39", "b41"), 0)
    assert (found(step), step.wake) == ([], 11)
    step = bucket.advance(step.state, None, 10)
    assert (found(step), step.wake) == ([], 11), "a C at 10 may still come"
    step = bucket.advance(step.state, None, 11)
    assert (found(step), step.wake) == ([(3, 1)], 13)
    step = bucket.advance(step.state, events("b32"), 20)
    assert (found(step), step.wake) == ([], 40)
    step = bucket.advance(step.state, None, 40)
    assert found(step) == [], "c39 is less than 10 after a30"
    assert step.state is not None and step.state.column("time").to_pylist() == [39, 41, 32], "what a match may yet meet"


def test_a_state_that_is_read_again_knows_when_it_was_left() -> None:
    """What was due before a restart has been reported. A state goes through bytes, and each call has its own worker."""
    stored, timer, timers = Value(), Value(), Timers()

    def step(arrived: pa.Table | None, watermark: int) -> dict[str, int]:
        cells = [] if arrived is None else [cell(arrived)]
        frame = pd.DataFrame({"kind": ["events"] * len(cells), "size": len(cells) and arrived.num_rows, "rows": cells})
        if arrived is None:
            timers.difference_update({at for at in timers if at <= watermark + EPOCH})
        worker = BucketWorker(task_of(BESIDE), "this", "integer")
        rows = worker.step(timers, stored, timer, 0, [frame], watermark + EPOCH, arrived is None)
        return pd.concat(rows).groupby("kind")["size"].sum().to_dict()

    assert step(events("a1", "b3"), 0) == {"state": 2}
    assert step(events("b14"), 11) == {"match": 1, "state": 2}
    assert step(events("a15"), 12) == {"state": 3}
    assert step(None, 24) == {"match": 1, "state": 1}
    assert step(None, 25) == {"state": 0}
    assert (stored.value, timer.value, timers) == (None, None, set())


def test_the_state_is_flat_over_many_windows() -> None:
    random = np.random.default_rng(0)
    bucket, state, watermark = Bucket(task_of(BESIDE)), None, -1
    sizes, matches, batch = [], 0, 20_000
    for start in range(0, 400_000, batch):
        time = start + random.integers(0, batch, batch)  # in any order
        states = np.choose(random.integers(0, 3, batch), [1, 2, 4]).astype(np.int64)
        arrived = pa.table([time, random.integers(0, 1000, batch), states], schema=TYPED)
        step = bucket.advance(state, arrived, watermark)
        matches += sum(found.num_rows for found in step.matches)
        step = bucket.advance(step.state, None, start + batch)
        matches += sum(found.num_rows for found in step.matches)
        state, watermark = step.state, start + batch
        sizes.append(0 if state is None else state.num_rows)
    assert matches > 0
    assert max(sizes) <= 50, "about one event a tick, and two windows of 10"


def test_a_stream_without_a_window_is_refused() -> None:
    with pytest.raises(ValueError, match=r"events of \['a', 'b'\] are of no more use: a stream needs a window"):
        Bucket(task_of(Combination((Branch(("a", "b")),))))
