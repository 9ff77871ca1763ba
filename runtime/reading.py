"""Events that workers read from files themselves: Spark tells each task which part of them it has, and no more.

To hand a row from Spark's scan to Python takes longer than to read it, sort it and look for matches. So where a worker
has the files at hand, and all that Spark would compute of a row means the same to Arrow, it reads them by itself. Of
files that are mostly in the order of time, a task has a span of it: it reads the row groups of the span, and those in
reach of it, and goes on to look for matches. Of others it reads a share, and packs the events in cells, which Spark
brings to the worker of their key.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from sase.runtime.events import FURTHEST, quoted, source_of, tally_of, uncounted
from sase.runtime.executors import from_package
from sase.runtime.io.batches import bound_batches
from sase.runtime.io.catalyst import KINDS, Kind, computed, simplified, times_between
from sase.runtime.io.footers import row_groups
from sase.runtime.io.plans import execution, nodes
from sase.runtime.io.readers import Reader, complete, is_as_written
from sase.runtime.kernels.murmur import bucket_labels
from sase.runtime.operator.cells import Dealing
from sase.runtime.operator.expressions import Tree, references
from sase.runtime.operator.reading import CELL, SPAN, Counted, File, Reading, RowGroup, packed
from sase.runtime.shuffle import buckets
from sase.runtime.spans import shares, spans

MOST_FILES = 256
"""Each is asked for its footer before the run."""
_LENT = "_sase_lent"
_OF_FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"


def in_workers(
    events: DataFrame,
    relevant: Callable[[DataFrame], DataFrame],
    keys: Sequence[str],
    *,
    back: int,
    ahead: int,
    states: str,
    borrowed: str,
    sliced: Callable[[DataFrame], DataFrame],
    slice: str | None,
    partitions: int | None,
    bootstrap: Callable[[], None] | None,
) -> DataFrame | None:
    """Rows that stand for `sliced` relevant events, in whose columns they have NULL. In one column more, they have for
    each span of time what a worker has to know of it, or cells of events that workers have read. None where workers
    cannot read these, or it would not pay.

    The other arguments are those of `in_place`.
    """
    tally, source = tally_of(events), source_of(events)
    read = uncounted(events)
    if (tally is not None and tally.strict) or (files := _Files.of(read)) is None:
        return None
    some = relevant(read)
    schema = sliced(some).schema
    if not {SPAN, CELL, _LENT}.isdisjoint(field.name.lower() for field in schema):
        return None
    names = [quoted(field.name) for field in schema if field.name != slice]
    sound, made = computed(read), computed(some.selectExpr(*names, f"{borrowed} AS {_LENT}"))
    if sound is None or made is None:
        return None
    needed = [sound.columns[name] for name in source.required]
    asked = {name for tree in (*needed, *sound.where) for name in references(tree)}
    kinds = {**made.kinds, **{name: sound.kinds[name] for name in sorted(asked)}}
    if not files.have(kinds):
        return None
    complete = files.complete(kinds)
    if any(sign != "column" or name not in complete for sign, name in needed):
        return None  # what has a flaw, Spark counts
    at = sound.columns[source.time][1]
    groups = files.groups(at, read.schema[source.time].dataType)
    if not groups or any(max(-group.first, group.last) > FURTHEST for group in groups):
        return None
    cores = read.sparkSession.sparkContext.defaultParallelism
    found, by = spans(groups, back, ahead, cores), None
    if found is None and slice is None and keys:
        in_quotes = {quoted(field.name): field.name for field in schema}
        by = [in_quotes.get(key, key) for key in keys]
        found = shares(groups, cores) if may_go_in_cells(some, by) else None
    if found is None:
        return None
    first, last = min(group.first for group in groups), max(group.last for group in groups)
    between = times_between(at, first, last) if at in complete else {}

    def simpler(tree: Tree) -> Tree:
        return simplified(tree, complete, between)

    columns = {name: simpler(tree) for name, tree in made.columns.items()}
    lent = columns.pop(_LENT)
    usable = tuple(map(simpler, sound.where))
    where = tuple(tree for tree in map(simpler, made.where) if tree not in usable)
    counts = None if tally is None else read.sparkSession.sparkContext.accumulator({}, _BySpan())
    reading = Reading(
        files=files.files,
        reads=tuple(kinds),
        words=tuple(_asked((*usable, *where, *columns.values()), kinds)),
        type=sound.columns[source.type][1],
        time=at,
        where=where,
        columns=columns,
        states=states,
        lent=lent,
        slice=slice,
        sound=usable,
        counts=counts,
    )
    rows = _rows(read.sparkSession, schema, [packed(reading, span, number) for number, span in enumerate(found)])
    if tally is not None and counts is not None:
        read_of_all = sum(group.events for group in groups)
        rows = rows.where(tally.counted_elsewhere(read_of_all, lambda: _added(counts.value)))
    return rows if by is None else _in_cells(rows, schema, by, partitions or len(found), bootstrap)


def _rows(spark: SparkSession, schema: StructType, cells: Sequence[bytes]) -> DataFrame:
    """One for each cell, in a partition of its own. In SQL, as a column takes several calls to Java to make."""
    each = ", ".join(f"X'{cell.hex()}'" for cell in cells)
    rows = spark.range(0, len(cells), 1, len(cells))
    return rows.selectExpr(*_nothing_of(schema), f"get(array({each}), CAST(id AS int)) AS {SPAN}")


def _nothing_of(schema: StructType) -> list[str]:
    return [f"CAST(NULL AS {field.dataType.simpleString()}) AS {quoted(field.name)}" for field in schema]


# ---- by key -------------------------------------------------------------------------------------


_HASHED = {"tinyint", "smallint", "int", "bigint", "boolean", "date", "timestamp", "timestamp_ntz", "string"}
"""Types of keys whose hash a worker knows."""


def may_go_in_cells(events: DataFrame, by: Sequence[str]) -> bool:
    """Whether a worker can say where they go, and none of them is where it has to be already."""
    kinds = {events.schema[name].dataType.simpleString() for name in by}
    return kinds <= _HASHED and buckets(events) is None


def _in_cells(
    rows: DataFrame, schema: StructType, by: Sequence[str], partitions: int, bootstrap: Callable[[], None] | None
) -> DataFrame:
    """Of rows that say what to read, those that have the events, in the partition of their key."""
    names = rows.columns
    dealing = Dealing(tuple(by), tuple(bucket_labels(partitions)), os.environ.get("SASE_JIT") != "0")
    numbered = rows.toDF(*map(str, range(len(names))))  # mapInArrow does not take every name
    dealt = numbered.mapInArrow(_worker(pickle.dumps((names, dealing)), bootstrap), "place int, cell binary")
    placed = dealt.repartition(partitions, "place")
    bound_batches(placed, ["cell"])
    return placed.selectExpr(*_nothing_of(schema), f"cell AS {CELL}")


def _worker(
    task: bytes, bootstrap: Callable[[], None] | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    load = from_package("sase.runtime.operator.reading", "read_and_dealt", bootstrap)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        dealt = load()
        names, dealing = pickle.loads(task)
        yield from dealt(dealing, (batch.rename_columns(names) for batch in batches))

    return read


# ---- what is known of the files ---------------------------------------------------------------------


def _asked(trees: Iterable[Tree], kinds: Mapping[str, Kind]) -> set[str]:
    """The strings of which more is asked than what they are: those that are compared have few values, mostly."""
    asked = {name for tree in trees if tree[0] != "column" for name in references(tree)}
    return {name for name in asked if kinds[name] == "string"}


class _BySpan(AccumulatorParam[Counted]):
    """What was counted in each span, however often the span was read."""

    def zero(self, value: Counted) -> Counted:
        return {}

    def addInPlace(self, value1: Counted, value2: Counted) -> Counted:
        return value1 | value2


def _added(counted: Counted) -> tuple[int, frozenset[str]] | None:
    """All of them; None if nothing was read."""
    if not counted:
        return None
    return sum(count for count, _ in counted.values()), frozenset().union(*(types for _, types in counted.values()))


@dataclass(frozen=True)
class _Files:
    """Parquet files at hand, and what their footers say."""

    files: tuple[File, ...]
    footers: tuple[pq.FileMetaData, ...]

    @classmethod
    def of(cls, frame: DataFrame) -> _Files | None:
        """All files of the frame, as Spark has found them; None if some are elsewhere, or Spark has a word on them."""
        relations = _relations(frame)
        if len(relations) != 1 or relations[0].getClass().getName() != _OF_FILES:
            return None  # a table of a database is a relation, too
        (relation,) = relations
        reader = Reader(frame.sparkSession, relation.options())
        if not reader.is_plain:
            return None
        if relation.fileFormat().getClass().getName() != _PARQUET or not relation.partitionSchema().isEmpty():
            return None
        found = relation.inputFiles()  # one that is named twice is read twice, and `frame.inputFiles` has each once
        if len(found) > MOST_FILES or any(urlsplit(place).scheme != "file" for place in found):
            return None
        try:
            files = tuple(File.at(unquote(urlsplit(place).path)) for place in found)
            footers = tuple(pq.read_metadata(file.path) for file in files)
        except (OSError, pa.ArrowException):
            return None  # whoever reads the file will say what is wrong with it
        modern = reader.is_modern
        return cls(files, footers) if all(is_as_written(footer, modern) for footer in footers) else None

    def have(self, kinds: Mapping[str, Kind]) -> bool:
        """Whether each of them has these columns, of just these types, each under one name."""
        for footer in self.footers:
            schema = footer.schema.to_arrow_schema()
            folded = [name.lower() for name in schema.names]
            for name, kind in kinds.items():
                if folded.count(name.lower()) != 1 or name not in schema.names or "." in name:
                    return False
                if schema.field(name).type != KINDS.get(kind):
                    return False
        return True

    def complete(self, names: Iterable[str]) -> frozenset[str]:
        """The columns that have no NULL in any of them, as far as they say."""
        return reduce(lambda known, footer: complete(footer, known), self.footers, frozenset(names))

    def groups(self, time: str, kind: DataType) -> list[RowGroup] | None:
        """None where some file does not say which times it has."""
        try:
            return [
                RowGroup(at, group.number, group.first, group.last, group.rows)
                for at, footer in enumerate(self.footers)
                for group in row_groups(footer, time, kind)
            ]
        except LookupError:
            return None


def _relations(frame: DataFrame) -> list[Any]:
    plan = execution(frame).analyzed()
    return [node.relation() for node in nodes(plan) if node.nodeName() == "LogicalRelation"]
