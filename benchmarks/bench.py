"""What a benchmark run shares: the cache, the cores, the Spark session, the machine's facts."""

from __future__ import annotations

import os
import platform
import shlex
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from benchmarks.data import Source, parquet
from sase.runtime.session import DEEP, LASTING, ROOMY, session

FOLDER = Path(__file__).resolve().parent
PARTITIONS_PER_CORE = 4


class Bench:
    def __init__(self, cache: Path = FOLDER / ".cache", cores: int | None = None) -> None:
        self.cache = cache
        self.cores = cores or os.cpu_count() or 1
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.memory_mb = min(max(installed // 4, 1 << 30), 16 << 30) >> 20
        """For each engine: a quarter of the machine, as `sase run` takes for Spark."""
        self._events: dict[Source, DataFrame] = {}
        self._started = False

    @cached_property
    def spark(self) -> SparkSession:
        """A quiet local session, as `sase run` starts it. The settings are given as to spark-submit."""
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{DEEP} {ROOMY} {LASTING}",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": self.cache / "spark",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": PARTITIONS_PER_CORE * self.cores,
            "spark.sql.warehouse.dir": self.cache / "warehouse",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        options = ["--master", f"local[{self.cores}]", "--driver-memory", f"{self.memory_mb}m"]
        options += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*options, "pyspark-shell"])
        self._started = SparkContext._gateway is None or self._started
        return session("sase-benchmarks")

    def stop_spark(self) -> None:
        """The next use of `spark` starts a session with new Python workers."""
        if "spark" in self.__dict__:
            self.spark.stop()
            del self.__dict__["spark"]
            self._events.clear()

    def abandon_spark(self) -> None:
        """Ends the JVM that this object started, and no other; the next use of `spark` starts another.

        A cancelled task does not end inside the loop over one row's join partners, and buffers what that yields: left
        alone, it keeps a core from all later measurements and may take the JVM's last memory.
        """
        gateway = SparkContext._gateway
        if not self._started or gateway is None:
            return
        self._started = False
        gateway.proc.kill()
        gateway.proc.wait()
        gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        self.__dict__.pop("spark", None)
        self._events.clear()

    def parquet(self, source: Source) -> Path:
        return parquet(source, self.cache / "events")

    def events(self, source: Source) -> DataFrame:
        if source not in self._events:
            self._events[source] = self.spark.read.parquet(str(self.parquet(source)))
        return self._events[source]

    def facts(self) -> dict[str, object]:
        """The machine and the versions, without names of hosts, users or folders."""
        return {
            "system": platform.system(),
            "processor": _processor(),
            "cores": self.cores,
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "python": platform.python_version(),
            **{name: _version(name) for name in ("sase", "pyspark", "numba", "pyarrow", "duckdb")},
        }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
