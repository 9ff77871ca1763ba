"""A worker that reads the files of a stream itself: what Spark hands to it are their names.

Of an event of another type, all that matters is what time it is. Spark would make a row of it; here it is a number in a
column, and the largest one is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, TimestampType

from sase.runtime.errors import SaseRunError
from sase.runtime.io.catalyst import KINDS, Kind, simplified, times_between
from sase.runtime.io.footers import row_groups
from sase.runtime.io.readers import complete, is_as_written
from sase.runtime.kernels.murmur import murmur3
from sase.runtime.operator.expressions import Expressions, Tree, Value
from sase.runtime.operator.reading import how_many, is_true, truths, whole
from sase.runtime.operator.row_groups import in_batches


@dataclass(frozen=True)
class FileReading:
    """What is made of the rows of a file: trees over its columns."""

    kinds: Mapping[str, Kind]
    """The columns that are read, and their types."""
    words: tuple[str, ...]
    """Those that are read as dictionaries: strings that something is asked of."""
    type: str
    time: str
    there: tuple[Tree, ...]
    """What holds for all events: others were left out before anybody looked at the time."""
    ours: Tree
    """Whether it is an event of the query."""
    at: Tree
    """The ticks by which an event tells the time; NULL where it tells none."""
    where: tuple[Tree, ...]
    columns: Mapping[str, Tree]
    fields: pa.Schema
    """Of what is made."""
    by: tuple[str, ...]
    labels: tuple[int, ...]
    """Of the buckets."""
    modern: bool
    """Whether the times of files that do not say who wrote them are those of today's calendar."""
    jit: bool


class FileReader:
    """Reads the files of one task of Spark, and knows what it has read of them: the latest time, how many events there
    are, and of which types."""

    def __init__(self, reading: FileReading, latest: list[int]) -> None:
        self.reading, self.latest = reading, latest
        self.events, self.types = 0, set[str]()

    def relevant(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The relevant events of the files, each with its bucket in the last column."""
        for batch in batches:
            for path in map(local, batch.column(0).to_pylist()):
                try:
                    yield from self._file(path)
                except (OSError, pa.ArrowException) as error:
                    raise SaseRunError(f"{path} cannot be read: {error}") from error

    def told(self) -> pa.RecordBatch:
        """PACKED rows of how many events there are, and of their types."""
        words = [word.encode() for word in sorted(self.types)]
        kinds = ["read", *["type"] * len(words)]
        arrays = [
            pa.array([0] * len(kinds), pa.int32()),
            pa.array(kinds, pa.string()),
            pa.array([self.events, *[1] * len(words)], pa.int64()),
            pa.array([None, *words], pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(arrays, names=["bucket", "kind", "size", "rows"])

    def _file(self, path: str) -> Iterator[pa.RecordBatch]:
        reading = self.reading
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            columns = _Columns(path, file, reading)
        known = complete(file.metadata, frozenset(columns.names.values()))
        has = frozenset(name for name, spelled in columns.names.items() if spelled in known)
        between = times_between(reading.time, *columns.times) if columns.times and reading.time in has else {}

        def simpler(trees: Iterable[Tree]) -> tuple[Tree, ...]:
            return tuple(simplified(tree, has, between) for tree in trees)

        (at, ours), there, where = simpler([reading.at, reading.ours]), simpler(reading.there), simpler(reading.where)
        made = dict(zip(reading.columns, simpler(reading.columns.values()), strict=True))
        expressions = Expressions()
        words = [columns.names[name] for name in reading.words if name in columns.names]
        with pq.ParquetFile(path, read_dictionary=words, coerce_int96_timestamp_unit="us") as file:
            for batch in in_batches(file, range(file.num_row_groups), list(columns.names.values()), words):
                self.events += batch.num_rows
                found, rows = _those(columns.of(batch), batch.num_rows, there, expressions)
                if rows:
                    self._note(found[reading.type])
                    self._tell(expressions.over(found).value(at))
                    # Events of other types go first: nothing else is computed of them.
                    found, rows = _those(found, rows, (ours,), expressions)
                if rows:
                    found, rows = _those(found, rows, where, expressions)
                if rows:
                    yield self._made(found, rows, expressions, made)

    def _made(
        self, columns: Mapping[str, pa.Array], rows: int, expressions: Expressions, made: Mapping[str, Tree]
    ) -> pa.RecordBatch:
        fields, over = self.reading.fields, expressions.over(columns)
        found = [
            whole(columns[tree[1]] if tree[0] == "column" else over.value(tree), fields.field(name).type, rows)
            for name, tree in made.items()
        ]
        batch = pa.RecordBatch.from_arrays(found, schema=fields)
        return batch.append_column("bucket", self._bucket(batch))

    def _tell(self, times: Value) -> None:
        latest = times if isinstance(times, pa.Scalar) else pc.max(times)
        if latest.is_valid:
            self.latest.append(latest.as_py())

    def _note(self, types: pa.Array) -> None:
        words = types.dictionary if isinstance(types, pa.DictionaryArray) else types.unique()
        if not self.types.issuperset(words.to_pylist()):  # else there is no new one
            self.types.update(word for word in types.unique().to_pylist() if word is not None)

    def _bucket(self, batch: pa.RecordBatch) -> pa.Array:
        labels = np.array(self.reading.labels, np.int32)
        if len(labels) == 1:
            return pa.array(np.full(batch.num_rows, labels[0], np.int32))
        codes = murmur3([batch.column(name) for name in self.reading.by], self.reading.jit)
        return pa.array(labels[codes % len(labels)])


class _Columns:
    """The columns of a file, as Spark would find them: by name, without regard to case, and wider where it was told so;
    NULL where the file has no such column."""

    def __init__(self, path: str, file: pq.ParquetFile, reading: FileReading) -> None:
        schema, physical = file.schema_arrow, map(file.schema.column, range(file.metadata.num_columns))
        of_96_bits = {column.path for column in physical if column.physical_type == "INT96"}
        self.kinds = reading.kinds
        self.names: dict[str, str] = {}
        """As the file spells them."""
        for name, kind in reading.kinds.items():
            spelled = [each for each in schema.names if each.lower() == name.lower()]
            if len(spelled) > 1:
                raise _misfit(path, f"has the columns {' and '.join(spelled)}")
            if not spelled:
                continue
            (self.names[name],) = spelled
            found = schema.field(spelled[0]).type
            if not _widens(found, kind, spelled[0] in of_96_bits):
                raise _misfit(path, f"has {name} of the type {found}, which is read as {kind}")
        if not is_as_written(file.metadata, reading.modern) and _OF_CALENDARS & {
            reading.kinds[name] for name in self.names
        }:
            raise _misfit(path, "has times of the calendar that Spark had before 3.1")

        self.times = _times(file.metadata, self.names[reading.time], reading) if reading.time in self.names else None
        """The first and the last."""

    def of(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        found = {}
        for name, kind in self.kinds.items():
            if name not in self.names:
                found[name] = pa.nulls(batch.num_rows, KINDS[kind])
                continue
            column = batch.column(self.names[name])
            is_word = isinstance(column, pa.DictionaryArray) and pa.types.is_string(column.type.value_type)
            found[name] = column if column.type == KINDS[kind] or is_word else column.cast(KINDS[kind])
        return found


def _times(footer: pq.FileMetaData, time: str, reading: FileReading) -> tuple[int, int] | None:
    kind = TimestampType() if reading.kinds[reading.time] == "timestamp" else LongType()
    try:
        groups = list(row_groups(footer, time, kind))
    except LookupError:
        return None
    return (min(group.first for group in groups), max(group.last for group in groups)) if groups else None


_OF_CALENDARS = {"date", "timestamp", "timestamp_ntz"}


def _widens(found: pa.DataType, kind: Kind, of_96_bits: bool) -> bool:
    """Whether Spark reads it as such, and Arrow's cast gives the same."""
    wanted = KINDS[kind]
    if pa.types.is_dictionary(found):
        found = found.value_type
    if of_96_bits:
        return kind == "timestamp"
    if found == wanted:
        return True
    if kind == "string":
        return bool(pa.types.is_large_string(found) or pa.types.is_string_view(found))
    if pa.types.is_signed_integer(found) and pa.types.is_signed_integer(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return bool(found.unit == "ms" and (found.tz is None) == (wanted.tz is None))
    return bool(pa.types.is_float32(found) and pa.types.is_float64(wanted))


def _misfit(path: str, what: str) -> SaseRunError:
    return SaseRunError(
        f"{path} {what}: compile the query with --strategy scan=spark, which leaves reading to Spark, and start again "
        "from the checkpoint"
    )


def _those(
    columns: Mapping[str, pa.Array], rows: int, where: tuple[Tree, ...], expressions: Expressions
) -> tuple[Mapping[str, pa.Array], int]:
    """Rows of which all of it holds, and how many these are."""
    holds = expressions.over(columns).all_of(where)
    if is_true(holds):
        return columns, rows
    kept = truths(holds, rows).fill_null(False)
    return {name: column.filter(kept) for name, column in columns.items()}, how_many(kept, rows)


def local(place: str) -> str:
    """The path of a file of this machine, as Spark names it."""
    return "/" + place.removeprefix("file:").lstrip("/") if place.startswith("file:") else place
