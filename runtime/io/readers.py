"""How Spark reads Parquet files, by the settings of a session and the options of a reader."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

_SPECIAL = {
    "spark.sql.files.ignoreCorruptFiles": "ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles": "ignoreMissingFiles",
    "spark.sql.parquet.fieldId.read.enabled": None,
}
"""Settings by which Spark reads other than what files have under a name, and the options of a reader that go before."""
_CALENDARS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "datetimeRebaseMode",
    "spark.sql.parquet.int96RebaseModeInRead": "int96RebaseMode",
}
_CONVERTED = "spark.sql.parquet.int96TimestampConversion"
_LEGACY = {b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"}
"""Times of files with such a mark are of another calendar."""


@dataclass(frozen=True)
class Reader:
    """`options` are those of a relation or of a source, as Java has them."""

    spark: SparkSession
    options: Any

    @property
    def is_plain(self) -> bool:
        """Whether it reads just what files have under a name, and fails where it cannot."""
        return all(self._value(*names).lower() == "false" for names in _SPECIAL.items())

    @property
    def is_modern(self) -> bool:
        """Whether it takes times of files that do not say who wrote them for those of today's calendar."""
        as_they_are = all(self._value(*names).upper() == "CORRECTED" for names in _CALENDARS.items())
        return as_they_are and self._value(_CONVERTED, None).lower() == "false"

    @cached_property
    def given(self) -> dict[str, str]:
        pairs, found = self.options.iterator(), {}
        while pairs.hasNext():
            pair = pairs.next()
            found[str(pair._1()).lower()] = str(pair._2())
        return found

    def _value(self, setting: str, option: str | None) -> str:
        return self.given.get((option or "").lower()) or str(self.spark.conf.get(setting))


def is_as_written(footer: pq.FileMetaData, modern: bool) -> bool:
    """Whether Spark takes dates and times for what they are, and not for those of the calendar that it had before 3.0,
    and 3.1 for times of 96 bits. Files of other writers are `modern` if it is told so."""
    told = footer.metadata or {}
    version = told.get(b"org.apache.spark.version")
    return modern if version is None else version >= b"3.1.0" and _LEGACY.isdisjoint(told)


def complete(footer: pq.FileMetaData, names: frozenset[str]) -> frozenset[str]:
    """Of these columns, those that have no NULL in the file, as far as it says."""
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    there = names & places.keys()
    return frozenset(name for name in there if not any(_unsure(group.column(places[name])) for group in groups))


def _unsure(chunk: pq.ColumnChunkMetaData) -> bool:
    return not chunk.is_stats_set or not chunk.statistics.has_null_count or chunk.statistics.null_count > 0
