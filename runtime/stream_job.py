"""The front door of a streaming job, and of `sase run --stream`: arguments, sources, sinks, restart, a live line."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.utils import is_remote

from sase.runtime import delta, inputs, job, output
from sase.runtime.errors import SaseRunError, explain, explained
from sase.runtime.events import Source, expected, shared_types
from sase.runtime.live_worker import EPOCH
from sase.runtime.report import duration
from sase.runtime.session import session
from sase.runtime.stream import CORRUPT, Options, Stream

Tables = list[tuple[str | None, DataFrame]]
Follow = Callable[[Any, Options], Stream]
Read = Callable[[SparkSession, argparse.Namespace], Tables]

EXAMPLES = """\
examples:
  {prog} --events incoming/ --out matches/ --checkpoint ckpt/ --max-delay "10 minutes"
  {prog} --events incoming/ --out matches/ --checkpoint ckpt/ --trigger available-now
"""

AVAILABLE_NOW = "available-now"


# ---- the command line ---------------------------------------------------------------------------


def main(
    follow: Follow,
    read: Read,
    source: Source,
    *,
    name: str,
    state: str | None,
    default_events: str | None = None,
    argv: Sequence[str] | None = None,
) -> None:
    """Runs a streaming job from the command line, until it is stopped; exits with 1 where it cannot go on."""
    parser = argparse.ArgumentParser(
        description="Finds the matches of a query in a stream of events.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.epilog = EXAMPLES.format(prog=parser.prog)
    job.add_arguments(parser)
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    try:
        run_stream(follow, read, source, arguments, default_events, name=name, state=state)
    except SaseRunError as error:
        if arguments.verbose:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("stream")
    group.add_argument(
        "--checkpoint", metavar="DIR", help="where Spark keeps the state, so that a restart goes on where it stopped"
    )
    group.add_argument(
        "--max-delay",
        metavar="DELAY",
        default="0",
        help="how far behind the latest event another one may arrive and still take part: '10 minutes', or a number "
        "in the units of an integer time (default: %(default)s)",
    )
    group.add_argument("--late-out", metavar="DIR", help="where late and bad events go, as JSON (default: OUT-late)")
    group.add_argument(
        "--trigger",
        metavar="INTERVAL",
        default="0 seconds",
        help=f"a micro-batch every '10 seconds', or {AVAILABLE_NOW}: process what is there and stop (default: one "
        "after the other)",
    )
    group.add_argument(
        "--max-files-per-trigger", metavar="N", type=job.positive, help="at most so many new files a micro-batch"
    )
    group.add_argument(
        "--max-state-events-per-key",
        metavar="N",
        type=job.positive,
        help="fail if the window holds more events of a key",
    )
    group.add_argument(
        "--buckets",
        metavar="N",
        type=job.positive,
        default=Options.buckets,
        help="how many states the keys are spread over; fixed for the life of a checkpoint (default: %(default)s)",
    )


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
    if arguments.out and not arguments.checkpoint:
        raise SaseRunError("--out needs --checkpoint DIR: without one, a restart would write matches twice")
    if arguments.overwrite:
        raise SaseRunError("--overwrite is not for streams: a stream adds to what it has written")
    options = Options(arguments.max_delay, arguments.max_state_events_per_key, arguments.buckets)
    arguments.events = inputs.specs(arguments, default_events)
    with explained():
        spark = session(name, arguments.verbose, bar=False)
        if is_remote():
            raise SaseRunError(
                "with Spark Connect, micro-batches are written where Spark is, and not from here: submit the job "
                "to the cluster, or start the stream in Python, as query.run(events).writeStream…"
            )
        files = inputs.Files(spark)
        places = Places.of(arguments)
        made_of = {"state": state, "buckets": options.buckets, **places.qualified(files)}
        checkpoint = Checkpoint(arguments.checkpoint, made_of)
        resumed = checkpoint.fits(files, places)
        with _partitions(spark, options.buckets):
            stream = follow(read(spark, arguments), options)
        if places.out:
            output.refuse_misfits(stream.matches(), places.out, places.format)
        sink = Sink(stream, spark, arguments, places, resumed)
        writer = stream.packed.writeStream.foreachBatch(sink.write).queryName(name)
        if checkpoint.place:
            writer = writer.option("checkpointLocation", checkpoint.place)
        trigger = (
            {"availableNow": True} if arguments.trigger == AVAILABLE_NOW else {"processingTime": arguments.trigger}
        )
        writer = writer.trigger(**trigger)
        if not resumed:
            checkpoint.label(files)  # when nothing can be refused any more
        with _partitions(spark, stream.buckets):
            query = writer.start()
    line = LiveLine(source.time_kind, sink)
    with _interruptible() as interrupted:
        try:
            while not (interrupted.is_set() or _terminated(query)):
                line.show(query.recentProgress)
            query.stop()
        except Exception as error:
            if not interrupted.is_set():
                raise SaseRunError(_cause(error)) from error
        finally:
            with suppress(Exception):  # spark-submit ends its JVM at once
                line.take(query.recentProgress)
            line.end()
    return 0


@contextmanager
def _partitions(spark: SparkSession, buckets: int) -> Iterator[None]:
    """As many partitions as cores, since each costs a state store; the session gets its own setting back."""
    before = str(spark.conf.get("spark.sql.shuffle.partitions"))
    spark.conf.set("spark.sql.shuffle.partitions", max(1, min(buckets, spark.sparkContext.defaultParallelism)))
    try:
        yield
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Ctrl-C as a flag. As an exception it would hit a call to the JVM half-way, and break the connection to it."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _terminated(query: Any) -> bool:
    return bool(query.awaitTermination(0.3))


def _cause(error: Exception) -> str:
    """Our own message where a worker has raised one; else what Spark's exception comes down to."""
    ours = re.search(r"SaseRunError: (.+)", str(error))
    return ours[1] if ours else explain(error)


# ---- sources ------------------------------------------------------------------------------------


def file_streams(spark: SparkSession, arguments: argparse.Namespace, source: Source) -> Tables:
    """Streams of the files and tables that --events names, in the form that `watch` takes."""
    files = inputs.Files(spark)
    given = []
    for spec in arguments.events:
        event_type, location = inputs.split(files, spec, source.types)
        found = files.matching(location)
        known = arguments.format or (_format_there(files, location, found) if found else inputs.format_of(location))
        if known is None and inputs.is_table(spark, location):
            known = "table"
        if known is None:
            raise SaseRunError(f"nothing tells the format of {location}, where there are no files yet: add --format")
        if found and not found[0].isDirectory() and files.exists(location):
            raise SaseRunError(f"{location} is a file, and a stream follows a directory: name the one that it is in")
        paths = tuple(str(status.getPath()) for status in found or ())
        for ours in filter(None, (arguments.out, arguments.late_out, arguments.checkpoint)):
            if any(f"{files.qualified(ours)}/".startswith(f"{path}/") for path in paths):
                raise SaseRunError(f"{ours} lies within {location}, where the events come from: choose another place")
        given.append(inputs.Input(event_type, location, known, paths))
    shared = shared_types([each.type for each in given], source)
    limit = {} if arguments.max_files_per_trigger is None else {"maxFilesPerTrigger": arguments.max_files_per_trigger}
    reader = spark.readStream.options(**limit)
    return [
        (each.type, _open(reader, spark, files, each, source, shared if each.type is None else [each.type]))
        for each in inputs.needed(given, source)
    ]


def _format_there(files: inputs.Files, location: str, found: Iterable[Any]) -> str | None:
    try:
        return files.format(location, found)
    except SaseRunError as error:
        if "nothing tells" in str(error):
            return None
        raise


def _open(
    reader: DataStreamReader,
    spark: SparkSession,
    files: inputs.Files,
    each: inputs.Input,
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
            names = inputs.json_columns(spark, each, source, types, columns) if there else columns
            schema = inputs.schema([*names, CORRUPT], columns)
            return reader.json(each.location, schema, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT)
        case "csv":
            if not there:
                raise SaseRunError(
                    f"{each.location} has no CSV file yet to tell the order of its columns: start when there is one"
                )
            header = spark.read.csv(each.location, header=True).columns
            schema = inputs.schema([*header, CORRUPT], columns)
            # Without enforceSchema, the header of each file is compared with these names.
            known = reader.options(
                header=True, enforceSchema=False, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT
            )
            return known.csv(each.location, schema)
        case known:
            schema = (
                spark.read.format(known).load(each.location).schema if there else inputs.schema(list(columns), columns)
            )
            return reader.format(known).schema(schema).load(each.location)


# ---- the checkpoint -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Checkpoint:
    """Where Spark keeps the state; a file in it says what that is made of."""

    place: str | None
    made_of: Mapping[str, Any]

    def fits(self, files: inputs.Files, places: Places) -> bool:
        """Whether there is one to go on from.

        Refuses a state that belongs to another query, and an output that belongs to another checkpoint.
        """
        if self.place is None:
            return False
        if (known := files.read(self._label)) is None:
            if files.has_data(self.place):
                raise SaseRunError(
                    f"{self.place} is the checkpoint of another program, or no checkpoint at all: choose another"
                )
            for place in filter(None, (places.out, places.late)):
                if files.has_data(place):
                    raise SaseRunError(
                        f"{place} has data, and {self.place} is a new checkpoint: choose another place, or the "
                        "--checkpoint that belongs to it"
                    )
            return False
        before = json.loads(known)
        differ = [name for name, value in self.made_of.items() if before.get(name) != value]
        if differ:
            raise SaseRunError(
                f"{self.place} has {self._other(differ[0], before)}: start with a new --checkpoint and --out, or go "
                "back to what it was made with. (Conditions between events and RETURN may change as long as they read "
                "the same attributes.)"
            )
        return True

    def _other(self, name: str, before: Mapping[str, Any]) -> str:
        match name:
            case "state":
                return "the state of another query, or of another version of this one"
            case "buckets":
                return f"{before[name]} buckets of keys, and not {self.made_of[name]}"
            case _:
                option = {"out": "--out", "late": "--late-out", "format": "--out-format"}[name]
                return f"{option} {before.get(name) or 'nowhere'}, and not {self.made_of[name] or 'nowhere'}"

    def label(self, files: inputs.Files) -> None:
        if self.place is not None:
            # Whole or not at all: this moment, too, is one to be killed at.
            hidden = f"{self.place.rstrip('/')}/_sase.json"
            files.write(hidden, json.dumps(self.made_of))
            files.rename(hidden, self._label)

    @property
    def _label(self) -> str:
        return f"{(self.place or '').rstrip('/')}/sase.json"


# ---- sinks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """Where matches and rejected events go; None where they are printed."""

    out: str | None
    format: str
    late: str | None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Places:
        format = arguments.out_format or inputs.format_of(arguments.out or "") or "parquet"
        out = arguments.out and arguments.out.rstrip("/")
        return cls(out, format, arguments.late_out or (out and f"{out}-late"))

    def qualified(self, files: inputs.Files) -> dict[str, str | None]:
        out, late = (place and files.qualified(place) for place in (self.out, self.late))
        return {"out": out, "format": self.format, "late": late}


@dataclass
class Sink:
    """Writes each micro-batch once: a batch that is repeated after a crash finds its output there, or no trace of it.

    Files of batch N appear together, by renaming their directory to `batch=N`. Delta is told the batch's number and
    drops a repetition by itself.
    """

    stream: Stream
    spark: SparkSession
    arguments: argparse.Namespace
    places: Places
    resumed: bool
    rejected: int = 0
    matches: int = 0
    states: dict[int, int] = field(default_factory=dict)

    @property
    def remembered(self) -> str:
        """How many events. After a restart, a bucket that has not worked yet may have some."""
        unknown = self.resumed and len(self.states) < self.stream.buckets
        return f"{'≥ ' if unknown else ''}{sum(self.states.values()):,}"

    def write(self, packed: DataFrame, batch: int) -> None:
        packed = packed.persist()
        try:
            with explained():
                self._write(packed, batch)
        finally:
            packed.unpersist()

    def _write(self, packed: DataFrame, batch: int) -> None:
        rows = packed.select("bucket", "kind", "size").collect()
        sizes = {kind: sum(row["size"] for row in rows if row["kind"] == kind) for kind in ("match", "rejected")}
        if sizes["match"]:
            self.matches += self._matches(self.stream.matches(packed), batch)
        if sizes["rejected"]:
            self.rejected += sizes["rejected"]
            self._rejected(self.stream.rejected(packed), batch)
        self.states |= {row["bucket"]: row["size"] for row in rows if row["kind"] == "state"}

    def _matches(self, matches: DataFrame, batch: int) -> int:
        if self.places.out is None:
            return output.show(matches, self.arguments.limit)
        return self._save(matches, self.places.out, self.places.format, batch)

    def _rejected(self, rejected: DataFrame, batch: int) -> None:
        if self.places.late is None:
            print("rejected:", file=sys.stderr)
            for row in rejected.limit(5).toJSON().collect():
                print(f"  {row}", file=sys.stderr)
            return
        self._save(rejected, self.places.late, "json", batch)

    def _save(self, rows: DataFrame, place: str, format: str, batch: int) -> int:
        files = inputs.Files(self.spark)
        if format == "delta":
            # Spark's name for the checkpoint: it has one as long as it lives.
            name = json.loads(files.read(f"{self.arguments.checkpoint}/metadata") or "{}")["id"]
            # Not counted as it is written: of a repetition, nothing is.
            output.write(rows, place, format, "append", txnAppId=name, txnVersion=batch)
            return rows.count()
        target, unfinished = f"{place}/batch={batch}", f"{place}/_unfinished/{batch}"
        if files.exists(target):
            return 0  # written before a crash: the same events give the same rows
        found = output.save(rows, unfinished, format, "overwrite")
        files.rename(unfinished, target)
        return found


# ---- the live line ------------------------------------------------------------------------------


_NO_WATERMARK = "1970-01-01T00:00:00"
"""Where Spark's watermark stands before there is an event."""


class LiveLine:
    """One line on stderr: events in, late, state size, matches, watermark, latency. On a terminal it stays in place."""

    def __init__(self, time_kind: str, sink: Sink) -> None:
        self.time_kind = time_kind
        self.sink = sink
        self.begun = False
        self.seen = -1
        self.events = 0
        self.watermark = ""
        self.latency = 0.0
        self.shown = ""
        self.printed = 0.0

    def show(self, progress: Iterable[Any]) -> None:
        self.take(progress)
        text = self.text()
        if not self.begun or text == self.shown:
            return
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.printed >= 10:
            print(text, file=sys.stderr, flush=True)
            self.printed = time.monotonic()
        else:
            return
        self.shown = text

    def end(self) -> None:
        text = self.text()
        if self.begun and (sys.stderr.isatty() or text != self.shown):
            print(f"\r\x1b[K{text}" if sys.stderr.isatty() else text, file=sys.stderr, flush=True)

    def take(self, progress: Iterable[Any]) -> None:
        for each in progress:
            self.begun = True
            # While there is nothing to do, Spark reports the batch that will be next.
            if each.batchId <= self.seen or "addBatch" not in each.durationMs:
                continue
            self.seen = each.batchId
            self.events += each.numInputRows
            self.latency = each.durationMs.get("triggerExecution", 0) / 1000
            if (watermark := each.eventTime.get("watermark")) and not watermark.startswith(_NO_WATERMARK):
                self.watermark = self._moment(watermark)

    def _moment(self, text: str) -> str:
        if self.time_kind == "timestamp":
            return text.replace("T", " ").replace(".000Z", "").rstrip("Z")
        instant = getattr(self.sink.spark._jvm, "java.time.Instant")  # Python's years end with 9999
        return f"{instant.parse(text).toEpochMilli() - EPOCH:,}"

    def text(self) -> str:
        parts = [f"events in {self.events:,}", f"late or bad {self.sink.rejected:,}"]
        parts += [f"state {self.sink.remembered} events", f"matches {self.sink.matches:,}"]
        parts += [f"watermark {self.watermark or '-'}", f"latency {duration(self.latency)}"]
        return " · ".join(parts)
