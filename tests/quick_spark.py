"""A Spark for queries that are small and run once."""

from __future__ import annotations

import shlex
from pathlib import Path

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # To compile a plan costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # To check a plan after each rule that has changed it, and to describe it at length, is for those who write rules.
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ui.explainMode": "simple",
    # Nor does anybody read where in Python a column was made, which costs five calls to Java each time.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.python.daemon.module": "warm_daemon",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""The README's first commands, and jobs of their own, have Spark's own settings."""


def environment(compiled: bool = False) -> dict[str, str]:
    """For a process that starts its own. With many events, plans are better `compiled`."""
    settings = {name: value for name, value in SETTINGS.items() if not (compiled and "codegen" in name)}
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return {"PYSPARK_SUBMIT_ARGS": shlex.join([*given, "pyspark-shell"])}
