"""Which times each part of a scan has, by what Parquet files say of themselves: no more is read of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegralType, StructField, TimestampType

from sase.runtime.io.plans import execution, nodes
from sase.runtime.zones import Stretch

MOST_SPLITS = 64
"""Of more parts of files, some lie between others in time almost always; and each is asked for its footer."""
_TAIL = 1 << 16
"""Bytes in which most footers are. The last eight are their length, and a word."""
_MICROSECONDS = {"milliseconds": 1_000, "microseconds": 1}


@dataclass(frozen=True)
class RowGroup:
    """The times of some rows of a file, and at which byte the middle of these is: Spark reads them with that byte."""

    number: int
    middle: int
    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class Part:
    """What a task reads of a file, up to a byte of it, and the times that this has."""

    task: int
    end: int
    times: Stretch


def parts(frame: DataFrame, time: str) -> list[Part] | None:
    """What Spark reads of files, each in one piece. None where these are no Parquet files, too many, or say nothing of
    the column."""
    splits, column = _splits(frame), _own_column(frame.select(time))
    if splits is None or column is None:
        return None
    footers, found = dict[str, list[RowGroup] | None](), list[Part]()
    for task, path, start, end in splits:
        name = str(path)
        if name not in footers:
            footers[name] = _looked_up(frame, path, column)
        if (groups := footers[name]) is None:
            return None
        if here := [group for group in groups if start <= group.middle < end]:
            first, last = min(each.first for each in here), max(each.last for each in here)
            found.append(Part(task, end, Stretch(first, last, sum(each.rows for each in here))))
    return found


def _splits(frame: DataFrame) -> list[tuple[int, Any, int, int]] | None:
    """The number of a task, a file that it reads, and from which byte up to which."""
    scans = [node for node in nodes(execution(frame).executedPlan()) if node.nodeName().strip() == "Scan parquet"]
    if len(scans) != 1:
        return None
    rows = scans[0].inputRDDs().head()
    if rows.getNumPartitions() > MOST_SPLITS:
        return None
    files = [(task.index(), file) for task in rows.partitions() for file in islice(task.files(), MOST_SPLITS + 1)]
    if len(files) > MOST_SPLITS:
        return None
    return [(task, file.toPath(), file.start(), file.start() + file.length()) for task, file in files]


def _own_column(frame: DataFrame) -> StructField | None:
    """The one column of the frame, if the files have it under that name, and as it is."""
    plan = execution(frame).analyzed()
    own = {
        (relation.output().apply(at).name(), relation.output().apply(at).exprId().id())
        for relation in nodes(plan)
        if relation.nodeName() == "LogicalRelation"
        for at in range(relation.output().size())
    }
    there = plan.output().apply(0)
    return frame.schema[0] if (there.name(), there.exprId().id()) in own else None


def _looked_up(frame: DataFrame, path: Any, time: StructField) -> list[RowGroup] | None:
    try:
        metadata = _metadata(frame, path)
        return list(row_groups(metadata, time.name, time.dataType))
    except (pa.ArrowException, LookupError, PySparkException, Py4JError):
        return None  # whoever reads the file will say what is wrong with it


def _metadata(frame: DataFrame, path: Any) -> pq.FileMetaData:
    """The footer is read by Hadoop, as the file will be, wherever that is."""
    context = frame.sparkSession.sparkContext
    system = path.getFileSystem(context._jsc.hadoopConfiguration())
    read = getattr(context._jvm, "org.apache.commons.io.IOUtils").toByteArray
    length = system.getFileStatus(path).getLen()

    def tail(size: int) -> bytes:
        stream = system.open(path)
        try:
            stream.seek(max(0, length - size))
            return bytes(read(stream))
        finally:
            stream.close()

    end = tail(_TAIL)
    if (size := int.from_bytes(end[-8:-4], "little") + 8) > len(end):
        end = tail(size)
    return pq.read_metadata(pa.BufferReader(end))


def row_groups(metadata: pq.FileMetaData, time: str, kind: object) -> Iterator[RowGroup]:
    """LookupError where the file does not say."""
    column = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}[time]
    unit = _ticks(metadata.schema.column(column), kind)
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        chunks = [group.column(each) for each in range(group.num_columns)]
        start = min(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks)
        middle = start + sum(chunk.total_compressed_size for chunk in chunks) // 2
        known = chunks[column].statistics
        if known is None or not known.has_null_count or (known.null_count < group.num_rows and not known.has_min_max):
            raise LookupError(time)
        if known.null_count < group.num_rows:
            first, last = known.min_raw * unit, known.max_raw * unit
            yield RowGroup(at, middle, first, last, group.num_rows - known.null_count)


def _ticks(column: pq.ColumnSchema, kind: object) -> int:
    """How many ticks one unit of the file's numbers is."""
    logical = json.loads(column.logical_type.to_json())
    plain = column.physical_type in ("INT32", "INT64")
    match logical.get("Type"):
        case "Timestamp" if isinstance(kind, TimestampType) and logical["isAdjustedToUTC"]:
            return _MICROSECONDS[logical["timeUnit"]]
        case "None" | "Int" if isinstance(kind, IntegralType) and plain and logical.get("isSigned", True):
            return 1
    raise LookupError(column.name)
