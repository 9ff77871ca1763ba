"""Fields of structs, elements of arrays and values of maps, wherever an attribute may stand."""

from __future__ import annotations

from typing import Any

import pytest
from brute_force import evaluate
from pyspark.sql import SparkSession
from random_queries import Case
from test_random_queries import compare, compiled, frame
from test_stream_core import answers

import sase

KINDS = {
    "ts": "bigint",
    "props": "struct<page:string,size:struct<w:bigint,h:bigint>>",
    "tags": "array<string>",
    "headers": "map<string,bigint>",
}
CATALOG = sase.Catalog(types={"A": KINDS, "B": KINDS, "C": {"ts": "bigint", "tags": "array<string>"}})


def event(
    kind: str, ts: int, page: str | None, w: int | None, tags: list[str] | None, host: int | None
) -> dict[str, Any]:
    props = None if page is None else {"page": page, "size": {"w": w, "h": 1}}
    return {"type": kind, "ts": ts, "props": props, "tags": tags, "headers": {} if host is None else {"host": host}}


EVENTS = [
    event("A", 1, "home", 1, ["x", "y"], 1),
    event("A", 4, "home", 2, ["x"], 2),
    event("A", 2, "cart", 5, [], None),
    event("A", 2, None, None, None, 2),
    event("C", 3, None, None, ["x"], None),
    event("B", 4, "home", 3, ["x"], 1),
    event("B", 5, "cart", 4, ["y", "x"], 2),
    event("C", 6, None, None, [], None),
    event("B", 7, "home", None, ["x", "z"], 2),
    event("B", 8, None, None, None, None),
]

QUERIES = {
    "a key": "EVENT SEQ(A x, B y) WHERE [props.page] WITHIN 9",
    "a key under two names": "EVENT SEQ(A x, B y) WHERE x.tags[0] = y.tags[1] AND x.headers['host'] = 1 WITHIN 9",
    "a key of a negated component": "EVENT SEQ(A x, !(C n), B y) WHERE [tags[0]] AND [headers['host']] WITHIN 9",
    "a value": "EVENT SEQ(A x, B y) WHERE [props.page = 'home'] AND x.Props.SIZE.w + 1 < y.props.size.w * 2 WITHIN 9",
    "what does not come apart": """EVENT SEQ(A x, !(C n), B y)
        WHERE abs(x.props.size.w - y.props.size.w) < 3 AND upper(n.tags[0]) = upper(x.tags[0]) WITHIN 9
        RETURN x.props.page, y.tags[1] AS second, x.props.size AS size""",
    "one event, bare": "EVENT A WHERE tags[0] IS NULL RETURN ts, headers['host'] AS host",
}
PLANS = ("the default plan", "the basic plan", "dynamic filtering")


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_field_is_as_good_as_an_attribute(spark: SparkSession, query: str) -> None:
    case = Case(query, CATALOG, EVENTS)
    assert evaluate(*case)
    events = frame(spark, case)
    plans = {compiled(case, plan).job: plan for plan in (*PLANS, *(["negation by anti-join"] if "!" in query else []))}
    streamed = answers(spark, case, "negation outside the kernel", 3) if "[" in query and "A x" in query else {}
    compare(case, {plan: compiled(case, plan).run(events) for plan in plans.values()} | streamed)


def test_a_key_in_a_field_partitions() -> None:
    plan = sase.compile(QUERIES["a key"], CATALOG).compiled.plan
    assert [str(test) for test in plan.scan.partition] == ["[props.page]"]
