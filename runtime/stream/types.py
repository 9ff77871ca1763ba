"""Which event types a stream has, so that a misspelled one is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import count
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sase.runtime.events import Source, quoted
from sase.runtime.io.tally import unknown_type

PREFIX = "sase types "
_LISTED = 20
_numbers = count(1)


def typed(events: DataFrame, source: Source) -> DataFrame:
    """Every micro-batch tells which types of the query it has, and some of all, in the progress of the query."""
    event_type = F.col(quoted(source.type))
    some = F.slice(F.sort_array(F.collect_set(event_type)), 1, _LISTED).alias("some")
    named = (F.bool_or(event_type == F.lit(name)).alias(f"has {name}") for name in source.types)
    return events.observe(f"{PREFIX}{next(_numbers)}", some, *named)


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
            for key, has in row.items():
                wanted = key.removeprefix("has ")
                self._has[wanted] = self._has.get(wanted, False) or bool(has)
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
