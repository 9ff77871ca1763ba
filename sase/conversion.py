"""Conversion funnels: how far each key gets along a few steps, and how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sase.api import Query, compile
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import OptionError
from sase.compiler.languages.funnel import Funnel as Asked
from sase.compiler.languages.funnel import Length, read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from sase.events import Events, Frames
    from sase.pictures.picture import Picture


@dataclass(frozen=True)
class Step:
    """How many keys have got so far, and how long they took from the step before."""

    name: str
    keys: int
    of_first: float
    """The share of those that took the first step."""
    of_previous: float
    """The share of those that took the step before."""
    median: float | None
    """From the step before, in ticks: microseconds, or the units of an integer time. None for the first step, and where
    nobody got so far."""


@dataclass(frozen=True)
class Group:
    """The keys whose first event has one value of the column by which a funnel is broken down; all of them without."""

    value: Any
    steps: tuple[Step, ...]


class Funnel:
    """A funnel over events. `levels` is lazy; the rest runs it, once."""

    def __init__(self, asked: Asked, query: Query, tables: Frames, breakdown: str | None) -> None:
        self.names = asked.steps
        self.query = query
        self.tables = tables
        self.breakdown = breakdown

    @property
    def job(self) -> str:
        """The source of the Spark job that finds the levels."""
        return self.query.job

    @cached_property
    def levels(self) -> DataFrame:
        """A row per key that took the first step: the key, its level, and when it took each step."""
        return self.query.run(self.tables)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The numbers of the funnel: of all keys or, broken down by a column, of each value, the largest first."""
        with self.query.explained():
            return _groups(self.levels, self.names, self.breakdown)

    @property
    def timed(self) -> bool:
        """Whether times are moments, and not integers."""
        return self.query.compiled.query.time_kind == "timestamp"

    @cached_property
    def picture(self) -> Picture:
        from sase.pictures.funnel import funnel

        return funnel(self.groups, self.breakdown, self.timed)

    def save(self, path: str) -> None:
        """Writes .html, .svg or .txt, as the name ends."""
        self.picture.save(path)

    def __repr__(self) -> str:
        return repr(self.picture)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return self.picture._repr_mimebundle_(**options)


def funnel(
    events: Events,
    steps: Sequence[str],
    *,
    by: str | Sequence[str],
    within: Length | None = None,
    breakdown: str | None = None,
    catalog: Catalog | None = None,
    parameters: dict[str, object] | None = None,
) -> Funnel:
    """How far each key gets: `sase.funnel(clicks, ["VIEW", "CART WHERE amount > 9", "BUY"], by="user", within="1 d")`.

    A step is an event type or `ANY(A, B)`, and may have a name and a condition of its own, `CART big WHERE amount > 9`;
    `!REFUND` between two steps may not happen there. `by` names the column, or columns, of the key. The level of a key
    is the largest k for which `SEQ(p1, …, pk) WITHIN within` has a match; `breakdown` names a column of the first
    step's events.
    """
    from sase.runtime.events import streaming

    asked = asked_for(steps, by, within, breakdown)
    query = compiled(asked, catalog, events=events, parameters=parameters)
    tables = query.tables(events)
    if streaming(tables):
        raise OptionError("how far a key gets is known when all its events are there, and a stream does not end")
    return Funnel(asked, query, tables, breakdown)


def asked_for(steps: Sequence[str], by: str | Sequence[str], within: Length | None, breakdown: str | None) -> Asked:
    key = (by,) if isinstance(by, str) else tuple(by)
    if not key:
        raise OptionError("a funnel is about keys: by names the column that tells them apart, such as user_id")
    return read(steps, key, within, breakdown)


def compiled(asked: Asked, catalog: Catalog | None = None, **given: Any) -> Query:
    """The query of a funnel: there is one way to evaluate it."""
    return compile(asked.parsed, catalog, **given, equivalence="composite", negation="stack", slice="off")


def _groups(levels: DataFrame, names: Sequence[str], breakdown: str | None) -> tuple[Group, ...]:
    from pyspark.sql import functions as F

    from sase.runtime.events import quoted, ticks

    def at(name: str) -> Column:
        return ticks(levels, quoted(f"{name}_at"))

    numbers: list[Column] = []
    for at_step, name in enumerate(names):
        numbers.append(F.count_if(F.col("level") > at_step).alias(f"keys_{at_step}"))
        if at_step:
            numbers.append(F.median(at(name) - at(names[at_step - 1])).alias(f"median_{at_step}"))
    by = [F.col(quoted(breakdown)).alias("value")] if breakdown else []
    rows = levels.groupBy(*by).agg(*numbers).collect()
    groups = [
        Group(row["value"] if breakdown else None, tuple(_steps(names, row.asDict(recursive=False)))) for row in rows
    ]
    return tuple(sorted(groups, key=lambda group: (-group.steps[0].keys, str(group.value))))


def _steps(names: Sequence[str], row: dict[str, Any]) -> list[Step]:
    keys = [row[f"keys_{at}"] for at in range(len(names))]
    return [
        Step(
            name,
            keys[at],
            _share(keys[at], keys[0]),
            _share(keys[at], keys[max(at - 1, 0)]),
            row[f"median_{at}"] if at else None,
        )
        for at, name in enumerate(names)
    ]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
