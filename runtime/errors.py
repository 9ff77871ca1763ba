"""What can go wrong while a job runs, said to the person who started it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager


class SaseRunError(Exception):
    """A run that cannot go on; the message says what is wrong and what to do."""


@contextmanager
def explained() -> Iterator[None]:
    """Turns Spark's failures into one short message; the exception itself stays attached as the cause."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        raise SaseRunError(explain(error)) from error


def explain(error: Exception) -> str:
    """The useful part of what Spark says, which is the innermost of many causes, without the frames around it."""
    text = str(error)
    messages = [_plain(message) for message in _CAUSE.findall(text)] or [_plain(text)]
    file = re.search(r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (\S+?)\.?\s", text)
    record = re.search(r"Malformed records are detected in record parsing: (.*)\.\s*\n", text)
    match text:
        case _ if lost := re.search(r"ModuleNotFoundError: No module named '(sase[.\w]*)'", text):
            return (
                f"the Python of Spark's executors has no module {lost[1]!r}\n"
                "Install sase there, or compile the query with --standalone: such a job carries what it needs"
            )
        case _ if "Traceback (most recent call last)" in text:
            return f"a Python worker of Spark failed: {_last_line_of_traceback(text)}"
        case _ if "Python worker exited unexpectedly" in text:
            return (
                "a Python worker of Spark died, most often for want of memory\n"
                "Give the executors more (spark.executor.memoryOverhead), or use more partitions"
            )
        case _ if "[DATA_SOURCE_NOT_FOUND]" in text:
            return f"{messages[0]}\nAdd its package to the session, as spark-submit --packages does"
        case _ if file and record:
            return f"{file[1]} has a record that cannot be read, {record[1]}: {messages[-1]}"
        case _ if file:
            return f"{file[1]} cannot be read: {messages[-1]}"
    return messages[-1]


# One exception of a Java stack trace: its class, then a message that ends where the frames begin.
_CAUSE = re.compile(
    r"^(?:: |Caused by: )[\w.$]+(?:Exception|Error)?: (.*?)(?=\n\tat |\n\t\.\.\. |\nCaused by: |\Z)", re.M | re.S
)


def _plain(message: str) -> str:
    """The first line, without Spark's error condition, its SQLSTATE and the advice to change Spark's settings."""
    line = message.strip().split("\n")[0]
    line = re.sub(r"^\[[A-Z0-9_.]+\] ", "", line)
    line = re.sub(r"\s*SQLSTATE: \w+.*$", "", line)
    line = re.sub(r"^.*most recent failure: Lost task [^:]*: (?:[\w.$]+: )?", "", line)
    return line.rstrip(" .:")


def _last_line_of_traceback(text: str) -> str:
    lines = [line for line in text.splitlines() if re.match(r"[\w.]+(?:Error|Exception|Interrupt|Exit)?: ?\S", line)]
    return lines[-1] if lines else _plain(text)
