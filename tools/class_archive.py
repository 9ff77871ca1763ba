"""Archive the classes that Spark loads, so that a test's JVM maps them instead of reading them from 300 jars.

    python tools/class_archive.py FILE

A JVM starts in half the time with it, and the tests start some thirty. Java goes on without an archive that is missing,
empty or unfit, only slower; so if there is no way to make one, the file is left empty, and that is all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:NewSize=200m -XX:MetaspaceSize=256m"
)
"""What the tests tell Java, here and in conftest: their JVMs are short-lived, so one compiler will do, with room for
what it makes; and room for what Spark makes, which is garbage soon."""

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def main(archive: Path) -> None:
    say("Spark: archiving its classes for the tests")
    # In a process of its own, for what Java has to say about every class that it leaves out.
    exercised = [sys.executable, __file__, "--exercise", str(archive)]
    answer = subprocess.run(exercised, capture_output=True, text=True, check=False)
    if not archive.exists():
        say(f"Spark: no archive, and the tests take longer without ({answer.stderr.strip()[-200:]})")
        archive.touch()


def say(message: str) -> None:
    print(f"[setup] {message}", flush=True)


def exercise(archive: Path, scratch: Path) -> None:
    """Have Spark load what most jobs need: files in and out, and a query."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    import sase
    from sase.runtime.java import ensure_java

    ensure_java()
    os.environ["SPARK_SUBMIT_OPTS"] = f"{OPTIONS} -XX:ArchiveClassesAtExit='{archive}'"  # written when Java ends
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", False)
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    catalog = sase.Catalog.load(EXAMPLES / "retail.toml")
    query = sase.compile((EXAMPLES / "shoplifters.sase").read_text(encoding="utf-8"), catalog)
    events = spark.read.parquet(str(EXAMPLES / "data" / "retail.parquet"))
    query.run(events).write.csv(str(scratch / "matches"))
    gateway = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--exercise", archive]:
            with tempfile.TemporaryDirectory() as folder:
                exercise(Path(archive).resolve(), Path(folder))
        case [archive]:
            main(Path(archive))
