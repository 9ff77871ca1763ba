"""Columns of ours and names of the user: they never meet, in batch and in streams, whatever the user calls things."""

from __future__ import annotations

import pytest
from brute_force import evaluate
from pyspark.sql import SparkSession
from random_queries import Case
from test_random_queries import compare, compiled, frame
from test_stream_core import answers

import sase
from sase.compiler.plan.names import Names


def test_names_are_given_out_once_in_any_case() -> None:
    names = Names(["id", "_ID"])
    assert names.roles["time"] == "__time"
    given = [names.fresh(stem) for stem in ("key_1", "KEY_1", "time", "x")]
    assert given == ["__key_1", "___KEY_1", "___time", "__x"]
    assert names.prefix_for(["y", "states"]) == "___", "one prefix that fits all of them"
    assert names.fresh("y") == "__y"


COLUMNS = {"ts": "bigint", "id": "bigint", "pid": "bigint", "a": "bigint", "b": "bigint"}
CATALOG = sase.Catalog(types={name: COLUMNS for name in "ABC"})
ROWS = (("A", 1, 1, 2, 1, 1), ("C", 2, 1, 1, 5, 5), ("B", 3, 2, 1, 3, 4), ("A", 4, 2, 1, 0, 2), ("B", 5, 1, 2, 1, 7))
EVENTS = [dict(zip(("type", *COLUMNS), row, strict=True)) for row in ROWS]

# The test is a key under two names, and both sides of the comparisons are computed.
QUERY = """EVENT SEQ(A {x}, !(C {n}), B {y})
WHERE {x}.id = {y}.pid AND {x}.a + 1 < {y}.b * 1 AND {n}.a * 2 < {x}.b + 1 WITHIN 9"""


@pytest.mark.parametrize(
    "variables",
    [("key", "x_1", "KEY_1"), ("reason", "record", "clock"), ("time", "states", "slice"), ("bucket", "since", "`end`")],
)
def test_variables_may_have_the_names_of_our_columns(spark: SparkSession, variables: tuple[str, str, str]) -> None:
    case = Case(QUERY.format(**dict(zip("xyn", variables, strict=True))), CATALOG, EVENTS)
    assert evaluate(*case)
    events = frame(spark, case)
    plans = ("the default plan", "slices of five ticks", "negation by anti-join")
    compare(case, {plan: compiled(case, plan).run(events) for plan in plans} | answers(spark, case, "a stream", 1))


def test_an_event_type_without_a_variable_may_have_such_a_name(spark: SparkSession) -> None:
    types = {"reason": COLUMNS, "clock": COLUMNS}
    rows = [dict(event, type={"A": "reason", "B": "clock", "C": "none"}[event["type"]]) for event in EVENTS]
    query = "EVENT SEQ(reason, clock) WHERE reason.id = clock.pid AND reason.a + 1 < clock.b * 1 WITHIN 9"
    case = Case(query, sase.Catalog(types=types), rows)
    assert evaluate(*case)
    compare(case, {"batch": compiled(case).run(frame(spark, case))} | answers(spark, case, "a stream", 1))


def test_names_with_dots_are_not_taken_for_others(spark: SparkSession) -> None:
    columns = {"ts": "bigint", "c": "bigint", "b.c": "bigint"}
    rows = [{"type": name, "ts": at, "c": at, "b.c": -at} for at, name in enumerate("AABB")]
    query = "EVENT SEQ(A `a.b`, B a) WHERE a.c > 2 WITHIN 9 RETURN `a.b`.c AS one, a.`b.c` AS other, a.c AS third"
    case = Case(query, sase.Catalog(types={"A": columns, "B": columns}), rows)
    events = spark.createDataFrame([tuple(row.values()) for row in rows], "type string, ts long, c long, `b.c` long")
    compare(case, {"batch": compiled(case).run(events)})


def test_columns_may_look_like_ours(spark: SparkSession) -> None:
    renamed = {"ts": "_time", "id": "_states", "pid": "_x", "a": "__bucket", "b": "_KEY_1"}
    columns = {renamed[name]: kind for name, kind in COLUMNS.items()}
    catalog = sase.Catalog(time="_time", types={name: columns for name in "ABC"})
    rows = [{renamed.get(name, name): value for name, value in event.items()} for event in EVENTS]
    query = QUERY.format(x="x", y="y", n="n")
    for name, other in (("id", "_states"), ("pid", "_x"), ("a", "__bucket"), ("b", "_KEY_1")):
        query = query.replace(f".{name} ", f".{other} ")
    case = Case(query, catalog, rows)
    assert evaluate(*case)
    events = frame(spark, case)
    found = {plan: compiled(case, plan).run(events) for plan in ("the default plan", "negation by anti-join")}
    compare(case, found | answers(spark, case, "negation outside the kernel", 1))
