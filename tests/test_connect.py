"""Spark Connect, as Databricks and other services have it: the session is a client, and there is no JVM to call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from quick_spark import SETTINGS

from sase.runtime.java import ensure_java

pytestmark = pytest.mark.spark

# A session that is a client has its own way of finding the modules of workers.
QUICK = {name: value for name, value in SETTINGS.items() if name.startswith("spark.sql.")}

EXAMPLES = Path(__file__).parent.parent / "examples"

# In a process of its own: one that has spoken to a remote Spark takes every session for a remote one.
SCRIPT = """
import json, logging, os, sys, tempfile, time
from contextlib import redirect_stderr
from IPython.core.interactiveshell import InteractiveShell
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

logging.basicConfig(stream=sys.stdout, format="%(name)s: %(message)s")
spark = SparkSession.builder.remote("local[2]").config(map=json.loads(os.environ["QUICK"])).getOrCreate()
print("session", type(spark).__module__)

import sase
from sase.cli import main
from sase.analysis.collect import _cores

assert sase.session() is spark
events = spark.read.parquet("data/retail.parquet")
text, catalog = open("shoplifters.sase").read(), sase.Catalog.load("retail.toml")
query = sase.compile(text, catalog)
print("standalone", sase.compile(text, catalog, standalone=True).run(events).count())
leaving = events.where("type = 'EXIT-READING'").limit(3)
print("with bad events", query.run(events.unionByName(leaving.withColumn("ts", F.lit(None).cast("timestamp")))).count())
time.sleep(1)
print("cores", _cores(spark))
try:
    query.analyze(events)
except sase.SaseRunError as error:
    print("analyze", error)
arriving = spark.readStream.schema(events.schema).parquet("data", pathGlobFilter="retail.*")
live = query.run(arriving, max_delay="1 hour", buckets=2).writeStream.format("memory").queryName("live")
live.option("checkpointLocation", tempfile.mkdtemp()).trigger(availableNow=True).start().awaitTermination()
print("live", spark.table("live").exceptAll(query.run(events)).count(), spark.table("live").count())
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "sase")
shell.user_ns["readings"] = events
shell.run_cell_magic("sase", "found --events readings --catalog retail.toml", text)
print("magic", spark.table("found").count())
run = ["run", "shoplifters.sase", "--catalog", "retail.toml", "--events", "data/retail.parquet"]
with redirect_stderr(sys.stdout):
    print("stream", main([*run, "--stream"]))
print("exit", main(run))
"""


@pytest.fixture(scope="module")
def printed() -> str:
    ensure_java()
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=EXAMPLES,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "QUICK": json.dumps(QUICK)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-4000:]
    return answer.stdout


def test_a_standalone_query_finds_its_matches(printed: str) -> None:
    assert "session pyspark.sql.connect.session\nstandalone 7\n" in printed


def test_bad_events_are_warned_of(printed: str) -> None:
    assert "with bad events 7\nsase: rejected: 3 events without a time\n" in printed


def test_what_needs_no_jvm_is_there_and_what_does_says_so(printed: str) -> None:
    assert "cores 2\n" in printed
    assert "analyze analysing counts with Spark's accumulators, which Spark Connect has not" in printed


def test_a_stream_gives_the_answers_of_batch(printed: str) -> None:
    assert "live 0 7\n" in printed


def test_the_magic_finds_them_there(printed: str) -> None:
    assert "magic 7\n" in printed


def test_the_command_line_runs_there(printed: str) -> None:
    assert "1203  toys             8  2026-03-03 15:01:41" in printed and printed.endswith("exit 0\n")
    assert "error: with Spark Connect, micro-batches are written where Spark is" in printed and "stream 1\n" in printed
