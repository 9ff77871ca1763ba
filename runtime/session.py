"""The Spark session of a run: the one that is there, the one that spark-submit describes, or a local one."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from sase.runtime.archive import archive_options
from sase.runtime.errors import SaseRunError
from sase.runtime.io.report import starting
from sase.runtime.java import ensure_java

PARTITIONS_PER_CORE = 4

BATCH_ROWS, BATCH_BYTES = (f"spark.sql.execution.arrow.max{what}PerBatch" for what in ("Records", "Bytes"))
BATCHES = {BATCH_ROWS: "1000", BATCH_BYTES: str((1 << 31) - 1)}
"""An Arrow batch for Python ends with its rows, unless it may hold documents: Spark measures bytes after every row (see
`io.batches`). A tenth of Spark's 10,000 rows takes no longer, and a hundredth more than twice as long."""


_BUCKETING = "spark.sql.sources.bucketing"
KEEP_BUCKETS = {f"{_BUCKETING}.enabled": "true", f"{_BUCKETING}.autoBucketedScan.enabled": "false"}
"""A table in buckets of the key needs no shuffle (see `shuffle`), if Spark does not decide by itself that nobody needs
the buckets."""


DEEP = "-Xss16m"
"""A stream that is stopped while its sink works matches a long message with a recursive expression."""
ROOMY = "-XX:MetaspaceSize=256m"
"""Else Java collects garbage again and again while it loads Spark's classes."""
BRIEF = "-XX:TieredStopAtLevel=1"
"""For a Java of a few seconds: the better one of its two compilers takes longer than it saves."""
_USUAL = {"Invocation": 5_000, "MinInvocation": 600, "Compile": 15_000, "BackEdge": 40_000}
LASTING = "-XX:+UseParallelGC " + " ".join(f"-XX:Tier4{what}Threshold={10 * times}" for what, times in _USUAL.items())
"""For one that is there for longer, and shares the cores with its Python workers. The better compiler gets what runs
ten times as often as it usually asks for: loops over rows, and not all that plans a query, at which it would be for a
minute. Nor is garbage looked for while others work."""


def session(name: str = "sase", verbose: bool = False, bar: bool = True, brief: bool = False) -> SparkSession:
    """The session, quiet but for a progress bar on a terminal; `verbose` lets Spark say all that it has to say. A local
    one that is `brief` is quick to start, and slow at long work."""
    settings = {**_settings(name, verbose, bar), **BATCHES, **KEEP_BUCKETS}
    if SparkContext._active_spark_context is None and "SPARK_REMOTE" not in os.environ and not is_remote():
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            _join_submitted(settings)
        else:
            _start_local(settings, verbose, brief)
    if not verbose:
        # PySpark logs a failed query with its Java trace, and then raises the same as an exception.
        for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    spark = SparkSession.builder.getOrCreate()
    if not is_remote():
        # A thread of its own has no active session, and without one Spark finds no source that is made of Python.
        SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
    return spark


def _join_submitted(settings: dict[str, str]) -> None:
    """Takes what spark-submit was told, and adds to it. What Spark logs before this is out of reach."""
    SparkContext._ensure_initialized()  # from here on a new SparkConf has spark-submit's settings
    SparkContext(conf=_add(SparkConf(), settings))


def _start_local(settings: dict[str, str], verbose: bool, brief: bool) -> None:
    starting()
    java = ensure_java()
    options = [DEEP]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the workers take `python3` from the PATH
    if not {"SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"} & os.environ.keys():
        # Nobody has configured a Spark here. Its default of 1 GB is small for a run that has the machine to itself, and
        # with 200 partitions a small shuffle is busy with files.
        settings |= {
            "spark.ui.enabled": "false",
            "spark.driver.memory": f"{_memory_to_use() >> 20}m",
            "spark.sql.shuffle.partitions": str(PARTITIONS_PER_CORE * (os.cpu_count() or 1)),
        }
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", BRIEF)
        if "SPARK_SUBMIT_OPTS" not in os.environ:
            options += [ROOMY, archive_options(java), BRIEF if brief else LASTING]
    settings |= {"spark.driver.extraJavaOptions": " ".join(filter(None, options))}
    conf = _add(SparkConf(), settings)
    log = None if verbose else _StartupLog()
    try:
        if SparkContext._gateway is None:
            # Whoever reads our stdout waits for all that hold it, and Java may take longer to end than we do.
            pipe = {} if log is None else {"stdout": log.pipe, "stderr": log.pipe}
            SparkContext._ensure_initialized(gateway=launch_gateway(conf, pipe))  # type: ignore[no-untyped-call]
        SparkContext(conf=conf)
    except PySparkRuntimeError as error:
        raise SaseRunError(f"Spark did not start: {(log and log.complaint()) or error}") from error
    finally:
        if log is not None:
            log.let_through()


def _settings(name: str, verbose: bool, bar: bool) -> dict[str, str]:
    bar = bar and not verbose and sys.stderr.isatty()
    # A failed task is logged as an error with its Java trace, and then reaches us as an exception.
    level = "INFO" if verbose else "FATAL"
    return {"spark.app.name": name, "spark.ui.showConsoleProgress": str(bar).lower(), "spark.log.level": level}


def _add(conf: SparkConf, settings: dict[str, str]) -> SparkConf:
    for key, value in settings.items():
        conf.setIfMissing(key, value)
    return conf


def _memory_to_use() -> int:
    """A quarter of the machine's memory, which leaves room for Python workers and the file cache; from 1 to 16 GB."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(max(installed // 4, 1 << 30), 16 << 30)


_NOISE = (b"Starting Streaming TransformWithState", b"Streaming TransformWithState")
"""What PySpark prints whenever a stateful operator starts, whatever the log level."""
_TRACE = b"Traceback (most recent call last):"


class _StartupLog:
    """What the JVM says on its stderr: withheld while Spark starts, passed on to ours from then on.

    Java and Spark say a dozen things on the way up, some before any setting of the log is read (that a module is
    incubating, which log4j profile is used, that a native library is missing).
    """

    def __init__(self) -> None:
        self._end, self.pipe = os.pipe()
        self._withheld = bytearray()
        self._passing = False
        self._trace: list[bytes] = []
        threading.Thread(target=self._pump, name="spark-stderr", daemon=True).start()

    def _pump(self) -> None:
        rest = b""
        while chunk := os.read(self._end, 1 << 16):
            if not self._passing:
                self._withheld += chunk
                continue
            # Whole lines, so that chatter can be told from the rest. A progress bar has no line end, and passes.
            *lines, rest = (rest + chunk).split(b"\n")
            worth = b"".join(line + b"\n" for line in self._worth_saying(lines))
            if not (self._trace or rest.startswith(_NOISE) or _TRACE.startswith(rest)):
                worth, rest = worth + rest, b""
            os.write(2, worth)

    def _worth_saying(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            if line == _TRACE or (self._trace and line.startswith(b" ")):
                self._trace.append(line)
                continue
            trace, self._trace = self._trace, []
            if trace and line.startswith(b"BrokenPipeError") and any(b"pyspark/daemon.py" in part for part in trace):
                continue  # a worker that was at work for a job that has been cancelled
            yield from trace
            if line and not line.startswith(_NOISE):
                yield line

    def let_through(self) -> None:
        self._passing = True
        os.close(self.pipe)  # the JVM has its own

    def complaint(self) -> str:
        """The first line of what was withheld that is not idle talk; the rest is usage or a trace."""
        lines = self._withheld.decode(errors="replace").splitlines()
        return next((line for line in lines if line and not line.startswith(("WARNING:", "Using ", "Setting "))), "")


STEADY = re.compile(r"(UTC|GMT|UT|Z|Etc/(UTC|GMT|UCT|Zulu|Universal|Greenwich)|(UTC|GMT|UT)?[+-]\d{1,2}(:?\d\d){0,2})")
"""Time zones whose clocks never change: those that are named after their distance from UTC."""


def has_steady_clocks(spark: SparkSession) -> bool:
    return bool(STEADY.fullmatch(spark.conf.get("spark.sql.session.timeZone") or ""))
