"""What is chosen among candidates when Spark has decided which of them are matches: each match once, `first` and
`last`, and what is used up. See `selection`, which does the same inside a chunk where the kernel has the last word.

Spark's filters leave the candidates of a partition where they are, and in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from sase.runtime.kernels.sequences import Ints
from sase.runtime.operator.selection import Candidates, Selection
from sase.runtime.pattern import Combination


def candidate_column(found: Candidates, base: int) -> pa.Array:
    """What a match is as a candidate. Events and places are known by numbers that rise through a partition, of which
    `base` were before its chunk."""
    size, positives = found.events.shape
    offsets = pa.array(np.arange(size + 1) * positives, pa.int32())

    def numbers(rows: Ints) -> pa.Array:
        return pa.ListArray.from_arrays(offsets, pa.array(np.where(rows >= 0, rows + base, -1).ravel()))

    parts = [pa.array(found.branches.astype(np.int32)), numbers(found.events), numbers(found.places)]
    return pa.StructArray.from_arrays(parts, names=["branch", "events", "places"])


def choose(pattern: Combination, at: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of the rows of a partition, those that are reported; column number `at` has the candidates. A row without one is
    no match, and passes by."""
    selection = Selection.of(pattern, np.zeros(0, np.bool))
    positives = len(pattern.positive)
    waiting: pa.Table | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        if (column := batch.column(at)).null_count:
            yield batch.filter(column.is_null())
            batch = batch.filter(column.is_valid())
            if not batch.num_rows:
                continue
        table = pa.Table.from_batches([batch])
        if waiting is not None:
            table = pa.concat_tables([waiting, table])
        found = _opened(table.column(at), positives)
        room(selection, found)
        kept, still = selection.decided(found, ended=False)
        yield from rows_of(table, kept)
        waiting = table.take(pa.array(still))
    if waiting is not None and waiting.num_rows:
        kept, _ = selection.decided(_opened(waiting.column(at), positives), ended=True)
        yield from rows_of(waiting, kept)


def choose_runs(
    numbers: int, modes: Sequence[tuple[int, str]], exclusive: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Of matches that come in the order of their first events, those that are reported. Column `numbers` has the
    numbers of all events of a match, in order, and each of `modes` is about a column with the number of one."""
    selection = Selection([(at, mode) for at, (_, mode) in enumerate(modes)], exclusive, False, np.zeros(0, np.bool))
    waiting: pa.Table | None = None
    for batch in chain(batches, (None,)):
        if batch is not None and batch.num_rows:
            table = pa.Table.from_batches([batch])
            waiting = table if waiting is None else pa.concat_tables([waiting, table])
        if waiting is None or not waiting.num_rows:
            continue
        found = of_runs(waiting, numbers, [column for column, _ in modes])
        last = found.places.max(axis=1)
        # No match is to come that ends before the first event of the latest one.
        decided = last < found.events[-1, len(modes)] if batch is not None else np.ones(len(last), np.bool)
        order = np.flatnonzero(decided)[np.argsort(last[decided], kind="stable")]
        if len(order):
            some = Candidates(found.events[order], found.places[order], found.branches[order])
            room(selection, some)
            kept, _ = selection.decided(some, ended=True)
            yield from rows_of(waiting, order[kept])
            waiting = waiting.filter(pa.array(~decided))


_IN_PARTITION = (1 << 33) - 1
"""What `monotonically_increasing_id` has of a number within its partition."""


def of_runs(table: pa.Table, numbers: int, modes: Sequence[int]) -> Candidates:
    """A row of events for each match: those of the modes, then all of them; -1 fills up."""
    lists = table.column(numbers).combine_chunks()
    length = lists.value_lengths().to_numpy().astype(np.int64)
    events = np.full((len(length), len(modes) + int(length.max())), -1)
    for at, column in enumerate(modes):
        events[:, at] = table.column(column).to_numpy() & _IN_PARTITION
    row = np.repeat(np.arange(len(length)), length)
    within = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
    events[row, len(modes) + within] = lists.flatten().to_numpy() & _IN_PARTITION
    return Candidates(events, events, np.zeros(len(length), np.int64))


def _opened(column: pa.ChunkedArray, positives: int) -> Candidates:
    branches, events, places = column.combine_chunks().flatten()
    return Candidates(
        events.flatten().to_numpy().reshape(-1, positives),
        places.flatten().to_numpy().reshape(-1, positives),
        branches.to_numpy(),
    )


def room(selection: Selection, found: Candidates) -> None:
    """A mark for every event that has been seen."""
    missing = int(found.events.max()) + 1 - len(selection.used)
    if selection.exclusive and missing > 0:
        more = np.zeros(max(missing, len(selection.used)), np.bool)
        selection.used = np.concatenate([selection.used, more])


def rows_of(table: pa.Table, rows: Ints) -> Iterator[pa.RecordBatch]:
    if len(rows):
        yield from table.take(pa.array(rows)).to_batches()
