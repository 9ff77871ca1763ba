"""Rows in any order in, rows by key and time, or by whatever else orders them, out: what stands before a partition that
Spark has not sorted.

Rows are sorted by a *code* of their key, which is the key itself where that is one integer, and else its hash. Spark's
sort compares rows by all columns of the key, and takes longer than all else that is done to an event.

Memory is bounded, however large the partition and however many of its events one key has: what exceeds the budget goes
to the local disk as sorted runs, and these are merged a piece at a time.

Two keys may have one code. Their rows then come mixed, in the order of time, and are told apart by the keys themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sase.runtime.kernels.encode import changes, moments, sort_ranks
from sase.runtime.kernels.sequences import Ints
from sase.runtime.kernels.sort import SortKey, sorting
from sase.runtime.operator.construction import taken

BUDGET = 384 << 20
"""Bytes that sorting a part of a partition may take. Adaptive execution makes partitions of 64 MB as they are in files,
which take less."""

_ROW = 56
"""Bytes that sorting takes for a row: its time, its place, moment and code in a bucket, and these three once more where
all are in one bucket, and spread again."""

_MISSING = 0
"""The code of a key that is NULL: any number will do, and one that is not far from others is sorted soonest."""


class Task(Protocol):
    """`code` is the column of codes of the columns `by`; of one that is sorted already, there is none. The first of
    `keys` is a time or a number, and the others tell apart what is simultaneous."""

    @property
    def by(self) -> tuple[str, ...]: ...
    @property
    def code(self) -> str | None: ...
    @property
    def keys(self) -> tuple[SortKey, ...]: ...
    @property
    def chunk_rows(self) -> int: ...
    @property
    def jit(self) -> bool: ...


def in_order(batches: Iterable[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """The rows, sorted by key, and those of a key by `task.keys`; `task.code` is the column of codes."""
    assert task.code is not None
    return _Sorter(task, task.code, BUDGET).sorted(batches)


class _Sorter:
    def __init__(self, task: Task, code: str, budget: int) -> None:
        self.task, self.code, self.budget = task, code, budget
        self.exact = task.by in ((code,), ())
        """Different keys have different codes."""

    def sorted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Python's workers find Spark's own local folders there; without any, it is the system's.
        local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        with TemporaryDirectory(prefix="sase-sort-", dir=local if os.path.isdir(local) else None) as folder:
            runs: list[_Run] = []
            waiting: list[pa.RecordBatch] = []
            size = 0
            for batch in batches:
                waiting.append(batch)
                size += _weight(batch)
                self.exact = self.exact and not batch.column(self.code).null_count
                if size >= self.budget:
                    runs.append(_Run(self, Path(folder) / str(len(runs)), waiting))
                    waiting, size = [], 0
            if runs and waiting:
                runs.append(_Run(self, Path(folder) / str(len(runs)), waiting))
                waiting = []
            rows = self.merged(runs) if runs else self.chunks(waiting, self.task.chunk_rows)
            yield from rows if self.exact else _Apart(self).rows(rows)

    def chunks(self, batches: list[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
        """The rows, sorted. The batches are given up: there would be two of each row else."""
        if not any(batch.num_rows for batch in batches):
            return
        rows = _combined(batches)
        order = self.order(rows)
        if order is None:
            yield from (
                batch for start in range(0, rows.num_rows, most) for batch in rows.slice(start, most).to_batches()
            )
            return
        columns = [column.chunk(0) if column.num_chunks == 1 else column for column in rows.columns]
        for start in range(0, len(order), most):
            part = order[start : start + most]
            yield pa.RecordBatch.from_arrays([taken(column, part) for column in columns], schema=rows.schema)

    def order(self, rows: pa.Table) -> Ints | None:
        """None where that is the order in which they come, as events in the order of time do that go by it alone."""
        task = self.task
        code, time = self.codes(rows), self.times(rows)
        # NULL has the number of a value, which may be there, too.
        others = task.keys if rows.column(task.keys[0].column).null_count else task.keys[1:]
        if not others and code[0] == code[-1] and (time[1:] >= time[:-1]).all() and (code == code[0]).all():
            return None
        order = sorting(code, time, task.jit)
        if not others:
            return order
        code, time = code[order], time[order]
        again = (code[1:] == code[:-1]) & (time[1:] == time[:-1])
        if again.any():  # only what is simultaneous is asked for its tie-breaker
            tied = np.flatnonzero(np.append(again, False) | np.append(False, again))
            moment = np.append(0, np.cumsum(~again))[tied]
            columns = [rows.column(key.column).take(pa.array(order[tied])) for key in others]
            rank = [
                rank for key, column in zip(others, columns, strict=True) for rank in sort_ranks(column, *_asked(key))
            ]
            order[tied] = order[tied][np.lexsort((*reversed(rank), moment))]
        return order

    def codes(self, rows: pa.Table) -> Ints:
        column = rows.column(self.code).cast(pa.int64())
        codes: Ints = (column.fill_null(_MISSING) if column.null_count else column).to_numpy()
        return codes

    def times(self, rows: pa.Table) -> Ints:
        key = self.task.keys[0]
        return moments(rows.column(key.column), *_asked(key))

    # ---- more than the budget -------------------------------------------------------------------

    def merged(self, runs: Sequence[_Run]) -> Iterator[pa.RecordBatch]:
        """All runs as one: again and again, what is before the end of what has been read of every run."""
        share = max(1, self.budget // (2 * len(runs)))
        while True:
            for run in runs:
                run.read(share)
            ends = [run.end for run in runs if not run.exhausted]
            cut = min(ends, default=None)
            ready = [batch for run in runs for batch in run.before(cut)]
            if ready:
                yield from self.chunks(ready, self.task.chunk_rows)
            elif cut is None:
                return
            else:  # nothing but one moment of one key
                for run in runs:
                    if not run.exhausted and run.end == cut:
                        run.read(2 * _weight(run.rows) + 1)


def _weight(rows: pa.RecordBatch | pa.Table) -> int:
    """Bytes that it takes to sort rows: all come together first, so for a while there are two of each."""
    return 2 * int(rows.nbytes) + _ROW * int(rows.num_rows)


def _combined(batches: list[pa.RecordBatch]) -> pa.Table:
    """All of them as one, which are given up a column at a time."""
    schema = batches[0].schema
    parts = [pa.chunked_array([batch.column(at) for batch in batches]) for at in range(len(schema))]
    batches.clear()
    parts.reverse()
    whole = [pa.table([parts.pop()], [field.name]).combine_chunks().column(0) for field in schema]
    return pa.Table.from_arrays(whole, schema=schema)  # of 2 GB of text, an array cannot be one


def _asked(key: SortKey) -> tuple[bool, bool]:
    return key.descending, key.nulls_first


class _Run:
    """Sorted rows on the disk, some of them read ahead."""

    def __init__(self, sorter: _Sorter, path: Path, batches: list[pa.RecordBatch]) -> None:
        size, count = sum(map(_weight, batches)), sum(batch.num_rows for batch in batches)
        most = max(1, (sorter.budget >> 8) * count // max(1, size))  # of many runs, little can be read at a time
        schema = batches[0].schema
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            for batch in sorter.chunks(batches, most):
                writer.write_batch(batch)
        self.sorter = sorter
        self.path = path
        self.reader: pa.RecordBatchReader | None = None
        self.exhausted = False
        self.rows = schema.empty_table()
        self.code = self.time = np.zeros(0, np.int64)

    def read(self, size: int) -> None:
        """Reads until there is so much to sort, or no more."""
        if self.reader is None:
            self.reader = pa.ipc.open_stream(pa.OSFile(str(self.path)))
        read = [self.rows]
        have = _weight(self.rows)
        while not self.exhausted and have < size:
            try:
                read.append(pa.Table.from_batches([self.reader.read_next_batch()]))
                have += _weight(read[-1])
            except StopIteration:
                self.exhausted = True
        if len(read) > 1:
            self.keep(pa.concat_tables(read))

    def keep(self, rows: pa.Table) -> None:
        self.rows = rows
        self.code, self.time = self.sorter.codes(rows), self.sorter.times(rows)

    @property
    def end(self) -> tuple[int, int]:
        """Where the rows that are read end: code and time."""
        return int(self.code[-1]), int(self.time[-1])

    def before(self, cut: tuple[int, int] | None) -> list[pa.RecordBatch]:
        """Takes the rows before it; all, if there is no end."""
        place = len(self.code)
        if cut is not None:
            code, time = cut
            begin, end = (int(np.searchsorted(self.code, code, side)) for side in ("left", "right"))
            place = begin + int(np.searchsorted(self.time[begin:end], time))
        taken: list[pa.RecordBatch] = self.rows.slice(0, place).to_batches()
        if place:
            self.keep(self.rows.slice(place))
        return taken


class _Apart:
    """Rows by (code, time) in; rows by key and time out, where keys of one code follow each other.

    The first key of a code is handed on as it comes. The rows of others wait until the code is through.
    """

    def __init__(self, sorter: _Sorter) -> None:
        self.sorter, self.by = sorter, sorter.task.by
        self.code: int | None = None
        self.key: pa.Table | None = None
        self.others: list[pa.Table] = []

    def rows(self, chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            for table in self.apart(pa.Table.from_batches([chunk])):
                yield from table.to_batches()
        for table in self.waiting():
            yield from table.to_batches()

    def apart(self, chunk: pa.Table) -> Iterator[pa.Table]:
        code = self.sorter.codes(chunk)
        other_code = code[1:] != code[:-1]
        other_key = np.zeros(len(other_code), np.bool)
        for name in self.by:
            other_key |= changes(chunk.column(name))
        bounds = np.concatenate([[0], np.flatnonzero(other_code) + 1, [len(code)]])
        mixed = set((np.searchsorted(bounds, np.flatnonzero(other_key & ~other_code), "right") - 1).tolist())
        if self.key is not None and self.code == code[0]:
            if self.others or not self.like(chunk.slice(0, 1), self.key).all():
                mixed.add(0)
        else:
            self.key = None
        done = 0
        for segment in sorted(mixed):
            begin, end = int(bounds[segment]), int(bounds[segment + 1])
            if begin > done:
                yield from self.waiting()
                yield chunk.slice(done, begin - done)
            if begin or self.key is None:
                yield from self.waiting()
                self.key = chunk.slice(begin, 1)
            rows = chunk.slice(begin, end - begin)
            mine = self.like(rows, self.key)
            yield rows.filter(mine)
            self.others.append(rows.filter(~mine))
            done = end
        if done < len(code):
            yield from self.waiting()
            yield chunk.slice(done)
            self.key = chunk.slice(len(code) - 1)
        self.code = int(code[-1])

    def waiting(self) -> Iterator[pa.Table]:
        """The other keys of the code that is through."""
        if self.others:
            rest, self.others = pa.concat_tables(self.others), []
            while rest.num_rows:
                mine = self.like(rest, rest.slice(0, 1))
                yield rest.filter(mine)
                rest = rest.filter(~mine)

    def like(self, rows: pa.Table, key: pa.Table) -> NDArray[np.bool]:
        """Of each row: is it of this key?"""
        pairs = np.zeros(2 * rows.num_rows, np.int64)
        pairs[1::2] = np.arange(1, rows.num_rows + 1)
        both = pa.concat_tables([key, rows]).select(list(self.by)).take(pa.array(pairs))
        unlike = np.zeros(rows.num_rows, np.bool)
        for column in both.columns:
            unlike |= changes(column)[::2]
        return ~unlike
