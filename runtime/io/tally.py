"""How many events took part, and how many could not, counted by the query itself on its way."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, ref

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from sase.runtime.events import Source, quoted


@dataclass(frozen=True)
class Counts:
    """How many events took part, and how many could not for want of a type, time or tie-breaker."""

    relevant: int
    without: Mapping[str, int]

    @property
    def ignored(self) -> str:
        """What could not take part; empty if there is nothing."""
        parts: list[str] = []
        for what, count in self.without.items():
            noun = "" if parts else " event" if count == 1 else " events"
            parts += [f"{count:,}{noun} without a {what}"] if count else []
        return ", ".join(parts)


class Tally:
    """Counts the events of one `check` while the first action reads them, without a pass of its own."""

    def __init__(self) -> None:
        self._name = f"sase {uuid4()}"
        self._observation = Observation(self._name)
        self._watched: DataFrame | None = None
        self._metrics: list[Column] = []

    def watch(self, events: DataFrame, source: Source) -> DataFrame:
        """The events that can take part. An event that lacks several values counts for the first of them."""
        present: list[str] = []
        self._watched, self._metrics = events, [F.expr("count(1) AS all")]
        for what, has in source.usable.items():
            missing = " AND ".join([*present, f"NOT ({has})"])
            self._metrics.append(F.expr(f"count_if({missing}) AS {quoted(what)}"))
            present.append(has)
        return events.observe(self._observation, *self._metrics).where(" AND ".join(present))

    def counts(self) -> Counts:
        """The counts, once the first action is over. Waits for it."""
        assert self._watched is not None, "no check() has been given this tally"
        try:
            return _counts(self._observation.get)
        except Exception:
            # Spark saw that there are no matches and dropped the rest of the plan: the events are counted on their own.
            return _counts(self._watched.agg(*self._metrics).collect()[0].asDict())

    def warn(self) -> None:
        """Logs what was left out as soon as the first action is over."""
        assert self._watched is not None, "no check() has been given this tally"
        if not is_remote():
            spark = self._watched.sparkSession
            _actions.setdefault(spark, _Actions(spark)).expect(self._name)
            return
        # Spark Connect fills a mapping, as long as there is a DataFrame with the observation.
        waiting = [self._observation.get, ref(self._observation)]
        threading.Thread(target=_wait, args=waiting, name="sase-tally", daemon=True).start()


class _Actions:
    """Is told by Spark of every action of a session, as long as a tally waits for one: no thread waits."""

    def __init__(self, spark: SparkSession) -> None:
        self._session: Any = spark._jsparkSession
        self._utils: Any = spark.sparkContext._jvm.org.apache.spark.sql.api.python.PythonSQLUtils  # type: ignore[union-attr]
        self._expected: set[str] = set()
        self._lock = threading.Lock()

    def expect(self, name: str) -> None:
        with self._lock:
            if not self._expected:
                ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]
                self._session.listenerManager().register(self)
            self._expected.add(name)

    def onSuccess(self, action: str, execution: Any, nanoseconds: int) -> None:
        metrics = execution.observedMetrics()
        with self._lock:
            seen = self._expected & set(metrics.keys().mkString("\n").split("\n"))
            self._expected -= seen
            if not self._expected:
                self._session.listenerManager().unregister(self)
        for name in seen:
            row: Row = CPickleSerializer().loads(self._utils.toPyRow(metrics.apply(name)))  # type: ignore[no-untyped-call]
            _warn(row.asDict())

    def onFailure(self, action: str, execution: Any, exception: Any) -> None:
        pass

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


_actions: WeakKeyDictionary[SparkSession, _Actions] = WeakKeyDictionary()


def _wait(numbers: Mapping[str, int], observation: ref[Observation]) -> None:
    while not numbers and observation() is not None:
        time.sleep(0.2)
    with suppress(Exception):  # the session has ended, or there are no numbers
        _warn(numbers)


def _warn(seen: Mapping[str, int]) -> None:
    if ignored := _counts(seen).ignored:
        logging.getLogger("sase").warning("ignored: %s", ignored)


def _counts(seen: Mapping[str, int]) -> Counts:
    without = {what: seen[what] for what in ("time", "type", "tie-breaker", "usable time") if what in seen}
    return Counts(seen["all"] - sum(without.values()), without)
