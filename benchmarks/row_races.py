"""MATCH_RECOGNIZE from files to matches: V shapes, streaks, sessions, merged ranges and a funnel on the same rows.

Beside it run what bounds it (the same rows read, shuffled and sorted, and handed through a Python worker that does
nothing), the SQL that a person would write with window functions, where that can be done, and a matcher in Python. All
count their matches, which must be the same.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import sase
from benchmarks.bench import Bench
from benchmarks.measure import Disagreement, Result, Say, Scale
from benchmarks.results import Results
from benchmarks.row_patterns import kernel_rates

ROWS, KEYS = 10_000_000, 10_000
MOST = 1.3
"""How many times the time of identity a clause may take."""
LEAST = 50
"""Millions of rows that the kernel must do in a second of one core."""


@dataclass(frozen=True)
class Clause:
    name: str
    text: str
    columns: tuple[str, ...]
    by_hand: str | None
    """The matches in SQL with window functions, as rows."""
    in_python: bool = False


V_SHAPE = Clause(
    "V shapes",
    "MEASURES first(price) AS a, last(DOWN.price) AS b, last(price) AS c AFTER MATCH SKIP TO LAST UP "
    "PATTERN (A DOWN+ UP+) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)",
    ("price",),
    """WITH steps AS (SELECT k, ts, price, sign(price - lag(price) OVER w) AS step, lag(price) OVER w AS was
                      FROM t WINDOW w AS (PARTITION BY k ORDER BY ts)),
            turns AS (SELECT *, sum(IF(step <=> before, 0, 1)) OVER w AS run
                      FROM (SELECT *, lag(step) OVER (PARTITION BY k ORDER BY ts) AS before FROM steps)
                      WINDOW w AS (PARTITION BY k ORDER BY ts)),
            runs AS (SELECT k, run, step, min_by(was, ts) AS a, max_by(price, ts) AS z
                     FROM turns GROUP BY k, run, step),
            pairs AS (SELECT *, lead(step) OVER w AS next_step, lead(z) OVER w AS c
                      FROM runs WINDOW w AS (PARTITION BY k ORDER BY run))
       SELECT k, a, z AS b, c FROM pairs WHERE step = -1 AND next_step = 1""",
    in_python=True,
)
STREAKS = Clause(
    "streaks",
    "MEASURES first(ts) AS a, count(*) AS n PATTERN (A UP{3,}) DEFINE UP AS price > PREV(price)",
    ("price",),
    """WITH steps AS (SELECT k, ts, price > lag(price) OVER (PARTITION BY k ORDER BY ts) AS up FROM t),
            runs AS (SELECT *, sum(IF(up, 0, 1)) OVER (PARTITION BY k ORDER BY ts) AS run FROM steps)
       SELECT k, min(ts) AS a, count(*) AS n FROM runs GROUP BY k, run HAVING count(*) > 3""",
)
SESSIONS = Clause(
    "sessions",
    "MEASURES first(ts) AS a, last(ts) AS z, count(*) AS n PATTERN (A NEAR*) DEFINE NEAR AS ts - PREV(ts) < 30000",
    (),
    """WITH gaps AS (SELECT k, ts, ts - lag(ts) OVER (PARTITION BY k ORDER BY ts) AS gap FROM t),
            runs AS (SELECT *, sum(IF(gap < 30000, 0, 1)) OVER (PARTITION BY k ORDER BY ts) AS run FROM gaps)
       SELECT k, min(ts) AS a, max(ts) AS z, count(*) AS n FROM runs GROUP BY k, run""",
)
RANGES = Clause(
    "merged ranges",
    "MEASURES first(ts) AS a, max(until) AS z, count(*) AS n PATTERN (A* LAST_ONE) DEFINE A AS max(until) >= NEXT(ts)",
    ("until",),
    """WITH gaps AS (SELECT k, ts, until, ts > max(until) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN UNBOUNDED
                            PRECEDING AND 1 PRECEDING) AS new FROM t),
            runs AS (SELECT *, sum(IF(new, 1, 0)) OVER (PARTITION BY k ORDER BY ts) AS run FROM gaps)
       SELECT k, min(ts) AS a, max(until) AS z, count(*) AS n FROM runs GROUP BY k, run""",
)
FUNNEL = Clause(
    "a funnel",
    "MEASURES first(ts) AS a, last(ts) AS z PATTERN (VIEW (OTHER | VIEW)*? CART (OTHER | CART)*? BUY) "
    "DEFINE VIEW AS page < 5, OTHER AS page = 9, CART AS page = 5, BUY AS page = 6",
    ("page",),
    None,
)


@dataclass(frozen=True)
class RowRace:
    clause: Clause
    rows: int
    rounds: int

    @property
    def name(self) -> str:
        return f"rows-{self.clause.name.replace(' ', '-')}"

    def run(self, bench: Bench, say: Say) -> Result:
        spark = bench.spark
        place = table(bench.cache, self.rows)
        spark.read.parquet(str(place)).createOrReplaceTempView("t")
        contenders = {name: make for name, make in self._contenders(spark.table("t"))}
        counts = {name: make().count() for name, make in contenders.items() if name != "identity"}
        if len(set(counts.values())) > 1:
            raise Disagreement(", ".join(f"{name} found {count:,}" for name, count in counts.items()))
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        contenders["identity"]().write.format("noop").mode("overwrite").save()
        for _ in range(self.rounds):
            for name, make in contenders.items():
                started = time.perf_counter()
                make().write.format("noop").mode("overwrite").save()
                seconds[name].append(time.perf_counter() - started)
        for name, taken in seconds.items():
            say(f"{name}: {statistics.median(taken):.2f} s")
        entries = {
            name: {"status": "done", "seconds": taken, "rows": counts.get(name)} for name, taken in seconds.items()
        }
        return {"clause": self.clause.text, "events": self.rows, "contenders": entries}

    def _contenders(self, rows: DataFrame) -> Iterator[tuple[str, Callable[[], DataFrame]]]:
        clause = self.clause
        statement = sase.compile_sql(f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts {clause.text})")
        yield "identity", lambda: identity(rows.select("k", "ts", *clause.columns))
        yield "sase", lambda: statement.run()
        if clause.by_hand is not None:
            by_hand = clause.by_hand
            yield "SQL by hand", lambda: rows.sparkSession.sql(by_hand)
        if clause.in_python:
            yield "Python", lambda: rows.groupBy("k").applyInPandas(v_shapes, "k long, a int, b int, c int")


def identity(rows: DataFrame) -> DataFrame:
    """Scan, shuffle, sort, and a Python worker that hands every batch back."""

    def back(batches: Any) -> Any:
        yield from batches

    return rows.repartition(F.col("k")).sortWithinPartitions("k", "ts").mapInArrow(back, rows.schema)


def v_shapes(frame: Any) -> Any:
    """The clause of V shapes as somebody would write it in Python."""
    import pandas as pd

    frame = frame.sort_values("ts")
    prices, found, at = frame["price"].tolist(), [], 0
    while at + 2 < len(prices):
        end = at + 1
        while end < len(prices) and prices[end] < prices[end - 1]:
            end += 1
        low = end - 1
        if low == at:
            at += 1
            continue
        while end < len(prices) and prices[end] > prices[end - 1]:
            end += 1
        if end - 1 > low:
            found.append((frame["k"].iloc[0], prices[at], prices[low], prices[end - 1]))
        at = end - 1
    return pd.DataFrame(found, columns=["k", "a", "b", "c"])


def table(cache: Path, rows: int) -> Path:
    """Rows of many keys in the order of time: prices that walk at random, ranges, and pages."""
    place = cache / f"rows-{rows}.parquet"
    if not place.exists():
        random = np.random.default_rng(7)
        keys = random.integers(0, KEYS if rows > KEYS else 10, rows)
        ts = np.arange(rows, dtype=np.int64)
        columns = {
            "k": keys,
            "ts": ts,
            "price": random.integers(0, 1000, rows).astype(np.int32),
            "until": ts + random.integers(0, 20_000, rows),
            "page": random.integers(0, 10, rows).astype(np.int32),
        }
        cache.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), place)
    return place


@dataclass(frozen=True)
class KernelRates:
    """Millions of rows in a second of one core, of the kernel alone."""

    rows: int
    name: str = "rows-kernel"

    def run(self, bench: Bench, say: Say) -> Result:
        rates = kernel_rates(self.rows)
        for name, rate in rates.items():
            say(f"{name}: {rate:.1f} M rows/s")
        return {"rates": rates, "contenders": {}}


def row_measurements(scale: Scale) -> list[RowRace | KernelRates]:
    races = [
        RowRace(clause, scale.events(ROWS), scale.rounds(2)) for clause in (V_SHAPE, STREAKS, SESSIONS, RANGES, FUNNEL)
    ]
    return [KernelRates(scale.events(ROWS)), *races]


def section(results: Results) -> str:
    races = [(race, result) for race in row_measurements(Scale()) if (result := results.load(race.name)) is not None]
    if not races:
        return ""
    lines = [
        "| | sase | identity | of it | SQL by hand | Python | matches |",
        "| --- | " + " | ".join(["---"] * 6) + " |",
    ]
    kernel = ""
    loads = [result["load_before"] for _, result in races]
    for race, result in races:
        if isinstance(race, KernelRates):
            rates = ", ".join(f"{name} {rate:.0f}" for name, rate in result["rates"].items())
            verdict = "reached" if min(result["rates"].values()) >= LEAST else "**not reached**"
            kernel = f"The kernel alone, in millions of rows in a second of one core: {rates}"
            kernel += f" (to reach: {LEAST}; {verdict})."
            continue
        median = {name: statistics.median(entry["seconds"]) for name, entry in result["contenders"].items()}
        times = {name: f"{median[name]:.2f} s" if name in median else "" for name in ("SQL by hand", "Python")}
        ratio = median["sase"] / median["identity"]
        lines.append(
            f"| {race.clause.name} | {median['sase']:.2f} s | {median['identity']:.2f} s | {ratio:.2f}× | "
            f"{times['SQL by hand']} | {times['Python']} | {result['contenders']['sase']['rows']:,} |"
        )
    busy = f" The machine had other work to do (a load of {max(loads):.0f})." if max(loads) > 1 else ""
    return "\n\n".join(
        (
            "## MATCH_RECOGNIZE",
            "Ten million rows of ten thousand keys, from Parquet to Spark's noop sink; medians of rounds in which they "
            "took turns. *identity* is the scan, the shuffle, the sort and a Python worker that hands every batch "
            f"back; to reach: {MOST}× of it. *SQL by hand* is what window functions can do.{busy}",
            *([kernel] if kernel else []),
            *(["\n".join(lines)] if len(lines) > 2 else []),
        )
    )
