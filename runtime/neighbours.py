"""PREV and NEXT in the worker, or with window functions: what the types of columns decide, once they are known.

A worker sorts rows by numbers and times, and compares and adds up values exactly as Spark does. Where it cannot, Spark
sorts, and its window functions give the values of the rows before and behind: the answer is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from sase.runtime.events import collation, quoted
from sase.runtime.row_pattern import At, Condition, Constant, Operation
from sase.runtime.session import has_steady_clocks

_KINDS: dict[type[DataType], str] = {
    BooleanType: "truth",
    ByteType: "integer",
    ShortType: "integer",
    IntegerType: "integer",
    LongType: "integer",
    FloatType: "float",
    DoubleType: "double",
    DecimalType: "decimal",
    StringType: "text",
    BinaryType: "bytes",
    DateType: "date",
    TimestampType: "timestamp",
    TimestampNTZType: "local time",
}
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_FLOATS = {"float", "double"}


def sorts(kinds: Sequence[DataType]) -> bool:
    """Whether a worker can sort by keys of these types: the first one is a number of 64 bits."""
    first = (IntegralType, FloatType, DoubleType, BooleanType, DateType, TimestampType, TimestampNTZType)
    known = all(type(kind) in _KINDS and not collation(kind, "", "") for kind in kinds)
    return bool(kinds) and known and isinstance(kinds[0], first)


def decides(conditions: Mapping[str, Condition], kinds: Mapping[str, DataType], spark: SparkSession) -> bool:
    """Whether a worker finds what Spark would find, with columns of these types."""
    # Without ANSI, integers wrap around; and differences of timestamps are those of local clocks.
    exact, steady = spark.conf.get("spark.sql.ansi.enabled") == "true", has_steady_clocks(spark)

    def kind(condition: Condition) -> str | None:
        """What a value is, to the worker; None if it does not know it."""
        match condition:
            case At(column=column):
                found = kinds[column]
                return None if collation(found, "", "") else _KINDS.get(type(found))
            case Constant(value=bool()):
                return "truth"
            case Constant(value=int(), interval=interval):
                return "interval" if interval else "number"
            case Constant(value=str()):
                return "fraction"
            case Operation(sign="IS NULL", parts=(part,)):
                return "truth" if kind(part) is not None else None
            case Operation(sign="AND" | "OR" | "NOT" | "IS TRUE", parts=parts):
                return "truth" if all(kind(part) == "truth" for part in parts) else None
            case Operation(sign=sign, parts=(left, right)) if sign in _COMPARISONS:
                plain = isinstance(left, At) and isinstance(right, At)
                return "truth" if _comparable(kind(left), kind(right), plain) else None
            case Operation(sign="+" | "-" as sign, parts=(left, right)):
                return _sum(sign, {kind(left), kind(right)})
        return None

    def _sum(sign: str, of: set[str | None]) -> str | None:
        if "integer" in of and of <= {"integer", "number"}:
            return "integer" if exact else None
        if of == {"float"}:
            return "float"
        if "double" in of and of <= {"double", "float", "number", "fraction"}:
            return "double"
        if sign == "-" and (of in ({"date"}, {"local time"}) or (of == {"timestamp"} and steady)):
            return "interval"
        return None

    return all(kind(condition) == "truth" for condition in conditions.values())


def _comparable(left: str | None, right: str | None, plain: bool) -> bool:
    """Whether values of two kinds are compared as Spark does: by their bits, if both are columns."""
    kinds = {left, right}
    if None in kinds:
        return False
    if kinds <= _FLOATS or kinds == {"interval"} or ("integer" in kinds and kinds <= {"integer", "number"}):
        return True
    if plain:
        return len(kinds) == 1
    return bool(kinds & _FLOATS) and kinds <= {*_FLOATS, "number", "fraction"}


def with_windows(
    rows: DataFrame,
    before: Mapping[str, Column],
    meets: Mapping[str, Condition],
    variables: Sequence[str],
    symbols: str,
) -> DataFrame:
    """The rows with the columns `before`, and with symbol bits that depend on them, by Spark."""
    rows = rows.withColumns(dict(before)) if before else rows
    if not meets:
        return rows
    bits = [f"IF({spelled(each)}, -1L, {~(1 << variables.index(name))}L)" for name, each in meets.items()]
    return rows.withColumn(symbols, F.expr(reduce(lambda one, other: f"{one} & {other}", [quoted(symbols), *bits])))


def spelled(condition: Condition) -> str:
    """A condition in SQL."""
    match condition:
        case At(column=column):
            return quoted(column)
        case Constant(value=value, interval=True):
            return f"make_dt_interval(0, 0, 0, CAST({value} AS decimal(20, 0)) / 1000000)"
        case Constant(value=value):
            return "NULL" if value is None else str(value)
        case Operation(sign="NOT", parts=(part,)):
            return f"(NOT {spelled(part)})"
        case Operation(sign="IS NULL" | "IS TRUE" as sign, parts=(part,)):
            return f"({spelled(part)} {sign})"
        case Operation(sign=sign, parts=parts):
            return f"({f' {sign} '.join(map(spelled, parts))})"
    raise TypeError(f"{condition} is of more than one row")
