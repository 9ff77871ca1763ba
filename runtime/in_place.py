"""Events that stay where they are read, so that no shuffle has to bring them together.

Events are mostly written in the order of time. Each part of such files then has a stretch of it, with all that the
matches inside of it need, whatever the keys: only what is near its ends has to be shuffled by key. A shuffle costs more
than all else that is done to an event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, TimestampType
from pyspark.sql.utils import is_remote

from sase.runtime.events import quoted, ticks, uncounted
from sase.runtime.io.footers import Part, parts
from sase.runtime.io.meters import LARGE, is_columnar
from sase.runtime.io.plans import knows_files, size
from sase.runtime.reading import in_workers
from sase.runtime.shuffle import by_key
from sase.runtime.zones import FOREVER, Layout, Times, Zone, layout

SMALL = 8 << 20
"""Bytes of files below which a shuffle takes no longer than to look at what workers could read."""
MOST_ZONES = 48
"""Every event is looked up among them, in one piece of generated code: Java does not compile long ones."""
MOST_NEAR = 0.25
"""A larger share of events near borders is read twice, and shuffled: then all may go by key as well."""


def in_place(
    events: DataFrame,
    relevant: Callable[[DataFrame], DataFrame],
    *keys: str,
    time: str,
    back: int,
    ahead: int = 0,
    states: str,
    borrowed: str,
    slices: Slices | None = None,
    scan: str = "worker",
    partitions: int | None = None,
    bootstrap: Callable[[], None] | None = None,
) -> DataFrame:
    """The relevant events, in partitions each of which has all that the matches need that are found in it.

    Large files are looked at once more, for their times. Where these are in order, events that are not near the end of
    what a partition has stay in it, and all others go by key. A match lies, with all that it needs, less than `back`
    before its last event and less than `ahead` behind it. An event may be needed in two places: in SQL, `borrowed` are
    its state bits in that where it may not be the last. With `slices`, what does not stay is cut by time.

    Where they can, workers read the events, unless `scan` says that Spark does: then rows only stand for them.
    """
    cut = slices.cut if slices is not None else lambda events: events
    if scan == "worker" and not is_remote() and size(uncounted(events)) >= SMALL:
        read = in_workers(
            events,
            relevant,
            keys,
            back=back,
            ahead=ahead,
            states=states,
            borrowed=borrowed,
            sliced=cut,
            slice=None if slices is None else slices.column,
            partitions=partitions,
            bootstrap=bootstrap,
        )
        if read is not None:
            return read
    found = _layout(events, time, back, ahead)
    if found is None:
        return by_key(cut(relevant(events)), *keys, partitions=partitions)
    parts, known = found
    at = time if slices is None else slices.time
    zone = _zone(ticks(events, time), known.zones)
    here = relevant(events.where(zone >= 0).where(_as_known(F.shiftright(zone, 1), parts)))
    zone = _zone(ticks(here, at), known.zones)
    home = _lent(here, states, zone % 2 == 1, borrowed)
    near = relevant(uncounted(events).where(_during(events, time, known.near)))
    borders = cut(_lent(near, states, _during(near, at, known.borders), borrowed))
    if slices is not None:  # a part is a slice, far from those that are cut
        home = home.withColumn(slices.column, F.shiftright(zone, 1) + F.lit(-FOREVER))
        home = home.select(*map(quoted, borders.columns))
    return home.union(by_key(borders, *keys, partitions=partitions))


@dataclass(frozen=True)
class Slices:
    """The function that copies relevant events to the time slices that their window reaches, the column that it makes,
    and the column of their ticks."""

    cut: Callable[[DataFrame], DataFrame]
    column: str
    time: str


def _lent(events: DataFrame, states: str, own: Column, borrowed: str) -> DataFrame:
    return events.withColumn(states, F.when(own, F.col(states)).otherwise(F.expr(borrowed))).where(f"{states} <> 0")


def _layout(events: DataFrame, time: str, back: int, ahead: int) -> tuple[list[Part], Layout] | None:
    """None where it would not pay."""
    if is_remote() or not isinstance(events.select(time).schema[0].dataType, TimestampType | IntegralType):
        return None
    read = uncounted(events)
    if not is_columnar(read) or size(read) < LARGE or not knows_files(read) or (found := parts(read, time)) is None:
        return None
    tasks: Counter[int] = Counter()
    for part in found:
        tasks[part.task] += part.times.events
    cores = events.sparkSession.sparkContext.defaultParallelism
    if len(tasks) < cores or max(tasks.values()) * cores > 2 * tasks.total():
        return None  # some core would have nothing to do
    known = layout([part.times for part in found], back, ahead)
    return (found, known) if known.share <= MOST_NEAR and len(known.zones) <= MOST_ZONES else None


def _zone(time: Column, zones: Sequence[Zone]) -> Column:
    """Twice the number of the part, and one more if it owns the matches that end there; -1 if it is nobody's."""
    if len(zones) > 1:
        middle = len(zones) // 2
        return F.when(time < zones[middle].start, _zone(time, zones[:middle])).otherwise(_zone(time, zones[middle:]))
    (zone,) = zones
    return F.lit(-1 if zone.part is None else 2 * zone.part + zone.owns)


_START, _LENGTH = (f"_metadata.file_block_{what}" for what in ("start", "length"))


def _as_known(part: Column, parts: Sequence[Part]) -> Column:
    """True, or the end of the run: if files were cut in other places, matches would be lost. (A part has an end of its
    own in its file; and which files there are, a DataFrame knows from its beginning.)"""
    cut = (
        "the files of the events were read in other parts than when their times were looked up: have they changed, or "
        "a setting such as spark.sql.files.maxPartitionBytes? Run the query again, or with --strategy parallel=key"
    )
    ends = F.array(*(F.lit(part.end).cast("bigint") for part in parts))
    here = F.col(_START) + F.col(_LENGTH)
    return F.when(here == F.get(ends, part), True).otherwise(F.raise_error(F.lit(cut)).cast("boolean"))


def _during(events: DataFrame, time: str, times: Sequence[Times]) -> Column:
    """Compared with the column itself, so that Spark can skip what files have of other times."""
    kind, column = events.select(time).schema[0].dataType, F.col(time)

    def literal(at: int) -> Column:
        return F.timestamp_micros(F.lit(at)) if isinstance(kind, TimestampType) else F.lit(at).cast("bigint")

    condition = F.lit(False)
    for start, end in times:
        since = column >= literal(start) if start > -FOREVER else F.lit(True)
        until = column < literal(end) if end < FOREVER else F.lit(True)
        condition = condition | (since & until)
    return condition
