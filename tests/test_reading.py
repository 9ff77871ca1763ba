"""Files that workers read themselves: what they compute is what Spark would, and what they cannot, Spark does.

tests/test_in_place.py holds the matches to the judge, whoever reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from test_in_place import CATALOG, QUERIES, goes_in_cells, is_left_in_place, stream, written

import sase
from sase.runtime import in_place, spans
from sase.runtime.io.catalyst import computed, simplified
from sase.runtime.operator.expressions import Expressions

ROWS: dict[str, list[Any]] = {
    "word": ["A", "B", None, "é", "", "b", "A", "Ä"],
    "other": ["A", "b", "x", None, "", "B", "B", "Ä"],
    "n": [1, 2, None, -3, 4, 1 << 62, -(1 << 62), 0],
    "m": [1, None, 3, -4, 4, 0, 5, 7],
    "small": [1, 2, 3, None, 5, 127, -128, 0],
    "little": [1, None, 3, 1000, -1000, 127, 32767, 0],
    "real": [0.0, -0.0, float("nan"), None, 1.5, float("inf"), float("-inf"), -1.0],
    "truth": [True, False, None, True, False, True, None, False],
    "day": [date(2026, 1, day) for day in range(1, 9)],
    "ts": [datetime(2026, 1, day, 12, tzinfo=UTC) for day in range(1, 9)],
}
KINDS = {
    "word": pa.string(),
    "other": pa.string(),
    "n": pa.int64(),
    "m": pa.int64(),
    "small": pa.int8(),
    "little": pa.int16(),
    "real": pa.float64(),
    "truth": pa.bool_(),
    "day": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
}
EXPRESSIONS = [
    "word = 'A'",
    "word IN ('A', 'é') OR truth",
    "NOT (word < 'b')",
    "word >= other",
    "word IS NULL AND n IS NULL",
    "NOT (word = 'A') AND n > 0",
    "CASE WHEN word = 'A' THEN n > 0 END",
    "CASE WHEN word = 'A' THEN n WHEN truth THEN m ELSE 7L END",
    "IF(truth, 1L, 0L) | IF(word = 'B', 2L, 0L) & 6L",
    "IF(n > m, word, other)",
    "n <= m AND (truth OR word IN ('A', 'B', 'b'))",
    "n IN (1, 4, 9)",
    "small > 2",
    "small IN (1Y, 127Y)",
    "CAST(small AS bigint) < n",
    "real = 0.0D",
    "real > 1.0D",
    "real <= CAST('NaN' AS double)",
    "real = real",
    "real >= -1.5D OR n = 0",
    "day > day",
    "unix_micros(ts) > 1767600000000000",
    "ts >= ts",
    "coalesce(NULL, truth)",
    "truth AND CAST(NULL AS boolean)",
    "NOT (CAST(NULL AS boolean) OR truth)",
    "CAST(small AS bigint) < 1000000",
    "NOT (CASE WHEN day IS NULL THEN truth END)",
    "IF(truth, CAST(small AS int), CAST(little AS int)) IN (1, 70000)",
]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> tuple[DataFrame, pa.Table]:
    rows = pa.table({name: pa.array(values, KINDS[name]) for name, values in ROWS.items()})
    pq.write_table(rows, tmp_path / "rows.parquet")
    return spark.read.parquet(str(tmp_path)), rows


def test_what_is_computed_of_a_row_is_what_spark_computes(table: tuple[DataFrame, pa.Table]) -> None:
    frame, rows = table
    asked = frame.select(*(F.expr(each).alias(str(at)) for at, each in enumerate(EXPRESSIONS)))
    known = computed(asked)
    assert known is not None and not known.where
    expected = {str(at): [row[at] for row in asked.collect()] for at in range(len(EXPRESSIONS))}
    for words in ([], ["word", "other"]):
        batch = {
            name: rows[name].combine_chunks().dictionary_encode() if name in words else rows[name].combine_chunks()
            for name in rows.column_names
        }
        found = Expressions().over(batch)
        for name, tree in known.columns.items():
            for each in (tree, simplified(tree, frozenset(["day", "ts"]))):
                value = found.value(each)
                values = [value.as_py()] * 8 if isinstance(value, pa.Scalar) else value.to_pylist()
                assert values == expected[name], EXPRESSIONS[int(name)]


def test_conditions_leave_out_what_spark_leaves_out(table: tuple[DataFrame, pa.Table]) -> None:
    frame, rows = table
    asked = frame.where("word IN ('A', 'b') OR n > 3").select("n", (F.col("m").isNotNull()).alias("has")).where("has")
    known = computed(asked)
    assert known is not None
    batch = {name: rows[name].combine_chunks() for name in rows.column_names}
    kept = Expressions().over(batch).all_of(known.where).to_pylist()
    assert [n for n, keep in zip(ROWS["n"], kept, strict=True) if keep] == [row.n for row in asked.collect()]
    assert set(known.kinds) == {"word", "n", "m"}


@pytest.mark.parametrize(
    "expression",
    [
        "n + 1 > m",
        "upper(word) = 'A'",
        "real = CAST(n AS double)",
        "abs(n) > 1",
        "spark_partition_id() = 0",
        "rand() > 0.5",
        "CAST(n AS int) > 0",
        "word LIKE 'A%'",
        "ts > TIMESTAMP '2026-01-03 00:00:00'",
        "(SELECT max(n) FROM VALUES (1), (2) AS t(n)) > n",
    ],
)
def test_what_arrow_may_see_otherwise_is_left_to_spark(table: tuple[DataFrame, pa.Table], expression: str) -> None:
    assert computed(table[0].selectExpr(f"{expression} AS asked")) is None


def test_more_than_a_look_at_each_row_is_left_to_spark(table: tuple[DataFrame, pa.Table]) -> None:
    frame, _ = table
    for other in (frame.groupBy("word").count(), frame.union(frame), frame.limit(3), frame.join(frame, "n")):
        assert computed(other) is None


# ---- files ----------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "LARGE", 0)
    monkeypatch.setattr(in_place, "SMALL", 0)
    monkeypatch.setattr(spans, "A_SPAN", 20)
    monkeypatch.setattr(spans, "AGAIN", 9.0)


def found(events: DataFrame, query: str = QUERIES[0], **options: Any) -> DataFrame:
    return sase.compile(query, options.pop("catalog", CATALOG), **options).run(events)


def _partitioned(spark: SparkSession, path: Path, events: DataFrame) -> DataFrame:
    events.write.partitionBy("id").parquet(str(path / "by_id"))
    return spark.read.parquet(str(path / "by_id"))


def _without_a_column(spark: SparkSession, path: Path, events: DataFrame) -> DataFrame:
    (path / "two").mkdir()
    pq.write_table(pa.table({"type": ["A"], "ts": [1], "id": [1]}), path / "two" / "old.parquet")
    events.coalesce(1).write.mode("append").parquet(str(path / "two"))
    return spark.read.schema("type string, ts bigint, id bigint, n bigint").parquet(str(path / "two"))


def _of_another_type(spark: SparkSession, path: Path, events: DataFrame) -> DataFrame:
    events.withColumn("n", F.col("n").cast("int")).coalesce(1).write.parquet(str(path / "int"))
    return spark.read.schema("type string, ts bigint, id bigint, n bigint").parquet(str(path / "int"))


def _in_a_database(spark: SparkSession, path: Path, events: DataFrame) -> DataFrame:
    system = spark.sparkContext._jvm.java.lang.System  # type: ignore[union-attr]
    system.setProperty("derby.stream.error.file", str(path / "derby.log"))
    place = "jdbc:derby:memory:events"
    events.drop("rest").write.option("createTableColumnTypes", "type VARCHAR(9)").jdbc(f"{place};create=true", "events")
    return spark.read.jdbc(place, "events")


@pytest.mark.parametrize(
    "files",
    [
        _in_a_database,
        _partitioned,
        _without_a_column,
        _of_another_type,
        lambda spark, path, events: events.withColumn("id", F.col("id") + 1),
        lambda spark, path, events: spark.read.option("ignorecorruptfiles", "TRUE").parquet(str(path / "plain")),
        lambda spark, path, events: events.union(events),
        lambda spark, path, events: {"A": events.where("type = 'A'"), "B": events.where("type = 'B'")},
    ],
    ids=[
        "in a database",
        "partitioned",
        "without a column",
        "of another type",
        "computed",
        "lenient",
        "two tables",
        "by type",
    ],
)
def test_other_files_are_read_by_spark(
    spark: SparkSession, tmp_path: Path, small: None, files: Callable[..., Any]
) -> None:
    (tmp_path / "plain").mkdir()
    plain = written(spark, tmp_path / "plain", stream(5))
    other = files(spark, tmp_path, plain)
    assert is_left_in_place(found(plain), "worker")
    assert not is_left_in_place(found(other), "worker")


def test_files_that_change_before_they_are_read_are_noticed(spark: SparkSession, tmp_path: Path, small: None) -> None:
    answer = found(written(spark, tmp_path, stream(6)))
    assert is_left_in_place(answer, "worker")
    os.utime(tmp_path / "0.parquet", ns=(0, 0))
    with pytest.raises(PySparkException, match=r"0\.parquet has changed since its times were looked up"):
        answer.collect()


def test_a_file_that_is_named_twice_is_read_twice(spark: SparkSession, tmp_path: Path, small: None) -> None:
    written(spark, tmp_path, stream(5))
    twice = spark.read.parquet(*2 * [str(tmp_path)])
    answer, expected = found(twice), found(twice, parallel="key")
    assert is_left_in_place(answer, "worker")
    assert answer.count() == expected.count() == 4 * found(spark.read.parquet(str(tmp_path))).count() > 0


@pytest.fixture(params=["in order", "in no order"])
def brought(
    request: pytest.FixtureRequest, small: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[[DataFrame], bool]:
    """Both ways in which what workers read comes together: says whether a query takes it."""
    if request.param == "in no order":
        monkeypatch.setattr(spans, "AGAIN", -1.0)  # as if more than that would be read twice
        return goes_in_cells
    return lambda answer: is_left_in_place(answer, "worker")


def test_events_are_counted_by_those_who_read_them(
    spark: SparkSession, tmp_path: Path, small: None, brought: Callable[[DataFrame], bool]
) -> None:
    """Each once, though some are read twice, and all are read again by a second action."""
    events = stream(7)
    answer, tally = sase.compile(QUERIES[0], CATALOG).watched({None: written(spark, tmp_path, events)})
    assert brought(answer)
    assert answer.count() == answer.count()
    counts = tally.counts()
    assert (counts.relevant, counts.rejected, counts.unseen) == (sum(event["type"] in "AB" for event in events), "", ())
    assert tally.read == len(events)


def test_types_that_no_event_has_are_told_by_those_who_read(spark: SparkSession, tmp_path: Path, small: None) -> None:
    catalog = sase.Catalog(types={name: {"ts": "bigint", "id": "bigint"} for name in "ABD"})
    events = written(spark, tmp_path, stream(11))
    answer, tally = sase.compile("EVENT SEQ(A x, !(D w), B y) WHERE [id] WITHIN 9", catalog).watched({None: events})
    assert is_left_in_place(answer, "worker")
    answer.collect()
    assert tally.counts().unseen == ("D",)
    assert tally.unseen_types(tally.counts()) == ["no event has the type D: there are A, B, C"]


def test_types_that_were_left_out_are_no_types_of_the_events(spark: SparkSession, tmp_path: Path, small: None) -> None:
    events = written(spark, tmp_path, stream(11)).where("type <> 'B' OR n > 5")
    for options in ({}, {"parallel": "key"}):
        answer, tally = sase.compile(QUERIES[0], CATALOG, **options).watched({None: events})
        assert is_left_in_place(answer, "worker") == (not options)
        answer.collect()
        assert tally.unseen_types(tally.counts()) == ["no event has the type B: there are A, C"]


def test_what_a_condition_of_the_table_does_not_know_is_left_out(
    spark: SparkSession, tmp_path: Path, small: None
) -> None:
    """NULL is not true: of events without an id, those with a small n are neither found nor counted."""
    events, found = written(spark, tmp_path, stream(12)), []
    frame = events.where("id < 3 OR n > 1")
    for options in ({}, {"parallel": "key"}):
        answer, tally = sase.compile(QUERIES[2], CATALOG, **options).watched({None: frame})
        assert is_left_in_place(answer, "worker") == (not options)
        rows = sorted(map(str, answer.collect()))
        found.append((rows, tally.counts().relevant))
    assert found[0] == found[1]
    assert found[0][0] and 0 < found[0][1] < events.where("type IS NOT NULL").count()


def test_a_strict_run_and_one_with_flaws_are_read_by_spark(spark: SparkSession, tmp_path: Path, small: None) -> None:
    from sase.runtime.events import check
    from sase.runtime.io.tally import Tally

    module = sase.compile(QUERIES[0], CATALOG).module
    events = stream(8)
    frame = written(spark, tmp_path, events)
    assert is_left_in_place(module.find_matches(check(frame, module.SOURCE, Tally())), "worker")
    assert not is_left_in_place(module.find_matches(check(frame, module.SOURCE, Tally(strict=True))), "worker")
    events[3]["type"] = None
    (tmp_path / "flawed").mkdir()
    flawed = written(spark, tmp_path / "flawed", events)
    assert not is_left_in_place(module.find_matches(check(flawed, module.SOURCE, Tally())), "worker")


def _old(path: Path, name: str, **told: str) -> str:
    """Dates of a time in which the calendars differ."""
    schema = {"type": pa.string(), "ts": pa.int64(), "id": pa.int64(), "n": pa.int64(), "day": pa.date32()}
    rows = [{**event, "day": date(1500, 1, 1)} for event in stream(5)]
    table = pa.Table.from_pylist(rows, pa.schema(schema, {f"org.apache.spark.{key}": told[key] for key in told}))
    pq.write_table(table, path / name, row_group_size=6)
    return str(path / name)


def test_dates_of_another_calendar_are_read_by_spark(spark: SparkSession, tmp_path: Path, small: None) -> None:
    """Files of Spark 2, and those of which it is told that they are of one, as Spark 3 may have written them, too."""
    new, other = _old(tmp_path, "new.parquet", version="3.5.0"), _old(tmp_path, "other.parquet")
    spark2 = _old(tmp_path, "spark2.parquet", version="2.4.8")
    marked = _old(tmp_path, "marked.parquet", version="3.5.0", legacyDateTime="")
    legacy = spark.read.option("datetimerebasemode", "LEGACY")
    catalog = sase.Catalog(types={name: {"ts": "bigint", "id": "bigint", "day": "date"} for name in "AB"})
    by_worker = [legacy.parquet(new), spark.read.parquet(new), spark.read.parquet(other)]
    by_spark = [legacy.parquet(other), spark.read.parquet(spark2), spark.read.parquet(marked)]
    for events in [*by_worker, *by_spark]:
        answer = found(events, f"{QUERIES[0]} RETURN x.day AS day", catalog=catalog)
        assert is_left_in_place(answer, "worker") == (events in by_worker)
        day = date(1500, 1, 1) if events in by_worker else date(1499, 12, 23)
        assert {row.day for row in answer.collect()} == {day}


def test_columns_that_go_by_ids_are_read_by_spark(spark: SparkSession, tmp_path: Path, small: None) -> None:
    numbers = {"type": 1, "ts": 2, "id": 3, "n": 4}
    kinds = {"type": pa.string()}
    fields = [
        pa.field(name, kinds.get(name, pa.int64()), metadata={"PARQUET:field_id": str(number)})
        for name, number in numbers.items()
    ]
    pq.write_table(pa.Table.from_pylist(stream(5), pa.schema(fields)), tmp_path / "0.parquet", row_group_size=6)
    swapped = StructType()
    for name, number in {**numbers, "id": 4, "n": 3}.items():
        swapped.add(name, "string" if name == "type" else "long", metadata={"parquet.field.id": number})
    events = spark.read.schema(swapped).parquet(str(tmp_path))
    assert is_left_in_place(found(events), "worker")
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    try:
        assert not is_left_in_place(found(events), "worker")
    finally:
        spark.conf.unset("spark.sql.parquet.fieldId.read.enabled")


KEYS: dict[str, tuple[str, pa.DataType, Callable[[int], Any]]] = {
    "string": ("string", pa.string(), lambda id: f"user-{id}-€"),
    "date": ("date", pa.date32(), lambda id: date(2026, 1, id)),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_that_are_no_integers(
    spark: SparkSession, tmp_path: Path, small: None, brought: Callable[[DataFrame], bool], kind: str
) -> None:
    declared, arrow, key = KEYS[kind]
    catalog = sase.Catalog(types={name: {"ts": "bigint", "id": declared, "n": "bigint"} for name in "ABC"})
    rows = [{**event, "id": event["id"] and key(event["id"])} for event in stream(9)]
    schema = pa.schema({"type": pa.string(), "ts": pa.int64(), "id": arrow, "n": pa.int64()})
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "0.parquet", row_group_size=6)
    events = spark.read.parquet(str(tmp_path))
    query = f"{QUERIES[0]} RETURN x.id, x.ts AS first, y.ts AS last"
    answer = found(events, query, catalog=catalog)
    assert brought(answer)
    expected = found(events, query, catalog=catalog, parallel="key")
    assert sorted(map(str, answer.collect())) == sorted(map(str, expected.collect()))
    assert expected.count() > 5


@pytest.mark.parametrize("name", ["_sase_span", "_sase_lent", "_SASE_SPAN", "_sase_cell"])
def test_columns_of_the_names_that_reading_has(spark: SparkSession, tmp_path: Path, small: None, name: str) -> None:
    catalog = sase.Catalog(types={type: {"ts": "bigint", "id": "bigint", name: "string"} for type in "AB"})
    rows = [{**event, name: str(event["n"])} for event in stream(10)]
    schema = pa.schema({"type": pa.string(), "ts": pa.int64(), "id": pa.int64(), name: pa.string()})
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "0.parquet", row_group_size=6)
    query = f"EVENT SEQ(A x, B y) WHERE [id] WITHIN 9 RETURN x.ts, y.{name} AS n"
    events = spark.read.parquet(str(tmp_path))
    answers = [found(events, query, catalog=catalog, parallel=way).collect() for way in ("files", "key")]
    assert sorted(map(str, answers[0])) == sorted(map(str, answers[1])) != []


def test_a_column_of_the_name_that_spans_have_is_a_column(spark: SparkSession, tmp_path: Path, small: None) -> None:
    """What a query reads is never taken for more than data."""
    from sase.runtime.operator.reading import SPAN

    catalog = sase.Catalog(types={name: {"ts": "bigint", "id": "bigint", SPAN: "binary"} for name in "AB"})
    rows = [{**event, SPAN: b"cos\nsystem\n(S'exit 1'\ntR."} for event in stream(10)]
    schema = pa.schema({"type": pa.string(), "ts": pa.int64(), "id": pa.int64(), SPAN: pa.binary()})
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "0.parquet", row_group_size=6)
    query = f"EVENT SEQ(A x, B y) WHERE [id] WITHIN 9 RETURN x.ts, y.{SPAN} AS cell"
    matches = found(spark.read.parquet(str(tmp_path)), query, catalog=catalog).collect()
    assert matches and {bytes(match.cell) for match in matches} == {rows[0][SPAN]}
