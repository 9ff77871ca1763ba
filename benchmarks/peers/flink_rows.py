"""Flink SQL's MATCH_RECOGNIZE over the rows of a file of Parquet, in memory before the clock runs: see `flink`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from benchmarks.peers import Run
from benchmarks.peers.flink import started

if TYPE_CHECKING:
    from benchmarks.bench import Bench

_SOURCE = Path(__file__).with_name("FlinkRows.java")
_START_UP = 120.0
"""Seconds beyond the limit of the run: Flink's planner alone takes 20 s of CPU before the first row."""
_COLUMNS = ("k", "ts", "price", "page")


def prepare(bench: Bench, parquet: Path, statement: str) -> Run:
    arguments = [str(_exported(parquet)), " ".join(statement.split()), str(bench.cores)]
    return started(bench, _SOURCE, arguments, _START_UP)


def _exported(parquet: Path) -> Path:
    """The rows in the order of their time, as big-endian 64-bit integers."""
    path = parquet.with_suffix(".longs")
    if not path.exists():
        table = pq.read_table(parquet, columns=list(_COLUMNS)).sort_by("ts")
        staged = path.with_suffix(f".{os.getpid()}")
        np.stack([table[name].to_numpy() for name in _COLUMNS], axis=1).astype(">i8").tofile(staged)
        os.replace(staged, path)
    return path
