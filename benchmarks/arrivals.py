"""What `avg*` costs: a query with it, and the same query with a constant in its place, in CPU time of one run each.

python -m benchmarks.arrivals [events]
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import sase

CATALOG = sase.Catalog(
    types={
        "START": {"ts": "timestamp", "car_id": "bigint"},
        "STATUS": {"ts": "timestamp", "car_id": "bigint", "speed": "double"},
    }
)
QUERY = "EVENT SEQ(START x, STATUS y) WHERE [car_id] AND y.speed > {} WITHIN 1 minute RETURN x.car_id, y.speed"
KINDS = {"a constant": "125.0", "avg*": "1.25 * avg*(y.speed)", "max*": "0.98 * max*(y.speed)"}


def cpu() -> float:
    """Seconds of this process and of all that it has started: Java and its Python workers."""
    parents, spent = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            spent[int(entry.name)] = sum(map(int, fields[11:15]))  # with those that have ended
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(spent.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        # A thousand events per second of 10,000 cars, one of ten a start, in the order of time.
        rows = spark.range(0, events, numPartitions=8).select(
            F.timestamp_micros(F.col("id") * 1000).alias("ts"),
            F.expr("IF(pmod(hash(id, 1), 10) = 0, 'START', 'STATUS')").alias("type"),
            F.expr("CAST(pmod(hash(id, 2), 10000) AS bigint)").alias("car_id"),
            F.expr("50 + pmod(hash(id, 3), 1000003) / 10000.0D").alias("speed"),
        )
        rows.write.parquet(f"{folder}/events")
        for number in range(3):
            for name, value in KINDS.items():
                query = sase.compile(QUERY.format(value), CATALOG)
                before = cpu()
                matches = query.run(spark.read.parquet(f"{folder}/events")).agg(F.count("*"), F.sum("speed")).first()
                print(f"round {number}: {name:<12} {cpu() - before:7.1f} s of CPU, {matches}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
