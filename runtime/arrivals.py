"""Aggregates over all that has arrived, as columns of the events: `avg*(y.speed)`.

The stream is cut into slices of time, which are worked on side by side: an event needs the totals of the slices that
its window holds, the end of the one that the window begins in, and the beginning of its own.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sase.runtime.executors import from_package
from sase.runtime.operator.arrivals import FIRST, TOTAL, Running, Task
from sase.runtime.operator.thinning import Tree

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

SLICES, A_CORE, A_SLICE, A_WINDOW = 64, 4, 16, 2
"""Of all the time that there is: at most, and at least for each core. In between, a slice is as long as 16 windows, as
what a window reaches back for is copied. One is never twice as long: an event with a time far away does not put all
others into one slice. Where nothing but copies says what a window holds, there are two in a window at most."""


def with_arrivals(
    events: DataFrame,
    running: Sequence[Running],
    *,
    time: str,
    type: str,
    order: str | None,
    types: Sequence[str],
    within: int | None,
    thinned: Tree | None = None,
    bootstrap: Callable[[], None] | None = None,
) -> DataFrame:
    """The events, those of `types` with the columns `running`; NULL for others, which stay where they are.

    Of each event: all events of a column's types that are not after it, and less than `within` before it. Those of
    `types` of which `thinned` does not hold for sure are left out.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StructField, StructType

    from sase.runtime.events import quoted, ticks

    columns = list(events.columns)
    feeding = tuple(dict.fromkeys(name for each in running for name in each.types))
    kinds = tuple(dict.fromkeys([*types, *feeding]))
    told = _told_by_ticks(events, time)
    # What a worker is told in other words does not travel beside them, unless the tie-breaker goes by it.
    carried = tuple(name for name in columns if name == order or name not in (type, *([time] if told else [])))
    jit = os.environ.get("SASE_JIT") != "0"
    task = Task(tuple(running), carried, time, type, kinds, order, tuple(types), within, jit)
    counting = {each for each in (order, *(each.attribute for each in running)) if each in carried}

    of_type = F.col(quoted(type))
    number = F.lit(0)
    for at, name in enumerate(kinds[1:], 1):
        number = F.when(of_type == name, at).otherwise(number)
    numbered = events.where(of_type.isin(*kinds)).select(
        *(F.col(quoted(name)).alias(str(at)) for at, name in enumerate(carried)),
        ticks(events, quoted(time)).alias("ticks"),
        number.alias("kind"),
        _among(of_type, types, kinds).alias("wanted"),
        _among(of_type, feeding, kinds).alias("fed"),
    )
    length = f"max(ticks) div {SLICES} - min(ticks) div {SLICES} + 1"
    if within is not None:
        some, most = (min(windows * within, 1 << 62) for windows in (A_SLICE, 2 * A_SLICE))
        wanted = f"least({SLICES}, greatest({_fewest()}, max(ticks) div {some} - min(ticks) div {some}))"
        length = f"least(max(ticks) div {wanted} - min(ticks) div {wanted} + 1, {most}L)"
    # The slices that a window holds as a whole give their totals; of the one in which it begins, rows are needed.
    most_whole = f"{SLICES + 1}L"  # there are no others
    whole = most_whole if within is None else f"least({within}L div length - 1, {most_whole})"
    edges = numbered.agg(F.expr(length).alias("length")).where(F.col("length").isNotNull())
    rows = numbered.withColumn("length", edges.scalar()).withColumn("slice", F.expr(_slice("ticks")))
    where = "array(slice)"
    if within is not None:
        first, last = f"slice + greatest(1L, {within}L div length)", _slice(f"(ticks + {within - 1}L)")
        where = f"CASE WHEN fed AND {last} >= {first} THEN concat({where}, sequence({first}, {last})) ELSE {where} END"
    rows = (
        rows.withColumn("at", F.explode(F.expr(where)))
        .withColumn("own", F.expr("wanted AND at = slice"))
        .select(
            *(
                F.col(str(at)) if name in counting else F.expr(f"IF(own, `{at}`, NULL)").alias(str(at))
                for at, name in enumerate(carried)
            ),
            "ticks",
            F.col("at").alias("slice"),
            F.expr(f"CAST(2 * kind + IF(own, 1, 0) AS {_what(kinds)})").alias("what"),
        )
    )
    needed = F.broadcast(edges.where(f"{whole} > 0"))  # if there are none, Spark reads nothing for them
    parts = (
        numbered.where("fed")
        .crossJoin(needed)
        .select(
            *(str(at) for at, name in enumerate(carried) if name in counting),
            "ticks",
            F.expr(_slice("ticks")).alias("slice"),
            F.expr(f"CAST(2 * kind AS {_what(kinds)})").alias("what"),
        )
        .mapInArrow(_worker(pickle.dumps(task), None, bootstrap), "slice bigint, payload binary")
        .crossJoin(needed)
        .select(
            F.explode(F.expr(f"sequence(slice + 1, slice + {whole})")).alias("slice"),
            F.lit(FIRST).alias("ticks"),
            F.expr(f"CAST({TOTAL} AS {_what(kinds)})").alias("what"),
            "payload",
        )
    )
    added = [StructField(each.name, number_type(each.result)) for each in running]
    arrow = [to_arrow_type(field.dataType) for field in added]
    kept = [*map(str, range(len(carried))), *(["ticks"] if told else []), *(["what"] if len(types) > 1 else [])]
    task = replace(task, kept=tuple(kept), thinned=thinned)
    schema = StructType([*(rows.schema[name] for name in kept), *added])
    answered = (
        rows.unionByName(parts, allowMissingColumns=True)
        .repartition("slice")
        .mapInArrow(_worker(pickle.dumps(task), arrow, bootstrap), schema)
    )
    again = {name: F.col(str(at)) for at, name in enumerate(carried)}
    if told:
        again[time] = F.timestamp_micros("ticks") if told == "timestamp" else F.col("ticks").cast(told)
    again.setdefault(
        type, F.lit(kinds[0]) if len(types) == 1 else F.get(_array(kinds), F.expr("CAST(what div 2 AS int)"))
    )
    answered = answered.select(
        *(again[name].alias(name) for name in columns), *(F.col(quoted(each.name)) for each in running)
    )
    others = events.where(~of_type.isin(*types))
    return others.withColumns({field.name: F.lit(None).cast(field.dataType) for field in added}).union(answered)


def slice_length(events: DataFrame, time: str, within: int) -> Column:
    """How long a slice is in which the kernel is told what has arrived: so that all cores are busy, if the events last
    long enough, and no event is copied to more than a few slices."""
    from pyspark.sql import functions as F

    from sase.runtime.events import ticks

    some, least = (min(windows, 1 << 62) for windows in (A_SLICE * within, within // A_WINDOW + 1))
    wanted = f"least({SLICES}, greatest({_fewest()}, max(ticks) div {some} - min(ticks) div {some}))"
    length = f"least(greatest(max(ticks) div {wanted} - min(ticks) div {wanted} + 1, {least}L), {some}L)"
    return events.select(ticks(events, time).alias("ticks")).agg(F.expr(length)).scalar()


def _told_by_ticks(events: DataFrame, time: str) -> str | None:
    """The type of the time, where a number of ticks says all that there is to it."""
    from sase.runtime.events import quoted

    kind = events.select(quoted(time)).schema[0].dataType.simpleString()
    return kind if kind in ("timestamp", "bigint", "int", "smallint", "tinyint") else None


def _among(of_type: Column, types: Sequence[str], kinds: Sequence[str]) -> Column:
    """Is it one of these types, where it is known to be of these kinds?"""
    from pyspark.sql import functions as F

    return F.lit(True) if set(kinds) <= set(types) else of_type.isin(*types)


def _array(names: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    return F.array(*map(F.lit, names))


def _what(kinds: Sequence[str]) -> str:
    """The type of a column that says of which kind a row is, and whether it is the slice's own."""
    return "tinyint" if len(kinds) < 64 else "int"


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
    load = from_package("sase.runtime.operator.arrivals", "totals" if kinds is None else "run", bootstrap)
    more = () if kinds is None else (kinds,)

    def worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        run = load()
        yield from run(pickle.loads(task), batches, *more)

    return worker
