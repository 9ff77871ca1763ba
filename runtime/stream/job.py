"""The front door of a streaming job, and of `sase run --stream`: arguments, sources, and a run until it is stopped."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.utils import is_remote

from sase.runtime.arguments import AVAILABLE_NOW, add_arguments, add_stream_arguments, csv_given, refuse_idle
from sase.runtime.errors import SaseRunError, exiting, explained, failure
from sase.runtime.events import CORRUPT, Source, expected, shared_types
from sase.runtime.interrupt import noted
from sase.runtime.io import delta, formats, inputs, output
from sase.runtime.io.files import Files, format_of, lies_in
from sase.runtime.places import Place, placed
from sase.runtime.session import session
from sase.runtime.stream.sink import Checkpoint, Places, Sink
from sase.runtime.stream.ssc import Stream, kept_at
from sase.runtime.stream.status import Line, StatusLine
from sase.runtime.stream.together import Together
from sase.runtime.stream.watch import Options

Tables = list[tuple[str | None, DataFrame]]
Follow = Callable[[Any, Options], Stream]
Read = Callable[[SparkSession, argparse.Namespace], Tables]

EXAMPLES = """\
examples:
  {prog} --events incoming/ --out matches/ --checkpoint ckpt/ --max-delay "10 minutes"
  {prog} --events incoming/ --out matches/ --checkpoint ckpt/ --trigger available-now
"""


# ---- the command line ---------------------------------------------------------------------------


def main(
    follow: Follow,
    read: Read,
    source: Source,
    *,
    name: str,
    state: str | None,
    default_events: str | None = None,
    places: Sequence[Place] = (),
    argv: Sequence[str] | None = None,
) -> None:
    """Runs a streaming job from the command line, until it is stopped; exits with 1 where it cannot go on."""
    parser = argparse.ArgumentParser(
        description="Finds the matches of a query in a stream of events.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.epilog = EXAMPLES.format(prog=parser.prog)
    add_arguments(parser)
    add_stream_arguments(parser)
    arguments = parser.parse_args(argv)
    with exiting(arguments.verbose), placed(places):
        run_stream(follow, read, source, arguments, default_events, name=name, state=state)


def run_stream(
    follow: Follow,
    read: Read,
    source: Source,
    arguments: argparse.Namespace,
    default_events: str | None = None,
    *,
    name: str = "sase",
    state: str | None,
) -> int:
    """Runs until interrupted, or, with --trigger available-now, until all that is there is processed."""

    def followed(spark: SparkSession, options: Options) -> Stream:
        return follow(read(spark, arguments), options)

    def sources(files: Files) -> list[str]:
        arguments.events = inputs.specs(arguments, default_events)
        return places_of_events(files, arguments, source)

    return run_until_stopped(followed, sources, arguments, name=name, state=state)


def places_of_events(files: Files, arguments: argparse.Namespace, source: Source) -> list[str]:
    return [location for _, location in (inputs.split(files, spec, source.types) for spec in arguments.events)]


def run_until_stopped(
    follow: Callable[[SparkSession, Options], Stream | Together],
    sources: Callable[[Files], Sequence[str]],
    arguments: argparse.Namespace,
    *,
    name: str,
    state: str | None,
) -> int:
    """What streams of events and of tables have in common; `sources` are the places that rows come from."""
    options = refuse_misfits(arguments)
    with explained():
        spark = begun(name, arguments)
        outlet = Outlet.of(spark, arguments, sources(Files(spark)), state, options)
        with partitions(spark, options.buckets):
            stream = follow(spark, options)
        query, sink = outlet.start(stream, spark, name)
    wait([query], sink.failed, StatusLine(stream.time_kind, sink))
    return 0


def refuse_misfits(arguments: argparse.Namespace) -> Options:
    """What the options come to, unless they are not for streams."""
    refuse_idle(arguments)
    if arguments.out == output.STDOUT:
        raise SaseRunError("--out - is not for streams: without --out, a stream prints its matches as they come")
    if arguments.out and not arguments.checkpoint:
        raise SaseRunError("--out needs --checkpoint DIR: without one, a restart would write matches twice")
    if arguments.strict:
        raise SaseRunError("--strict is not for streams: what cannot take part goes to --late-out")
    if arguments.overwrite:
        raise SaseRunError("--overwrite is not for streams: a stream adds to what it has written")
    return Options(arguments.max_delay, arguments.max_window_events_per_key, arguments.buckets)


def begun(name: str, arguments: argparse.Namespace) -> SparkSession:
    spark = session(name, arguments.verbose, bar=False)
    if is_remote():
        raise SaseRunError(
            "with Spark Connect, micro-batches are written where Spark is, and not from here: submit the job "
            "to the cluster, or start the stream in Python, as query.run(events).writeStream…"
        )
    return spark


@dataclass(frozen=True)
class Outlet:
    """Where the results of one query go, and where it keeps its state."""

    arguments: argparse.Namespace
    places: Places
    checkpoint: Checkpoint
    resumed: bool

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        arguments: argparse.Namespace,
        sources: Sequence[str],
        state: str | None,
        options: Options,
    ) -> Outlet:
        """`sources` are the places that rows come from."""
        files, places = Files(spark), Places.of(arguments)
        _refuse_own(files, sources, [places.out, places.late, arguments.checkpoint])
        made_of = {"state": state, "buckets": options.buckets, **places.qualified(files)}
        checkpoint = Checkpoint(arguments.checkpoint, made_of)
        return cls(arguments, places, checkpoint, checkpoint.fits(files, places))

    def start(self, stream: Stream | Together, spark: SparkSession, name: str) -> tuple[Any, Sink]:
        arguments, places, checkpoint = self.arguments, self.places, self.checkpoint
        if places.out:
            output.refuse_misfits(stream.matches(), places.out, places.format)
        sink = Sink(stream, spark, arguments, places, self.resumed)
        writer = stream.packed.writeStream.foreachBatch(sink.write).queryName(name)
        if checkpoint.place:
            writer = writer.option("checkpointLocation", checkpoint.place)
            kept_at(spark, Files(spark).qualified(checkpoint.place))
        now = arguments.trigger == AVAILABLE_NOW
        writer = writer.trigger(**({"availableNow": True} if now else {"processingTime": arguments.trigger}))
        if not self.resumed:
            checkpoint.label(Files(spark))  # when nothing can be refused any more
        with partitions(spark, stream.buckets):
            return writer.start(), sink


def wait(queries: Sequence[Any], failed: Callable[[], SaseRunError | None], line: Line) -> None:
    """Until all have ended, one fails, or somebody interrupts."""
    with noted() as interrupted:
        try:
            while not (interrupted.is_set() or all([_terminated(query) for query in queries])):
                line.show(*(query.recentProgress for query in queries))
            for query in queries:
                query.stop()
        except Exception as error:
            for query in queries:
                with suppress(Exception):
                    query.stop()
            if not interrupted.is_set():
                raise failed() or failure(error) from error
        finally:
            with suppress(Exception):  # spark-submit ends its JVM at once
                line.take(*(query.recentProgress for query in queries))
            line.end()


@contextmanager
def partitions(spark: SparkSession, buckets: int) -> Iterator[None]:
    """As many partitions as cores, since each costs a state store; the session gets its own setting back."""
    before = str(spark.conf.get("spark.sql.shuffle.partitions"))
    spark.conf.set("spark.sql.shuffle.partitions", max(1, min(buckets, spark.sparkContext.defaultParallelism)))
    try:
        yield
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def _terminated(query: Any) -> bool:
    return bool(query.awaitTermination(0.3))


# ---- sources ------------------------------------------------------------------------------------


def file_streams(spark: SparkSession, arguments: argparse.Namespace, source: Source) -> Tables:
    """Streams of the files and tables that --events names, in the form that `watch` takes."""
    files = Files(spark)
    given = []
    for spec in arguments.events:
        event_type, location = inputs.split(files, spec, source.types)
        found = files.matching(location)
        known = arguments.format or (_format_there(files, location, found) if found else format_of(location))
        if known is None and inputs.is_table(spark, location):
            known = "table"
        if known is None:
            raise SaseRunError(f"nothing tells the format of {location}, where there are no files yet: add --format")
        if found and not found[0].isDirectory() and files.exists(location):
            raise SaseRunError(f"{location} is a file, and a stream follows a directory: name the one that it is in")
        paths = tuple(str(status.getPath()) for status in found or ())
        given.append(formats.Input(event_type, location, known, paths, replace(source.csv, **csv_given(arguments))))
    shared = shared_types([each.type for each in given], source)
    limit = {} if arguments.max_files_per_trigger is None else {"maxFilesPerTrigger": arguments.max_files_per_trigger}
    reader = spark.readStream.options(**limit)
    return [
        (each.type, _open(reader, spark, files, each, source, shared if each.type is None else [each.type]))
        for each in inputs.needed(given, source)
    ]


def _refuse_own(files: Files, locations: Iterable[str], places: Iterable[str | None]) -> None:
    """What a stream writes must not come in again as events."""
    ours = [(place, files.qualified(place)) for place in places if place]
    for location in locations:
        for folder in (str(status.getPath()) for status in files.matching(location) or ()):
            for place in (place for place, path in ours if lies_in(path, folder)):
                raise SaseRunError(f"{place} lies within {location}, where the events come from: choose another place")


def _format_there(files: Files, location: str, found: Iterable[Any]) -> str | None:
    try:
        return files.format(location, found)
    except SaseRunError as error:
        if "nothing tells" in str(error):
            return None
        raise


def _open(
    reader: DataStreamReader,
    spark: SparkSession,
    files: Files,
    each: formats.Input,
    source: Source,
    types: Collection[str],
) -> DataFrame:
    """One stream. Text that cannot be read does not stop it: it comes as a corrupt record."""
    columns = expected(source, types)
    there = any(files.has_data(path) for path in each.paths)
    match each.format:
        case "table":
            return reader.table(each.location)
        case "delta":
            if delta.provide(spark) or not delta.is_known(spark):
                raise SaseRunError(
                    f"{each.location} is a Delta table, and following one takes Delta's own package: spark-submit "
                    "--packages io.delta:delta-spark_2.13:<version>"
                )
            return reader.format("delta").load(each.location)
        case "json":
            names = formats.json_columns(spark, each, source, types, columns) if there else columns
            return reader.options(**formats.TOLERANT).json(each.location, formats.schema([*names, CORRUPT], columns))
        case "csv":
            if not there and not each.csv.header:
                raise SaseRunError(
                    f"{each.location} has no CSV file yet to tell the order of its columns: start when there is one"
                )
            return formats.csv(reader, spark, each, columns, source.type, types)
        case known if there:
            return formats.stored(spark, known, each.location, reader)
        case known:
            return reader.format(known).schema(formats.schema(list(columns), columns)).load(each.location)
