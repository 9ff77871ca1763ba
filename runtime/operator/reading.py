"""A worker that reads events itself: what Spark hands to it are spans of time, or shares of files, and where these are.
It goes on with the events, or packs them in cells for the worker of their key."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.hashing import hashes
from sase.runtime.kernels.sequences import Ints
from sase.runtime.operator.cells import Dealing, dealt, opened
from sase.runtime.operator.expressions import Expressions, Tree, Value, ticks
from sase.runtime.operator.matcher import Task
from sase.runtime.operator.memory import keep_memory
from sase.runtime.operator.row_groups import in_batches

SPAN, CELL = "_sase_span", "_sase_cell"
"""The columns in which a row says what to read, or has events that somebody has read. No event has them: what a query
reads under these names is no such thing."""


@dataclass(frozen=True)
class File:
    """A path, and how long and how old the file was when its row groups were looked at."""

    path: str
    size: int
    modified: int

    @classmethod
    def at(cls, path: str) -> File:
        found = os.stat(path)
        return cls(path, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class RowGroup:
    """So many events, from `first` to `last`, both included, as a part of a file: both are known by their numbers."""

    file: int
    number: int
    first: int
    last: int
    events: int


@dataclass(frozen=True)
class Span:
    """Times from `start` up to `end`, and what is to be read for them: events from `since` up to `until`."""

    start: int
    end: int
    since: int
    until: int
    groups: tuple[RowGroup, ...]


Counted = dict[int, tuple[int, frozenset[str]]]
"""By the number of a span, how many events it has, and the types that are among them."""


class Counts(Protocol):
    """An accumulator of Spark's."""

    def add(self, term: Counted) -> None: ...


@dataclass(frozen=True)
class Reading:
    """What a row of a file has to be, and what is made of it: trees over the columns of the file."""

    files: tuple[File, ...]
    reads: tuple[str, ...]
    words: tuple[str, ...]
    """The columns that are read as dictionaries: the strings that something is asked of."""
    type: str
    time: str
    where: tuple[Tree, ...]
    columns: Mapping[str, Tree]
    states: str
    lent: Tree
    """The state bits of an event of another span, which is the last one of no match."""
    slice: str | None
    """The column that says which span it is."""
    sound: tuple[Tree, ...]
    """What holds for all events of the query's types, and for no others: these are counted."""
    counts: Counts | None
    """Is told of them."""


def packed(reading: Reading, span: Span, number: int) -> bytes:
    """As a cell of the column."""
    return pickle.dumps((reading, span, number))


def present(task: Task, wanted: Iterable[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The events themselves: those of spans are read here, and those in cells unpacked."""
    used = set(wanted)
    for batch in batches:
        stands = next((name for name in (SPAN, CELL) if name in batch.schema.names and name not in used), None)
        if stands is None:
            yield batch
            continue
        if task.code is None or batch.column(stands).null_count:
            raise AssertionError("events that a worker reads are sorted by one, and come with no others")
        fields = [field for field in batch.schema if field.name != stands]
        for cell in batch.column(stands):
            for events in _read(cell, fields) if stands == SPAN else opened(cell.as_buffer()).to_batches():
                yield _coded(task, events, fields)


def read_and_dealt(dealing: Dealing, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Events of spans, in cells."""
    keep_memory()
    for batch in batches:
        fields = [field for field in batch.schema if field.name != SPAN]
        for cell in batch.column(SPAN):
            yield from dealt(dealing, _read(cell, fields))


def _read(cell: pa.Scalar, fields: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
    return _Reader(fields, *pickle.loads(cell.as_buffer())).events()


def _coded(task: Task, events: pa.RecordBatch, fields: Sequence[pa.Field]) -> pa.RecordBatch:
    """All of the columns, with the code of the key, which is made last."""
    known = dict(zip(events.schema.names, events.columns, strict=True))
    if task.code is not None and task.code not in known:
        known[task.code] = pa.array(hashes([known[name] for name in task.by], task.jit))
    return pa.RecordBatch.from_arrays([known[field.name] for field in fields], schema=pa.schema(fields))


class _Reader:
    def __init__(self, fields: Sequence[pa.Field], reading: Reading, span: Span, number: int) -> None:
        self.reading, self.span, self.number = reading, span, number
        made = {*reading.columns, reading.slice}
        self.fields = [field for field in fields if field.name in made]
        self.expressions = Expressions()
        self.counted, self.types = 0, set[str]()

    def events(self) -> Iterator[pa.RecordBatch]:
        for at, file in enumerate(self.reading.files):
            groups = [group.number for group in self.span.groups if group.file == at]
            if groups:
                for batch in self.rows(file, groups):
                    yield from self.made(batch)
        if self.reading.counts is not None:
            self.reading.counts.add({self.number: (self.counted, frozenset(self.types))})

    def rows(self, file: File, groups: list[int]) -> Iterator[pa.RecordBatch]:
        if not os.path.exists(file.path) or File.at(file.path) != file:
            raise SaseRunError(
                f"{file.path} has changed since its times were looked up: run the query again, "
                "or with --strategy scan=spark"
            )
        words = self.reading.words
        with pq.ParquetFile(file.path, read_dictionary=words) as opened:
            yield from in_batches(opened, groups, self.reading.reads, words)

    def made(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Of what is in reach of the span, what may take part."""
        reading, span = self.reading, self.span
        time = _times(batch.column(reading.time))
        if not len(time):
            return
        first, last = int(time.min()), int(time.max())
        if first < span.since or last >= span.until:
            inside = (time >= max(span.since, first)) & (time <= min(span.until - 1, last))
            batch, time = batch.filter(pa.array(inside)), time[inside]
            if not len(time):
                return
            first, last = int(time.min()), int(time.max())
        own: Value = pa.scalar(span.start <= first and last < span.end)
        if not own.as_py() and span.start <= last and first < span.end:
            own = pa.array((time >= max(span.start, first)) & (time <= min(span.end - 1, last)))
        # Events of other types go first: nothing else is computed of them.
        sound = self.over(batch).all_of(reading.sound)
        if not is_true(sound) and how_many(sound, batch.num_rows) < batch.num_rows:
            kept = truths(sound, batch.num_rows)
            batch, own = batch.filter(kept), own if isinstance(own, pa.Scalar) else own.filter(kept)
            if not batch.num_rows:
                return
        if reading.counts is not None:
            self.count(own, batch.column(reading.type))
        rows = self.over(batch)
        columns = {name: self.output(rows, tree, batch) for name, tree in reading.columns.items()}
        if not is_true(own):
            columns[reading.states] = _chosen(own, rows.value(reading.lent), columns[reading.states])
        some = _both(rows.all_of(reading.where), _not_zero(columns[reading.states]))
        if not is_true(some):
            kept = truths(some, batch.num_rows)
            columns = {
                name: value if isinstance(value, pa.Scalar) else value.filter(kept) for name, value in columns.items()
            }
            count = how_many(kept, batch.num_rows)
        else:
            count = batch.num_rows
        if count:
            yield self.batch(columns, count)

    def over(self, batch: pa.RecordBatch) -> Any:
        return self.expressions.over(dict(zip(batch.schema.names, batch.columns, strict=True)))

    def count(self, own: Value, types: pa.Array) -> None:
        count = how_many(own, len(types))
        self.counted += count
        words = types.dictionary if pa.types.is_dictionary(types.type) else types.unique()
        if count and not self.types.issuperset(words.to_pylist()):  # else there is no new one
            self.types.update((types if count == len(types) else types.filter(own)).unique().to_pylist())

    def output(self, rows: Any, tree: Tree, batch: pa.RecordBatch) -> Value:
        """A column of the file as it is: what comes as a dictionary is one until rows are left out."""
        return batch.column(tree[1]) if tree[0] == "column" else rows.value(tree)

    def batch(self, columns: Mapping[str, Value], count: int) -> pa.RecordBatch:
        arrays = [
            pa.array(np.full(count, self.number, np.int64))
            if field.name == self.reading.slice
            else whole(columns[field.name], field.type, count)
            for field in self.fields
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(self.fields))


def _times(column: pa.Array) -> Ints:
    found = ticks(column) if pa.types.is_timestamp(column.type) else column.cast(pa.int64())
    times: Ints = found.to_numpy()
    return times


def whole(value: Value, kind: pa.DataType, count: int) -> pa.Array:
    if isinstance(value, pa.Scalar):
        return pa.nulls(count, kind) if not value.is_valid else pa.repeat(value.cast(kind), count)
    return value if value.type == kind else value.cast(kind)


def is_true(value: Value) -> bool:
    return isinstance(value, pa.Scalar) and value.as_py() is True


def _both(one: Value, other: Value) -> Value:
    return other if is_true(one) else one if is_true(other) else pa.compute.and_kleene(one, other)


def _chosen(condition: Value, lent: Value, own: Value) -> Value:
    return lent if isinstance(condition, pa.Scalar) else pa.compute.if_else(condition, own, lent)


def _not_zero(states: Value) -> Value:
    if isinstance(states, pa.Scalar):
        return pa.scalar(states.as_py() != 0)
    values = states.to_numpy()
    return pa.scalar(True) if values.all() else pa.array(values != 0)


def truths(value: Value, rows: int) -> pa.Array:
    return pa.array([bool(value.as_py())] * rows) if isinstance(value, pa.Scalar) else value


def how_many(truths: Value, rows: int) -> int:
    if isinstance(truths, pa.Scalar):
        return rows if truths.as_py() else 0
    return int(truths.true_count)
