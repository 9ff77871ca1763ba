"""What the JVM says, and what of it reaches the user."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from sase.runtime.java import ensure_java
from sase.runtime.session import BRIEF, DEEP, LASTING, ROOMY, _StartupLog

TRACE = """Traceback (most recent call last):
  File "/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker
{}: said
"""


def test_idle_talk_is_withheld_and_the_rest_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    log = _StartupLog()
    os.write(log.pipe, b"Using an incubating module\n")
    time.sleep(0.2)
    jvm = os.dup(log.pipe)
    log.let_through()
    said = "".join(
        [
            "Starting Streaming TransformWithState\n",
            TRACE.format("BrokenPipeError"),  # of a worker whose job was cancelled
            TRACE.format("ValueError"),
            "a line\n",
            "a bar [=>",
        ]
    )
    for part in (said[:70], said[70:100], said[100:]):
        os.write(jvm, part.encode())
        time.sleep(0.05)
    os.close(jvm)
    time.sleep(0.2)
    assert capfd.readouterr().err == TRACE.format("ValueError") + "a line\na bar [=>"


@pytest.mark.spark
@pytest.mark.parametrize(("how", "compiler", "most"), [(BRIEF, "1", "5000"), (LASTING, "4", "50000")])
def test_java_is_told_what_to_compile_well(how: str, compiler: str, most: str) -> None:
    """Elsewhere in the tests, Java has other settings."""
    ensure_java()
    home = os.environ.get("JAVA_HOME")
    command = [
        str(Path(home, "bin", "java")) if home else "java",
        *f"{DEEP} {ROOMY} {how}".split(),
        "-XX:+PrintFlagsFinal",
        "-version",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "JDK_JAVA_OPTIONS": ""})
    assert answer.returncode == 0, answer.stderr
    flags = {line.split()[1]: line.split()[3] for line in answer.stdout.splitlines() if line.count("=") == 1}
    assert (flags["TieredStopAtLevel"], flags["Tier4InvocationThreshold"]) == (compiler, most)
    assert flags["MetaspaceSize"] == str(256 << 20)
    assert how == BRIEF or flags["UseParallelGC"] == "true"
