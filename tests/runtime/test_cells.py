"""Events in cells, on their way into a bucket of a stream, or to the worker of their key."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sase.runtime.operator import cells
from sase.runtime.operator.cells import Dealing, dealt, opened
from sase.runtime.stream.cells import packer
from sase.runtime.stream.watch import Columns

OURS = Columns(time="_time", states="_states", reason="_reason", record="_record", clock="_clock", bucket="_bucket")
BYTES, WORDS = 1 << 7, 1 << 31


def test_what_is_packed_comes_out_as_it_was() -> None:
    """At the ends of the numbers that fit into fewer bits, and one beyond, whatever other cells hold."""
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            *(pa.field(name, pa.int64()) for name in ("_time", "_states", "n", "none")),
            *(("small", pa.int32()), ("moment", pa.timestamp("us", "UTC")), ("_reason", pa.string())),
            *(("_record", pa.string()), ("_bucket", pa.int32())),
        ]
    )
    events = [
        [-BYTES, -WORDS, 1, None, None, 7, 5, None, None, 3],
        [BYTES - 1, WORDS - 1, -1 << 63, 5, None, None, 6, None, None, 70_000],
        [0, 0, (1 << 63) - 1, None, None, 8, None, None, None, 3],
        [-BYTES - 1, 1, 4, BYTES, None, 1, 1, None, None, 3],
        [0, -WORDS - 1, 4, -WORDS, None, 1, 1, None, None, 3],
        [WORDS, WORDS, 4, None, None, 1, 1, None, None, 70_000],
    ]
    names = schema.names[:-1]
    sent = {}
    for rows in (events[:3], events[3:]):  # in one micro-batch, by two tasks
        batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        numbered = batch.rename_columns([str(at) for at in range(len(schema))])
        for packed in packer(names, (), OURS, None)(iter([numbered])):
            for bucket, kind, size, cell in zip(*(column.to_pylist() for column in packed.columns), strict=True):
                assert kind == "events" and size == opened(cell).num_rows
                sent.setdefault(bucket, []).append(cell)
    kept = [name for name in names if name not in ("_reason", "_record")]
    for bucket in (3, 70_000):
        expected = [dict(zip(schema.names, row, strict=True)) for row in events if row[-1] == bucket]
        whole = pa.Table.from_pylist(expected, schema).select(kept)
        assert pa.concat_tables(map(opened, sent[bucket])).equals(whole)
    narrow = pa.ipc.open_stream(sent[3][0]).read_all()
    assert narrow.schema.field("id").type == pa.int8() and narrow.schema.field("_time").type == pa.int32()
    assert narrow.schema.field("_states").type == pa.int64()
    assert narrow.schema.field("n").type == pa.int8(), "the NULLs beside a number need none of its bits"


KEYS: dict[str, list[Any]] = {
    "n": [None, 0, -1, 5, BYTES, -BYTES, WORDS, -WORDS - 1, 1 << 40, (1 << 63) - 1],
    "word": [None, "", "a", "é", "user-1", "user-2"],
    "small": [None, 0, 7, -7],
}


@pytest.mark.parametrize("by", [("n",), ("word",), ("small", "word"), ("n", "word", "small")])
@pytest.mark.parametrize("places", [(4,), (0, 9, 2), tuple(range(300))])
def test_rows_of_a_key_are_dealt_to_one_place(
    by: tuple[str, ...], places: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By several workers, to some of which all numbers come small."""
    monkeypatch.setattr(cells, "CELL_BYTES", 64)
    monkeypatch.setattr(cells, "_TOGETHER", (1024, 1024))
    random = Random(f"{by}{places}")
    schema = pa.schema({"n": pa.int64(), "word": pa.string(), "small": pa.int32(), "number": pa.int64()})
    there = defaultdict[int, list[dict[str, Any]]](list)
    sent = []
    for least in (10, 4, 10):  # how many of the numbers a worker meets
        rows = [
            {"n": random.choice(KEYS["n"][:least]), "word": random.choice(KEYS["word"]),
             "small": random.choice(KEYS["small"]), "number": random.choice([len(sent), 1 << 33])}
            for _ in range(100)
        ]  # fmt: skip
        sent += rows
        batches = [pa.RecordBatch.from_pylist(rows[at : at + 15], schema) for at in range(0, 100, 15)]
        for batch in dealt(Dealing(by, places, True), batches):
            for place, cell in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                table = opened(cell.as_buffer())
                assert table.schema.equals(schema)
                there[place] += table.to_pylist()
    homes = defaultdict[tuple[Any, ...], set[int]](set)
    for place, rows in there.items():
        for row in rows:
            homes[tuple(row[name] for name in by)].add(place)
    assert {len(home) for home in homes.values()} == {1}
    assert set(there) <= set(places) and (len(there) > 1 or len(places) == 1)
    assert sorted(map(str, sent)) == sorted(str(row) for rows in there.values() for row in rows)


def test_wide_rows_are_dealt_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_TOGETHER", (1 << 16, 1 << 16))
    rows = pa.record_batch({"n": pa.array(range(1000)), "text": pa.array([f"{n:01000}" for n in range(1000)])})
    found = list(dealt(Dealing(("n",), (0, 1), True), [rows]))
    assert len(found) > 5 and all(batch.nbytes < 4 << 16 for batch in found)
    tables = [opened(cell.as_buffer()) for batch in found for cell in batch.column("cell")]
    assert sorted(pa.concat_tables(tables).column("n").to_pylist()) == list(range(1000))


def test_nothing_is_dealt_of_nothing() -> None:
    schema = pa.schema({"n": pa.int64()})
    none = pa.RecordBatch.from_pylist([], schema)
    assert list(dealt(Dealing(("n",), (0, 1), True), [none, none])) == []
