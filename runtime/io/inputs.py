"""Events on the way in: what --events names, how it is read, and how much of it there was."""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from csv import reader
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import DataType, StringType, StructField, StructType

from sase.runtime.errors import SaseRunError, explained
from sase.runtime.events import CORRUPT, Source, expected, quoted, shared_types
from sase.runtime.io import delta
from sase.runtime.session import session

JavaObject = Any
Reader = Any
"""`spark.read` or `spark.readStream`, which have no type in common."""

# ---- finding ------------------------------------------------------------------------------------


def specs(arguments: argparse.Namespace, default_events: str | None) -> list[str]:
    given = arguments.events or ([default_events] if default_events else [])
    if not given:
        raise SaseRunError("there are no events: add --events PATH")
    return list(given)


@dataclass(frozen=True)
class Csv:
    """How CSV is written. `header` names the columns of files that do not begin with their names."""

    delimiter: str = ","
    null: str = ""
    header: tuple[str, ...] = ()

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Csv:
        """What the command line says of it."""
        header = tuple(name.strip() for name in (arguments.header or "").split(",") if name.strip())
        return cls(arguments.delimiter.replace("\\t", "\t"), arguments.null, header)

    @property
    def options(self) -> dict[str, Any]:
        return {"header": not self.header, "sep": self.delimiter, "nullValue": self.null}


@dataclass(frozen=True)
class Input:
    """One of --events: a path or a table, of one event type or, where that is None, of several."""

    type: str | None
    location: str
    format: str
    paths: tuple[str, ...] = ()
    csv: Csv = Csv()


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


def lies_in(path: str, folder: str) -> bool:
    """Whether a path is that of a folder, or of something in it; both are qualified."""
    return f"{path}/".startswith(f"{folder}/")


def is_table(spark: SparkSession, name: str) -> bool:
    try:
        return spark.catalog.tableExists(name)
    except ParseException:  # no name at all
        return False


class Files:
    """Files as Spark sees them, through Hadoop's FileSystem, so that remote ones are files like any other.

    Spark Connect has no such view: there, nothing is known of a path but its name.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._session: JavaObject = getattr(spark, "_jsparkSession", None)
        self._jvm: JavaObject = getattr(spark, "_jvm", None)

    def matching(self, pattern: str) -> list[JavaObject] | None:
        """The files and directories at a path, which may have wildcards; None if there is no way to tell."""
        if self._session is None:
            return None
        path, system = self._open(pattern)
        return list(system.globStatus(path) or [])

    def exists(self, location: str) -> bool:
        """Whether there is anything at this very path; False if there is no way to tell."""
        if self._session is None:
            return False
        path, system = self._open(location)
        return bool(system.exists(path))

    def has_data(self, location: str) -> bool:
        """Whether there is a file at this very path, or at any depth below it, that is not hidden."""
        if not self.exists(location):
            return False
        path, system = self._open(location)
        return self._holds(system.getFileStatus(path))

    def _holds(self, status: JavaObject) -> bool:
        if str(status.getPath().getName()).startswith(("_", ".")):
            return False
        if not status.isDirectory():
            return True
        _, system = self._open(str(status.getPath()))
        return any(self._holds(child) for child in system.listStatus(status.getPath()))

    def size(self, location: str) -> int | None:
        """The bytes of all files at or below this very path; None if there is no way to tell."""
        if self._session is None:
            return None
        path, system = self._open(location)
        return int(system.getContentSummary(path).getLength())

    def read(self, location: str) -> str | None:
        """A small text; None if there is no such file."""
        if not self.exists(location):
            return None
        path, system = self._open(location)
        stream = system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, location: str, text: str) -> None:
        path, system = self._open(location)
        stream = system.create(path, True)
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()

    @property
    def are_known(self) -> bool:
        return self._session is not None

    def delete(self, location: str) -> None:
        """Whatever is there, if anything."""
        path, system = self._open(location)
        system.delete(path, True)

    def beside(self, location: str, what: str) -> str:
        """A hidden place in the same folder, which no reader of that folder takes for data."""
        path = self._open(self.qualified(location))[0]
        return f"{path.getParent()}/.{path.getName()}.{what}"

    def replace(self, target: str, finished: str) -> None:
        """Puts `finished` in the place of whatever is there. What is there goes when nothing can fail any more."""
        before = self.beside(target, "replaced")
        if there := self.exists(target):
            self.delete(before)
            self.rename(target, before)
        try:
            self.rename(finished, target)
        except Exception:
            if there:
                self.rename(before, target)
            raise
        self.delete(before)

    def join(self, folder: str, target: str, head: str) -> None:
        """One file of `head` and the parts that Spark has written to a folder, in their order."""
        path, system = self._open(folder)
        parts = sorted(
            (str(name), status)
            for status in system.listStatus(path)
            if not (name := status.getPath().getName()).startswith(("_", "."))
        )
        system.setWriteChecksum(False)  # a file of the user has no .crc beside it
        try:
            joined = system.create(self._open(target)[0], True)
        finally:
            system.setWriteChecksum(True)
        copy = self._jvm.org.apache.hadoop.io.IOUtils.copyBytes
        try:
            joined.write(bytearray(head, "utf-8"))
            for _, part in parts:
                stream = system.open(part.getPath())
                try:
                    copy(stream, joined, 1 << 20, False)
                finally:
                    stream.close()
        finally:
            joined.close()

    def rename(self, location: str, target: str) -> None:
        path, system = self._open(location)
        if not system.rename(path, self._open(target)[0]):
            raise SaseRunError(f"{location} cannot be renamed to {target}")

    def nanoseconds(self, location: str) -> dict[str, bool]:
        """The columns of Parquet files that have timestamps of nanoseconds, and whether these are in UTC."""
        found: dict[str, bool] = {}
        parquet, waiting = self._jvm.org.apache.parquet.hadoop, self.matching(location) or []
        while waiting:
            status = waiting.pop()
            path, system = self._open(str(status.getPath()))
            if path.getName().startswith(("_", ".")):
                continue
            if status.isDirectory():
                waiting += list(system.listStatus(path))
                continue
            file = parquet.ParquetFileReader.open(parquet.util.HadoopInputFile.fromPath(path, system.getConf()))
            try:
                columns = file.getFooter().getFileMetaData().getSchema().getFields()
            finally:
                file.close()
            for column in columns:
                if str(kind := column.getLogicalTypeAnnotation()).startswith("TIMESTAMP(NANOS"):
                    found[str(column.getName())] = bool(kind.isAdjustedToUTC())
        return found

    def qualified(self, location: str) -> str:
        path, system = self._open(location)
        return str(system.makeQualified(path))

    def format(self, location: str, found: Iterable[JavaObject]) -> str:
        """The one format of the data at a location."""
        formats = {name for status in found for name in self._formats(status)}
        match sorted(formats):
            case [one]:
                return one
            case []:
                raise SaseRunError(f"nothing tells the format of {location}: add --format")
            case several:
                raise SaseRunError(f"{location} has {' and '.join(several)} files: name those to read")

    def _formats(self, status: JavaObject) -> set[str]:
        name = str(status.getPath().getName())
        if not status.isDirectory():
            return {known} if (known := format_of(name)) else set()
        _, system = self._open(str(status.getPath()))
        children = list(system.listStatus(status.getPath()))
        if any(child.getPath().getName() == "_delta_log" for child in children):
            return {"delta"}
        if known := format_of(name):
            return {known}
        data = [child for child in children if not child.getPath().getName().startswith(("_", "."))]
        # Partitions are alike, so the first one that has files tells enough.
        here = {known for child in data if not child.isDirectory() for known in self._formats(child)}
        return here or next(filter(None, (self._formats(child) for child in data if child.isDirectory())), set())

    def _open(self, location: str) -> tuple[JavaObject, JavaObject]:
        path = self._jvm.org.apache.hadoop.fs.Path(location)
        return path, path.getFileSystem(self._session.sessionState().newHadoopConf())


_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")


def format_of(name: str, compressed: bool = True) -> str | None:
    stem, suffix = os.path.splitext(name.rstrip("/"))
    if compressed and suffix in _COMPRESSIONS:
        suffix = os.path.splitext(stem)[1]
    return _FORMATS.get(suffix.lower())


# ---- reading ------------------------------------------------------------------------------------


def open_events(
    arguments: argparse.Namespace, source: Source, default_events: str | None = None
) -> list[tuple[str | None, DataFrame]]:
    """The events that the arguments name, for `check`."""
    given = specs(arguments, default_events)
    with explained():
        spark = session("sase", arguments.verbose)
        return read_events(spark, find_inputs(spark, given, source.types, arguments.format, Csv.of(arguments)), source)


def read_events(spark: SparkSession, inputs: Sequence[Input], source: Source) -> list[tuple[str | None, DataFrame]]:
    """The tables for `check`."""
    shared = shared_types([each.type for each in inputs], source, "add --events {}=PATH")
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
            return csv(spark.read, spark, each, columns)
        case "json":
            names = json_columns(spark, each, source, types, columns)
            return spark.read.options(**TOLERANT).json(each.location, schema([*names, CORRUPT], columns))
        case known:
            return stored(spark, known, each.location)


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
    logging.getLogger("sase").warning(
        "%s has nanoseconds in %s, and Spark's timestamps have microseconds: the rest is cut off",
        *(location, ", ".join(nanoseconds)),
    )
    table = (spark.read if stream is None else stream).schema(columns).parquet(location)
    return table.withColumns({name: _from_nanoseconds(name, zoned) for name, zoned in nanoseconds.items()})


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


def csv(reader: Reader, spark: SparkSession, each: Input, columns: Mapping[str, DataType]) -> DataFrame:
    """Rows of CSV, or a stream of them."""
    header = each.csv.header or _header(spark, each)
    # Without enforceSchema, the header of each file is compared with these names.
    known = reader.options(**TOLERANT, **each.csv.options, enforceSchema=bool(each.csv.header))
    table: DataFrame = known.csv(each.location, schema([*header, CORRUPT], columns))
    return table


def _header(spark: SparkSession, each: Input) -> list[str]:
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
        _refuse_twins(each.location, next(reader([line], delimiter=each.csv.delimiter)))
    return columns


_DELIMITERS = (";", "\t", "|", ",")


def _named(delimiter: str) -> str:
    return delimiter.replace("\t", "\\t")


def _refuse_twins(location: str, names: Iterable[str]) -> None:
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
    _refuse_twins(each.location, names)
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
        spark = session("sase", arguments.verbose)
        for each in find_inputs(spark, arguments.events, types, arguments.format, Csv.of(arguments)):
            table = inferred(spark, each)
            if time is not None:
                _refuse_timeless(each, table, time, written)
            if type is not None and each.type is None:
                _refuse_lacking(each, table, type, "type", ", or give each event type its own --events TYPE=PATH")
            for field in table.schema:
                columns.setdefault(each.type, {}).setdefault(field.name, field.dataType.simpleString())
    return columns


def _refuse_timeless(each: Input, table: DataFrame, time: str, written: bool) -> None:
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


def read_as_is(arguments: argparse.Namespace, types: Collection[str] = ()) -> list[tuple[str | None, DataFrame]]:
    """The events with the columns and types that the data itself has, by event type; None for several types."""
    with explained():
        spark = session("sase", arguments.verbose)
        inputs = find_inputs(spark, arguments.events, types, arguments.format, Csv.of(arguments))
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
            _header(spark, each)
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
