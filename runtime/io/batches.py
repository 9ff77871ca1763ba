"""How many rows Spark hands to Python at a time.

Spark can bound an Arrow batch by its bytes, but then it measures the batch after every row, column by column: 3 million
rows of numbers took 2.0 seconds of Java's time in place of 0.6, and with two short strings beside them 2.9 in place of
1.3. So the sessions that sase starts (others have Spark's own limit of bytes) bound batches by rows, and by bytes only
where the columns that are read say that a row may be wide:

- binary values, arrays, maps: always, as a row may be a document;
- strings: unless they come straight from tables, whose first events tell how many rows are enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, BinaryType, DataType, StringType, StructType

from sase.runtime.events import quoted, source_of, uncounted
from sase.runtime.io.plans import execution, nodes, size
from sase.runtime.session import BATCH_BYTES, BATCH_ROWS, BATCHES

BYTES = 64 << 20
"""About what a batch may hold."""

SMALL = 64 << 20
"""Tables that are no larger than this, all together, are not looked into."""

_LOOK = 1000

_SCAN = {"Project", "Filter", "SubqueryAlias", "View", "Union", "LogicalRelation", "LocalRelation", "Range"}
"""The nodes of a plan whose first rows are there at once."""


@contextmanager
def as_before(spark: SparkSession) -> Iterator[None]:
    """What is bound inside of it is bound for the time of a run."""
    before = {name: str(spark.conf.get(name)) for name in (BATCH_ROWS, BATCH_BYTES)}
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def bound_batches(events: DataFrame, read: Collection[str]) -> None:
    """From now on, the batches of this session hold about `BYTES` at most, if it is these columns of these events that
    it reads. A limit that somebody has set stays."""
    spark = events.sparkSession
    if not _is_unbounded(spark):
        return
    kinds = {field.name: field.dataType for field in events.schema if field.name in read}
    strings = [name for name, kind in kinds.items() if not _is_narrow(kind)]
    if any(map(_may_be_document, kinds.values())) or (strings and not _is_scan(events)):
        spark.conf.set(BATCH_BYTES, str(BYTES))
    elif strings and size(events) > SMALL:
        enough = max(1, BYTES // max(1, _widest(events, strings)))
        spark.conf.set(BATCH_ROWS, str(min(int(str(spark.conf.get(BATCH_ROWS))), enough)))


def bound_events(checked: DataFrame) -> None:
    """The same for the events that `check` has returned, which nobody counts: to look at the first would be to."""
    types = source_of(checked).types.values()
    bound_batches(uncounted(checked), {name for columns in types for name in columns})


def _is_unbounded(spark: SparkSession) -> bool:
    return spark.conf.get(BATCH_BYTES, None) == BATCHES[BATCH_BYTES]


def _may_be_document(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_may_be_document(field.dataType) for field in kind)
    return isinstance(kind, BinaryType) or not isinstance(kind, AtomicType)


def _is_narrow(kind: DataType) -> bool:
    return isinstance(kind, AtomicType) and not isinstance(kind, StringType | BinaryType)


def _is_scan(events: DataFrame) -> bool:
    return not events.isStreaming and all(node.nodeName() in _SCAN for node in nodes(execution(events).analyzed()))


def _widest(events: DataFrame, columns: list[str]) -> int:
    """The bytes of the widest of the first events, but for numbers. What is nested is taken for as wide as its text."""
    widths = [f"coalesce(octet_length(CAST({quoted(name)} AS STRING)), 0)" for name in columns]
    # Not a maximum by Spark, for which it would begin to read every file.
    found = events.select(F.expr(" + ".join(widths))).take(_LOOK)
    return max((int(row[0]) for row in found), default=0)
