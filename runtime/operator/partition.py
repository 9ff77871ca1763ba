"""A Spark partition on its way through the kernel.

A partition is cut into chunks that fit in memory, and a chunk ends anywhere in a group. What later matches of the open
group can still need is carried into the next chunk, so memory is bounded by the window (by the group, where there is
none) and every match is found in exactly one chunk: the one in which its last event is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.sequences import Events, Ints
from sase.runtime.operator.matcher import Matcher, Task
from sase.runtime.pattern import match_column

_CHUNK_BYTES = 128 << 20


def run(
    task: Task, batches: Iterator[pa.RecordBatch], counted: Callable[[list[int]], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """The matches of a partition. A chunk is at least as long as what it carries along, so all work stays linear."""
    partition = Partition(task)
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
    """See `ssc.structs`."""
    fields = [
        (match_column(variable, field.name), values)
        for variable, struct in zip(matches.schema.names, matches.columns, strict=True)
        for field, values in zip(struct.type, struct.flatten(), strict=True)
    ]
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
        if self.trailing and not final:
            events = events._replace(stop=self._undecided(events.time, int(events.groups[-2])))
        self._enforce_limit(chunk, events)
        yield from self.found(chunk, events)
        if not final:
            self._carry(chunk, events)

    def _enforce_limit(self, chunk: pa.Table, events: Events) -> None:
        """Fails where the window of a key holds more events than it may: as many must fit in memory."""
        limit, query = self.task.limit, self.encoding.query
        if limit is None or chunk.num_rows <= limit:
            return
        group = np.repeat(np.arange(len(events.groups) - 1), np.diff(events.groups))
        crowded = group[limit:] == group[:-limit]
        if query.prune:
            apart = events.time[limit:] - events.time[:-limit]  # negative if it does not fit int64
            crowded &= (apart >= 0) & (apart < query.within)
        if crowded.any():
            where, remedy = ("lie in one window", "shorten") if query.prune else ("are kept without a window", "add")
            events_of_key = f"{limit:,} event{'s' * (limit > 1)}{self.of_key(chunk, int(crowded.argmax()))}"
            raise SaseRunError(
                f"more than {events_of_key} {where}: raise --max-window-events-per-key, {remedy} WITHIN, or keep such "
                "events out with a condition of their own"
            )

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
