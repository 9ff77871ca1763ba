"""What all peers on Spark share: a DataFrame is run into the noop sink, within a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from benchmarks.peers import OverLimit, Run, Taken


def into_noop(spark: SparkSession, build: Callable[[], DataFrame]) -> Run:
    """Planning is part of a run, so the DataFrame is built anew each time."""

    def run(limit: float, *, count: bool) -> Taken:
        observation = Observation()
        with cancelled_after(spark, limit):
            started = time.perf_counter()
            result = build()
            if count:
                result = result.observe(observation, F.count(F.lit(1)).alias("rows"))
            result.write.format("noop").mode("overwrite").save()
            seconds = time.perf_counter() - started
        return Taken(seconds, observation.get["rows"] if count else None)

    return run


@contextmanager
def cancelled_after(spark: SparkSession, limit: float) -> Iterator[None]:
    """Cancels the block's Spark jobs when its time is over, again and again: adaptive execution starts new ones."""
    context, group, done = spark.sparkContext, f"benchmark {uuid4()}", threading.Event()
    expired = threading.Event()

    def cancel() -> None:
        if not done.wait(limit):
            expired.set()
            context.cancelJobGroup(group)
            while not done.wait(1):
                context.cancelJobGroup(group)

    context.setJobGroup(group, "benchmark", interruptOnCancel=True)
    watch = threading.Thread(target=cancel, daemon=True)
    watch.start()
    try:
        yield
    except Exception as error:
        if expired.is_set():
            raise OverLimit from error
        raise
    finally:
        done.set()
        watch.join()
    if expired.is_set():
        raise OverLimit
