"""What all tests share: one Spark session, the golden-file switch, and how hard hypothesis tries."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from effort import USUAL
from hypothesis import HealthCheck, settings
from py4j.java_gateway import JavaClass, JavaMember
from pyspark.sql import SparkSession
from quick_spark import SETTINGS
from xdist.scheduler import LoadScopeScheduling

from sase.runtime.archive import mapped
from sase.runtime.java import ensure_java

# Spark turns timestamps into Python's naive local time: with one zone everywhere, expected values can be written down.
os.environ["TZ"] = "UTC"
time.tzset()

# Else the workers take `python3` from the PATH.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

# Every Python that is started from here on takes `startup/sitecustomize.py` along, workers of Spark included.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).parent / "startup"), os.environ.get("PYTHONPATH")])
)

# These JVMs are short-lived, so one compiler will do, with room for what it makes; and room for what Spark makes, which
# is garbage soon. It compiles soon, too: a third of the time went by before it did. Classes come from the archive that
# `make archive` has made.
OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=0.15 -XX:ReservedCodeCacheSize=240m "
    "-XX:+UseSerialGC -XX:NewSize=200m -XX:MetaspaceSize=256m"
)
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{OPTIONS} {mapped(Path(sys.prefix, 'spark.jsa'))}")

# "ci" is the same run every time; HYPOTHESIS_PROFILE=thorough looks for new examples, and for longer. An example that
# runs a Spark job takes as long as it takes.
SLOW_IS_FINE = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=USUAL, derandomize=True, **SLOW_IS_FINE)
settings.register_profile("thorough", max_examples=40 * USUAL, **SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate-golden", action="store_true", help="write the golden files instead of comparing")


SLOWEST = (
    "test_notebooks.py",
    "test_readme.py",
    "test_nested_patterns.py::test_examples_and_traps",
    "test_connect.py",
    "test_stream.py::test_streams_give",
    "test_stream.py::test_kill",
    "test_composition.py",
    "test_in_place.py",
    "test_job.py",
    "test_browser.py",
    "test_analyze.py",
    "test_run_streams.py",
    "test_nested_row_streams.py",
    "test_united_row_streams.py",
    "test_file_streams.py",
    "test_magic.py",
    "test_sql.py",
    "test_pictures.py",
    "test_random_queries.py",
    "test_any_order.py",
    "test_aggregates.py",
    "test_stream_core.py",
    "test_nested_patterns.py",
    "test_vdms_pq.py",
    "test_cli.py",
    "test_stream.py",
    "test_benchmarks.py",
    "test_self_joins_spark.py",
    "test_examples.py",
    "test_limits.py",
    "test_spelling.py",
)


APART = (
    "test_aggregates.py",
    "test_any_order.py",
    "test_cli.py",
    "test_composition.py",
    "test_file_streams.py",
    "test_in_place.py",
    "test_nested_patterns.py",
    "test_nested_row_streams.py",
    "test_random_queries.py",
    "test_run_streams.py",
    "test_stream.py",
    "test_stream_core.py",
    "test_vdms_pq.py",
)
"""Files of long tests that share nothing but the session."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest tests first: the processes then end at much the same time.

    `make check` leaves out what is marked `spark`: a test that takes the session, or says itself that it starts a JVM.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: next((at for at, name in enumerate(SLOWEST) if name in item.nodeid), len(SLOWEST)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """The process that is next free takes a file, or a single test of those that stand `APART`."""
    return _Scheduling(config, log)


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return nodeid if file.endswith(APART) else file


@pytest.fixture(scope="session")
def regenerate_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--regenerate-golden"))


CLASSES = (
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "PythonRDD",
    "PythonSQLUtils",
    "PythonUtils",
    "SerDeUtil",
    "SimplePythonFunction",
)
"""As PySpark names them."""


class _Class(JavaClass):  # type: ignore[misc]
    """Remembers its static methods, of which Java is asked each time else."""

    def __getattr__(self, name: str) -> object:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            vars(self)[name] = member
        return member


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests, as small as parallelism allows: starting one costs seconds."""
    ensure_java()
    session = (
        SparkSession.builder.master("local[2]")
        .appName("sase-tests")
        .config(map=SETTINGS)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    # Whoever makes a column asks Java for these, and Java searches 300 jars for some of them, every time.
    for name in CLASSES:
        found = getattr(session._jvm, name)
        vars(session._jvm)[name] = _Class(found._fqn, found._gateway_client)
    yield session
    session.stop()
