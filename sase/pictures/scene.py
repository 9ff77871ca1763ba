"""What a timeline shows: some keys, their events, the matches among them, and what forbade the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING

from sase.compiler.core.bound import BoundQuery, EquivalenceTest
from sase.compiler.core.errors import OptionError
from sase.compiler.core.fields import of_event
from sase.compiler.plan.keys import keys as shared_keys
from sase.pictures import variants
from sase.pictures.variants import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType
    from sqlglot import exp

    from sase.api import Query
    from sase.events import Events


@dataclass(frozen=True)
class Event:
    lane: int
    at: float
    """Place on the time axis: a number, or milliseconds of the local time as if it were UTC."""
    when: str
    type: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Run:
    """A match, or what would be one: events by variable, as numbers of `Scene.events`."""

    events: tuple[tuple[str, int], ...]
    killers: tuple[tuple[str, int], ...] = ()
    """What forbids it; nothing forbids a match."""
    collected: tuple[tuple[str, int], ...] = ()
    """What it brings along."""

    @property
    def all(self) -> tuple[tuple[str, int], ...]:
        return (*self.events, *self.killers, *self.collected)


@dataclass(frozen=True)
class Scene:
    lanes: tuple[str, ...]
    events: tuple[Event, ...]
    matches: tuple[Run, ...]
    killed: tuple[Run, ...]
    window: float | None
    """On the scale of `Event.at`."""
    is_time: bool
    notes: tuple[str, ...]
    aligned: bool = False
    """Each lane begins with the first event of a match, and `Event.at` is the time since then: see `align.aligned`."""

    cut: bool = False
    """The lanes end before the window does."""

    def first(self, run: Run) -> Event:
        return self.events[run.events[0][1]]

    @property
    def runs(self) -> tuple[Run, ...]:
        return (*self.matches, *self.killed)


@dataclass(frozen=True)
class Limits:
    lanes: int
    events: int


def scene(query: Query, events: Events, only: DataFrame | None, limits: Limits) -> Scene:
    """`only` restricts the matches to those of a DataFrame that was derived from the query's result."""
    from pyspark.sql import functions as F

    from sase.runtime.events import check, ticks

    bound = query.compiled.query
    keys = _keys(bound)
    stage = check(query.tables(events), query.batch_job.SOURCE.whole).withColumn(_LANE, _lane(bound, keys))
    lanes, since, notes = _choose(bound, keys, stage, only, limits)
    shown = stage
    if keys:
        # Events that no key claims (of a negated component without it) concern every lane.
        shown = shown.where(F.col(_LANE).isin(lanes) | F.col(_LANE).isNull())
    if since is not None:
        shown = shown.where(ticks(shown, quoted(bound.time)) >= since - (bound.within.ticks if bound.within else 0))
    order = [F.col(quoted(name)) for name in (bound.time, bound.order) if name]
    table = shown.orderBy(*order).limit(limits.events + 1).toArrow()
    if table.num_rows > limits.events:
        table = table.slice(0, limits.events)
        notes.append(f"the first {limits.events:,} events of these")
    return _scene(bound, table, shown.schema, lanes if keys else [], notes, only)


# ---- which keys ---------------------------------------------------------------------------------

_LANE, _ROW = "__sase_lane", "__sase_row"


def _keys(query: BoundQuery) -> list[EquivalenceTest]:
    """The tests that all positive variables take part in: a match lies in one lane."""
    if query.runs:
        return [test for test in query.equivalences if len(test.positive) == len(query.positive)]
    if not query.is_sequence:
        return list(shared_keys(query))
    return [test for test in query.equivalences if len(test.positive) == len(query.positive)]


def _lane(query: BoundQuery, keys: list[EquivalenceTest]) -> Column:
    """The key of an event as text; NULL where it has none."""
    from pyspark.sql import functions as F

    if not keys:
        return F.lit("")
    parts = []
    for test in keys:
        cases = [
            F.when(F.col(quoted(query.type)).isin(*query.variable(name).types), F.expr(of_event(attribute)))
            for name, attribute in test.positive + test.negated
        ]
        parts.append(F.coalesce(*cases))
    return _joined(keys, parts)


def _joined(keys: list[EquivalenceTest], values: Sequence[Column]) -> Column:
    """`id 1017`, or `card 12 · shop 3`."""
    from pyspark.sql import functions as F

    texts: list[Column] = []
    for test, value in zip(keys, values, strict=True):
        texts += [F.lit(f"{' · ' if texts else ''}{test.positive[0][1]} "), value.cast("string")]
    return F.concat(*texts)  # concat, and not concat_ws: NULL makes NULL


def _choose(
    query: BoundQuery, keys: list[EquivalenceTest], events: DataFrame, only: DataFrame | None, limits: Limits
) -> tuple[list[str], int | None, list[str]]:
    """The lanes with the earliest matches, then those with the earliest forbidden ones, then any; and their start."""
    notes: list[str] = []
    lanes, since = _first_lanes(query, keys, events, limits.lanes + 1, only)
    if not lanes:
        notes.append("no matches")
    elif len(lanes) > limits.lanes:
        notes.append(f"the first {limits.lanes} keys with matches, of more")
    for names in variants.forbidding(query) if not query.runs else ():
        if len(lanes) < limits.lanes:
            more, start = _first_lanes(variants.with_killer(query, names), keys, events, limits.lanes)
            lanes = list(dict.fromkeys([*lanes, *more]))
            since = min((tick for tick in (since, start) if tick is not None), default=None)
    if not lanes:
        from pyspark.sql import functions as F

        from sase.runtime.events import ticks

        first = (
            events.where(F.col(_LANE).isNotNull())
            .groupBy(_LANE)
            .agg(F.min(ticks(events, quoted(query.time))).alias("since"))
        )
        lanes = [row[_LANE] for row in first.orderBy("since", _LANE).limit(limits.lanes).collect()]
    return lanes[: limits.lanes], since, notes


def _first_lanes(
    query: BoundQuery, keys: list[EquivalenceTest], events: DataFrame, limit: int, only: DataFrame | None = None
) -> tuple[list[str], int | None]:
    from pyspark.sql import functions as F

    from sase.runtime.events import ticks

    bound = [variable.name for variable in query.positive]
    place: dict[str, exp.Expr] = {}
    for at, test in enumerate(keys):
        values = [variants.first_value(query, *each) for each in test.positive if each[0] in bound]
        every = len(query.branches) > 1 or query.runs
        place[f"key{at}"] = variants.first_of(query, "coalesce", values if every else values[:1])
    times = [variants.first_value(query, name, query.time) for name in bound]
    if query.runs:  # the first that is there is the earliest
        place["since"] = variants.first_of(query, "coalesce", times)
    else:
        place["since"] = variants.first_of(query, "least", times[:1] if query.is_sequence else times)
    found = _restricted(query, place, events, only)
    lane = _joined(keys, [F.col(f"key{at}") for at in range(len(keys))]) if keys else F.lit("")
    rows = (
        found.select(lane.alias(_LANE), ticks(found, "since").alias("since"))
        .groupBy(_LANE)
        .agg(F.min("since").alias("since"))
        .orderBy("since", _LANE)
        .limit(limit)
        .collect()
    )
    return [row[_LANE] for row in rows], min((row["since"] for row in rows), default=None)


def _restricted(
    query: BoundQuery, outputs: Mapping[str, exp.Expr], events: DataFrame, only: DataFrame | None
) -> DataFrame:
    """The matches with these columns; with `only`, those that it has."""
    from pyspark.sql import functions as F

    wanted = list(_there(query, only)) if only is not None else []
    known = {f"value{at}": value for at, (_, value) in enumerate(wanted)}
    found = variants.found(variants.returning(query, {**outputs, **known}), events)
    if only is None:
        return found
    there = only.select([F.expr(sql).alias(f"there{at}") for at, (sql, _) in enumerate(wanted)])
    same = [F.col(f"value{at}").eqNullSafe(F.col(f"there{at}")) for at in range(len(wanted))]
    return found.join(there, reduce(lambda left, right: left & right, same), "left_semi").select(*outputs)


def _there(query: BoundQuery, only: DataFrame) -> Iterator[tuple[str, exp.Expr]]:
    """The columns of the query's result that a DataFrame still has."""
    names = {name.lower() for name in only.columns}
    known = [
        (name, sql, value)
        for name, sql, value in variants.result_columns(query)
        if name.lower() in names and value.name != _ROW
    ]
    if not known:
        raise OptionError("these are not matches of the query: they have none of the columns of its result")
    yield from ((sql, value) for _, sql, value in known)


# ---- the scene of some events -------------------------------------------------------------------


def _scene(
    query: BoundQuery, table: pa.Table, schema: StructType, lanes: list[str], notes: list[str], only: DataFrame | None
) -> Scene:
    """Asks Spark once more, for the events shown and no others, which of them make up what."""
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import LongType

    numbers = pa.array(range(table.num_rows), pa.int64())
    # By the schema: from Arrow alone, Spark would take a timestamp without a zone for one in the session's.
    local = SparkSession.active().createDataFrame(table.append_column(_ROW, numbers), schema.add(_ROW, LongType()))
    shared = [_ELSEWHERE] if table.num_rows and table[_LANE].null_count else []
    return Scene(
        lanes=(*(lanes or [""]), *shared),
        events=tuple(_events(query, local, lanes or [""])),
        matches=tuple(_matches(query, local, only)),
        killed=tuple(_killed(query, local)),
        window=_length(query),
        is_time=query.time_kind == "timestamp",
        notes=tuple(notes),
    )


_ELSEWHERE = "of any key"


def _length(query: BoundQuery) -> float | None:
    if query.within is None:
        return None
    return query.within.ticks / 1000 if query.time_kind == "timestamp" else query.within.ticks


def _events(query: BoundQuery, local: DataFrame, lanes: list[str]) -> Iterator[Event]:
    from pyspark.sql import functions as F

    values = [name for name in local.columns if name not in (query.type, query.time, _LANE, _ROW)]
    texts = [F.col(quoted(name)).cast("string").alias(f"value{at}") for at, name in enumerate(values)]
    time = F.col(quoted(query.time)).cast("string").alias("when")
    for row in local.select(_ROW, _LANE, time, F.col(quoted(query.type)).alias("type"), *texts).orderBy(_ROW).collect():
        lane = lanes.index(row[_LANE]) if row[_LANE] is not None else len(lanes)
        known = [(name, row[f"value{at}"]) for at, name in enumerate(values)]
        shown = tuple((name, value) for name, value in known if value is not None)
        yield Event(lane, _at(query, row["when"]), row["when"], row["type"], shown)


def _at(query: BoundQuery, when: str) -> float:
    if query.time_kind == "integer":
        return int(when)
    return datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp() * 1000


def _matches(query: BoundQuery, local: DataFrame, only: DataFrame | None) -> Iterator[Run]:
    for bound, collected in _rows(query, local, only):
        yield Run(bound, collected=collected)


def _killed(query: BoundQuery, local: DataFrame) -> Iterator[Run]:
    """What would be a match but for a negated component, with all that forbids it."""
    found: dict[Bound, dict[tuple[str, int], None]] = {}
    for names in variants.forbidding(query) if not query.runs else ():  # which may take other events instead
        for events, _ in _rows(variants.with_killer(query, names), local):
            run = tuple(each for each in events if each[0] not in names)
            found.setdefault(run, {}).update((each, None) for each in events if each[0] in names)
    for run, killers in sorted(found.items(), key=lambda item: [number for _, number in item[0]]):
        yield Run(run, tuple(killers))


Bound = tuple[tuple[str, int], ...]


def _rows(query: BoundQuery, local: DataFrame, only: DataFrame | None = None) -> Iterator[tuple[Bound, Bound]]:
    """The events that each match binds, in the order of time, and those that it collects."""
    asked = variants.numbered(query, _ROW)
    called = {element: array for array, elements in query.arrays.items() for element in elements}
    names = [variable.name for variable in asked.positive]
    several = sorted(asked.collected)
    outputs = {f"row{at}": variants.column(asked, name, _ROW) for at, name in enumerate(names)}
    outputs |= {f"rows{at}": variants.collected(asked, name, _ROW) for at, name in enumerate(several)}
    found = []
    for row in _restricted(asked, outputs, local, only).collect():
        bound = [
            (called.get(name, name), number)
            for at, name in enumerate(names)
            for number in (row[f"row{at}"] if isinstance(row[f"row{at}"], list) else [row[f"row{at}"]])
        ]
        added = [(name, number) for at, name in enumerate(several) for number in row[f"rows{at}"] or ()]
        there = [each for each in bound if each[1] is not None]
        found.append((tuple(sorted(there, key=lambda each: each[1])), tuple(added)))
    yield from sorted(found, key=lambda each: [number for _, number in each[0]])
