"""Aggregates over all that has arrived, as columns of the events: `avg*(y.speed)`.

The stream is cut into slices of time, which are worked on side by side: an event needs the totals of the slices that
its window holds, the end of the one that the window begins in, and the beginning of its own.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from sase.runtime.operator.arrivals import COPY, FIRST, OWN, TOTAL, Running, Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

SLICES = 64
"""Of all the time that there is. A slice is never longer than 16 windows: more is not copied then, and one event with a
time far away does not put all others into one slice."""


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
    """The events, those of `types` with the columns `running`; NULL for others, which stay where they are.

    Of each event: all events of a column's types that are not after it, and less than `within` before it.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StructField, StructType

    from sase.runtime.events import quoted, ticks

    columns = list(events.columns)
    task = Task(tuple(running), tuple(columns), type, order, tuple(types), within, os.environ.get("SASE_JIT") != "0")
    feeding = list(dict.fromkeys(name for each in running for name in each.types))
    counting = {type, *([] if order is None else [order]), *(each.attribute for each in running)}

    of_type = F.col(quoted(type))
    numbered = events.where(of_type.isin(*dict.fromkeys([*types, *feeding]))).select(
        *(F.col(quoted(name)).alias(str(at)) for at, name in enumerate(columns)),
        ticks(events, quoted(time)).alias("ticks"),
        of_type.isin(*types).alias("wanted"),
        of_type.isin(*feeding).alias("fed"),
    )
    length = f"max(ticks) div {SLICES} - min(ticks) div {SLICES} + 1"
    if within is not None:
        length = f"least({length}, {min(16 * within, 1 << 62)}L)"
    # The slices that a window holds as a whole give their totals; of the one in which it begins, rows are needed.
    whole = f"{SLICES + 1}L" if within is None else f"{within}L div length - 1"
    edges = numbered.agg(F.expr(length).alias("length")).where(F.col("length").isNotNull())
    rows = numbered.withColumn("length", edges.scalar()).withColumn("slice", F.expr(_slice("ticks")))
    copies = "array()"
    if within is not None:
        first, last = f"slice + greatest(1L, {within}L div length)", _slice(f"(ticks + {within - 1}L)")
        copies = f"CASE WHEN fed AND {last} >= {first} THEN sequence({first}, {last}) ELSE array() END"
    rows = (
        rows.withColumn("at", F.explode(F.expr(f"concat(array(slice), {copies})")))
        .withColumn("role", F.expr(f"IF(wanted AND at = slice, {OWN}, {COPY})"))
        .select(
            *(
                F.col(str(at)) if name in counting else F.expr(f"IF(role = {OWN}, `{at}`, NULL)").alias(str(at))
                for at, name in enumerate(columns)
            ),
            "ticks",
            F.col("at").alias("slice"),
            "role",
        )
    )
    needed = F.broadcast(edges.where(f"{whole} > 0"))  # if there are none, Spark reads nothing for them
    parts = (
        numbered.where("fed")
        .crossJoin(needed)
        .select(
            *(str(at) for at, name in enumerate(columns) if name in counting), F.expr(_slice("ticks")).alias("slice")
        )
        .mapInArrow(_worker(pickle.dumps(task), None, bootstrap), "slice bigint, payload binary")
        .crossJoin(needed)
        .select(
            F.explode(F.expr(f"sequence(slice + 1, slice + {whole})")).alias("slice"),
            F.lit(FIRST).alias("ticks"),
            F.lit(TOTAL).alias("role"),
            "payload",
        )
    )
    added = [StructField(each.name, number_type(each.result)) for each in running]
    kinds = [to_arrow_type(field.dataType) for field in added]
    schema = StructType(
        [*(StructField(str(at), field.dataType) for at, field in enumerate(events.schema.fields)), *added]
    )
    answered = (
        rows.unionByName(parts, allowMissingColumns=True)
        .repartition("slice")
        .mapInArrow(_worker(pickle.dumps(task), kinds, bootstrap), schema)
        .toDF(*columns, *(each.name for each in running))
    )
    others = events.where(~of_type.isin(*types))
    return others.withColumns({field.name: F.lit(None).cast(field.dataType) for field in added}).union(answered)


def awaiting_arrivals(events: DataFrame, running: Sequence[Running]) -> DataFrame:
    """On a stream, the columns are known when an event is released, in its bucket. Until then they are NULL."""
    from pyspark.sql import functions as F

    return events.withColumns({each.name: F.lit(None).cast(number_type(each.result)) for each in running})


def _slice(time: str) -> str:
    """Exact, of any time, also of a negative one."""
    return f"({time} - pmod({time}, length)) div length"


def number_type(name: str) -> DataType:
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
