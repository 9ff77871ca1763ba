"""Streams: events per second against Flink CEP, the delay of a match, what buckets of keys gain, and a soak.

The stream is that of the batch measurements with 100,000 keys, most of them active at any time, as files that come one
after the other. Spark's start is no part of a time: it is warmed up before. Flink has its events in memory, as in the
batch measurements.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame

import sase
from benchmarks.bench import Bench
from benchmarks.data import Stream
from benchmarks.measure import Contender, Disagreement, Measurement, Result, Say, Scale, _entry, _outcome
from benchmarks.peers import Task, Unavailable, peers
from benchmarks.results import Results
from benchmarks.shape import Shape
from sase.runtime.pattern import Negated, Pattern
from sase.runtime.stream.bucket import Bucket, StreamTask

KEYS = 100_000
SHAPE = Shape(length=3, window=1_000_000, negations=(2,))
"""A window holds 200,000 relevant events: 86 of 100 keys have one in it."""

WARM_UP = 2
"""Micro-batches that are no part of a time."""

LIMIT = 400.0


def measurements(scale: Scale) -> tuple[Measurement, ...]:
    return (
        Throughput(scale.events(72_000_000), scale.rounds(3), 20, micro_batches=3),
        Throughput(scale.events(6_000_000), scale.rounds(1), 4, micro_batches=3),
        Delay(scale.events(3_000_000)),
        Buckets(scale.events(300_000)),
        Soak(scale.events(20_000_000)),
    )


# ---- the stream ---------------------------------------------------------------------------------


@dataclass
class Batch:
    """A micro-batch, as the sink saw it."""

    ended: float
    seconds: float
    last: NDArray[np.int64]
    """The times of the last events of its matches."""
    state: int


def follow(bench: Bench, query: sase.Query, folder: Path, buckets: int = 8, files: int = 1) -> tuple[Any, list[Batch]]:
    """The running query on the files of a folder, so many per micro-batch, and what it has done so far."""
    spark = bench.spark
    spark.conf.set("spark.sql.shuffle.partitions", bench.cores)
    schema = spark.read.parquet(str(folder)).schema
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))
    stream = query.follow(events, buckets=buckets)
    batches: list[Batch] = []

    def sink(packed: DataFrame, number: int) -> None:
        started = time.time()
        packed = packed.persist()
        rows = packed.select("kind", "size").collect()
        last = np.empty(0, np.int64)
        if any(kind == "match" for kind, _ in rows):
            last = stream.matches(packed).select("e3_ts").toArrow().column(0).to_numpy()
        packed.unpersist()
        ended = time.time()
        batches.append(Batch(ended, ended - started, last, sum(size for kind, size in rows if kind == "state")))

    return stream.packed.writeStream.foreachBatch(sink).start(), batches


def cut(table: pa.Table, size: int) -> Iterator[pa.Table]:
    for begin in range(0, table.num_rows, size):
        yield table.slice(begin, size)


def publish(part: pa.Table, folder: Path, number: int) -> None:
    """The file appears at once, and after those with lower numbers."""
    staged = folder / f".{number:06}"
    pq.write_table(part, staged, row_group_size=part.num_rows // 4 + 1)
    os.utime(staged, (1_000_000_000 + number,) * 2)
    staged.rename(folder / f"{number:06}.parquet")


@contextmanager
def emptied(folder: Path) -> Iterator[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compiled(source: Stream, shape: Shape = SHAPE) -> sase.Query:
    return sase.compile(shape.text, sase.Catalog(types=source.schema))


# ---- measurements -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Throughput:
    """As fast as it goes, in large micro-batches; the same matches as Flink's. Of 20 types the query names 4, so most
    events are dropped by a filter; of 4 types it names all. The time is that of the whole stream, as it is Flink's:
    from the first micro-batch to the one that finds the last matches. The stream is long enough for what comes once:
    Java goes on to compile what it runs, with either of them, and the last two micro-batches have one event."""

    events: int
    rounds: int
    types: int
    micro_batches: int

    @property
    def name(self) -> str:
        return f"stream-throughput-{self.types}-types"

    def run(self, bench: Bench, say: Say) -> Result:
        source = Stream(self.events, v1=KEYS, types=self.types)
        size = self.events // self.micro_batches
        ours = Contender("sase", "sase", source, SHAPE)
        theirs = Contender("flink", "flink", source, SHAPE)
        entries = {contender.label: _entry(contender) for contender in (ours, theirs)}
        with _outcome("sase", entries["sase"], LIMIT, bench, say), emptied(bench.cache / "incoming") as folder:
            table = pq.read_table(bench.parquet(source))
            for number, part in enumerate(cut(table, size // bench.cores + 1)):
                publish(part, folder, number)
            # A last event, so that the watermark passes all others.
            publish(table.slice(0, 1).set_column(0, "ts", pa.array([10 * self.events])), folder, 999_999)
            for _ in range(1 + self.rounds):  # the first warms up
                running, batches = follow(bench, compiled(source), folder, files=bench.cores)
                running.processAllAvailable()
                progress = running.recentProgress
                running.stop()
                times = [each.durationMs["triggerExecution"] / 1000 for each in progress]
                entries["sase"]["seconds"].append(sum(times))
            entries["sase"]["seconds"].pop(0)
            entries["sase"] |= {
                "rows": sum(len(batch.last) for batch in batches),
                "batch_events": size,
                "batch_seconds": times,
                "state_events": [batch.state for batch in batches],
            }
            say(f"sase: {self.events / statistics.median(entries['sase']['seconds']):,.0f} events/s")
        with _outcome("flink", entries["flink"], LIMIT, bench, say):
            run = peers()["flink"].prepare(bench, Task(source, SHAPE, {}))
            for _ in range(self.rounds):
                taken = run(LIMIT, count=True)
                entries["flink"]["seconds"].append(taken.seconds)
            entries["flink"]["rows"] = taken.rows
            say(f"flink: {self.events / statistics.median(entries['flink']['seconds']):,.0f} events/s")
        found = {entry["rows"] for entry in entries.values() if entry["status"] == "done"}
        if len(found) > 1:
            raise Disagreement(f"sase and Flink found {found} matches")
        return {"limit": LIMIT, "contenders": entries}


@dataclass(frozen=True)
class Delay:
    """A file per second. A match is due when a file has come that moves the watermark past its last event.

    A micro-batch takes all files that are there, so that one slow start does not delay all that follows.
    """

    events: int
    name: str = "stream-delay"
    batch: int = 100_000

    def run(self, bench: Bench, say: Say) -> Result:
        source = Stream(self.events, v1=KEYS)
        contender = Contender("sase", "sase", source, SHAPE)
        entry = _entry(contender)
        size = min(self.batch, self.events // 10)
        with _outcome("sase", entry, LIMIT, bench, say), emptied(bench.cache / "incoming") as folder:
            parts = list(cut(pq.read_table(bench.parquet(source)), size))
            published: list[float] = []
            running = None
            for number, part in enumerate(parts):
                started = time.time()
                publish(part, folder, number)
                published.append(time.time())
                if running is None:
                    running, batches = follow(bench, compiled(source), folder, files=100)
                if number < WARM_UP:
                    running.processAllAvailable()
                time.sleep(max(0.0, started + 1 - time.time()))
            running.processAllAvailable()
            running.stop()
            delays = []
            for done in batches:
                due = (done.last + 1) // size  # the file with the first event after it
                due = due[(due > WARM_UP) & (due < len(published))]
                delays += (done.ended - np.array(published)[due]).tolist()
            if not delays:
                raise Unavailable("the stream is too short for a match")
            p50, p99 = (float(np.percentile(delays, share)) for share in (50, 99))
            entry |= {"rows": len(delays), "seconds": [p50], "p50": p50, "p99": p99, "batch_events": size}
            say(
                f"{size:,} events per second: half of the matches {p50:.2f} s after they are due, 99 of 100 {p99:.2f} s"
            )
        return {"limit": LIMIT, "contenders": {"sase": entry}}


@dataclass(frozen=True)
class Buckets:
    """The same stream with few states of many keys, and with as many states as keys."""

    events: int
    name: str = "stream-buckets"
    keys: int = 1_000

    def run(self, bench: Bench, say: Say) -> Result:
        source = Stream(self.events, v1=self.keys)
        shape = Shape(length=3, window=20_000, negations=(2,))
        entries: dict[str, Result] = {}
        for buckets in (2, 8, 64, self.keys):
            label = f"{buckets} buckets"
            entries[label] = _entry(Contender(label, "sase", source, shape, {"buckets": buckets}))
            with _outcome(label, entries[label], LIMIT, bench, say), emptied(bench.cache / "incoming") as folder:
                for number, part in enumerate(cut(pq.read_table(bench.parquet(source)), self.events // 6)):
                    publish(part, folder, number)
                running, batches = follow(bench, compiled(source, shape), folder, buckets)
                running.processAllAvailable()
                progress = [each for each in running.recentProgress if each.numInputRows][WARM_UP:]
                running.stop()
                seconds = [each.durationMs["triggerExecution"] / 1000 for each in progress]
                entries[label] |= {"seconds": seconds, "rows": sum(len(batch.last) for batch in batches)}
                say(f"{label}: {statistics.median(seconds):.2f} s a micro-batch of {self.events // 6:,} events")
        return {"limit": LIMIT, "contenders": entries}


@dataclass(frozen=True)
class Soak:
    """The core alone, over thousands of windows: the state after every micro-batch."""

    events: int
    name: str = "stream-soak"
    window: int = 10_000
    batch: int = 100_000

    def run(self, bench: Bench, say: Say) -> Result:
        random = np.random.default_rng(1)
        task = StreamTask(
            Pattern(("x", "z"), (Negated("y", "z", None),), within=self.window), ("id",), "time", None, "states",
            (("x", ("time",)), ("z", ("time",))), 65_536, 0, True, shown=("time",),
        )  # fmt: skip
        bucket, state, sizes, matches = Bucket(task), None, [], 0
        started, size = time.perf_counter(), min(self.batch, self.events // 10)
        for begin in range(0, self.events, size):
            arrived = pa.table(
                {
                    "time": begin + random.permutation(size),
                    "id": random.integers(0, 10_000, size),
                    "states": np.choose(random.integers(0, 3, size), [1, 2, 4]),
                }
            )
            step = bucket.advance(state, arrived, begin)
            matches += sum(found.num_rows for found in step.matches)
            step = bucket.advance(step.state, None, begin + size)
            matches += sum(found.num_rows for found in step.matches)
            state = step.state
            sizes.append(0 if state is None else state.num_rows)
        seconds = time.perf_counter() - started
        early, later = max(sizes[: len(sizes) // 10 or 1]), max(sizes)
        windows = self.events // self.window
        say(f"{self.events:,} events, {windows:,} windows: {early:,} events in the state, then {later:,}")
        entry = {"peer": "core", "events": self.events, "rows": matches, "rows_are": "matches", "status": "done"}
        entry |= {
            "seconds": [seconds],
            "state_early": early,
            "state_most": later,
            "windows": self.events // self.window,
        }
        return {"limit": LIMIT, "contenders": {"core": entry}}


# ---- the report ---------------------------------------------------------------------------------


def section(results: Results) -> str:
    """What docs/benchmarks.md says about streams; empty where nothing has been measured."""
    lines = []
    for types in (20, 4):
        found = results.load(f"stream-throughput-{types}-types")
        if not found or not _done(found, "sase"):
            continue
        ours = found["contenders"]["sase"]
        rate = ours["events"] / statistics.median(ours["seconds"])
        text = f"{_short(rate)} events per second in micro-batches of {ours['batch_events']:,}"
        if _done(found, "flink"):
            theirs = found["contenders"]["flink"]
            other = theirs["events"] / statistics.median(theirs["seconds"])
            text += f"; Flink CEP {_short(other)}, with the same {ours['rows']:,} matches: {rate / other:.1f}×"
        what = f"{KEYS:,} keys, L = 3 with one negation, 4 of {types} types relevant"
        lines.append(f"- **Throughput**, {what}: {text} (to reach: 10×).")
    if (found := results.load("stream-delay")) and _done(found, "sase"):
        entry = found["contenders"]["sase"]
        lines.append(
            f"- **Delay** of a match beyond the watermark, at {entry['batch_events']:,} events per second: "
            f"p50 {entry['p50']:.2f} s, p99 {entry['p99']:.2f} s."
        )
    if found := results.load("stream-buckets"):
        times = ", ".join(
            f"{label} {statistics.median(entry['seconds']):.2f} s"
            for label, entry in found["contenders"].items()
            if entry["status"] == "done"
        )
        lines.append(f"- **Buckets of keys**, a micro-batch of a stream with 1,000 keys: {times}.")
    if (found := results.load("stream-soak")) and _done(found, "core"):
        entry = found["contenders"]["core"]
        lines.append(
            f"- **Soak**: {entry['events']:,} events over {entry['windows']:,} windows; at most "
            f"{entry['state_early']:,} events in the state in the first tenth, at most {entry['state_most']:,} in all."
        )
    return "## Streams\n\n" + "\n".join(lines) + "\n" if lines else ""


def _done(result: Result, label: str) -> bool:
    return bool(result["contenders"].get(label, {}).get("status") == "done")


def _short(number: float) -> str:
    return f"{number / 1e6:.2f} M" if number >= 1e6 else f"{number / 1e3:.0f} k"
