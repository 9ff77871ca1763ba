"""Delta tables through delta-rs, which also reads back here what Spark has written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from sase.cli import main
from sase.runtime.errors import SaseRunError, explained
from sase.runtime.io import delta
from sase.runtime.io.output import refuse_misfits

EVERY_TYPE = """
    SELECT CAST(id AS INT) AS n, named_struct('at', TIMESTAMP '2026-01-01 12:00:00', 'days', array(1.5D, NULL)) AS x,
           TIMESTAMP_NTZ '2026-01-01 12:00:00' AS local, CAST(id AS DECIMAL(10, 2)) AS amount, DATE '2026-01-01' AS day,
           map('a', id) AS counts, binary('x') AS bytes, CAST(NULL AS STRING) AS nothing, 'é' AS `a b`
    FROM range(1000)
"""

QUERY = "EVENT SEQ(A x, B y) WHERE [id] WITHIN 10"


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    assert delta.provide(spark), "Delta's own package is not among what the tests install"
    return str(tmp_path / "a table")


def save(rows: DataFrame, table: str, mode: str = "append", **options: Any) -> None:
    with explained():
        rows.write.format("delta").mode(mode).options(**options).save(table)


def numbers(table: str) -> list[int]:
    values: list[int] = DeltaTable(table).to_pyarrow_dataset().to_table()["id"].to_pylist()
    return sorted(values)


def test_every_type_comes_back(spark: SparkSession, table: str) -> None:
    rows = spark.sql(EVERY_TYPE)
    save(rows, table)
    back = spark.read.format("delta").load(table)
    assert back.collect() == rows.collect()
    assert back.schema.simpleString() == rows.schema.simpleString()
    assert all(field.nullable for field in back.schema), "that there was no NULL so far is no promise"
    assert DeltaTable(table).to_pyarrow_dataset().count_rows() == 1000


def test_writing_adds_or_replaces(spark: SparkSession, table: str) -> None:
    save(spark.range(3), table)
    save(spark.range(3, 5), table)
    assert numbers(table) == [0, 1, 2, 3, 4]
    save(spark.range(0), table)
    assert numbers(table) == [0, 1, 2, 3, 4]
    save(spark.sql("SELECT 7 AS id, 'new' AS note"), table, "overwrite")
    assert spark.read.format("delta").load(table).collect() == [(7, "new")]


def test_a_transaction_counts_once(spark: SparkSession, table: str) -> None:
    for batch in (0, 1, 1, 0, 2):
        save(spark.range(10 * batch, 10 * batch + 2), table, txnAppId="a stream", txnVersion=batch)
    assert numbers(table) == [0, 1, 10, 11, 20, 21]
    assert len(list(Path(table).glob("*.parquet"))) == len(DeltaTable(table).file_uris()), "a repetition leaves nothing"
    save(spark.range(2), table, txnAppId="another stream", txnVersion=0)
    assert len(numbers(table)) == 8


def test_what_fails_leaves_the_table_as_it_was(spark: SparkSession, table: str) -> None:
    save(spark.range(2), table)
    with pytest.raises(SaseRunError, match="'\\(id < 3\\)' is not true"):
        save(spark.range(4).where("assert_true(id < 3) IS NULL"), table)
    assert numbers(table) == [0, 1]


def test_rows_of_another_kind_are_refused(spark: SparkSession, table: str) -> None:
    save(spark.range(2), table)
    with pytest.raises(SaseRunError) as caught:
        save(spark.sql("SELECT 'a' AS id"), table)
    assert str(caught.value) == f"{table} has other columns: struct<id:bigint>, and not struct<id:string>"


def test_a_stream_is_told_of_other_columns_before_it_starts(spark: SparkSession, table: str) -> None:
    save(spark.range(2), table)
    refuse_misfits(spark.range(1), table, "delta")
    with pytest.raises(SaseRunError, match="has the columns id bigint, and the query gives id string: put RETURN back"):
        refuse_misfits(spark.sql("SELECT 'a' AS id"), table, "delta")


def test_a_table_in_partitions_is_read_and_not_written(spark: SparkSession, table: str) -> None:
    rows = spark.sql("SELECT id, CAST(id % 2 AS STRING) AS part FROM range(4)")
    write_deltalake(table, rows.toArrow(), partition_by="part")
    assert sorted(spark.read.format("delta").load(table).collect()) == rows.collect()
    with pytest.raises(SaseRunError, match="a table is partitioned by part: that takes Delta's own package"):
        save(rows, table)


def test_an_interval_is_found_by_its_type(spark: SparkSession) -> None:
    assert delta.prepare(spark.sql("SELECT named_struct('interval_id', 1) AS x"))
    with pytest.raises(SaseRunError, match="and x is one"):
        delta.prepare(spark.sql("SELECT array(named_struct('a', INTERVAL 1 HOUR)) AS x"))


def test_a_session_without_delta(spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = spark.newSession()
    monkeypatch.setattr(delta, "find_spec", lambda name: None)
    assert not delta.provide(other)
    with pytest.raises(SaseRunError, match="this Spark does not know Delta: add its package"):
        delta.prepare(other.range(1))
    with pytest.raises(SaseRunError) as caught, explained():
        other.read.format("delta").load(table)
    message = str(caught.value)
    assert message.startswith("Failed to find the data source: delta.") and "SQLSTATE" not in message
    assert message.endswith("\nAdd its package to the session, as with spark-submit --packages, or install deltalake")


# ---- on the command line ------------------------------------------------------------------------


@pytest.fixture
def run(spark: SparkSession, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a query on a Delta table of events; gives what it says on stderr."""
    events = [("A", 1, 7), ("B", 2, 7), ("A", 3, 8), ("B", 4, 8)]
    save(spark.createDataFrame(events, "type string, ts bigint, id bigint"), str(tmp_path / "events"))

    def call(*arguments: str, query: str = QUERY, events: str = "events", status: int = 0) -> str:
        (tmp_path / "q.sase").write_text(query)
        given = ["run", str(tmp_path / "q.sase"), "--events", str(tmp_path / events), "--out", table]
        assert main([*given, "--out-format", "delta", *arguments]) == status
        return capsys.readouterr().err

    return call


def test_from_delta_to_delta(spark: SparkSession, table: str, run: Callable[..., str]) -> None:
    assert "matches 2" in run()
    assert [row["x"]["id"] for row in spark.read.format("delta").load(table).orderBy("started_at").collect()] == [7, 8]
    assert run(status=1) == f"error: {table} exists: add --overwrite to replace it, or choose another --out\n"
    assert "matches 2" in run("--overwrite")
    assert spark.read.format("delta").load(table).count() == 2
    message = run("--overwrite", events="event*", status=1)
    assert "event* is not a Delta table: name each table with an --events of its own" in message


@pytest.mark.parametrize("stream", [False, True])
def test_an_interval_is_refused_before_anything_is_done(
    run: Callable[..., str], table: str, tmp_path: Path, stream: bool
) -> None:
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "0.json").write_text('{"type": "A", "ts": 1, "id": 1}\n')
    more = ["--stream", "--checkpoint", str(tmp_path / "ck")] if stream else []
    message = run(*more, query=f"{QUERY} RETURN INTERVAL '1' HOUR AS took", events="incoming", status=1)
    assert message == (
        "error: Delta has no type for an interval, and took is one: RETURN a number instead, such as unix_seconds(z.ts)"
        " - unix_seconds(x.ts) AS took\n"
    )
    assert not Path(table).exists() and not (tmp_path / "ck").exists()


def test_following_a_table_takes_more(run: Callable[..., str], tmp_path: Path) -> None:
    message = run("--stream", "--checkpoint", str(tmp_path / "ck"), status=1)
    assert "events is a Delta table, and following one takes Delta's own package: spark-submit --packages" in message
