"""Aggregates over all that has arrived, in a worker: rows sorted by slice and place in, the same rows with columns out.

A slice has the rows of its own time, copies of those that the window leaves while it passes over the slice, and the
totals of the slices in between. Sums are exact, and rounded once, so that the answer does not depend on the slices.
"""

from __future__ import annotations

import math
import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from sase.runtime.errors import SaseRunError

OWN, COPY, TOTAL = 2, 1, 0
UNIT = 2**1074
"""Every double is a whole number of these parts of one."""
_EXACT = Context(prec=100)


@dataclass(frozen=True)
class Running:
    """A column: an aggregate of an attribute over the events of some types."""

    name: str
    kind: str
    attribute: str
    types: tuple[str, ...]
    result: str
    """Its Spark type."""


@dataclass(frozen=True)
class Task:
    """`columns` are those of the events, by their names; rows have them under their numbers."""

    running: tuple[Running, ...]
    columns: tuple[str, ...]
    type: str
    order: str | None
    types: tuple[str, ...]
    """The events that get the columns."""
    within: int | None


class Sum:
    """`avg`, `sum` and `count`. What is added is taken out again, exactly, when the window has left it."""

    def __init__(self, running: Running, within: int | None) -> None:
        self.running, self.within = running, within
        self.total, self.count = 0, 0
        self.special = [0, 0, 0]  # NaN, infinity, -infinity
        self.unit = 1
        self.inside: deque[tuple[int, Any]] = deque()

    def add(self, value: Any, times: int = 1) -> None:
        self.count += times
        if self.running.kind == "count":
            return
        match value:
            case float() if not math.isfinite(value):
                self.special[0 if math.isnan(value) else 1 if value > 0 else 2] += times
            case float():
                self.unit = UNIT
                above, below = value.as_integer_ratio()
                self.total += times * above * (UNIT // below)
            case Decimal():
                scale = -value.as_tuple().exponent  # type: ignore[operator]
                self.unit = 10**scale
                self.total += times * int(value.scaleb(scale, _EXACT))
            case _:
                self.total += times * int(value)

    def arrive(self, ticks: int, value: Any) -> None:
        self.add(value)
        if self.within is not None:
            self.inside.append((ticks, value))

    def merge(self, part: tuple[int, int, list[int], int]) -> None:
        total, count, special, unit = part
        self.total, self.count, self.unit = self.total + total, self.count + count, max(unit, self.unit)
        self.special = [one + other for one, other in zip(self.special, special, strict=True)]

    def part(self) -> tuple[int, int, list[int], int]:
        return self.total, self.count, self.special, self.unit

    def at(self, ticks: int) -> Any:
        while self.inside and self.within is not None and self.inside[0][0] <= ticks - self.within:
            self.add(self.inside.popleft()[1], -1)
        kind = self.running.kind
        if kind == "count":
            return self.count
        if self.count == 0:
            return None
        nan, above, below = self.special
        if nan or (above and below):
            return math.nan
        if above or below:
            return math.inf if above else -math.inf
        if kind == "avg":
            return _quotient(self.total, self.count * self.unit)
        return _sum(self.total, self.unit, self.running)


class Extreme:
    """`min` and `max`: a queue in which each value is better than all behind it."""

    def __init__(self, running: Running, within: int | None) -> None:
        self.running, self.within = running, within
        self.best: Any = None
        self.inside: deque[tuple[int, Any]] = deque()

    def is_better(self, one: Any, other: Any) -> bool:
        """Or as good. NaN is above everything."""
        first, second = (isinstance(one, float) and math.isnan(one)), (isinstance(other, float) and math.isnan(other))
        if first or second:
            return first if self.running.kind == "max" else second
        return bool(one >= other) if self.running.kind == "max" else bool(one <= other)

    def arrive(self, ticks: int, value: Any) -> None:
        while self.inside and self.is_better(value, self.inside[-1][1]):
            self.inside.pop()
        self.inside.append((ticks, value))

    def merge(self, part: Any) -> None:
        if part is not None and (self.best is None or self.is_better(part, self.best)):
            self.best = part

    def part(self) -> Any:
        return self.inside[0][1] if self.inside else None

    def at(self, ticks: int) -> Any:
        while self.inside and self.within is not None and self.inside[0][0] <= ticks - self.within:
            self.inside.popleft()
        found = self.part()
        if found is None or (self.best is not None and self.is_better(self.best, found)):
            return self.best
        return found


def _quotient(total: int, count: int) -> float:
    """Of whole numbers, Python's quotient is the nearest double."""
    try:
        return total / count
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _sum(total: int, unit: int, running: Running) -> Any:
    if running.result == "double":
        return _quotient(total, unit)
    if running.result == "bigint":
        if not -(2**63) <= total < 2**63:
            raise SaseRunError(f"{running.name} is {total}, which does not fit into 64 bits: take the avg*, or cast it")
        return total
    scale = int(running.result.rpartition(",")[2].rstrip(")"))
    return Decimal(total * 10**scale // unit).scaleb(-scale, _EXACT)


class Group:
    """What has arrived in a slice, so far."""

    def __init__(self, task: Task) -> None:
        self.aggregates: list[Sum | Extreme] = [
            (Extreme if running.kind in ("min", "max") else Sum)(running, task.within) for running in task.running
        ]

    def merge(self, payload: bytes) -> None:
        for aggregate, part in zip(self.aggregates, pickle.loads(payload), strict=True):
            aggregate.merge(part)

    def arrive(self, kind: str, ticks: int, values: Sequence[Any]) -> None:
        for aggregate, value in zip(self.aggregates, values, strict=True):
            if value is not None and kind in aggregate.running.types:
                aggregate.arrive(ticks, value)

    def payload(self) -> bytes:
        return pickle.dumps([aggregate.part() for aggregate in self.aggregates])

    def at(self, ticks: int) -> list[Any]:
        return [aggregate.at(ticks) for aggregate in self.aggregates]


def totals(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each slice of a partition that is sorted by slice."""
    schema = pa.schema([("slice", pa.int64()), ("payload", pa.binary())])
    unbounded = Task(task.running, task.columns, task.type, task.order, task.types, None)
    group, current = Group(unbounded), None
    for batch in batches:
        columns = _columns(task, batch)
        for number, ticks, kind, *values in zip(
            columns["slice"], columns["ticks"], columns["type"], *columns["values"], strict=True
        ):
            if number != current:
                if current is not None:
                    yield pa.record_batch([[current], [group.payload()]], schema=schema)
                group, current = Group(unbounded), number
            group.arrive(kind, ticks, values)
    if current is not None:
        yield pa.record_batch([[current], [group.payload()]], schema=schema)


def run(task: Task, batches: Iterator[pa.RecordBatch], types: Sequence[pa.DataType]) -> Iterator[pa.RecordBatch]:
    """The rows of the slices' own, with the columns that have arrived with them. A batch may end between rows of one
    place, so those of the last place are kept for the next one."""
    group, current = Group(task), None
    held: pa.Table | None = None
    for batch in _and_last(batches):
        table = held if batch is None else pa.Table.from_batches([batch])
        if batch is not None and held is not None:
            table = pa.concat_tables([held, table])
        if table is None or table.num_rows == 0:
            continue
        columns = _columns(task, table)
        places = list(zip(columns["slice"], columns["ticks"], columns["order"], strict=True))
        end = len(places)
        if batch is not None:
            while end > 0 and places[end - 1] == places[-1]:
                end -= 1
        held = table.slice(end) if batch is not None else None
        found: list[list[Any]] = [[] for _ in task.running]
        kept: list[int] = []
        at = 0
        while at < end:
            stop = at
            while stop < end and places[stop] == places[at]:
                stop += 1
            number, ticks, _ = places[at]
            if number != current:
                group, current = Group(task), number
            for row in range(at, stop):
                if columns["role"][row] == TOTAL:
                    group.merge(columns["payload"][row])
                else:
                    group.arrive(columns["type"][row], ticks, [values[row] for values in columns["values"]])
            for row in range(at, stop):
                if columns["role"][row] == OWN:
                    kept.append(row)
                    wanted = columns["type"][row] in task.types
                    for column, value in zip(found, group.at(ticks) if wanted else [None] * len(found), strict=True):
                        column.append(value)
            at = stop
        if kept:
            rows = table.select([str(each) for each in range(len(task.columns))]).take(pa.array(kept, pa.int64()))
            for running, values, kind in zip(task.running, found, types, strict=True):
                rows = rows.append_column(running.name, pa.array(values, kind))
            yield from rows.combine_chunks().to_batches()


def _columns(task: Task, rows: pa.RecordBatch | pa.Table) -> dict[str, Any]:
    def listed(name: str) -> list[Any]:
        return list(rows.column(name).to_pylist()) if name in rows.schema.names else [None] * rows.num_rows

    def own(name: str) -> list[Any]:
        return listed(str(task.columns.index(name)))

    return {
        **{name: listed(name) for name in ("slice", "ticks", "role", "payload")},
        "type": own(task.type),
        "order": [None] * rows.num_rows if task.order is None else own(task.order),
        "values": [own(running.attribute) for running in task.running],
    }


def _and_last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch | None]:
    yield from batches
    yield None
