"""Make the archive of Spark's classes: `python -m sase.archive [FILE]`, without FILE where the next run looks for it.

`sase run` reads some events for it, in a Java that writes down its classes when it ends. If there is no way to make the
archive, an empty file says so, and nobody tries again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sase.runtime.archive import SILENT, archive, quoted
from sase.runtime.java import ensure_java

QUERY = """EVENT SEQ(A a, !(B b), C c) WHERE [id] AND a.name LIKE 'x%' AND a.v < c.v WITHIN 1 hour
RETURN a.id, a.name, c.ts - a.ts AS took, c.v + 1 AS v"""


def main(file: Path | None) -> None:
    java = ensure_java()
    file = file or archive(java)
    if file is None:
        return
    with open(f"{file}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another process is at it
        if not file.exists():
            os.nice(10)
            _make(file)
        os.unlink(lock.name)


def _make(file: Path) -> None:
    """In a process of its own, whose end is that of Java."""
    with tempfile.TemporaryDirectory(prefix="sase-") as folder:
        made = Path(folder, "spark.jsa")
        run = [sys.executable, "-m", "sase.archive", "--exercise", folder]
        # A Java that lives for seconds: to compile its code well costs more than it saves.
        options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={quoted(made)} {SILENT}"
        # Java's classes are the same whether or not its Python has compiled kernels.
        environment = os.environ | {"SPARK_SUBMIT_OPTS": options, "SASE_CLASS_ARCHIVE": "0", "SASE_JIT": "0"}
        subprocess.run(run, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        # Beside the file first: a temporary folder may be on another disk, and the file is there in one step.
        staged = file.with_name(f"{file.name}.staged")
        staged.unlink(missing_ok=True)
        if made.exists():
            shutil.copyfile(made, staged)
        else:
            staged.touch()
        os.replace(staged, file)


def _exercise(folder: Path) -> None:
    """What most runs do: events from files, a query, matches on the screen and in files."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark import SparkContext

    from sase.cli import main as sase

    ts = pa.array([0, 1_000_000, 2_000_000], pa.timestamp("us", tz="UTC"))
    columns = {"ts": ts, "type": ["A", "B", "C"], "id": [1, 2, 1], "name": ["x", "y", "z"], "v": [1.0, 2.0, 3.0]}
    events, query = folder / "events.parquet", folder / "query.sase"
    pq.write_table(pa.table(columns), events)
    query.write_text(QUERY, encoding="utf-8")
    for more in ([], ["--out", str(folder / "matches.csv")], ["--out", str(folder / "matches.parquet")]):
        sase(["run", str(query), "--events", str(events), *more])
    gateway = SparkContext._gateway
    assert gateway is not None and SparkContext._active_spark_context is not None
    SparkContext._active_spark_context.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # at which Java ends, and writes
    gateway.proc.wait()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--exercise", folder]:
            _exercise(Path(folder))
        case [file]:
            main(Path(file).resolve())
        case _:
            main(None)
