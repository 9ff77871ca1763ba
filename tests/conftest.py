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
from pyspark.sql import SparkSession

from sase.runtime.archive import mapped
from sase.runtime.java import ensure_java

# Spark turns timestamps into Python's naive local time: with one zone everywhere, expected values can be written down.
os.environ["TZ"] = "UTC"
time.tzset()

# Else the workers take `python3` from the PATH.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

# These JVMs are short-lived, so one compiler will do, with room for what it makes; and room for what Spark makes, which
# is garbage soon. Classes come from the archive that `make archive` has made.
OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:NewSize=200m -XX:MetaspaceSize=256m"
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
    "test_notebooks",
    "test_stream",
    "test_cli",
    "test_readme",
    "test_random_queries",
    "test_nested_patterns",
    "test_any_order",
    "test_aggregates",
    "test_connect",
    "test_composition",
    "test_browser",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest files first: the processes then end at much the same time.

    `make check` leaves out what is marked `spark`: a test that takes the session, or says itself that it starts a JVM.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: SLOWEST.index(item.path.stem) if item.path.stem in SLOWEST else len(SLOWEST))


@pytest.fixture(scope="session")
def regenerate_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--regenerate-golden"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests, as small as parallelism allows: starting one costs seconds."""
    ensure_java()
    session = (
        SparkSession.builder.master("local[2]")
        .appName("sase-tests")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    yield session
    session.stop()
