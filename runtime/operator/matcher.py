"""Sorted rows through the kernel: what a partition of a batch and a bucket of a stream have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from sase.runtime.kernels.encode import agreement, changes, encode_pattern, encode_terms
from sase.runtime.kernels.sequences import Counters, Events, Ints, sequences
from sase.runtime.pattern import Pattern

Columns = Mapping[str, pa.Array | pa.ChunkedArray]

_OUTPUT_BYTES = 32 << 20


@dataclass(frozen=True)
class Task:
    """What a worker is told, as plain data: see `ssc.scan_and_construct`."""

    pattern: Pattern
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
    limit: int | None = None
    """How many events of a key a window may hold."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What the worker reads besides the terms of predicates."""
        order = () if self.order is None else (self.order,)
        emitted = chain.from_iterable(columns for _, columns in self.emit)
        return tuple(dict.fromkeys((*self.by, *self.cross, self.time, *order, self.states, *emitted)))


@dataclass(frozen=True)
class Rows:
    """The events that a variable has in some matches, as row numbers of a chunk, match after match.

    Without offsets each match has exactly one, as a positive component of SEQ has, and nothing is paid for the rest.
    With them, match i has rows[offsets[i] : offsets[i + 1]]: any number if they are `collected`, else one or none.
    """

    rows: Ints
    offsets: Ints | None = None
    collected: bool = False

    def column(self, columns: Columns, names: Sequence[str]) -> pa.Array:
        """One value per match: a struct, NULL where there is no event; an array of structs, if they are collected."""
        structs = pa.StructArray.from_arrays([taken(columns[name], self.rows) for name in names], names=list(names))
        if self.offsets is None:
            return structs
        if self.collected:
            return pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), structs)
        missing = self.offsets[1:] == self.offsets[:-1]
        return structs.take(pa.array(self.offsets[:-1], mask=missing))


class Matcher:
    """Rows sorted by (by, time, order) in, matches out."""

    def __init__(self, task: Task) -> None:
        pattern = task.pattern
        self.task = task
        self.encoding = encode_pattern(pattern)
        self.columns = list(dict.fromkeys((*task.columns, *self.encoding.columns)))
        self.emitted = [(pattern.positive.index(variable), variable, columns) for variable, columns in task.emit]
        self.trailing = any(component.before is None for component in pattern.negated)
        self.counters = np.concatenate(Counters.of(pattern))

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
            terms=encode_terms(self.encoding, chunk),
            fresh=0,
            stop=chunk.num_rows,
            cross=agreement([chunk.column(name) for name in task.cross], groups),
        )

    def of_key(self, chunk: pa.Table, row: int) -> str:
        """The key of a row, in words; empty if there is none."""
        key = ", ".join(f"{name}={chunk.column(name)[row].as_py()!r}" for name in self.task.by)
        return f" of {key}" if key else ""

    def found(self, chunk: pa.Table, events: Events) -> Iterator[pa.RecordBatch]:
        """Matches as struct columns. Wide events make shorter batches."""
        columns: Columns = {}
        limit = self.task.batch_rows
        for rows in sequences(self.encoding.query, events, self.counters, self.task.batch_rows, self.task.jit):
            if not columns:
                names = [name for _, _, names in self.emitted for name in names]
                columns = {name: _combined(chunk.column(name)) for name in names}
                width = sum(columns[name].nbytes for name in names) // chunk.num_rows
                limit = max(1, min(limit, _OUTPUT_BYTES // max(1, width)))
            for start in range(0, len(rows), limit):
                yield from self.batches(columns, rows[start : start + limit])

    def batches(self, columns: Columns, rows: Ints) -> Iterator[pa.RecordBatch]:
        """Matches as struct columns, given the row of each state."""
        structs = [
            Rows(np.ascontiguousarray(rows[:, state])).column(columns, names) for state, _, names in self.emitted
        ]
        yield pa.RecordBatch.from_arrays(structs, names=[variable for _, variable, _ in self.emitted])


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


def _combined(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """One array, which is faster to take from, unless it would hold more than 2 GiB of strings."""
    try:
        return column.combine_chunks()
    except pa.ArrowInvalid:
        return column


def taken(column: pa.Array | pa.ChunkedArray, rows: Ints) -> pa.Array:
    """The values at `rows`. Arrow would first combine a chunked array: take what is needed from every chunk instead."""
    if isinstance(column, pa.Array):
        return column.take(pa.array(rows))
    needed, place = np.unique(rows, return_inverse=True)
    ends = np.cumsum([len(chunk) for chunk in column.chunks])
    parts = np.split(needed, np.searchsorted(needed, ends[:-1]))
    taken = [
        chunk.take(pa.array(part - (end - len(chunk))))
        for chunk, part, end in zip(column.chunks, parts, ends, strict=True)
    ]
    return pa.concat_arrays(taken).take(pa.array(place))
