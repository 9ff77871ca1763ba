"""Times and windows at the ends of what 64 bits hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from brute_force import evaluate
from pyspark.sql import SparkSession

import sase
from sase.runtime.events import FURTHEST, check
from sase.runtime.io.tally import Tally

KIND = {"ts": "bigint", "id": "bigint"}
CATALOG = sase.Catalog(types={name: KIND for name in "ABC"})
FIRST, LAST = -(2**63), 2**63 - 1
PLANS: dict[str, dict[str, Any]] = {
    "time slices": {"slice": "7"},
    "anti-join": {"negation": "anti-join", "slice": "off"},
    "nothing pushed down": {"disable": ["window_in_scan", "window_in_construction"]},
}


def answer(spark: SparkSession, query: str, rows: list[tuple[str, int, int]], **plan: Any) -> Counter[tuple[int, int]]:
    events = spark.createDataFrame(rows, "type string, ts bigint, id bigint")
    return Counter((row.x, row.y) for row in sase.compile(query, CATALOG, **plan).run(events).collect())


@pytest.mark.parametrize("plan", PLANS)
def test_times_at_the_ends_of_64_bits_take_no_part(spark: SparkSession, plan: str) -> None:
    """With the window added to them, they would not fit; all others give the answer of the judge."""
    query = "EVENT SEQ(!(C m), A x, !(B n), C y, !(A p)) WHERE x.id = n.id WITHIN 10 RETURN x.id AS x, y.id AS y"
    times = [0, 2, 5, 9, FURTHEST - 4, FURTHEST - 1, FURTHEST, -FURTHEST, -FURTHEST + 3]
    usable = [
        (name, time + shift, 10 * at + shift) for at, time in enumerate(times) for shift, name in enumerate("ABC")
    ]
    usable = [row for row in usable if abs(row[1]) <= FURTHEST]
    beyond = [(name, time, 1) for name in "ABC" for time in (FIRST, FIRST + 1, -FURTHEST - 1, FURTHEST + 1, LAST)]
    judged = evaluate(query, CATALOG, [dict(type=name, ts=time, id=id) for name, time, id in usable])
    expected = Counter((match["x"], match["y"]) for match in judged)
    assert expected
    assert answer(spark, query, usable + beyond, **PLANS[plan]) == expected


def test_they_are_counted(spark: SparkSession) -> None:
    tally = Tally()
    rows = [("A", LAST, 1), ("A", 3, 1), ("B", FIRST, 1), ("B", None, 1)]
    events = spark.createDataFrame(rows, "type string, ts bigint, id bigint")
    source = sase.compile("EVENT SEQ(A x, B y) WITHIN 5", CATALOG).module.SOURCE
    assert check(events, source, tally).count() == 1
    assert tally.counts().rejected == "1 event without a time, 2 without a usable time"


@pytest.mark.parametrize("plan", PLANS)
def test_the_longest_window(spark: SparkSession, plan: str) -> None:
    longest = 10**18
    query = f"EVENT SEQ(A x, !(B n), C y, !(A p)) WHERE x.id < n.id WITHIN {longest} RETURN x.id AS x, y.id AS y"
    options = {**PLANS[plan], "slice": str(longest)} if "slice" in PLANS[plan] else PLANS[plan]
    early, late = -FURTHEST + longest, FURTHEST - longest
    rows = [("A", -FURTHEST, 1), ("B", 1 - FURTHEST, 0), ("C", early, 2), ("C", early - 1, 3)]
    rows += [("A", late, 4), ("C", FURTHEST, 5), ("C", FURTHEST - 1, 6)]
    assert answer(spark, query, rows, **options) == Counter([(1, 3), (4, 6)])
