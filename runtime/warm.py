"""A Python worker that is ready when the first events come: it loads its libraries while Spark plans the query."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    import pyarrow as pa


def warm_worker(spark: SparkSession) -> None:
    """Lets a local session start a worker, which keeps what it has loaded for the tasks that come. Nobody waits."""
    if not is_remote() and (spark.sparkContext.master or "").startswith("local"):
        threading.Thread(target=_start, args=[spark], name="sase-worker", daemon=True).start()


def _start(spark: SparkSession) -> None:
    with suppress(Exception):  # what is wrong with workers, the run itself will say
        spark.sql("SELECT 1 AS one").mapInArrow(_load, "one int").collect()


def _load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from sase.runtime.kernels import sequences, sort
    from sase.runtime.operator import partition  # noqa: F401

    sequences._compiled()
    sort._compiled()
    yield from batches
