"""The same self-joins in DuckDB, on the same file, with as many threads and as much memory as Spark has.

It counts its matches instead of handing them out, which favours it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from benchmarks.peers import OverLimit, Run, Taken, Task, Unavailable, Verbatim, sql

if TYPE_CHECKING:
    from benchmarks.bench import Bench


def prepare_naive(bench: Bench, task: Task) -> Run:
    return _prepare(bench, task, sql.naive(task.shape))


def prepare_bucketed(bench: Bench, task: Task) -> Run:
    return _prepare(bench, task, sql.bucketed(task.shape, sql.DUCKDB))


def prepare_verbatim(bench: Bench, task: Task) -> Run:
    if not isinstance(task.query, Verbatim) or not task.query.duckdb:
        raise Unavailable("this query is not spelled out in DuckDB's SQL")
    return _prepare(bench, task, task.query.duckdb)


def _prepare(bench: Bench, task: Task, query: str) -> Run:
    try:
        import duckdb
    except ImportError:
        raise Unavailable("duckdb is not installed: pip install -e '.[bench]'") from None
    path = str(bench.parquet(task.source)).replace("'", "''")
    connection = duckdb.connect(config={"threads": bench.cores, "memory_limit": f"{bench.memory_mb}MB"})
    connection.execute(f"SET temp_directory = '{str(bench.cache / 'duckdb').replace(chr(39), chr(39) * 2)}'")
    connection.execute(f"CREATE VIEW events AS SELECT * FROM read_parquet('{path}')")

    def run(limit: float, *, count: bool) -> Taken:
        watch = threading.Timer(limit, connection.interrupt)
        watch.start()
        started = time.perf_counter()
        try:
            (rows,) = connection.execute(f"SELECT count(*) FROM ({query})").fetchone() or (None,)
        except duckdb.InterruptException:
            raise OverLimit from None
        finally:
            watch.cancel()
        return Taken(time.perf_counter() - started, rows)

    return run
