"""Statistics of events, in one Spark job: rates by type, distinct and frequent values, selectivity of predicates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from sase.runtime.errors import SaseRunError
from sase.runtime.events import quoted, ticks

TOP = 16
"""How many frequent values are looked for,"""
TRACKED = 1_000
"""and among how many candidates a sketch looks for them."""
SAMPLED = 64
"""Events of each type that stand for all, where a predicate is about two or three of them: some 4,000 pairs."""

_TYPE, _TIME, _HASH = "__type", "__time", "__hash"


@dataclass(frozen=True)
class Condition:
    """A predicate to measure: its Spark SQL over `variable.attribute`, the types and attributes of its variables."""

    key: str
    sql: str
    types: Mapping[str, Sequence[str]]
    attributes: Mapping[str, Sequence[str]]


def collect(
    tables: Iterable[tuple[str | None, DataFrame]],
    *,
    time: str,
    type: str,
    conditions: Sequence[Condition] = (),
    declared: Mapping[str, Iterable[str]] | None = None,
) -> dict[str, Any]:
    """What `sase.compiler.plan.statistics.Statistics` holds, as plain data.

    `declared` limits the columns that are looked at, by event type.
    """
    tables = list(tables)
    if not _has_samples(tables[0][1].sparkSession):
        conditions = [condition for condition in conditions if len(condition.types) == 1]
    united = reduce(
        lambda left, right: left.unionByName(right, allowMissingColumns=True),
        [_uniform(name, frame, time, type) for name, frame in tables],
    )
    columns = _wanted(united, {time.lower(), type.lower()}, declared)
    united = united.withColumn(
        _HASH, F.expr(f"abs(xxhash64({_TIME}, {', '.join(map(quoted, columns)) or _TYPE}) % {1 << 60})")
    )
    grouped = united.groupBy(_TYPE).agg(*_aggregates(united, columns, conditions))
    everything = grouped.agg(F.collect_list(F.struct("*")).alias("types"))
    found = everything.select("types", *(F.expr(_share(each)).alias(f"p{at}") for at, each in _joint(conditions)))
    row = found.collect()[0]
    return _content(row, columns, conditions, united.sparkSession, declared)


def _uniform(name: str | None, frame: DataFrame, time: str, type: str) -> DataFrame:
    """Type, ticks, and every column whose values can be counted."""
    spelled = {column.lower(): column for column in frame.columns}
    for column in (time, *([type] if name is None else [])):
        if column.lower() not in spelled:
            raise SaseRunError(
                f'the events have no column "{column}": there are {", ".join(frame.columns)} '
                "(--time and --type say which columns hold the time and the type)"
            )
    event_type = F.lit(name) if name is not None else F.col(quoted(spelled[type.lower()])).cast("string")
    kept = [F.col(quoted(field.name)) for field in frame.schema if _countable(field.dataType)]
    if type.lower() not in spelled:
        kept.append(event_type.alias(type))
    return frame.select(event_type.alias(_TYPE), ticks(frame, quoted(spelled[time.lower()])).alias(_TIME), *kept)


def _countable(kind: DataType) -> bool:
    return not isinstance(kind, ArrayType | MapType | StructType | VariantType)


def _wanted(events: DataFrame, apart: set[str], declared: Mapping[str, Iterable[str]] | None) -> list[str]:
    """The attributes; how often a moment occurs is of no use."""
    names = [name for name in events.columns if name not in (_TYPE, _TIME) and name.lower() not in apart]
    if declared is None:
        return names
    wanted = {name.lower() for attributes in declared.values() for name in attributes}
    return [name for name in names if name.lower() in wanted]


def _aggregates(events: DataFrame, columns: Sequence[str], conditions: Sequence[Condition]) -> list[Column]:
    found = [F.count(F.lit(1)).alias("events"), F.min(_TIME).alias("first"), F.max(_TIME).alias("last")]
    for at, name in enumerate(columns):
        value = quoted(name)
        found += [F.count(F.col(value)).alias(f"n{at}"), F.approx_count_distinct(F.col(value)).alias(f"d{at}")]
        if _has_top_k(events.sparkSession):
            top = f"transform(approx_top_k({value}, {TOP}, {TRACKED}), top -> top.count)"
            found.append(F.expr(top).alias(f"t{at}"))
    for at, condition in enumerate(conditions):
        if len(condition.types) == 1:
            found.append(F.expr(f"count_if({condition.sql})").alias(f"c{at}"))
    sampled = dict.fromkeys(
        name for _, each in _joint(conditions) for names in each.attributes.values() for name in names
    )
    if sampled:
        found.append(F.expr(f"max_by(struct({', '.join(map(quoted, sampled))}), {_HASH}, {SAMPLED})").alias("sample"))
    return found


def _has_top_k(spark: SparkSession) -> bool:
    """Older versions have no such function; skew is then unknown."""
    return bool(spark.catalog.functionExists("approx_top_k"))


def _has_samples(spark: SparkSession) -> bool:
    """Older versions of max_by give one value; predicates about several events then have no measured selectivity."""
    try:
        spark.sql("SELECT max_by(1, 1, 1)")
    except AnalysisException:
        return False
    return True


def _joint(conditions: Sequence[Condition]) -> list[tuple[int, Condition]]:
    return [(at, condition) for at, condition in enumerate(conditions) if len(condition.types) > 1]


def _share(condition: Condition) -> str:
    """The share of sampled combinations that meet the condition: one lambda per variable, named as the variable is."""
    inner, size = f"IF({condition.sql}, 1D, 0D)", "1D"
    for depth, (variable, types) in reversed(list(enumerate(condition.types.items()))):
        names = ", ".join(_string(name) for name in types)
        sample = f"flatten(transform(filter(types, t -> t.{_TYPE} IN ({names})), t -> t.sample))"
        inner = f"aggregate({sample}, 0D, (sum{depth}__, {quoted(variable)}) -> sum{depth}__ + {inner})"
        size += f" * size({sample})"
    return f"{inner} / nullif({size}, 0D)"


def _string(text: str) -> str:
    """A Spark SQL string of any text: no character of it can end the string."""
    return f"decode(unhex('{text.encode().hex()}'), 'UTF-8')"


def _content(
    row: Row,
    columns: Sequence[str],
    conditions: Sequence[Condition],
    spark: SparkSession,
    declared: Mapping[str, Iterable[str]] | None,
) -> dict[str, Any]:
    by_type = {each[_TYPE]: each for each in row["types"] if each[_TYPE] is not None}
    times = [each[end] for each in by_type.values() for end in ("first", "last") if each[end] is not None]
    types = {
        name: {
            "events": each["events"],
            "columns": {
                column: _column(each, at)
                for at, column in enumerate(columns)
                if each[f"n{at}"] and _declares(declared, name, column)
            },
        }
        for name, each in sorted(by_type.items())
    }
    predicates: dict[str, float] = {}
    for at, condition in enumerate(conditions):
        if len(condition.types) == 1:
            (names,) = condition.types.values()
            rows = [by_type[name] for name in names if name in by_type]
            total = sum(each["events"] for each in rows)
            share = sum(each[f"c{at}"] for each in rows) / total if total else None
        else:
            share = row[f"p{at}"]
        if share is not None:
            predicates[condition.key] = round(share, 6)
    return {
        "events": sum(each["events"] for each in row["types"]),
        "span": max(times) - min(times) + 1 if times else 0,
        "types": types,
        "predicates": predicates,
        "cores": _cores(spark),
    }


def _cores(spark: SparkSession) -> int:
    """How many tasks run at a time. Spark Connect tells only by what it does."""
    if hasattr(spark, "sparkContext"):
        return spark.sparkContext.defaultParallelism
    return spark.range(10_000).selectExpr("spark_partition_id()").distinct().count()


def _declares(declared: Mapping[str, Iterable[str]] | None, type_name: str, column: str) -> bool:
    return declared is None or column.lower() in {name.lower() for name in declared.get(type_name, ())}


def _column(each: Row, at: int) -> dict[str, Any]:
    """Values that a sketch says to be no more frequent than the others are no skew, and only make a longer file."""
    values, distinct = each[f"n{at}"], max(1, each[f"d{at}"])
    distinct = min(distinct, values)
    counts = each[f"t{at}"] if f"t{at}" in each.asDict() else []
    top = [count / values for count in counts if count / values > 1.5 / distinct]
    return {
        "distinct": distinct,
        "nulls": round(1 - values / each["events"], 6),
        "top": [round(share, 6) for share in top],
    }
