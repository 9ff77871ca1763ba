"""What the JVM says, and what of it reaches the user."""

from __future__ import annotations

import os
import time

import pytest

from sase.runtime.session import _StartupLog

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
