"""SQL with MATCH_RECOGNIZE in real Spark: worked examples, and random clauses against the judge."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sase
from sase.compiler.core.errors import OptionError
from sase.runtime.errors import SaseRunError
from tests.random_rows import random_clause, random_rows
from tests.row_judge import Row, SkipError, answer, text_of

TICKER = {
    "ACME": [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 14, 12, 14, 24, 23, 22, 23],
    "UP": [1, 2, 3],
    "FLAT": [5, 5, 5, 5],
}
DAY = datetime(2011, 4, 1)


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> None:
    """Prices a day, much as Oracle's guide to SQL for pattern matching has them for ACME."""
    rows = [
        (name, DAY + timedelta(days=at), price) for name, prices in TICKER.items() for at, price in enumerate(prices)
    ]
    spark.createDataFrame(rows, "symbol string, tstamp timestamp, price int").createOrReplaceTempView("ticker")
    pages = ["home", "cart", "pay", "home", "home", "cart", "home", "pay"]
    clicks = [("u1", at, page) for at, page in enumerate(pages)]
    spark.createDataFrame([*clicks, ("u2", 0, "cart")], "user string, at long, page string").createOrReplaceTempView(
        "clicks"
    )


def rows_of(text: str, dialect: str = "oracle") -> list[tuple[Any, ...]]:
    return sorted(map(tuple, sase.sql(text, dialect).collect()), key=repr)


def day(number: int) -> datetime:
    return DAY + timedelta(days=number - 1)


V_SHAPE = """
SELECT * FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY tstamp
  MEASURES STRT.tstamp AS start_tstamp, {}LAST(DOWN.tstamp) AS bottom_tstamp, {}LAST(UP.tstamp) AS end_tstamp {}
  {}
  PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS DOWN.price < PREV(DOWN.price), UP AS UP.price > PREV(UP.price)
) mr WHERE symbol = 'ACME' ORDER BY mr.symbol, mr.start_tstamp"""


def test_v_shapes_one_row_each() -> None:
    """As in Oracle's first example, the next V shape begins where the one before has ended."""
    text = V_SHAPE.format("", "", "", "ONE ROW PER MATCH AFTER MATCH SKIP TO LAST UP")
    assert list(map(tuple, sase.sql(text, "oracle").collect())) == [
        ("ACME", day(5), day(6), day(10)),
        ("ACME", day(10), day(12), day(13)),
        ("ACME", day(13), day(15), day(17)),
        ("ACME", day(17), day(19), day(20)),
    ]


def test_v_shapes_all_rows() -> None:
    """As in Oracle's second example: running values come with each row, final ones are known from the first."""
    more = ", MATCH_NUMBER() AS match_num, CLASSIFIER() AS var_match"
    text = V_SHAPE.format("FINAL ", "RUNNING ", more, "ALL ROWS PER MATCH AFTER MATCH SKIP TO LAST UP")
    found = sase.sql(text, "oracle").where("match_num = 2").orderBy("tstamp")
    assert found.columns == [
        "symbol",
        "tstamp",
        "start_tstamp",
        "bottom_tstamp",
        "end_tstamp",
        "match_num",
        "var_match",
        "price",
    ]
    assert list(map(tuple, found.collect())) == [
        ("ACME", day(10), day(10), day(12), None, 2, "STRT", 25),
        ("ACME", day(11), day(10), day(12), None, 2, "DOWN", 19),
        ("ACME", day(12), day(10), day(12), None, 2, "DOWN", 15),
        ("ACME", day(13), day(10), day(12), day(13), 2, "UP", 25),
    ]


def test_aggregates_and_expressions_of_measures() -> None:
    text = """
    SELECT symbol, days, round(average, 2) AS average, spread, prices FROM ticker MATCH_RECOGNIZE (
      PARTITION BY symbol ORDER BY tstamp
      MEASURES count(*) AS days, avg(UP.price) AS average, max(price) - min(price) AS spread,
               array_agg(UP.price) AS prices
      PATTERN (A UP{2,}) DEFINE UP AS price > PREV(price))
    WHERE days > 2"""
    assert rows_of(text, "trino") == [
        ("ACME", 3, 19.0, 12, [14, 24]),
        ("ACME", 5, 20.5, 13, [17, 19, 21, 25]),
        ("ACME", 5, 21.0, 13, [15, 20, 24, 25]),
        ("UP", 3, 2.5, 2, [2, 3]),
    ]


def test_aggregates_that_spark_computes_of_arrays(spark: SparkSession) -> None:
    """As Spark's own aggregates of the same rows: a match takes all rows of a symbol."""
    wanted = {
        "stddev(price)": "stddev(price)",
        "stddev_pop(price)": "stddev_pop(price)",
        "variance(price)": "variance(price)",
        "var_pop(price)": "var_pop(price)",
        "median(price)": "median(price)",
        "bool_and(price > 1)": "bool_and(price > 1)",
        "bool_or(price > 20)": "bool_or(price > 20)",
        "count_if(price > 3)": "count_if(price > 3)",
        "max_by(tstamp, price - 0.01 * day(tstamp))": "max_by(tstamp, price - 0.01 * day(tstamp))",
        "min_by(tstamp, price + day(tstamp))": "min_by(tstamp, price + day(tstamp))",
        # An array_agg beside DISTINCT comes in no order.
        "string_agg(price, '-')": "array_join(transform(sort_array(array_agg(struct(tstamp, price))), "
        "p -> CAST(p.price AS STRING)), '-')",
        "any_value(price) > 0": "any_value(price) > 0",
        "count(DISTINCT price)": "count(DISTINCT price)",
        "avg(DISTINCT price)": "avg(DISTINCT price)",
        "max(DISTINCT price)": "max(price)",
        "sum(DISTINCT price)": "sum(DISTINCT price)",
        "sum(DISTINCT CAST(price AS DECIMAL(6, 2)))": "sum(DISTINCT CAST(price AS DECIMAL(6, 2)))",
        "stddev_pop(DISTINCT price)": "stddev_pop(DISTINCT price)",
        "count(DISTINCT price, day(tstamp) % 2)": "count(DISTINCT price, day(tstamp) % 2)",
        "count(*) FILTER (WHERE price > 3)": "count_if(price > 3)",
        "sum(price) FILTER (WHERE price > 3)": "sum(price) FILTER (WHERE price > 3)",
        "string_agg(CLASSIFIER(), '') = repeat('A', CAST(count(*) AS INT))": "true",
        "max(CLASSIFIER(NONE))": "CAST(NULL AS STRING)",
        "sort_array(array_agg(DISTINCT price))": "sort_array(collect_set(price))",
        "stddev(NONE.price)": "CAST(NULL AS DOUBLE)",
        "count_if(NONE.price > 1)": "0L",
    }
    measures = ", ".join(f"{each} AS m{at}" for at, each in enumerate(wanted))
    clause = f"PARTITION BY symbol ORDER BY tstamp MEASURES {measures} PATTERN (A+ NONE?) DEFINE NONE AS false"
    found = sase.sql(f"SELECT * FROM ticker MATCH_RECOGNIZE ({clause})")
    expected = spark.table("ticker").groupBy("symbol").agg(*(F.expr(each) for each in wanted.values()))
    for ours, theirs in zip(sorted(found.collect()), sorted(expected.collect()), strict=True):
        assert [round(each, 9) if isinstance(each, float) else each for each in ours] == [
            round(each, 9) if isinstance(each, float) else each for each in theirs
        ]


@pytest.mark.parametrize("numbers", [range(0, 12), range(12, 24), range(24, 36)], ids=str)
def test_random_clauses_give_what_the_judge_says(spark: SparkSession, numbers: range) -> None:
    """Many clauses in one job: each row comes as JSON, with the number of its clause. The worker sorts, or Spark."""
    parts: list[DataFrame] = []
    wanted: list[str] = []
    for number in numbers:
        random = Random(77_000 + number)
        while True:
            clause, groups = random_clause(random, running=number % 2 == 1), [random_rows(random) for _ in range(3)]
            try:
                expected = [(group, row) for group, rows in enumerate(groups) for row in answer(clause, rows)]
                break
            except SkipError:
                continue
        wanted += [f"{number} {canonical({'g': group, **row})}" for group, row in expected]
        name = f"rows_{number}"
        view(spark, name, groups)
        sort = ("auto", "auto", "spark")[number // 2 % 3]
        found = sase.compile_sql(text_of(clause, name, ["g"], ["t", "row"]), "trino", sort=sort).run()
        shown = [name for name in found.columns if name not in ("t", "x", "y")]
        packed = F.to_json(F.struct(*(F.col(name) for name in shown)), {"ignoreNullFields": "false"})
        parts.append(found.select(F.lit(number).alias("clause"), packed.alias("row")))
    union = parts[0]
    for part in parts[1:]:
        union = union.unionAll(part)
    assert sorted(f"{row.clause} {canonical(json.loads(row.row))}" for row in union.collect()) == sorted(wanted)


def view(spark: SparkSession, name: str, groups: list[list[Row]]) -> None:
    rows = [(g, at, row["t"], row["x"], row["y"]) for g, rows in enumerate(groups) for at, row in enumerate(rows)]
    Random(name).shuffle(rows)
    spark.createDataFrame(rows, "g int, row int, t long, x int, y int").createOrReplaceTempView(name)


def canonical(row: dict[str, Any]) -> str:
    numbers = {name: float(value) if isinstance(value, int | float) else value for name, value in row.items()}
    return json.dumps(numbers, sort_keys=True)


ORDERS = [
    "t, row", "t DESC NULLS LAST, row DESC", "t DESC NULLS FIRST, s NULLS LAST, row", "d, row", "d DESC, n DESC, row",
    "day NULLS LAST, p, row", "b DESC, f, row DESC", "ts, a, row", "s, row", "row DESC",
]  # fmt: skip
CONDITIONS = [
    "s < PREV(s)", "d >= PREV(d)", "d - PREV(d) < 1.5", "d + PREV(d) = 3 OR PREV(d) IS NULL", "f <> NEXT(f)",
    "f - PREV(f) > 0.25", "n > PREV(n)", "NOT (n = NEXT(n, 2))", "p < PREV(p)", "p - NEXT(p) <= 3", "p - PREV(d) > 0",
    "ts - PREV(ts) <= INTERVAL '30' MINUTE", "day - PREV(day) > INTERVAL '1' DAY", "day < PREV(day)", "a < PREV(a)",
    "b = PREV(b)", "PREV(b)", "PREV(p + 1) > row", "abs(p - PREV(p)) > 1", "p = PREV(n)", "PREV(s) || 'b' > s",
    "(s = PREV(s)) IS NULL", "(p > PREV(p) AND d > PREV(d)) IS NOT TRUE", "p BETWEEN PREV(p) AND NEXT(p)",
    "p + PREV(p) > FIRST(p)", "max(p) > NEXT(p)",
]  # fmt: skip


@pytest.fixture(scope="module")
def of_all_types(spark: SparkSession) -> str:
    """NULL, NaN, -0.0, equal values and the ends of types: in columns of all types that can be compared."""
    random = Random(5)
    nan = float("nan")

    def some(values: list[Any]) -> Any:
        return random.choice([None, *values])

    columns: dict[str, list[Any]] = {
        "t bigint": [-(2**63), 2**63 - 1, 0, 1, 2, 3],
        "s string": ["", "a", "b", "ab", "ä"],
        "d double": [0.0, -0.0, 1.5, nan, -1.0, 1e300],
        "f float": [0.5, -0.0, 0.1, nan],
        "n decimal(20, 2)": [Decimal("1.25"), Decimal(2), Decimal(-3)],
        "p tinyint": [0, 1, 2, 5],
        "ts timestamp": [DAY + timedelta(minutes=20 * each) for each in range(5)],
        "day date": [DAY.date() + timedelta(days=each) for each in range(3)],
        "b boolean": [True, False],
        "a array<int>": [[], [1], [1, 2], [0]],
    }
    rows = [(random.choice(["u", "v", None]), at, *map(some, columns.values())) for at in range(60)]
    schema = ", ".join(["g string", "row int", *columns])
    spark.createDataFrame(rows, schema).createOrReplaceTempView("of_all_types")
    return "of_all_types"


def test_the_worker_sorts_and_compares_as_spark_does(spark: SparkSession, of_all_types: str) -> None:
    """All types, orders and ties; what the worker does not know is Spark's without a word."""
    parts: dict[str, list[DataFrame]] = {"auto": [], "spark": []}
    for number, condition in enumerate(CONDITIONS):
        order = ORDERS[number % len(ORDERS)]
        text = f"""SELECT {number} AS number, g, n, first_row, before, after FROM {of_all_types} MATCH_RECOGNIZE (
            PARTITION BY g ORDER BY {order}
            MEASURES count(*) AS n, first(row) AS first_row, PREV(first(row)) AS before, NEXT(last(row), 2) AS after
            PATTERN (A B*) DEFINE B AS {condition})"""
        for sort, found in parts.items():
            found.append(sase.compile_sql(text, sort=sort).run())
    answers = {sort: sorted(map(str, reduce(DataFrame.unionAll, found).collect())) for sort, found in parts.items()}
    assert answers["auto"] == answers["spark"]


@pytest.mark.parametrize(
    ("order", "condition", "sorts", "windows"),
    [
        ("t", "p < PREV(p)", False, False),
        ("t", "p - PREV(p) < 3", False, False),
        ("t", "max(p) > NEXT(p)", False, False),
        ("s", "p < PREV(p)", True, False),  # runs that are spilled are merged by numbers
        ("t, a", "p < PREV(p)", True, False),
        ("t", "a < PREV(a)", True, True),
        ("t", "p < PREV(s)", True, True),
        ("t", "abs(p - PREV(p)) < 3", True, True),  # in the plan already
    ],
)
def test_who_sorts_and_who_looks_at_neighbours(
    spark: SparkSession, of_all_types: str, order: str, condition: str, sorts: bool, windows: bool
) -> None:
    """There is one shuffle and one sort in any case, which window functions share."""
    text = f"""SELECT * FROM {of_all_types} MATCH_RECOGNIZE (PARTITION BY g ORDER BY {order} MEASURES count(*) AS n
               PATTERN (A B*) DEFINE B AS {condition})"""
    plan = sase.sql(text)._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    assert (plan.count("Exchange"), plan.count("Sort "), plan.count("Window ")) == (1, int(sorts), int(windows))


def test_a_difference_that_leaves_its_type_fails_as_in_spark(spark: SparkSession) -> None:
    spark.createDataFrame([(1, -(2**31)), (2, 2**31 - 1)], "t int, x int").createOrReplaceTempView("far_apart")
    text = """SELECT * FROM far_apart MATCH_RECOGNIZE (ORDER BY t MEASURES count(*) AS n PATTERN (A B*)
              DEFINE B AS x - PREV(x) > 0)"""
    with pytest.raises(Exception, match="overflow"):
        sase.compile_sql(text, sort="spark").run().collect()
    with pytest.raises(Exception, match="a number in DEFINE is beyond an int: cast it to a wider type"):
        sase.sql(text).collect()


def test_sort_worker_is_refused_where_only_spark_can(spark: SparkSession) -> None:
    clause = (
        "SELECT * FROM ticker MATCH_RECOGNIZE (ORDER BY tstamp PATTERN (A) DEFINE A AS sqrt(PREV(price)) > sqrt(price))"
    )
    with pytest.raises(
        OptionError, match="sort=worker: window functions of Spark give values of other rows, and so Spark"
    ):
        sase.compile_sql(clause, sort="worker")
    with pytest.raises(OptionError, match="sort=worker: there is no ORDER BY, and so Spark sorts"):
        sase.compile_sql(clause.replace("ORDER BY tstamp", ""), sort="worker")


def test_a_clause_anywhere_in_from(spark: SparkSession) -> None:
    """On a common table expression, joined, and one clause on the matches of another."""
    text = """
    WITH some AS (SELECT * FROM ticker WHERE symbol <> 'FLAT'),
         runs AS (SELECT * FROM some MATCH_RECOGNIZE (
                    PARTITION BY symbol ORDER BY tstamp
                    MEASURES FIRST(tstamp) AS since, count(*) AS days
                    PATTERN (A UP+) DEFINE UP AS price > PREV(price)) r)
    SELECT longer.symbol, longer.days, other.symbol AS other
    FROM runs MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY since MEASURES LAST(days) AS days
                               PATTERN (A B) DEFINE B AS B.days > A.days) AS longer
    JOIN (SELECT * FROM ticker WHERE price = 3) other ON other.symbol <> longer.symbol"""
    assert rows_of(text, "trino") == [("ACME", 3, "UP")]


def test_what_skip_to_cannot_do_names_the_match(spark: SparkSession) -> None:
    text = """SELECT * FROM clicks MATCH_RECOGNIZE (PARTITION BY user ORDER BY at MEASURES count(*) AS n
              AFTER MATCH SKIP TO B PATTERN (A B? C)
              DEFINE A AS page = 'home', B AS page = 'cart', C AS page = 'pay')"""
    with pytest.raises(Exception, match=r"match 2 \(user=u1, at=6\) has no row of B to go to"):
        sase.sql(text).collect()


def test_doubts_are_said_and_ties_counted(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    clause = "ORDER BY user MEASURES count(*) AS n ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A B?)"
    assert len(rows_of(f"SELECT * FROM clicks MATCH_RECOGNIZE ({clause})")) == 17
    assert [record.message.partition(":")[0].partition(" have")[0] for record in caplog.records] == [
        "there is no PARTITION BY",
        "ALL ROWS PER MATCH with SKIP TO NEXT ROW",
        "7 rows or more",
    ]


def test_columns_that_are_not_there_are_spark_s_to_report(spark: SparkSession) -> None:
    with pytest.raises(SaseRunError, match="prize"):
        sase.sql("SELECT * FROM ticker MATCH_RECOGNIZE (ORDER BY tstamp PATTERN (A) DEFINE A AS prize > 1)")


def test_why_rows_are_part_of_no_match_and_matches_in_time(spark: SparkSession) -> None:
    """Four V shapes share their ends; before the first one, prices only rise."""
    text = V_SHAPE.format("", "", "", "ONE ROW PER MATCH AFTER MATCH SKIP TO LAST UP")
    found = sase.compile_sql(text, "oracle").analyze()
    assert found.splitlines()[:8] == [
        "{matches}",
        "  rows         27  in 3 partitions",
        "  may be STRT  27  TRUE",
        "  may be DOWN   7  price < PREV(price)",
        "  may be UP    14  price > PREV(price)",
        "  matches       4  STRT 4, DOWN 7, UP 8",
        "  of a match   16  rows",
        "  of no match  11  rows",
    ]
    assert "STRT, then row 2: DOWN failed, 17 < 12 (price < PREV(price))" in found
    assert repr(sase.timeline(sase.sql(text, "oracle"))).count("match STRT") == 4


def seconds(*prices: int) -> list[tuple[Any, ...]]:
    return [("ACME", datetime(2011, 4, 1, 10) + timedelta(seconds=at), price) for at, price in enumerate(prices)]


def days(name: str, *prices: int) -> list[tuple[Any, ...]]:
    return [(name, datetime(2020, 10, 1) + timedelta(days=at), price) for at, price in enumerate(prices)]


DROPS = """PARTITION BY symbol ORDER BY rowtime
  MEASURES START_ROW.price AS start, LAST(PRICE_DOWN.price) AS bottom, LAST(PRICE_UP.price) AS up
  AFTER MATCH SKIP TO LAST PRICE_UP PATTERN (START_ROW PRICE_DOWN+ PRICE_UP)
  DEFINE PRICE_DOWN AS (LAST(PRICE_DOWN.price, 1) IS NULL AND PRICE_DOWN.price < START_ROW.price)
                       OR PRICE_DOWN.price < LAST(PRICE_DOWN.price, 1),
         PRICE_UP AS PRICE_UP.price > LAST(PRICE_DOWN.price, 1)"""
LAST_PRICE = """PARTITION BY symbol ORDER BY rowtime MEASURES C.price AS last_price
  PATTERN (A B* C) DEFINE A AS A.price > 10, B AS B.price < 15, C AS C.price > 12"""
SUMS = """PARTITION BY symbol ORDER BY rowtime MEASURES SUM(A.price) AS total, count(*) AS taken
  AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ C) DEFINE A AS SUM(A.price) < 30"""
V_ROWS = """PARTITION BY symbol ORDER BY rowtime
  MEASURES match_number() AS n, first(price) AS begun, last(price) AS ended, count(*) AS taken,
           count(DOWN.price) AS decreases, count(UP.price) AS increases
  AFTER MATCH SKIP TO LAST UP PATTERN (BEFORE DOWN+ UP+)
  DEFINE DOWN AS price < LAG(price), UP AS price > LAG(price)"""
LABELS = """ORDER BY rowtime MEASURES match_number() AS match, RUNNING LAST(price) AS val, CLASSIFIER() AS label
  ALL ROWS PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C+)
  DEFINE B AS B.price < PREV(B.price), C AS C.price > PREV(C.price)"""

ACME = days("ACME", 12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22)
ACME_V = """PARTITION BY symbol ORDER BY rowtime
  MEASURES {}
  AFTER MATCH SKIP TO LAST UP PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS DOWN.price < PREV(DOWN.price), UP AS UP.price > PREV(UP.price)"""
VISITS = [
    *((1, "Mary"), (2, "Sam"), (11, "Mary"), (12, "Sam"), (22, "Sam"), (23, "Mary"), (32, "Sam"), (34, "Mary")),
    *((43, "Sam"), (44, "Mary"), (47, "Sam"), (48, "Sam"), (53, "Mary"), (59, "Sam"), (60, "Sam"), (63, "Mary")),
    (68, "Sam"),
]
CLICKED = [(name, datetime(2011, 4, 1), at) for at, name in VISITS]
NEARBY = """PARTITION BY symbol ORDER BY price
  MEASURES {} PATTERN (B S*) DEFINE S AS S.price - PREV(S.price) <= 10"""
SESSIONS = {("Mary", 1): (1, 11), ("Mary", 2): (23,), ("Mary", 3): (34, 44, 53, 63), ("Sam", 1): (2, 12, 22, 32)}
SESSIONS |= {("Sam", 2): (43, 47, 48), ("Sam", 3): (59, 60, 68)}
ABCD = days("ABCD", 50, 36, 39, 42, 30, 47, 71, 80, 75, 63)

PRINTED: list[tuple[str, str, list[tuple[Any, ...]], list[str], list[tuple[Any, ...]]]] = [
    # Flink's page on MATCH_RECOGNIZE: falling prices; averages below 15; greedy and reluctant; sums below 30. (Where it
    # goes on at the next row, its page leaves out the last match: a greedy loop gives no row back there.)
    (
        "spark", DROPS, seconds(12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19),
        ["start", "bottom", "up"], [(25, 14, 24)],
    ),
    (
        "spark",
        "PARTITION BY symbol ORDER BY rowtime "
        "MEASURES first(A.price) AS a, last(A.price) AS z, avg(A.price) AS average "
        "PATTERN (A+ B) DEFINE A AS AVG(A.price) < 15",
        seconds(12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30),
        ["a", "z", "average"], [(12, 16, 14.5), (2, 25, 13.5)],
    ),
    ("spark", LAST_PRICE, seconds(10, 11, 12, 13, 14, 16), ["last_price"], [(16,)]),
    ("spark", LAST_PRICE.replace("B*", "B*?"), seconds(10, 11, 12, 13, 14, 16), ["last_price"], [(13,), (16,)]),
    ("spark", SUMS, seconds(7, 9, 10, 5, 10, 7, 14), ["total", "taken"], [(26, 4), (17, 3)]),
    # Oracle's guide: V shapes in one row each, and with what is known at each row; sessions of clicks, and how long.
    (
        "oracle", ACME_V.format(
            "day(STRT.rowtime) AS s, day(LAST(DOWN.rowtime)) AS b, day(LAST(UP.rowtime)) AS e ONE ROW PER MATCH"
        ), ACME, ["s", "b", "e"], [(5, 6, 10), (10, 12, 13), (14, 16, 18)],
    ),
    (
        "oracle", ACME_V.format(
            "MATCH_NUMBER() AS n, CLASSIFIER() AS v, FINAL COUNT(UP.rowtime) AS up_days, FINAL COUNT(rowtime) AS days, "
            "RUNNING COUNT(rowtime) AS so_far, price - STRT.price AS dif ALL ROWS PER MATCH"
        ), ACME, ["n", "v", "up_days", "days", "so_far", "dif", "price"],
        [(1, "STRT", 4, 6, 1, 0, 25), (1, "DOWN", 4, 6, 2, -13, 12), (1, "UP", 4, 6, 3, -10, 15),
         (1, "UP", 4, 6, 4, -5, 20), (1, "UP", 4, 6, 5, -1, 24), (1, "UP", 4, 6, 6, 0, 25),
         (2, "STRT", 1, 4, 1, 0, 25), (2, "DOWN", 1, 4, 2, -6, 19), (2, "DOWN", 1, 4, 3, -10, 15),
         (2, "UP", 1, 4, 4, 0, 25), (3, "STRT", 2, 5, 1, 0, 25), (3, "DOWN", 2, 5, 2, -11, 14),
         (3, "DOWN", 2, 5, 3, -13, 12), (3, "UP", 2, 5, 4, -11, 14), (3, "UP", 2, 5, 5, -1, 24)],
    ),
    (
        "oracle", NEARBY.format("MATCH_NUMBER() AS session_id ALL ROWS PER MATCH"), CLICKED,
        ["price", "symbol", "session_id"],
        [(at, name, number) for (name, number), times in SESSIONS.items() for at in times],
    ),
    (
        "oracle", NEARBY.format(
            "MATCH_NUMBER() AS session_id, COUNT(*) AS clicks, FIRST(price) AS since, LAST(price) - FIRST(price) AS t"
        ), CLICKED, ["symbol", "session_id", "clicks", "since", "t"],
        [(name, number, len(times), times[0], times[-1] - times[0]) for (name, number), times in SESSIONS.items()],
    ),
    # Snowflake's introduction: all rows of the V shapes of a company, and those of two in one row each.
    (
        "snowflake", V_ROWS.replace("count(*) AS taken", "match_sequence_number() AS msq, classifier() AS cl").replace(
            "AFTER MATCH", "ALL ROWS PER MATCH AFTER MATCH"
        ), ABCD, ["n", "msq", "cl", "price"],
        [(1, 1, "BEFORE", 50), (1, 2, "DOWN", 36), (1, 3, "UP", 39), (1, 4, "UP", 42), (2, 1, "BEFORE", 42),
         (2, 2, "DOWN", 30), (2, 3, "UP", 47), (2, 4, "UP", 71), (2, 5, "UP", 80)],
    ),
    (
        "snowflake", V_ROWS,
        [*ABCD, *days("XYZ", 89, 24, 37, 63, 65, 56, 50, 54, 30, 32)],
        ["symbol", "n", "begun", "ended", "taken", "decreases", "increases"],
        [("ABCD", 1, 50, 42, 4, 1, 2), ("ABCD", 2, 42, 80, 5, 1, 3), ("XYZ", 1, 89, 65, 5, 1, 3),
         ("XYZ", 2, 65, 54, 4, 2, 1), ("XYZ", 3, 54, 32, 3, 1, 1)],
    ),
    # Trino's tests: all rows of two matches.
    (
        "trino", LABELS, seconds(90, 80, 70, 80, 90, 50, 40, 60), ["match", "val", "label"],
        [(1, 90, "A"), (1, 80, "B"), (1, 70, "B"), (1, 80, "C"), (1, 90, "C"),
         (2, 50, "A"), (2, 40, "B"), (2, 60, "C")],
    ),
]  # fmt: skip


def test_worked_examples_of_public_documentation(spark: SparkSession) -> None:
    """All of them in one job."""
    parts = []
    for number, (dialect, clause, rows, columns, _) in enumerate(PRINTED):
        spark.createDataFrame(rows, "symbol string, rowtime timestamp, price int").createOrReplaceTempView("printed")
        found = sase.sql(f"SELECT * FROM printed MATCH_RECOGNIZE ({clause}) AS mr", dialect)
        packed = F.to_json(F.array(*(F.col(name).cast("string") for name in columns)))
        parts.append(found.select(F.lit(number).alias("example"), packed.alias("row")))
    union = parts[0]
    for part in parts[1:]:
        union = union.unionAll(part)
    wanted = [
        (at, json.dumps(list(map(str, row)), separators=(",", ":")))
        for at, each in enumerate(PRINTED)
        for row in each[4]
    ]
    assert sorted((row.example, row.row) for row in union.collect()) == sorted(wanted)
