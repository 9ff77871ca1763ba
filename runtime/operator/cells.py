"""Rows on their way to the worker of their key: as Arrow, in a few binary cells.

Spark makes a row of every event that it shuffles, and copies each byte of it half a dozen times: 400 ns of CPU, where
to read an event takes a worker 75. So workers that read events themselves also say where these go, and Spark has a row
for some ten thousand of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sase.runtime.kernels.murmur import murmur3

CELL_BYTES = 128 << 10
"""About how much a cell holds."""
WIDE = b"wide"
"""Marks a column of 64-bit integers that is on its way in fewer bits."""
_TOGETHER = (8 << 20, 32 << 20)
"""The least and the most bytes of events that are dealt out at a time, of which there are then three copies. Of less,
cells would be small; more come one by one from memory that is far away."""


@dataclass(frozen=True)
class Dealing:
    """Where rows go: those of a key to one of the places, which have numbers that Spark spreads evenly."""

    by: tuple[str, ...]
    places: tuple[int, ...]
    jit: bool


def dealt(dealing: Dealing, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of (place, cell) for all rows of the batches."""
    waiting: list[pa.RecordBatch] = []
    size, (least, most) = 0, _TOGETHER
    enough = min(most, max(least, len(dealing.places) * CELL_BYTES))
    for batch in batches:
        for part in cut(batch, enough):
            waiting.append(part)
            size += part.nbytes
            if size >= enough:
                yield _dealt(dealing, waiting)
                waiting, size = [], 0
    if any(batch.num_rows for batch in waiting):
        yield _dealt(dealing, waiting)


def _dealt(dealing: Dealing, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    rows = pa.Table.from_batches(batches).combine_chunks()
    batches.clear()
    places = len(dealing.places)
    keys = [pa.concat_arrays(column.chunks) for column in map(rows.column, dealing.by)]
    place = murmur3(keys, dealing.jit) % places  # of keys as they are: the hash of fewer bits is another one
    short = place.astype(np.uint8 if places <= 1 << 8 else np.uint16 if places <= 1 << 16 else np.uint32)
    order = np.argsort(short, kind="stable")  # up to 16 bits, by counting
    ends = np.cumsum(np.bincount(place, minlength=places))
    (batch,) = narrowed(rows).take(pa.array(order)).combine_chunks().to_batches()
    labels, parts, begin = list[int](), list[pa.RecordBatch](), 0
    step = fitting(CELL_BYTES, batch)
    for label, end in zip(dealing.places, ends.tolist(), strict=True):
        for start in range(begin, end, step):
            labels.append(label)
            parts.append(batch.slice(start, min(step, end - start)))
        begin = end
    return pa.RecordBatch.from_arrays([pa.array(labels, pa.int32()), cells(parts)], names=["place", "cell"])


def cut(rows: pa.RecordBatch | pa.Table, size: int) -> Iterator[pa.RecordBatch | pa.Table]:
    """In parts of about so many bytes."""
    step = fitting(size, rows)
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def fitting(size: int, rows: pa.RecordBatch | pa.Table) -> int:
    """As many of such rows as take about so many bytes, but one at least."""
    return max(1, size * int(rows.num_rows) // max(1, int(rows.nbytes)))


def cells(parts: Sequence[pa.RecordBatch]) -> pa.Array:
    """A cell for each part. They are written behind each other, and nothing is copied once more."""
    sink, ends = pa.BufferOutputStream(), [0]
    for part in parts:
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_batch(part)
        ends.append(sink.tell())
    offsets = pa.py_buffer(np.array(ends, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(parts), [None, offsets, sink.getvalue()])


def narrowed(rows: pa.Table) -> pa.Table:
    """Integers of 64 bits in the 8 or 32 that they need."""
    for at, field in enumerate(rows.schema):
        column = rows.column(at)
        if field.type != pa.int64() or column.null_count == rows.num_rows:
            continue
        low, high = pc.min_max(column).as_py().values()
        for kind in (pa.int8(), pa.int32()):
            if max(~low, high) >> (kind.bit_width - 1) == 0:
                rows = rows.set_column(at, field.with_type(kind).with_metadata({WIDE: b"64 bits"}), column.cast(kind))
                break
    return rows


def opened(cell: bytes | pa.Buffer) -> pa.Table:
    """The rows of a cell, as they were."""
    table = pa.ipc.open_stream(cell).read_all()
    for at, field in enumerate(table.schema):
        if WIDE in (field.metadata or {}):
            table = table.set_column(at, field.with_type(pa.int64()).remove_metadata(), table[at].cast(pa.int64()))
    return table
