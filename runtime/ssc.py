"""Sequence scan and construction (SSC) over a Spark partition: Arrow batches of events in, batches of matches out.

    relevant.repartition("id").sortWithinPartitions("id", "ts", "seq").mapInArrow(scan_and_construct(...), schema)

A partition is cut into chunks that fit in memory, and a chunk ends anywhere in a group. What later matches of the open
group can still need is carried into the next chunk, so memory is bounded by the window (by the group, where there is
none) and every match is found in exactly one chunk: the one in which its last event is new.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sase import __version__
from sase.runtime.encode import agreement, changes, encode_pattern, encode_terms
from sase.runtime.kernel import Counters, Events, Ints, sequences
from sase.runtime.pattern import Pattern

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

bootstrap: Callable[[], None] | None = None
"""What a worker calls before it imports this package. A standalone job sets it, to bring the package along."""

counted: Callable[[list[int]], None] | None = None
"""What is told the kernel's counters (see `kernel.Counters`) at the end of every partition: the `add` of a Spark
accumulator, for one. Set while a query is analysed."""

_CHUNK_BYTES = 128 << 20
_OUTPUT_BYTES = 32 << 20


@dataclass(frozen=True)
class Task:
    """What a worker is told, as plain data: see `scan_and_construct`."""

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

    @property
    def columns(self) -> tuple[str, ...]:
        """What the worker reads besides the terms of predicates."""
        order = () if self.order is None else (self.order,)
        emitted = chain.from_iterable(columns for _, columns in self.emit)
        return tuple(dict.fromkeys((*self.by, *self.cross, self.time, *order, self.states, *emitted)))


def scan_and_construct(
    pattern: Pattern,
    *,
    by: Sequence[str],
    time: str,
    order: str | None,
    states: str,
    emit: Mapping[str, Sequence[str]],
    cross: Sequence[str] = (),
    columns: Sequence[str] = (),
    batch_rows: int = 65_536,
    chunk_rows: int = 262_144,
) -> Worker:
    """A function for `mapInArrow` that finds the matches of `pattern` in a partition sorted by (by, time, order).

    `time` is a time or an integer, `states` the state bits of each event. Events with equal `by` columns form a group,
    and a match stays in its group. It has a column for each variable and column of `emit` (see `match_schema`). The
    window is enforced if `pattern` asks for it in the
    scan or in the construction, and otherwise left to the caller. With `cross` columns (Multi-PAIS), an event that
    agrees on them with no instance of the previous stack is not pushed; matches that disagree on them are still the
    caller's to remove. `columns` are the names of the input's columns, where it comes under other names: `mapInArrow`
    takes no column whose name has a dot or a backquote.

    The result is pickled by value and holds no object of this package, so a worker can load it in any case and explain
    what it misses.
    """
    encode_pattern(pattern)
    if strangers := set(emit) - set(pattern.positive):
        raise ValueError(f"emit names {sorted(strangers)}, which are no positive components")
    if not emit or not all(emit.values()):
        raise ValueError("emit must name a variable, and a column for every variable")
    if batch_rows < 1 or chunk_rows < 1:
        raise ValueError("batch_rows and chunk_rows must be at least 1")
    emitted = tuple((variable, tuple(columns)) for variable, columns in emit.items())
    jit = os.environ.get("SASE_JIT") != "0"
    task = pickle.dumps(
        Task(
            pattern, tuple(by), time, order, states, emitted, batch_rows, chunk_rows, jit, tuple(cross), tuple(columns)
        )
    )
    before, tell, version = bootstrap, counted, __version__

    def worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle
        import socket

        if before is not None:
            before()
        try:
            from sase.runtime.ssc import run
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("sase"):
                raise
            raise RuntimeError(
                f"sase {version} is not installed on this executor ({socket.gethostname()}): install it there "
                f"(pip install sase=={version}) or compile the job with --standalone, which carries the runtime inside"
            ) from error
        yield from run(pickle.loads(task), batches, tell)

    return worker


def match_schema(schema: StructType, emit: Mapping[str, Sequence[str]]) -> StructType:
    """The schema of the matches as they come from the worker, given that of the events: a column `x.id` for x's id."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [
            StructField(f"{variable}.{column}", schema[column].dataType)
            for variable, columns in emit.items()
            for column in columns
        ]
    )


def structs(emit: Mapping[str, Sequence[str]]) -> list[str]:
    """In SQL, the matches with one struct a variable.

    Made by Spark, which leaves out what later steps take apart again: a third of the time of a query with many matches.
    """
    from sase.runtime.events import quoted

    def fields(variable: str, columns: Sequence[str]) -> str:
        return ", ".join(f"{quoted(f'{variable}.{column}')} AS {quoted(column)}" for column in columns)

    return [f"struct({fields(variable, columns)}) AS {quoted(variable)}" for variable, columns in emit.items()]


def run(
    task: Task, batches: Iterator[pa.RecordBatch], counted: Callable[[list[int]], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """The matches of a partition. A chunk is at least as long as what it carries along, so all work stays linear."""
    partition = _Partition(task)
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if task.names:
            batch = batch.rename_columns(task.names)
        batch = batch.select(partition.columns)
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if (rows >= task.chunk_rows or size >= _CHUNK_BYTES) and rows >= partition.carried_rows:
            yield from map(_flat, partition.matches(waiting, final=False))
            waiting.clear()
            rows = size = 0
    yield from map(_flat, partition.matches(waiting, final=True))
    if counted is not None:
        counted(partition.counters.tolist())


def _flat(matches: pa.RecordBatch) -> pa.RecordBatch:
    """See `structs`."""
    fields = [
        (f"{variable}.{field.name}", values)
        for variable, struct in zip(matches.schema.names, matches.columns, strict=True)
        for field, values in zip(struct.type, struct.flatten(), strict=True)
    ]
    return pa.RecordBatch.from_arrays([values for _, values in fields], names=[name for name, _ in fields])


class Matcher:
    """Rows sorted by (by, time, order) in, matches out: what a partition and a stream have in common."""

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

    def found(self, chunk: pa.Table, events: Events) -> Iterator[pa.RecordBatch]:
        """Matches as struct columns. Wide events make shorter batches."""
        columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        limit = self.task.batch_rows
        for rows in sequences(self.encoding.query, events, self.counters, self.task.batch_rows, self.task.jit):
            if not columns:
                names = [name for _, _, names in self.emitted for name in names]
                columns = {name: _combined(chunk.column(name)) for name in names}
                width = sum(columns[name].nbytes for name in names) // chunk.num_rows
                limit = max(1, min(limit, _OUTPUT_BYTES // max(1, width)))
            for start in range(0, len(rows), limit):
                yield from self.batches(columns, rows[start : start + limit])

    def batches(self, columns: Mapping[str, pa.Array | pa.ChunkedArray], rows: Ints) -> Iterator[pa.RecordBatch]:
        structs = []
        for state, _, names in self.emitted:
            events = np.ascontiguousarray(rows[:, state])
            structs.append(pa.StructArray.from_arrays([taken(columns[name], events) for name in names], names=names))
        yield pa.RecordBatch.from_arrays(structs, names=[variable for _, variable, _ in self.emitted])


class _Partition(Matcher):
    """A partition on its way through the kernel, chunk by chunk.

    `carried` holds the rows of the open group that later matches may need; the matches that end in the first `fresh` of
    them have been reported.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.carried: list[pa.RecordBatch] = []
        self.carried_rows = 0
        self.fresh = 0

    def matches(self, batches: Sequence[pa.RecordBatch], *, final: bool) -> Iterator[pa.RecordBatch]:
        """The matches that the new batches decide; all that are left if no batch follows."""
        batches = [*self.carried, *batches]
        if not any(batch.num_rows for batch in batches):
            return
        chunk = pa.Table.from_batches(batches)
        events = self.events(chunk)._replace(fresh=self.fresh)
        if self.trailing and not final:
            events = events._replace(stop=self._undecided(events.time, int(events.groups[-2])))
        yield from self.found(chunk, events)
        if not final:
            self._carry(chunk, events)

    def _undecided(self, time: Ints, group: int) -> int:
        """The first row of the open group whose window is still open, so that a trailing component may yet occur."""
        return _first_after(time, group, int(time[-1]) - self.encoding.query.within)

    def _carry(self, chunk: pa.Table, events: Events) -> None:
        """Keep what matches that end at `events.stop`, or at a row to come, can reach."""
        query, time, keep = self.encoding.query, events.time, int(events.groups[-2])
        if query.prune:
            keep = _first_after(time, keep, int(time[min(events.stop, len(time) - 1)]) - query.within)
        self.carried = chunk.slice(keep).to_batches()
        self.carried_rows = chunk.num_rows - keep
        self.fresh = events.stop - keep


def _first_after(time: Ints, begin: int, moment: int) -> int:
    """The first row from `begin` on that is later than `moment`, which may be below int64."""
    if moment < np.iinfo(np.int64).min:
        return begin
    return begin + int(np.searchsorted(time[begin:], moment, side="right"))


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
