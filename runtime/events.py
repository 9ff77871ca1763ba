"""From a user's tables to the events of a query: one DataFrame, checked against what the query was compiled for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    NumericType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from sase.runtime.errors import SaseRunError
from sase.runtime.pattern import ARRIVES

if TYPE_CHECKING:
    from sase.runtime.io.tally import Tally

Events = DataFrame | Mapping[str | None, DataFrame] | Sequence[tuple[str | None, DataFrame]]
"""One table with a type column; or tables by event type, where None stands for a table of several types."""

FURTHEST = 8 * 10**18
"""Integer times beyond it, on either side, cannot take part: with a window added, they might not fit into 64 bits."""

CORRUPT = "_corrupt_record"
"""Where Spark's readers put a record that they cannot read, if there is such a column."""


@dataclass(frozen=True)
class Csv:
    """How CSV is written. `header` names the columns of files that do not begin with their names."""

    delimiter: str = ","
    null: str = ""
    header: tuple[str, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """For Spark's reader."""
        return {"header": not self.header, "sep": self.delimiter, "nullValue": self.null}


AS_USUAL = Csv()


@dataclass(frozen=True)
class Source:
    """Where an event has its type, time and tie-breaker, and the columns that the query reads of each event type.

    `types` gives the Spark type of each column. Time and tie-breaker are read whether it lists them or not. `where`
    holds for every event that can take part, and is so plain that Spark need not read the files, or parts of files, in
    which it holds nowhere. A stream, in which every event tells the time, does without. `time_unit` or `time_format`
    say how a time is written that is to become a timestamp, and `csv` how CSV is, if the command line does not.
    """

    time: str
    type: str
    order: str | None
    time_kind: Literal["timestamp", "integer"]
    types: Mapping[str, Mapping[str, str]]
    where: str | None = None
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    time_format: str | None = None
    csv: Csv = AS_USUAL

    @property
    def written(self) -> str | None:
        """How the time is written, if it has to become a timestamp."""
        return (
            f"a number of {self.time_unit}"
            if self.time_unit
            else f"a text as {self.time_format}"
            if self.time_format
            else None
        )

    @property
    def whole(self) -> Source:
        """All events of the query's types, whether they can take part or not."""
        return replace(self, where=None)

    @property
    def required(self) -> dict[str, str]:
        """The columns without whose value an event cannot take part, and what they hold."""
        order = {} if self.order is None else {self.order: "tie-breaker"}
        return {self.type: "type", self.time: "time", **order}

    @property
    def usable(self) -> dict[str, str]:
        """What an event needs to take part, and the condition that it has it."""
        present = {what: f"{quoted(column)} IS NOT NULL" for column, what in self.required.items()}
        if self.time_kind == "integer":
            present["usable time"] = f"{quoted(self.time)} BETWEEN {-FURTHEST} AND {FURTHEST}"
        return present

    @property
    def columns(self) -> dict[str, dict[str, str]]:
        """The columns beside the type, with the Spark type that each event type declares for them.

        Names that differ in case only are one column, under the first spelling.
        """
        found: dict[str, tuple[str, dict[str, str]]] = {name.lower(): (name, {}) for name in self.required}
        for event_type, declared in self.types.items():
            for name, kind in declared.items():
                found.setdefault(name.lower(), (name, {}))[1][event_type] = kind
        return dict(pair for name, pair in found.items() if name != self.type.lower())


def check(events: Events, source: Source, tally: Tally | None = None) -> DataFrame:
    """The events of the query's types: type, time, tie-breaker, then attributes in the order of their declaration.

    Column names match in any case, as in Spark, and come out as declared; values are widened where that loses nothing.
    What a type does not declare is NULL in its events. What has a flaw cannot take part: the tally counts it. Lazy, and
    checking the result again changes nothing.
    """
    # Not getattr: in Spark Connect, a DataFrame has every attribute, as a column.
    if isinstance(events, DataFrame) and _CHECKED in vars(events) and source_of(events) == source:
        return events
    united = unite(events, source)
    watched = united if tally is None else tally.watch(united, events, source)
    checked = _complete(watched, united, source)
    plain = checked if tally is None else _complete(united, united, source)
    setattr(checked, _CHECKED, _Checked(source, tally, plain))
    return checked


def uncounted(checked: DataFrame) -> DataFrame:
    """What `check` has returned, without a tally: some of it may be read once more."""
    return _checked(checked).plain


def source_of(checked: DataFrame) -> Source:
    """What `check` was told to find."""
    return _checked(checked).source


def tally_of(checked: DataFrame) -> Tally | None:
    """Who counts the events that `check` has returned."""
    return _checked(checked).tally


def _complete(events: DataFrame, united: DataFrame, source: Source) -> DataFrame:
    complete = events.where(" AND ".join(f"NOT ({flaw})" for flaw in flaws(united, source).values()))
    return complete if complete.columns == [source.type, *source.columns] else complete.select(names_of(source))


@dataclass(frozen=True)
class _Checked:
    """What is known of the events that `check` has returned. `plain` are the same ones, which no tally counts."""

    source: Source
    tally: Tally | None
    plain: DataFrame


_CHECKED = "_sase_checked"
"""Marks what `check` returns, so that the job need not do it again for `Query.run`: planning is a good part of the time
that a small query takes."""


def _checked(events: DataFrame) -> _Checked:
    return vars(events)[_CHECKED]  # type: ignore[no-any-return]


def flaws(united: DataFrame, source: Source) -> dict[str, str]:
    """Why an event cannot take part, in words and in Spark SQL. The first that holds is the reason."""
    unreadable = {"that cannot be read": f"{CORRUPT} IS NOT NULL"} if CORRUPT in united.columns else {}
    return unreadable | {f"without a {what}": f"NOT ({has})" for what, has in source.usable.items()}


def reason(united: DataFrame, source: Source) -> Column:
    """The reason why an event cannot take part; NULL if it can."""
    return F.coalesce(
        *(F.when(F.expr(flaw), words.removeprefix("that ")) for words, flaw in flaws(united, source).items())
    )


def record(united: DataFrame) -> Column:
    """The text that could not be read; NULL where there is none."""
    return F.col(CORRUPT) if CORRUPT in united.columns else F.lit(None).cast("string")


def rejected(united: DataFrame, source: Source) -> DataFrame:
    """What cannot take part: the reason, the record if it could not be read, and the event."""
    told = {"reason": reason(united, source), "record": record(united), "event": F.struct(*names_of(source))}
    return united.select(*(value.alias(name) for name, value in told.items())).where("reason IS NOT NULL")


def names_of(source: Source) -> list[str]:
    return [quoted(name) for name in (source.type, *source.columns)]


def unite(events: Events, source: Source, every: bool = False) -> DataFrame:
    """One table of the events, with NULL where type, time or tie-breaker are missing, and with what could not be read,
    where a table has it.

    `every` lets events of types that the query does not name through.
    """
    tables = _tables(events, source)
    columns = [
        _Column(name, _parsed(kinds), name in source.required, source.written if name == source.time else None)
        for name, kinds in source.columns.items()
    ]
    complaints = [table.complaint(source.type) for table in tables if table.shared]
    complaints += [column.complaint(table, source) for column in columns for table in tables if column.is_in(table)]
    if not any(complaints):
        complaints = [column.conflict(tables) for column in columns]
    if any(complaints):
        raise SaseRunError("\n".join(filter(None, complaints)))

    return reduce(
        lambda left, right: left.unionByName(right, allowMissingColumns=True),
        (
            table.select(source, {column: column.kind(tables) for column in columns if column.is_in(table)}, every)
            for table in tables
        ),
    )


def types_there(events: Events, source: Source, most: int) -> tuple[list[str], bool]:
    """The event types among the first events of the tables of several types, and whether these are all their events."""
    found, every = dict[str, None](), True
    for table in _tables(events, source):
        if table.shared:
            rows = table.frame.select(table.event_type(source)).head(most)
            found |= dict.fromkeys(value for (value,) in rows if value is not None)
            every = every and len(rows) < most
    return sorted(found), every


def is_there(events: Events, source: Source, event_type: str) -> bool:
    """Whether an event of a table of several types has the type. (Text would have to be read from end to end.)"""
    tables = [table for table in _tables(events, source) if table.shared and not table.is_text]
    return any(table.frame.where(table.event_type(source) == event_type).head(1) for table in tables)


def own_tables(events: Events) -> set[str]:
    """The event types that have a table of their own."""
    return {name for name, _ in pairs(events) if name is not None}


def streaming(events: Events) -> bool:
    """Whether these are streams, all of them."""
    kinds = {frame.isStreaming for _, frame in pairs(events)}
    if len(kinds) > 1:
        raise SaseRunError("some of the events are a stream and some are not: read all of them in one way")
    return kinds == {True}


def ticks(events: DataFrame, column: str) -> Column:
    """The time as a 64-bit integer: microseconds, or the integer that it is.

    A timestamp without a zone counts as UTC, whatever the session's zone: its differences are those of the clock on
    the wall. (`unix_micros` would do in Spark 4.3; older ones send it through the session's zone first.)
    """
    time = F.col(column)
    match events.select(time).schema[0].dataType:
        case TimestampType():
            return F.unix_micros(time)
        case TimestampNTZType():
            since_1970 = time - F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'")
            return (since_1970.cast("interval second").cast("decimal(20,6)") * 1_000_000).cast("bigint")
        case DateType():
            return F.unix_date(time).cast("bigint") * 86_400_000_000
        case _:
            return time.cast("bigint")


def later(events: DataFrame, column: str, length: int) -> Column:
    """The time that many ticks later, exactly: adding an interval would go by the session's zone and its clock changes.

    A day is 24 hours. A date and part of a day make a timestamp without a zone.
    """
    time = F.col(column)
    interval = F.expr(f"make_dt_interval(0, 0, 0, {length // 1_000_000}.{length % 1_000_000:06d})")
    match events.select(time).schema[0].dataType:
        case TimestampType():
            return F.timestamp_micros(F.unix_micros(time) + length)
        case TimestampNTZType():
            return time + interval
        case DateType():
            days, rest = divmod(length, 86_400_000_000)
            return time.cast("timestamp_ntz") + interval if rest else F.date_add(time, days)
        case _:
            return time.cast("bigint") + length


def moment(matches: DataFrame, ticks: Column, like: str, *lengths: int) -> Column:
    """Ticks as a time again, of the type that the column `like` has, from which it may be one of `lengths` away.

    A date and part of a day make a timestamp without a zone, as in `later`.
    """
    match matches.select(like).schema[0].dataType:
        case TimestampType():
            return F.timestamp_micros(ticks)
        case DateType() if not any(length % 86_400_000_000 for length in lengths):
            return F.date_from_unix_date((ticks / 86_400_000_000).cast("int"))
        case TimestampNTZType() | DateType():
            none, seconds = F.lit(0), ticks.cast("decimal(20,0)") / 1_000_000
            since_1970 = F.make_dt_interval(none, none, none, seconds)
            return F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'") + since_1970
        case kind:
            return ticks if lengths else ticks.cast(kind)


def state_bits(fills: Mapping[str, str], arrives: str | None = None) -> Column:
    """A bit for each variable, the first one lowest: set where the event may fill it. NULL is not true.

    On a stream, `arrives` says which events take part in what has arrived.

    The number of a partition, which is never negative, keeps Spark from computing the bits again wherever they are
    asked for: what depends on it is computed once. Comparing types with strings takes most of a scan's time.
    """
    bits = [f"IF({condition}, {1 << bit}L, 0L)" for bit, condition in enumerate(fills.values())]
    if arrives is not None:
        bits.append(f"IF({arrives}, {ARRIVES}L, 0L)")
    return F.expr(f"IF(spark_partition_id() >= 0, {' | '.join(bits)}, 0L)")


def expected(source: Source, types: Collection[str]) -> dict[str, DataType]:
    """The columns to find in a table of these types, for formats whose files do not tell the types of their columns."""
    columns: dict[str, DataType] = {source.type: StringType()}
    for name, kinds in source.columns.items():
        declared = [kind for event_type, kind in _parsed(kinds).items() if event_type in types]
        if declared:
            columns[name] = _widest(declared) or StringType()
        elif name in source.required:
            # A tie-breaker that nobody declares counts rows more often than not.
            columns[name] = TimestampType() if name == source.time and source.time_kind == "timestamp" else LongType()
    if source.time_format:
        columns[source.time] = StringType()
    elif source.time_unit:
        # Seconds more often than not come with a fraction.
        columns[source.time] = DecimalType(20, 6) if source.time_unit == "s" else LongType()
    return columns


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# ---- tables and columns -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Table:
    """A table of the user, and the event types that are read from it."""

    frame: DataFrame
    types: tuple[str, ...]
    shared: bool

    @property
    def whose(self) -> str:
        return "the events" if self.shared else f"the {self.types[0]} events"

    @property
    def is_text(self) -> bool:
        """Whether all of it is read in any case, and what cannot be read is marked."""
        return CORRUPT in self.frame.columns

    def spelling(self, name: str) -> str | None:
        """The column's name as the table has it."""
        names = [column for column in self.frame.columns if column.lower() == name.lower()]
        return name if name in names else names[0] if names else None

    def kind(self, name: str) -> DataType | None:
        spelling = self.spelling(name)
        return None if spelling is None else self.frame.schema[spelling].dataType

    def is_plain(self, name: str, kind: DataType | None) -> bool:
        """Whether the table has the column under this very name, and of this type."""
        return self.spelling(name) == name and kind in (None, self.kind(name))

    def event_type(self, source: Source) -> Column:
        return F.col(quoted(self.spelling(source.type) or source.type)).cast("string")

    def lacks(self, name: str) -> str:
        near = get_close_matches(name.lower(), [column.lower() for column in self.frame.columns], n=1)
        clue = f'did you mean "{self.spelling(near[0])}"?' if near else f"there are {', '.join(self.frame.columns)}"
        return f'{self.whose} have no column "{name}": {clue}'

    def example(self, name: str) -> str:
        """One value of a column, where that can be told."""
        column = quoted(self.spelling(name) or name)
        rows = [] if self.frame.isStreaming else self.frame.where(f"{column} IS NOT NULL").select(column).head(1)
        return f', such as "{rows[0][0]}"' if rows else ""

    def complaint(self, type_column: str) -> str | None:
        kind = self.kind(type_column)
        if kind is None:
            return self.lacks(type_column)
        if not isinstance(kind, _STRINGS | NullType):
            return f'column "{type_column}" of {self.whose} is {kind.simpleString()}, and event types are strings'
        return collation(kind, type_column, f'column "{type_column}" of {self.whose}')

    def select(self, source: Source, columns: Mapping[_Column, DataType | None], every: bool) -> DataFrame:
        type_column = source.type
        # A column that is right as it is goes by its name: each `Column` takes several calls into the JVM to make.
        events, selected, unreadable = self.frame, list[Column | str](), list[Column]()
        if not self.shared:
            event_type = F.lit(self.types[0])
            selected.append(event_type.alias(type_column))
        else:
            event_type = F.col(quoted(self.spelling(type_column) or type_column))
            plain = self.is_plain(type_column, StringType())
            selected.append(quoted(type_column) if plain else event_type.cast("string").alias(type_column))
            if not every:
                # The first filter, in plain sight of the source: files and partitions of other types are not even
                # read. Events without a type come along to be counted.
                events = events.where(event_type.isin(*self.types) | event_type.isNull())
                pruned = plain and all(self.spelling(name) == name for name in source.columns)
                pruned = pruned and not self.is_text and source.written is None
                if source.where and pruned:
                    # On the table's own columns: a filter on what is made of them would not reach the files.
                    missing = " OR ".join(f"{quoted(name)} IS NULL" for name in source.required)
                    events = events.where(f"({source.where}) OR {missing}")
        for column, kind in columns.items():
            declaring = [name for name in self.types if name in column.declared]
            partly = not column.required and len(declaring) < len(self.types)
            if not partly and self.is_plain(column.name, kind):
                selected.append(quoted(column.name))
                continue
            value = F.col(quoted(self.spelling(column.name) or column.name))
            if column.name == source.time:
                moment = as_timestamp(value, self.kind(column.name), source.time_unit, source.time_format)
                if moment is not None:
                    selected.append(moment.alias(column.name))
                    unreadable.append(F.when(moment.isNull(), value.cast("string")))
                    continue
            if kind not in (None, self.kind(column.name)):
                value = value.cast(kind)
            if partly:
                # Whatever the table holds there: an event has the attributes that its type declares, and no others.
                value = F.when(event_type.isin(*declaring), value)
            selected.append(value.alias(column.name))
        if CORRUPT not in source.columns:
            unreadable = [F.col(CORRUPT), *unreadable] if self.is_text else unreadable
            selected += [F.coalesce(*unreadable).alias(CORRUPT)] if unreadable else []
        return events.select(*selected)


_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def as_timestamp(time: Column, kind: DataType | None, unit: str | None, format: str | None) -> Column | None:
    """The timestamp of a time that is a number or text, to the microsecond; NULL where it is none.

    None if values of this type are not so written.
    """
    if format is not None and isinstance(kind, _STRINGS):
        return time.try_cast("timestamp") if format == "iso" else F.try_to_timestamp(time, F.lit(format))
    if unit is None or not isinstance(kind, NumericType):
        return None
    if unit == "ns":  # cut off towards the past, before 1970, too
        return F.timestamp_micros(F.floor(time.try_cast("decimal(20,0)") / 1000).cast("bigint"))
    micros = F.try_multiply(
        time.cast("bigint") if isinstance(kind, tuple(_DIGITS)) else time, F.lit(_MICROSECONDS[unit])
    )
    if isinstance(kind, DecimalType):
        micros = F.floor(micros)
    elif isinstance(kind, FloatType | DoubleType):
        # There is no double for a tenth of a second: the nearest microsecond is the one that was meant.
        micros = F.round(micros)
    return F.timestamp_micros(micros.try_cast("bigint"))


def timestamped(frame: DataFrame, column: str, unit: str | None, format: str | None) -> DataFrame:
    """The table with timestamps for times that are so written."""
    for field in frame.schema:
        moment = as_timestamp(F.col(quoted(field.name)), field.dataType, unit, format)
        if field.name.lower() == column.lower() and moment is not None:
            return frame.withColumn(field.name, moment)
    return frame


@dataclass(frozen=True, eq=False)
class _Column:
    """A column that the query reads, and the type that event types declare for it."""

    name: str
    declared: Mapping[str, DataType]
    required: bool
    written: str | None = None
    """How a time is written that becomes a timestamp."""

    def is_in(self, table: _Table) -> bool:
        return self.required or any(event_type in self.declared for event_type in table.types)

    def kinds(self, table: _Table) -> list[DataType]:
        """What the values of a table are taken for: what its event types declare, or what is there if none does."""
        actual = table.kind(self.name) or NullType()
        if self.written and not isinstance(actual, TimestampType | TimestampNTZType | DateType):
            return [TimestampType()]
        kinds = [self.declared[event_type] for event_type in table.types if event_type in self.declared]
        # No cast between the two timestamps: it would bring a time zone in, and ticks() takes either.
        local = isinstance(actual, TimestampNTZType)
        return [actual if local and isinstance(kind, TimestampType) else kind for kind in kinds] or [actual]

    def kind(self, tables: list[_Table]) -> DataType | None:
        """The one type that holds the values of all tables; None if there is none."""
        return _widest([kind for table in tables if self.is_in(table) for kind in self.kinds(table)])

    def complaint(self, table: _Table, source: Source) -> str | None:
        actual = table.kind(self.name)
        if actual is None:
            return table.lacks(self.name) + (
                " (--time names the column of the time)" if self.name == source.time else ""
            )
        if collated := collation(actual, self.name, f'column "{self.name}" of {table.whose}'):
            return collated
        found = f'column "{self.name}" of {table.whose} is {actual.simpleString()}'
        if self.written and not isinstance(actual, _TIMES["timestamp"]):
            fits = as_timestamp(F.lit(None), actual, source.time_unit, source.time_format) is not None
            return None if fits else f"{found}, and the query was compiled for a time that is {self.written}"
        for kind in self.kinds(table):
            if not _fits(actual, kind) and not (self.name == source.time and isinstance(actual, _STRINGS)):
                return (
                    f"{found}, and the query was compiled for {kind.simpleString()}: "
                    f"cast the column, or declare it {actual.simpleString()} and compile again"
                )
        if self.name == source.time and not isinstance(actual, _TIMES[source.time_kind]):
            wanted = f"and the query was compiled for a time that is {_TIME_NAMES[source.time_kind]}"
            if not isinstance(actual, _STRINGS):
                return f"{found}, {wanted}"
            return f"{found}{table.example(self.name)}, {wanted}: say how it is written, as with --time-format iso"
        return None

    def conflict(self, tables: list[_Table]) -> str | None:
        if self.kind(tables) is not None:
            return None
        kinds = {kind.simpleString() for table in tables if self.is_in(table) for kind in self.kinds(table)}
        return f'column "{self.name}" is {" and ".join(sorted(kinds))} in different tables: cast it to one type'


def _tables(events: Events, source: Source) -> list[_Table]:
    """The tables to read, without those of event types that the query does not name."""
    given = pairs(events)
    shared = shared_types([name for name, _ in given], source)
    return [
        _Table(frame, shared if name is None else (name,), shared=name is None)
        for name, frame in given
        if name in source.types or (name is None and shared)
    ]


def pairs(events: Events) -> list[tuple[str | None, DataFrame]]:
    match events:
        case DataFrame():
            return [(None, events)]
        case Mapping():
            return list(events.items())
        case _:
            return list(events)


def shared_types(given: Collection[str | None], source: Source, remedy: str = "") -> tuple[str, ...]:
    """The event types that have no table of their own, and so must come from a table of several types.

    `remedy` says how to give one to a type.
    """
    own = {name for name in given if name is not None}
    rest = tuple(name for name in source.types if name not in own)
    if rest and None not in given:
        raise SaseRunError("\n".join(without_table(name, own, remedy) for name in rest))
    return rest


def without_table(name: str, tables: set[str], remedy: str) -> str:
    near = get_close_matches(name, tables, n=1)
    if near:
        return f"no table has the {name} events: did you mean {name} by {near[0]}?"
    then = f"; {remedy.format(name)}" if remedy else ""
    return f"no table has the {name} events: there are tables of {', '.join(sorted(tables)) or 'none'}{then}"


def _parsed(kinds: Mapping[str, str]) -> dict[str, DataType]:
    return {event_type: _type(kind) for event_type, kind in kinds.items()}


@cache
def _type(kind: str) -> DataType:
    """Spark's parser is asked once: each time is a call into the JVM."""
    return DataType.fromDDL(kind)


_STRINGS = StringType | CharType | VarcharType
_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_TIMES = {"timestamp": (TimestampType, TimestampNTZType, DateType), "integer": tuple(_DIGITS)}
_TIME_NAMES = {"timestamp": "a timestamp or a date", "integer": "an integer"}


def collation(kind: DataType, name: str, where: str) -> str | None:
    """What is wrong with strings of which Spark takes different ones for equal: a worker knows them by their bytes."""
    if "collate" not in kind.simpleString():
        return None
    return (
        f"{where} is {kind.simpleString()}, and sase compares strings by their bytes: "
        f"give it as {quoted(name)} COLLATE UTF8_BINARY"
    )


def _widest(kinds: Sequence[DataType]) -> DataType | None:
    return next((kind for kind in kinds if all(_fits(other, kind) for other in kinds)), None)


def _fits(actual: DataType, kind: DataType) -> bool:
    """Whether every value of one type is a value of the other."""
    if isinstance(actual, NullType) or (isinstance(actual, _STRINGS) and isinstance(kind, _STRINGS)):
        return True
    digits = _DIGITS.get(type(actual))
    match kind:
        case ByteType() | ShortType() | IntegerType() | LongType():
            return digits is not None and digits <= _DIGITS[type(kind)]
        case FloatType():
            return isinstance(actual, ByteType | ShortType | FloatType)
        case DoubleType():
            return isinstance(actual, ByteType | ShortType | IntegerType | FloatType | DoubleType)
        case DecimalType():
            if isinstance(actual, DecimalType):
                return actual.scale <= kind.scale and actual.precision - actual.scale <= kind.precision - kind.scale
            return digits is not None and digits <= kind.precision - kind.scale
    return actual.simpleString() == kind.simpleString()
