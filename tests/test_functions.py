"""Functions of the session, and composite events, which are written like calls."""

from __future__ import annotations

import pytest
from brute_force import evaluate
from pyspark.sql import SparkSession

import sase

CATALOG = sase.Catalog(types={name: {"ts": "bigint", "id": "bigint", "a": "int"} for name in ("A", "B", "event")})


@pytest.mark.parametrize(
    ("returned", "composite", "columns"),
    [
        ("Alert(x.id AS item)", "Alert", ["item"]),
        ("Alert(x.id, y.a AS last)", "Alert", ["id", "last"]),
        ("EVENT Alert(x.id)", "Alert", ["id"]),
        ("event  `a b` (x.id)", "a b", ["id"]),
        ("EVENT upper(x.id)", "upper", ["id"]),
        ("hypot(x.id, y.id) AS far", None, ["far"]),
        ("hypot(x.id, y.id) AS far, x.id", None, ["far", "id"]),
        ("upper(x.id) AS shown", None, ["shown"]),
        ("x.id", None, ["id"]),
    ],
)
def test_what_is_a_composite_event(returned: str, composite: str | None, columns: list[str]) -> None:
    query = sase.compile(f"EVENT SEQ(A x, B y) RETURN {returned}", CATALOG).compiled.query
    assert query.composite == composite
    assert [output.name for output in query.returns or ()] == columns


def test_event_is_still_a_name() -> None:
    query = sase.compile("EVENT SEQ(event, B y) RETURN event.id, event.a + 1 AS more", CATALOG).compiled.query
    assert query.composite is None
    assert [output.name for output in query.returns or ()] == ["id", "more"]


def test_functions_of_the_session_work_everywhere(spark: SparkSession) -> None:
    """sqlglot knows none of them: Spark decides on their types, and they are written as they were."""
    spark.udf.register("Doubled", lambda value: None if value is None else 2 * value, "int")
    spark.udf.register("far_apart", lambda one, other: abs(one - other) > 2, "boolean")
    rows = [("A", 1, 1, 1), ("B", 2, 1, 2), ("B", 3, 1, 9), ("A", 4, 2, 5), ("B", 5, 2, 10), ("B", 6, 2, 3)]
    events = spark.createDataFrame(rows, "type string, ts bigint, id bigint, a int")
    query = sase.compile(
        """
        EVENT SEQ(A x, B y)
        WHERE [id] AND Doubled(x.a) < 20 AND far_apart(x.a, y.a) AND pmod(y.a, 2) >= 0
              AND hypot(x.a, y.a) > Doubled(x.a)
        RETURN x.id, Doubled(y.a) AS twice, conv(y.a, 10, 2) AS bits
        """,
        CATALOG,
    )
    assert "Doubled(a) < 20" in query.job and "far_apart(x.a, y.a)" in query.job
    assert sorted(map(tuple, query.run(events).collect())) == [(1, 18, "1001"), (2, 20, "1010")]


LIKES = """
EVENT SEQ(A x, B y)
WHERE x.id IN {wanted} AND x.s ILIKE 'A%' AND y.s NOT RLIKE '^b.$' AND y.s REGEXP x.s
WITHIN 10
RETURN x.*, y.s AS last
"""


def test_patterns_of_text_lists_and_all_attributes(spark: SparkSession) -> None:
    catalog = sase.Catalog(
        types={name: {"ts": "bigint", "id": "bigint", "s": "string"} for name in "AB"},
        parameters={"wanted": [1, -2, 3]},
    )
    rows = [
        ("A", 1, 1, "ab"),
        ("A", 2, 2, "a"),
        ("A", 3, -2, "a"),
        ("B", 4, 9, "ba"),
        ("B", 5, 9, "cab"),
        ("A", 5, 1, "b"),
    ]
    events = [dict(zip(("type", "ts", "id", "s"), row, strict=True)) for row in rows]
    query = sase.compile(LIKES, catalog)
    assert query.compiled.query.returns is not None
    assert [output.name for output in query.compiled.query.returns] == ["ts", "type", "id", "s", "last"]
    found = query.run(spark.createDataFrame(rows, "type string, ts bigint, id bigint, s string")).collect()
    judged = evaluate(
        LIKES.replace("{wanted}", "(1, -2, 3)").replace("x.*", "x.ts, x.type, x.id, x.s"), catalog, events
    )
    assert sorted(map(tuple, found)) == sorted(tuple(match.values()) for match in judged)
    assert sorted(row.ts for row in found) == [1, 3]


@pytest.mark.parametrize("wanted", [[1], (1, 2), {3}, ["1"], [None, 1]])
def test_a_list_is_the_same_with_and_without_parentheses(wanted: object) -> None:
    texts = ("EVENT A x WHERE x.id IN {wanted}", "EVENT A x WHERE x.id IN ({wanted})")
    one, other = (sase.compile(text, CATALOG, parameters={"wanted": wanted}) for text in texts)
    assert one.compiled.query.predicates == other.compiled.query.predicates
    assert "IN (" in str(one.compiled.query.predicates[0])
