"""A query on a stream, in a cell: it is started, its first matches are shown, and it goes on in the background."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

from sase.notebook.preview import CellOutput, first_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FIRST = 90.0
"""Seconds that a cell waits for the first micro-batch; it includes the start of the workers."""
MORE = 10.0
"""Seconds that it waits on, while there is more to read."""


def start(matches: DataFrame, name: str) -> StreamingQuery:
    """Follows the stream into a table in memory. A stream that an earlier run of the cell has left is stopped."""
    end(name, matches.sparkSession)
    return matches.writeStream.format("memory").queryName(name).outputMode("append").start()


def end(name: str, spark: SparkSession) -> None:
    for running in spark.streams.active:
        if running.name == name:
            running.stop()


def settle(query: StreamingQuery) -> None:
    """Waits for the first micro-batch, and a little for those behind it. Raises what the stream has failed for."""
    drain = Thread(target=_drain, args=(query,), name="sase-stream", daemon=True)
    drain.start()
    until = time.monotonic() + FIRST
    while drain.is_alive() and query.lastProgress is None and time.monotonic() < until:
        time.sleep(0.2)
    drain.join(MORE)  # not for ever: some sources always have more
    if failure := query.exception():
        raise failure


def _drain(query: StreamingQuery) -> None:
    with suppress(Exception):  # the stream keeps it, too
        query.processAllAvailable()


@dataclass(frozen=True, repr=False)
class Following(CellOutput):
    """A stream that is on its way: the matches so far."""

    count: int

    @property
    def summary(self) -> str:
        matches = "1 match" if self.count == 1 else f"{self.count:,} matches"
        return (
            f"{self.name}: {matches} so far, and following · "
            f"spark.table({self.name!r}) has them all, {self.name}_stream.stop() ends it"
        )


def so_far(name: str, spark: SparkSession) -> Following:
    found = spark.table(name)
    return Following(name, first_rows(found), found.count())
