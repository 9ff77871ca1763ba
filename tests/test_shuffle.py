"""Events of one key come together in one partition, whatever Spark takes to be known of where they are.

Spark leaves out a `repartition` where it takes rows to be partitioned like that already. It may then change its mind
about what is below: nobody but the worker needs the partitions, and Spark does not know that it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import sase
from sase.runtime.session import KEEP_BUCKETS

KEYS = 20
ANSWERS = {
    "sequences": "EVENT SEQ(A a, B b) WHERE [id] WITHIN 100",
    "sequences sorted by Spark": "EVENT SEQ(A a, B b) WHERE [id] WITHIN 100",
    "runs": "EVENT SEQ(A a, B b) WHERE [id] WITHIN 100 SKIP TILL NEXT MATCH",
    "rows": """SELECT * FROM {events} MATCH_RECOGNIZE (PARTITION BY id ORDER BY ts MEASURES A.ts AS a, B.ts AS b
               PATTERN (A B) DEFINE A AS type = 'A', B AS type = 'B')""",
}
"""Each finds one match of each key: its A is in the first file, and its B in the last."""


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[None]:
    """In files that hold a stretch of time each, as most tables have them."""
    first = spark.range(KEYS).selectExpr("id AS ts", "'A' AS type", "id").coalesce(1)
    last = spark.range(KEYS).selectExpr(f"id + {KEYS} AS ts", "'B' AS type", "id").coalesce(1)
    buckets = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    for stretch in (first, last):
        stretch.write.mode("append").bucketBy(buckets, "id").saveAsTable("bucketed")
        stretch.write.mode("append").saveAsTable("plain")
    spark.range(KEYS).write.saveAsTable("places")
    yield
    for name in ("bucketed", "plain", "places"):
        spark.sql(f"DROP TABLE {name}")


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


ONE_FILE_A_TASK = {"spark.sql.files.maxPartitionBytes": "8KB", "spark.sql.files.openCostInBytes": "8KB"}
JOINED_LATE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",  # as if there were much data
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "10MB",
}
"""By what is known beforehand, a join of two shuffles; by what turns out, one with a broadcast table."""
MUCH_DATA = {**JOINED_LATE, "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}
"""A join is one of two shuffles, whatever turns out."""


@pytest.mark.parametrize("way", ANSWERS)
def test_tables_in_buckets_of_the_key(spark: SparkSession, tables: None, way: str) -> None:
    with settings(spark, **ONE_FILE_A_TASK):
        assert len(found(spark, way, spark.table("bucketed")).collect()) == KEYS


@pytest.mark.parametrize("way", ANSWERS)
def test_tables_in_buckets_of_the_key_need_no_shuffle_where_buckets_are_kept(
    spark: SparkSession, tables: None, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_shuffled(events: DataFrame) -> bool:
        matches = found(spark, way, events)
        assert len(matches.collect()) == KEYS
        matches.explain()
        return "Exchange hashpartitioning" in capsys.readouterr().out

    with settings(spark, **ONE_FILE_A_TASK, **KEEP_BUCKETS):
        assert not is_shuffled(spark.table("bucketed"))
        assert not is_shuffled(spark.table("bucketed").where("ts >= 0"))
        assert is_shuffled(spark.table("bucketed").selectExpr("ts", "type", "id + 1 AS id"))
        assert is_shuffled(spark.table("bucketed").join(spark.table("places").hint("broadcast"), "id"))


@pytest.mark.parametrize("way", ANSWERS)
def test_joins_on_the_key_that_turn_out_to_be_small(spark: SparkSession, tables: None, way: str) -> None:
    with settings(spark, **ONE_FILE_A_TASK, **JOINED_LATE):
        assert len(found(spark, way, spark.table("plain").join(spark.table("places"), "id")).collect()) == KEYS


TYPES = {"ts": "bigint", "id": "bigint", "place": "string"}
PAIRS = "EVENT SEQ(A a, B b) WHERE [{}] WITHIN 2 RETURN EVENT M(b.ts AS ts, a.id AS id, b.place AS place)"
AGAIN = "EVENT SEQ(M x, M y) WHERE [{}] WITHIN 10 RETURN x.id, x.ts AS first, y.ts AS last"
FROM_ONE_PLACE: dict[str, Callable[[DataFrame], DataFrame]] = {
    "as they are": lambda matches: matches,
    "some of them": lambda matches: matches.where("ts > 3").select("place", "id", "ts", "type").where("id <> 7"),
    "inside of others": lambda matches: matches.selectExpr("struct(ts, struct(*) AS m) AS n").selectExpr("n.m.*"),
}
FROM_ELSEWHERE: dict[str, Callable[[DataFrame], DataFrame]] = {
    "of another key": lambda matches: matches.withColumn("id", F.expr("id div 2")),
    "twice": lambda matches: matches.union(matches),
    "once": lambda matches: matches.distinct(),
    "dealt out": lambda matches: matches.repartition(3),
    "with those of a place": lambda matches: matches.where(_is_listed(matches)),
    "told anew": lambda matches: matches.mapInArrow(lambda batches: batches, matches.schema),
}


@pytest.mark.parametrize("way", ANSWERS)
def test_rows_that_somebody_has_brought_together(spark: SparkSession, tables: None, way: str) -> None:
    def shuffles(events: DataFrame) -> int:
        matches = found(spark, way, events)
        assert len(matches.collect()) == KEYS
        return int(matches._jdf.queryExecution().analyzed().toString().count("RepartitionByExpression"))

    with settings(spark, **ONE_FILE_A_TASK, **JOINED_LATE):
        plain = spark.table("plain")
        assert shuffles(plain.repartition(3, "id").where("ts >= 0")) == 1
        assert shuffles(plain.repartition("ts")) == 2
        assert shuffles(plain.repartition(3, "id", "ts")) == 2
        assert shuffles(plain.repartitionByRange(3, "id").where("ts >= 0")) == 2
        assert shuffles(spark.table("bucketed").repartition("id").where("ts >= 0")) == 2
        assert shuffles(plain.join(spark.table("places"), "id").repartition("id")) == 2


def _is_listed(matches: DataFrame) -> Column:
    """A subquery, of which Spark makes a join."""
    matches.sparkSession.createDataFrame([("x",), ("y",)], "place string").createOrReplaceTempView("listed")
    return F.expr("place IN (SELECT place FROM listed)")


@pytest.mark.parametrize("way", [*FROM_ONE_PLACE, *FROM_ELSEWHERE])
def test_matches_may_be_in_one_place_already(spark: SparkSession, way: str) -> None:
    shuffles = first_and_second(spark, ("id", "id"), way)
    assert shuffles == (1 if way in FROM_ONE_PLACE else 2 if way != "twice" else 3)


@pytest.mark.parametrize(
    ("first", "second", "shuffles"),
    [
        ("id, place", "id, place", 1),
        ("id", "id, place", 2),
        ("id, place", "id", 2),
        ("place", "id", 2),
        ("id", "place", 2),
    ],
)
def test_matches_of_other_keys_are_not(spark: SparkSession, first: str, second: str, shuffles: int) -> None:
    assert first_and_second(spark, (first, second), "as they are") == shuffles


def test_columns_that_come_with_numbers_are_known_by_their_names(spark: SparkSession) -> None:
    rows = [("AB"[at % 2], at, each, each % 3, "n") for each in range(KEYS) for at in range(12)]
    events = spark.createDataFrame(rows, "type string, ts bigint, id bigint, `1` bigint, `user-name` string")
    types = {"ts": "bigint", "id": "bigint", "1": "bigint", "user-name": "string"}
    made = "RETURN EVENT M(b.ts AS ts, a.id AS id, a.`1` AS chan, b.`user-name` AS who)"
    first = sase.compile(
        f"EVENT SEQ(A a, B b) WHERE [id] WITHIN 2 {made}", sase.Catalog(types={"A": types, "B": types})
    )
    catalog = sase.Catalog(types={"M": {"ts": "bigint", "id": "bigint", "chan": "bigint", "who": "string"}})
    for key, shuffles in (("id", 1), ("chan", 2)):
        found = sase.compile(AGAIN.format(key), catalog).run(first.run(events))
        plan = found._jdf.queryExecution().optimizedPlan().toString()
        assert plan.count("RepartitionByExpression") == shuffles, key
        assert len(found.collect()) > KEYS


def test_matches_of_what_spark_has_sorted_are_in_one_place(spark: SparkSession) -> None:
    assert first_and_second(spark, ("id, place", "id, place"), "as they are", sort="spark") == 1


def first_and_second(spark: SparkSession, keys: tuple[str, str], way: str, sort: str = "worker") -> int:
    """How often the events of the first of two queries are shuffled, and its matches for the second one. The answer is
    the same as if nobody knew where these come from."""
    rows = [("AB"[at % 2], at, each, "xyz"[at // 2 % 3]) for each in range(KEYS) for at in range(12)]
    events = spark.createDataFrame(rows, "type string, ts bigint, id bigint, place string")
    first = sase.compile(PAIRS.format(keys[0]), sase.Catalog(types={"A": TYPES, "B": TYPES}), sort=sort)
    matches = {**FROM_ONE_PLACE, **FROM_ELSEWHERE}[way](first.run(events))
    second = sase.compile(AGAIN.format(keys[1]), sase.Catalog(types={"M": TYPES}), sort=sort)
    with settings(spark, **MUCH_DATA):
        answer, told = second.run(matches), spark.createDataFrame(matches.toArrow())
        expected = sorted(map(tuple, second.run(told).collect()))
        assert sorted(map(tuple, answer.collect())) == expected and len(expected) > KEYS
    plan = answer._jdf.queryExecution().optimizedPlan().toString()
    return plan.count("RepartitionByExpression")


def found(spark: SparkSession, way: str, events: DataFrame) -> DataFrame:
    if way == "rows":
        events.createOrReplaceTempView("events_of_keys")
        return sase.sql(ANSWERS[way].format(events="events_of_keys"))
    declared = {"ts": "bigint", "id": "bigint"}
    options = {"sort": "spark"} if way.endswith("Spark") else {}
    query = sase.compile(ANSWERS[way], sase.Catalog(types={"A": declared, "B": declared}), **options)
    return query.run(events)
