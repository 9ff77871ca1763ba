"""Spark at work for a cell: progress while it goes on, and a stop button that stops it."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

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
    """The stop button: what was at work has been told, and has stopped."""

    def __init__(self, outcome: str = "") -> None:
        super().__init__(f"interrupted {outcome}".rstrip())

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class StopButton:
    """The stop button of a notebook, while a cell runs. A press is noted and raises nothing: an exception out of the
    blue may hit a call to the JVM half-way, and the answer to that call would be taken for the answer to the next."""

    def __init__(self) -> None:
        self.presses = 0
        self._usual: Any = None

    def __enter__(self) -> StopButton:
        self.hold()
        return self

    def hold(self) -> None:
        """Takes the signal. To be repeated where a Spark context may have been made, as that takes it, too."""
        if threading.current_thread() is threading.main_thread():  # no other thread is ever sent a signal
            before = signal.signal(signal.SIGINT, self._press)
            self._usual = self._usual if before == self._press else before

    def _press(self, *_: object) -> None:
        self.presses += 1

    def check(self) -> None:
        """Raises, at a place where it does no harm."""
        if self.presses:
            raise Interrupted("before Spark had anything to do")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._usual is not None:
            signal.signal(signal.SIGINT, self._usual)
        if kind is None and self.presses:
            raise Interrupted("when all was done")  # "run all" ends here


TICK, PATIENCE = 0.25, 30.0


def at_work(
    spark: SparkSession,
    label: str,
    action: Callable[[], T],
    show: Callable[[Progress], None],
    button: StopButton,
    cancel: Callable[[], None] | None = None,
) -> T:
    """The action's result. It runs in a thread of its own, and this one watches it. The stop button cancels its Spark
    jobs, or does what `cancel` does."""
    started, results, errors = time.monotonic(), list[T](), list[BaseException]()
    group = _Group(spark)

    def act() -> None:
        try:
            group.join(f"sase: {label}")
            results.append(action())
        except BaseException as error:
            errors.append(error)

    button.check()
    thread = InheritableThread(act, session=spark)
    thread.daemon = True
    thread.start()
    shown: Progress | None = None
    while thread.is_alive():
        thread.join(TICK)
        if button.presses:
            over = _ended(thread, button, cancel or group.cancel)
            outcome = f"the {'stream' if cancel else 'Spark job'} {'was cancelled' if over else 'has yet to stop'}"
            raise Interrupted(f"after {time.monotonic() - started:.1f} s; {outcome}")
        now = Progress(label, *group.tasks(), round(time.monotonic() - started))
        if thread.is_alive() and now != shown:
            show(now)
            shown = now
    if errors:
        raise errors[0]
    return results[0]


def _ended(thread: Thread, button: StopButton, cancel: Callable[[], None]) -> bool:
    """Whether the action is over. It is cancelled again and again, as it may be about to start another job; whoever
    presses once more is not kept waiting."""

    def insist() -> None:
        alive = True
        while alive:
            alive = thread.is_alive()
            cancel()
            thread.join(TICK)

    presses, until = button.presses, time.monotonic() + PATIENCE
    insisting = Thread(target=insist, name="sase-stop", daemon=True)
    insisting.start()
    while insisting.is_alive() and button.presses == presses and time.monotonic() < until:
        insisting.join(TICK)
    return not insisting.is_alive()


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
