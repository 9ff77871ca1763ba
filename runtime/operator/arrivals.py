"""Aggregates over all that has arrived, in a worker: rows of slices in, those of the slices' own with columns out.

A slice has the rows of its own time, copies of those that the window leaves while it passes over the slice, and the
totals of the slices in between. Sums are exact, and rounded once, so that the answer does not depend on the slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sase.runtime.errors import SaseRunError
from sase.runtime.kernels import arrivals as k
from sase.runtime.kernels.encode import changes
from sase.runtime.kernels.sequences import Ints
from sase.runtime.kernels.sort import SortKey
from sase.runtime.operator import matcher
from sase.runtime.operator.matcher import int64s
from sase.runtime.operator.sorting import in_order
from sase.runtime.operator.thinning import Tree, possible
from sase.runtime.operator.words import (
    Truths,
    decimals_of,
    ints_of,
    powers_of_ten,
    to_add,
    to_compare,
    truths_of,
    zeros_of,
)
from sase.runtime.pattern import ARRIVES

TOTAL = -1
"""What a row is: a slice's totals, or twice the number of its type, and one more if it is the slice's own to answer."""
FIRST = -(2**63)
"""The time of a slice's totals: they come before all its rows."""


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
    """`columns` are those of the events that rows have under their numbers. Each row has its time as `ticks`, its
    `slice`, and in `what` its type, as a place among `kinds`."""

    running: tuple[Running, ...]
    columns: tuple[str, ...]
    moment: str
    """The events' time: the ticks say it, if it is not among the columns."""
    type: str
    kinds: tuple[str, ...]
    tie_breaker: str | None
    types: tuple[str, ...]
    """The events that get the columns."""
    within: int | None
    jit: bool = True
    chunk_rows: int = 262_144
    kept: tuple[str, ...] = ()
    """What is handed back of a row, before the aggregates."""
    thinned: Tree | None = None
    """Only rows of which it may hold are handed back."""

    # How rows are sorted.
    code = "slice"
    by = ("slice",)

    @property
    def keys(self) -> tuple[SortKey, ...]:
        return (SortKey("ticks"), *(() if self.order is None else (SortKey(self.order),)))

    @property
    def order(self) -> str | None:
        return None if self.tie_breaker is None else self.column(self.tie_breaker)

    def column(self, name: str) -> str:
        """The one that has an attribute, or says the same."""
        said = {self.type: "what", self.moment: "ticks"}
        return said[name] if name in said and name not in self.columns else str(self.columns.index(name))


@dataclass(frozen=True)
class Arriving:
    """The columns of a stream: events of `types` get them when they are released."""

    running: tuple[Running, ...]
    type: str | None
    """Nothing where all events that take part count."""
    types: tuple[str, ...]
    within: int
    slice: str | None = None
    """In a batch: the column of the slices in which they are told,"""
    thinned: Tree | None = None
    """and what holds for a last event, if it is one that any match can have."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What is read for them."""
        kinds = () if self.type is None else (self.type,)
        return tuple(dict.fromkeys((*kinds, *(each.attribute for each in self.running))))

    def are_of(self, events: pa.Table, types: Sequence[str]) -> Truths:
        """Of events that take part: are they of these types?"""
        if self.type is None:
            return np.ones(events.num_rows, np.bool)
        kinds = events.column(self.type)
        return truths_of(pc.is_in(kinds, value_set=pa.array(list(types), kinds.type)))


@dataclass(frozen=True)
class _Sliced:
    """How events are sorted to be told: by slice and place, whatever their key."""

    code: str
    keys: tuple[SortKey, ...]
    chunk_rows: int
    jit: bool

    @property
    def by(self) -> tuple[str, ...]:
        return (self.code,)


class Rows(NamedTuple):
    """Sorted by slice and place; `begins` marks the first row of each place."""

    slices: Ints
    ticks: Ints
    begins: Truths
    wanted: Truths


class Entries(NamedTuple):
    """Values that are inside the window, in the order of time, as the kernel has them."""

    ticks: Ints
    high: Ints
    low: Ints


NOTHING = Entries(*(np.zeros(0, np.int64) for _ in range(3)))


class Sum:
    """`avg`, `sum` and `count`. What is added is taken out again, exactly, when the window has left it."""

    size = 4 + k.LIMBS

    def __init__(self, running: Running, within: int | None, jit: bool, inside: Entries = NOTHING) -> None:
        self.running, self.within, self.jit = running, within, jit
        self.inside = inside
        self.limbs, self.counts = np.zeros(k.LIMBS, np.int64), np.zeros(4, np.int64)
        self.edges = np.array([k.LIMBS, -1])
        self.current = np.zeros(2, np.int64)

    def arrive(self, rows: Rows, values: pa.Array | pa.ChunkedArray, feeds: Truths, bases: Bases) -> pa.Array:
        """The column of these rows; NULL where it is not wanted."""
        counted = self.running.kind == "count"
        kind, high, low, scale = (k.COUNT, *zeros_of(len(feeds)), 0) if counted else to_add(values)
        inside, old = self.inside, len(self.inside.ticks)
        result = _Result(self.running, old + len(feeds))
        divisors = np.array([1, *powers_of_ten(scale)], np.int64)
        begin, failed = k.kernel("sums", self.jit)(
            kind,
            k.AVERAGE if self.running.kind == "avg" else k.TOTAL,
            -1 if self.within is None else self.within,
            old if self.current[0] else 0,
            *(part := _behind(inside, rows, high, low, feeds, int(self.current[1]))),
            divisors,
            self.limbs,
            self.counts,
            self.edges,
            self.current,
            *bases.sums(self),
            *result.words,
        )
        if failed >= 0:
            raise result.too_large(sum(int(limb) << (32 * at) for at, limb in enumerate(self.limbs[k.ONE :])))
        if self.within is not None:
            kept = np.flatnonzero(part[5][begin:]) + begin
            kept = kept[part[0][kept] == self.current[1]]
            self.inside = Entries(*(part[each][kept] for each in (1, 3, 4)))
        return result.column(old, values.type)

    def of_groups(self, group: Ints, groups: int, values: pa.Array, feeds: Truths) -> Ints:
        """A line of numbers for each group, which `merged` adds up."""
        counted = self.running.kind == "count"
        kind, high, low, _ = (k.COUNT, *zeros_of(len(feeds)), 0) if counted else to_add(values)
        limbs, counts = np.zeros((groups, k.LIMBS), np.int64), np.zeros((groups, 4), np.int64)
        edges = np.tile(np.array([k.LIMBS, -1]), (groups, 1))
        k.kernel("gathered", self.jit)(kind, *_given(group, high, low, feeds), limbs, counts, edges)
        return np.hstack([counts, limbs])

    @staticmethod
    def merged(one: Ints, other: Ints) -> Ints:
        return one + other


class Extreme:
    """`min` and `max`: a queue in which each value is better than all behind it."""

    size = 3

    def __init__(self, running: Running, within: int | None, jit: bool, inside: Entries = NOTHING) -> None:
        self.running, self.within, self.jit = running, within, jit
        self.most = running.kind == "max"
        self.inside = inside
        self.current = 0

    def arrive(self, rows: Rows, values: pa.Array | pa.ChunkedArray, feeds: Truths, bases: Bases) -> pa.Array:
        high, low = to_compare(values)
        inside, old = self.inside, len(self.inside.ticks)
        result = _Result(self.running, old + len(feeds), words=2)
        queue = np.empty(old + len(feeds), np.int64)
        part = _behind(inside, rows, high, low, feeds, self.current)
        head, tail = k.kernel("extremes", self.jit)(
            self.most,
            -1 if self.within is None else self.within,
            *part,
            *bases.extremes(self),
            *result.words,
            queue,
        )
        if len(part[0]):
            self.current = int(part[0][-1])
        kept = queue[head:tail]
        self.inside = Entries(*(part[each][kept] for each in (1, 3, 4)))
        return result.column(old, values.type)

    def of_groups(self, group: Ints, groups: int, values: pa.Array, feeds: Truths) -> Ints:
        high, low = to_compare(values)
        best_high, best_low, known = *zeros_of(groups), np.zeros(groups, np.bool)
        best_high, best_low = best_high.copy(), best_low.copy()
        k.kernel("best", self.jit)(self.most, *_given(group, high, low, feeds), best_high, best_low, known)
        return np.stack([known.astype(np.int64), best_high, best_low], axis=1)

    def merged(self, one: Ints, other: Ints) -> Ints:
        if not one[0] or not other[0]:
            return one if one[0] else other
        return one if k.is_better(self.most, *map(int, (one[1], one[2], other[1], other[2]))) else other


Aggregate = Sum | Extreme


def aggregates(running: Sequence[Running], within: int | None, jit: bool) -> list[Aggregate]:
    return [(Extreme if each.kind in ("min", "max") else Sum)(each, within, jit) for each in running]


class Bases:
    """What a slice begins with: the totals of the slices that its window holds as a whole, as lines of `of_groups`."""

    def __init__(self, of: Sequence[Aggregate]) -> None:
        self.of = of
        self.lines: dict[int, list[Ints]] = {}

    def add(self, slice: int, payload: bytes) -> None:
        ends = np.cumsum([each.size for each in self.of])
        lines = np.split(np.frombuffer(payload, np.int64), ends[:-1])
        self.merge(slice, lines)

    def merge(self, slice: int, lines: Sequence[Ints]) -> None:
        known = self.lines.get(slice)
        if known is not None:
            lines = [each.merged(one, other) for each, one, other in zip(self.of, known, lines, strict=True)]
        self.lines[slice] = list(lines)

    def forget(self, before: int) -> None:
        self.lines = {slice: lines for slice, lines in self.lines.items() if slice >= before}

    def payload(self, slice: int) -> bytes:
        return np.concatenate(self.lines[slice]).tobytes()

    def sums(self, of: Sum) -> tuple[Any, ...]:
        slices, lines = self._table(of, of.size)
        return _given(slices, lines[:, 4:], lines[:, :4])

    def extremes(self, of: Extreme) -> tuple[Any, ...]:
        slices, lines = self._table(of, of.size)
        there = lines[:, 0] != 0
        return _given(slices[there], lines[there, 1], lines[there, 2])

    def _table(self, of: Aggregate, width: int) -> tuple[Ints, Ints]:
        slices = sorted(self.lines)
        lines = [self.lines[slice][self.of.index(of)] for slice in slices]
        return np.array(slices, np.int64), np.array(lines, np.int64).reshape(len(slices), width)


# ---- a partition --------------------------------------------------------------------------------


def totals(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each slice of which the partition has events, in any order."""
    schema = pa.schema([("slice", pa.int64()), ("payload", pa.binary())])
    running = aggregates(task.running, None, task.jit)
    found = Bases(running)
    for batch in batches:
        slices, group = np.unique(ints_of(batch.column("slice")), return_inverse=True)
        lines = [
            each.of_groups(group, len(slices), values, feeds)
            for each, (values, feeds) in zip(running, _fed(task, batch), strict=True)
        ]
        for at, slice in enumerate(slices.tolist()):
            found.merge(slice, [line[at] for line in lines])
    if found.lines:
        payloads = [found.payload(slice) for slice in found.lines]
        yield pa.record_batch([list(found.lines), payloads], schema=schema)


def run(task: Task, batches: Iterator[pa.RecordBatch], types: Sequence[pa.DataType]) -> Iterator[pa.RecordBatch]:
    """The rows of the slices' own, with the columns that have arrived with them."""
    running = aggregates(task.running, task.within, task.jit)
    bases = Bases(running)
    names = ("slice", "ticks", *([] if task.order is None else [task.order]))
    for table, begins in _places(in_order(batches, task), names):
        what = ints_of(table.column("what"))
        whole = what == TOTAL
        if whole.any():
            parts = table.filter(whole)
            for slice, payload in zip(ints_of(parts.column("slice")), parts.column("payload"), strict=True):
                bases.add(int(slice), payload.as_py())
            table, begins, what = table.filter(~whole), begins[~whole], what[~whole]
        if table.num_rows == 0:
            continue
        own = what & 1 != 0
        slices = ints_of(table.column("slice"))
        rows = Rows(slices, ints_of(table.column("ticks")), begins, own)
        found = [
            each.arrive(rows, values, feeds, bases)
            for each, (values, feeds) in zip(running, _fed(task, table), strict=True)
        ]
        bases.forget(int(slices[-1]))
        told = {each.name: column.cast(kind) for each, column, kind in zip(task.running, found, types, strict=True)}
        if task.thinned is not None:
            own &= possible(task.thinned, partial(_column, task, table, told))
        if own.any():
            kept = table.select(list(task.kept))
            for name, column in told.items():
                kept = kept.append_column(name, column)
            yield from (kept if own.all() else kept.filter(pa.array(own)).combine_chunks()).to_batches()


def told(task: matcher.Task, arriving: Arriving, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a batch, where the kernel is: the events of slices, those that may be the last of a match with what has
    arrived. The copies in a slice may not, and so are not told. What can be part of no match is left out."""
    last = 1 << (len(task.pattern.positive) - 1)
    running = aggregates(arriving.running, arriving.within, task.jit)
    sliced = _Sliced(str(arriving.slice), task.keys, task.chunk_rows, task.jit)
    names = (sliced.code, task.time, *([] if task.order is None else [task.order]))
    for table, begins in _places(in_order(batches, sliced), names):
        states = int64s(table, task.states)
        wanted, counts = states & last != 0, states & ARRIVES != 0
        rows = Rows(int64s(table, sliced.code), int64s(table, task.time), begins, wanted)
        columns = {}
        for each in running:
            values = table.column(each.running.attribute)
            feeds = counts & arriving.are_of(table, each.running.types) & truths_of(pc.is_valid(values))
            columns[each.running.name] = each.arrive(rows, values, feeds, Bases(running))
        states = states & ~ARRIVES
        if arriving.thinned is not None:
            ruled_out = wanted & ~possible(arriving.thinned, partial(_told_column, table, columns))
            states[ruled_out] &= ~last
        columns[task.states] = pa.array(states)
        for name, column in columns.items():
            if name in table.column_names:
                at = table.schema.get_field_index(name)
                table = table.set_column(at, table.schema.field(at), column.cast(table.schema.field(at).type))
        left = states != 0
        yield from (table if left.all() else table.filter(pa.array(left))).to_batches()


def _told_column(table: pa.Table, columns: dict[str, pa.Array], name: str) -> pa.Array | pa.ChunkedArray:
    return columns[name] if name in columns else table.column(name)


def _places(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[tuple[pa.Table, Truths]]:
    """Rows that are sorted by `names`, and which of them begin a place. A batch may end between rows of one place, so
    those of the last place are kept for the next one."""
    held: pa.Table | None = None
    for batch in _and_last(batches):
        table = held if batch is None else pa.Table.from_batches([batch])
        if batch is not None and held is not None:
            table = pa.concat_tables([held, table])
        if table is None or table.num_rows == 0:
            continue
        unlike = np.zeros(table.num_rows - 1, np.bool)
        for name in names:
            unlike |= changes(table.column(name))
        begins = np.concatenate([[True], unlike])
        end = table.num_rows if batch is None else int(np.flatnonzero(begins)[-1])
        held = None if batch is None else table.slice(end)
        if end:
            yield table.slice(0, end), begins[:end]


def _is_of(task: Task, rows: pa.RecordBatch | pa.Table, types: Sequence[str]) -> Truths:
    among: Truths = np.array([name in types for name in task.kinds], np.bool)
    found: Truths = among[ints_of(rows.column("what")) >> 1]
    return found


def _fed(task: Task, rows: pa.RecordBatch | pa.Table) -> Iterator[tuple[Any, Truths]]:
    """For each column, the values and which of them count."""
    of: dict[tuple[str, ...], Truths] = {}
    for each in task.running:
        if each.types not in of:
            of[each.types] = _is_of(task, rows, each.types)
        values = rows.column(task.column(each.attribute))
        yield values, of[each.types] & truths_of(pc.is_valid(values))


def _column(task: Task, rows: pa.Table, told: dict[str, pa.Array], name: str) -> pa.Array | pa.ChunkedArray:
    return told[name] if name in told else rows.column(task.column(name))


def _and_last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch | None]:
    yield from batches
    yield None


# ---- a stream -----------------------------------------------------------------------------------


class Arrived:
    """What has arrived on a stream: rows are handed over in the order of place, and once. `kept` is what was left
    before, as `state` gave it."""

    def __init__(self, arriving: Arriving, jit: bool, kept: bytes = b"") -> None:
        self.arriving = arriving
        self.of = aggregates(arriving.running, arriving.within, jit)
        if kept:
            lengths, numbers = np.split(np.frombuffer(kept, np.int64), [len(self.of)])
            for each, part in zip(self.of, np.split(numbers, 3 * np.cumsum(lengths)[:-1]), strict=True):
                each.inside = Entries(*part.reshape(3, -1))

    def arrive(self, events: pa.Table, ticks: Ints, begins: Truths, wanted: Truths) -> dict[str, pa.Array]:
        """The columns of these events, by name; `wanted` are those that need them."""
        told = wanted & self.arriving.are_of(events, self.arriving.types)
        rows = Rows(np.zeros(len(ticks), np.int64), ticks, begins, told)
        columns = {}
        for each in self.of:
            values = events.column(each.running.attribute)
            feeds = self.arriving.are_of(events, each.running.types) & truths_of(pc.is_valid(values))
            columns[each.running.name] = each.arrive(rows, values, feeds, Bases(self.of))
        return columns

    @property
    def latest(self) -> int | None:
        """The time of the last value that is inside."""
        return max((int(each.inside.ticks[-1]) for each in self.of if len(each.inside.ticks)), default=None)

    def state(self, since: int) -> bytes:
        """Without what is not later than `since`: it is in no window to come. Empty if nothing is left."""
        for each in self.of:
            kept = each.inside.ticks > since
            each.inside = Entries(*(column[kept] for column in each.inside))
        if self.latest is None:
            return b""
        lengths = np.array([len(each.inside.ticks) for each in self.of], np.int64)
        return np.concatenate([lengths, *(column for each in self.of for column in each.inside)]).tobytes()


# ---- between Arrow and the kernel ---------------------------------------------------------------


class _Result:
    """The words of a column as the kernel writes them."""

    def __init__(self, running: Running, rows: int, words: int | None = None) -> None:
        self.running = running
        long = running.kind == "sum" and running.result.startswith("decimal")
        self.high = np.zeros(rows if words == 2 or long else 0, np.int64)
        self.low = np.zeros(rows, np.int64)
        self.known = np.zeros(rows, np.bool)

    @property
    def words(self) -> tuple[Ints, Ints, Truths]:
        return self.high, self.low, self.known

    def column(self, begin: int, of: pa.DataType) -> pa.Array:
        """From a row on; `of` is the type of what was aggregated."""
        high, low, unknown = self.high[begin:], self.low[begin:], ~self.known[begin:]
        kind = self.running.kind
        if kind in ("min", "max"):
            if pa.types.is_decimal(of):
                return decimals_of(high, low, unknown, of)
            if pa.types.is_floating(of):
                return pa.array((high ^ ((high >> 63) & np.int64(2**63 - 1))).view(np.float64), mask=unknown)
            return pa.array(high, mask=unknown)
        if kind == "avg" or self.running.result == "double":
            return pa.array(low.view(np.float64), mask=unknown, from_pandas=False)
        if len(self.high):
            most = np.int64(10**38 >> 64)
            for row in np.flatnonzero((high >= most) | (high < -most)):
                total = (int(high[row]) << 64) + (int(low[row]) & (2**64 - 1))
                if not -(10**38) < total < 10**38:
                    raise self.too_large(total)
            return decimals_of(high, low, unknown, pa.decimal128(38, of.scale))
        return pa.array(low, mask=unknown)

    def too_large(self, total: int) -> SaseRunError:
        room = "38 digits" if len(self.high) else "64 bits"
        return SaseRunError(
            f"{self.running.name} is {total}, which does not fit into {room}: take the avg*, or cast it"
        )


def _behind(inside: Entries, rows: Rows, high: Ints, low: Ints, feeds: Truths, slice: int) -> tuple[Any, ...]:
    """What is inside, and behind it the rows."""
    old = len(inside.ticks)
    begins = np.ones(old, np.bool)
    columns = (rows.slices, rows.ticks, rows.begins, high, low, feeds, rows.wanted)
    if not old:
        return _given(*columns)
    before = (np.full(old, slice), inside.ticks, begins, inside.high, inside.low, begins, np.zeros(old, np.bool))
    return _given(*(np.concatenate(pair) for pair in zip(before, columns, strict=True)))


def _given(*arrays: Any) -> tuple[Any, ...]:
    """As the kernel takes what it only reads."""
    views = tuple(np.ascontiguousarray(array).view() for array in arrays)
    for view in views:
        view.flags.writeable = False
    return views
