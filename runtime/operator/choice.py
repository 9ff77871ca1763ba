"""What is chosen among candidates when Spark has decided which of them are matches: each match once, `first` and
`last`, and what is used up. See `selection`, which does the same inside a chunk where the kernel has the last word.

Spark's filters leave the candidates of a partition where they are, and in their order.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    """Of the rows of a partition, those that are reported; column number `at` has the candidates."""
    selection = Selection(pattern, np.zeros(0, np.bool))
    positives = len(pattern.positive)
    waiting: pa.Table | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        table = pa.Table.from_batches([batch])
        if waiting is not None:
            table = pa.concat_tables([waiting, table])
        found = _opened(table.column(at), positives)
        _room(selection, found)
        kept, still = selection.decided(found, ended=False)
        yield from _taken(table, kept)
        waiting = table.take(pa.array(still))
    if waiting is not None and waiting.num_rows:
        kept, _ = selection.decided(_opened(waiting.column(at), positives), ended=True)
        yield from _taken(waiting, kept)


def _opened(column: pa.ChunkedArray, positives: int) -> Candidates:
    branches, events, places = column.combine_chunks().flatten()
    return Candidates(
        events.flatten().to_numpy().reshape(-1, positives),
        places.flatten().to_numpy().reshape(-1, positives),
        branches.to_numpy(),
    )


def _room(selection: Selection, found: Candidates) -> None:
    """A mark for every event that has been seen."""
    missing = int(found.events.max()) + 1 - len(selection.used)
    if selection.exclusive and missing > 0:
        more = np.zeros(max(missing, len(selection.used)), np.bool)
        selection.used = np.concatenate([selection.used, more])


def _taken(table: pa.Table, rows: Ints) -> Iterator[pa.RecordBatch]:
    if len(rows):
        yield from table.take(pa.array(rows)).to_batches()
