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

SLICES, A_CORE = 64, 4
"""Of all the time that there is: at most, and at least for each core. In between, a slice is as long as 8 windows, as
what a window reaches back for is copied. One is never longer than 16: an event with a time far away does not put all
others into one slice."""


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
    feeding = list(dict.fromkeys(name for each in running for name in each.types))
    kinds = tuple(dict.fromkeys([*types, *feeding]))
    jit = os.environ.get("SASE_JIT") != "0"
    task = Task(tuple(running), tuple(columns), type, kinds, order, tuple(types), within, jit)
    counting = {type, *([] if order is None else [order]), *(each.attribute for each in running)}

    # A worker takes the number of a type where it would take its name: numbers are sorted and compared sooner.
    of_type = F.col(quoted(type))
    names = F.array(*map(F.lit, kinds))
    number = (F.array_position(names, of_type) - 1).cast("tinyint" if len(kinds) < 128 else "int")
    numbered = events.where(of_type.isin(*kinds)).select(
        *((number if name == type else F.col(quoted(name))).alias(str(at)) for at, name in enumerate(columns)),
        ticks(events, quoted(time)).alias("ticks"),
        of_type.isin(*types).alias("wanted"),
        of_type.isin(*feeding).alias("fed"),
    )
    length = f"max(ticks) div {SLICES} - min(ticks) div {SLICES} + 1"
    if within is not None:
        some, most = (min(windows * within, 1 << 62) for windows in (8, 16))
        wanted = f"least({SLICES}, greatest({_fewest()}, max(ticks) div {some} - min(ticks) div {some}))"
        length = f"least(max(ticks) div {wanted} - min(ticks) div {wanted} + 1, {most}L)"
    # The slices that a window holds as a whole give their totals; of the one in which it begins, rows are needed.
    whole = f"{SLICES + 1}L" if within is None else f"{within}L div length - 1"
    edges = numbered.agg(F.expr(length).alias("length")).where(F.col("length").isNotNull())
    rows = numbered.withColumn("length", edges.scalar()).withColumn("slice", F.expr(_slice("ticks")))
    where = "array(slice)"
    if within is not None:
        first, last = f"slice + greatest(1L, {within}L div length)", _slice(f"(ticks + {within - 1}L)")
        where = f"CASE WHEN fed AND {last} >= {first} THEN concat({where}, sequence({first}, {last})) ELSE {where} END"
    rows = (
        rows.withColumn("at", F.explode(F.expr(where)))
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
    arrow = [to_arrow_type(field.dataType) for field in added]
    fields = numbered.schema.fields[: len(columns)]
    answered = (
        rows.unionByName(parts, allowMissingColumns=True)
        .repartition("slice")
        .mapInArrow(_worker(pickle.dumps(task), arrow, bootstrap), StructType([*fields, *added]))
        .toDF(*columns, *(each.name for each in running))
        .withColumn(type, F.get(names, of_type))
    )
    others = events.where(~of_type.isin(*types))
    return others.withColumns({field.name: F.lit(None).cast(field.dataType) for field in added}).union(answered)


def awaiting_arrivals(events: DataFrame, running: Sequence[Running]) -> DataFrame:
    """On a stream, the columns are known when an event is released, in its bucket. Until then they are NULL."""
    from pyspark.sql import functions as F

    return events.withColumns({each.name: F.lit(None).cast(number_type(each.result)) for each in running})


def _fewest() -> int:
    """As many slices as keep all cores busy, where the session says how many there are."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return SLICES if context is None else min(SLICES, A_CORE * context.defaultParallelism)


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
