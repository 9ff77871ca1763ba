"""How many rows Spark hands to Python at a time.

Spark can bound an Arrow batch by its bytes, but then it measures the batch after every row, column by column: 3 million
rows of numbers took 2.0 seconds of Java's time in place of 0.6, and with two short strings beside them 2.9 in place of
1.3. So it does so where the types of the columns that are read say that a row may be a document: binary values, arrays,
maps. Elsewhere batches are bounded by rows, and where strings may be long, the first events tell by how many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, BinaryType, DataType, StringType, StructType

from sase.runtime.events import Events, Source, check, quoted
from sase.runtime.io.files import Files
from sase.runtime.io.formats import Input
from sase.runtime.session import BATCH_BYTES, BATCH_ROWS, BATCHES

BYTES = 64 << 20
"""About what a batch may hold."""

SMALL = 64 << 20
"""Files that are no larger than this, all together, are not looked into."""

_LOOK = 1000


@contextmanager
def bounded(spark: SparkSession, tables: Events, source: Source, inputs: Iterable[Input]) -> Iterator[None]:
    """For the time of a run, batches are no larger than `BYTES`: as Spark measures them or, if none is wider than the
    first events, by their rows."""
    before = {name: str(spark.conf.get(name)) for name in (BATCH_ROWS, BATCH_BYTES)}
    rows, events = int(before[BATCH_ROWS]), check(tables, source)
    if not measure_documents(events, source) and not _small(Files(spark), inputs):
        spark.conf.set(BATCH_ROWS, max(1, min(rows, BYTES // max(1, _widest(events, source)))))
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def measure_documents(events: DataFrame, source: Source | None = None) -> bool:
    """Lets Spark measure the batches of a session from now on, unless somebody has set a limit, if the columns that are
    read (by the `source`, or all) may hold documents; and says whether they may."""
    spark = events.sparkSession
    read = None if source is None else {name for columns in source.types.values() for name in columns}
    kinds = [field.dataType for field in events.schema if read is None or field.name in read]
    found = any(map(_may_be_document, kinds))
    if found and spark.conf.get(BATCH_BYTES, None) == BATCHES[BATCH_BYTES]:
        spark.conf.set(BATCH_BYTES, str(BYTES))
    return found


def _may_be_document(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_may_be_document(field.dataType) for field in kind)
    return isinstance(kind, BinaryType) or not isinstance(kind, AtomicType)


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
