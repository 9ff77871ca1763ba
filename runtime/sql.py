"""The front door of a job that was compiled from SQL: tables, running, writing, summary."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sase.runtime.arguments import (
    LIMIT,
    add_format_arguments,
    add_output_arguments,
    add_table_argument,
    csv_given,
    refuse_idle,
)
from sase.runtime.errors import SaseRunError, exiting, explained
from sase.runtime.events import Csv
from sase.runtime.interrupt import interruptible
from sase.runtime.io.files import Files, few
from sase.runtime.io.formats import Input
from sase.runtime.io.inputs import find, inferred
from sase.runtime.io.output import STDOUT, show_ordered
from sase.runtime.io.report import duration
from sase.runtime.job import deliver, protect
from sase.runtime.rows import Options
from sase.runtime.session import has_steady_clocks, session

QueryRows = Callable[[SparkSession, Options], DataFrame]


def main(
    query: QueryRows, *, name: str, tables: Sequence[str], ordered: bool, argv: Sequence[str] | None = None
) -> None:
    """Runs a job from the command line; says what is wrong and exits with 1 where it cannot."""
    parser = argparse.ArgumentParser(description=f"Runs a query over {', '.join(tables) or 'nothing'}.")
    add_table_argument(parser)
    add_format_arguments(parser)
    add_output_arguments(parser)
    parser.add_argument("--verbose", action="store_true", help="show Spark's own log, and the trace of an error")
    arguments = parser.parse_args(argv)
    with exiting(arguments.verbose):
        interruptible(lambda: run_sql(query, arguments, name=name, ordered=ordered))


def run_sql(query: QueryRows, arguments: argparse.Namespace, *, name: str = "sase", ordered: bool = False) -> int:
    """Writes or prints the rows of a query, and sums up on stderr. What goes wrong is a SaseRunError."""
    started = time.perf_counter()
    arguments.late_out = None
    refuse_idle(arguments)
    with explained():
        spark, inputs = open_tables(arguments, name)
        out = None if arguments.out == STDOUT else arguments.out
        if out:
            protect(Files(spark), "--out", out, arguments.overwrite, inputs)
        rows = query(spark, Options(warn=lambda text: print(f"warning: {text}", file=sys.stderr)))
        if arguments.out is None and ordered:
            found = show_ordered(rows, arguments.limit or LIMIT)
        else:
            found = deliver(rows, arguments)
    counted = [] if found is None else [f"{found:,} row{'' if found == 1 else 's'}"]
    print(" · ".join([*counted, duration(time.perf_counter() - started)]), file=sys.stderr)
    if out:
        print(f"wrote {found:,} row{'' if found == 1 else 's'} to {out}", file=sys.stderr)
    return 0


def open_tables(arguments: argparse.Namespace, name: str = "sase") -> tuple[SparkSession, list[Input]]:
    """A session in which the tables of --table are views."""
    with explained():
        spark = session(name, arguments.verbose, brief=few(arguments.table))
        return spark, [registered(spark, spec, arguments) for spec in arguments.table]


def named(spec: str) -> tuple[str, str]:
    """The name and the place of a --table."""
    name, equals, place = spec.partition("=")
    if not equals or not name.strip() or not place:
        raise SaseRunError(f"--table takes NAME=PATH, and not {spec}")
    if "." in name:
        raise SaseRunError(
            f"--table {spec}: a name with a dot is that of a table in a database: leave the database out"
        )
    return name, place


def registered(spark: SparkSession, spec: str, arguments: argparse.Namespace) -> Input:
    """A table under the name that the query has for it: a temporary view."""
    name, place = named(spec)
    found = find(spark, None, place, arguments.format, Csv(**csv_given(arguments)))
    inferred(spark, found).createOrReplaceTempView(name)
    return found


def need_steady_clocks(spark: SparkSession) -> None:
    """Where clocks change, an hour of theirs is not always an hour, and Spark computes with what clocks show."""
    if not has_steady_clocks(spark):
        zone = spark.conf.get("spark.sql.session.timeZone")
        raise SaseRunError(
            f"this job was compiled for clocks that never change, and those of {zone} may: "
            "set spark.sql.session.timeZone to UTC, or compile it again in such a session"
        )


def columns_of(spark: SparkSession, query: str) -> list[tuple[str, str]] | None:
    """Names and types of a query's columns; None where Spark cannot read it."""
    try:
        return [(field.name, field.dataType.simpleString()) for field in spark.sql(query).schema.fields]
    except PySparkException:
        return None


@dataclass(frozen=True)
class Fingerprint:
    """Of a bag of rows: equal bags have equal ones, and others hardly ever."""

    rows: int
    hashes: int


def fingerprint(rows: DataFrame) -> Fingerprint:
    """Runs the query. Values are compared as JSON writes them, by their place, whatever their columns are called."""
    named = rows.toDF(*(f"c{at}" for at in range(len(rows.columns))))
    text = F.to_json(F.struct(*named.columns), {"ignoreNullFields": "false"})
    hashed = named.select(F.xxhash64(text).cast("decimal(38,0)").alias("hash"))
    found = hashed.agg(F.count("*").alias("rows"), F.coalesce(F.sum("hash"), F.lit(0)).alias("hashes")).first()
    assert found is not None
    return Fingerprint(found["rows"], int(found["hashes"]))
