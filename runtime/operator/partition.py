"""A Spark partition on its way through the kernel.

A partition is cut into chunks that fit in memory, and a chunk ends anywhere in a group. What later matches of the open
group can still need is carried into the next chunk, so memory is bounded by the window (by the group, where there is
none) and every match is found in exactly one chunk: the one in which its last event is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.sequences import Events, Ints
from sase.runtime.operator.arrivals import told
from sase.runtime.operator.matcher import Matcher, Task, with_used
from sase.runtime.operator.memory import keep_memory
from sase.runtime.operator.reading import present
from sase.runtime.operator.sorting import in_order
from sase.runtime.pattern import Combination, Furthest, Totals, match_column, variable_column

_CHUNK_BYTES = 128 << 20


def run(
    task: Task, batches: Iterator[pa.RecordBatch], counted: Callable[[list[int]], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """The matches of a partition. A chunk is at least as long as what it carries along, so all work stays linear."""
    keep_memory()
    partition = _partition(task)
    whole = _whole(task)
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    if task.names:
        batches = (batch.rename_columns(task.names) for batch in batches)
    batches = present(task, partition.columns, batches)
    if task.arriving is not None:
        batches = told(task, task.arriving, batches)
    if task.code is not None:
        wanted = list(dict.fromkeys((*partition.columns, task.code)))
        batches = in_order((batch.select(wanted) for batch in batches), task)
    for batch in batches:
        batch = batch.select(partition.columns)
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if (rows >= task.chunk_rows or size >= _CHUNK_BYTES) and rows >= partition.carried_rows:
            yield from (_flat(each, whole) for each in partition.matches(waiting, final=False))
            waiting.clear()
            rows = size = 0
    yield from (_flat(each, whole) for each in partition.matches(waiting, final=True))
    if counted is not None:
        counted(partition.construction.counters.tolist())


def _partition(task: Task) -> Partition:
    if isinstance(task.pattern, Totals):
        from sase.runtime.operator.totals import Adding

        return Adding(task)
    return Partition(task)


def _whole(task: Task) -> dict[str, str]:
    """The columns of a match that stay as they are, and the names that they go by: see `ssc.match_schema`."""
    ticks = {name: name for name in (task.started, task.detected, task.candidates) if name is not None}
    match task.pattern:
        case Totals(shown=shown, totals=totals):
            return {name: name for name in (*shown, *(total.name for total in totals))}
        case Combination(optional=optional, collected=collected, bindings=bindings):
            ticks |= {name: name for name in bindings}
            return ticks | {name: variable_column(name) for name in (*optional, *collected)}
        case Furthest(optional=optional):
            return ticks | {name: variable_column(name) for name in optional}
        case _:
            return ticks


def _flat(matches: pa.RecordBatch, whole: Mapping[str, str]) -> pa.RecordBatch:
    """See `ssc.structs`."""
    fields: list[tuple[str, pa.Array]] = []
    for variable, values in zip(matches.schema.names, matches.columns, strict=True):
        if variable in whole:
            fields.append((whole[variable], values))
        else:
            names = [match_column(variable, field.name) for field in values.type]
            fields += zip(names, values.flatten(), strict=True)
    return pa.RecordBatch.from_arrays([values for _, values in fields], names=[name for name, _ in fields])


class Partition(Matcher):
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
        if not final:
            events = events._replace(stop=self._undecided(events.time, int(events.groups[-2])))
        self._enforce_limit(chunk, events)
        found = self.construction.found(events, self.task.jit)
        yield from self.found(chunk, found)
        if not final:
            self._carry(with_used(chunk, self.task.states, events, found), events)

    def _enforce_limit(self, chunk: pa.Table, events: Events) -> None:
        """Fails where the window of a key holds more events than it may: as many must fit in memory."""
        limit, back = self.task.limit, self.construction.back
        if limit is None or chunk.num_rows <= limit:
            return
        group = np.repeat(np.arange(len(events.groups) - 1), np.diff(events.groups))
        crowded = group[limit:] == group[:-limit]
        if back is not None:
            apart = events.time[limit:] - events.time[:-limit]  # negative if it does not fit int64
            crowded &= (apart >= 0) & (apart < back)
        if crowded.any():
            known = back is not None
            where, remedy = ("lie in one window", "shorten") if known else ("are kept without a window", "add")
            events_of_key = f"{limit:,} event{'s' * (limit > 1)}{self.of_key(chunk, int(crowded.argmax()))}"
            raise SaseRunError(
                f"more than {events_of_key} {where}: raise --max-window-events-per-key, {remedy} WITHIN, or keep such "
                "events out with a condition of their own"
            )

    def _undecided(self, time: Ints, group: int) -> int:
        """The first row of the open group with which a match may end that rows to come can still forbid, or add to."""
        match self.construction.ahead:
            case 0:
                return len(time)
            case None:
                return group
            case ahead:
                return _first_after(time, group, int(time[-1]) - ahead)

    def _carry(self, chunk: pa.Table, events: Events) -> None:
        """Keep what matches that end at `events.stop`, or at a row to come, can reach."""
        back, time, keep = self.construction.back, events.time, int(events.groups[-2])
        if back is not None:
            keep = _first_after(time, keep, int(time[min(events.stop, len(time) - 1)]) - back)
        self.carried = chunk.slice(keep).to_batches()
        self.carried_rows = chunk.num_rows - keep
        self.base += keep
        self.fresh = events.stop - keep


def _first_after(time: Ints, begin: int, moment: int) -> int:
    """The first row from `begin` on that is later than `moment`, which may be below int64."""
    if moment < np.iinfo(np.int64).min:
        return begin
    return begin + int(np.searchsorted(time[begin:], moment, side="right"))
