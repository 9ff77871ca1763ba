"""How many rows Spark hands to Python at a time.

Spark can bound an Arrow batch by its bytes, but then it measures the batch after every row, column by column, which
takes longer than all else that it does to the row. So batches are bounded by rows, and where events may be wide, the
first of them tell by how many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, BinaryType, StringType

from sase.runtime.events import Events, Source, check, quoted
from sase.runtime.io.files import Files
from sase.runtime.io.formats import Input
from sase.runtime.session import BATCH_ROWS

BYTES = 64 << 20
"""About what a batch may hold."""

SMALL = 64 << 20
"""Files that are no larger than this, all together, are not looked into."""

_LOOK = 1000


@contextmanager
def bounded(spark: SparkSession, tables: Events, source: Source, inputs: Iterable[Input]) -> Iterator[None]:
    """For the time of a run, batches have no more rows than fit in `BYTES`, if none is wider than the first events."""
    before = str(spark.conf.get(BATCH_ROWS))
    if not _small(Files(spark), inputs):
        spark.conf.set(BATCH_ROWS, max(1, min(int(before), BYTES // max(1, _widest(check(tables, source), source)))))
    try:
        yield
    finally:
        spark.conf.set(BATCH_ROWS, before)


def _may_be_wide(kind: object) -> bool:
    return isinstance(kind, StringType | BinaryType) or not isinstance(kind, AtomicType)


def _small(files: Files, inputs: Iterable[Input]) -> bool:
    sizes = [files.size(path) if each.paths else None for each in inputs for path in each.paths or [each.location]]
    return None not in sizes and sum(filter(None, sizes)) <= SMALL


def _widest(events: DataFrame, source: Source) -> int:
    """The bytes of the widest of the first events, but for numbers. What is nested is taken for as wide as its text."""
    columns = [field.name for field in events.schema if field.name != source.type and _may_be_wide(field.dataType)]
    if not columns:
        return 0
    widths = [f"coalesce(octet_length(CAST({quoted(name)} AS STRING)), 0)" for name in columns]
    found = events.limit(_LOOK).select(F.expr(" + ".join(widths)).alias("bytes")).agg(F.max("bytes")).collect()
    return int(found[0][0] or 0)
