"""A bucket between Spark and the kernel: cells of Arrow in, cells of Arrow out, a state and a timer kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa

from sase.runtime.errors import SaseRunError
from sase.runtime.operator.cells import CELL_BYTES, cut, opened
from sase.runtime.pattern import Totals
from sase.runtime.stream.bucket import Bucket, Step, StreamTask, called_at, named_at
from sase.runtime.stream.group_bucket import GroupBucket, GroupTask
from sase.runtime.stream.horizon import FOREVER
from sase.runtime.stream.row_bucket import Gate, GateTask, RowBucket, RowStreamTask
from sase.runtime.stream.totals import TotalsBucket

EPOCH = 1 << 52
"""Spark's watermark is a time in milliseconds that never falls below 0. A tick of an integer time is a millisecond, and
tick 0 is this one, so that negative ones are possible."""

_NAME = b"sase"

BucketTask = StreamTask | RowStreamTask | GateTask | GroupTask


class BucketWorker:
    """One for each task of Spark. `fingerprint` names what the state is made of.

    Spark's watermark moves behind a micro-batch. With a `delay`, in milliseconds, it is known to which time: each task
    that has sent events has told it. What is decided then is decided at once, and need not be remembered until the next
    micro-batch.
    """

    def __init__(self, task: BucketTask, fingerprint: str, time_kind: str, delay: int | None = None) -> None:
        self.bucket: Bucket | RowBucket | Gate | GroupBucket
        self.shown: tuple[str, ...] = ()
        self.behind = 0
        match task:
            case GroupTask():
                self.bucket = GroupBucket(task)
            case RowStreamTask():
                self.bucket, self.behind, self.shown = RowBucket(task), task.behind, task.late
            case GateTask():
                self.bucket, self.shown = Gate(task), task.late
            case StreamTask():
                self.bucket = TotalsBucket(task) if isinstance(task.pattern, Totals) else Bucket(task)
                self.behind, self.shown = task.behind, task.shown
        self.fingerprint = fingerprint
        self.time_kind = time_kind
        self.delay = delay

    def step(
        self, handle: Any, events: Any, timer: Any, bucket: int, frames: Iterable[pd.DataFrame], watermark: int,
        expired: bool,
    ) -> Iterator[pd.DataFrame]:  # fmt: skip
        """One call of the stateful operator, with new rows or because the timer has expired: yields PACKED rows.

        There are events if there is a timer, and only it is asked: Spark reads a state to tell whether it exists.
        """
        cells, passed, clocks = [], [], []
        for frame in frames:
            for kind, size, rows in zip(frame["kind"], frame["size"], frame["rows"], strict=True):
                if kind == "events":
                    cells.append(opened(rows))
                elif kind == "clock":
                    clocks.append(int(size))
                else:
                    passed.append((kind, size, rows))
        arrived = pa.concat_tables(cells) if cells else None
        before = timer.get()[0] if timer.exists() else None
        kept = None if before is None else self._restored(events.get()[0], arrived)
        now = watermark * 1000 if self.time_kind == "timestamp" else watermark - EPOCH
        if self.delay is None:
            step = self.bucket.advance(kept, arrived, now - self.behind)
        else:
            step = self._ahead(kept, arrived, now, clocks)

        for kind, size, rows in passed:
            yield _row(bucket, kind, size, rows)
        if self.shown and step.late is not None and step.late.num_rows:
            yield _rows(bucket, "rejected", self._late(step.late))
        for batch in step.matches:
            yield _rows(bucket, "match", pa.Table.from_batches([batch]))
        wake = None if step.wake is None else self._moment(step.wake + self.behind)
        if step.state is not None:
            events.update((cell(step.state, self.fingerprint),))
        elif before is not None:
            events.clear()
        if wake != before:
            if before is not None and not expired:  # else Spark would call again in this micro-batch
                handle.deleteTimer(before)
            if wake is None:
                timer.clear()
            else:
                timer.update((wake,))
                handle.registerTimer(wake)
        if not isinstance(self.bucket, GroupBucket):  # whose state is of no events
            yield _row(bucket, "state", 0 if step.state is None else step.state.num_rows, None)

    def _ahead(self, kept: pa.Table | None, arrived: pa.Table | None, now: int, clocks: list[int]) -> Step:
        """As the watermark is behind this micro-batch. Where other streams hold Spark's back, this is ahead of it: so
        the state says where it is, if it has nothing else to say."""
        assert isinstance(self.bucket, Bucket) and self.delay is not None
        seen = now if kept is None else max(now, called_at(kept, now))
        latest = max(clocks, default=seen)
        unit = 1000 if self.time_kind == "timestamp" else 1  # ticks of a millisecond, in which Spark counts
        then = max((latest // unit - self.delay) * unit, seen)
        step = self.bucket.advance(kept if kept is not None and kept.num_columns else None, arrived, then, seen)
        return replace(step, state=named_at(pa.table({}), then), wake=FOREVER) if step.state is None else step

    def _restored(self, remembered: bytes, arrived: pa.Table | None) -> pa.Table:
        table = opened(remembered)
        known = (table.schema.metadata or {}).get(_NAME, b"").decode()
        if known != self.fingerprint:
            raise SaseRunError(
                "the checkpoint holds the state of another query (or of another number of buckets): start with a new "
                f"--checkpoint, or go back to the query that it belongs to [{known} is not {self.fingerprint}]"
            )
        if arrived is not None:
            # Only what the session decides can differ: its time zone, and how long strings may be.
            metadata = table.schema.metadata
            fields = [arrived.schema.field(name) if name in arrived.column_names else table.schema.field(name)
                      for name in table.column_names]  # fmt: skip
            table = table.cast(pa.schema(fields)).replace_schema_metadata(metadata)
        return table

    def _late(self, late: pa.Table) -> pa.Table:
        late = late.combine_chunks()
        arrays = [column.chunk(0) for column in late.columns]
        event = pa.StructArray.from_arrays(arrays, names=list(self.shown))
        reason, record = pa.array(["late"] * len(event)), pa.nulls(len(event), pa.string())
        return pa.table([reason, record, event], ["reason", "record", "event"])

    def _moment(self, wake: int) -> int:
        return -(-wake // 1000) if self.time_kind == "timestamp" else wake + EPOCH


def cell(table: pa.Table, name: str | None = None) -> bytes:
    """A table as one binary value. A state is compressed and says by its name what it is made of."""
    options = None
    if name is not None:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _NAME: name})
        options = pa.ipc.IpcWriteOptions(compression="lz4")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    value: bytes = sink.getvalue().to_pybytes()
    return value


def _rows(bucket: int, kind: str, table: pa.Table) -> pd.DataFrame:
    """A table in cells of a bounded size."""
    parts = list(cut(table, CELL_BYTES))
    sizes, cells = [part.num_rows for part in parts], [cell(part) for part in parts]
    return pd.DataFrame({"bucket": bucket, "kind": kind, "size": sizes, "rows": cells})


def _row(bucket: int, kind: str, size: int, rows: bytes | None) -> pd.DataFrame:
    return pd.DataFrame({"bucket": [bucket], "kind": [kind], "size": [size], "rows": [rows]})
