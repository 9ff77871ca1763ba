"""Which event types a stream has, so that a misspelled one is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import count
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from sase.runtime.events import Source, quoted
from sase.runtime.io.plans import knows_files
from sase.runtime.io.tally import unknown_type

PREFIX = "sase types "
NUMBER, SOME = f"{PREFIX}number", f"{PREFIX}some"
"""Columns of events on their way to be counted: the number of the type among those of the query, and, of some events,
the type itself."""

READ = "read"
"""The name of what tells how many events there were."""

_FILE_SIZE = "_metadata.file_size"
_SMALL, _ONE_IN = 1 << 20, 64
"""In larger files, the type of one event in so many is collected, and of all in smaller ones."""
_LISTED = 20
_numbers = count(1)


def number(event_type: Column, source: Source) -> Column:
    """Which of the query's types it is, from 1 on; 0 for any other. Comparing texts is dear: it is done once."""
    first, *others = source.types
    found = F.when(event_type == first, 1)
    for at, name in enumerate(others, 2):
        found = found.when(event_type == name, at)
    return found.otherwise(0)


def some(united: DataFrame, source: Source, time: Column) -> Column:
    """The type, where it is to be collected. To collect that of every event takes longer than all else that Spark does
    with an event of no use; so large files are sampled."""
    event_type = F.col(quoted(source.type))
    if is_remote() or not knows_files(united):
        return event_type
    return F.when((F.col(_FILE_SIZE) < _SMALL) | (F.pmod(F.hash(time), F.lit(_ONE_IN)) == 0), event_type)


def typed(events: DataFrame, source: Source, event: str) -> DataFrame:
    """Every micro-batch tells which types of the query it has, and some of all, in the progress of the query. The
    number of the type is in the struct `event`."""
    listed = F.slice(F.sort_array(F.collect_set(quoted(SOME))), 1, _LISTED).alias("some")
    which = F.col(f"{quoted(event)}.{quoted(NUMBER)}")
    named = (F.bool_or(which == at).alias(f"has {name}") for at, name in enumerate(source.types, 1))
    return events.observe(f"{PREFIX}{next(_numbers)}", listed, *named)


def observed(packed: DataFrame, source: Source) -> DataFrame:
    """The same, where workers have read the events: they tell which types there are, and how many events."""
    word = F.when(F.col("kind") == "type", F.col("rows").cast("string"))
    listed = F.slice(F.sort_array(F.collect_set(word)), 1, _LISTED).alias("some")
    named = (F.coalesce(F.bool_or(word == name), F.lit(False)).alias(f"has {name}") for name in source.types)
    read = F.sum(F.when(F.col("kind") == "read", F.col("size"))).alias(READ)
    return packed.observe(f"{PREFIX}{next(_numbers)}", listed, read, *named)


def events_in(progress: Any) -> int:
    """How many events a micro-batch has read: Spark counts the files, where workers read these."""
    told = [metrics.asDict() for name, metrics in progress.observedMetrics.items() if name.startswith(PREFIX)]
    counts = [row[READ] or 0 for row in told if READ in row]
    return max(counts) if counts else int(progress.numInputRows)


class Types:
    """What the progress of one streaming query has told so far."""

    def __init__(self) -> None:
        self._begun: int | None = None
        self._has: dict[str, bool] = {}
        self._some: set[str] = set()
        self._told: set[str] = set()

    def take(self, batch: int, observed: Mapping[str, Any]) -> Iterator[str]:
        """A type that looks like one that is there is told at once; a rare one may still come."""
        for name, metrics in observed.items():
            if not name.startswith(PREFIX):
                continue
            self._begun = batch if self._begun is None else self._begun
            row = metrics.asDict()
            self._some.update(row.pop("some") or ())
            row.pop(READ, None)
            for key, has in row.items():
                wanted = key.removeprefix("has ")
                self._has[wanted] = self._has.get(wanted, False) or bool(has)
                self._some.update([wanted] if has else [])
        others = {name.lower() for name in self._some if not self._has.get(name)}
        yield from self._tell(name for name in self._unseen() if get_close_matches(name.lower(), others, n=1))

    def end(self) -> Iterator[str]:
        """When no more will come, and all has been seen."""
        if self._begun == 0:
            yield from self._tell(self._unseen())

    def _unseen(self) -> list[str]:
        return [name for name, has in self._has.items() if not has and self._some]

    def _tell(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if name not in self._told:
                self._told.add(name)
                yield unknown_type(name, sorted(self._some), every=True)
