"""The front door of a streaming job that was compiled from SQL: some tables are followed, the others are at rest."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from sase.runtime.arguments import (
    add_format_arguments,
    add_output_arguments,
    add_stream_arguments,
    add_table_argument,
    csv_given,
    positive,
)
from sase.runtime.errors import SaseRunError, exiting
from sase.runtime.events import Csv
from sase.runtime.io import delta, formats
from sase.runtime.io.files import Files
from sase.runtime.io.inputs import find, inferred
from sase.runtime.sql import named, registered
from sase.runtime.stream.job import run_until_stopped
from sase.runtime.stream.rows import Options, Stream
from sase.runtime.stream.together import Together

Follow = Callable[[SparkSession, Options], Stream | Together]


def main(
    follow: Follow,
    *,
    name: str,
    tables: Sequence[str],
    streams: Sequence[str],
    state: str,
    argv: Sequence[str] | None = None,
) -> None:
    """Runs a streaming job from the command line, until it is stopped; exits with 1 where it cannot go on."""
    parser = argparse.ArgumentParser(
        description=f"Follows {', '.join(streams)} with a query over {', '.join(tables)}. Files must appear at once: "
        "write them elsewhere, and move them in."
    )
    add_table_argument(parser)
    add_format_arguments(parser)
    add_output_arguments(parser)
    parser.add_argument("--late-out", metavar="DIR", help="where rows go that came too late (default: OUT-late)")
    parser.add_argument(
        "--max-window-events-per-key", metavar="N", type=positive, help="fail if more rows of a key are waiting"
    )
    parser.add_argument("--verbose", action="store_true", help="show Spark's own log, and the trace of an error")
    parser.set_defaults(strict=False)
    add_stream_arguments(parser)
    arguments = parser.parse_args(argv)
    with exiting(arguments.verbose):
        run_sql_stream(follow, arguments, name=name, streams=streams, state=state)


def run_sql_stream(
    follow: Follow, arguments: argparse.Namespace, *, name: str, streams: Sequence[str], state: str
) -> int:
    """Runs until interrupted, or, with --trigger available-now, until all that is there is processed."""

    def followed(spark: SparkSession, options: Options) -> Stream | Together:
        for spec in arguments.table:
            if _is(spec, streams):
                _follow(spark, spec, arguments)
            else:
                registered(spark, spec, arguments)
        return follow(spark, options)

    def sources(files: Files) -> list[str]:
        return [named(spec)[1] for spec in arguments.table if _is(spec, streams)]

    return run_until_stopped(followed, sources, arguments, name=name, state=state)


def _is(spec: str, streams: Sequence[str]) -> bool:
    return named(spec)[0].lower() in map(str.lower, streams)


def _follow(spark: SparkSession, spec: str, arguments: argparse.Namespace) -> None:
    """A view of the files that are there, and of those that are added to them. Their columns are those of the first."""
    name, place = named(spec)
    files = Files(spark)
    there = files.matching(place)
    if there and not there[0].isDirectory() and files.exists(place):
        raise SaseRunError(f"{place} is a file, and a stream follows a directory: name the one that it is in")
    if not any(files.has_data(str(status.getPath())) for status in there or ()) and there is not None:
        raise SaseRunError(f"{place} has no file yet to tell its columns: start when there is one")
    found = find(spark, None, place, arguments.format, Csv(**csv_given(arguments)))
    limit = {} if arguments.max_files_per_trigger is None else {"maxFilesPerTrigger": arguments.max_files_per_trigger}
    _opened(spark, spark.readStream.options(**limit), found).createOrReplaceTempView(name)


def _opened(spark: SparkSession, reader: DataStreamReader, found: formats.Input) -> DataFrame:
    match found.format:
        case "table":
            return reader.table(found.location)
        case "delta":
            if delta.provide(spark) or not delta.is_known(spark):
                raise SaseRunError(
                    f"{found.location} is a Delta table, and following one takes Delta's own package: spark-submit "
                    "--packages io.delta:delta-spark_2.13:<version>"
                )
            return reader.format("delta").load(found.location)
        case "csv":
            # Files with other columns, or in another order, fail the stream: they would be read by position.
            ordered = reader.schema(inferred(spark, found).schema).options(**found.csv.options)
            return ordered.option("enforceSchema", False).csv(found.location)
        case "json":
            return reader.schema(inferred(spark, found).schema).json(found.location)
        case known:
            return formats.stored(spark, known, found.location, reader)
