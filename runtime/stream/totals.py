"""Totals on a stream: what all matches of a key come to so far.

A match counts when its last event is released. Its events are those of one window, so a bucket remembers these, and
beside them the totals of each key that has a match, for ever: running totals have no end at which they could be
forgotten. What a micro-batch changes is told, a row for each key.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sase.runtime.kernels.encode import group_codes, ranks
from sase.runtime.kernels.products import BITS, BY
from sase.runtime.kernels.sequences import Ints
from sase.runtime.operator.matcher import int64s
from sase.runtime.operator.totals import Added, OfTotals, brought_together
from sase.runtime.pattern import Totals
from sase.runtime.stream.bucket import Bucket, Step, StreamTask, by_group, called_at, named_at, stored
from sase.runtime.stream.horizon import FOREVER, TIMELY, Marks

_TOTALS = b"totals"
_BEGINNING = -(2**63)


class TotalsBucket(Bucket):
    def __init__(self, task: StreamTask) -> None:
        super().__init__(task)
        assert isinstance(task.pattern, Totals) and isinstance(self.construction, OfTotals)
        self.pattern = task.pattern
        self.within = min(task.pattern.within or FOREVER, FOREVER)
        machine = self.construction.machine
        moving = [1 << int(by) for by in machine.steps[:, BY]] + [int(bits) for bits in machine.kills[:, BITS]]
        self.moving = int(np.bitwise_or.reduce(moving)) if moving else 0
        """The state bits of events that later ones look back to: others are of no use once they are released."""

    def advance(
        self, state: pa.Table | None, arrived: pa.Table | None, watermark: int, seen: int | None = None
    ) -> Step:
        late, arrived = self._timely(arrived, watermark if seen is None else seen)
        tables = [table.select(self.columns) for table in (state, arrived) if table is not None]
        if not tables:
            return Step(late, iter(()), None, None)
        table = pa.concat_tables([each.replace_schema_metadata() for each in tables]).combine_chunks()
        time, states = int64s(table, self.task.time), int64s(table, self.task.states) & ~TIMELY
        if self.task.limit is not None and table.num_rows:
            self._enforce_limit(table, self.task.limit)
        since = _BEGINNING if state is None else called_at(state, watermark)
        due = (time >= since) & (time < watermark)
        totals = _of(state)
        matches: Iterator[pa.RecordBatch] = iter(())
        if due.any():
            totals, matches = self._added(totals, self._sorted(table, time, states, due, watermark), since)
        keep = (time >= watermark) | ((time > watermark - self.within) & (states & self.moving != 0))
        wakes = [FOREVER] if totals is not None else []
        wakes += [int(time[time >= watermark].min()) + 1] if (time >= watermark).any() else []
        wakes += [int(time[keep].max()) + self.within] if keep.any() else []
        if not wakes:
            return Step(late, matches, None, None)
        table = table.set_column(table.schema.get_field_index(self.task.states), self.task.states, pa.array(states))
        beside = {} if totals is None else {_TOTALS: stored(totals)}
        return Step(late, matches, named_at(table.filter(keep), watermark, beside), min(wakes))

    def _sorted(self, table: pa.Table, time: Ints, states: Ints, due: Marks, watermark: int) -> pa.Table:
        """The released events of the keys that have a due one, in order."""
        codes = group_codes([table.column(name) for name in self.task.by], table.num_rows)
        concerned = np.zeros(int(codes.max()) + 1, np.bool)
        concerned[codes[due]] = True
        part = np.flatnonzero((time < watermark) & concerned[codes])
        order = [] if self.task.order is None else ranks(table.column(self.task.order).take(pa.array(part)))
        part = part[by_group(codes[part], time[part], order, self.task.jit)]
        place = table.schema.get_field_index(self.task.states)
        return table.set_column(place, self.task.states, pa.array(states)).take(pa.array(part))

    def _added(
        self, totals: pa.Table | None, chunk: pa.Table, since: int
    ) -> tuple[pa.Table | None, Iterator[pa.RecordBatch]]:
        """The totals with what new matches add to them, and the rows that they change."""
        found = self.construction.found(self.events(chunk)._replace(since=since), self.task.jit)
        assert isinstance(found, Added)
        added = pa.Table.from_batches([found.batch(self, chunk)])
        if not added.num_rows:
            return totals, iter(())
        known = 0 if totals is None else totals.num_rows
        parts = added if totals is None else pa.concat_tables([totals, added.cast(totals.schema)])
        together, place = brought_together(self.pattern, parts)
        told = np.setdiff1d(place[known:], place[:known]) if self.stream.once else np.unique(place[known:])
        return together, iter(together.take(pa.array(told)).combine_chunks().to_batches())


def _of(state: pa.Table | None) -> pa.Table | None:
    kept = None if state is None else (state.schema.metadata or {}).get(_TOTALS)
    return None if kept is None else pa.ipc.open_stream(kept).read_all()
