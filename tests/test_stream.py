"""Streams in real Spark: sources, watermark, timers, sinks, restart. `test_stream_core.py` tests the core."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import reduce
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from effort import tries
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from quick_spark import environment

import sase
from sase.cli import main
from sase.runtime.io import delta
from sase.runtime.io.output import refuse_misfits
from sase.runtime.kernels.murmur import bucket_labels
from sase.runtime.stream.ssc import kept_at, prepare
from sase.runtime.stream.status import StatusLine
from sase.runtime.stream.types import Types

BOTH = {"ts": "timestamp", "id": "string", "n": "int"}
CATALOG = sase.Catalog(types={"A": BOTH, "B": BOTH, "C": BOTH})
SCHEMA = "type string, ts timestamp, id string, n int"
NOON = datetime(2026, 1, 1, 12)

QUERIES = {
    "negation in the stacks": "EVENT SEQ(A x, !(C y), B z) WHERE [id] AND z.n >= x.n WITHIN 20 minutes",
    "trailing negation": "EVENT SEQ(A x, B y, !(C z)) WHERE [id] WITHIN 15 minutes RETURN x.id, x.ts, y.ts AS last",
    # C has no key to go by, and its condition does not come apart: its events go to every bucket.
    "negation outside": "EVENT SEQ(A x, !(C y), B z) WHERE x.id = z.id AND abs(y.n - x.n) < 2 WITHIN 20 minutes",
    "any order": "EVENT AND(A x, OR(B y, SEQ(B y, A z)), NOT C n, ALL(B t)) WHERE [id] AND t.n > x.n WITHIN 9 minutes",
    "what has arrived": "EVENT SEQ(A x, B y) WHERE [id] AND y.n > avg*(y.n) WITHIN 9 minutes",
    "earlier results": "EVENT SEQ(A x, B y) WHERE [id] AND y.n >= coalesce(avg+(x.n), 0) WITHIN 9 minutes "
    "RETURN x.ts, y.ts AS last, sum+(y.n) AS total",
    "one event": "EVENT A x WHERE x.n > 3",
    # Spark has a word in the first, and matches are built for all.
    "totals": "EVENT SEQ(A x, B y, !(C z)) WHERE [id] AND abs(x.n - y.n) < 4 WITHIN 15 minutes RETURN x.n, "
    "count(*) AS ways, sum(y.n) AS total, avg(CAST(y.n AS decimal(8,2))) AS mean, max(y.ts) AS last GROUP BY x.n",
    "totals of runs": "EVENT SEQ(A x, B+ y, C z) WHERE [id] WITHIN 15 minutes SKIP TILL NEXT MATCH "
    "RETURN count(*) AS ways, sum(y.n) AS total, min(y.n) AS least",
}


def stream_of(count: int, seed: int) -> list[tuple[Any, ...]]:
    """Events a minute or so apart, in the order of time."""
    random = Random(seed)
    return [
        (random.choice("AABBC"), NOON + timedelta(seconds=37 * at), f"key {random.randint(0, 5)}", random.randint(0, 5))
        for at in range(count)
    ]


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for query in spark.streams.active:
        query.stop()


def write(folder: Path, name: str, events: list[tuple[Any, ...]]) -> None:
    """A file of JSON lines that appears at once, in the order of names."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"type": type_, "ts": str(ts), "id": id_, "n": n}) for type_, ts, id_, n in events]
    (folder / f".{name}").write_text("".join(f"{line}\n" for line in lines))
    os.utime(folder / f".{name}", (1_000_000_000 + len(list(folder.iterdir())),) * 2)
    (folder / f".{name}").rename(folder / name)


def last_totals(rows: Counter[str]) -> Counter[str]:
    """Of running totals, the last row of each group: that of the most matches."""
    last: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: json.loads(json.loads(row)["match"]).get("ways", 0)):
        told = json.loads(row)
        match = json.loads(told["match"])
        last[f"{told['query']} {match.get('n')}" if "ways" in match else row] = row
    return Counter({row: rows[row] for row in last.values()})


def bag(matches: DataFrame) -> Counter[str]:
    return Counter(row[0] for row in matches.select(F.to_json(F.struct("*"))).collect())


# ---- in Python ----------------------------------------------------------------------------------


def test_streams_give_the_answers_of_batch(spark: SparkSession, folder: Path) -> None:
    """Nine queries in one streaming query. The last file has an event of no query's type: it, too, tells the time."""
    events = stream_of(120, 1)
    random = Random(2)
    late_by = sorted(range(len(events)), key=lambda at: 37 * at + random.randint(0, 300))
    for number in range(2):
        write(folder / "in", f"{number}.json", [events[at] for at in late_by[60 * number : 60 * (number + 1)]])
    write(folder / "in", "3.json", [("TICK", NOON + timedelta(hours=9), None, None)])
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    table = spark.createDataFrame(events, SCHEMA)
    batch, stream = list[DataFrame](), list[DataFrame]()
    for name, text in QUERIES.items():
        query = sase.compile(text, CATALOG)
        matches = query.run(source, max_delay="5 minutes", buckets=2)
        assert matches.isStreaming
        columns = [F.lit(name).alias("query"), F.to_json(F.struct("*")).alias("match")]
        stream.append(matches.select(*columns))
        batch.append(query.run(table).select(*columns))
    expected = bag(reduce(DataFrame.union, batch))
    found = {json.loads(row)["query"] for row in expected}
    assert found == QUERIES.keys(), "a query without a match tests nothing"
    running = reduce(DataFrame.union, stream).writeStream.format("memory").queryName("together").start()
    running.processAllAvailable()
    assert last_totals(bag(spark.table("together"))) == expected


def test_what_is_irrelevant_ends_directly_behind_the_watermark(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark's optimiser leaves the filter above the watermark, which sees all events, and below all else; and a row
    brings nothing of its file but the size."""
    job = sase.compile("EVENT SEQ(A x, C z) WHERE [id] WITHIN 15 minutes", CATALOG).stream_job
    spark.createDataFrame(stream_of(20, 1), SCHEMA).write.parquet(str(folder / "in"))
    events = spark.readStream.schema(SCHEMA).parquet(str(folder / "in"))
    relevant = job.relevant_events(job.watch(events, job.SOURCE, job.OURS, job.Options("5 minutes")))
    running = relevant.writeStream.format("noop").trigger(availableNow=True).start()
    running.awaitTermination()
    assert running.recentProgress[0].eventTime["max"] == "2026-01-01T12:11:43.000Z", "that of a B"
    running.explain()
    plan = capsys.readouterr().out
    steps = re.findall(r"\+- (?:\*\(\d+\) )?(\w+)", plan)
    told = steps.index("CollectMetrics")
    assert steps[told : told + 4] == ["CollectMetrics", "Filter", "EventTimeWatermark", "Project"]
    (scan,) = (line for line in plan.splitlines() if "FileScan" in line)
    assert "file_size" in scan and "file_path" not in plan and "row_index" not in plan


def test_a_local_checkpoint_is_renamed_as_local_files_are(spark: SparkSession) -> None:
    name = "spark.sql.streaming.checkpointFileManagerClass"
    spark.conf.unset(name)
    prepare(spark, 2)
    kept_at(spark, "file:/tmp/ckpt")
    assert (spark.conf.get(name, None) or "").endswith(".FileSystemBasedCheckpointFileManager")
    kept_at(spark, "hdfs://there/ckpt")
    assert spark.conf.get(name, None) is None
    spark.conf.set(name, "one.of.their.own")
    prepare(spark, 2)
    kept_at(spark, "hdfs://there/ckpt")
    assert spark.conf.get(name) == "one.of.their.own"
    spark.conf.unset(name)


def test_a_watermark_of_the_events_is_the_delay(spark: SparkSession, folder: Path) -> None:
    """The one event that is four minutes behind is not late, and the one that is an hour behind is."""
    for number, events in enumerate(([("A", 0), ("C", 9)], [("B", 5), ("B", 70)], [("B", 8), ("TICK", 999)])):
        write(folder / "in", f"{number}.json", [(kind, NOON + timedelta(minutes=at), "k", 1) for kind, at in events])
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    marked = source.withWatermark("ts", "5 minutes")
    stream = sase.compile(QUERIES["negation in the stacks"], CATALOG).follow(marked, buckets=1)
    seen: list[tuple[str, int]] = []

    def sink(packed: DataFrame, batch: int) -> None:
        packed.persist()
        seen.extend(("match", row["z"]["ts"].minute) for row in stream.matches(packed).collect())
        seen.extend((row["reason"], row["event"]["ts"].minute) for row in stream.rejected(packed).collect())
        packed.unpersist()

    stream.packed.writeStream.foreachBatch(sink).start().processAllAvailable()
    assert sorted(seen) == [("late", 8), ("match", 5)]


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        (
            "at",
            {},
            'the events have a watermark on "at", and the query goes by "ts": put the watermark on "ts", or leave it '
            "out and give max_delay",
        ),
        (
            "ts",
            {"max_delay": "1 minute"},
            "the events have a watermark of their own: leave max_delay out, or the watermark",
        ),
    ],
)
def test_a_watermark_that_does_not_fit_is_refused_before_the_start(
    spark: SparkSession, folder: Path, column: str, options: dict[str, Any], message: str
) -> None:
    write(folder / "in", "0.json", [])
    source = spark.readStream.schema(SCHEMA).json(str(folder / "in")).withColumn("at", F.col("ts"))
    query = sase.compile(QUERIES["trailing negation"], CATALOG)
    with pytest.raises(sase.SaseRunError) as error:
        query.run(source.withWatermark(column, "5 minutes"), **options)
    assert str(error.value) == message
    if column == "ts":
        with pytest.raises(sase.SaseRunError, match="some of the events have a watermark, and some have none"):
            query.run({"A": source.withWatermark("ts", "5 minutes"), None: source})
    else:
        with pytest.raises(sase.SaseRunError, match="the events have a watermark on a column that is left out"):
            query.run(source.withWatermark(column, "5 minutes").drop(column))


def test_rejected_events_are_logged_and_can_be_had(
    spark: SparkSession, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(
        folder / "in", "0.json", [("A", NOON, "k", 1), (None, NOON, "k", 1), ("B", NOON + timedelta(hours=1), "k", 1)]
    )
    write(folder / "in", "1.json", [("B", NOON + timedelta(minutes=1), "k", 2), ("TICK", NOON, "k", 1)])
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    # Of totals, what is rejected goes through two operators.
    stream = sase.compile(QUERIES["totals"], CATALOG).follow(source, max_delay="10 minutes", buckets=1)
    seen: list[tuple[str, str | None]] = []

    def sink(packed: DataFrame, batch: int) -> None:
        packed.persist()
        seen.extend((row["reason"], row["event"]["type"]) for row in stream.rejected(packed).collect())
        assert stream.matches(packed).collect() == []
        packed.unpersist()

    with caplog.at_level(logging.WARNING, "sase"):
        stream.packed.writeStream.foreachBatch(sink).start().processAllAvailable()
        for _ in range(100):
            if len(caplog.messages) == 2:
                break
            time.sleep(0.1)
    assert seen == [("without a type", None), ("late", "B")], "an event of another type is nobody's loss"
    assert "micro-batch 1: 1 events were late or could not be read, and took no part" in caplog.messages


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_delay": "soon"}, "the longest delay of an event is written as '10 minutes', not 'soon'"),
        ({"max_delay": "10"}, "the longest delay of an event is written as '10 minutes', not '10'"),
        ({"delay": 1}, "there is no option 'delay': did you mean max_delay?"),
        ({"buckets": 0}, "the number of buckets is at least 1"),
    ],
)
def test_options_that_make_no_sense(spark: SparkSession, options: dict[str, Any], message: str) -> None:
    source = spark.readStream.format("rate").load().selectExpr("'A' AS type", "timestamp AS ts", "'k' AS id", "1 AS n")
    with pytest.raises((sase.OptionError, sase.SaseRunError)) as caught:
        sase.compile(QUERIES["trailing negation"], CATALOG).run(source, **options)
    assert str(caught.value) == message


def test_options_of_a_stream_are_not_for_batch(spark: SparkSession) -> None:
    with pytest.raises(sase.OptionError, match="max_delay: these are options of a stream"):
        sase.compile(QUERIES["one event"], CATALOG).run(spark.createDataFrame([], SCHEMA), max_delay="1 hour")


def test_buckets_are_spread_evenly(spark: SparkSession) -> None:
    labels = spark.createDataFrame([(label,) for label in bucket_labels(8)], "label int")
    codes = [row[0] for row in labels.selectExpr("hash(label)").collect()]
    for partitions in (2, 4, 8):
        places = Counter(code % partitions for code in codes)
        assert places == {place: 8 // partitions for place in range(partitions)}


# ---- on the command line ------------------------------------------------------------------------


@pytest.fixture
def command(folder: Path) -> list[str]:
    (folder / "catalog.toml").write_text(
        'time = "ts"\n' + "".join(f'[types.{name}]\nts = "timestamp"\nid = "string"\nn = "int"\n' for name in "ABC")
    )
    (folder / "q.sase").write_text(QUERIES["trailing negation"])
    return [
        *("run", str(folder / "q.sase"), "--catalog", str(folder / "catalog.toml"), "--stream"),
        *("--events", str(folder / "in"), "--format", "json", "--out", str(folder / "out")),
        *("--checkpoint", str(folder / "ck"), "--max-delay", "5 minutes", "--buckets", "2"),
        *("--trigger", "available-now"),
    ]


def test_a_misspelled_type_is_told(
    spark: SparkSession, folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "q.sase").write_text("EVENT SEQ(A x, !(B y), C z) WHERE [id] WITHIN 15 minutes")
    write(folder / "in", "0.json", [("A", NOON, "k", 1), ("b", NOON, "k", 1), ("TICK", NOON, "k", 1)])
    assert main(command) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("no event")]
    assert told == [
        "no event has the type B: there are b, A, TICK",
        "no event has the type C: there are A, TICK, b",
    ]


def test_of_large_files_some_types_are_collected_and_none_is_missed(
    spark: SparkSession, folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One A is there, whose type a sample would miss. What is not A has other types, a third of it one that looks
    like B."""
    (folder / "q.sase").write_text("EVENT SEQ(A x, !(B y), C z) WHERE [id] WITHIN 15 minutes")
    named = F.when(F.col("id") == 77_777, "A").otherwise(
        F.element_at(F.array(*map(F.lit, ("b", "C", "TICK"))), F.expr("int(id % 3) + 1"))
    )
    ts = F.timestamp_seconds(F.expr("1767268800 + id"))
    rows = spark.range(200_000).select(named.alias("type"), ts.alias("ts"), F.uuid().alias("id"), F.lit(1).alias("n"))
    rows.coalesce(1).write.parquet(str(folder / "in"))
    assert sum(path.stat().st_size for path in (folder / "in").glob("*.parquet")) > 1 << 20
    assert main([*command, "--format", "parquet"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("no event")]
    assert told == ["no event has the type B: there are b, A, C, TICK"]


def test_a_type_is_told_once_and_a_rare_one_only_at_the_end() -> None:
    def batch(some: list[str], **has: bool | None) -> dict[str, Row]:
        row = {"some": some, **{f"has {name}": value for name, value in has.items()}}
        return {"sase types 1": Row(**row), "sase rejected 1": Row(rejected=0)}

    types = Types()
    assert list(types.take(0, batch(["view"], view=True, Purchase=None, alarm=False))) == []
    told = list(types.take(1, batch(["purchase", "view"], view=True, Purchase=False, alarm=False)))
    assert told == ["no event has the type Purchase: there are purchase, view"]
    assert list(types.take(2, batch(["purchase"], view=None, Purchase=False, alarm=False))) == []
    assert list(types.end()) == ["no event has the type alarm: there are purchase, view"]
    resumed = Types()
    assert list(resumed.take(7, batch(["view"], view=True, alarm=False))) == []
    assert list(resumed.end()) == [], "there may have been one before"


def test_times_of_milliseconds_are_timestamps_on_a_stream_too(spark: SparkSession, folder: Path) -> None:
    rows = [("A", 0, 1), ("B", 19_000, 1), ("A", 20_000, 2), ("B", 40_000, 2), ("B", 10**6, 3)]
    for at, (name, ms, id) in enumerate(rows):
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / f"{at}.json").write_text(json.dumps({"type": name, "ts": ms, "id": id}) + "\n")
    schema = "type string, ts bigint, id int"
    catalog = sase.Catalog(types={name: {"ts": "bigint", "id": "int"} for name in "AB"}, time_unit="ms")
    query = sase.compile("EVENT SEQ(A x, B y) WHERE [id] WITHIN 20 seconds RETURN x.id, y.ts", catalog)
    events = spark.createDataFrame(rows, schema)
    batch = query.run(events)
    assert [(row.id, row.ts.timestamp()) for row in batch.collect()] == [(1, 19)]
    streamed = query.run(spark.readStream.schema(schema).json(str(folder / "in")), buckets=1)
    running = streamed.writeStream.format("memory").queryName("milliseconds").start()
    running.processAllAvailable()
    running.stop()
    assert spark.table("milliseconds").collect() == batch.collect()


def test_run_restarts_where_it_stopped_and_refuses_what_does_not_fit(
    spark: SparkSession, folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    events = stream_of(100, 5)
    write(folder / "in", "0.json", [*events[:50], ("A", "yesterday", "k", 1)])
    assert main(command) == 0
    shown = capsys.readouterr().err.splitlines()[-1]
    watermark = events[49][1] - timedelta(minutes=5)
    assert shown.startswith("events in 51 · late or bad 1 · state ") and f"watermark {watermark}" in shown
    bad = spark.read.json(str(folder / "out-late")).collect()
    assert [(row["reason"], "yesterday" in row["record"]) for row in bad] == [("cannot be read", True)]

    write(folder / "in", "1.json", [*events[50:], events[0], ("TICK", NOON + timedelta(hours=9), None, None)])
    assert main(command) == 0
    shown = capsys.readouterr().err.splitlines()[-1]
    assert "late or bad 1 · state 0 events" in shown, "of this run"
    out = spark.read.parquet(str(folder / "out")).drop("batch")
    query = sase.compile(QUERIES["trailing negation"], CATALOG)
    assert bag(out) == bag(query.run(spark.createDataFrame(events, SCHEMA)))
    late = spark.read.json(str(folder / "out-late")).where("reason = 'late'").collect()
    assert [row["event"]["id"] for row in late] == [events[0][2]]

    assert main([*command, "--buckets", "3"]) == 1
    assert "2 buckets of keys, and not 3" in capsys.readouterr().err
    assert main([*command, "--out", str(folder / "elsewhere")]) == 1
    assert f"has --out file:{folder}/out, and not file:{folder}/elsewhere" in capsys.readouterr().err
    changed = QUERIES["trailing negation"].replace("15 minutes", "16 minutes")
    (folder / "q.sase").write_text(changed)
    assert main(command) == 1
    assert "has the state of another query, or of another version of this one" in capsys.readouterr().err
    for returned in ("x.id", "x.id, x.ts, y.n"):  # a column less in the state, and one more
        (folder / "q.sase").write_text(changed_return(returned))
        assert main(command) == 1
        assert "has the state of another query, or of another version of this one" in capsys.readouterr().err
    (folder / "q.sase").write_text(changed_return("x.ts, y.ts AS second, upper(x.id) AS who"))
    assert main(command) == 0, "what is made of a match may change, as long as it is made of the same columns"
    assert "state ≥ 0 events" in capsys.readouterr().err, "no bucket has told yet"


def changed_return(returned: str) -> str:
    return re.sub("RETURN .*", f"RETURN {returned}", QUERIES["trailing negation"])


def test_csv_and_a_table_are_sources(
    spark: SparkSession, folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A line of CSV with a time that is none is reported, and the others take part."""
    events = [("A", NOON, "k", 1), ("B", NOON + timedelta(minutes=1), "k", 2), ("T", NOON + timedelta(hours=9), "", 0)]
    (folder / "in").mkdir()
    lines = ["id,n,type,ts", *(f"{id_},{n},{type_},{ts}" for type_, ts, id_, n in events), "k,3,A,yesterday"]
    (folder / "in" / "0.csv").write_text("\n".join(lines) + "\n")
    assert main([*command, "--format", "csv"]) == 0
    assert "events in 4 · late or bad 1 · state 0 events · matches 1" in capsys.readouterr().err
    assert [row["record"] for row in spark.read.json(str(folder / "out-late")).collect()] == ["k,3,A,yesterday"]
    spark.createDataFrame(events, SCHEMA).write.format("parquet").saveAsTable("read_live")
    table = {
        str(folder / "in"): "read_live",
        str(folder / "out"): str(folder / "o2"),
        str(folder / "ck"): str(folder / "c2"),
    }
    assert main([table.get(word, word) for word in command if word not in ("--format", "json")]) == 0
    assert "events in 3 · late or bad 0 · state 0 events · matches 1" in capsys.readouterr().err
    spark.sql("DROP TABLE read_live")


def test_integer_times_other_cases_and_odd_paths(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys in capitals are the columns of the catalog, as in batch; brackets in a path are no wildcard there. An event
    of another type, with a time that nobody can have, tells no time."""
    (folder / "catalog.toml").write_text('time = "ts"\n' + "".join(f'[types.{name}]\nid = "bigint"\n' for name in "AB"))
    (folder / "q.sase").write_text("EVENT SEQ(A x, B y) WHERE [id] WITHIN 100")
    (folder / "in").mkdir()
    (folder / "in" / "0.json").write_text(
        '{"type": "A", "ts": 5, "ID": 1}\n{"type": "B", "ts": 7, "ID": 1}\n{"type": "TICK", "ts": 1000, "ID": 0}\n'
        f'{{"type": "TICK", "ts": {(1 << 63) - 1}, "ID": 0}}\n{{"type": "TICK", "ts": {-(1 << 60)}, "ID": 0}}\n'
    )
    command = [
        *("run", str(folder / "q.sase"), "--catalog", str(folder / "catalog.toml"), "--stream", "--buckets", "1"),
        *("--events", str(folder / "in"), "--out", str(folder / "o[4]"), "--checkpoint", str(folder / "ck[4]")),
        *("--max-delay", "5", "--trigger", "available-now"),
    ]
    assert main(command) == 0
    assert "matches 1 · watermark 995 ·" in capsys.readouterr().err
    assert main(command) == 0, "it finds its checkpoint"


def test_csv_files_have_one_order_of_columns(
    spark: SparkSession, folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "0.csv").write_text(f"type,ts,id,n\nA,{NOON},5,7\n")
    (folder / "in" / "1.csv").write_text(f"type,ts,n,id\nB,{NOON},5,7\n")
    assert main([*command, "--format", "csv"]) == 1
    assert "CSV header does not conform to the schema" in capsys.readouterr().err


def test_the_kafka_variant_of_a_job_is_code() -> None:
    job = sase.compile(QUERIES["trailing negation"], CATALOG, stream=True).job
    variant = job.partition("# Or from Kafka")[2].partition("if __name__")[0].splitlines()[2:]
    code = compile("\n".join(line.strip()[2:] for line in variant).replace("return ", "tables = "), "job.py", "exec")
    assert {"spark", "arguments", "F", "schema", "tables"} <= set(code.co_names)


def test_a_sink_that_fails_says_why(
    spark: SparkSession, folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "in", "0.json", [("A", NOON, "k", 1)])
    (folder / "q.sase").write_text(QUERIES["one event"].replace("x.n > 3", "x.n = 1"))
    (folder / "out").mkdir()
    (folder / "out" / "_unfinished").write_text("in the way")
    assert main(command) == 1
    message = capsys.readouterr().err.splitlines()[-1]
    assert message == f"error: Parent path is not a directory: file:{folder}/out/_unfinished"


def test_a_key_with_too_many_events_stops_the_stream(
    spark: SparkSession, folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "in", "0.json", [("A", NOON, "busy", n) for n in range(9)])
    assert main([*command, "--max-window-events-per-key", "5"]) == 1
    assert "error: 9 events of id='busy' are waiting in the window: raise --max-window" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--overwrite"], "error: --overwrite is not for streams: a stream adds to what it has written"),
        (["--slice", "1 hour"], "error: a stream is not cut into time slices: leave slice and parallel out"),
        (["--partitions", "4"], "error: a stream has buckets of keys instead of partitions: see --buckets"),
    ],
)
def test_what_is_not_for_streams(
    command: list[str], more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *more]) == 1
    assert capsys.readouterr().err.strip() == message


@pytest.mark.parametrize("place", ["out", "out-late"])
def test_an_output_belongs_to_its_checkpoint(
    spark: SparkSession, folder: Path, command: list[str], capsys: pytest.CaptureFixture[str], place: str
) -> None:
    write(folder / "in", "0.json", stream_of(3, 5))
    (folder / place / "batch=0").mkdir(parents=True)
    (folder / place / "batch=0" / "old.parquet").write_bytes(b"")
    assert main(command) == 1
    assert f"{place} has data, and " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "query", "message"),
    [
        (["--trigger", "soon"], None, "soon"),
        ([], "EVENT A x RETURN x.n AS batch", "files are written as batch=N for each micro-batch: RETURN batch under"),
    ],
)
def test_what_cannot_work_is_refused_before_it_starts(
    spark: SparkSession, folder: Path, command: list[str], capsys: pytest.CaptureFixture[str], more: list[str],
    query: str | None, message: str,
) -> None:  # fmt: skip
    write(folder / "in", "0.json", stream_of(3, 5))
    (folder / "q.sase").write_text(query or QUERIES["trailing negation"])
    assert main([*command, *more]) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "ck").exists(), "another query may still use it"


def test_equal_names_in_csv_are_refused_before_it_starts(spark: SparkSession) -> None:
    with pytest.raises(sase.SaseRunError, match="two columns would be named a_b in CSV"):
        refuse_misfits(spark.sql("SELECT named_struct('b', 1) AS a, 2 AS a_b"), "out", "csv")


def test_the_status_line_counts_after_an_idle_time() -> None:
    """Spark reports the next micro-batch while it waits for it."""
    line = StatusLine("timestamp", SimpleNamespace(rejected=0, remembered="0", matches=0))  # type: ignore[arg-type]
    common: dict[str, Any] = {"batchId": 3, "eventTime": {}, "observedMetrics": {}}
    idle = SimpleNamespace(numInputRows=0, durationMs={"triggerExecution": 1}, **common)
    work = SimpleNamespace(numInputRows=7, durationMs={"addBatch": 9, "triggerExecution": 2000}, **common)
    line.take([idle])
    line.take([idle, work])
    line.take([idle, work])
    assert line.text() == "events in 7 · late or bad 0 · state 0 events · matches 0 · watermark - · latency 2.0 s"


def test_a_stream_follows_a_directory_of_events_alone(
    spark: SparkSession, folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "in", "0.json", stream_of(3, 5))
    assert main([*command, "--out", str(folder / "in" / "out")]) == 1
    assert "in/out lies within " in capsys.readouterr().err
    assert main([*command, "--events", str(folder / "in" / "0.json")]) == 1
    assert "0.json is a file, and a stream follows a directory" in capsys.readouterr().err


# ---- restart after a crash ----------------------------------------------------------------------


def matches_in(spark: SparkSession, folder: Path, format: str) -> Counter[str]:
    delta.provide(spark)
    return bag(spark.read.format(format).load(str(folder / "out")).drop("batch"))


def forget_the_last_commit(folder: Path) -> None:
    """The worst moment for a crash: the sink has what the micro-batch found, and Spark does not know of it yet."""
    last = str(_batches(folder) - 1)
    (folder / "ck" / "commits" / last).unlink()
    (folder / "ck" / "commits" / f".{last}.crc").unlink()


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_kill_9_loses_no_match_and_doubles_none(
    spark: SparkSession, folder: Path, command: list[str], format: str
) -> None:
    """The process is killed with all its children while it works, and started again; then one more kill is played, at
    the worst of moments."""
    events = stream_of(160, 9)
    for number in range(8):
        write(folder / "in", f"{number:02}.json", events[20 * number : 20 * (number + 1)])
    write(folder / "in", "99.json", [("TICK", NOON + timedelta(hours=9), None, None)])
    random = Random(os.environ.get("SASE_KILL_SEED", "3"))
    command += ["--out-format", format]
    for _ in range(min(tries(1), 3)):
        running = subprocess.Popen(
            [sys.executable, "-m", "sase", *command, "--max-files-per-trigger", "1"],
            env=os.environ | environment(),
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )
        begun = _batches(folder)
        for _ in range(600):
            if running.poll() is not None or _batches(folder) > begun:
                break
            time.sleep(0.05)
        time.sleep(random.uniform(0, 2))
        assert running.poll() is None, "it was done before it could be killed"
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert main(command) == 0
    query = sase.compile(QUERIES["trailing negation"], CATALOG)
    expected = bag(query.run(spark.createDataFrame(events, SCHEMA)))
    assert matches_in(spark, folder, format) == expected
    forget_the_last_commit(folder)
    assert main(command) == 0
    assert matches_in(spark, folder, format) == expected, "the last micro-batch is repeated, and has matches"


def _batches(folder: Path) -> int:
    """How many micro-batches have begun."""
    return len([path for path in (folder / "ck" / "offsets").glob("*") if path.name.isdecimal()])
