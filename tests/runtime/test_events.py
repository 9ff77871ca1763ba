"""From a user's tables to the events of a query: what is accepted, what is refused, and what is counted."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sase
from sase.runtime.errors import SaseRunError
from sase.runtime.events import Events, Source, check, expected, later, moment, state_bits, ticks
from sase.runtime.io import meters
from sase.runtime.io import tally as tallies
from sase.runtime.io.tally import Counts, Tally, unknown_type

SOURCE = Source(
    time="ts",
    type="type",
    order=None,
    time_kind="integer",
    types={"SHELF": {"ts": "bigint", "id": "bigint"}, "EXIT": {"ts": "bigint", "id": "bigint", "gate": "string"}},
)


def source(**columns: str) -> Source:
    """A source of one type whose events have these columns."""
    return Source("ts", "type", None, "integer", {"A": columns})


def rows(events: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, events.collect()), key=repr)


def refusal(events: object, of: Source) -> str:
    with pytest.raises(SaseRunError) as error:
        check(events, of)  # type: ignore[arg-type]
    return str(error.value)


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    before = spark.conf.get(key)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.set(key, before)


# ---- what comes out -----------------------------------------------------------------------------


def test_a_shared_table_gives_the_rows_and_columns_of_the_query(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [("north", 7, 1, "SHELF", "unused"), ("north", 8, 2, "COUNTER", "unused"), ("south", 7, 3, "EXIT", "unused")],
        "GATE string, ID int, Ts bigint, Type string, other string",
    )
    checked = check(events, SOURCE)
    assert checked.columns == ["type", "ts", "id", "gate"]
    assert checked.schema.simpleString() == "struct<type:string,ts:bigint,id:bigint,gate:string>"
    # SHELF declares no gate, so its events have none, whatever the table says.
    assert rows(checked) == [("EXIT", 3, 7, "south"), ("SHELF", 1, 7, None)]


def test_time_and_tie_breaker_are_read_though_no_type_declares_them(spark: SparkSession) -> None:
    events = spark.sql("SELECT 'A' AS type, 5 AS id, DATE '2026-03-01' AS day, 1 AS seq")
    of = Source("day", "type", "seq", "timestamp", {"A": {"id": "int"}})
    assert check(events, of).columns == ["type", "day", "seq", "id"]


def test_names_that_differ_in_case_are_one_column(spark: SparkSession) -> None:
    events = spark.sql("SELECT 'A' AS type, 1 AS ts, 2 AS x")
    of = Source("TS", "Type", None, "integer", {"A": {"ts": "int", "X": "int"}, "B": {"x": "int", "type": "string"}})
    assert check(events, of).columns == ["Type", "TS", "X"]


def test_each_type_may_have_a_table_of_its_own(spark: SparkSession) -> None:
    shelf = spark.sql("SELECT 7L AS id, 1L AS ts")
    gate = spark.sql("SELECT 3L AS ts, 7L AS id, 'north' AS gate")
    counter = spark.sql("SELECT 'not read' AS what")
    checked = check({"SHELF": shelf, "EXIT": gate, "COUNTER": counter}, SOURCE)
    assert checked.columns == ["type", "ts", "id", "gate"]
    assert rows(checked) == [("EXIT", 3, 7, "north"), ("SHELF", 1, 7, None)]


def test_a_shared_table_serves_the_types_without_a_table_of_their_own(spark: SparkSession) -> None:
    gate = spark.sql("SELECT 3L AS ts, 7L AS id, 'north' AS gate")
    # Without a gate: only EXIT needs one. Its EXIT event is not read, for EXIT has its own table.
    shared = spark.sql("SELECT * FROM VALUES (1L, 7L, 'SHELF'), (2L, 7L, 'EXIT') AS t(ts, id, type)")
    assert rows(check({None: shared, "EXIT": gate}, SOURCE)) == [("EXIT", 3, 7, "north"), ("SHELF", 1, 7, None)]


def test_several_tables_may_hold_the_same_types(spark: SparkSession) -> None:
    day = "SELECT 'SHELF' AS type, {0}L AS ts, 7L AS id, 'north' AS gate"
    tables = [(None, spark.sql(day.format(1))), (None, spark.sql(day.format(2)))]
    assert [row[1] for row in rows(check(tables, SOURCE))] == [1, 2]


def test_checking_again_changes_nothing(spark: SparkSession) -> None:
    shelf = spark.sql("SELECT 7 AS ID, 1 AS ts")
    gate = spark.sql("SELECT 3L AS ts, 7L AS id, 'north' AS gate")
    once = check({"SHELF": shelf, "EXIT": gate}, SOURCE)
    twice = check(once, SOURCE)
    assert twice.schema == once.schema
    assert rows(twice) == rows(once)


def test_names_may_hold_any_character(spark: SparkSession) -> None:
    of = Source("t.s", "event type", "`", "integer", {'it\'s "A"': {"a.b": "int", "c`d": "int"}})
    events = spark.createDataFrame(
        [('it\'s "A"', 1, 2, 3, 4)], "`event type` string, `t.s` int, ```` int, `a.b` int, `c``d` int"
    )
    assert rows(check(events, of)) == [('it\'s "A"', 1, 2, 3, 4)]
    assert rows(check(events, of, Tally())) == [('it\'s "A"', 1, 2, 3, 4)]


def test_nothing_runs_before_an_action(spark: SparkSession) -> None:
    events = spark.sql("SELECT 'A' AS type, raise_error('read') AS ts, 1L AS id").select(
        "type", F.col("ts").cast("bigint"), "id"
    )
    check(events, source(id="bigint"), Tally())


def test_other_types_are_not_even_read(spark: SparkSession, tmp_path: Path) -> None:
    events = spark.sql("SELECT * FROM VALUES ('A', 1L, 5), ('B', 2L, 6) AS t(type, ts, id)")
    events.write.parquet(str(tmp_path / "plain"))
    events.write.partitionBy("type").parquet(str(tmp_path / "parts"))

    def plan(name: str) -> str:
        read = check(spark.read.parquet(str(tmp_path / name)), source(id="int"), Tally())
        return str(read._jdf.queryExecution().executedPlan().toString())

    assert "PushedFilters: [Or(EqualTo(type,A),IsNull(type))]" in plan("plain")
    assert "PartitionFilters: [((type#" in plan("parts")


# ---- what is refused ----------------------------------------------------------------------------


def test_a_missing_column_is_named_with_its_nearest_neighbour(spark: SparkSession) -> None:
    events = spark.sql("SELECT 'SHELF' AS type, 1L AS ts, 7L AS idd, 'north' AS door")
    assert refusal(events, SOURCE) == (
        'the events have no column "id": did you mean "idd"?\n'
        'the events have no column "gate": there are type, ts, idd, door'
    )


def test_a_missing_column_of_a_type_with_its_own_table(spark: SparkSession) -> None:
    table = spark.sql("SELECT 1L AS ts, 7L AS id")
    assert refusal({"SHELF": table, "EXIT": table}, SOURCE) == 'the EXIT events have no column "gate": there are ts, id'


def test_a_missing_type_column(spark: SparkSession) -> None:
    events = spark.sql("SELECT 'SHELF' AS Typ, 1L AS ts, 7L AS id, '' AS gate")
    assert refusal(events, SOURCE) == 'the events have no column "type": did you mean "Typ"?'


def test_a_type_column_that_is_no_string(spark: SparkSession) -> None:
    events = spark.sql("SELECT 1 AS type, 1L AS ts, 7L AS id, '' AS gate")
    assert refusal(events, SOURCE) == 'column "type" of the events is int, and event types are strings'


def test_a_missing_table(spark: SparkSession) -> None:
    table = spark.sql("SELECT 1L AS ts, 7L AS id, '' AS gate")
    assert refusal({"SHELF": table}, SOURCE) == "no table has the EXIT events: there are tables of SHELF"
    assert (
        refusal({"SHELF": table, "EXITS": table}, SOURCE) == "no table has the EXIT events: did you mean EXIT by EXITS?"
    )


def test_a_column_of_the_wrong_type(spark: SparkSession) -> None:
    events = spark.sql("SELECT 'A' AS type, 1L AS ts, '7' AS Id")
    assert refusal(events, source(id="bigint")) == (
        'column "id" of the events is string, and the query was compiled for bigint: '
        "cast the column, or declare it string and compile again"
    )


@pytest.mark.parametrize(
    ("kind", "actual", "wanted"),
    [
        ("timestamp", "string", "a timestamp or a date: say how it is written, as with --time-format iso"),
        ("timestamp", "bigint", "a timestamp or a date"),
        ("integer", "timestamp", "an integer"),
        ("integer", "decimal(10,0)", "an integer"),
    ],
)
def test_a_time_of_the_wrong_kind(spark: SparkSession, kind: str, actual: str, wanted: str) -> None:
    events = spark.createDataFrame([], f"type string, ts {actual}")
    of = Source("ts", "type", None, kind, {"A": {}})  # type: ignore[arg-type]
    assert (
        refusal(events, of)
        == f'column "ts" of the events is {actual}, and the query was compiled for a time that is {wanted}'
    )


WIDENED = [
    ("tinyint", "bigint"),
    ("int", "bigint"),
    ("int", "double"),
    ("smallint", "float"),
    ("float", "double"),
    ("int", "decimal(10,0)"),
    ("bigint", "decimal(21,2)"),
    ("decimal(10,2)", "decimal(12,3)"),
    ("void", "timestamp"),
    ("array<int>", "array<int>"),
]
REFUSED = [
    ("bigint", "int"),
    ("bigint", "double"),
    ("double", "float"),
    ("double", "bigint"),
    ("int", "decimal(10,1)"),
    ("decimal(10,2)", "decimal(10,1)"),
    ("decimal(10,2)", "decimal(10,3)"),
    ("decimal(10,2)", "double"),
    ("date", "timestamp"),
    ("timestamp", "date"),
    ("timestamp", "timestamp_ntz"),
    ("int", "string"),
    ("boolean", "int"),
    ("array<int>", "array<bigint>"),
]


@pytest.mark.parametrize(("actual", "declared"), WIDENED)
def test_types_are_widened_where_nothing_is_lost(spark: SparkSession, actual: str, declared: str) -> None:
    events = (
        spark.createDataFrame([("A", 1)], "type string, ts bigint").select("*", F.lit(None).cast(actual).alias("x"))
        if actual != "void"
        else spark.sql("SELECT 'A' AS type, 1L AS ts, NULL AS x")
    )
    assert dict(check(events, source(x=declared)).dtypes)["x"] == declared


def test_strings_that_spark_compares_in_its_own_way(spark: SparkSession) -> None:
    """For Spark, 'x' = 'X' there; for a worker it is not, so that matches would be lost."""
    events = spark.sql("SELECT 'A' AS type, 1L AS ts, 'x' COLLATE UTF8_LCASE AS k")
    assert refusal(events, source(k="string")) == (
        'column "k" of the events is string collate UTF8_LCASE, and sase compares strings by their bytes: '
        "give it as `k` COLLATE UTF8_BINARY"
    )
    assert "string collate UTF8_LCASE" in refusal(events.withColumn("type", F.expr("k")), source())
    assert check(events.withColumn("k", F.expr("k COLLATE UTF8_BINARY")), source(k="string")).count() == 1
    events.createOrReplaceTempView("collated")
    with pytest.raises(SaseRunError, match="column k is string collate UTF8_LCASE"):
        sase.sql("SELECT * FROM collated MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES 1 AS n PATTERN (A))")


@pytest.mark.parametrize(("actual", "declared"), REFUSED)
def test_types_are_never_narrowed(spark: SparkSession, actual: str, declared: str) -> None:
    events = spark.createDataFrame([], f"type string, ts bigint, x {actual}")
    assert f"is {actual}, and the query was compiled for {declared}" in refusal(events, source(x=declared))


def test_a_timestamp_without_a_zone_stays_one(spark: SparkSession) -> None:
    local = spark.sql("SELECT 'A' AS type, TIMESTAMP_NTZ '2026-03-01 12:00:00' AS ts")
    of = Source("ts", "type", None, "timestamp", {"A": {"ts": "timestamp"}})
    assert dict(check(local, of).dtypes)["ts"] == "timestamp_ntz"
    zoned = spark.sql("SELECT 'A' AS type, TIMESTAMP '2026-03-01 12:00:00' AS ts")
    assert refusal([(None, local), (None, zoned)], of) == (
        'column "ts" is timestamp and timestamp_ntz in different tables: cast it to one type'
    )


def test_types_that_declare_a_column_differently_share_the_wider_type(spark: SparkSession) -> None:
    of = Source("ts", "type", None, "integer", {"A": {"x": "int"}, "B": {"x": "bigint"}, "C": {"X": "smallint"}})
    tables = {
        name: spark.createDataFrame([(1, 2)], f"ts int, x {kind}")
        for name, kind in [("A", "int"), ("B", "bigint"), ("C", "smallint")]
    }
    assert check(tables, of).dtypes == [("type", "string"), ("ts", "int"), ("x", "bigint")]


def test_types_that_declare_a_column_in_no_common_type(spark: SparkSession) -> None:
    of = Source("ts", "type", None, "integer", {"A": {"x": "int"}, "B": {"x": "string"}})
    tables = {name: spark.createDataFrame([], f"ts int, x {kind}") for name, kind in [("A", "int"), ("B", "string")]}
    assert refusal(tables, of) == 'column "x" is int and string in different tables: cast it to one type'


# ---- what is counted ----------------------------------------------------------------------------

GAPS = [
    ("A", 1, 1),
    ("A", 2, 2),
    ("A", None, 3),
    ("A", None, None),
    ("A", 5, None),
    (None, 6, 6),
    (None, None, None),
    ("OTHER", 7, 7),
    ("OTHER", None, 8),
]


def gaps(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(GAPS, "type string, ts bigint, seq bigint")


def test_events_that_cannot_take_part_are_counted_by_the_first_thing_they_lack(spark: SparkSession) -> None:
    tally = Tally()
    checked = check(gaps(spark), Source("ts", "type", "seq", "integer", {"A": {}}), tally)
    assert rows(checked) == [("A", 1, 1), ("A", 2, 2)]
    assert tally.counts() == Counts(
        relevant=2, flawed={"without a time": 2, "without a type": 2, "without a tie-breaker": 1}
    )
    assert tally.counts().rejected == "2 events without a type, 2 without a time, 1 without a tie-breaker"


def test_large_files_are_counted_by_filters(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same counts, whatever the action: joined with themselves, written, or dropped by Spark."""
    monkeypatch.setattr(meters, "LARGE", 0)
    gaps(spark).repartition(2).write.parquet(str(tmp_path / "events"))
    events = spark.read.parquet(str(tmp_path / "events"))
    source = Source("ts", "type", "seq", "integer", {"A": {}, "B": {}})
    right = Counts(
        relevant=2, flawed={"without a time": 2, "without a type": 2, "without a tie-breaker": 1}, unseen=("B",)
    )

    def counted(act: Callable[[DataFrame], Any], events: Events = events) -> Counts:
        tally = Tally()
        checked = check(events, source, tally)
        assert "CollectMetrics" not in checked._jdf.queryExecution().toString()
        act(checked)
        return tally.counts()

    assert counted(lambda frame: frame.where("ts > 1").groupBy("seq").count().collect()) == right
    assert counted(lambda x: x.alias("x").join(x.alias("y"), F.expr("x.ts = y.ts")).collect()) == right
    assert counted(lambda frame: frame.write.parquet(str(tmp_path / "copy"))) == right
    assert counted(lambda frame: frame.where("1 = 0").collect()) == right
    own = {"A": events.where("type = 'A'").drop("type"), "B": events.where("type = 'B'").drop("type")}
    assert counted(lambda frame: frame.collect(), own) == Counts(
        relevant=2, flawed={"without a time": 2, "without a tie-breaker": 1}, unseen=("B",)
    )


def test_a_tie_breaker_may_be_missing_where_none_is_used(spark: SparkSession) -> None:
    tally = Tally()
    checked = check(gaps(spark), Source("ts", "type", None, "integer", {"A": {"seq": "bigint"}}), tally)
    assert rows(checked) == [("A", 1, 1), ("A", 2, 2), ("A", 5, None)]
    assert tally.counts() == Counts(relevant=3, flawed={"without a time": 2, "without a type": 2})


def test_a_session_that_has_ended_says_what_it_knows_and_nothing_of_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """To know which types are not there, the events are looked at once more, when the first action is over."""

    def ended(*_: object) -> None:
        raise RuntimeError("the session has ended")

    monkeypatch.setattr(tallies, "_absent", ended)
    source = Source("ts", "type", None, "integer", {"A": {}})
    tallies._warn({"all": 3, "without a time": 2}, (None, {}, source), metered=True)  # type: ignore[arg-type]
    assert caplog.messages == ["rejected: 2 events without a time"]
    caplog.clear()
    monkeypatch.setattr(tallies, "_absent", lambda *_: ["A"])
    monkeypatch.setattr(tallies, "_unseen_types", lambda counts, *_: [f"there is no {name}" for name in counts.unseen])
    tallies._warn({"all": 3}, (None, {}, source), metered=True)  # type: ignore[arg-type]
    assert caplog.messages == ["there is no A"]


def test_they_are_left_out_without_a_tally_too(spark: SparkSession) -> None:
    assert rows(check(gaps(spark), Source("ts", "type", "seq", "integer", {"A": {}}))) == [("A", 1, 1), ("A", 2, 2)]


def test_tables_of_one_type_are_counted_together(spark: SparkSession) -> None:
    tally = Tally()
    table = spark.createDataFrame([(1,), (None,)], "ts bigint")
    check({"A": table, "B": table}, Source("ts", "type", None, "integer", {"A": {}, "B": {}}), tally).collect()
    assert tally.counts() == Counts(relevant=2, flawed={"without a time": 2})


def test_reading_the_events_twice_counts_them_once(spark: SparkSession) -> None:
    tally = Tally()
    checked = check(gaps(spark), Source("ts", "type", None, "integer", {"A": {}}), tally)
    checked.alias("x").join(checked.alias("y"), F.expr("x.ts = y.ts")).collect()
    assert tally.counts() == Counts(relevant=3, flawed={"without a time": 2, "without a type": 2})


def test_they_are_counted_though_spark_drops_the_plan_that_reads_them(spark: SparkSession) -> None:
    tally = Tally()
    checked = check(gaps(spark), Source("ts", "type", None, "integer", {"A": {}}), tally)
    assert checked.join(spark.range(0), F.expr("id = ts")).collect() == []
    assert tally.counts() == Counts(relevant=3, flawed={"without a time": 2, "without a type": 2})


@pytest.mark.parametrize(
    ("flawed", "text"),
    [
        ({}, ""),
        ({"without a time": 1}, "1 event without a time"),
        ({"without a type": 1234}, "1,234 events without a type"),
        ({"that cannot be read": 3, "without a time": 1}, "3 events that cannot be read, 1 without a time"),
    ],
)
def test_what_was_rejected_in_words(flawed: dict[str, int], text: str) -> None:
    assert Counts(0, flawed).rejected == text


# ---- types that no event has --------------------------------------------------------------------


def clicks(spark: SparkSession, types: str = "'view', 'cart', 'purchase', NULL") -> DataFrame:
    return spark.sql(f"SELECT type, 1L AS ts FROM (SELECT explode(array({types})) AS type)")


def of_types(*names: str) -> Source:
    return Source("ts", "type", None, "integer", {name: {} for name in names})


def test_types_that_no_event_has_are_told_with_those_that_there_are(spark: SparkSession) -> None:
    tally = Tally()
    check(clicks(spark), of_types("view", "Purchase", "logout"), tally).collect()
    counts = tally.counts()
    assert counts == Counts(1, {"without a type": 1}, ("Purchase", "logout"))
    assert tally.unseen_types(counts) == [
        "no event has the type Purchase: there are purchase, cart, view",
        "no event has the type logout: there are cart, purchase, view",
    ]


def test_a_type_that_an_event_has_is_no_stranger(spark: SparkSession) -> None:
    tally = Tally()
    check(clicks(spark), of_types("view", "cart"), tally).collect()
    assert tally.unseen_types(tally.counts()) == []


def test_any_number_of_types_is_watched(spark: SparkSession) -> None:
    names = [f"T{at}" for at in range(130)]
    tally = Tally()
    check(clicks(spark, "'T0', 'T61', 'T62', 'T129'"), of_types(*names), tally).collect()
    assert set(names) - set(tally.counts().unseen) == {"T0", "T61", "T62", "T129"}


def test_a_type_whose_events_are_not_even_read_is_no_stranger(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sase.runtime.io.tally.LOOK", 1)
    tally, where = Tally(), "(type = 'view' AND ts > 1) OR (type = 'Purchase' AND ts > 1)"
    check(clicks(spark), replace(of_types("view", "purchase", "Purchase"), where=where), tally).collect()
    counts = tally.counts()
    assert counts.unseen == ("view", "purchase", "Purchase")
    assert tally.unseen_types(counts) == ["no event has the type Purchase: there are view among the first 1 events"]


def test_a_table_without_events_is_told(spark: SparkSession) -> None:
    tally = Tally()
    table = spark.createDataFrame([(1,)], "ts bigint")
    check({"A": table, "B": table.where("ts > 1")}, of_types("A", "B"), tally).collect()
    assert tally.unseen_types(tally.counts()) == ["the table of the B events is empty"]


def test_no_events_at_all(spark: SparkSession) -> None:
    tally = Tally()
    check(clicks(spark).where("ts > 1"), of_types("A"), tally).collect()
    assert tally.unseen_types(tally.counts()) == ["no event has the type A: there are no events"]


def test_few_events_are_looked_at_and_few_types_are_listed() -> None:
    assert unknown_type("A", [f"t{at}" for at in range(10)], every=False) == (
        "no event has the type A: there are t0, t1, t2, t3, t4, t5, t6, t7, … among the first 10,000 events"
    )


def test_counting_types_takes_no_pass_of_its_own(spark: SparkSession) -> None:
    read = spark.sparkContext.accumulator(0)

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    tally = Tally()
    events = clicks(spark).coalesce(1).mapInArrow(counted, "type string, ts bigint")
    check(events, of_types("view", "cart"), tally).collect()
    tally.unseen_types(tally.counts())
    assert read.value == 4


def test_a_warning_tells_of_a_misspelled_type(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    tally = Tally()
    checked = check(clicks(spark, "'view', 'purchase'"), of_types("view", "Purchase"), tally)
    with caplog.at_level(logging.WARNING, logger="sase"):
        tally.warn()
        checked.collect()
        wait_for(caplog)
    assert caplog.messages == ["no event has the type Purchase: there are purchase, view"]


def test_what_a_limit_leaves_unread_is_not_missed(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sase.runtime.io.tally.LOOK", 1)
    clicks(spark, "'view', 'purchase'").repartitionByRange(2, "type").write.parquet(str(tmp_path / "clicks"))
    events = spark.read.option("maxPartitionBytes", 1).parquet(str(tmp_path / "clicks"))
    tally, later = Tally(), Tally()
    checked = check(events, of_types("view", "purchase"), tally)
    with caplog.at_level(logging.WARNING, logger="sase"):
        tally.warn()
        assert len(checked.head(1)) == 1
        again = check(clicks(spark, "'view'"), of_types("logout"), later)
        later.warn()
        again.collect()
        wait_for(caplog)
    assert caplog.messages == ["no event has the type logout: there are view among the first 1 events"]


def wait_for(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(100):
        if caplog.messages:
            break
        time.sleep(0.05)


def test_a_warning_follows_the_first_action(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    tally = Tally()
    checked = check(gaps(spark), Source("ts", "type", None, "integer", {"A": {}}), tally)
    with caplog.at_level(logging.WARNING, logger="sase"):
        tally.warn()
        assert not caplog.messages
        checked.collect()
        wait_for(caplog)
    assert caplog.messages == ["rejected: 2 events without a type, 2 without a time"]


def test_no_thread_waits_for_an_action_that_may_never_come(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    source, before, runs = Source("ts", "type", None, "integer", {"A": {}}), set(threading.enumerate()), 12
    for _ in range(runs):
        tally = Tally()
        checked = check(gaps(spark), source, tally)
        tally.warn()
    started = set(threading.enumerate()) - before
    assert len(started) < runs / 2, started  # py4j has some of its own, however many runs there are
    with caplog.at_level(logging.WARNING, logger="sase"):
        checked.where("ts > 1").collect()
        wait_for(caplog)
    assert caplog.messages == ["rejected: 2 events without a type, 2 without a time"]


# ---- terms --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("TIMESTAMP '2024-03-10 08:30:00.000001Z'", 1_710_059_400_000_001),
        ("TIMESTAMP '1969-12-31 23:59:59.999999Z'", -1),
        # No such moment in New York, where the clocks went from 2 to 3, and two of them later that year.
        ("TIMESTAMP_NTZ '2024-03-10 02:30:00.000001'", 1_710_037_800_000_001),
        ("TIMESTAMP_NTZ '2024-11-03 01:30:00'", 1_730_597_400_000_000),
        ("TIMESTAMP_NTZ '1969-12-31 23:59:59.999999'", -1),
        ("TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'", 253_402_300_799_999_999),
        ("DATE '1970-01-03'", 2 * 86_400_000_000),
        ("DATE '0001-01-01'", -62_135_596_800_000_000),
        ("7", 7),
        ("-7Y", -7),
        (f"{2**63 - 1}L", 2**63 - 1),
    ],
)
def test_ticks_are_exact_in_every_time_zone(spark: SparkSession, value: str, expected: int) -> None:
    with setting(spark, "spark.sql.session.timeZone", "America/New_York"):
        events = spark.sql(f"SELECT {value} AS `the time`, named_struct('ts', {value}) AS x")
        found = events.select(ticks(events, "`the time`").alias("a"), ticks(events, "x.ts").alias("b"))
        assert found.dtypes == [("a", "bigint"), ("b", "bigint")]
        assert found.collect() == [(expected, expected)]


@pytest.mark.parametrize(
    ("value", "length", "expected"),
    [
        # The night has 23 hours in New York, where the clocks went from 2 to 3.
        ("TIMESTAMP '2024-03-10 00:00:00'", 86_400_000_000, "TIMESTAMP '2024-03-11 01:00:00'"),
        ("TIMESTAMP_NTZ '2024-03-10 01:30:00'", 3_600_000_001, "TIMESTAMP_NTZ '2024-03-10 02:30:00.000001'"),
        ("DATE '2024-03-10'", 2 * 86_400_000_000, "DATE '2024-03-12'"),
        ("DATE '2024-03-10'", 86_400_000_000 // 2, "TIMESTAMP_NTZ '2024-03-10 12:00:00'"),
        ("7", 10, "17L"),
    ],
)
def test_a_later_time_is_exact_in_every_time_zone(spark: SparkSession, value: str, length: int, expected: str) -> None:
    with setting(spark, "spark.sql.session.timeZone", "America/New_York"):
        events = spark.sql(f"SELECT {value} AS ts, {expected} AS expected")
        found = events.select(later(events, "ts", length).alias("expected"))
        assert found.schema.simpleString() == events.select("expected").schema.simpleString()
        assert found.collect() == events.select("expected").collect()
        again = events.select(moment(events, ticks(events, "ts") + length, "ts", length).alias("expected"))
        assert again.schema.simpleString() == found.schema.simpleString()
        assert again.collect() == found.collect()


def test_state_bits_count_null_as_not_true(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1, "x"), (None, "y"), (3, None)], "a int, b string")
    bits = state_bits({"first": "a > 0", "second var": "b = 'x'", "third": "true"})
    found = events.select(bits.alias("bits"))
    assert found.dtypes == [("bits", "bigint")]
    assert [row.bits for row in found.collect()] == [0b111, 0b100, 0b101]


def test_state_bits_reach_past_32(spark: SparkSession) -> None:
    fills = {str(at): str(at == 40) for at in range(41)}
    assert spark.range(1).select(state_bits(fills)).collect() == [(1 << 40,)]


# ---- times that are numbers or text -------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "written", "expected"),
    [
        ("1700000000", {"time_unit": "s"}, "2023-11-14 22:13:20"),
        ("1700000000.123456BD", {"time_unit": "s"}, "2023-11-14 22:13:20.123456"),
        ("1700000000.123457D", {"time_unit": "s"}, "2023-11-14 22:13:20.123457"),
        ("1700000000123L", {"time_unit": "ms"}, "2023-11-14 22:13:20.123"),
        ("1700000000123456L", {"time_unit": "us"}, "2023-11-14 22:13:20.123456"),
        ("1700000000123456789L", {"time_unit": "ns"}, "2023-11-14 22:13:20.123456"),
        ("-1L", {"time_unit": "ns"}, "1969-12-31 23:59:59.999999"),
        ("-1L", {"time_unit": "ms"}, "1969-12-31 23:59:59.999"),
        ("'14.11.2023 22:13'", {"time_format": "dd.MM.yyyy HH:mm"}, "2023-11-14 22:13:00"),
        ("'2023-11-14T23:13:20.5+01:00'", {"time_format": "iso"}, "2023-11-14 22:13:20.5"),
        ("TIMESTAMP '2023-11-14 22:13:20'", {"time_unit": "ms"}, "2023-11-14 22:13:20"),  # it is one already
    ],
)
def test_times_become_timestamps_exactly(
    spark: SparkSession, value: str, written: dict[str, str], expected: str
) -> None:
    events = spark.sql(f"SELECT 'A' AS type, {value} AS TS")
    of = Source("ts", "type", None, "timestamp", {"A": {"ts": "timestamp"}}, **written)  # type: ignore[arg-type]
    checked = check(events, of)
    assert checked.dtypes == [("type", "string"), ("ts", "timestamp")]
    assert checked.select(F.col("ts").cast("string")).collect() == [(expected,)]
    assert check(checked.select("*"), of).collect() == checked.collect()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (f"{2**63 - 1}L", {"time_unit": "s"}),
        ("double('NaN')", {"time_unit": "ms"}),
        ("'yesterday'", {"time_format": "iso"}),
        ("'2023-11-14'", {"time_format": "dd.MM.yyyy"}),
    ],
)
def test_a_time_that_is_none_cannot_be_read(spark: SparkSession, value: str, written: dict[str, str]) -> None:
    events = spark.sql(f"SELECT 'A' AS type, {value} AS ts UNION ALL SELECT 'A', NULL")
    of = Source("ts", "type", None, "timestamp", {"A": {}}, **written)  # type: ignore[arg-type]
    tally = Tally()
    assert check(events, of, tally).collect() == []
    assert tally.counts().rejected == "1 event that cannot be read, 1 without a time"
    shown = spark.sql(f"SELECT string({value})").collect()[0][0]
    told = [(row.reason, row.record) for row in tally.rejected().collect()]
    assert sorted(told, key=str) == [("cannot be read", shown), ("without a time", None)]


def test_a_time_that_is_not_so_written(spark: SparkSession) -> None:
    events = spark.sql("SELECT 'A' AS type, 'now' AS ts")
    of = Source("ts", "type", None, "timestamp", {"A": {}}, time_unit="ms")
    assert refusal(events, of) == (
        'column "ts" of the events is string, and the query was compiled for a time that is a number of ms'
    )


# ---- formats without types ----------------------------------------------------------------------


def test_what_to_expect_of_a_file_that_tells_no_types(spark: SparkSession) -> None:
    of = Source("at", "kind", "seq", "timestamp", {"A": {"x": "int"}, "B": {"x": "bigint", "y": "string"}})
    names = {name: kind.simpleString() for name, kind in expected(of, ["A", "B"]).items()}
    assert names == {"kind": "string", "at": "timestamp", "seq": "bigint", "x": "bigint", "y": "string"}
    assert list(expected(of, ["A"])) == ["kind", "at", "seq", "x"]


def test_files_in_which_nothing_can_take_part_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """The relevance filter reaches Parquet, and only as far as the answer allows."""
    rows = [("A", 1, 1, 5), ("A", 2, 1, 50), ("B", 3, 1, None), ("B", 4, 1, 7), (None, 5, 1, 0), ("A", None, 1, 0)]
    spark.createDataFrame(rows, "type string, ts bigint, id bigint, n bigint").write.parquet(str(tmp_path / "events"))
    events = spark.read.parquet(str(tmp_path / "events"))
    catalog = sase.Catalog(
        types={"A": {"ts": "bigint", "id": "bigint", "n": "bigint"}, "B": {"ts": "bigint", "id": "bigint"}}
    )
    query = sase.compile("EVENT SEQ(A x, B y) WHERE [id] AND x.n > 10 AND abs(x.n) < 90 WITHIN 9", catalog)
    matches = query.run(events)
    plan = matches._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThan(n,10)" in plan, "among the filters that are pushed to the files"
    assert [row["x"]["n"] for row in matches.collect()] == [50, 50]
    counts = Tally()
    query.module.find_matches(check(events, query.module.SOURCE, counts)).collect()
    assert counts.counts().flawed == {"without a type": 1, "without a time": 1}, "whatever their other attributes"
