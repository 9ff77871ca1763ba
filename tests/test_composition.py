"""Queries that read the results of others: in which order, by which names, and with which answers."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, cast

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

HERE = Path(__file__).parent
TYPES = {name: {"ts": "bigint", "id": "bigint", "v": "bigint"} for name in "ABC"}


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
    queries = compiled(text, sase.Catalog(types=TYPES))
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
    for number, (queries, order) in enumerate([(CHAIN, None), (CHAIN, None), (TIED, "n")]):
        rows, catalog = events(number, bool(order)), sase.Catalog(types=TYPES, order=order)
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


def test_a_stream_gives_the_same_results(spark: SparkSession, tmp_path: Path) -> None:
    """Its last query has all others in it: four operators with a state, one behind the other, in micro-batches."""
    rows = events(1, False)
    expected = evaluate_all(CHAIN, sase.Catalog(types=TYPES), rows)
    random = Random(5)
    arrival = sorted(rows, key=lambda row: row["ts"] + random.randint(0, 3))
    batches = [arrival[begin : begin + 23] for begin in range(0, len(arrival), 23)]
    batches.append([{"type": "-", "ts": 1000, "id": 0, "v": 0}])  # and time goes on
    for number, batch in enumerate(batches):
        file = tmp_path / f"{number}.json"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in batch))
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))
    stream = spark.readStream.schema("type string, ts bigint, id bigint, v bigint").option("maxFilesPerTrigger", 1)
    queries = compiled(";".join(CHAIN.values()), sase.Catalog(types=TYPES))
    results = queries.run(stream.json(str(tmp_path)), max_delay=3, buckets=2)
    running = results["Late"].writeStream.format("memory").queryName("composed").trigger(availableNow=True).start()
    assert running.awaitTermination(300)
    found = [row.asDict() for row in spark.table("composed").collect()]
    assert bag(found) == bag(expected["Late"])


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
    assert main(["check", str(query)]) == 0
