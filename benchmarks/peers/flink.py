"""Flink CEP: `followedByAny`, `notFollowedBy` and `within` are SASE's SEQ, negation and window.

The jars come from PyPI, without the Python packages around them, whose pins would fight with ours. Flink reads no
Parquet here: the same events are written to a file of plain integers, and are in memory before the clock runs. Its
time is that of the job, without the start of the JVM and after a warm-up on the first 50,000 events.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.data import ATTRIBUTES, Stream
from benchmarks.peers import OverLimit, Run, Taken, Task, Unavailable

if TYPE_CHECKING:
    from benchmarks.bench import Bench

LIBRARIES = "apache-flink-libraries==2.3.0"
_SOURCE = Path(__file__).with_name("FlinkSequence.java")
_START_UP = 60.0
"""Seconds that a JVM, its warm-up and the reading of the file may take beyond the limit of the run itself."""

# Flink's serialisers reflect into the JDK, as its own launch script allows.
_OPENS = [
    f"--add-opens=java.base/java.{package}=ALL-UNNAMED"
    for package in ("lang", "lang.invoke", "net", "io", "nio", "util", "util.concurrent", "time")
]


def prepare(bench: Bench, task: Task) -> Run:
    if not isinstance(task.source, Stream):
        raise Unavailable("the Flink peer reads streams of the paper's generator only")
    shape = task.shape
    arguments = [
        str(_exported(bench.parquet(task.source))),
        str(2 + len(ATTRIBUTES)),
        str(shape.length),
        str(shape.window),
        ",".join(str(ATTRIBUTES.index(name) + 1) for name in shape.equivalence),
        ",".join(map(str, shape.negations)),
        ",".join(condition.replace(" ", "") for condition in shape.where),
        str(bench.cores),
        str(getattr(shape, "loop", -1)),
    ]
    return started(bench, _SOURCE, arguments)


def started(bench: Bench, source: Path, arguments: list[str], start_up: float = _START_UP) -> Run:
    """A program that prints how much it has found, and in how many seconds."""
    classes = os.pathsep.join([str(_classes(bench.cache, source)), *map(str, _jars(bench.cache))])
    java = ["java", f"-Xmx{bench.memory_mb}m", *_OPENS, "-cp", classes, source.stem, *arguments]

    def run(limit: float, *, count: bool) -> Taken:
        try:
            answer = subprocess.run(java, capture_output=True, text=True, timeout=limit + start_up)
        except subprocess.TimeoutExpired:
            raise OverLimit from None
        if answer.returncode:
            raise RuntimeError(f"Flink failed: {answer.stderr.strip().splitlines()[0] if answer.stderr else ''}")
        matches, seconds = answer.stdout.split()[-2:]
        if float(seconds) > limit:
            raise OverLimit
        return Taken(float(seconds), int(matches))

    return run


def _jars(cache: Path) -> list[Path]:
    folder = cache / LIBRARIES.replace("==", "-")
    if not folder.exists():
        print(f"    fetching {LIBRARIES} (330 MB, once)", flush=True)
        staged = folder.with_suffix(f".{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(staged), LIBRARIES]
        answer = subprocess.run(pip, capture_output=True, text=True)
        if answer.returncode:
            raise Unavailable(f"{LIBRARIES} could not be fetched: {answer.stderr.strip().splitlines()[-1]}")
        staged.rename(folder)
    return sorted((folder / "pyflink" / "lib").glob("*.jar"))


def _classes(cache: Path, source: Path) -> Path:
    """The compiled peer. Compiled anew when its source is newer."""
    if not shutil.which("javac"):
        raise Unavailable("there is no javac on the PATH")
    folder = cache / "flink-classes"
    compiled = folder / f"{source.stem}.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        command = ["javac", "-d", str(folder), "-cp", os.pathsep.join(map(str, _jars(cache))), str(source)]
        subprocess.run(command, check=True)
    return folder


def _exported(parquet: Path) -> Path:
    """The events as rows of big-endian 64-bit integers, a type as its number."""
    path = parquet.with_suffix(".longs")
    if not path.exists():
        staged = path.with_suffix(f".{os.getpid()}")
        with pq.ParquetFile(parquet) as events, staged.open("wb") as file:
            for batch in events.iter_batches(1 << 20):
                numbers = pc.utf8_slice_codeunits(batch["type"], start=1).cast(pa.int64())
                columns = [batch["ts"], numbers, *(batch[name] for name in ATTRIBUTES)]
                np.stack([column.to_numpy() for column in columns], axis=1).astype(">i8").tofile(file)
        os.replace(staged, path)
    return path
