"""What a loop costs: `SEQ(A a, B+ b, C c)` under skip till next match, against the same SEQ without the loop.

    python -m benchmarks.loops [EVENTS] [--spark]

Ten types and 10,000 keys; windows of about a hundred events of a key. Both queries go over the same events, one after
the other, three times. Without Spark, what is timed is the worker: the kernel and the values of its matches, in seconds
of this process; the symbol bits, which Spark computes, are made by numpy. With it, the whole job, in seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import sase
from sase.compiler.plan.physical import Runs
from sase.runtime.operator.rows import Task, run
from sase.runtime.row_pattern import Over

KINDS = "ABCDEFGHIJ"
KEYS = 10_000
CATALOG = sase.Catalog(types={name: {"ts": "bigint", "id": "int", "v": "int"} for name in KINDS})
QUERIES = {
    name: f"EVENT SEQ({pattern}) WHERE [id] WITHIN 1000000 SKIP TILL NEXT MATCH"
    for name, pattern in {"without a loop": "A a, B b, C c", "with a loop": "A a, B+ b, C c"}.items()
}


def worker(events: int) -> Callable[[str], int]:
    random = np.random.default_rng(7)
    kind, key = random.integers(0, len(KINDS), events), np.sort(random.integers(0, KEYS, events))
    wanted = kind < 3
    kind, key, number = kind[wanted], key[wanted], np.flatnonzero(wanted)

    def found(query: str) -> int:
        compiled = sase.compile(query, CATALOG)
        step, job = compiled.compiled.physical.only(Runs), compiled.batch_job
        assert step is not None
        letters = np.array(list(KINDS))[kind]
        symbols = np.zeros(len(kind), np.int64)
        for bit, condition in enumerate(step.pattern.fills.values()):
            symbols |= _fits(condition, letters).astype(np.int64) << bit
        columns = {"id": key, "_sase_time": number * 10_000, "_sase_symbols": symbols, "_sase_event": number}
        table = pa.table({name: pa.array(values) for name, values in columns.items()})
        measures = tuple(
            (name, value, pa.list_(pa.int64()) if isinstance(value, Over) else pa.int64())
            for name, value in job.VALUES.items()
        )
        task = Task(
            job.PATTERN, tuple(columns), ("id",), ("_sase_time",), "_sase_symbols", "one row", (), measures,
            batch_rows=65_536, chunk_rows=262_144, jit=True, steps_per_row=10_000, refuse_ties=True,
        )  # fmt: skip
        return sum(batch.num_rows for batch in run(task, iter(table.to_batches(max_chunksize=65_536))))

    return found


def _fits(condition: str, letters: np.ndarray) -> np.ndarray:
    """`type = 'A'` and `NOT type = 'A'`, joined by AND: what these patterns ask."""
    fitting = np.ones(len(letters), np.bool)
    for part in condition.split(" AND "):
        fitting &= (letters == part.split("'")[1]) != ("NOT" in part)
    return fitting


def whole_job(events: int) -> Callable[[str], int]:
    from pyspark.sql import functions as F

    from benchmarks.bench import Bench

    spark = Bench().spark
    kinds = F.array(*map(F.lit, KINDS))
    rows = spark.range(events).select(
        F.col("id").alias("ts"),
        F.element_at(kinds, (F.abs(F.xxhash64("id")) % len(KINDS) + 1).cast("int")).alias("type"),
        (F.abs(F.xxhash64("id", F.lit(1))) % KEYS).cast("int").alias("id"),
        F.lit(1).alias("v"),
    )
    return lambda query: sase.compile(query, CATALOG).run(rows).count()


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    events = numbers[0] if numbers else 10_000_000
    in_spark = "--spark" in sys.argv
    found, clock = (whole_job(events), time.perf_counter) if in_spark else (worker(events), time.process_time)
    taken: dict[str, list[float]] = {name: [] for name in QUERIES}
    for _ in range(4):  # the first round warms up
        for name, query in QUERIES.items():
            started = clock()
            matches = found(query)
            taken[name].append(clock() - started)
            print(f"{name:<15} {taken[name][-1]:6.2f} s  {matches:>10,} matches", flush=True)
    without, with_loop = (min(times[1:]) for times in taken.values())
    print(f"the loop takes {with_loop / without:.2f} times as long, of {events:,} events")


if __name__ == "__main__":
    main()
