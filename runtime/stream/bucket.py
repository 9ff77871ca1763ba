"""The kernel on a stream: what a bucket of keys remembers from one micro-batch to the next.

The state of a bucket is a table of events, in no order. The watermark says up to where the stream is complete: events
before it are *released*, those at it or after it are pending, and what arrives behind it is late. A micro-batch
releases what the watermark has passed, builds the sequences that this decides, and forgets what the window can no
longer reach. Nothing here knows of Spark: `Bucket.advance` is a function of state, new events and watermark.

Invariants
----------
A match is *due* when all that can forbid it is released: `horizon` says when that is, and what has to be remembered
until then. The state says at which watermark the bucket was called last: what was due by then has been reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.encode import changes, group_codes, ranks
from sase.runtime.kernels.sequences import Ints
from sase.runtime.kernels.sort import sorting as by_counting
from sase.runtime.operator.arrivals import Arrived, Arriving
from sase.runtime.operator.construction import Columns, Found, Rows
from sase.runtime.operator.matcher import Matcher, Task, int64s
from sase.runtime.operator.results import Deciding, Fold
from sase.runtime.pattern import ARRIVES, USED, Outside, Pattern, Totals
from sase.runtime.stream.horizon import COPY, FOREVER, TIMELY, horizon

_CALLED_AT = b"watermark"
_ARRIVED = b"arrived"
_DECIDED = b"decided"
_ATTACHED = 1 << 20
"""How many negated events a batch of matches carries along, give or take one match's."""


@dataclass(frozen=True)
class StreamTask(Task):
    outside: tuple[Outside, ...] = ()
    shown: tuple[str, ...] = ()
    """The columns of an event that could not take part."""
    arriving: Arriving | None = None

    deciding: Deciding | None = None
    once: bool = False
    """Of totals: a key is told of when it has a match, and never again."""
    behind: int = 0
    """How far behind the watermark it works: results of other queries may come so long after their time."""

    @property
    def spreads(self) -> bool:
        """Whether keys are spread over buckets: what earlier results decide needs all of them in one, and so do totals
        over several keys."""
        over = isinstance(self.pattern, Totals) and not {*self.by} <= {*self.pattern.shown}
        return bool(self.by) and self.deciding is None and not over

    @property
    def everywhere(self) -> int:
        """The state bits of events that every bucket has, whatever their key: of components that Spark looks at, and of
        what has arrived."""
        known = len(self.pattern.variables)
        bits = sum(1 << (known + at) for at, component in enumerate(self.outside) if not component.keyed)
        return bits | (ARRIVES if self.arriving is not None else 0)


@dataclass(frozen=True)
class Step:
    late: pa.Table | None
    matches: Iterator[pa.RecordBatch]
    state: pa.Table | None
    """What to remember; None if there is nothing."""
    wake: int | None
    """The watermark at which there is something to do even if no event arrives."""


class Bucket(Matcher):
    """The events of some keys, on their way through the window."""

    def __init__(self, task: StreamTask) -> None:
        super().__init__(task)
        self.stream = task
        # What is only shown of an event that comes too late need not be remembered of one that does not.
        told = () if task.arriving is None else task.arriving.columns
        self.columns = list(dict.fromkeys((*self.columns, *_attached(task.outside), *told)))
        self.horizon = horizon(task.pattern, task.outside)
        known = len(task.pattern.variables)
        self.bits = {component.variable: 1 << (known + at) for at, component in enumerate(task.outside)}
        self.everywhere = sum(self.bits[component.variable] for component in task.outside if not component.keyed)
        self.lookups: list[_Lookup] = []
        self.seen = 0

    def advance(
        self, state: pa.Table | None, arrived: pa.Table | None, watermark: int, seen: int | None = None
    ) -> Step:
        """One micro-batch of a bucket; time and watermarks are in ticks. The watermark is that by which the bucket
        works; `seen` is where it stood when the events arrived, if that is another: they are late by it."""
        late, arrived = self._timely(arrived, watermark if seen is None else seen)
        known = None if self.stream.arriving is None else self._known(state)
        beside = known is not None or self.stream.deciding is not None
        tables = [table.select(self.columns) for table in (state, arrived) if table is not None and table.num_rows]
        if not tables and beside and state is not None:
            tables = [state.select(self.columns)]  # no events, but what has arrived, or is in results
        if not tables:
            return Step(late, iter(()), None, None)
        table = pa.concat_tables(tables).combine_chunks()
        time, states = int64s(table, self.task.time), int64s(table, self.task.states) & ~TIMELY
        if known is not None:
            table = self._told(known, table, time, states, watermark)
        if self.task.limit is not None and table.num_rows:
            self._enforce_limit(table, self.task.limit)
        # What a state does not remember, no match has: of events behind the watermark, all matches are to come.
        since = min(watermark, int(time.min())) if state is None else called_at(state, watermark)
        due = self.horizon.due(time, states, since, watermark)
        matches: Iterator[pa.RecordBatch] = iter(())
        if due.any():
            matches, states = self._due(table, time, states, due, since, watermark)
        if self.stream.deciding is not None:
            fold = Fold(self.stream.deciding, [] if state is None else _kept(state))
            matches = iter(self._decided(fold, list(matches)))
            decided = fold.state(watermark)
        else:
            decided = []
        return self._remember(late, matches, table, time, states, watermark, known, decided)

    def _timely(self, arrived: pa.Table | None, watermark: int) -> tuple[pa.Table | None, pa.Table | None]:
        """What has come too late, and the rest."""
        if arrived is None:
            return None, None
        marks = int64s(arrived, self.task.states)
        complete = watermark + self.stream.behind
        behind = (int64s(arrived, self.task.time) < complete) & (marks & TIMELY == 0)
        if not behind.any():
            return None, arrived
        late = arrived.filter(behind & (marks & COPY == 0)).select(list(self.stream.shown))
        return late, arrived.filter(~behind)

    def _decided(self, fold: Fold, candidates: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Of the matches that are due, those that are results: by their last events, whatever their key."""
        if not candidates:
            return []
        table = pa.Table.from_batches(candidates)
        moments = fold.moments(table)
        order = sorted(range(len(moments)), key=moments.__getitem__)
        results = fold.decide(table.take(pa.array(order)), [moments[at] for at in order])
        batches: list[pa.RecordBatch] = results.combine_chunks().to_batches()
        return batches

    def _known(self, state: pa.Table | None) -> Arrived:
        assert self.stream.arriving is not None
        kept = b"" if state is None else (state.schema.metadata or {}).get(_ARRIVED, b"")
        return Arrived(self.stream.arriving, self.task.jit, kept)

    def _told(self, known: Arrived, table: pa.Table, time: Ints, states: Ints, watermark: int) -> pa.Table:
        """The events, those that are released now with what had arrived with them. They lose their bit: it is once."""
        rows = np.flatnonzero((states & ARRIVES != 0) & (time < watermark))
        if not len(rows):
            return table
        order = [] if self.task.order is None else ranks(table.column(self.task.order).take(pa.array(rows)))
        rows = rows[sorting(time[rows], *order)]
        released = table.take(pa.array(rows))
        unlike = np.diff(time[rows]) != 0
        if self.task.order is not None:
            unlike |= changes(released.column(self.task.order))
        wanted = states[rows] & COPY == 0
        place = np.arange(table.num_rows)
        place[rows] = table.num_rows + np.arange(len(rows))
        for name, column in known.arrive(released, time[rows], np.append(True, unlike), wanted).items():
            if name in self.columns:
                before = table.column(name)
                both = pa.chunked_array([*before.chunks, column.cast(before.type)])
                table = table.set_column(table.schema.get_field_index(name), name, both.take(pa.array(place)))
        states[rows] &= ~ARRIVES
        return table.combine_chunks()

    def _due(
        self, table: pa.Table, time: Ints, states: Ints, due: NDArray[np.bool], since: int, watermark: int
    ) -> tuple[Iterator[pa.RecordBatch], Ints]:
        """The matches that are due, and the state bits after them.

        Groups without a due event are left out, and so are events of no further use.
        """
        task = self.stream
        codes = group_codes([table.column(name) for name in task.by], table.num_rows)
        concerned = np.zeros(int(codes.max()) + 1, np.bool)
        concerned[codes[due]] = True
        part = np.flatnonzero((time < watermark) & (concerned[codes] | (states & self.everywhere != 0)))
        order = [] if task.order is None else ranks(table.column(task.order).take(pa.array(part)))
        part = part[by_group(codes[part], time[part], order, task.jit)]
        tried = self.horizon.tried(states[part], due[part])
        chunk = table.take(pa.array(part))
        chunk = chunk.set_column(chunk.schema.get_field_index(task.states), task.states, pa.array(tried))
        events = self.events(chunk)._replace(since=since, until=watermark)
        self.base, self.seen = (
            self.seen,
            self.seen + chunk.num_rows,
        )  # the buckets of a task share one sequence of numbers
        self.lookups = [_Lookup(chunk, events.time, codes[part], tried, task, self.bits[each.variable], each)
                        for each in task.outside]  # fmt: skip
        found = self.construction.found(events, task.jit)
        matches = self.found(chunk, found)
        if found.used is not None:
            matches = iter(list(matches))  # what they use up is part of the state
            states[part[found.used]] |= USED
        return matches, states

    def batches(self, found: Found, columns: Columns, rows: Ints) -> Iterator[pa.RecordBatch]:
        """Matches that no event outside the kernel forbids, with the events that Spark has yet to look at."""
        attaching = []
        for lookup in self.lookups:
            if lookup.component.columns:
                attaching.append(lookup)
            else:
                begin, end = lookup.interval(rows)
                rows = rows[begin == end]
        if not len(rows):
            return
        intervals = [lookup.interval(rows) for lookup in attaching]
        load = np.cumsum(sum((end - begin for begin, end in intervals), np.zeros(len(rows), np.int64)))
        cuts = np.flatnonzero(np.diff(load // _ATTACHED)) + 1
        for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            for batch in super().batches(found, columns, rows[start:stop]):
                for lookup, (begin, end) in zip(attaching, intervals, strict=True):
                    events = lookup.events(begin[start:stop], end[start:stop])
                    names = lookup.component.columns
                    batch = batch.append_column(lookup.component.variable, events.column(lookup.columns, names))
                yield batch

    def _remember(
        self, late: pa.Table | None, matches: Iterator[pa.RecordBatch], table: pa.Table, time: Ints, states: Ints,
        watermark: int, known: Arrived | None, decided: list[pa.Table],
    ) -> Step:  # fmt: skip
        waiting = states & ARRIVES
        states = self.horizon.remembered(time, states & ~ARRIVES, watermark)
        of_use = states != 0
        wakes = [self.horizon.wake(time[of_use], states[of_use], watermark)] if of_use.any() else []
        states = np.where(waiting != 0, states | waiting | COPY * (states == 0), states)
        keep = states != 0
        beside: dict[bytes, bytes] = {}
        if known is not None and self.stream.arriving is not None:
            within = self.stream.arriving.within
            beside[_ARRIVED] = known.state(watermark - within)
            wakes += [] if known.latest is None else [known.latest + within]
            wakes += [int(time[waiting != 0].min()) + 1] if waiting.any() else []
        for at, counted in enumerate(decided):
            beside[_DECIDED + str(at).encode()] = stored(counted)
            if counted.num_rows and self.stream.deciding is not None:
                wakes.append(int(int64s(counted, "ticks").max()) + (self.stream.deciding.within or 0))
        if not wakes:
            return Step(late, matches, None, None)
        table = table.filter(keep)
        table = table.set_column(
            table.schema.get_field_index(self.task.states), self.task.states, pa.array(states[keep])
        )
        return Step(late, matches, named_at(table, watermark, beside), min(wakes))

    def _enforce_limit(self, table: pa.Table, limit: int) -> None:
        codes = group_codes([table.column(name) for name in self.task.by], table.num_rows)
        count = np.bincount(codes)
        worst = int(count.argmax())
        if count[worst] > limit:
            row = int(np.flatnonzero(codes == worst)[0])
            raise SaseRunError(
                f"{count[worst]:,} events{self.of_key(table, row)} are waiting in the window: raise "
                "--max-window-events-per-key, shorten WITHIN or --max-delay, or keep such events out with a condition "
                "of their own"
            )


class _Lookup:
    """The events of one `Outside` component in a chunk, sorted by (group, moment), to be found by binary search.

    A moment is the rank of (time, tie-breaker) among all rows of the chunk, whatever their group.
    """

    def __init__(
        self, chunk: pa.Table, time: Ints, codes: Ints, states: Ints, task: StreamTask, bit: int, component: Outside
    ) -> None:
        self.component = component
        self.columns = {name: chunk.column(name).combine_chunks() for name in component.columns}
        assert isinstance(task.pattern, Pattern)
        self.time, self.within = time, min(task.pattern.within or 0, FOREVER)
        self.place = {variable: at for at, variable in enumerate(task.pattern.positive)}
        order = [] if task.order is None else ranks(chunk.column(task.order))
        sorting = np.lexsort((*reversed(order), time))
        unlike = np.zeros(max(0, len(time) - 1), np.bool)
        for values in (time, *order):
            unlike |= np.diff(values[sorting]) != 0
        self.moment = np.empty(len(time), np.int64)
        self.moment[sorting] = np.concatenate([[0], np.cumsum(unlike)])
        self.times = time[sorting][np.concatenate([[True], unlike])]
        self.group = (codes if component.keyed else np.zeros(len(codes), np.int64)) * (len(time) + 1)
        rows = np.flatnonzero(states & bit)
        at = (self.group + self.moment)[rows]
        self.rows, self.at = rows[np.argsort(at, kind="stable")], np.sort(at)

    def interval(self, matches: Ints) -> tuple[Ints, Ints]:
        """Of each match, the range of `rows` that lies inside its forbidden interval."""
        first, last = matches[:, 0], matches[:, -1]
        group = self.group[last]
        if self.component.after is None:
            begin = np.searchsorted(self.times, self.time[last] - self.within, side="right")
        else:
            begin = self.moment[matches[:, self.place[self.component.after]]] + 1
        if self.component.before is None:
            end = np.searchsorted(self.times, self.time[first] + self.within, side="left")
        else:
            end = self.moment[matches[:, self.place[self.component.before]]]
        low, high = np.searchsorted(self.at, group + begin), np.searchsorted(self.at, group + end)
        return low, np.maximum(low, high)

    def events(self, begin: Ints, end: Ints) -> Rows:
        length = end - begin
        offsets = np.concatenate([[0], np.cumsum(length)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], length)
        return Rows(self.rows[np.repeat(begin, length) + within], offsets, collected=True)


def named_at(table: pa.Table, watermark: int, beside: Mapping[bytes, bytes] | None = None) -> pa.Table:
    """A state, which knows at which watermark it was left, and what is kept beside its events."""
    return table.replace_schema_metadata({_CALLED_AT: str(watermark).encode(), **(beside or {})})


def called_at(state: pa.Table, otherwise: int) -> int:
    """The watermark at which a bucket left this state."""
    return int((state.schema.metadata or {}).get(_CALLED_AT, otherwise))


def _kept(state: pa.Table) -> list[pa.Table]:
    """What counts, aggregate by aggregate."""
    metadata = state.schema.metadata or {}
    numbers = sorted(int(name[len(_DECIDED) :]) for name in metadata if name.startswith(_DECIDED))
    return [pa.ipc.open_stream(metadata[_DECIDED + str(at).encode()]).read_all() for at in numbers]


def stored(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    value: bytes = sink.getvalue().to_pybytes()
    return value


def by_group(codes: Ints, time: Ints, order: Sequence[Ints], jit: bool) -> Ints:
    """Row numbers in the order of group, time and tie-breaker. Without one, groups are filled by counting."""
    return sorting(codes, time, *order) if order else by_counting(codes, time, jit)


def sorting(*keys: Ints, stable: bool = False) -> Ints:
    """Row numbers in the order of the keys. One number made of them all sorts several times as fast, if it fits."""
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    if math.prod(spans) >= FOREVER:
        return np.lexsort(keys[::-1])
    combined = np.zeros(len(keys[0]), np.int64)
    for key, low, span in zip(keys, lows, spans, strict=True):
        combined = combined * span + (key - low)
    return np.argsort(combined, kind="stable" if stable else None)


def _attached(outside: tuple[Outside, ...]) -> Iterator[Any]:
    for component in outside:
        yield from component.columns
