"""Matches on the way out: written to files, or the first of them printed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import StorageLevel
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
from sase.runtime.io.files import Files, format_of
from sase.runtime.io.report import table

STDOUT = "-"


def some_of(rejected: DataFrame) -> list[str]:
    """A few rejected events as JSON, where they are not written."""
    return [row.line for row in rejected.select(_json(rejected).alias("line")).head(_SHOWN)]


_SHOWN = 5


def _json(rows: DataFrame) -> Column:
    return F.to_json(F.struct(*map(quoted, rows.columns)))


def late_place(out: str) -> str:
    """Where rejected events go, unless somebody says."""
    return f"{out.rstrip('/')}-late"


def format_to_write(arguments: argparse.Namespace) -> str:
    """The format of the matches: what is asked for, or what --out ends with."""
    fallback = "json" if arguments.out == STDOUT else "parquet"
    return arguments.out_format or format_of(arguments.out or "") or fallback


def publish(matches: DataFrame, place: str, format: str, overwrite: bool) -> int:
    """Writes the matches, whole or not at all, and returns how many there were.

    They are written beside the place and moved there at the end, so what is there stays as it is until then. A name
    that ends as those of CSV and JSON files do is one file; any other is a folder, as Spark writes it.
    """
    files = Files(matches.sparkSession)
    if format == "delta":
        # A commit at the end is Delta's own way. Spark lets a source in Python append or overwrite, and nothing else.
        ours = delta.prepare(matches)
        if ours and not overwrite and delta.columns_of(matches.sparkSession, place) is not None:
            raise there_already(place)
        return save(matches, place, format, "overwrite" if overwrite else "append" if ours else "errorifexists")
    if not files.are_known:
        return save(matches, place, format, "overwrite" if overwrite else "errorifexists")
    unfinished, joined = files.beside(place, "unfinished"), files.beside(place, "joined")
    alone = format in _TEXTS and format_of(place, compressed=False) in _TEXTS and not place.endswith("/")
    try:
        if not alone:
            found = save(matches, unfinished, format, "overwrite")
            files.replace(place, unfinished)
            return found
        found = save(matches, unfinished, format, "overwrite", header=False)
        files.join(unfinished, joined, _head(matches) if format == "csv" else "")
        files.replace(place, joined)
        return found
    finally:
        files.delete(unfinished)
        files.delete(joined)


_TEXTS = ("csv", "json")


def _head(matches: DataFrame) -> str:
    """The first line of a CSV file, quoted as Spark quotes the others."""
    return ",".join(_cell(name) for name, _ in _flat(matches)) + "\n"


def _cell(name: str) -> str:
    return '"' + name.replace('"', '\\"') + '"' if set(name) & set(' ,"\r\n') else name


def print_all(matches: DataFrame, format: str) -> int:
    """Prints every match as a line of CSV or JSON, however many there are: Spark keeps them on disk meanwhile."""
    if format not in _TEXTS:
        raise SaseRunError(f"{format} cannot be printed: add --out-format csv or json, or name a file with --out")
    if format == "csv":
        line = F.to_csv(F.struct(*(column.alias(name) for name, column in _flat(matches))))
    else:
        line = _json(matches)
    lines = matches.select(line.alias("line")).persist(StorageLevel.DISK_ONLY)
    try:
        found = lines.count()
        sys.stdout.write(_head(matches) if format == "csv" else "")
        for row in lines.toLocalIterator():
            sys.stdout.write(f"{row.line}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        lines.unpersist()
    return found


def save(matches: DataFrame, place: str, format: str, mode: str, **options: Any) -> int:
    """Writes the matches and returns how many there were."""
    observation = Observation()
    write(matches.observe(observation, F.count(F.lit(1)).alias("matches")), place, format, mode, **options)
    return _observed(observation)


def write(matches: DataFrame, place: str, format: str, mode: str, **options: Any) -> None:
    if format == "csv":
        matches = matches.select([column.alias(name) for name, column in _flat(matches)])
        options.setdefault("header", True)
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


def there_already(place: str, option: str = "--out") -> SaseRunError:
    return SaseRunError(f"{place} exists: add --overwrite to replace it, or choose another {option}")


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
    print(_tabulated(matches, rows), end="")
    if found > len(rows):
        print(f"… {found - len(rows):,} more")
    return found


def show_ordered(rows: DataFrame, limit: int) -> int | None:
    """Prints the first rows in the order that they have. How many there are is known if that is all of them."""
    leaves = list(leaf_columns(rows.schema))
    texts = rows.select([column.alias(f"_{at}") for at, (_, _, column) in enumerate(leaves)])
    shown = texts.select([as_text(f"_{at}", kind) for at, (_, kind, _) in enumerate(leaves)]).head(limit + 1)
    if not shown:
        print("no matches")
        return 0
    print(_tabulated(rows, shown[:limit]), end="")
    if len(shown) > limit:
        print("… more")
        return None
    return len(shown)


def _tabulated(matches: DataFrame, rows: Sequence[Row]) -> str:
    leaves = list(leaf_columns(matches.schema))
    header = [".".join(path) for path, _, _ in leaves]
    return table(header, rows, [isinstance(kind, NumericType) for _, kind, _ in leaves])


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
