"""What can go wrong while a job runs, said to the person who started it."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager


class SaseRunError(Exception):
    """A run that cannot go on; the message says what is wrong and what to do.

    `fragment` is the part of Spark SQL that failed, or the name of a function that Spark does not know; `where` is its
    place in the query, where that is known.
    """

    def __init__(self, message: str, fragment: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.fragment = fragment
        self.where = where

    @property
    def report(self) -> str:
        """As it is printed."""
        return f"{self.where}: error: {self}" if self.where else f"error: {self}"


@contextmanager
def explained() -> Iterator[None]:
    """Turns Spark's exceptions into short messages. Any other exception is a bug of ours, and passes."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        raise failure(error) from error


@contextmanager
def exiting(verbose: bool) -> Iterator[None]:
    """Ends the program with 1 where the run cannot go on, and says why; with 130 after Ctrl-C."""
    try:
        yield
    except SaseRunError as error:
        if verbose:
            traceback.print_exc()
        print(error.report, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def failure(error: Exception | str) -> SaseRunError:
    """An exception of Spark, or its text, as ours; where it tells which expression failed, with that."""
    text = str(error)
    if unknown := _UNKNOWN.search(text):
        return SaseRunError(f"Spark has no function {unknown[1]}", unknown[1])
    if not (place := _PLACE.search(text)):
        return SaseRunError(explain(error))
    fragment = place[1][len(place[2]) : len(place[2]) + len(place[3])]
    return SaseRunError(f"{explain(error)}\nin  {fragment}", fragment)


_UNKNOWN = re.compile(r"\[UNRESOLVED_ROUTINE\] Cannot resolve routine `([^`]+)`")
_PLACE = re.compile(r"^== SQL \(line \d+, position \d+\) ==\n(.*)\n( *)(\^+)$", re.MULTILINE)
"""Spark shows the SQL, and carets below the part that failed."""


def explain(error: Exception | str) -> str:
    """What an exception of Spark comes down to: its innermost cause, without the trace."""
    text = str(error)
    if raised := re.search(r"\bSaseRunError: (.+)", text):
        return raised[1]
    if module := re.search(r"ModuleNotFoundError: No module named '(sase[.\w]*)'", text):
        return (
            f"the Python of Spark's executors has no module {module[1]!r}\n"
            "Install sase there, or compile the query with --standalone: such a job carries what it needs"
        )
    if raised := re.search(r"\[USER_RAISED_EXCEPTION\] (.*) SQLSTATE: P0001", text):
        return raised[1]
    if "[PYTHON_DATA_SOURCE_ERROR]" in text:
        return _raised(text).partition(": ")[2]
    if "Traceback (most recent call last)" in text:
        return f"a Python worker of Spark failed: {_raised(text)}"
    if found := re.search(r"Invalid batch: path#\d+,modificationTime#.*content#\d+,(\w+)#", text):
        return (
            f"a directory {found[1]}=… has come, whose name has values of a column: compile the query with --strategy "
            "scan=spark, which leaves reading to Spark, and start again"
        )
    if "Python worker exited unexpectedly" in text:
        return (
            "a Python worker of Spark died, most often for want of memory\n"
            "Give the executors more (spark.executor.memoryOverhead), or use more partitions. Should a window of one "
            "key hold too many events, --max-window-events-per-key tells of which key"
        )
    causes = [_plain(message) for message in _CAUSE.findall(text)] or [_plain(text)]
    if "[DATA_SOURCE_NOT_FOUND]" in text:
        ours = ", or install deltalake" if "source: delta" in text else ""
        return f"{causes[0]}\nAdd its package to the session, as with spark-submit --packages{ours}"
    if file := re.search(r"\[FAILED_READ_FILE\S*\] Encountered error while reading file (\S+?)\.?\s", text):
        return f"{file[1]} cannot be read: {causes[-1]}"
    return causes[-1]


# One exception of a Java trace: the name of its class, then a message that ends where the frames begin.
_CAUSE = re.compile(
    r"^(?:: |Caused by: )[\w.$]+: (.*?)(?=\n\tat |\n\t\.\.\. |\nCaused by: |\Z)", re.MULTILINE | re.DOTALL
)


def _plain(message: str) -> str:
    """The first line, without the names that Spark gives to the error, the task and the exception."""
    line = message.strip().split("\n")[0]
    line = re.sub(r"^.*most recent failure: Lost task [^:]*: (?:[\w.$]+: )?", "", line)
    line = re.sub(r"^\[[A-Z0-9_.]+\] ", "", line)
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", line).rstrip(" .:")


def _raised(text: str) -> str:
    """The line of the last Python traceback that names the exception: the first that is not indented, as frames are."""
    lines = text.rpartition("Traceback (most recent call last):\n")[2].splitlines()
    return next((line for line in lines if line and not line[0].isspace()), _plain(text))
