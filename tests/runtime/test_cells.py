"""Events in cells, on their way into a bucket."""

from __future__ import annotations

import pyarrow as pa

from sase.runtime.stream.cells import packer
from sase.runtime.stream.watch import Columns
from sase.runtime.stream.worker import opened

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
        for cells in packer(names, (), OURS, None)(iter([numbered])):
            for bucket, kind, size, cell in zip(*(column.to_pylist() for column in cells.columns), strict=True):
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
