"""Groups of matches on a stream: what Spark makes of each match is added to the totals of its group so far.

Behind the operator that finds matches and Spark's filters, a second one keeps the totals, by buckets of groups. What
the first tells beside matches, events that it rejects and the size of its state, goes the same way: in rows of its own,
which are *passed* on as they are, since a stream has one end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType, StructField, StructType

from sase.runtime.events import quoted
from sase.runtime.kernels.murmur import bucket_labels
from sase.runtime.operator.cells import CELL_BYTES
from sase.runtime.ssc import Worker
from sase.runtime.stream.cells import PACKED
from sase.runtime.stream.group_bucket import GroupTask
from sase.runtime.stream.ssc import Stream, kept_in_state
from sase.runtime.stream.watch import Options

PASSED = "_sase_passed"
"""The column of what is passed on: a row of PACKED, and NULL beside a match."""


def passing(condition: str) -> str:
    """A condition on matches, which lets through what is passed on."""
    return f"{PASSED} IS NOT NULL OR ({condition})"


def add_up(
    stream: Stream,
    task: GroupTask,
    *,
    state: str,
    options: Options,
    finish: Callable[[DataFrame], DataFrame],
    bootstrap: Callable[[], None] | None = None,
) -> Stream:
    """What the matches of a stream come to so far: after each micro-batch a row for each group that it changes.

    The stream's own `finish` makes of a match the columns of its group, then what it adds to each total, and PASSED.
    """
    values = stream.finish(_beside(stream))
    buckets = options.buckets if task.shown else 1
    packed = _in_buckets(values, task, buckets).mapInArrow(_packer(values), PACKED)
    found = StructType([field for field in values.schema if field.name != PASSED])
    name = f"{state} groups in {buckets} buckets"
    return replace(
        stream, packed=kept_in_state(packed, task, name, stream.time_kind, bootstrap), found=found, finish=finish
    )


def _beside(stream: Stream) -> DataFrame:
    """Matches, and what is passed on: all batches of a task have one schema, so both kinds of rows have all columns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    passed = stream.packed.schema
    schema = StructType([*stream.found, StructField(PASSED, passed)])
    target = to_arrow_schema(schema, timezone="UTC")

    def open(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        names, types = target.names[:-1], target.types[:-1]
        for batch in batches:
            kinds = batch.column(1).to_pylist()
            for kind, cell in zip(kinds, batch.column(3), strict=True):
                if kind == "match":
                    table = pa.ipc.open_stream(cell.as_buffer()).read_all().rename_columns(names)
                    table = table.append_column(target.field(len(names)), pa.nulls(table.num_rows, target.types[-1]))
                    yield from table.cast(target).to_batches()
            rest = batch.filter(pa.array([kind != "match" for kind in kinds], pa.bool_()))
            if rest.num_rows:
                told = pa.StructArray.from_arrays(rest.columns, fields=list(target.types[-1]))
                nothing = [pa.nulls(rest.num_rows, type_) for type_ in types]
                yield pa.RecordBatch.from_arrays([*nothing, told], schema=target)

    return stream.packed.mapInArrow(open, schema)


def _in_buckets(values: DataFrame, task: GroupTask, buckets: int) -> DataFrame:
    """With a bucket for each group; what is passed on has its own. Columns have numbers on their way."""

    def key(name: str) -> Column:  # -0.0 is 0.0, and has the same bucket
        column = F.col(quoted(name))
        return column + F.lit(0.0) if isinstance(values.schema[name].dataType, FloatType | DoubleType) else column

    labels = F.array(*map(F.lit, bucket_labels(buckets)))
    number = F.pmod(F.hash(*map(key, task.shown)), F.lit(buckets)) if buckets > 1 else F.lit(0)
    own = F.when(F.col(PASSED).isNull(), F.element_at(labels, number + 1)).otherwise(F.col(f"{PASSED}.bucket"))
    return values.withColumn(f"{PASSED}_bucket", own).toDF(*map(str, range(len(values.columns) + 1)))


def _packer(values: DataFrame) -> Worker:
    """A function for `mapInArrow`: rows in, a few cells per bucket out. The last two columns are what is passed on, and
    the bucket."""
    names, most = [name for name in values.columns if name != PASSED], CELL_BYTES

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        types = [pa.int32(), pa.string(), pa.int64(), pa.binary()]
        columns = ["bucket", "kind", "size", "rows"]

        def cell(table: pa.Table) -> bytes:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            value: bytes = sink.getvalue().to_pybytes()
            return value

        for batch in batches:
            table = pa.Table.from_batches([batch])
            bucket, passed = table.column(len(names) + 1).to_numpy(), table.column(len(names))
            rows = table.select(list(range(len(names)))).rename_columns(names)
            if passed.null_count < len(passed):
                told = pa.chunked_array(passed).combine_chunks().drop_null()
                arrays = [part.cast(type_) for part, type_ in zip(told.flatten(), types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names=columns)
            matches = passed.is_null().to_numpy()
            for number in np.unique(bucket[matches]).tolist():
                own = rows.filter(pa.array(matches & (bucket == number)))
                step = max(1, most * own.num_rows // max(1, own.nbytes))
                parts = [own.slice(begin, step) for begin in range(0, own.num_rows, step)]
                cells = [[number] * len(parts), ["events"] * len(parts), [part.num_rows for part in parts]]
                arrays = [pa.array(each, type_) for each, type_ in zip([*cells, map(cell, parts)], types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names=columns)

    return pack
