"""Joins in the order of time, as people write them: run as patterns, and by Spark itself, in one session.

python -m benchmarks run --only joins

The shapes are those that are found in public code: a second trip within an hour (with DISTINCT), rows less than a day
apart by datediff, a funnel of three steps, something that does or does not happen again, and rows close to each other
without a key. Both answer for some rows first, which warms them up, and must give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import sase
from benchmarks.bench import Bench
from benchmarks.measure import Disagreement, Measurement, Result, Say, Scale
from benchmarks.peers import OverLimit
from benchmarks.peers.spark import into_noop
from benchmarks.results import Results
from sase.compiler.plan.statistics import ColumnStatistics, Statistics, TypeStatistics

ROWS, KEYS, DAYS, LIMIT = 1_000_000, (1_000, 20_000), 10, 10.0

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
    "those that come again within an hour, EXISTS": """
        SELECT a.id, a.user FROM trips a WHERE EXISTS (
          SELECT 1 FROM trips b WHERE b.user = a.user AND b.ts > a.ts AND b.ts < a.ts + INTERVAL 1 HOUR)""",
    "not again within an hour": """
        SELECT a.user, a.ts FROM trips a WHERE a.kind = 1 AND NOT EXISTS (
          SELECT 1 FROM trips b WHERE b.user = a.user AND b.ts > a.ts AND b.ts < a.ts + INTERVAL 1 HOUR)""",
    "within a second, any order, no key": """
        SELECT a.id, b.id AS other FROM trips a JOIN trips b
        ON a.kind = 1 AND b.kind = 2 AND abs(unix_micros(a.ts) - unix_micros(b.ts)) < 1000000""",
}


def measurements(scale: Scale) -> Iterator[Measurement]:
    for keys in KEYS:
        yield SelfJoins(scale.events(ROWS), keys, scale.limit(LIMIT))


@dataclass(frozen=True)
class SelfJoins:
    """All shapes on one table: as a pattern, and by Spark's own join."""

    rows: int
    keys: int
    limit: float

    @property
    def name(self) -> str:
        return f"joins-{self.keys}"

    def run(self, bench: Bench, say: Say) -> Result:
        self._few(bench)
        for shape, text in SHAPES.items():
            answers = {each: _told(_run(text, each)) for each in ("always", "never")}
            if len(set(answers.values())) > 1:
                raise Disagreement(f"{shape}: rows and the sum of their hashes are {answers}")
        shapes = {}
        for shape, text in SHAPES.items():
            entries = {each: self._timed(bench, text, each) for each in ("always", "never")}
            _trips(bench, self.rows, self.keys)
            chosen, informed = _chosen(text), _chosen(text, self._known(bench))
            shapes[shape] = {**entries, "chosen": chosen, "informed": informed}
            say(
                f"{shape}: {_shown(entries['always'])} as a pattern, {_shown(entries['never'])}; "
                f"chosen: {chosen}, with statistics: {informed}"
            )
        return {"rows": self.rows, "keys": self.keys, "limit": self.limit, "shapes": shapes, "contenders": {}}

    def _known(self, bench: Bench) -> Statistics:
        """What `sase statistics` would find: half of the users are negative."""
        columns = {"user": ColumnStatistics(2 * self.keys), "kind": ColumnStatistics(10)}
        return Statistics(self.rows, DAYS * 86_400e6, {"trips": TypeStatistics(self.rows, columns)}, cores=bench.cores)

    def _few(self, bench: Bench) -> None:
        _trips(bench, max(self.rows // 20, 10_000), self.keys)

    def _timed(self, bench: Bench, text: str, joins: str) -> Result:
        """Warmed up by a few rows each time: what was stopped at the limit took its JVM along."""
        run = into_noop(bench.spark, lambda: _run(text, joins))
        try:
            self._few(bench)
            run(self.limit, count=False)
            _trips(bench, self.rows, self.keys)
            taken = [run(self.limit, count=number == 0) for number in range(2)]
            return {"seconds": [each.seconds for each in taken], "rows": taken[0].rows}
        except OverLimit:
            bench.abandon_spark()
            return {"seconds": [], "limit": self.limit}


def _chosen(text: str, statistics: Statistics | None = None) -> str:
    return "pattern" if sase.compile_sql(text, statistics=statistics).compiled.statement.joins else "own join"


def _run(text: str, joins: str) -> DataFrame:
    return sase.compile_sql(text, joins=joins).run()


def _trips(bench: Bench, rows: int, keys: int) -> None:
    """Ten days of trips, ten kinds, each key as often as any other."""
    path = bench.cache / "events" / f"trips-{rows}-{keys}.parquet"
    if not path.exists():
        bench.spark.sql(
            f"""SELECT id, xxhash64(id, 1) % {keys} AS user, abs(xxhash64(id, 2)) % 10 AS kind,
                timestamp_micros(1767225600000000 + abs(xxhash64(id, 3)) % ({DAYS} * 86400000000L)) AS ts
                FROM range({rows})"""
        ).withColumn("day", F.to_date("ts")).write.parquet(str(path))
    bench.spark.read.parquet(str(path)).createOrReplaceTempView("trips")


def _told(found: DataFrame) -> tuple[int, int]:
    """How many rows there are, and what they are."""
    hashed = F.xxhash64(*(F.col(name).cast("string") for name in found.columns)).cast("decimal(38, 0)")
    row = found.agg(F.count(F.lit(1)), F.sum(hashed)).first()
    assert row is not None
    return int(row[0]), int(row[1] or 0)


def _shown(entry: Result) -> str:
    return f"{min(entry['seconds']):.2f} s" if entry["seconds"] else f"more than {entry['limit']:.0f} s"


# ---- the report ---------------------------------------------------------------------------------


def section(results: Results) -> str:
    """What docs/benchmarks.md says about them; empty where nothing has been measured."""
    found = [each for keys in KEYS if (each := results.load(SelfJoins(0, keys, 0).name))]
    if not found:
        return ""
    lines = [
        "|  | keys | as a pattern | Spark's own join | which is | chosen | with statistics |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for result in found:
        for shape, entry in result["shapes"].items():
            ours, own = entry["always"], entry["never"]
            ratio = ""
            if ours["seconds"]:
                least = "" if own["seconds"] else "more than "
                ratio = f"{least}{min(own['seconds'], default=result['limit']) / min(ours['seconds']):.1f}×"
            chosen = [entry["chosen"], entry.get("informed", "")]
            cells = [shape, f"{result['keys']:,}", _shown(ours), _shown(own), ratio, *chosen]
            lines.append(f"| {' | '.join(cells)} |")
    rows = f"{found[0]['rows']:,} rows of ten days"
    about = (
        f"{rows}; both give the same rows. `sase.sql` takes what is expected to be faster: without statistics, for ten "
        "million rows, where it is on the safe side, as a join of so many may never end."
    )
    return "\n".join(["## Joins in the order of time", "", about, "", *lines]) + "\n"
