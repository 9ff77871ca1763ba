"""Matches on the way out: written to files, or the first of them printed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DatetimeType,
    DayTimeIntervalType,
    NumericType,
    StringType,
    StructType,
    YearMonthIntervalType,
)

from sase.runtime.errors import SaseRunError
from sase.runtime.events import quoted
from sase.runtime.io import delta
from sase.runtime.io.inputs import format_of
from sase.runtime.io.report import table


def format_to_write(arguments: argparse.Namespace) -> str:
    """The format of the matches: what is asked for, or what --out ends with."""
    return arguments.out_format or format_of(arguments.out or "") or "parquet"


def save(matches: DataFrame, place: str, format: str, mode: str) -> int:
    """Writes the matches and returns how many there were."""
    observation = Observation()
    write(matches.observe(observation, F.count(F.lit(1)).alias("matches")), place, format, mode)
    return _observed(observation)


def write(matches: DataFrame, place: str, format: str, mode: str, **options: Any) -> None:
    if format == "csv":
        matches = matches.select([column.alias(name) for name, column in _flat(matches)])
        options["header"] = True
    matches.write.options(**options).save(place, format, mode)


def refuse_misfits(matches: DataFrame, place: str, format: str) -> None:
    """Refuses what a stream could not write to `place`, before it starts and not at its first match."""
    if format == "delta":
        delta.prepare(matches)
        there = delta.columns_of(matches.sparkSession, place)
        if there is not None and there.simpleString() != matches.schema.simpleString():
            raise SaseRunError(
                f"{place} has the columns {_listed(there)}, and the query gives {_listed(matches.schema)}: put RETURN "
                "back, or start with a new --checkpoint and --out"
            )
    elif "batch" in (name.lower() for name in matches.columns):
        raise SaseRunError("files are written as batch=N for each micro-batch: RETURN batch under another name")
    elif format == "csv":
        _flat(matches)


def _listed(schema: StructType) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)


def there_already(place: str) -> SaseRunError:
    return SaseRunError(f"{place} exists: add --overwrite to replace it, or choose another --out")


def _flat(matches: DataFrame) -> list[tuple[str, Column]]:
    """CSV has no structs: x.id becomes x_id."""
    columns = [("_".join(path), column) for path, _, column in leaf_columns(matches.schema)]
    names = [name.lower() for name, _ in columns]
    for name, _ in columns:
        if names.count(name.lower()) > 1:
            raise SaseRunError(
                f"two columns would be named {name} in CSV: rename one with RETURN … AS, or write another format"
            )
    return columns


def show(matches: DataFrame, limit: int) -> int:
    """Prints the first matches."""
    rows, found = earliest(matches, limit)
    if not rows:
        print("no matches")
        return 0
    leaves = list(leaf_columns(matches.schema))
    header = [".".join(path) for path, _, _ in leaves]
    print(table(header, rows, [isinstance(kind, NumericType) for _, kind, _ in leaves]), end="")
    if found > len(rows):
        print(f"… {found - len(rows):,} more")
    return found


def earliest(matches: DataFrame, limit: int) -> tuple[list[Row], int]:
    """The first matches as text, the earliest if the time is among the columns, and how many there are: one job counts
    and sorts."""
    leaves = list(leaf_columns(matches.schema))
    observation = Observation()
    order = printing_order(leaves)
    rows = (
        matches.select([column.alias(f"_{at}") for at, (_, _, column) in enumerate(leaves)])
        .observe(observation, F.count(F.lit(1)).alias("matches"))
        .orderBy([f"_{at}" for at in order])
        .limit(limit)
        .select([as_text(f"_{at}", kind) for at, (_, kind, _) in enumerate(leaves)])
        .collect()
    )
    return rows, _observed(observation) if rows else 0


_ORDERED = (NumericType, StringType, BooleanType, BinaryType, DatetimeType, DayTimeIntervalType, YearMonthIntervalType)
_FIRST: list[tuple[str, ...]] = [("started_at",), ("detected_at",)]


Leaf = tuple[tuple[str, ...], DataType, Column]
"""Path, type and column of a value that is not a struct."""


def printing_order(leaves: Sequence[Leaf]) -> list[int]:
    """The columns to sort by, as positions: the time of a match first."""
    return sorted(
        (at for at, (_, kind, _) in enumerate(leaves) if isinstance(kind, _ORDERED)),
        key=lambda at: _FIRST.index(leaves[at][0]) if leaves[at][0] in _FIRST else len(_FIRST),
    )


def leaf_columns(schema: StructType, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    for field in schema:
        here = (*path, field.name)
        if isinstance(field.dataType, StructType):
            yield from leaf_columns(field.dataType, here)
        else:
            yield here, field.dataType, F.col(".".join(map(quoted, here)))


def as_text(column: str, kind: DataType) -> Column:
    text = F.col(column).cast("string")
    # INTERVAL '0 01:30:00' DAY TO SECOND: the quoted part is what a reader wants.
    return (
        F.regexp_extract(text, "'(.*)'", 1) if isinstance(kind, DayTimeIntervalType | YearMonthIntervalType) else text
    )


def _observed(observation: Observation) -> int:
    try:
        return int(observation.get["matches"])
    except Exception:  # Spark has seen that there is nothing to do, and did not count it
        return 0
