"""Events that could not take part: what is told of them, and how many there were."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from functools import cached_property
from itertools import count
from typing import Any
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from sase.runtime.stream.types import Types


def rejected_schema(schema: StructType, shown: Sequence[str]) -> StructType:
    event = StructType([StructField(name, schema[name].dataType) for name in shown])
    return StructType(
        [StructField("reason", StringType()), StructField("record", StringType()), StructField("event", event)]
    )


_PREFIX = "sase rejected "
_WRAPPER = "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper"
_numbers = count(1)


def counted(packed: DataFrame) -> DataFrame:
    """Every micro-batch tells how many events were rejected, in the progress of the streaming query."""
    rejected = F.sum(F.when(F.col("kind") == "rejected", F.col("size")).otherwise(0))
    return packed.observe(f"{_PREFIX}{next(_numbers)}", F.coalesce(rejected, F.lit(0)).alias("rejected"))


def warn_of_rejected(spark: SparkSession) -> None:
    """Logs how many events were rejected, and types that no event has, as micro-batches tell. Once a session."""
    from pyspark.sql.streaming.listener import (
        JStreamingQueryListener,
        QueryProgressEvent,
        StreamingQueryListener,
        StreamingQueryProgress,
    )

    class Brief(JStreamingQueryListener):
        """Has a micro-batch told in one text, as `recentProgress` does. PySpark would ask Java for each of a hundred
        numbers, after every micro-batch, which takes more of Java's time than a small one has of its own."""

        def onQueryProgress(self, jevent: Any) -> None:
            progress = StreamingQueryProgress.fromJson(json.loads(jevent.progress().json()))
            self.pylistener.onQueryProgress(QueryProgressEvent(progress))

    types: dict[Any, Types] = {}

    class Warning(StreamingQueryListener):
        @cached_property
        def _jlistener(self) -> Any:
            return getattr(SparkContext._jvm, _WRAPPER)(Brief(self))

        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None:
            for text in types.pop(event.runId, Types()).end():
                logging.getLogger("sase").warning(text)

        def onQueryProgress(self, event: Any) -> None:
            known = types.setdefault(event.progress.runId, Types())
            for text in known.take(event.progress.batchId, event.progress.observedMetrics):
                logging.getLogger("sase").warning(text)
            for name, metrics in event.progress.observedMetrics.items():
                if name.startswith(_PREFIX) and metrics["rejected"]:
                    rejected = f"{metrics['rejected']:,}"
                    text = "micro-batch %s: %s events were late or could not be read, and took no part"
                    logging.getLogger("sase").warning(text, event.progress.batchId, rejected)

    if spark in _warned:
        return
    _warned.add(spark)
    warning = Warning()
    spark.streams.addListener(warning)
    if not hasattr(spark, "sparkContext"):
        # Spark Connect keeps a process alive as long as it has a listener.
        def leave() -> None:
            threading.main_thread().join()
            spark.streams.removeListener(warning)

        threading.Thread(target=leave, name="sase-warning", daemon=True).start()


_warned: WeakSet[SparkSession] = WeakSet()
