"""How fast the kernel of MATCH_RECOGNIZE is: rows a second on one core, without Spark around it.

    python -m benchmarks.row_patterns [ROWS]

Each clause is compiled from its text. The symbol bits, which Spark computes, are made by numpy here; what is timed is
the pass back and the walk forward, over chunks as a worker has them, in seconds of this process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

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


def main(rows: int = 10_000_000) -> None:
    for name, rate in kernel_rates(rows).items():
        print(f"{name:<14} {rate:6.1f} M rows/s  {CLAUSES[name]}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
