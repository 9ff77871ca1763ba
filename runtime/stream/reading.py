"""Streams of files that workers read themselves: Spark tells each task which files are new, and no more.

Spark's source of files finds new ones, bounds a micro-batch and remembers what it has read, whatever their format. So
it is told that they are binary, and asked for their names alone; a worker reads the files, keeps what is relevant and
packs it. What Spark would compute of each event is translated from its own plan (`io.catalyst`), as for tables.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from glob import glob
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.utils import is_remote

from sase.runtime.executors import from_package
from sase.runtime.io.catalyst import KINDS, computed
from sase.runtime.io.plans import execution, nodes
from sase.runtime.io.readers import Reader
from sase.runtime.kernels.murmur import bucket_labels
from sase.runtime.operator.expressions import references
from sase.runtime.stream.bucket import StreamTask
from sase.runtime.stream.cells import PACKED, packer
from sase.runtime.stream.file_worker import FileReading, local
from sase.runtime.stream.types import observed
from sase.runtime.stream.watch import Columns, Watched, moment_of, plain, telling

_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
_OF_SOURCE = {
    "path", "maxfilespertrigger", "maxbytespertrigger", "maxcachedfiles", "discardcachedinputratio", "latestfirst",
    "maxfileage", "filenameonly", "cleansource", "sourcearchivedir", "pathglobfilter", "recursivefilelookup",
}  # fmt: skip
"""Options that say which files are read, and when. What others say of how they are read, only Spark knows."""
_FILES = "path string, modificationTime timestamp, length bigint, content binary"
_HASHED = {"tinyint", "smallint", "int", "bigint", "boolean", "date", "timestamp", "timestamp_ntz", "string"}


def read_by_workers(
    watched: Watched,
    relevant: Callable[[DataFrame], DataFrame],
    task: StreamTask,
    columns: Columns,
    buckets: int,
    bootstrap: Callable[[], None] | None,
) -> DataFrame | None:
    """PACKED rows of relevant events, under the watermark of all. None where workers cannot read these."""
    spark, source = watched.united.sparkSession, watched.source
    if is_remote() or (task.everywhere and buckets > 1) or (files := _source(watched.united)) is None:
        return None
    reader = Reader(spark, files.options())
    if not reader.is_plain or not reader.given.keys() <= _OF_SOURCE or spark.conf.get(_BY_CASE) != "false":
        return None
    given = dict(reader.given)
    place = given.pop("path", None)
    here = str(spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS"))
    if place is None or urlsplit(place).scheme not in (("", "file") if here == "file:///" else ("file",)):
        return None
    if any(True for folder in glob(local(place)) for _ in Path(folder).glob("*=*/")):
        return None  # their names have values of a column
    events = relevant(plain(watched, columns)).drop(columns.clock)
    made, told = computed(events), computed(telling(watched))
    if made is None or told is None or told.columns["type"][0] != "column":
        return None
    times = set(references(told.columns["at"])) & set(references(told.columns["time"]))
    kinds = {**told.kinds, **made.kinds}
    if len(times) != 1 or any(kind not in KINDS or "." in name for name, kind in kinds.items()):
        return None
    if any(events.schema[name].dataType.simpleString() not in _HASHED for name in task.by):
        return None
    computed_of = (tree for tree in made.columns.values() if tree[0] != "column")
    trees = (*made.where, *told.where, *computed_of, *told.columns.values())
    asked = {name for tree in trees for name in references(tree)}
    labels = bucket_labels(buckets)
    reading = FileReading(
        kinds=kinds,
        words=tuple(sorted(name for name in asked if kinds[name] == "string")),
        type=told.columns["type"][1],
        time=times.pop(),
        there=told.where,
        ours=told.columns["ours"],
        at=told.columns["at"],
        where=made.where,
        columns=made.columns,
        fields=to_arrow_schema(events.schema, timezone="UTC"),
        by=task.by,
        labels=tuple(labels),
        modern=reader.is_modern,
        jit=task.jit,
    )
    pack = packer(events.columns, task.shown, columns, None, labels, bootstrap)
    incoming = spark.readStream.format("binaryFile").schema(_FILES).options(**given).load(place)
    packed = incoming.select("path").mapInArrow(_worker(pickle.dumps(reading), pack, bootstrap), PACKED)
    clock = F.when(F.col("kind") == "clock", moment_of(F.col("size"), source))
    seen = packed.withColumn(columns.clock, F.coalesce(clock, F.timestamp_millis(F.lit(0)))).withWatermark(
        columns.clock, f"{watched.delay} milliseconds"
    )
    return observed(seen, source).where("kind NOT IN ('type', 'read')").drop(columns.clock)


_BY_CASE = "spark.sql.caseSensitive"


def _source(frame: DataFrame) -> Any | None:
    """The source of a stream of Parquet files, if there is one and no other."""
    leaves = [node for node in nodes(execution(frame).analyzed()) if not node.children().size()]
    if [leaf.nodeName() for leaf in leaves] != ["StreamingRelation"]:
        return None
    source = leaves[0].dataSource()
    return source if source.providingClass().getName() == _PARQUET else None


def _worker(
    reading: bytes, pack: Callable[..., Iterator[pa.RecordBatch]], bootstrap: Callable[[], None] | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    load = from_package("sase.runtime.stream.file_worker", "FileReader", bootstrap)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        made = load()
        latest: list[int] = []
        reader = made(pickle.loads(reading), latest)
        yield from pack(reader.relevant(batches), latest)
        if reader.events:
            yield reader.told()

    return read
