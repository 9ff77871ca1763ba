"""MATCH_RECOGNIZE: how fast its kernel is, and how long a statement takes from a file to its last row.

python -m benchmarks run --only rows

The kernel: rows a second on one core, without Spark around it. Each clause is compiled from its text. The symbol bits,
which Spark computes, are made by numpy; what is timed is the pass back and the walk forward, over chunks as a worker
has them, in seconds of this process.

From end to end: the same rows for everybody (`row_contenders`), in one session: the floor, ours, window functions of
Spark SQL, and `applyInPandas` with regular expressions of Python. All answer for some rows first, which warms them up,
and must give the same answers. Flink SQL has fewer rows, and its time is taken to grow with them: each row begins a
partial match, and each condition of a partial match looks its rows up again, so that ten million rows take hours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sase
from benchmarks import row_contenders as contenders
from benchmarks.bench import Bench
from benchmarks.measure import Disagreement, Measurement, Result, Say, Scale
from benchmarks.peers import OverLimit, Unavailable, flink_rows
from benchmarks.peers.spark import into_noop
from benchmarks.results import Results
from sase.compiler.compile_sql import compile_statement
from sase.runtime.kernels.rows import Walk, encode, in_one_piece
from sase.runtime.row_pattern import RowPattern, Skip

Truths = NDArray[np.bool]
CHUNK = 262_144

ROWS, KEYS, LIMIT = 10_000_000, 1_000, 40.0
FLINK_ROWS, FLINK_LIMIT = 50_000, 20.0
RUNS = {"floor": 2, "sase": 2, "windows": 1, "pandas": 1}
"""How often each contender is timed; the fastest run counts."""

CLAUSES = {
    "V shape": "PATTERN (A DOWN+ UP+)",
    "streaks": "PATTERN (A UP{3,})",
    "sessions": "PATTERN (FIRST_ONE NEAR*)",
    "funnel": "PATTERN (VIEW (OTHER | VIEW)*? CART (OTHER | CART)*? BUY)",
    "merged ranges": "PATTERN (A JOINED*)",
}


def measurements(scale: Scale) -> Iterator[Measurement]:
    yield Kernel(scale.events(ROWS))
    for name in contenders.CLAUSES:
        yield EndToEnd(name, scale.events(ROWS), scale.events(FLINK_ROWS), scale.limit(LIMIT))


# ---- the kernel ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernel:
    """Millions of rows in a second of one core."""

    rows: int
    name: str = "rows-kernel"

    def run(self, bench: Bench, say: Say) -> Result:
        truths, rates = _conditions(self.rows), {}
        for name, clause in CLAUSES.items():
            pattern = _pattern_of(clause)
            symbols = np.zeros(self.rows, np.int64)
            for bit, variable in enumerate(pattern.variables):
                symbols |= truths[name][variable].astype(np.int64) << bit
            best, _ = min(_seconds(pattern, symbols) for _ in range(3))
            rates[name] = self.rows / best / 1e6
            say(f"{name}: {rates[name]:.1f} M rows/s")
        return {"rows": self.rows, "rates": rates, "contenders": {}}


def _conditions(rows: int) -> dict[str, Mapping[str, Truths]]:
    """Which rows may be mapped to which variables: a random walk of prices, gaps between times, and pages."""
    random = np.random.default_rng(7)
    price = np.cumsum(random.integers(-3, 4, rows))
    change = np.diff(price, prepend=price[0])
    near, page = random.random(rows) < 0.9, random.integers(0, 10, rows)
    every = np.ones(rows, np.bool)
    return {
        "V shape": {"A": every, "DOWN": change < 0, "UP": change > 0},
        "streaks": {"A": every, "UP": change > 0},
        "sessions": {"FIRST_ONE": every, "NEAR": near},
        "funnel": {"VIEW": page < 5, "OTHER": page == 9, "CART": page == 5, "BUY": page == 6},
        "merged ranges": {"A": every, "JOINED": near},
    }


def _pattern_of(clause: str) -> RowPattern:
    text = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x {clause})"
    found = compile_statement(text, "benchmark.sql", "trino", version="0").statement.views[0].plan.automaton
    return RowPattern(found.symbols, found.start, found.follow, found.ends, found.first, found.excluded, Skip())


def _seconds(pattern: RowPattern, symbols: NDArray[np.int64]) -> tuple[float, int]:
    """Of this process, and how many matches there are: one partition, cut into chunks."""
    tables, begin, matches, number = encode(pattern), 0, 0, 0
    nothing = np.zeros(0, np.int64)
    started = time.process_time()
    while begin < len(symbols):
        end = min(begin + CHUNK, len(symbols))
        groups, goes_on = np.array([0, end - begin]), end < len(symbols)
        rows = in_one_piece(symbols[begin:end], groups, nothing, begin > 0, number, goes_on)
        walk = Walk(tables, rows, np.zeros(end - begin, np.uint8))
        matches += sum(len(found.start) for found in walk.found())
        begin += int(walk.ends.row[0]) or end - begin
        number = int(walk.ends.number[0])
    return time.process_time() - started, matches


# ---- from end to end ----------------------------------------------------------------------------


@dataclass(frozen=True)
class EndToEnd:
    """A clause, by everybody who has words for it."""

    clause: str
    rows: int
    flink_rows: int
    limit: float

    @property
    def name(self) -> str:
        return f"rows-{self.clause.lower().replace(' ', '-')}"

    def run(self, bench: Bench, say: Say) -> Result:
        kinds = [kind for kind in RUNS if kind != "windows" or self.clause in contenders.WINDOWS]
        _ticks(bench, max(self.rows // 50, 10_000))
        answers = {kind: _told(_frame(bench.spark, kind, self.clause)) for kind in kinds}
        answers.pop("floor")  # all rows, and no match
        if len(set(answers.values())) > 1:
            raise Disagreement(f"{self.clause}: rows and the sum of their hashes are {answers}")
        entries: dict[str, Result] = {}
        for kind in kinds:
            entries[kind] = _entry(lambda kind=kind: self._timed(bench, kind), self.limit)
            if entries[kind]["status"] == "over limit":
                bench.abandon_spark()
            say(f"{kind}: {_shown(entries[kind])}")
        if self.clause in contenders.FLINK:
            entries["flink"] = _entry(lambda: self._flink(bench), FLINK_LIMIT)
            say(f"flink: {_shown(entries['flink'])}, {self.flink_rows:,} rows")
        counts = {kind: entry["rows"] for kind, entry in entries.items() if kind in answers and "rows" in entry}
        if len(set(counts.values())) > 1:
            raise Disagreement(f"{self.clause}: {counts}")
        return {"rows": self.rows, "flink_rows": self.flink_rows, "keys": KEYS, "contenders": entries}

    def _timed(self, bench: Bench, kind: str) -> Result:
        _ticks(bench, self.rows)
        run = into_noop(bench.spark, lambda: _frame(bench.spark, kind, self.clause))
        taken = [run(self.limit, count=number == 0) for number in range(RUNS[kind])]
        return {"seconds": [each.seconds for each in taken], "rows": taken[0].rows}

    def _flink(self, bench: Bench) -> Result:
        run = flink_rows.prepare(bench, _ticks(bench, self.flink_rows), contenders.flink(self.clause))
        taken = run(FLINK_LIMIT, count=True)
        return {"seconds": [taken.seconds], "rows": taken.rows}


def _entry(run: Any, limit: float) -> Result:
    try:
        return {"status": "done", **run()}
    except OverLimit:
        return {"status": "over limit", "seconds": [], "limit": limit}
    except Unavailable as error:
        return {"status": "unavailable", "seconds": [], "reason": str(error)}


def _shown(entry: Result) -> str:
    match entry["status"]:
        case "done":
            return f"{min(entry['seconds']):.2f} s, {entry['rows']:,} found"
        case "over limit":
            return f"more than {entry['limit']:.0f} s"
    return str(entry["reason"])


def _ticks(bench: Bench, rows: int) -> Path:
    """A row a second, of keys at random; prices and pages, and ranges that overlap the next one or two."""
    path = bench.cache / "events" / f"ticks-{rows}-{KEYS}.parquet"
    if not path.exists():
        bench.spark.sql(
            f"""SELECT abs(xxhash64(id, 1)) % {KEYS} AS k, id * 1000 + abs(xxhash64(id, 2)) % 1000 AS ts,
                CAST(abs(xxhash64(id, 3)) % 100 AS INT) AS price, CAST(abs(xxhash64(id, 4)) % 10 AS INT) AS page,
                id * 1000 + abs(xxhash64(id, 5)) % {4000 * KEYS} AS until FROM range({rows})"""
        ).write.parquet(str(path))
    bench.spark.read.parquet(str(path)).createOrReplaceTempView("ticks")
    return path


def _frame(spark: SparkSession, kind: str, clause: str) -> DataFrame:
    match kind:
        case "floor":
            return contenders.floor(spark, clause)
        case "sase":
            return sase.sql(contenders.clause(clause))
        case "windows":
            return spark.sql(contenders.WINDOWS[clause])
    return contenders.by_key(spark, clause)


def _told(found: DataFrame) -> tuple[int, int]:
    """How many rows there are, and what they are."""
    columns = [name for name in ("k", "since", "ended", "ts") if name in found.columns]
    row = found.agg(F.count(F.lit(1)), F.sum(F.xxhash64(*columns).cast("decimal(38, 0)"))).first()
    assert row is not None
    return int(row[0]), int(row[1] or 0)


# ---- the report ---------------------------------------------------------------------------------


def section(results: Results) -> str:
    """What docs/benchmarks.md says about them; empty where nothing has been measured."""
    lines: list[str] = []
    if kernel := results.load("rows-kernel"):
        rates = ", ".join(f"{name} {rate:.0f}" for name, rate in kernel["rates"].items())
        lines += [f"The kernel alone, millions of rows a second on one core (to reach: 50): {rates}.", ""]
    found = [each for name in contenders.CLAUSES if (each := results.load(EndToEnd(name, 0, 0, 0).name))]
    if found:
        first = found[0]
        lines += [
            f"From a file to the last row, {first['rows']:,} rows of {first['keys']:,} keys, in seconds, and in times "
            "of the *floor*: scan, shuffle, sort and a Python worker that hands every batch back (to reach: 1.3×). "
            "*windows* is the best Spark SQL that we know, *pandas* `applyInPandas` with regular expressions. Flink "
            f"SQL has {first['flink_rows']:,} rows, and what is shown is its rate. All others find the same matches.",
            "",
            "|  | floor | sase | windows | pandas | Flink SQL, rows a second |",
            "| --- | --- | --- | --- | --- | --- |",
            *(_line(each) for each in found),
        ]
    return "## MATCH_RECOGNIZE\n\n" + "\n".join(lines).rstrip() + "\n" if lines else ""


def _line(result: Result) -> str:
    entries = result["contenders"]
    floor = min(entries["floor"]["seconds"], default=None)

    def cell(kind: str) -> str:
        entry = entries.get(kind)
        if entry is None:
            return "no words for it"
        if not entry["seconds"]:
            return f"> {entry['limit']:.0f}" if entry["status"] == "over limit" else ""
        seconds = min(entry["seconds"])
        if kind == "flink":
            return f"{result['flink_rows'] / seconds:,.0f}"
        return f"{seconds:.2f}" if kind == "floor" or not floor else f"{seconds:.2f} ({seconds / floor:.2f}×)"

    name = next(each for each in contenders.CLAUSES if EndToEnd(each, 0, 0, 0).name == result["name"])
    return f"| {name} | {' | '.join(map(cell, (*RUNS, 'flink')))} |"
