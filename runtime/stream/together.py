"""Several clauses of one statement on a stream: what they find and reject is one stream of packed rows.

Spark reads a source once for all of them, and they share its watermark, which is the least of all that they have. So in
every micro-batch each sees the same rows at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StringType, StructType

from sase.runtime.errors import SaseRunError
from sase.runtime.events import quoted
from sase.runtime.stream.ssc import Stream

_PLACES = 1 << 20
"""Buckets of the first part have smaller numbers than this; those of the next ones are that much larger."""


@dataclass(frozen=True)
class Together:
    """What a statement makes of the matches of several clauses: it can be used as a `Stream`."""

    packed: DataFrame
    parts: Sequence[Stream]
    names: Sequence[str]
    """Of the first parts; those behind them tell of rows that came too late, and nothing else."""
    finish: Callable[..., DataFrame]
    time_kind: str

    @property
    def buckets(self) -> int:
        """The most that a part has."""
        return max(part.buckets for part in self.parts)

    @property
    def states(self) -> int:
        return sum(part.buckets for part in self.parts)

    def matches(self, packed: DataFrame | None = None) -> DataFrame:
        parts = zip(self.names, self._parts(packed), strict=False)
        return self.finish(**{name: part.matches(rows) for name, (part, rows) in parts})

    def rejected(self, packed: DataFrame | None = None) -> DataFrame:
        """Rows that could not take part: the reason, the record if it could not be read, and the row."""
        told = [part.rejected(rows) for part, rows in self._parts(packed) if _event(part.shown).fields]
        return reduce(DataFrame.unionAll, _alike(told))

    def _parts(self, packed: DataFrame | None) -> Iterator[tuple[Stream, DataFrame | None]]:
        for at, part in enumerate(self.parts):
            yield part, None if packed is None else packed.where(F.expr(f"bucket div {_PLACES} = {at}"))


def together(finish: Callable[..., DataFrame], *, late: Sequence[Stream] = (), **found: Stream) -> Together:
    """The matches of some clauses by name, of which `finish` makes the rows of the statement. Of `late`, which other
    clauses read, nothing is told but which rows came too late."""
    parts = [*found.values(), *(stream.only_late() for stream in late if stream.only_late is not None)]
    kinds = {part.time_kind for part in parts}
    if len(kinds) > 1:
        raise SaseRunError(
            "one clause goes by timestamps and another by whole numbers, and a stream has one time: cast one of them "
            "in a subquery before its clause"
        )
    if len({part.packed.isStreaming for part in parts}) > 1:
        raise SaseRunError(_AT_REST)
    numbered = [
        part.packed.withColumn("bucket", (F.col("bucket") + at * _PLACES).cast("int")) for at, part in enumerate(parts)
    ]
    packed = reduce(DataFrame.unionAll, numbered)
    return Together(packed, parts, list(found), finish, kinds.pop())


def one_time(rows: DataFrame, time: str, *streams: Stream) -> DataFrame:
    """Rows of several streams. Where Spark has brought their times together, they would be other moments than those by
    which each of the streams goes."""
    if len({stream.packed.isStreaming for stream in streams}) > 1:
        raise SaseRunError(_AT_REST)
    (wanted,) = (field.dataType for field in rows.select(quoted(time)).schema)
    for kind in (stream.time_type for stream in streams):
        if kind != wanted and not (isinstance(kind, IntegralType) and isinstance(wanted, IntegralType)):
            told = "nothing" if kind is None else kind.simpleString()
            raise SaseRunError(
                f"a clause goes by {time}, which is {wanted.simpleString()}, and rows that it reads go by {told}: cast "
                "one of them in a subquery before its clause"
            )
    return rows


_AT_REST = "some of the clauses read streams, and others tables at rest: run these on their own"


def _event(shown: StructType) -> StructType:
    kind = shown["event"].dataType
    assert isinstance(kind, StructType)
    return kind


def _alike(told: Sequence[DataFrame]) -> Iterator[DataFrame]:
    """With the columns of all rows: NULL where a row has none, and text where they are of several types."""
    kinds: dict[str, set[str]] = {}
    for rows in told:
        for field in _event(rows.schema):
            kinds.setdefault(field.name, set()).add(field.dataType.simpleString())
    columns = {name: kind.pop() if len(kind) == 1 else StringType().simpleString() for name, kind in kinds.items()}
    for rows in told:
        yield rows.select("reason", "record", F.struct(*_columns(rows, columns)).alias("event"))


def _columns(rows: DataFrame, columns: Mapping[str, str]) -> Iterator[Column]:
    there = _event(rows.schema).names
    for name, kind in columns.items():
        value = F.col(f"event.{quoted(name)}") if name in there else F.lit(None)
        yield value.cast(kind).alias(name)
