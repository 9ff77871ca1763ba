"""Rows of a Parquet file, in batches that a worker has room for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from sase.runtime.operator.cells import fitting

MOST_ROWS = 1 << 18
MOST_BYTES = 32 << 20
"""About what a batch may hold, if its rows are wide."""
LOOK = 1 << 10
"""Rows that are read to see how wide they are. A footer knows no more than what a column takes where each text is
written down once."""


def in_batches(
    file: pq.ParquetFile, groups: Iterable[int], names: Sequence[str], words: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """The columns of these row groups. `words` are read as dictionaries, and so are narrow.

    One row group at a time: a batch of two would be copied together.
    """
    schema, rows = file.schema_arrow, MOST_ROWS
    texts = [name for name in names if name not in words and not pa.types.is_primitive(schema.field(name).type)]
    looked = not texts
    for group in groups:
        if not looked:
            looked, first = True, next(file.iter_batches(LOOK, [group], columns=texts, use_threads=False), None)
            rows = rows if first is None else min(rows, _enough(first))
        for batch in file.iter_batches(rows, [group], columns=list(names), use_threads=False):
            yield batch
            if texts:
                rows = min(rows, _enough(batch))


def _enough(batch: pa.RecordBatch) -> int:
    return max(LOOK, fitting(MOST_BYTES, batch))
