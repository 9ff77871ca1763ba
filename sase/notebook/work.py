"""Spark at work for a cell: progress while it goes on, and a stop button that stops it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, TypeVar

from pyspark import InheritableThread

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """How far Spark is. It finds out the number of tasks as it goes, so `tasks` may grow."""

    label: str
    done: int
    tasks: int
    seconds: int

    def __repr__(self) -> str:
        tasks = f"{self.done} of {self.tasks} tasks · " if self.tasks else ""
        return f"{self.label} … {tasks}{self.seconds} s"

    def _repr_html_(self) -> str:
        value = f' value="{self.done}" max="{self.tasks}"' if self.tasks else ""
        bar = f'<progress{value} style="width: 12em"></progress>'
        return f'<div style="font-size: 0.9em; opacity: 0.8">{bar} {escape(repr(self))}</div>'


class Interrupted(KeyboardInterrupt):
    """The stop button: Spark has been told, and has stopped."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"interrupted after {seconds:.1f} s; the Spark job was cancelled")

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def at_work(spark: SparkSession, label: str, action: Callable[[], T], show: Callable[[Progress], None]) -> T:
    """The action's result. It runs in a thread of its own, so that an interrupt never hits a call to the JVM half-way:
    the answer to that call would be taken for the answer to the next one."""
    started, results, errors = time.monotonic(), list[T](), list[BaseException]()
    group = _Group(spark)

    def act() -> None:
        try:
            group.join(f"sase: {label}")
            results.append(action())
        except BaseException as error:
            errors.append(error)

    thread = InheritableThread(act, session=spark)
    thread.daemon = True
    thread.start()
    shown: Progress | None = None
    try:
        while thread.is_alive():
            thread.join(0.25)
            now = Progress(label, *group.tasks(), round(time.monotonic() - started))
            if thread.is_alive() and now != shown:
                show(now)
                shown = now
    except KeyboardInterrupt:
        group.cancel()
        thread.join(30)
        raise Interrupted(time.monotonic() - started) from None
    if errors:
        raise errors[0]
    return results[0]


class _Group:
    """The Spark jobs of one action. Spark Connect has tags in place of groups, and tells nothing of tasks."""

    def __init__(self, spark: SparkSession) -> None:
        self._name = f"sase-{uuid.uuid4()}"
        self._spark = spark
        self._context: SparkContext | None = getattr(spark, "sparkContext", None)

    def join(self, description: str) -> None:
        """To be called by the thread that starts the jobs."""
        if self._context is None:
            self._spark.addTag(self._name)
        else:
            self._context.setJobGroup(self._name, description, interruptOnCancel=True)

    def cancel(self) -> None:
        if self._context is None:
            self._spark.interruptTag(self._name)
        else:
            self._context.cancelJobGroup(self._name)

    def tasks(self) -> tuple[int, int]:
        """Done, and all, of the stages that have begun."""
        if self._context is None:
            return 0, 0
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._name)]
        stages = {stage for job in jobs if job for stage in job.stageIds}
        known = [info for info in map(tracker.getStageInfo, stages) if info]
        return sum(info.numCompletedTasks for info in known), sum(info.numTasks for info in known)
