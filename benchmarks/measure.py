"""Measurements: contenders that take turns in one run, and the memory of Spark's Python workers.

Ratios mean something only between times of one run on one machine, so what is compared is one measurement, with one
result file, and is measured anew as a whole or not at all.
"""

from __future__ import annotations

import os
import statistics
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.bench import Bench
from benchmarks.data import Source
from benchmarks.peers import OverLimit, Run, Task, Unavailable, Verbatim, peers
from benchmarks.shape import Shape

Result = dict[str, Any]
Say = Callable[[str], None]

SLOW = 45.0
"""Seconds. A first run that takes longer is the only one: warming up is no part of it any more."""


class Disagreement(Exception):
    """Two peers found different numbers of matches."""


class Measurement(Protocol):
    @property
    def name(self) -> str:
        """Names the result file."""

    def run(self, bench: Bench, say: Say) -> Result: ...


@dataclass(frozen=True)
class Scale:
    """Full size, or a quick look at whether everything runs. The times of the latter mean nothing."""

    quick: bool = False

    def events(self, number: int) -> int:
        return min(number, 20_000) if self.quick else number

    def rounds(self, number: int) -> int:
        return 1 if self.quick else number

    def limit(self, seconds: float) -> float:
        return min(seconds, 60.0) if self.quick else seconds

    def grid(self, values: tuple[int, ...]) -> tuple[int, ...]:
        return (values[0], values[-1]) if self.quick else values


@dataclass(frozen=True)
class Contender:
    label: str
    peer: str
    source: Source
    query: Shape | Verbatim
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Race:
    """Each contender runs once to warm up and to count its matches, then all take turns for some rounds."""

    name: str
    contenders: tuple[Contender, ...]
    rounds: int
    limit: float

    def run(self, bench: Bench, say: Say) -> Result:
        entries = {contender.label: _entry(contender) for contender in self.contenders}
        for contender in self.contenders:
            entry = entries[contender.label]
            with _outcome(contender.label, entry, self.limit, bench, say):
                first = _prepared(bench, contender)(self.limit, count=True)
                entry["rows"] = first.rows
                if first.seconds > SLOW:
                    entry["seconds"].append(first.seconds)
                    entry["once"] = True
                    say(f"{contender.label}: {first.seconds:.1f} s, once")
        _agree(self.contenders, entries)
        quick = [c for c in self.contenders if entries[c.label]["status"] == "done" and not entries[c.label]["seconds"]]
        self._rounds(bench, quick, entries, say)
        return {"limit": self.limit, "contenders": entries}

    def _rounds(self, bench: Bench, contenders: list[Contender], entries: Mapping[str, Result], say: Say) -> None:
        """Prepared and warmed up anew: a contender that was stopped may have taken its JVM along."""
        runs: dict[str, Run] = {}
        for contender in contenders:
            with _outcome(contender.label, entries[contender.label], self.limit, bench, say):
                runs[contender.label] = _prepared(bench, contender)
                runs[contender.label](self.limit, count=False)
        for _ in range(self.rounds):
            for label, run in runs.items():
                if entries[label]["status"] == "done":
                    with _outcome(label, entries[label], self.limit, bench, say):
                        entries[label]["seconds"].append(run(self.limit, count=False).seconds)
        for label in runs:
            if entries[label]["status"] == "done":
                say(f"{label}: {statistics.median(entries[label]['seconds']):.2f} s")


@dataclass(frozen=True)
class WorkerMemory:
    """The most memory that any Python worker of a sase job ever held."""

    name: str
    contender: Contender
    limit: float

    def run(self, bench: Bench, say: Say) -> Result:
        if not Path("/proc/self/status").exists():
            return {"contenders": {}, "status": "unavailable", "reason": "peaks are read from /proc, which is not here"}
        bench.stop_spark()  # a worker's peak is that of its whole life
        contender, entry = self.contender, _entry(self.contender)
        with _outcome(contender.label, entry, self.limit, bench, say), _watched() as peaks:
            taken = _prepared(bench, contender)(self.limit, count=True)
            entry |= {"rows": taken.rows, "seconds": [taken.seconds]}
        if entry["status"] == "done":
            entry["peak_mb"] = round(max(peaks.values()) / 1024)
            say(f"{contender.label}: {entry['peak_mb']} MB at most in a worker, {entry['rows']:,} matches")
        return {"limit": self.limit, "contenders": {contender.label: entry}}


@dataclass(frozen=True)
class Cores:
    """One contender, in a session with one core and then in one with two, each warmed up."""

    name: str
    contender: Contender
    rounds: int
    limit: float

    def run(self, bench: Bench, say: Say) -> Result:
        entries = {}
        for cores in (1, 2):
            bench.abandon_spark()
            session, label = Bench(bench.cache, cores), f"{cores} core{'s' * (cores > 1)}"
            entry = entries[label] = _entry(self.contender)
            with _outcome(label, entry, self.limit, session, say):
                run = _prepared(session, self.contender)
                entry["rows"] = run(self.limit, count=True).rows
                for _ in range(self.rounds):  # Java has just started, and compiles what plans a query
                    run(self.limit, count=False)
                entry["seconds"] = [run(self.limit, count=False).seconds for _ in range(self.rounds)]
                say(f"{label}: {statistics.median(entry['seconds']):.2f} s")
            session.stop_spark()  # before its JVM is killed: else whoever listens to it complains
            session.abandon_spark()
        return {"limit": self.limit, "contenders": entries}


def _prepared(bench: Bench, contender: Contender) -> Run:
    task = Task(contender.source, contender.query, contender.options)
    return peers()[contender.peer].prepare(bench, task)


def _entry(contender: Contender) -> Result:
    return {
        "peer": contender.peer,
        "rows_are": peers()[contender.peer].rows,
        "events": contender.source.events,
        "stream": asdict(contender.source),
        "query": contender.query.text,
        "options": dict(contender.options),
        "status": "done",
        "rows": None,
        "seconds": [],
    }


@contextmanager
def _outcome(label: str, entry: Result, limit: float, bench: Bench, say: Say) -> Iterator[None]:
    """What goes wrong in one contender is its result, and no reason to stop; nor may it weigh on the next one."""
    try:
        yield
    except Unavailable as error:
        entry |= {"status": "unavailable", "reason": str(error)}
    except OverLimit:
        entry |= {"status": "over limit", "seconds": []}
        bench.abandon_spark()
    except Exception as error:
        bench.abandon_spark()
        entry |= {"status": "failed", "reason": (str(error).splitlines() or [type(error).__name__])[0][:200]}
    if entry["status"] != "done":
        reason = f"over {limit:.0f} s" if entry["status"] == "over limit" else f"{entry['status']}: {entry['reason']}"
        say(f"{label}: {reason}")


def _agree(contenders: tuple[Contender, ...], entries: Mapping[str, Result]) -> None:
    """Same events, same query, same number of matches: in whatever way it was evaluated."""
    found: dict[tuple[Source, Shape | Verbatim], dict[str, int]] = {}
    for contender in contenders:
        entry = entries[contender.label]
        if entry["rows_are"] == "matches" and entry["status"] == "done":
            found.setdefault((contender.source, contender.query), {})[contender.label] = entry["rows"]
    for counts in found.values():
        if len(set(counts.values())) > 1:
            raise Disagreement(", ".join(f"{label} found {rows:,}" for label, rows in counts.items()))


@contextmanager
def _watched() -> Iterator[dict[int, int]]:
    """The peak of resident memory of each Spark Python worker below this process, in KB, kept up to date."""
    peaks: dict[int, int] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            peaks.update(_worker_peaks())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        done.set()
        thread.join()


def _worker_peaks() -> dict[int, int]:
    status: dict[int, dict[str, str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines = (folder / "status").read_text().splitlines()
            if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                status[int(folder.name)] = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            else:
                status[int(folder.name)] = {"PPid": next(line for line in lines if line.startswith("PPid")).split()[1]}
        except (OSError, StopIteration):  # it has ended meanwhile
            continue
    return {
        process: int(facts["VmHWM"].split()[0])
        for process, facts in status.items()
        if "VmHWM" in facts and _descends(process, status)
    }


def _descends(process: int, status: Mapping[int, Mapping[str, str]]) -> bool:
    parent = process
    while parent in status:
        parent = int(status[parent]["PPid"])
        if parent == os.getpid():
            return True
    return False
