"""Sorted rows through the kernel: what a partition of a batch and a bucket of a stream have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sase.runtime.kernels.encode import agreement, changes, encode_terms
from sase.runtime.kernels.sequences import Events, Ints
from sase.runtime.kernels.sort import SortKey
from sase.runtime.operator.choice import candidate_column
from sase.runtime.operator.construction import Columns, Construction, Found, construction
from sase.runtime.pattern import USED, Combination, Pattern

if TYPE_CHECKING:
    from sase.runtime.operator.arrivals import Arriving

_OUTPUT_BYTES = 32 << 20


@dataclass(frozen=True)
class Task:
    """What a worker is told, as plain data: see `ssc.scan_and_construct`."""

    pattern: Pattern | Combination
    by: tuple[str, ...]
    time: str
    order: str | None
    states: str
    emit: tuple[tuple[str, tuple[str, ...]], ...]
    batch_rows: int
    chunk_rows: int
    jit: bool
    cross: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    code: str | None = None
    """The column by which events that come in any order are told by key; None if they come sorted: see `sorting`."""
    started: str | None = None
    detected: str | None = None
    groups: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...] = ()
    """Of each group whose bindings a match brings along, the columns of the event of each of its variables."""
    candidates: str | None = None
    """Where a deferred combination says what a match is as a candidate: see `choice`."""
    limit: int | None = None
    """How many events of a key a window may hold."""
    arriving: Arriving | None = None
    """What is told first, in slices."""

    @property
    def keys(self) -> tuple[SortKey, ...]:
        """What events of one key are sorted by, where they come in any order."""
        return (SortKey(self.time), *(() if self.order is None else (SortKey(self.order),)))

    @property
    def columns(self) -> tuple[str, ...]:
        """What the worker reads besides the terms of predicates."""
        order = () if self.order is None else (self.order,)
        kept = (*self.emit, *(event for _, events in self.groups for event in events))
        emitted = chain.from_iterable(columns for _, columns in kept)
        return tuple(dict.fromkeys((*self.by, *self.cross, self.time, *order, self.states, *emitted)))


class Matcher:
    """Rows sorted by (by, time, order) in, matches out."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.construction: Construction = construction(task.pattern)
        self.columns = list(dict.fromkeys((*task.columns, *self.construction.terms.columns)))
        self.variables = [variable for variable, _ in task.emit]
        self.base = 0
        """How many rows there have been before those of the chunk."""

    def events(self, chunk: pa.Table) -> Events:
        """The chunk as the kernel sees it; all of its sequences are to be reported."""
        task = self.task
        time, states = int64s(chunk, task.time), int64s(chunk, task.states)
        new_group = np.zeros(chunk.num_rows - 1, np.bool)
        for column in task.by:
            new_group |= changes(chunk.column(column))
        new_position = new_group | (time[1:] != time[:-1])
        if task.order is not None:
            new_position |= changes(chunk.column(task.order))
        groups = np.concatenate([[0], np.flatnonzero(new_group) + 1, [chunk.num_rows]])
        return Events(
            position=np.concatenate([[0], np.cumsum(new_position)]),
            time=time,
            states=states,
            groups=groups,
            terms=encode_terms(self.construction.terms, chunk),
            fresh=0,
            stop=chunk.num_rows,
            cross=agreement([chunk.column(name) for name in task.cross], groups),
        )

    def of_key(self, chunk: pa.Table, row: int) -> str:
        """The key of a row, in words; empty if there is none."""
        key = ", ".join(f"{name}={chunk.column(name)[row].as_py()!r}" for name in self.task.by)
        return f" of {key}" if key else ""

    def found(self, chunk: pa.Table, found: Found) -> Iterator[pa.RecordBatch]:
        """Matches as struct columns. Wide events make shorter batches."""
        columns: Columns = {}
        limit = self.task.batch_rows
        for rows in found.rows(self.task.batch_rows):
            if not columns:
                kept = (*self.task.emit, *(event for _, events in self.task.groups for event in events))
                names = [name for _, names in kept for name in names]
                columns = {name: combined(chunk.column(name)) for name in names}
                width = sum(columns[name].nbytes for name in names) // chunk.num_rows
                limit = max(1, min(limit, _OUTPUT_BYTES // max(1, width)))
            for start in range(0, len(rows), limit):
                yield from self.batches(found, columns, rows[start : start + limit])

    def batches(self, found: Found, columns: Columns, rows: Ints) -> Iterator[pa.RecordBatch]:
        """Matches as struct columns, given the row of each variable."""
        task = self.task
        for part in found.parts(rows, self.variables):
            values = {variable: part.events[variable].column(columns, names) for variable, names in task.emit}
            for group, events in task.groups:
                values[group] = part.bindings[group].column(columns, dict(events), group)
            for name, ticks in ((task.started, part.started), (task.detected, part.detected)):
                if name is not None:
                    values[name] = pa.array(ticks)
            if task.candidates is not None and part.candidates is not None:
                values[task.candidates] = candidate_column(part.candidates, self.base)
            yield pa.RecordBatch.from_arrays(list(values.values()), names=list(values))


def with_used(chunk: pa.Table, states: str, events: Events, found: Found) -> pa.Table:
    """The chunk, with its events marked that matches have used up."""
    if found.used is None:
        return chunk
    marked = np.where(found.used, events.states | USED, events.states)
    return chunk.set_column(chunk.schema.get_field_index(states), states, pa.array(marked))


def int64s(chunk: pa.Table, name: str) -> Ints:
    """A column of integers or times; a time comes as `events.ticks` has it, in microseconds."""
    column = chunk.column(name)
    unit = 1
    if pa.types.is_date32(column.type):
        column, unit = column.cast(pa.int32()), 86_400_000_000
    elif not pa.types.is_integer(column.type) and not (pa.types.is_timestamp(column.type) and column.type.unit == "us"):
        raise TypeError(f"column {name!r} must hold integers or times, not {column.type}")
    if column.null_count:
        raise TypeError(f"column {name!r} must not hold NULL, and does {column.null_count} times")
    values: Ints = column.cast(pa.int64()).to_numpy()
    return values if unit == 1 else values * unit


def combined(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """One array, which is faster to take from, unless it would hold more than 2 GiB of strings."""
    try:
        return column.combine_chunks()
    except pa.ArrowInvalid:
        return column
