"""Queries that read the results of others: in which order, by which names, and with which answers."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pyarrow as pa
import pytest
from composition_judge import Events, evaluate_all
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from together import together

import sase
from sase.cli import main
from sase.compiler.composition import composed
from sase.compiler.languages.several import read_all, separated
from sase.queries import Queries
from sase.runtime.composed import Kept
from sase.runtime.events import check
from sase.runtime.io.tally import Tally

HERE = Path(__file__).parent
TYPES = {name: {"ts": "bigint", "id": "bigint", "v": "bigint"} for name in "ABC"}
CATALOG = sase.Catalog(types=TYPES)


def compiled(text: str, catalog: sase.Catalog, **options: Any) -> Queries:
    queries = cast(object, sase.compile(text, catalog, **options))
    assert isinstance(queries, Queries)
    return queries


# ---- a text of several queries ------------------------------------------------------------------


def test_a_semicolon_separates_queries_unless_it_is_inside_of_something() -> None:
    first = "EVENT A a WHERE a.s = 'x;' AND a.`y;` = \"it''s;\" AND a.s <> ‘;’ -- no; not here\n INTO X;"
    second = " /* nor; here */ EVENT B b INTO Y ;\n-- the end; really"
    one, other = separated(first + second)
    assert (one.rstrip(), other.strip()) == (first, second.strip())
    assert len(one) == len(other) == len(first + second), "places stay what they are"
    assert separated("EVENT A a;\n") == ["EVENT A a;\n"]


def test_each_query_is_behind_those_that_it_reads() -> None:
    text = "EVENT SEQ(X x, Y y) INTO Z; EVENT X x RETURN x.id INTO Y; PATTERN a:A RETURN a.id INTO X"
    composition = composed(read_all(text, "q"), text, "q")
    assert list(composition.queries) == ["X", "Y", "Z"]
    assert composition.reads("Z") == ["X", "Y"]
    assert list(composition.types) == ["A"]


def test_languages_can_be_mixed() -> None:
    text = """
        SELECT a.id INTO Quiet FROM A a, B b PARTITION BY id EVENT NOTFOLLOWS(a, b, 5);
        PATTERN x:Quiet, y:C WHERE x.id = y.id WITHIN 9 RETURN x.id INTO Loud;
        EVENT Loud l WHERE l.id > 1 RETURN EVENT Big(l.id)
    """
    queries = compiled(text, CATALOG)
    assert list(queries) == ["Quiet", "Loud", "Big"]
    assert queries.compiled.queries["Loud"].query.variable("x").attributes["id"].kind.sql() == "BIGINT"


@pytest.mark.parametrize("stream", [False, True])
def test_job_and_plan_are_as_reviewed(stream: bool, regenerate_golden: bool) -> None:
    """The library of seed 002, as one job."""
    folder = HERE.parent / "examples" / "library"
    text, catalog = (folder / "alerts.tcq").read_text(encoding="utf-8"), sase.Catalog.load(folder / "library.toml")
    queries = compiled(text, catalog, filename="alerts.tcq", stream=stream)
    golden = HERE / "golden" / f"several{'_stream' if stream else ''}"
    for name, found in {"plan.txt": queries.explain(), "job.py": queries.job}.items():
        if regenerate_golden:
            golden.mkdir(exist_ok=True)
            (golden / name).write_text(found, encoding="utf-8")
        assert found == (golden / name).read_text(encoding="utf-8")


# ---- answers ------------------------------------------------------------------------------------

CHAIN = {
    "Hit": "EVENT SEQ(A a, !(B n), C c) WHERE [id] WITHIN 5 RETURN EVENT Hit(a.id, a.v)",
    "Lone": "EVENT SEQ(A a, !(C n)) WHERE [id] WITHIN 4 RETURN EVENT Lone(a.id)",
    "Both": "EVENT AND(Hit h, Lone l) WHERE [id] WITHIN 9 RETURN EVENT Both(h.id, h.ts AS hit, l.ts AS lone)",
    "Late": "EVENT SEQ(Both x, !(A n), ANY(B, Hit) y) WHERE x.id = n.id WITHIN 6 RETURN EVENT Late(x.id, y.ts AS y)",
}
TIED = {
    "Hit": "EVENT SEQ(A a, B b) WITHIN 4 RETURN EVENT Hit(a.id, b.v)",
    "Either": "EVENT AND(A a, C c) WHERE [id] WITHIN 3 RETURN EVENT Either(a.id)",
    "Next": "EVENT SEQ(Hit h, C c, Either y) WITHIN 3 RETURN EVENT Next(h.v, c.id)",
}
RUNS = {
    "Pair": "EVENT SEQ(A a, B{1,2} b) WHERE [id] PARTITION CONTIGUITY RETURN EVENT Pair(a.id, last(b.v) AS v)",
    "Next": "EVENT SEQ(Pair p, C+ c, Pair q) WHERE [id] WITHIN 20 SKIP TILL NEXT MATCH "
    "RETURN EVENT Next(p.id, count(c) AS n, q.v)",
}
RUN_OF_RESULTS = {
    "Hit": "EVENT SEQ(last A a, C c) WHERE [id] AND c.v >= a.v WITHIN 5 SKIP TILL NEXT MATCH "
    "AFTER MATCH SKIP PAST LAST ROW RETURN EVENT Hit(a.id, a.v)",
    "Run": "EVENT SEQ(Hit h, B+ b, Hit i) WHERE [id] WITHIN 15 SKIP TILL NEXT MATCH "
    "RETURN EVENT Run(h.id, count(b) AS n)",
}


def apart(seed: int) -> Events:
    """No two of them at one time."""
    return [{**event, "ts": at} for at, event in enumerate(events(seed, order=False, count=90))]


COUNTED = {
    "Hit": CHAIN["Hit"],
    "Above": "EVENT SEQ(Hit h, A a) WHERE a.v >= avg*(h.v) WITHIN 9 RETURN EVENT Above(a.id, avg*(h.v) AS m)",
    "Rising": "EVENT SEQ(Hit h, B b) WHERE h.v >= coalesce(avg+(h.v), 0) WITHIN 9 "
    "RETURN EVENT Rising(b.id, h.v / 1 AS m)",
}


def events(seed: int, order: bool, count: int = 45) -> Events:
    random = Random(seed)
    rows = [(random.randint(0, 40), random.randint(0, 3)) for _ in range(count)]
    return [
        {"type": random.choice("ABC"), "ts": ts, "id": random.choice([1, 1, 2, None]), "v": random.randint(0, 3)}
        | ({"n": n} if order else {})
        for ts, n in sorted(rows)
    ]


def bag(rows: Events) -> Counter[str]:
    return Counter(json.dumps({name: row[name] for name in sorted(row) if row[name] is not None}) for row in rows)


def frame(spark: SparkSession, rows: Events) -> DataFrame:
    names = [name for name in rows[0] if name != "type"]
    schema = ", ".join(["type string", *(f"{name} bigint" for name in names)])
    return spark.createDataFrame([tuple(row[name] for name in ("type", *names)) for row in rows], schema)


def test_results_are_those_of_the_judge(spark: SparkSession) -> None:
    """All of them in one Spark job."""
    expected, frames = dict[str, Counter[str]](), list[DataFrame]()
    for number, (queries, order) in enumerate([(CHAIN, None), (CHAIN, None), (TIED, "n"), (RUNS, None)]):
        rows = apart(number) if queries is RUNS else events(number, bool(order))
        catalog = sase.Catalog(types=TYPES, order=order)
        for name, found in evaluate_all(queries, catalog, rows).items():
            assert found, "a query without results shows nothing"
            expected[f"{number} {name}"] = bag(found)
        results = compiled(";\n".join(queries.values()), catalog).run(frame(spark, rows))
        frames += [
            result.select(F.lit(f"{number} {name}").alias("name"), F.to_json(F.struct("*")).alias("event"))
            for name, result in results.items()
        ]
    found = dict[str, Events]()
    for name, event in together(frames):
        found.setdefault(name, []).append(json.loads(event))
    assert {name: bag(rows) for name, rows in found.items()} == expected


def test_events_are_read_once_and_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    """As a job runs its queries, one after the other: all of them read the events, and one of them read results."""
    rows = events(0, False)
    passed = spark.sparkContext.accumulator(0)

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            passed.add(batch.num_rows)
            yield batch

    given = frame(spark, rows)
    job = compiled(
        ";".join([CHAIN["Hit"], CHAIN["Lone"], CHAIN["Late"].replace("Both x", "Lone x")]), CATALOG
    ).batch_jobs
    with Kept() as keep:
        found = job.find_all(given.mapInArrow(counted, given.schema), keep=keep)
        kept = {name: found[name].is_cached for name in found}
        assert all(result.collect() for result in found.values()), "a query without results shows nothing"
    assert kept == {"Hit": True, "Lone": True, "Late": False}
    assert passed.value == len(rows)
    assert not any(result.is_cached for result in found.values())
    given.write.parquet(str(tmp_path / "events"))
    with Kept() as keep:
        columns = keep(check(spark.read.parquet(str(tmp_path / "events")), job.SOURCE, Tally()))
        assert not columns.is_cached, "to read columns again takes less than to keep them"


def arriving(spark: SparkSession, rows: Events, folder: Path, size: int) -> DataFrame:
    """The events in micro-batches of that size, up to 3 late, and behind them time goes on."""
    random = Random(5)
    arrival = sorted(rows, key=lambda row: row["ts"] + random.randint(0, 3))
    batches = [arrival[begin : begin + size] for begin in range(0, len(arrival), size)]
    batches.append([{"type": "-", "ts": 1000, "id": 0, "v": 0}])
    for number, batch in enumerate(batches):
        file = folder / f"{number}.json"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in batch))
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))
    stream = spark.readStream.schema("type string, ts bigint, id bigint, v bigint").option("maxFilesPerTrigger", 1)
    return stream.json(str(folder))


def followed(spark: SparkSession, results: DataFrame, name: str) -> Events:
    running = results.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    assert running.awaitTermination(300)
    return [row.asDict() for row in spark.table(name).collect()]


@pytest.mark.parametrize(("queries", "rows"), [(CHAIN, events(1, order=False)), (RUN_OF_RESULTS, apart(6))])
def test_a_stream_gives_the_same_results(
    queries: dict[str, str], rows: Events, spark: SparkSession, tmp_path: Path
) -> None:
    """Its last query has all others in it: up to four operators with a state, one behind the other."""
    *_, last = queries
    expected = evaluate_all(queries, CATALOG, rows)[last]
    results = compiled(";".join(queries.values()), CATALOG).run(
        arriving(spark, rows, tmp_path, len(rows) // 3), max_delay=3, buckets=2
    )
    assert expected, "a query without results shows nothing"
    assert bag(followed(spark, results[last], "composed")) == bag(expected)


def test_what_has_arrived_and_what_is_in_results_may_be_results_of_others(spark: SparkSession, tmp_path: Path) -> None:
    """They come behind the watermark, and all those that are certain by it before anything of their time is counted."""
    rows, queries = events(1, False), compiled(";".join(COUNTED.values()), CATALOG)
    wanted = ("Above", "Rising")
    at_rest = queries.run(frame(spark, rows))
    streams = queries.run(arriving(spark, rows, tmp_path, 23), max_delay=3, buckets=1)
    expected = [row.asDict() for name in wanted for row in at_rest[name].collect()]
    assert {row["type"] for row in expected} == {*wanted}, "a query without results shows nothing"
    assert bag(followed(spark, streams["Above"].union(streams["Rising"]), "counted")) == bag(expected)


# ---- the command line ---------------------------------------------------------------------------


def test_every_result_has_a_folder(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query, readings = tmp_path / "alerts.sase", tmp_path / "readings.csv"
    query.write_text("EVENT SEQ(A a, B b) WITHIN 5 RETURN EVENT Hit(a.id); EVENT SEQ(Hit h, B b) WITHIN 9 INTO Next")
    readings.write_text("type,ts,id\nA,1,7\nB,2,7\nB,4,8\n")
    given = [str(query), "--events", str(readings)]
    assert main(["run", *given, "--out", str(tmp_path / "out"), "--out-format", "json"]) == 0
    assert "Hit: 2 matches\nNext: 1 match" in capsys.readouterr().err
    hits = spark.read.json(str(tmp_path / "out" / "Hit")).select("type", "ts", "id").collect()
    assert sorted(map(tuple, hits)) == [("Hit", 2, 7), ("Hit", 4, 7)]
    assert spark.read.json(str(tmp_path / "out" / "Next")).count() == 1
    assert main(["run", *given, "--out", "-"]) == 1
    assert "there are several: name a folder" in capsys.readouterr().err
    assert main(["explain", *given]) == 0
    assert "Next ← Hit, B" in capsys.readouterr().out
    assert main(["explain", *given, "--as", "sase"]) == 0
    again = tmp_path / "again.sase"
    again.write_text(capsys.readouterr().out)
    assert main(["run", str(again), "--events", str(readings), "--html", str(tmp_path / "page.html")]) == 0
    assert "Hit  " in (shown := capsys.readouterr()).out and "wrote" in shown.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f"<h1>{name}</h1>" in page for name in ("Hit", "Next"))
    assert main(["check", str(query)]) == 0
