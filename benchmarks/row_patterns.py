"""MATCH_RECOGNIZE: how fast its kernel is, and how long a statement takes from a file to its last row.

    python -m benchmarks.row_patterns [ROWS] [--keys 1000] [--only kernel,floor,sase,windows,pandas,flink] [--limit 120]

The kernel: rows a second on one core, without Spark around it. Each clause is compiled from its text. The symbol bits,
which Spark computes, are made by numpy; what is timed is the pass back and the walk forward, over chunks as a worker
has them, in seconds of this process.

From end to end: the same rows for everybody (`row_contenders`), in one session, each contender once to warm up and then
timed twice, of which the faster run counts: the floor, ours, window functions of Spark SQL, `applyInPandas` with
regular expressions of Python, and Flink SQL.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sase
from benchmarks import row_contenders as contenders
from benchmarks.bench import Bench
from benchmarks.measure import Disagreement
from benchmarks.peers import OverLimit, Run, Unavailable, flink_rows
from benchmarks.peers.spark import into_noop
from sase.compiler.compile_sql import compile_statement
from sase.runtime.kernels.rows import Walk, encode, in_one_piece
from sase.runtime.row_pattern import RowPattern, Skip

Truths = NDArray[np.bool]
CHUNK = 262_144

CLAUSES = {
    "V shape": "PATTERN (A DOWN+ UP+)",
    "streaks": "PATTERN (A UP{3,})",
    "sessions": "PATTERN (FIRST_ONE NEAR*)",
    "funnel": "PATTERN (VIEW (OTHER | VIEW)*? CART (OTHER | CART)*? BUY)",
    "merged ranges": "PATTERN (A JOINED*)",
}


def conditions(rows: int) -> dict[str, Mapping[str, Truths]]:
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


def pattern_of(clause: str) -> RowPattern:
    text = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x {clause})"
    found = compile_statement(text, "benchmark.sql", "trino", version="0").statement.views[0].plan.automaton
    return RowPattern(found.symbols, found.start, found.follow, found.ends, found.first, found.excluded, Skip())


def seconds(pattern: RowPattern, symbols: NDArray[np.int64]) -> tuple[float, int]:
    """Of this process, and how many matches there are: one partition, cut into chunks."""
    tables, begin, matches, number = encode(pattern), 0, 0, 0
    nothing = np.zeros(0, np.int64)
    started = time.process_time()
    while begin < len(symbols):
        end = min(begin + CHUNK, len(symbols))
        groups, goes_on = np.array([0, end - begin]), end < len(symbols)
        rows = in_one_piece(symbols[begin:end], groups, nothing, begin > 0, number, goes_on)
        walk = Walk(tables, rows, np.zeros(end - begin, np.int64))
        matches += sum(len(found.start) for found in walk.found())
        begin += int(walk.ends.row[0]) or end - begin
        number = int(walk.ends.number[0])
    return time.process_time() - started, matches


def kernel_rates(rows: int) -> dict[str, float]:
    """Millions of rows in a second of one core."""
    truths, rates = conditions(rows), {}
    for name, clause in CLAUSES.items():
        pattern = pattern_of(clause)
        symbols = np.zeros(rows, np.int64)
        for bit, variable in enumerate(pattern.variables):
            symbols |= truths[name][variable].astype(np.int64) << bit
        best, _ = min(seconds(pattern, symbols) for _ in range(3))
        rates[name] = rows / best / 1e6
    return rates


# ---- from end to end ----------------------------------------------------------------------------

KINDS = ("floor", "sase", "windows", "pandas", "flink")


def ticks(bench: Bench, rows: int, keys: int) -> Path:
    """A row a second, of keys at random; prices and pages, and ranges that overlap the next one or two."""
    path = bench.cache / "events" / f"ticks-{rows}-{keys}.parquet"
    if not path.exists():
        bench.spark.sql(
            f"""SELECT abs(xxhash64(id, 1)) % {keys} AS k, id * 1000 + abs(xxhash64(id, 2)) % 1000 AS ts,
                CAST(abs(xxhash64(id, 3)) % 100 AS INT) AS price, CAST(abs(xxhash64(id, 4)) % 10 AS INT) AS page,
                id * 1000 + abs(xxhash64(id, 5)) % {4000 * keys} AS until FROM range({rows})"""
        ).write.parquet(str(path))
    bench.spark.read.parquet(str(path)).createOrReplaceTempView("ticks")
    return path


def prepared(bench: Bench, kind: str, name: str, parquet: Path) -> Run | None:
    """A contender; None where it has no words for the question."""
    spark = bench.spark
    match kind:
        case "floor":
            return into_noop(spark, lambda: contenders.floor(spark, name))
        case "sase":
            return into_noop(spark, lambda: sase.sql(contenders.clause(name)))
        case "windows":
            text = contenders.WINDOWS.get(name)
            return None if text is None else into_noop(spark, lambda: spark.sql(text))
        case "pandas":
            return into_noop(spark, lambda: contenders.by_key(spark, name))
    return flink_rows.prepare(bench, parquet, contenders.flink(name)) if name in contenders.FLINK else None


def measured(run: Run, limit: float, warm: bool) -> tuple[float, int | None]:
    """The faster of two runs, after one that counts the rows; that one alone, where it warms itself up."""
    first = run(limit, count=True)
    return first.seconds if warm else min(run(limit, count=False).seconds for _ in range(2)), first.rows


def from_end_to_end(bench: Bench, rows: int, keys: int, kinds: list[str], limit: float) -> None:
    parquet = ticks(bench, rows, keys)
    print(f"{rows:,} rows, {keys:,} keys, {bench.cores} cores; seconds, times the floor, and rows that were found")
    for name in contenders.CLAUSES:
        base: float | None = None
        counts: dict[str, int | None] = {}
        for kind in kinds:
            try:
                run = prepared(bench, kind, name, parquet)
                taken = None if run is None else measured(run, limit, warm=kind == "flink")
            except OverLimit:
                print(f"{name:<14} {kind:<8} more than {limit:.0f}", flush=True)
                bench.abandon_spark()
                parquet = ticks(bench, rows, keys)
                continue
            except Unavailable as error:
                print(f"{name:<14} {kind:<8} {error}", flush=True)
                continue
            if taken is None:
                continue
            seconds, found = taken
            base = seconds if kind == "floor" else base
            if kind not in ("floor", "flink"):  # the one has no matches, and the other not the last of a key
                counts[kind] = found
                if len(set(counts.values())) > 1:
                    raise Disagreement(f"{name}: {counts}")
            times = f"{seconds / base:5.2f}x" if base else ""
            print(f"{name:<14} {kind:<8} {seconds:7.2f} {times:>7} {found or 0:>12,}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.row_patterns", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("rows", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--only", default=",".join(("kernel", *KINDS)), help="some of these, with commas")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a run may take")
    arguments = parser.parse_args()
    asked = arguments.only.split(",")
    if "kernel" in asked:
        for name, rate in kernel_rates(arguments.rows).items():
            print(f"{name:<14} {rate:6.1f} M rows/s  {CLAUSES[name]}", flush=True)
    kinds = [kind for kind in KINDS if kind in asked]
    if kinds:
        from_end_to_end(Bench(), arguments.rows, arguments.keys, kinds, arguments.limit)


if __name__ == "__main__":
    main()
