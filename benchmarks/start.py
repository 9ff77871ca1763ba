"""How long one waits: for the demo, for a check, for `make setup`. Each is a process of its own, from start to end.

A run is compared with a bare PySpark script that reads the same file and counts groups, and what only compiles with
Python importing the two libraries that parse.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import FOLDER, Bench
from benchmarks.measure import Result, Say
from benchmarks.results import Results

ROOT = FOLDER.parent
EVENTS = "examples/data/retail.parquet"
QUERY = ["examples/shoplifters.sase", "--catalog", "examples/retail.toml"]
SASE = [sys.executable, "-m", "sase"]
BARE = f"""
from pyspark.sql import SparkSession
SparkSession.builder.getOrCreate().read.parquet({EVENTS!r}).groupBy("type").count().show()
"""
IMPORTS, SCRIPT = "import sqlglot, lark", "a bare PySpark script"

COMMANDS = {
    SCRIPT: [sys.executable, "-c", BARE],
    "sase run": [*SASE, "run", *QUERY, "--events", EVENTS],
    "sase run, no archive": [*SASE, "run", *QUERY, "--events", EVENTS],
    IMPORTS: [sys.executable, "-c", IMPORTS],
    **{f"sase {name}": [*SASE, name, *QUERY] for name in ("check", "compile", "explain")},
}
TARGETS = {"sase run": (SCRIPT, 0.7), **{f"sase {name}": (IMPORTS, 2.0) for name in ("check", "compile", "explain")}}
"""At most so many times the time of that."""


@dataclass(frozen=True)
class Starting:
    rounds: int
    name: str = "start"

    def run(self, bench: Bench, say: Say) -> Result:
        bench.stop_spark()
        subprocess.run([sys.executable, "-m", "sase.archive"], cwd=ROOT, env=_environment(), check=True)
        seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for at in range(-1, self.rounds):  # the first round warms up
            for name, command in COMMANDS.items():
                taken = _seconds(command, ROOT, {"SASE_CLASS_ARCHIVE": "0"} if "no archive" in name else {})
                if at >= 0:
                    seconds[name].append(taken)
        for name, taken_each in seconds.items():
            say(f"{name}: {statistics.median(taken_each):.2f} s")
        contenders = {name: {"status": "done", "seconds": taken} for name, taken in seconds.items()}
        return {"contenders": {**contenders, "make setup": {"status": "done", "seconds": [_setup()]}}}


def _setup() -> float:
    """In a fresh clone. What it installs is in the caches of the package managers: this very checkout has it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
        return _seconds(["make", "setup"], Path(folder), {})


def _seconds(command: list[str], folder: Path, more: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, env=_environment() | more, check=True, capture_output=True)
    return time.perf_counter() - started


def _environment() -> dict[str, str]:
    """As a user has it: nothing is told to Java, and Python keeps its bytecode."""
    return {key: value for key, value in os.environ.items() if key not in ("SPARK_SUBMIT_OPTS", DONT_WRITE)}


DONT_WRITE = "PYTHONDONTWRITEBYTECODE"


def section(results: Results) -> str:
    result = results.load("start")
    if result is None:
        return ""
    found = {name: statistics.median(entry["seconds"]) for name, entry in result["contenders"].items()}
    load = result["load_before"]
    lines = ["| | seconds | to reach | measured | |", "| --- | --- | --- | --- | --- |"]
    for name, seconds in found.items():
        base, most = TARGETS.get(name, ("", 0.0))
        measured = seconds / found[base] if base else 0.0
        verdict = ("reached" if measured <= most else "**not reached**") if base else ""
        lines.append(
            f"| {name} | {seconds:.2f} | {f'≤ {most:g}× {base}' if base else ''} | "
            f"{f'{measured:.2f}×' if base else ''} | {verdict} |"
        )
    return "\n\n".join(
        (
            "## Starting",
            "Processes from start to end, on the demo's 6,472 events; medians of rounds in which they took turns. "
            "Spark has an archive of its classes, made once in the background; *no archive* is a machine's first run. "
            "`make setup` ran once, in a fresh clone, with all packages in the caches."
            + (f" The machine had other work to do (a load of {load:.0f})." if load > 1 else ""),
            "\n".join(lines),
        )
    )
