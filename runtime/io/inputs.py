"""Events on the way in: what --events names, how it is read, and how much of it there was."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from sase.runtime.arguments import csv_given
from sase.runtime.errors import SaseRunError, explained
from sase.runtime.events import CORRUPT, Csv, Source, expected, quoted, shared_types, without_table
from sase.runtime.io import delta
from sase.runtime.io.files import Files, few, format_of
from sase.runtime.io.formats import TOLERANT, Input, csv, header, json_columns, refuse_other_json, schema, stored
from sase.runtime.session import session

_ADD = "add --events {}=PATH"

# ---- finding ------------------------------------------------------------------------------------


def specs(arguments: argparse.Namespace, default_events: str | None) -> list[str]:
    given = arguments.events or ([default_events] if default_events else [])
    if not given:
        raise SaseRunError("there are no events: add --events PATH")
    return list(given)


def find_inputs(
    spark: SparkSession, specs: Iterable[str], types: Collection[str], format: str | None = None, csv: Csv | None = None
) -> list[Input]:
    """What the arguments of --events name."""
    files = Files(spark)
    return [find(spark, *split(files, spec, types), format, csv) for spec in specs]


def split(files: Files, spec: str, types: Collection[str]) -> tuple[str | None, str]:
    """Event type and location. Paths have equals signs, too: the query's types decide, then what exists."""
    for name in sorted(types, key=len, reverse=True):
        if spec.startswith(f"{name}="):
            return name, spec.removeprefix(f"{name}=")
    name, equals, location = spec.partition("=")
    if not equals or "/" in name or files.matching(spec):
        return None, spec
    return name, location


def find(
    spark: SparkSession, event_type: str | None, location: str, format: str | None = None, csv: Csv | None = None
) -> Input:
    """What is at a path, or under the name of a table."""
    files = Files(spark)
    found = files.matching(location)
    if found:
        known = format or files.format(location, found)
        if known == "delta" and not files.exists(f"{location}/_delta_log"):
            raise SaseRunError(f"{location} is not a Delta table: name each table with an --events of its own")
    elif is_table(spark, location):
        known = "table"
    elif found is None and (format or format_of(location)):
        known = format or format_of(location) or ""
    else:
        raise SaseRunError(f"there is no file and no table {location}")
    if known == "delta":
        delta.provide(spark)
    return Input(event_type, location, known, tuple(str(status.getPath()) for status in found or ()), csv or Csv())


def is_table(spark: SparkSession, name: str) -> bool:
    try:
        return spark.catalog.tableExists(name)
    except ParseException:  # no name at all
        return False


# ---- reading ------------------------------------------------------------------------------------


def open_events(
    arguments: argparse.Namespace, source: Source, default_events: str | None = None
) -> list[tuple[str | None, DataFrame]]:
    """The events that the arguments name, for `check`."""
    given = specs(arguments, default_events)
    with explained():
        spark = session("sase", arguments.verbose, brief=few(given))
        return read_events(
            spark,
            find_inputs(spark, given, source.types, arguments.format, replace(source.csv, **csv_given(arguments))),
            source,
        )


def read_events(spark: SparkSession, inputs: Sequence[Input], source: Source) -> list[tuple[str | None, DataFrame]]:
    """The tables for `check`."""
    shared = shared_types([each.type for each in inputs], source, _ADD)
    return [
        (each.type, _read(spark, each, source, shared if each.type is None else [each.type]))
        for each in needed(inputs, source)
    ]


def needed(inputs: Iterable[Input], source: Source) -> list[Input]:
    """Without the tables of event types that the query does not name."""
    return [each for each in inputs if each.type is None or each.type in source.types]


def _read(spark: SparkSession, each: Input, source: Source, types: Collection[str]) -> DataFrame:
    """One table. CSV and JSON are read as the types declare: what does not fit is a record that cannot be read."""
    columns = expected(source, types)
    match each.format:
        case "table":
            return spark.table(each.location)
        case "csv":
            return csv(spark.read, spark, each, columns, source.type, types)
        case "json":
            names = json_columns(spark, each, source, types, columns)
            return spark.read.options(**TOLERANT).json(each.location, schema([*names, CORRUPT], columns))
        case known:
            return stored(spark, known, each.location)


def read_columns(
    arguments: argparse.Namespace,
    types: Collection[str] = (),
    time: str | None = None,
    type: str | None = None,
    written: bool = False,
) -> dict[str | None, dict[str, str]]:
    """Columns and Spark types as the data has them, by event type; None for a table of several types.

    Refuses tables without a column for the time and the type, where these are named; and times that are text, unless it
    is known how they are written.
    """
    columns: dict[str | None, dict[str, str]] = {}
    with explained():
        spark = session("sase", arguments.verbose, brief=few(arguments.events))
        for each in find_inputs(spark, arguments.events, types, arguments.format, Csv(**csv_given(arguments))):
            table = inferred(spark, each)
            if time is not None:
                _refuse_without_time(each, table, time, written)
            if type is not None and each.type is None:
                _refuse_lacking(each, table, type, "type", ", or give each event type its own --events TYPE=PATH")
            for field in table.schema:
                columns.setdefault(each.type, {}).setdefault(field.name, field.dataType.simpleString())
    if None not in columns and (lacking := [name for name in types if name not in columns]):
        own = {name for name in columns if name is not None}
        raise SaseRunError("\n".join(without_table(name, own, _ADD) for name in lacking))
    return columns


def _refuse_without_time(each: Input, table: DataFrame, time: str, written: bool) -> None:
    _refuse_lacking(each, table, time, "time")
    column = next(field for field in table.schema if field.name.lower() == time.lower())
    if isinstance(column.dataType, StringType) and not written:
        example = table.select(quoted(column.name)).where(F.col(quoted(column.name)).isNotNull()).head(1)
        such = f', such as "{example[0][0]}",' if example else ""
        raise SaseRunError(
            f'column "{column.name}" of {each.location} is text{such} and no time: say how it is written, as with '
            "--time-format 'dd.MM.yyyy HH:mm:ss' or iso"
        )


def _refuse_lacking(each: Input, table: DataFrame, name: str, what: str, otherwise: str = "") -> None:
    known = {column.lower(): column for column in table.columns}
    if name.lower() in known:
        return
    if near := get_close_matches(name.lower(), known, n=1):
        clue = f"did you mean --{what} {known[near[0]]}?"
    else:
        clue = f"there are {', '.join(table.columns)}; name it with --{what}{otherwise}"
    raise SaseRunError(f'{each.location} has no column "{name}" for the {what}: {clue}')


def read_as_is(
    arguments: argparse.Namespace, types: Collection[str] = (), csv: Csv | None = None
) -> list[tuple[str | None, DataFrame]]:
    """The events with the columns and types that the data itself has, by event type; None for several types."""
    with explained():
        spark = session("sase", arguments.verbose, brief=few(arguments.events))
        inputs = find_inputs(
            spark, arguments.events, types, arguments.format, replace(csv or Csv(), **csv_given(arguments))
        )
        return [(each.type, inferred(spark, each)) for each in inputs]


def inferred(spark: SparkSession, each: Input) -> DataFrame:
    """One table with the columns and types that the data itself has."""
    match each.format:
        case "table":
            return spark.table(each.location)
        case "csv":
            table = spark.read.options(**each.csv.options).csv(each.location, inferSchema=True)
            if each.csv.header:
                return table.toDF(*each.csv.header)
            header(spark, each)
            return table
        case "json":
            lines = [line["value"] for line in spark.read.text(each.location).head(10) if line["value"].strip()]
            refuse_other_json(each.location, lines)
            if not lines:
                raise SaseRunError(f"{each.location} is empty: it cannot tell its columns, and a catalog can")
            return spark.read.option("inferTimestamp", True).json(each.location).drop(CORRUPT)
        case known:
            return stored(spark, known, each.location)


# ---- how much was read --------------------------------------------------------------------------


def events_read(spark: SparkSession, inputs: Sequence[Input], account: InputAccount) -> int | None:
    """How many events there were to read, of any type; None where only a pass over all of them could tell."""
    if all(each.format not in ("csv", "json") for each in inputs):
        return account.records()
    # Spark's readers of text drop rows of other types before they are counted. Counting lines is quick beside parsing.
    return sum(_rows(spark, each) for each in inputs)


def _rows(spark: SparkSession, each: Input) -> int:
    match each.format:
        case "json":
            return spark.read.text(each.location).where(F.trim("value") != "").count()
        case "csv":
            return spark.read.options(**each.csv.options).csv(each.location).count()
        case "table":
            return spark.table(each.location).count()
        case known:
            return stored(spark, known, each.location).count()


class InputAccount:
    """What Spark's jobs have read since this was opened, by Spark's own account: it costs nothing."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = getattr(spark, "sparkContext", None)  # not there in Spark Connect
        self._earlier = self._jobs()

    def _jobs(self) -> set[int]:
        return set(self._context.statusTracker().getJobIdsForGroup()) if self._context else set()

    def records(self) -> int | None:
        """The records of the largest stage: a plan may read the same events more than once."""
        if self._context is None:
            return None
        tracker, store = self._context.statusTracker(), self._context._jsc.sc().statusStore()
        stages: set[int] = set()
        for job in self._jobs() - self._earlier:
            # The account is kept by a listener that may lag behind.
            for _ in range(100):
                info = tracker.getJobInfo(job)
                if info is None or info.status != "RUNNING":
                    break
                time.sleep(0.01)
            stages |= set(info.stageIds) if info else set()
        return max((store.lastStageAttempt(stage).inputRecords() for stage in stages), default=0) or None
