"""Spans of time and the row groups that their tasks read: whatever a match needs is read by its owner."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sase.runtime import spans as spans_module
from sase.runtime.operator.matcher import Task
from sase.runtime.operator.reading import SPAN, File, Reading, RowGroup, Span, packed, present
from sase.runtime.pattern import Pattern
from sase.runtime.spans import shares, spans
from sase.runtime.zones import FOREVER


def groups(random: Random, mixed: int) -> list[RowGroup]:
    """Row groups of a few events each, nearly in the order of time, in two files."""
    found = []
    for number in range(random.randint(1, 30)):
        first = max(0, number * 10 + random.randint(-mixed, mixed))
        found.append(RowGroup(number % 2, number // 2, first, first + random.randint(0, 12), random.randint(1, 9)))
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_module, "A_SPAN", 10)
    monkeypatch.setattr(spans_module, "AGAIN", 3.0)


@pytest.mark.parametrize("seed", range(40))
def test_an_owner_reads_whatever_is_in_reach(seed: int, small: None) -> None:
    random = Random(seed)
    there = groups(random, mixed=random.choice([0, 3, 20]))
    back, ahead = random.randint(1, 25), random.choice([0, 0, random.randint(1, 25)])
    found = spans(there, back, ahead, cores=random.randint(1, 3))
    if found is None:
        return
    assert found[0].start == -FOREVER and found[-1].end == FOREVER
    assert all(one.end == other.start for one, other in pairwise(found)), "each time has one owner"
    for last in range(320):
        owner = next(span for span in found if span.start <= last < span.end)
        near = {group for group in there if group.last > last - back and group.first < last + max(1, ahead)}
        assert near <= set(owner.groups)


def test_events_are_shared_out_evenly_and_row_groups_are_read_at_most_twice(small: None) -> None:
    there = [RowGroup(0, number, 100 * number, 100 * number + 99, 5) for number in range(16)]
    found = spans(there, back=50, ahead=0, cores=2)
    assert found is not None
    assert [len(span.groups) for span in found] == [2, *[3] * 7], "two of its own, and the one before"


def test_a_window_at_its_bound_reaches_no_further(small: None) -> None:
    there = [RowGroup(0, number, 100 * number, 100 * number + 99, 10) for number in range(4)]
    found = {back: spans(there, back, 0, 2) for back in (1, 2, 101, 102)}
    assert {back: [len(span.groups) for span in each or ()][2] for back, each in found.items()} == {
        1: 1,  # nothing is less than 1 before
        2: 2,
        101: 2,
        102: 3,
    }


def test_files_in_no_order_are_not_read_by_workers() -> None:
    anywhere = [RowGroup(0, number, 0, 1_000, 1_000_000) for number in range(8)]
    assert spans(anywhere, back=10, ahead=0, cores=2) is None
    whole = Span(-FOREVER, FOREVER, -FOREVER - 9, FOREVER, tuple(anywhere))
    assert spans(anywhere, back=10, ahead=0, cores=1) == [whole]


def test_row_groups_are_shared_out_by_their_events(small: None) -> None:
    there = [RowGroup(number % 3, number, -number, 5, 1 + number % 4) for number in range(16)]
    found = shares(there, cores=2)
    assert found is not None
    assert [sum(group.events for group in share.groups) for share in found] == [10, 10, 10, 10]
    assert [group for share in found for group in share.groups] == there
    assert {(share.start, share.end, share.since, share.until) for share in found} == {2 * (-FOREVER, FOREVER)}


def test_fewer_row_groups_than_cores_are_left_to_spark() -> None:
    assert shares([RowGroup(0, 0, 0, 9, 10)], cores=2) is None
    assert shares([], cores=1) is None


@pytest.mark.parametrize("ahead", [0, 4])
def test_each_event_is_the_last_one_in_one_span_and_lent_to_those_in_reach(
    tmp_path: Path, small: None, ahead: int
) -> None:
    """Times at which spans begin and end among them: a worker reads what Spark would have handed to it."""
    times, back, files, there = list[int](), 5, list[File](), list[RowGroup]()
    for file, since in enumerate((0, 3)):  # so a span may begin in the middle of a row group
        times += range(since, since + 48)
        pq.write_table(
            pa.table({"type": ["A"] * 48, "ts": times[-48:]}), tmp_path / f"{file}.parquet", row_group_size=6
        )
        files.append(File.at(str(tmp_path / f"{file}.parquet")))
        there += [RowGroup(file, at, since + 6 * at, since + 6 * at + 5, 6) for at in range(8)]
    found = spans(there, back, ahead, cores=2)
    assert found is not None and len(found) > 2
    own, lent = 3, 1
    reading = Reading(
        files=tuple(files),
        reads=("type", "ts"),
        words=("type",),
        type="type",
        time="ts",
        where=(),
        columns={"ts": ("column", "ts"), "states": ("value", own)},
        states="states",
        lent=("value", lent),
        slice=None,
        sound=(),
        counts=None,
    )
    task = Task(Pattern(("x", "y")), (), "ts", None, "states", (), 1, 1, False, code="ts")
    schema = pa.schema({"ts": pa.int64(), "states": pa.int64(), SPAN: pa.binary()})
    owned, borrowed = Counter[int](), Counter[int]()
    for number, span in enumerate(found):
        cell = pa.RecordBatch.from_pylist([{SPAN: packed(reading, span, number)}], schema)
        rows = [row for batch in present(task, ["ts", "states"], iter([cell])) for row in batch.to_pylist()]
        owned.update(row["ts"] for row in rows if row["states"] == own)
        borrowed.update(row["ts"] for row in rows if row["states"] == lent)
        assert {row["ts"] for row in rows} == {
            time for time in times if span.start - back < time < span.end + max(0, ahead - 1)
        }
    assert owned == Counter(times)
    cuts = [span.start for span in found[1:]]
    assert borrowed == Counter(
        time for cut in cuts for time in times if cut - back < time < cut or cut <= time < cut + max(0, ahead - 1)
    )
