"""Streams of Parquet files, which workers read themselves: the same results as where Spark reads them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import tries
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sase
from sase.runtime.errors import explain
from sase.runtime.kernels.murmur import murmur3
from sase.runtime.stream.ssc import Stream

BOTH = {"ts": "timestamp", "id": "string", "n": "int"}
CATALOG = sase.Catalog(types={"A": BOTH, "B": BOTH, "C": BOTH})
NUMBERED = {"ts": "bigint", "id": "string", "n": "int", "seq": "int"}
BY_NUMBER = sase.Catalog(types={"A": NUMBERED, "B": NUMBERED, "C": NUMBERED}, order="seq")
NOON = 1_767_268_800_000_000
NEGATION = "EVENT SEQ(A x, !(C y), B z) WHERE [id] AND z.n >= x.n"
WORKERS, SPARK = "auto", "spark"


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "in"
    for query in spark.streams.active:
        query.stop()


def publish(folder: Path, number: int, events: pa.Table, **how: Any) -> Path:
    """A file that appears at once, and after those with lower numbers."""
    folder.mkdir(exist_ok=True, parents=True)
    pq.write_table(events, folder / f".{number}", **how)
    os.utime(folder / f".{number}", (1_000_000_000 + number,) * 2)
    return (folder / f".{number}").rename(folder / f"{number}.parquet")


def table(*events: tuple[Any, ...], time: pa.DataType | None = None, **more: Any) -> pa.Table:
    columns = list(zip(*events, strict=True)) if events else [[]] * 4
    kinds = [pa.string(), time or pa.timestamp("us", "UTC"), pa.string(), pa.int32()]
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.table([*arrays, *more.values()], ["type", "ts", "id", "n", *more])


def minutes(*events: tuple[str | None, float, str | None, int | None]) -> pa.Table:
    return table(*((kind, NOON + int(60_000_000 * at), key, n) for kind, at, key, n in events))


SCHEMA = "type string, ts timestamp, id string, n int"


def incoming(spark: SparkSession, folder: Path, schema: str = SCHEMA, **options: Any) -> DataFrame:
    return spark.readStream.schema(schema).options(maxFilesPerTrigger=1, **options).parquet(str(folder))


def reads_itself(stream: Stream) -> bool:
    return "modificationTime" in stream.packed._jdf.queryExecution().analyzed().toString()


def found(stream: Stream, checkpoint: Path | None = None) -> list[tuple[Counter[str], Counter[str]]]:
    """Of each micro-batch, the matches and what was rejected."""
    told: list[tuple[Counter[str], Counter[str]]] = []

    def sink(packed: DataFrame, batch: int) -> None:
        packed.persist()
        rows = (stream.matches(packed), stream.rejected(packed))
        told.append(tuple(Counter(row[0] for row in each.select(F.to_json(F.struct("*"))).collect()) for each in rows))
        packed.unpersist()

    writer = stream.packed.writeStream.foreachBatch(sink)
    running = (writer if checkpoint is None else writer.option("checkpointLocation", str(checkpoint))).start()
    running.processAllAvailable()
    running.stop()
    return told


def all_of(told: Sequence[tuple[Counter[str], Counter[str]]]) -> tuple[Counter[str], Counter[str]]:
    return sum((each for each, _ in told), Counter()), sum((each for _, each in told), Counter())


# ---- the same answers ---------------------------------------------------------------------------


def some(random: Random, seed: int, by_number: bool) -> list[pa.Table]:
    """Events in files; some have no type, no time or no key, some come late, and some have a time of no use."""
    files, at = [], 0
    for _ in range(3):
        rows = []
        for _ in range(random.randint(0, 40)):
            at += random.randint(0, 3)
            late = random.choice([0] * 9 + [30])
            time = at - late if by_number else NOON + 1_000_000 * (at - late) + random.randint(0, 1)
            if random.random() < 0.05:
                time = random.choice([None, (1 << 52) + 1, -8 * 10**18 - 1, -1])
            kind = random.choice(
                ["A", "A", "B", "B", "C", "D", "E", None] if random.random() < 0.3 else ["A", "B", "C"]
            )
            key = random.choice([None, "ä", "", "long keys have many letters", "k"])
            rows.append((kind, time, key, random.choice([None, 1, 2, 3])))
        events = table(*rows, time=pa.int64() if by_number else None)
        if by_number:
            order = pa.array([random.choice([None, *range(9)]) for _ in rows], pa.int32())
            events = events.append_column("seq", order)
        files.append(events)
    return files


@pytest.mark.parametrize("by_number", [False, True], ids=["timestamps", "numbers"])
def test_the_same_as_where_spark_reads(spark: SparkSession, folder: Path, by_number: bool) -> None:
    catalog, schema = (
        (BY_NUMBER, "ts bigint, id string, type string, seq int, n int") if by_number else (CATALOG, SCHEMA)
    )
    window = "40" if by_number else "40 seconds"
    queries = [
        f"{NEGATION} WITHIN {window}",
        f"EVENT SEQ(A x, B y, !(C z)) WHERE [id] WITHIN {window} RETURN x.n, y.ts",
    ]
    rejected, matched = 0, 0
    for seed in range(tries(2)):
        random = Random(seed)
        here = folder / str(seed)
        for number, events in enumerate(some(random, seed, by_number)):
            publish(here, number, events, row_group_size=7, use_dictionary=random.random() < 0.5)
        text = queries[seed % 2]
        delay: Any = 10 if by_number else "10 seconds"
        told = []
        for scan in (WORKERS, SPARK):
            query = sase.compile(text, catalog, scan=scan)
            stream = query.follow(incoming(spark, here, schema), max_delay=delay, buckets=3)
            assert reads_itself(stream) == (scan != SPARK)
            told.append(all_of(found(stream)))
        assert told[0] == told[1]
        matched, rejected = matched + told[0][0].total(), rejected + told[0][1].total()
    assert matched and rejected


def test_keys_are_where_spark_has_them(spark: SparkSession) -> None:
    random = Random(1)

    def column(kind: pa.DataType, value: Any) -> pa.Array:
        return pa.array([None if random.random() < 0.1 else value() for _ in range(200)], kind)

    letters = [97, 228, 8364, 128512]
    columns = {
        "long": column(pa.int64(), lambda: random.randint(-(1 << 63), (1 << 63) - 1)),
        "whole": column(pa.int32(), lambda: random.randint(-(1 << 31), (1 << 31) - 1)),
        "small": column(pa.int8(), lambda: random.randint(-128, 127)),
        "truth": column(pa.bool_(), lambda: random.random() < 0.5),
        "day": column(pa.date32(), lambda: random.randint(-90_000, 90_000)),
        "time": column(pa.timestamp("us", "UTC"), lambda: random.randint(-(1 << 50), 1 << 50)),
        "word": column(pa.string(), lambda: "".join(chr(random.choice(letters)) for _ in range(random.randint(0, 9)))),
    }
    keys = [[name] for name in columns] + [["long", "word", "whole"], ["word", "word"]]
    rows = spark.createDataFrame(pa.table(columns)).select(*(F.hash(*key) for key in keys)).collect()
    for at, key in enumerate(keys):
        for jit in (True, False):
            assert murmur3([columns[name] for name in key], jit).tolist() == [row[at] for row in rows], key


def test_a_checkpoint_fits_whoever_reads(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """A match has one event that a worker has read, and one that Spark has."""
    publish(folder, 0, minutes(*(("A", at, f"k{at}", 1) for at in range(20))))
    query = f"{NEGATION} WITHIN 1 hour"
    stream = sase.compile(query, CATALOG).follow(incoming(spark, folder), buckets=4)
    assert all_of(found(stream, tmp_path / "ckpt")) == (Counter(), Counter())
    publish(folder, 1, minutes(*(("B", 30, f"k{at}", 1) for at in range(20)), ("TICK", 31, None, None)))
    by_spark = sase.compile(query, CATALOG, scan=SPARK).follow(incoming(spark, folder), buckets=4)
    matches, rejected = all_of(found(by_spark, tmp_path / "ckpt"))
    assert matches.total() == 20 and not rejected
    publish(folder, 2, minutes(("B", 40, "k3", 1), ("TICK", 41, None, None)))
    matches, rejected = all_of(found(stream, tmp_path / "ckpt"))
    assert matches.total() == 1 and not rejected


# ---- when a match comes out ---------------------------------------------------------------------


@pytest.mark.parametrize("scan", [WORKERS, SPARK])
def test_what_a_micro_batch_decides_comes_out_of_it(spark: SparkSession, folder: Path, scan: str) -> None:
    """The B is released as a C of the same file is later. The second B is not: what is later would be a D, which Spark
    does not hand on. It comes with the micro-batch behind it."""
    publish(folder, 0, minutes(("A", 0, "k", 1), ("B", 1, "k", 1), ("C", 2, "k", 1)))
    publish(folder, 1, minutes(("A", 3, "k", 1), ("B", 4, "k", 1), ("D", 5, "k", 1)))
    stream = sase.compile(f"{NEGATION} WITHIN 1 hour", CATALOG, scan=scan).follow(incoming(spark, folder))
    counts = [matches.total() for matches, _ in found(stream)]
    assert counts[:3] == ([1, 1, 0] if scan == WORKERS else [1, 0, 1])


def test_late_is_what_its_own_watermark_has_passed(spark: SparkSession, folder: Path) -> None:
    """Spark's watermark is that of the slowest stream of a query. This one is ahead of it: a match came out as no C was
    there, so the C that comes now is late, though its bucket has nothing to remember."""
    publish(folder, 0, minutes(("A", 0, "k", 1), ("B", 1, "k", 1), ("D", 99, None, None)))
    publish(folder, 1, minutes(("C", 0.5, "k", 1)))
    slow = folder.parent / "slow"
    publish(slow, 0, minutes(("A", 0, "k", 1)))
    query = sase.compile("EVENT SEQ(A x, !(C y), B z) WHERE [id] WITHIN 2 minutes", CATALOG)
    fast, other = (query.follow(incoming(spark, each), buckets=1) for each in (folder, slow))
    told: list[tuple[str, int]] = []

    def sink(packed: DataFrame, batch: int) -> None:
        told.extend((row["kind"], row["size"]) for row in packed.collect() if row["kind"] in ("match", "rejected"))

    running = fast.packed.unionAll(other.packed).writeStream.foreachBatch(sink).start()
    running.processAllAvailable()
    assert told == [("match", 1), ("rejected", 1)]


# ---- files as they are --------------------------------------------------------------------------


def test_times_of_96_bits_are_those_of_spark(spark: SparkSession, folder: Path) -> None:
    """As Spark writes them, if it is not told otherwise. One is of a year that nanoseconds do not reach."""
    assert "INT96" in spark.conf.get("spark.sql.parquet.outputTimestampType")
    when = ["2026-01-01 12:00:00", "2026-01-01 12:00:01.001", "2900-01-01 00:00:00"]
    rows = spark.createDataFrame(
        [(kind, at, "k", 1) for kind, at in zip("ABC", when, strict=True)], "type string, ts string, id string, n int"
    )
    rows.withColumn("ts", F.col("ts").cast("timestamp")).coalesce(1).write.parquet(str(folder))
    text = "EVENT SEQ(A x, B y) WHERE [id] WITHIN 1 hour RETURN x.ts AS first, y.ts AS last"
    stream = sase.compile(text, CATALOG).follow(incoming(spark, folder))
    assert reads_itself(stream)
    match = '{"first":"2026-01-01T12:00:00.000Z","last":"2026-01-01T12:00:01.001Z"}'
    assert next(matches for matches, _ in found(stream)) == Counter({match: 1})


def test_columns_are_found_as_spark_finds_them(spark: SparkSession, folder: Path) -> None:
    """In any case, narrower than they are told to be, of fewer digits, and not at all."""
    events = minutes(("A", 0, "k", 1), ("B", 1, "k", 2), ("D", 3, "k", 2))
    short = events.column("n").cast(pa.int8())
    millis = events.column("ts").cast(pa.timestamp("ms", "UTC"))
    publish(folder, 0, pa.table({"TYPE": events["type"], "n": short, "Ts": millis, "ID": events["id"]}))
    publish(folder, 1, minutes(("A", 4, "k", 1), ("B", 5, "k", 2), ("D", 6, "k", 2)).drop_columns("n"))
    words = [events["type"].dictionary_encode(), events["id"].cast(pa.large_string())]
    later = pa.array([at + 600_000_000 for at in events["ts"].cast(pa.int64()).to_pylist()]).cast(
        pa.timestamp("us", "UTC")
    )
    publish(folder, 2, pa.table({"type": words[0], "ts": later, "id": words[1], "n": events["n"]}))
    text = "EVENT SEQ(A x, B y) WHERE [id] WITHIN 2 minutes RETURN x.n AS first, y.n AS last"
    told = []
    for scan in (WORKERS, SPARK):
        stream = sase.compile(text, CATALOG, scan=scan).follow(incoming(spark, folder))
        told.append(all_of(found(stream)))
    assert told[0] == told[1] == (Counter({'{"first":1,"last":2}': 2, "{}": 1}), Counter())


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("n", pa.array(["1", "2"]), "has n of the type string, which is read as integer"),
        ("N", pa.array([1, 2], pa.int32()), "has the columns n and N"),
        (
            "ts",
            pa.array([1, 2], pa.timestamp("us")),
            "has ts of the type timestamp[us], which is read as timestamp",
        ),
    ],
)
def test_a_file_that_only_spark_can_read_is_named(
    spark: SparkSession, folder: Path, column: str, values: pa.Array, message: str
) -> None:
    events = minutes(("A", 0, "k", 1), ("B", 1, "k", 2))
    if column in events.column_names:
        events = events.set_column(events.column_names.index(column), column, values)
    else:
        events = events.append_column(column, values)
    folder.mkdir()
    stream = sase.compile(f"{NEGATION} WITHIN 1 hour", CATALOG).follow(incoming(spark, folder))
    publish(folder, 0, events)
    with pytest.raises(Exception, match="scan=spark") as caught:
        found(stream)
    assert message in str(caught.value).replace("\\n", "")


def test_a_file_of_another_kind_is_named(spark: SparkSession, folder: Path) -> None:
    publish(folder, 0, minutes(("A", 0, "k", 1)))
    stream = sase.compile(f"{NEGATION} WITHIN 1 hour", CATALOG).follow(incoming(spark, folder))
    (folder / "notes.parquet").write_text("these are no events")
    with pytest.raises(Exception, match="notes") as caught:
        found(stream)
    assert re.fullmatch(rf"{folder}/notes\.parquet cannot be read: .*Parquet.*", explain(caught.value))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (lambda events: events.where("reverse(id) <> ''"), "Spark alone knows what it computes"),
        (lambda events: events.withColumn("file", F.col("_metadata.file_name")).where("file <> ''"), "names of files"),
        (lambda events: events.withWatermark("ts", "1 minute"), "another watermark"),
        (lambda events: events.unionAll(events), "two sources"),
    ],
)
def test_what_workers_cannot_read_spark_reads(spark: SparkSession, folder: Path, changed: Any, why: str) -> None:
    publish(folder, 0, minutes(("A", 0, "k", 1), ("B", 1, "k", 2), ("D", 99, "k", 2)))
    stream = sase.compile(f"{NEGATION} WITHIN 1 hour", CATALOG).follow(changed(incoming(spark, folder)))
    assert not reads_itself(stream), why
    matches, _ = all_of(found(stream))
    assert matches.total() == (4 if why == "two sources" else 1)


def test_values_in_names_of_directories_are_for_spark(spark: SparkSession, folder: Path) -> None:
    query = sase.compile("EVENT SEQ(A x, B y) WHERE [id] WITHIN 1 hour RETURN y.id", CATALOG)
    folder.mkdir()
    before = query.follow(incoming(spark, folder))
    publish(folder / "id=7", 0, minutes(("A", 0, "k", 1), ("B", 1, "k", 2), ("D", 99, "k", 2)).drop_columns("id"))
    stream = query.follow(incoming(spark, folder))
    assert not reads_itself(stream)
    assert all_of(found(stream))[0] == Counter({'{"id":"7"}': 1})
    assert reads_itself(before)
    with pytest.raises(Exception, match="Invalid batch") as caught:
        found(before)
    assert "a directory id=… has come" in explain(caught.value)


@pytest.mark.parametrize("options", [{"ignoreCorruptFiles": "true"}, {"datetimeRebaseMode": "LEGACY"}])
def test_options_of_a_reader_are_for_spark(spark: SparkSession, folder: Path, options: dict[str, str]) -> None:
    publish(folder, 0, minutes(("A", 0, "k", 1)))
    assert not reads_itself(
        sase.compile(f"{NEGATION} WITHIN 1 hour", CATALOG).follow(incoming(spark, folder, **options))
    )


def test_events_are_changed_first_as_they_would_be(spark: SparkSession, folder: Path) -> None:
    """Filters and columns that mean the same to a worker are computed there."""
    publish(folder, 0, minutes(("A", 0, "k", 1), ("B", 1, "k", 2), ("B", 2, "k", 0), ("D", 99, "k", 2)))
    events = incoming(spark, folder).where("n > 0 OR type = 'D'").withColumnRenamed("id", "key")
    events = events.withColumn("id", F.when(F.col("key") == "k", F.lit("one")).otherwise(F.lit("other")))
    stream = sase.compile("EVENT SEQ(A x, B y) WHERE [id] WITHIN 1 hour RETURN y.n, y.id", CATALOG).follow(events)
    assert reads_itself(stream)
    assert all_of(found(stream)) == (Counter({'{"n":2,"id":"one"}': 1}), Counter())


def test_what_is_left_out_before_tells_no_time(spark: SparkSession, folder: Path) -> None:
    """A clock that is wrong would make all that follows late, if nobody had kept its events out."""
    publish(folder, 0, minutes(("A", 0, "k", 1), ("D", 5_000, "k", 9), ("A", 5_000, "k", 9), ("F", 1, "k", 9)))
    publish(folder, 1, minutes(("B", 1, "k", 2), ("D", 99, "k", 2)))
    told = []
    for scan in (WORKERS, SPARK):
        events = incoming(spark, folder).where("n < 9")
        stream = sase.compile("EVENT SEQ(A x, B y) WHERE [id] WITHIN 1 hour RETURN y.n", CATALOG, scan=scan).follow(
            events
        )
        assert reads_itself(stream) == (scan == WORKERS)
        told.append(all_of(found(stream)))
    assert told[0] == told[1] == (Counter({'{"n":2}': 1}), Counter())


def test_a_name_of_a_file_may_have_any_letter(spark: SparkSession, folder: Path) -> None:
    place = folder / "a b%20c;ä"
    publish(place, 0, minutes(("A", 0, "k", 1), ("B", 1, "k", 2), ("D", 99, "k", 2)))
    stream = sase.compile(f"{NEGATION} WITHIN 1 hour", CATALOG).follow(incoming(spark, place))
    assert reads_itself(stream)
    assert all_of(found(stream))[0].total() == 1


def test_types_and_events_are_counted(spark: SparkSession, folder: Path) -> None:
    from sase.runtime.stream.types import events_in

    publish(folder, 0, minutes(("A", 0, "k", 1), ("D", 1, "k", 2), ("E", 2, "k", 2)))
    stream = sase.compile(f"{NEGATION} WITHIN 1 hour", CATALOG).follow(incoming(spark, folder))
    running = stream.packed.writeStream.format("noop").start()
    running.processAllAvailable()
    first = running.recentProgress[0]
    (told,) = (row.asDict() for name, row in first.observedMetrics.items() if name.startswith("sase types"))
    assert told == {"some": ["A", "D", "E"], "read": 3, "has A": True, "has B": False, "has C": False}
    assert first.numInputRows == 1 and events_in(first) == 3
    assert datetime.fromisoformat(first.eventTime["max"]) == datetime(2026, 1, 1, 12, 2, tzinfo=UTC)
