"""Aggregates over all that has arrived, as columns of the events: `avg*(y.speed)`.

The stream is cut into slices of time, which are worked on side by side: an event needs the totals of the slices that
its window holds, the end of the one that the window begins in, and the beginning of its own.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from sase.runtime.operator.arrivals import COPY, OWN, TOTAL, Running, Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

SLICES = 16
"""Of a window; and four times as many of all the time that there is, where there is no window."""


def with_arrivals(
    events: DataFrame,
    running: Sequence[Running],
    *,
    time: str,
    type: str,
    order: str | None,
    types: Sequence[str],
    within: int | None,
    bootstrap: Callable[[], None] | None = None,
) -> DataFrame:
    """The events, those of `types` with the columns `running`; NULL for others.

    Of each event: all events of a column's types that are not after it, and less than `within` before it.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StructField, StructType

    from sase.runtime.events import quoted, ticks

    columns = list(events.columns)
    task = Task(tuple(running), tuple(columns), type, order, tuple(types), within)
    numbered = events.select(
        *(F.col(quoted(name)).alias(str(at)) for at, name in enumerate(columns)),
        ticks(events, quoted(time)).alias("ticks"),
    )
    if within is None:
        edges = numbered.agg(
            F.min("ticks").alias("low"), F.expr(f"(max(ticks) - min(ticks)) div {4 * SLICES} + 1").alias("length")
        )
        sliced = numbered.crossJoin(F.broadcast(edges)).withColumn("slice", F.expr("(ticks - low) div length"))
        sliced = sliced.drop("low", "length")
        last = str(4 * SLICES)
        length = 1
    else:
        length = max(1, within // SLICES)
        sliced = numbered.withColumn("slice", F.expr(f"(ticks - pmod(ticks, {length}L)) div {length}L"))
        last = f"slice + {within // length - 1}"
    own = sliced.withColumn("role", F.lit(OWN))
    fed = own.where(
        F.col(str(columns.index(type))).isin(*dict.fromkeys(name for each in running for name in each.types))
    )
    rows = own
    if within is None or within // length > 1:
        parts = (
            fed.repartition("slice")
            .sortWithinPartitions("slice")
            .mapInArrow(_worker(pickle.dumps(task), None, bootstrap), "slice bigint, payload binary")
        )
        whole = parts.where(f"slice < {last}").withColumn("slice", F.explode(F.expr(f"sequence(slice + 1, {last})")))
        rows = rows.unionByName(whole.withColumn("role", F.lit(TOTAL)), allowMissingColumns=True)
    if within is not None:
        first, end = max(1, within // length), (within + length - 1) // length
        copied = fed.withColumn("slice", F.explode(F.expr(f"sequence(slice + {first}, slice + {end})")))
        rows = rows.unionByName(copied.withColumn("role", F.lit(COPY)), allowMissingColumns=True)
    added = [StructField(each.name, _number_type(each.result)) for each in running]
    kinds = [to_arrow_type(field.dataType) for field in added]
    schema = StructType(
        [*(StructField(str(at), field.dataType) for at, field in enumerate(events.schema.fields)), *added]
    )
    place = ["slice", "ticks", *([] if order is None else [str(columns.index(order))])]
    return (
        rows.repartition("slice")
        .sortWithinPartitions(*place)
        .mapInArrow(_worker(pickle.dumps(task), kinds, bootstrap), schema)
        .toDF(*columns, *(each.name for each in running))
    )


def _number_type(name: str) -> DataType:
    """Without a session, whose parser may be far away."""
    from pyspark.sql.types import ByteType, DecimalType, DoubleType, IntegerType, LongType, ShortType

    if size := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", name):
        return DecimalType(int(size[1]), int(size[2]))
    kinds = {"tinyint": ByteType, "smallint": ShortType, "int": IntegerType, "bigint": LongType, "double": DoubleType}
    return kinds[name]()


def _worker(task: bytes, kinds: list[pa.DataType] | None, bootstrap: Callable[[], None] | None) -> Worker:
    """Pickled by value: it holds no object of this package, which `bootstrap` may have to bring along first."""

    def worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        if bootstrap is not None:
            bootstrap()
        from sase.runtime.operator.arrivals import run, totals

        known = pickle.loads(task)
        yield from totals(known, batches) if kinds is None else run(known, batches, kinds)

    return worker
