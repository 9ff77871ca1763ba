"""Rows as Arrow in binary cells, on their way into a bucket and out of one.

The functions for `mapInArrow` are pickled by value, without an object of this package, as in `ssc.scan_and_construct`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sase.runtime.executors import from_package
from sase.runtime.operator.cells import CELL_BYTES
from sase.runtime.ssc import Worker
from sase.runtime.stream.watch import Columns

PACKED = "bucket int, kind string, size long, rows binary"
"""What comes out of a bucket: `size` rows of matches or of rejected events; or, of kind `state`, how many events it
remembers now. What goes in are events, and of kind `clock`, the latest time among them."""


_numbers = count(1)


def packer(
    names: Sequence[str],
    shown: tuple[str, ...],
    columns: Columns,
    match: tuple[str, tuple[str, ...]] | None,
    told: Sequence[int] = (),
    bootstrap: Callable[[], None] | None = None,
) -> Worker:
    """A function for `mapInArrow`: many rows in, a few cells per bucket out. The last column is the bucket.

    With `match`, events are matches of one variable, and there is no bucket. The buckets of `told` are told the latest
    time of all that comes from here.
    """
    names, reason, record, most = list(names), columns.reason, columns.record, CELL_BYTES
    time, told = columns.time, list(told)
    load = from_package("sase.runtime.operator.cells", "narrowed", bootstrap)

    def pack(batches: Iterator[pa.RecordBatch], latest: list[int] | None = None) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        def cell(part: pa.RecordBatch) -> bytes:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema) as writer:
                writer.write_batch(part)
            value: bytes = sink.getvalue().to_pybytes()
            return value

        def structs(table: pa.Table, names: list[str]) -> pa.Array:
            table = table.select(names).combine_chunks()
            arrays = [column.chunk(0) for column in table.columns]
            return pa.StructArray.from_arrays(arrays, names=names)

        def packed(bucket: int, kind: str, table: pa.Table) -> pa.RecordBatch:
            step = max(1, most * table.num_rows // max(1, table.nbytes))
            whole = table.combine_chunks().to_batches()  # a slice of a table takes longer
            parts = [batch.slice(begin, step) for batch in whole for begin in range(0, batch.num_rows, step)]
            return filled([bucket] * len(parts), kind, [part.num_rows for part in parts], map(cell, parts))

        def filled(buckets: list[int], kind: str, sizes: list[int], cells: Iterable[bytes | None]) -> pa.RecordBatch:
            values = zip((buckets, [kind] * len(buckets), sizes, cells), kinds, strict=True)
            arrays = [pa.array(value, type_) for value, type_ in values]
            return pa.RecordBatch.from_arrays(arrays, names=["bucket", "kind", "size", "rows"])

        def rows(waiting: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            table = pa.Table.from_batches(waiting)
            bucket = None if match is not None else table.column(len(names)).to_numpy()
            table = table.select(list(range(len(names)))).rename_columns(names)
            good = table.column(reason).is_null().to_numpy()
            if not good.all():
                if shown:  # else another stream tells of them
                    bad = table.filter(~good)
                    parts = [bad.column(reason).combine_chunks(), bad.column(record).combine_chunks()]
                    parts.append(structs(bad, list(shown)))
                    yield packed(0, "rejected", pa.table(parts, ["reason", "record", "event"]))
                table = table.filter(good)
            if not table.num_rows:
                return
            if bucket is None:
                variable, emitted = match  # type: ignore[misc]
                yield packed(0, "match", pa.table([structs(table, list(emitted))], [variable]))
                return
            if told:
                seen.append(pc.max(table.column(time)).as_py())
            bucket = bucket[good]
            short = bucket.astype(np.uint16) if bucket.max() < 1 << 16 else bucket  # 16 bits are sorted by counting
            order = np.argsort(short, kind="stable")
            table = load()(table.drop_columns([reason, record])).take(pa.array(order))
            ends = np.flatnonzero(np.diff(bucket[order], append=-1)) + 1
            begin = 0
            for end in ends.tolist():
                yield packed(int(bucket[order[begin]]), "events", table.slice(begin, end - begin))
                begin = end

        kinds = [pa.int32(), pa.string(), pa.int64(), pa.binary()]
        seen = [] if latest is None else latest  # whoever reads the events may know of later ones
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size >= 32 << 20:
                yield from rows(waiting)
                waiting, size = [], 0
        if any(batch.num_rows for batch in waiting):
            yield from rows(waiting)
        if seen:
            yield filled(told, "clock", [max(seen)] * len(told), [None] * len(told))

    # Else Spark would compute two that are alike once, and what reads the second one would have no watermark.
    pack.__doc__ = f"The packer with number {next(_numbers)}."
    return pack


def unpacked(packed: DataFrame, kind: str, schema: StructType) -> DataFrame:
    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for cell in batch.column(0):
                yield from pa.ipc.open_stream(cell.as_buffer())

    return packed.where(F.col("kind") == kind).select("rows").mapInArrow(unpack, schema)
