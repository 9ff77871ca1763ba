"""Events with a clock: under a watermark, and with the reason why one cannot take part."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sase.runtime.arguments import BUCKETS
from sase.runtime.errors import SaseRunError
from sase.runtime.events import Events, Source, names_of, quoted, reason, record, ticks, unite
from sase.runtime.ssc import check_limit
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


def watch(events: Events, source: Source, columns: Columns, options: Options | None) -> DataFrame:
    """The events under a watermark, with the reason why one cannot take part, where it cannot.

    Events of all types are let through, since each tells what time it is. Without options there is no watermark.
    """
    united = unite(events, source, every=True)
    event_type, time = F.col(quoted(source.type)), ticks(united, quoted(source.time))
    why = reason(united, source)
    if source.time_kind == "integer":
        why = F.coalesce(F.when(~time.between(-EPOCH, EPOCH), f"time beyond ±{EPOCH}"), why)
    ours = event_type.isNull() | event_type.isin(*source.types)
    tagged = united.select(
        *names_of(source), F.when(ours, why).alias(columns.reason), record(united).alias(columns.record)
    )
    moment = F.timestamp_micros(time) if source.time_kind == "timestamp" else F.timestamp_millis(time + EPOCH)
    valid = F.col(quoted(source.time)).isNotNull() & F.col(columns.reason).isNull()
    clocked = tagged.withColumn(columns.clock, F.coalesce(F.when(valid, moment), F.timestamp_millis(F.lit(0))))
    return clocked if options is None else clocked.withWatermark(columns.clock, options.delay(source.time_kind))


def matters(columns: Columns, fills: str) -> str:
    """The condition of events that travel on: they may fill a state, or must be reported.

    Spark would count an event for the watermark only after all filters that do not look at the clock: so this one does.
    """
    return f"{fills} OR {columns.reason} IS NOT NULL OR {columns.clock} < TIMESTAMP '0001-01-01 00:00:00Z'"
