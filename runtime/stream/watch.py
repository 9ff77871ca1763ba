"""Events with a clock: under a watermark, and with the reason why one cannot take part."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from sase.runtime.arguments import BUCKETS
from sase.runtime.errors import SaseRunError
from sase.runtime.events import Events, Source, names_of, pairs, quoted, reason, record, ticks, unite
from sase.runtime.ssc import check_limit
from sase.runtime.stream.horizon import TIMELY
from sase.runtime.stream.types import NUMBER, SOME, number, some, typed
from sase.runtime.stream.worker import EPOCH


@dataclass(frozen=True)
class Options:
    """What a stream needs to know beside the query.

    `max_delay` is how far behind the latest event another one may arrive and still take part: a duration such as
    "10 minutes", or a number in the units of an integer time. `buckets` is fixed for the life of a checkpoint.
    """

    max_delay: str | int = 0
    max_window_events_per_key: int | None = None
    buckets: int = BUCKETS

    def __post_init__(self) -> None:
        if self.buckets < 1:
            raise SaseRunError("the number of buckets is at least 1")
        check_limit(self.max_window_events_per_key)

    def delay(self, time_kind: str) -> str:
        """The delay as Spark's interval."""
        text = str(self.max_delay).strip()
        if re.fullmatch(r"\d+", text) and (time_kind == "integer" or int(text) == 0):
            return f"{int(text)} milliseconds"
        if time_kind == "timestamp" and _DURATION.fullmatch(text):
            return text
        example = "'10 minutes'" if time_kind == "timestamp" else "500, in the units of the time column"
        raise SaseRunError(f"the longest delay of an event is written as {example}, not {text!r}")


_UNIT = r"\d+\s+(?:millisecond|second|minute|hour|day|week)s?"
_DURATION = re.compile(rf"{_UNIT}(?:\s+{_UNIT})*", re.IGNORECASE)


@dataclass(frozen=True)
class Columns:
    """The names of our columns in a job."""

    time: str
    states: str
    reason: str
    record: str
    clock: str
    bucket: str


def watch(
    events: Events,
    source: Source,
    columns: Columns,
    options: Options | None,
    results: Mapping[str | None, DataFrame] | None = None,
) -> DataFrame:
    """The events under a watermark, with the reason why one cannot take part, where it cannot.

    Events of all types are let through, since each tells what time it is. Without options there is no watermark of
    ours; and none where the events have one on their time: Spark takes no second one, and goes by the clock it has.

    `results` of other queries are events, too, by their types. They tell no time that their own events did not tell.
    """
    if results:
        made = [str(name) for name in results]
        rest = replace(source, types={name: each for name, each in source.types.items() if name not in made})
        parts = [_made(results, replace(source, types={name: source.types[name] for name in made}), columns)]
        if rest.types:
            parts.insert(0, watch(events, rest, columns, options))
        # Types of columns are brought together as in a batch, or are found to be at odds.
        kinds = unite([*pairs(events), *pairs(results)] if rest.types else results, source, every=True).schema
        return reduce(
            lambda left, right: left.unionByName(right, allowMissingColumns=True),
            [_cast(part, kinds) for part in parts],
        )
    frames = [frame for _, frame in pairs(events)]
    marked = options is None or refuse_other_watermark(frames, source.time, options)
    delay = None if options is None or marked else options.delay(source.time_kind)
    united = unite(events, source, every=True)
    event_type, time = F.col(quoted(source.type)), ticks(united, quoted(source.time))
    # Both here: from any higher up, Spark would ask for all that is hidden in a row, to find the size of its file.
    numbered = united.withColumns({NUMBER: number(event_type, source), SOME: some(united, source, time)})
    ours = event_type.isNull() | (F.col(quoted(NUMBER)) != 0)
    valid = _valid(united, source, ours)
    # An event of another type tells what time it is, and nothing else. So the row that Spark writes for the watermark
    # has a time and, of an event of ours, all else in one column: it is narrow, however many the query reads.
    clocked = numbered.select(
        F.coalesce(F.when(valid, moment_of(time, source)), F.timestamp_millis(F.lit(0))).alias(columns.clock),
        F.when(ours, F.struct(*map(quoted, united.columns), quoted(NUMBER))).alias(_EVENT),
        quoted(SOME),
    )
    seen = clocked if delay is None else clocked.withWatermark(columns.clock, delay)
    there = f"{quoted(_EVENT)} IS NOT NULL"
    told = typed(seen.where(_seen(columns, f"{there} OR {quoted(SOME)} IS NOT NULL")), source, _EVENT)
    own = told.where(there).select(f"{quoted(_EVENT)}.*", columns.clock)
    known = _checked(own, source, columns, F.col(columns.clock))
    held_back = known.schema[columns.clock].metadata.get(_WATERMARK)  # a table at rest has no watermark
    if delay is not None and held_back is not None:
        vars(known)[_WATCHED] = Watched(united, source, held_back)
    return known


@dataclass(frozen=True)
class Watched:
    """What is known of events that `watch` has put under a watermark."""

    united: DataFrame
    source: Source
    delay: int
    """How far the watermark stays behind the latest time, in milliseconds."""


def watched_of(events: DataFrame) -> Watched | None:
    """Of what `watch` has returned; None where another watermark, or more than one, says what time it is."""
    return vars(events).get(_WATCHED)


_WATCHED = "_sase_watched"
"""Marks what `watch` returns."""


def plain(watched: Watched, columns: Columns) -> DataFrame:
    """What `watch` has returned, and events of other types, without a clock: for whoever reads the time elsewhere."""
    return _checked(watched.united, watched.source, columns, F.lit(None).cast("timestamp").alias(columns.clock))


def telling(watched: Watched) -> DataFrame:
    """Of every event, its `type`, its `time`, whether it is one of `ours`, and `at`: the ticks by which it tells the
    time, if it does."""
    united, source = watched.united, watched.source
    event_type = F.col(quoted(source.type))
    ours = event_type.isNull() | event_type.isin(*source.types)
    time = ticks(united, quoted(source.time))
    at = F.when(_valid(united, source, ours), time)
    return united.select(event_type.alias("type"), time.alias("time"), ours.alias("ours"), at.alias("at"))


def moment_of(time: Column, source: Source) -> Column:
    """A number of ticks as Spark's watermark counts them."""
    return F.timestamp_micros(time) if source.time_kind == "timestamp" else F.timestamp_millis(time + EPOCH)


def _valid(united: DataFrame, source: Source, ours: Column) -> Column:
    """Whether an event tells what time it is."""
    time = ticks(united, quoted(source.time))
    valid = time.isNotNull() & ~(ours & _flaw(united, source).isNotNull())
    return valid if source.time_kind == "timestamp" else valid & time.between(-EPOCH, EPOCH)


def _checked(events: DataFrame, source: Source, columns: Columns, clock: Column) -> DataFrame:
    flaw, read = _flaw(events, source), record(events)
    return events.select(*names_of(source), flaw.alias(columns.reason), read.alias(columns.record), clock)


_EVENT = "sase event"
"""A struct of what is known of an event of ours; NULL for any other."""


def _flaw(events: DataFrame, source: Source) -> Column:
    """Why an event of ours cannot take part; NULL if it can."""
    why = reason(events, source)
    if source.time_kind == "timestamp":
        return why
    time = ticks(events, quoted(source.time))
    return F.coalesce(F.when(~time.between(-EPOCH, EPOCH), f"time beyond ±{EPOCH}"), why)


def _made(results: Mapping[str | None, DataFrame], source: Source, columns: Columns) -> DataFrame:
    """Results of other queries as events, none of which is flawed."""
    nothing = F.lit(None).cast("string")
    ours = {columns.reason: nothing, columns.record: nothing, columns.clock: F.timestamp_millis(F.lit(0))}
    return unite(results, source).withColumns(ours)


def _cast(events: DataFrame, kinds: StructType) -> DataFrame:
    known = {field.name: field.dataType for field in kinds}
    other = {
        field.name: F.col(quoted(field.name)).cast(known[field.name])
        for field in events.schema
        if field.dataType != known.get(field.name, field.dataType)
    }
    return events.withColumns(other) if other else events


def never_late(states: Column, event_type: str, results: Collection[str], every: bool = False) -> Column:
    """The state bits, marked where the event is a result of another query. `every` says that one without a bit matters,
    too: it may stand in the way."""
    is_result = F.col(quoted(event_type)).isin(*results)
    if not every:
        is_result &= states != 0
    return F.when(is_result, states.bitwiseOR(F.lit(TIMELY))).otherwise(states)


def refuse_other_watermark(frames: Sequence[DataFrame], time: str, options: Options) -> bool:
    """Whether the events have a watermark on their time. Refuses what Spark would refuse when the stream starts."""
    marked = []
    for frame in frames:
        columns = [field.name for field in frame.schema if _WATERMARK in field.metadata]
        if not columns and not is_remote() and _MARKED in frame._jdf.queryExecution().analyzed().toString():
            raise SaseRunError(
                f'the events have a watermark on a column that is left out: put it on "{time}", or leave the '
                "watermark out and give max_delay"
            )
        if columns and time.lower() not in map(str.lower, columns):  # it is there twice where a query selects it twice
            raise SaseRunError(
                f'the events have a watermark on "{columns[0]}", and the query goes by "{time}": put the '
                f'watermark on "{time}", or leave it out and give max_delay'
            )
        marked.append(bool(columns))
    if any(marked) and not all(marked):
        raise SaseRunError(
            "some of the events have a watermark, and some have none: give it to all of them, or to none"
        )
    if any(marked) and str(options.max_delay).strip() != "0":
        raise SaseRunError("the events have a watermark of their own: leave max_delay out, or the watermark")
    return any(marked)


_WATERMARK = "spark.watermarkDelayMs"
"""Where Spark notes the delay of a watermark, in the metadata of its column."""
_MARKED = "EventTimeWatermark"
"""Spark's name for the step of a plan that has put a watermark on a column."""


def matters(columns: Columns, fills: str) -> str:
    """The condition of events that travel on: they may fill a state, or must be reported."""
    return _seen(columns, f"{fills} OR {columns.reason} IS NOT NULL")


def _seen(columns: Columns, condition: str) -> str:
    """The condition, of events that have been seen by the watermark.

    Spark would count an event for the watermark only after all filters that do not look at the clock: so this one does.
    """
    return f"{condition} OR {columns.clock} < TIMESTAMP '0001-01-01 00:00:00Z'"
