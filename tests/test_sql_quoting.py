"""Text of a statement never becomes code: quotes, comments, braces and unicode in every place of it."""

from __future__ import annotations

import ast

import pytest

from sase.compiler.compile_sql import compile_statement

NASTY = [
    "plain",
    "it''s",
    'say "hi"',
    "back`tick",
    "{matches}",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "line\nbreak",
    "-- no comment",
    "/* open",
    "'''); import os; os.abort() #",
    '"""); import os; os.abort() #',
    "Ünïcödé \u2028 \u202e \x00",
    "back\\slash",
    "%s {0} $1",
]


def strings(source: str) -> set[str]:
    return {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def statement(text: str, name: str) -> str:
    """A text in a literal and a comment, a name as column, variable, subset, measure, table and alias."""
    literal, quoted = "'" + text.replace("'", "''") + "'", '"' + name.replace('"', '""') + '"'
    return f"""
    -- {text.splitlines()[0]}
    WITH base AS (SELECT *, {literal} AS c FROM {quoted})
    SELECT *, {literal} AS d FROM base MATCH_RECOGNIZE (
      PARTITION BY {quoted} ORDER BY {quoted}
      MEASURES {quoted}.{quoted} AS {quoted}, {literal} AS e, CLASSIFIER() AS f
      ALL ROWS PER MATCH
      AFTER MATCH SKIP TO FIRST B
      PATTERN ({quoted} B+)
      SUBSET S = ({quoted}, B)
      DEFINE {quoted} AS {quoted}.{quoted} = {literal}, B AS B.{quoted} > {quoted}.{quoted} OR c = {literal}
    ) AS {quoted}"""


@pytest.mark.parametrize("nasty", NASTY)
def test_text_stays_text(nasty: str) -> None:
    name = nasty.replace("''", "'")
    job = compile_statement(statement(nasty, name), f"{nasty}.sql", "trino", version="0").job
    tree = ast.parse(job)
    plain = compile_statement(statement("plain", "plain"), "plain.sql", "trino", version="0").job
    assert shape(tree) == shape(ast.parse(plain))
    assert any(nasty in each or nasty.replace("{", "{{").replace("}", "}}") in each for each in strings(job))


def shape(tree: ast.Module) -> list[str]:
    """The program without what its strings say. A statement that is longer has more lines of text in one literal."""
    return [type(node).__name__ for node in ast.walk(tree)]


def test_braces_of_the_user_are_doubled_only_where_spark_formats() -> None:
    """`spark.sql` formats a text that has views, and leaves others alone."""
    clause = "MATCH_RECOGNIZE (ORDER BY x PATTERN (A))"
    job = compile_statement(
        f"SELECT '{{a}}' AS b FROM (SELECT '{{c}}' AS x) {clause}", "q.sql", "trino", version="0"
    ).job
    found = strings(job)
    assert "SELECT * FROM (SELECT '{c}' AS x)" in found
    assert "SELECT '{{a}}' AS b FROM {matches}" in found


def test_a_name_like_our_marker_is_not_taken_for_it() -> None:
    text = "SELECT sase_view_0 FROM t MATCH_RECOGNIZE (ORDER BY sase_view PATTERN (A))"
    assert "SELECT sase_view_0 FROM {matches}" in strings(compile_statement(text, "q.sql", "trino", version="0").job)


@pytest.mark.parametrize(
    "dialect", ["spark", "databricks", "trino", "snowflake", "oracle", "duckdb", "bigquery", "postgres"]
)
def test_dialects_read_the_same_clause(dialect: str) -> None:
    text = """SELECT * FROM t MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY ts DESC NULLS LAST
      MEASURES FIRST(A.x, 1) AS a, FINAL LAST(B.x) AS b, 1 + RUNNING SUM(x) AS c, NEXT(A.x) AS d, LAG(x, 2) AS e
      ALL ROWS PER MATCH OMIT EMPTY MATCHES AFTER MATCH SKIP TO NEXT ROW
      PATTERN (^ A?? (B | C)*? {- D{2,3} -} PERMUTE(E, F) $)
      DEFINE A AS x > PREV(x), B AS B.x > A.x, C AS COUNT(C.*) < 3) m"""
    plan = compile_statement(text, "q.sql", dialect, version="0").statement.views[0].plan
    reference = compile_statement(text, "q.sql", "trino", version="0").statement.views[0].plan
    assert (plan.automaton, plan.look_ups, plan.running, plan.order) == (
        reference.automaton,
        reference.look_ups,
        reference.running,
        reference.order,
    )
