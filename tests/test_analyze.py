"""`explain --analyze`: what got through each step, and what removed the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sase
from sase.cli import main
from sase.compiler.plan.rules import NAMES

EXAMPLES = Path(__file__).parent.parent / "examples"

CATALOG = sase.Catalog(
    types={name: {"ts": "bigint", "id": "bigint", "v": "int"} for name in ("A", "B", "C")},
)
QUERY = "EVENT SEQ(A x, !(B n), C z) WHERE [id] AND x.v > 1 AND x.v < z.v AND abs(x.v - z.v) < 5 WITHIN 10"
EVENTS = [
    ("A", 1, 1, 2), ("C", 2, 1, 3),  # a match
    ("A", 1, 2, 0), ("C", 2, 2, 3),  # x.v > 1 fails
    ("A", 1, 3, 4), ("C", 2, 3, 3),  # x.v < z.v fails
    ("A", 1, 4, 2), ("B", 2, 4, 0), ("C", 3, 4, 3),  # an n between
    ("A", 1, 5, 2), ("C", 2, 5, 9),  # abs(x.v - z.v) < 5 fails
    ("A", 1, 6, 2), ("C", 50, 6, 3),  # out of the window
    ("A", 1, None, 2), ("C", 2, None, 3),  # no key
    ("D", 1, 1, 1),  # not of the query's types
]  # fmt: skip


def test_every_step_tells_what_it_removed(spark: SparkSession) -> None:
    events = spark.createDataFrame(EVENTS, "type string, ts bigint, id bigint, v int")
    shown = sase.compile(QUERY, CATALOG, slice="off").analyze(events)
    assert [" ".join(line.split()) for line in shown.splitlines()] == [
        "events of the query's types 15",
        "filter x type = 'A' 7",
        "v IS NOT NULL 7",
        "id IS NOT NULL 6 -1",
        "v > 1 5 -1",
        "filter z type = 'C' 7",
        "v IS NOT NULL 7",
        "id IS NOT NULL 6 -1",
        "filter n type = 'B' 1",
        "id IS NOT NULL 1",
        "scan instances of x 5",
        "instances of z 4",
        "construction candidates of x 3",
        "removed by x.v < z.v -1",
        "killed by n -1",
        "sequences sequences built 2",
        "selection abs(x.v - z.v) < 5 1 -1",
        "result matches 1",
    ]


@pytest.mark.parametrize("strategy", [{"disable": NAMES}, {"negation": "anti-join"}, {"slice": 20}])
def test_the_last_line_is_the_number_of_matches_under_any_plan(
    spark: SparkSession, strategy: dict[str, object]
) -> None:
    events = spark.createDataFrame(EVENTS, "type string, ts bigint, id bigint, v int")
    assert sase.compile(QUERY, CATALOG, **strategy).analyze(events).splitlines()[-1].split() == [
        "result",
        "matches",
        "1",
    ]


def test_on_the_command_line(capsys: pytest.CaptureFixture[str], spark: SparkSession) -> None:
    retail = ["--catalog", str(EXAMPLES / "retail.toml"), "--events", str(EXAMPLES / "data" / "retail.parquet")]
    assert main(["explain", str(EXAMPLES / "q1_food.sase"), "--analyze", *retail]) == 0
    out = capsys.readouterr().out
    assert "What got through\n" in out
    assert out.splitlines()[-1].split() == ["result", "matches", "9"]
