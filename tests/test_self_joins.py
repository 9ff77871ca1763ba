"""Self-joins of SQL: what is recognised, in which spellings, what is left alone and why. Without Spark: DuckDB runs the
text as it stands, and what is left of it over the matches of the bound query."""

from __future__ import annotations

import ast
from random import Random

import pytest
import sqlglot
from self_joins import Duck, duck, joined, random_rows, random_statement
from sqlglot import exp

from sase.compiler.compile_sql import Joins, compile_statement
from sase.compiler.core import scalars
from sase.compiler.core.durations import DAY, HOUR, MINUTE
from sase.compiler.languages.sql.aliases import Tables
from sase.compiler.languages.sql.joined import UNKNOWN, replace_joins
from sase.compiler.languages.sql.times import bounds
from tests.test_sql_quoting import NASTY, shape, strings


@pytest.fixture(scope="module")
def tables() -> Duck:
    found = Duck(random_rows(Random(1)))
    found.connection.execute("CREATE TABLE clicks (user_id bigint, seen timestamp, page varchar, price double)")
    found.connection.execute("CREATE TABLE trips (id bigint, start_at timestamp, end_at timestamp, day date)")
    return found


# ---- the same rows ------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [range(20), range(20, 40)], ids=str)
def test_random_joins_give_the_rows_that_duckdb_gives(seeds: range) -> None:
    replaced = 0
    for seed in seeds:
        random = Random(seed)
        database, text = Duck(random_rows(random)), random_statement(random)
        found = joined(text, database)
        replaced += len(found.views)
        if found.views:
            assert database.replaced(found) == database.rows(text), f"{seed}: {text}"
        else:
            assert found.left, f"{seed}: nothing is said of {text}"
    assert replaced >= 12


@pytest.mark.parametrize("dialect", ["trino", "snowflake", "duckdb", "postgres", "bigquery", "databricks"])
def test_dialects_are_read_as_the_same_pattern(dialect: str, tables: Duck) -> None:
    for seed in range(8):
        text = f"SELECT a.id, b.id AS other FROM ev a, ev b WHERE {_conditions(Random(seed))}"
        spelled = sqlglot.transpile(text, read="spark", write=dialect)[0]
        one, other = joined(text, tables), joined(spelled, tables, dialect)
        assert one.views and [view.query.branches for view in one.views] == [
            view.query.branches for view in other.views
        ]


def _conditions(random: Random) -> str:
    length = random.randrange(2, 9)
    order = random.choice(["a.t < b.t", "b.t - a.t > 1", "b.t > a.t"])
    bound = random.choice([f"b.t < a.t + {length}", f"b.t - a.t <= {length}", f"b.t BETWEEN a.t AND a.t + {length}"])
    return f"a.k = b.k AND {order} AND {bound} AND a.kind = 'its'"


# ---- spellings ----------------------------------------------------------------------------------

KINDS = {"ts": "timestamp", "wall": "timestamp_ntz", "d": "date", "n": "bigint", "f": "double"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a.ts < b.ts", [("b", "a", 0, True, False)]),
        ("b.ts >= a.ts", [("b", "a", 1, True, False)]),
        ("b.ts < a.ts + INTERVAL 1 HOUR", [("a", "b", HOUR, True, False)]),
        ("b.ts <= a.ts + INTERVAL '1 hour 30 minutes'", [("a", "b", 90 * MINUTE + 1, True, False)]),
        ("a.ts > b.ts - INTERVAL '0 01:30:00' DAY TO SECOND", [("a", "b", 90 * MINUTE, True, False)]),
        ("b.ts < a.ts + INTERVAL 1 MONTH", []),
        # A day of a local clock may have 23 hours, and so may the difference of two of its timestamps.
        ("b.ts <= a.ts + INTERVAL 1 DAY", [("a", "b", DAY + 1, True, True)]),
        ("b.ts - a.ts < INTERVAL 1 HOUR", [("a", "b", HOUR, True, True)]),
        ("b.wall - a.wall < INTERVAL 1 DAY", [("a", "b", DAY, True, False)]),
        ("b.ts < timestampadd(HOUR, 2, a.ts)", [("a", "b", 2 * HOUR, True, False)]),
        # Rounded to whole units: what is implied is a unit longer, and the condition stays.
        ("timestampdiff(MINUTE, a.ts, b.ts) < 10", [("a", "b", 10 * MINUTE, False, True)]),
        ("timestampdiff(MINUTE, a.ts, b.ts) <= 10", [("a", "b", 11 * MINUTE, False, True)]),
        ("datediff(b.ts, a.ts) <= 7", [("a", "b", 8 * DAY, False, True)]),
        ("unix_timestamp(b.ts) - unix_timestamp(a.ts) < 3600", [("a", "b", HOUR, False, False)]),
        ("unix_micros(b.ts) - unix_micros(a.ts) < 5", [("a", "b", 5, True, False)]),
        ("datediff(b.d, a.d) <= 7", [("a", "b", 7 * DAY + 1, True, False)]),
        ("b.d <= date_add(a.d, 7)", [("a", "b", 7 * DAY + 1, True, False)]),
        ("b.d < a.d + INTERVAL 7 DAYS", [("a", "b", 7 * DAY, True, False)]),
        ("b.d < a.d + INTERVAL 1 HOUR", []),
        ("b.n - a.n <= 600", [("a", "b", 601, True, False)]),
        ("600 > b.n - a.n", [("a", "b", 600, True, False)]),
        ("b.n > a.n + 3", [("b", "a", -3, True, False)]),
        ("abs(a.n - b.n) < 5", [("b", "a", 5, True, False), ("a", "b", 5, True, False)]),
        ("b.f - a.f < 3", []),
        ("a.n + b.n < 3", []),
        ("a.n < 3", []),
        ("a.n - a.n < 3", []),
        ("a.n = b.n", []),
    ],
)
def test_conditions_on_times(condition: str, expected: list[tuple[object, ...]]) -> None:
    node = sqlglot.parse_one(condition, dialect="spark")
    found = bounds(node, lambda column: KINDS.get(column.name))
    assert [(each.earlier[0], each.later[0], each.ticks, each.exact, each.steady) for each in found] == expected


def test_neighbours_bounds_make_a_window_and_stay_conditions(tables: Duck) -> None:
    text = """SELECT a.k FROM ev a, ev b, ev c WHERE a.k = b.k AND b.k = c.k AND a.t < b.t AND b.t < c.t
              AND b.t - a.t < 10 AND c.t - b.t <= 20"""
    (view,) = joined(text, tables).views
    assert view.query.is_sequence and view.query.within is not None
    assert view.query.within.ticks == 30
    assert [str(part) for part in view.query.predicates] == ["b.t < a.t + 10", "c.t < b.t + 21"]
    assert [str(test) for test in view.query.equivalences] == ["[k]"]


def test_only_from_join_and_where_are_replaced(tables: Duck) -> None:
    text = """WITH late AS (SELECT k, t AS w FROM ev WHERE kind = 'A')
              SELECT e.k, max(l.w) AS latest, count(*) FROM ev e JOIN late l USING (k)
              WHERE l.w BETWEEN e.t AND e.t + 5 AND e.t <> l.w AND e.k IN (SELECT k FROM other)
              GROUP BY e.k HAVING max(l.w) > 3 ORDER BY latest LIMIT 3"""
    found = joined(text, tables)
    (view,) = found.views
    assert {name: scalars.sql(reads) for name, reads in view.reads.items()} == {
        "ev": "SELECT t, k, t AS _sase_time FROM ev",
        "late": "WITH late AS (SELECT k, t AS w FROM ev WHERE kind = 'A') SELECT w, k, w AS _sase_time FROM late",
    }
    assert scalars.sql(found.query) == (
        "SELECT e.k, MAX(l.w) AS latest, COUNT(*) AS `count_star()` FROM sase_join_0 "
        "WHERE e.k IN (SELECT k FROM other) GROUP BY e.k HAVING MAX(l.w) > 3 ORDER BY latest LIMIT 3"
    )


def test_a_row_may_meet_itself_if_nothing_forbids_it(tables: Duck) -> None:
    """A pattern binds different events. Where one row may stand for both aliases, each has events of its own."""
    close = "SELECT a.id, b.id AS other FROM ev a JOIN ev b ON a.k = b.k AND abs(a.t - b.t) < 3"
    (view,) = joined(close, tables).views
    assert list(view.reads) == ["ev", "ev_2"]
    for differs in ("a.id <> b.id", "a.kind = 'A' AND b.kind = 'B'"):
        (view,) = joined(f"{close} AND {differs}", tables).views
        assert list(view.reads) == ["ev"]


def test_constants_make_two_rows_of_them_only_if_they_cannot_be_equal(tables: Duck) -> None:
    close = "SELECT a.id, b.id AS other FROM ev a JOIN ev b ON a.k = b.k AND abs(a.t - b.t) < 3"
    for differs, one in (
        ("a.v = 1 AND b.v = '1'", False),
        ("a.v = 1 AND b.v = 1.0", False),
        ("a.v = 1 AND b.v = 2", True),
    ):
        (view,) = joined(f"{close} AND {differs}", tables).views
        assert (list(view.reads) == ["ev"]) is one, differs


def test_a_bare_name_is_a_column_but_where_rows_are_sorted(tables: Duck) -> None:
    """So says Spark, whose GROUP BY and HAVING know outputs by their names only if there is no such column."""
    close = "FROM ev a, other o WHERE a.k = o.k AND a.t < o.w AND o.w < a.t + 9"
    found = joined(f"SELECT max(z) AS z, count(*) AS n {close} GROUP BY z HAVING z > 1 AND n > 1 ORDER BY z", tables)
    assert scalars.sql(found.query).partition(" GROUP BY ")[2] == "o.z HAVING o.z > 1 AND n > 1 ORDER BY z"


def test_an_outer_join_drops_what_has_a_partner_only_if_null_means_that_there_is_none(tables: Duck) -> None:
    text = """SELECT a.id FROM ev a LEFT JOIN other n ON n.w > a.t AND n.w < a.t + 3 AND {} = a.v WHERE n.z IS NULL"""
    assert len(joined(text.format("n.z"), tables).views) == 1
    for spelled in ("coalesce(n.z, 0)", "CASE WHEN n.z IS NULL THEN 1 ELSE 2 END"):
        assert joined(text.format(spelled), tables).views == ()


def test_absence_becomes_negation_where_its_interval_is_one_of_a_sequence(tables: Duck) -> None:
    base = "SELECT a.id FROM ev a, ev b WHERE a.k = b.k AND a.t < b.t AND b.t < a.t + 9 AND NOT EXISTS ("
    inside = f"{base}SELECT 1 FROM ev n WHERE n.k = a.k AND n.t > a.t AND n.t < b.t)"
    found = joined(inside, tables)
    assert [variable.name for variable in found.views[0].query.negated] == ["n"]
    assert "EXISTS" not in scalars.sql(found.query)
    overlapping = f"{base}SELECT 1 FROM ev n WHERE n.k = a.k AND n.t >= a.t AND n.t < b.t)"
    found = joined(overlapping, tables)
    assert not found.views[0].query.negated
    assert "NOT EXISTS(SELECT 1 FROM ev AS n WHERE" in scalars.sql(found.query)


# ---- what is left alone -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "SELECT 1 FROM ev a, ev b WHERE a.k = b.k AND a.t < b.t",
            "nothing bounds the time between a and b, so that every such pair is in the answer: there is no window to "
            "save work by",
        ),
        (
            "SELECT 1 FROM ev a, ev b, ev c WHERE a.t < b.t AND b.t < a.t + 3 AND c.k = a.k",
            "no condition compares a time of c with one of a and b",
        ),
        (
            "SELECT 1 FROM ev a JOIN ev b ON a.k = b.k WHERE a.v < a.id",
            "no condition compares times of a and b: there is no order between them",
        ),
        (
            "SELECT 1 FROM ev a JOIN clicks c ON a.t < c.user_id AND c.seen > c.seen",
            "nothing bounds the time between a and c, so that every such pair is in the answer: there is no window to "
            "save work by",
        ),
        (
            "SELECT 1 FROM clicks a, clicks b WHERE a.price < b.price AND b.price < a.price + 1",
            "no condition compares times of a and b: there is no order between them",
        ),
        (
            "SELECT 1 FROM trips a, trips b WHERE a.start_at < b.start_at AND b.start_at < a.end_at",
            "the conditions on times of a and b are not about one time of each, of one type",
        ),
        (
            "SELECT 1 FROM ev a, ev b WHERE a.t < b.t AND b.t < a.t",
            "its conditions on times contradict each other, so that it has no rows",
        ),
        (
            "SELECT 1 FROM ev a LEFT JOIN ev b ON a.k = b.k AND a.t < b.t AND b.t < a.t + 3",
            "LEFT JOIN b keeps rows that have no partner: a pattern has TIMED OUT for that, and NOT for WHERE b.… IS "
            "NULL, of a column that ON compares",
        ),
        (
            "SELECT 1 FROM ev a FULL JOIN ev b ON a.k = b.k AND a.t < b.t AND b.t < a.t + 3",
            "FULL JOIN keeps rows that have no partner, or pairs columns by their names",
        ),
        (
            "SELECT 1 FROM ev a, ev b WHERE a.t < b.t AND b.t < a.t + 3 AND rand() < 0.5",
            "RAND() is another value each time it is asked for",
        ),
        (
            "SELECT 1 FROM ev a, LATERAL (SELECT a.t + 1 AS u) b WHERE a.t < b.u AND b.u < a.t + 3",
            "LATERAL (SELECT a.t + 1 AS u) AS b is neither a table nor a query",
        ),
        (
            "SELECT 1 FROM ev a, nowhere b WHERE a.t < b.t AND b.t < a.t + 3",
            "the columns of nowhere AS b are not known",
        ),
        (
            "SELECT 1 FROM ev a, ev b WHERE a.t < b.t AND b.t < a.t + 3 AND kind = 'A'",
            "Spark cannot read it by itself: it may speak of a query around it, or be wrong",
        ),
        (
            "SELECT k FROM ev a WHERE EXISTS (SELECT 1 FROM other b WHERE b.w > a.t)",
            "the time in which no row of b may be, or one must be, is none between two neighbours, nor a length of "
            "time before the first row or after the last",
        ),
    ],
)
def test_reasons(statement: str, reason: str, tables: Duck) -> None:
    found = joined(statement, tables)
    assert found.views == ()
    assert [each.reason for each in found.left] == [reason]
    assert scalars.sql(found.query) == scalars.sql(sqlglot.parse_one(statement, dialect="spark"))


def test_where_clocks_change_local_lengths_are_left_alone(tables: Duck) -> None:
    def found(condition: str) -> list[str]:
        text = f"SELECT 1 FROM trips a, trips b WHERE a.start_at < b.start_at AND {condition}"
        known = Tables(lambda query: [(n, k.replace("_ntz", "")) for n, k in tables.columns(query) or ()], steady=False)
        query = sqlglot.parse_one(text, dialect="spark")
        assert isinstance(query, exp.Query)
        return [each.reason for each in replace_joins(query, "q.sql", known, 0, lambda query: None).left]

    assert found("b.start_at < a.start_at + INTERVAL 1 HOUR") == []
    assert found("b.start_at - a.start_at < INTERVAL 1 HOUR") == [
        "the session's clocks change with summer time, and differences of its timestamps and lengths of days are those "
        "of local clocks: set spark.sql.session.timeZone to UTC, or write b.ts < a.ts + INTERVAL"
    ]


def test_without_tables_nothing_is_replaced() -> None:
    query = sqlglot.parse_one("SELECT 1 FROM a, b WHERE a.t < b.t AND b.t < a.t + 1")
    assert isinstance(query, exp.Query)
    found = replace_joins(query, "q.sql", None, 0, lambda query: None)
    assert found.query is query
    assert [each.reason for each in found.left] == [UNKNOWN]


BENCHMARKS = {
    # Orders that were shipped from several warehouses, and returned: a join by <>, as in TPC-DS 95.
    "warehouses": """
        WITH several AS (SELECT a.k FROM ev a, ev b WHERE a.k = b.k AND a.v <> b.v)
        SELECT count(DISTINCT e.k) FROM ev e, other o
        WHERE e.d BETWEEN DATE '2026-03-01' AND date_add(DATE '2026-03-01', 60) AND e.id = o.z
        AND e.k IN (SELECT k FROM several) AND e.k IN (SELECT o.k FROM other o, several WHERE o.k = several.k)""",
    # Year over year, as in TPC-DS 4, 11 and 74.
    "years": """
        WITH total AS (SELECT k, v AS year, kind, sum(id) AS paid FROM ev GROUP BY k, v, kind)
        SELECT c.k FROM total a, total b, total c, total d
        WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND a.kind = 'A' AND b.kind = 'A' AND c.kind = 'B' AND d.kind = 'B'
        AND a.year = 1 AND b.year = 2 AND c.year = 1 AND d.year = 2 AND a.paid > 0 AND c.paid > 0
        AND CASE WHEN a.paid > 0 THEN b.paid / a.paid END > CASE WHEN c.paid > 0 THEN d.paid / c.paid END""",
    # Weeks of the next year, as in TPC-DS 2 and 59: Spark joins by an equality of expressions.
    "weeks": "SELECT a.k, b.v / a.v FROM ev a, ev b WHERE a.t = b.t - 53 AND a.k = b.k ORDER BY 1",
    # Late suppliers, as in TPC-H 21: EXISTS and NOT EXISTS by <>.
    "late": """
        SELECT a.k, count(*) FROM ev a, other o WHERE a.k = o.k AND a.t > a.v
        AND EXISTS (SELECT * FROM ev b WHERE b.t = a.t AND b.k <> a.k)
        AND NOT EXISTS (SELECT * FROM ev c WHERE c.t = a.t AND c.k <> a.k AND c.t > c.v) GROUP BY a.k""",
    # Shipped before and received after, as in TPC-H 4 and 12.
    "dates": """
        SELECT kind, count(*) FROM ev WHERE d >= DATE '2026-03-01' AND d < DATE '2026-03-01' + INTERVAL 3 MONTH
        AND EXISTS (SELECT * FROM other WHERE other.k = ev.k AND w < z) GROUP BY kind""",
    # The number of rows below, a join by an inequality alone.
    "ranks": "SELECT a.id, count(*) FROM ev a JOIN ev b ON b.v < a.v GROUP BY a.id",
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_queries_of_benchmarks_are_left_alone(name: str, tables: Duck) -> None:
    query = sqlglot.parse_one(BENCHMARKS[name], dialect="spark")
    assert isinstance(query, exp.Query)
    assert tables.columns(BENCHMARKS[name]) is not None, duck(BENCHMARKS[name])
    assert joined(BENCHMARKS[name], tables).views == ()


# ---- jobs ---------------------------------------------------------------------------------------


def statement(text: str, name: str) -> tuple[str, Tables]:
    """A text in a literal, a name as table, alias, column, output and common table expression."""
    literal, quoted = "'" + text.replace("'", "''") + "'", '"' + name.replace('"', '""') + '"'
    other = '"' + name.replace('"', '""') + ' 2"'
    columns = [("t", "bigint"), (name, "string"), ("k", "int")]
    text = f"""
    WITH {other} AS (SELECT * FROM {quoted} WHERE {quoted} <> {literal})
    SELECT {quoted}.{quoted}, n.t AS {quoted}, {literal} AS c FROM {quoted}, {other} AS n
    WHERE {quoted}.k = n.k AND {quoted}.t < n.t AND n.t < {quoted}.t + 5 AND n.{quoted} = {literal}
    AND upper({quoted}.{quoted}) IN (SELECT {literal})"""
    outputs = [(name, "string"), (name, "bigint"), ("c", "string")]
    return text, Tables(lambda query: outputs if " AS c" in query else columns)


@pytest.mark.parametrize("nasty", [each for each in NASTY[1:] if "\x00" not in each])
def test_text_stays_text(nasty: str) -> None:
    def job(text: str) -> str:
        query, known = statement(text, text.replace("''", "'"))
        compiled = compile_statement(query, f"{text}.sql", "trino", version="0", joins=Joins(known, always=True))
        assert compiled.statement.joins, compiled.statement.left
        return compiled.job

    found = job(nasty)
    assert shape(ast.parse(found)) == shape(ast.parse(job("not a name")))
    assert any(nasty in each or nasty.replace("{", "{{").replace("}", "}}") in each for each in strings(found))


def test_several_joins_have_names_of_their_own(tables: Duck) -> None:
    one = "SELECT a.id FROM ev a, ev b WHERE a.t < b.t AND b.t < a.t + {}"
    text = f"{one.format(3)} UNION ALL {one.format(4)}"
    compiled = compile_statement(text, "q.sql", "spark", version="0", joins=Joins(tables.tables, always=True))
    found = ast.parse(compiled.job)
    functions = [node.name for node in found.body if isinstance(node, ast.FunctionDef)]
    assert functions == ["find_matches_1", "find_matches_2", "query"]
    assert "FROM {matches_1}\nUNION ALL" in "".join(
        node.value for node in ast.walk(found) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _left(tables: Duck, text: str, keys: float | None, events: float = 1e6, windows: float = 240) -> list[str]:
    """Why a statement is left alone, with so many keys; without statistics, if that is not known."""
    from sase.compiler.plan.statistics import ColumnStatistics, Statistics, TypeStatistics

    measured = None
    if keys is not None:
        columns = {"k": ColumnStatistics(keys), "kind": ColumnStatistics(10)}
        measured = Statistics(events, 50 * windows, {"ev": TypeStatistics(events, columns)}, cores=2)
    compiled = compile_statement(text, "q.sql", "spark", version="0", joins=Joins(tables.tables, statistics=measured))
    return [each.reason.partition(":")[0] for each in compiled.statement.left]


def test_spark_s_own_join_may_be_as_fast(tables: Duck) -> None:
    """With few rows per key there is nothing to save."""
    kinds = "a.kind = 'A' AND b.kind = 'B'"
    text = f"SELECT a.id FROM ev a, ev b WHERE a.k = b.k AND {kinds} AND a.t < b.t AND b.t < a.t + 50"
    assert _left(tables, text, 10, windows=20_000) == []
    assert _left(tables, text, 500_000, windows=20_000) == ["a pattern is not expected to be much faster"]


_SUITE = {
    "SELECT DISTINCT a.k FROM ev a JOIN ev b ON a.k = b.k AND b.t > a.t AND b.t < a.t + 50": True,
    "SELECT a.k, a.t, b.t AS u FROM ev a, ev b WHERE a.k = b.k AND a.kind = 'A' AND b.kind = 'B' AND {0}": False,
    """SELECT a.k, c.t - a.t AS took FROM ev a, ev b, ev c WHERE a.k = b.k AND b.k = c.k AND a.kind = 'A'
       AND b.kind = 'B' AND c.kind = 'C' AND a.t < b.t AND b.t < c.t AND c.t < a.t + 100""": False,
    "SELECT a.id, a.k FROM ev a WHERE EXISTS (SELECT 1 FROM ev b WHERE b.k = a.k AND {0})": True,
    "SELECT a.k, a.t FROM ev a WHERE a.kind = 'A' AND NOT EXISTS (SELECT 1 FROM ev b WHERE b.k = a.k AND {0})": False,
}
"""The statements of `benchmarks/self_joins.py`, and whether a pattern is faster even with 25 rows of each key."""


@pytest.mark.parametrize(("text", "always"), _SUITE.items())
def test_what_is_left_alone_is_what_was_measured_to_be_as_fast(tables: Duck, text: str, always: bool) -> None:
    """A million rows, 500 or 25 of a key, windows of a 240th of the time."""
    text = text.format("a.t < b.t AND b.t < a.t + 50")
    assert _left(tables, text, 2_000) == []
    assert _left(tables, text, 40_000) == ([] if always else ["a pattern is not expected to be much faster"])
    assert _left(tables, text, None) == []


def test_a_table_that_spark_has_to_sort_is_another_matter(tables: Duck) -> None:
    """Nothing is moved where one side is small: that is what makes Spark's own join as fast, with few rows of a key."""
    text = "SELECT a.k, b.id FROM ev a, ev b WHERE a.k = b.k AND a.kind = 'A' AND b.kind = 'B' AND {0}"
    text = text.format("a.t < b.t AND b.t < a.t + 50")
    assert _left(tables, text, 40_000) == ["a pattern is not expected to be much faster"]
    assert _left(tables, text, 400_000, events=1e7) == []


def test_what_may_not_come_again_is_in_the_stacks_of_its_key(tables: Duck) -> None:
    """An anti-join reads all rows again, and copies them to buckets; in the worker, each comes once."""
    absent = "SELECT 1 FROM ev b WHERE b.k = a.k AND b.t > a.t AND b.t < a.t + 50"
    text = f"SELECT a.id FROM ev a WHERE a.kind = 'A' AND NOT EXISTS ({absent})"
    (join,) = compile_statement(text, "q.sql", "spark", version="0", joins=Joins(tables.tables)).statement.joins
    assert [each.variable for each in join.choices.chosen.plan.construction.negations] == ["b"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT DISTINCT a.id, upper(a.kind) AS u FROM ev a, ev b WHERE a.k = b.k AND {}", "for each a"),
        ("SELECT DISTINCT b.v FROM ev a, ev b WHERE {} ORDER BY b.v LIMIT 3", "for each b"),
        ("SELECT DISTINCT a.k FROM ev a, ev b WHERE a.k = b.k AND {}", "for each key"),
        ("SELECT a.id FROM ev a, ev b WHERE {}", ""),
        ("SELECT DISTINCT a.id, b.id AS o FROM ev a, ev b WHERE {}", ""),
        ("SELECT DISTINCT a.k, count(*) AS n FROM ev a, ev b WHERE {} GROUP BY a.k", ""),
        ("SELECT DISTINCT a.k, sum(a.v) OVER () AS n FROM ev a, ev b WHERE {}", ""),
        ("SELECT DISTINCT a.k, rand() AS r FROM ev a, ev b WHERE {}", ""),
        # Spark decides about whole matches.
        ("SELECT DISTINCT a.id FROM ev a, ev b WHERE {} AND a.v IN (SELECT v FROM ev WHERE v > b.v)", ""),
        ("SELECT DISTINCT a.id FROM ev a, ev b WHERE {} AND concat(a.kind, b.kind) = 'AB'", ""),
    ],
)
def test_of_what_distinct_makes_one_row_one_match_is_enough(tables: Duck, text: str, told: str) -> None:
    filled = text.format("a.t < b.t AND b.t < a.t + 5")
    compiled = compile_statement(filled, "q.sql", "spark", version="0", joins=Joins(tables.tables, always=True))
    assert compiled.statement.joins, compiled.statement.left
    found = [line.partition(", one ")[2] for line in compiled.explain().splitlines() if ", one for each" in line]
    assert found == ([f"{told} is enough"] if told else [])
