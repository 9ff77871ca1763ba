"""Joins in the order of time, as people write them: run as patterns, and by Spark itself, in one session.

    python -m benchmarks.self_joins [ROWS [KEYS …]]

The shapes are those that are found in public code: a second trip within a day (with DISTINCT), rows less than a week
apart by datediff, a funnel of three steps, something that does not happen again, and rows close to each other without
a key. Each is run once to warm up and then timed; a run of Spark's own join ends after 30 seconds.
"""

from __future__ import annotations

import sys
import time
from tempfile import mkdtemp

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sase
from benchmarks.peers import OverLimit
from benchmarks.peers.spark import cancelled_after
from sase.runtime.session import session

LIMIT = 30.0

SHAPES = {
    "again within an hour, DISTINCT": """
        SELECT DISTINCT a.user FROM trips a JOIN trips b ON a.user = b.user
        AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR AND a.ts <> b.ts""",
    "one of each kind within an hour": """
        SELECT a.user, a.ts, b.ts AS until FROM trips a JOIN trips b ON a.user = b.user
        WHERE a.kind = 1 AND b.kind = 2 AND a.ts < b.ts AND b.ts < a.ts + INTERVAL 1 HOUR""",
    "less than a day apart, by datediff": """
        SELECT a.user, count(*) AS pairs FROM trips a, trips b
        WHERE a.user = b.user AND a.id <> b.id AND a.kind = 3 AND b.kind = 3 AND datediff(b.day, a.day) BETWEEN 0 AND 1
        GROUP BY a.user""",
    "funnel of three steps": """
        SELECT a.user, c.ts - a.ts AS took FROM trips a, trips b, trips c
        WHERE a.user = b.user AND b.user = c.user AND a.kind = 1 AND b.kind = 2 AND c.kind = 3
        AND a.ts < b.ts AND b.ts < c.ts AND c.ts < a.ts + INTERVAL 2 HOURS""",
    "not again within an hour": """
        SELECT a.user, a.ts FROM trips a WHERE a.kind = 1 AND NOT EXISTS (
          SELECT 1 FROM trips b WHERE b.user = a.user AND b.ts > a.ts AND b.ts < a.ts + INTERVAL 1 HOUR)""",
    "within a second, any order, no key": """
        SELECT a.id, b.id AS other FROM trips a JOIN trips b
        ON a.kind = 1 AND b.kind = 2 AND abs(unix_micros(a.ts) - unix_micros(b.ts)) < 1000000""",
}


def trips(spark: SparkSession, rows: int, keys: int) -> None:
    """Ten days of trips, ten kinds, each key as often as any other."""
    folder = f"{mkdtemp(prefix='sase-')}/trips"
    spark.sql(
        f"""SELECT id, xxhash64(id, 1) % {keys} AS user, abs(xxhash64(id, 2)) % 10 AS kind,
            timestamp_micros(1767225600000000 + abs(xxhash64(id, 3)) % (10 * 86400000000L)) AS ts FROM range({rows})"""
    ).withColumn("day", F.to_date("ts")).write.parquet(folder)
    spark.read.parquet(folder).createOrReplaceTempView("trips")


def seconds(spark: SparkSession, statement: sase.Statement) -> float | None:
    """Of the second run; None if it takes too long."""

    def run() -> float:
        started = time.perf_counter()
        rows: DataFrame = statement.run()
        rows.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - started

    try:
        with cancelled_after(spark, LIMIT):
            first = run()
        if first > LIMIT / 3:
            return first
        with cancelled_after(spark, LIMIT):
            return run()
    except OverLimit:
        return None


def main(rows: int = 1_000_000, *keys: int) -> None:
    spark = session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    print(f"{rows:,} rows; seconds as a pattern, by Spark's own join, and what was chosen")
    for count in keys or (1_000, 20_000):
        trips(spark, rows, count)
        for name, text in SHAPES.items():
            chosen = sase.compile_sql(text).compiled.statement
            ours, own = sase.compile_sql(text, joins="always"), sase.compile_sql(text, joins="never")
            if not ours.compiled.statement.joins:
                print(f"{name:<36} {count:>7,} keys  {ours.compiled.statement.left[0].reason}")
                continue
            one, other = seconds(spark, ours), seconds(spark, own)
            ratio = f"{(other or LIMIT) / one:5.1f}x{'' if other else ' or more'}" if one else ""
            shown = [f"{each:6.2f}" if each else f"> {LIMIT:.0f}" for each in (one, other)]
            print(
                f"{name:<36} {count:>7,} keys  {shown[0]}  {shown[1]}  {ratio}  {'pattern' if chosen.joins else 'own'}"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
