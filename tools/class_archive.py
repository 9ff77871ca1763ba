"""Archive the classes that Spark loads, so that a test's JVM maps them instead of reading them from 300 jars.

    python tools/class_archive.py FILE

A JVM starts in half the time with it, and the tests start some thirty. Java goes on without an archive that is missing
or does not fit, only slower.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def main(archive: Path) -> None:
    from sase.runtime.java import ensure_java

    ensure_java()
    # With the options that tests/conftest.py has. Java writes the archive when it ends.
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit='{archive}'"
    with tempfile.TemporaryDirectory() as scratch:
        exercise(Path(scratch))


def exercise(scratch: Path) -> None:
    """Have Spark load what most jobs need: a batch and a stream, files in and out."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    import sase

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
    arriving = spark.readStream.schema(events.schema).parquet(str(EXAMPLES / "data"), pathGlobFilter="retail.*")
    live = query.run(arriving).writeStream.option("checkpointLocation", str(scratch / "checkpoint"))
    live.trigger(availableNow=True).toTable("matches", path=str(scratch / "live")).awaitTermination()
    gateway = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
