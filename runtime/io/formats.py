"""The formats of events: how each is read, and what is refused before it is."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from csv import reader
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import DataType, StringType, StructField, StructType

from sase.runtime.errors import SaseRunError
from sase.runtime.events import AS_USUAL, CORRUPT, Csv, Source, quoted
from sase.runtime.io.files import Files

Reader = Any
"""`spark.read` or `spark.readStream`, which have no type in common."""


@dataclass(frozen=True)
class Input:
    """One of --events: a path or a table, of one event type or, where that is None, of several."""

    type: str | None
    location: str
    format: str
    paths: tuple[str, ...] = ()
    csv: Csv = AS_USUAL


def stored(spark: SparkSession, format: str, location: str, stream: DataStreamReader | None = None) -> DataFrame:
    """A table whose files tell the types of their columns, or a stream of it.

    Spark refuses Parquet's timestamps of nanoseconds. As the 64-bit integers that they are, it reads them.
    """
    try:
        table = spark.read.format(format).load(location)
        return table if stream is None else stream.schema(table.schema).format(format).load(location)
    except AnalysisException as error:
        if "TIMESTAMP(NANOS" not in str(error):
            raise
    columns, nanoseconds = _nanoseconds(spark, location)
    _warn_of_nanoseconds(location, ", ".join(nanoseconds))
    table = (spark.read if stream is None else stream).schema(columns).parquet(location)
    return table.withColumns({name: _from_nanoseconds(name, zoned) for name, zoned in nanoseconds.items()})


@cache
def _warn_of_nanoseconds(location: str, names: str) -> None:
    """Once, though a table is opened for its columns and then for its rows."""
    logging.getLogger("sase").warning(
        "%s has nanoseconds in %s, and Spark's timestamps have microseconds: the rest is cut off", location, names
    )


def _nanoseconds(spark: SparkSession, location: str) -> tuple[StructType, dict[str, bool]]:
    """The columns of Parquet files, with integers for nanoseconds; and those that have them, and whether in UTC."""
    files = Files(spark)
    if not files.are_known:
        raise SaseRunError(
            f"{location} has timestamps of nanoseconds, which Spark does not read: write microseconds, as with "
            'pyarrow.parquet.write_table(…, coerce_timestamps="us")'
        )
    before = spark.conf.get(_NANOSECONDS)
    spark.conf.set(_NANOSECONDS, "true")
    try:
        # Of all files: were there other timestamps in one of them, they would not go together.
        columns = spark.read.parquet(location, mergeSchema=True).schema
    finally:
        spark.conf.set(_NANOSECONDS, str(before))
    return columns, files.nanoseconds(location)


_NANOSECONDS = "spark.sql.legacy.parquet.nanosAsLong"


def _from_nanoseconds(name: str, zoned: bool) -> Column:
    micros = F.floor(F.col(quoted(name)).cast("decimal(20,0)") / 1000)
    if zoned:
        return F.timestamp_micros(micros.cast("bigint"))
    since_1970 = F.make_dt_interval(secs=(micros / 1_000_000).cast("decimal(18,6)"))
    return F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'") + since_1970


TOLERANT = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
"""What Spark's readers of text are told: a record that cannot be read goes to a column of its own."""


def csv(
    reader: Reader,
    spark: SparkSession,
    each: Input,
    columns: Mapping[str, DataType],
    type_column: str,
    types: Collection[str],
) -> DataFrame:
    """Rows of CSV, or a stream of them. A line that has more values than the header, or fewer, cannot be read, and what
    stands in the place of its type is none, unless it is one of `types`."""
    names = each.csv.header or header(spark, each)
    # Without enforceSchema, the header of each file is compared with these names. With pruning, values are not counted.
    known = reader.options(**TOLERANT, **each.csv.options, enforceSchema=bool(each.csv.header), columnPruning=False)
    table: DataFrame = known.csv(each.location, schema([*names, CORRUPT], columns))
    unquoted = F.regexp_replace(CORRUPT, '"[^"]*"', "")
    misfit = F.size(F.split(unquoted, re.escape(each.csv.delimiter), -1)) != len(names)
    for name in names:
        if each.type is None and name.lower() == type_column.lower():
            event_type = F.col(quoted(name))
            table = table.withColumn(name, F.when(misfit & ~event_type.isin(*types), None).otherwise(event_type))
    return table


def header(spark: SparkSession, each: Input) -> list[str]:
    """The columns of CSV files, as the first of them begins. Refuses what is no header of columns."""
    columns = spark.read.options(**each.csv.options).csv(each.location).columns
    if not columns:
        raise SaseRunError(f"{each.location} is empty: it has not even a header")
    others = [sign for sign in _DELIMITERS if sign != each.csv.delimiter and sign in columns[0]]
    if len(columns) == 1 and others:
        raise SaseRunError(
            f'{each.location} has one column, "{columns[0]}": if {_named(others[0])} is between its values, add '
            f"--delimiter '{_named(others[0])}'"
        )
    # Spark numbers equal names, which others may have by themselves: the line itself decides.
    if any(name.endswith(str(at)) for at, name in enumerate(columns)):
        line = spark.read.text(each.location).head(1)[0]["value"]
        _refuse_equal_names(each.location, next(reader([line], delimiter=each.csv.delimiter)))
    return columns


_DELIMITERS = (";", "\t", "|", ",")


def _named(delimiter: str) -> str:
    return delimiter.replace("\t", "\\t")


def _refuse_equal_names(location: str, names: Iterable[str]) -> None:
    """Names that differ in case only are one to Spark."""
    known: dict[str, str] = {}
    for name in names:
        if (twin := known.setdefault(name.lower(), name)) != name or list(names).count(name) > 1:
            also = f"{twin} and {name}" if twin != name else name
            raise SaseRunError(f"{location} has two columns named {also}: rename one of them")


def schema(names: Iterable[str], columns: Mapping[str, DataType]) -> StructType:
    kinds = {name.lower(): kind for name, kind in columns.items()}
    return StructType([StructField(name, kinds.get(name.lower(), StringType())) for name in names])


def json_columns(
    spark: SparkSession, each: Input, source: Source, types: Collection[str], columns: Iterable[str]
) -> list[str]:
    """The columns of JSON lines, spelled as in the first 1,000 of them.

    A key may be left out where its value is NULL, so an attribute that no line has is taken to be NULL, with a warning
    if there are events that should have it.
    """
    text = spark.read.text(each.location)
    names, seen = dict.fromkeys(text.columns[1:]), set(types) if each.type is not None else set()
    lines = [line["value"] for line in text.head(1000) if line["value"].strip()]
    refuse_other_json(each.location, lines)
    if not lines:
        return list(columns)  # a file of no events, and the catalog knows what they would have
    for line in lines:
        try:
            record = json.loads(line)
            names |= dict.fromkeys(record)
            seen |= {value for key, value in record.items() if key.lower() == source.type.lower()}
        except (ValueError, TypeError, AttributeError):
            continue  # it will be rejected
    _refuse_equal_names(each.location, names)
    known = {name.lower() for name in names}
    absent = [name for name in columns if name.lower() not in known and name not in source.required]
    for name in absent:
        if seen & source.columns[name].keys():
            near = get_close_matches(name, names, n=1)
            clue = f': did you mean "{near[0]}"?' if near else ""
            logging.getLogger("sase").warning('the first events of %s have no "%s"%s', each.location, name, clue)
    return [*names, *absent]


def refuse_other_json(location: str, lines: Sequence[str]) -> None:
    """JSON that is not one object per line, by its first lines."""
    if lines and lines[0].lstrip().startswith("["):
        raise SaseRunError(
            f"{location} is a JSON array, and events are JSON lines, one object per line: "
            f"jq -c '.[]' {location} makes them"
        )
    if lines and not any(line.lstrip().startswith("{") for line in lines):
        raise SaseRunError(f"{location} has no JSON lines, one object per line: it begins with {lines[0][:40]!r}")
