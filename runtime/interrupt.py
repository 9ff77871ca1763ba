"""Ctrl-C while Spark works. As an exception it would hit a call to the JVM half-way and break the connection to it, and
py4j reports that at length; so it is a flag, and whoever waits looks at it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

T = TypeVar("T")

TICK, PATIENCE = 0.1, 3.0
"""Seconds: how often the flag is looked at, and how long a cancelled action may take to end."""


@contextmanager
def noted() -> Iterator[threading.Event]:
    """Ctrl-C as a flag. Only the main thread is told of it: in any other, the flag is never set."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def interruptible(action: Callable[[], T]) -> T:
    """What the action returns or raises. Ctrl-C cancels Spark's jobs, and is KeyboardInterrupt when they are over."""
    if threading.current_thread() is not threading.main_thread():
        return action()
    results: list[T] = []
    failures: list[BaseException] = []

    def act() -> None:
        try:
            results.append(action())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=act, name="sase", daemon=True)
    with noted() as interrupted:
        thread.start()
        while thread.is_alive() and not interrupted.is_set():
            thread.join(TICK)
        if interrupted.is_set():
            _end(thread)
            raise KeyboardInterrupt
    if failures:
        raise failures[0]
    return results[0]


def _end(thread: threading.Thread) -> None:
    """Cancels again and again, as the action may be about to start another job. Spark on its way up is left alone."""
    for _ in range(round(PATIENCE / TICK)):
        if not _cancel():
            return
        thread.join(TICK)
        if not thread.is_alive():
            return


def _cancel() -> bool:
    """Cancels Spark's jobs, where there is a Spark."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with suppress(Exception):
        if context := SparkContext._active_spark_context:
            context.cancelAllJobs()
            return True
        if session := SparkSession.getActiveSession():  # Spark Connect has no context
            session.interruptAll()
            return True
    return False
