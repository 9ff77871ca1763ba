"""Row patterns on streams that read a UNION ALL of matches, and of rows beside them: against the judge, and against
batch in Spark.

Without Spark, as in `test_nested_row_streams`: a bucket for each clause, and one for the rows beside the matches, all
in the same micro-batches, under the same watermark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import permutations, product
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from effort import tries
from pyspark.sql import SparkSession
from test_nested_row_streams import DAY, FALLS, FLAT, SCHEMA, arrive, as_sorted, batch, inner_clause, prices
from test_row_streams import Bucket, as_table, measured, numbered, streamed, table_of, task_of

import sase
from sase.cli import main
from sase.compiler.compile_sql import compile_statement
from sase.compiler.plan.statement import Read
from sase.runtime.errors import SaseRunError
from sase.runtime.stream.horizon import TIMELY
from sase.runtime.stream.row_bucket import Gate, GateTask
from sase.runtime.stream.worker import EPOCH, BucketWorker, cell, opened
from tests.random_rows import ONE, random_rows
from tests.row_judge import Aggregate, At, Clause, Concat, Repeat, Row, SkipError, Variable, answer, text_of
from tests.streams import Timers, Value, shuffled
from tests.test_row_patterns import ordered, with_terms

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Part:
    """A SELECT of the UNION ALL: matches of a clause, or rows of the table if there is none."""

    number: int
    clause: Clause | None

    @property
    def text(self) -> str:
        if self.clause is None:
            return f"SELECT g, t, row + {self.number}000000 AS row, x, y FROM t WHERE row % 3 <> {self.number}"
        row = "first" if self.clause.rows == ONE else "first * 100 + row"
        rows = f"({text_of(self.clause, 't', ['g'], ['t', 'row'])})"
        return f"SELECT g, u, {row} + {self.number}000000, v, n FROM {rows} WHERE u IS NOT NULL AND n <> 3"

    def read(self, rows: Rows) -> Rows:
        """What it hands on of rows of the table, or of matches."""
        if self.clause is None:
            kept = [row for row in rows if row["row"] % 3 != self.number]
            return [{**_plain(row), "row": row["row"] + self.number * 1_000_000} for row in kept]
        one = self.clause.rows == ONE
        return [
            {
                "g": row["g"],
                "t": row["u"],
                "row": (row["first"] if one else row["first"] * 100 + row["row"]) + self.number * 1_000_000,
                "x": row["v"],
                "y": row["n"],
            }
            for row in rows
            if row["u"] is not None and row["n"] != 3
        ]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("g", "t", "row", "x", "y")}


def random_parts(random: Random) -> list[Part]:
    """At least one of matches; the first one is of matches or names its columns, as it names those of the union."""
    clauses = [inner_clause(random, fixed=random.random() < 0.4) for _ in range(random.randint(1, 2))]
    parts: list[Clause | None] = [*clauses, *([None] if len(clauses) == 1 or random.random() < 0.5 else [])]
    random.shuffle(parts)
    return [Part(number, clause) for number, clause in enumerate(parts)]


def united_text(parts: Sequence[Part], outer: Clause) -> str:
    union = " UNION ALL ".join(part.text for part in parts)
    return text_of(outer, f"(SELECT * FROM ({union}) AS united (g, t, row, x, y) WHERE x IS NULL OR x < 9)", ["g"],
                   ["t", "row"])  # fmt: skip


def judged(parts: Sequence[Part], outer: Clause, groups: list[list[Row]]) -> Rows:
    found = []
    for group, rows in enumerate(groups):
        united: Rows = []
        for part in parts:
            known = rows if part.clause is None else answer(part.clause, rows)
            united += part.read([{"g": group, **row} for row in known])
        united.sort(key=lambda row: (row["t"], row["row"]))
        for row in answer(outer, united):
            shown = {"row": united[row["row"]]["row"]} if "row" in row else {}
            found.append({"g": group, **row, **shown})
    return found


def followed(parts: Sequence[Part], outer: Clause, groups: list[list[Row]], random: Random) -> tuple[Rows, Bucket]:
    statement = compile_statement(united_text(parts, outer), "q.sql", "spark", version="0", stream=True)
    module = ModuleType("job")
    exec(compile(statement.job, "job", "exec"), module.__dict__)
    *inner, last = (view.plan for view in statement.statement.views)
    follows = statement.statement.followed[-1]
    assert [source.name for source in follows.sources if isinstance(source, Read)] == [
        f"matches_{at + 1}" for at in range(len(inner))
    ]
    assert [rows.place for rows in follows.beside] == [1] * (len(parts) - len(inner))
    buckets = [Bucket(task_of(plan, module, False, f"MATCHES_{at + 1}")) for at, plan in enumerate(inner)]
    end = Bucket(replace(task_of(last, module, False, f"MATCHES_{len(inner) + 1}"), behind=follows.behind))
    tables, delay = [table_of(plan, groups) for plan in inner], random.choice([0, 1, 4, 20])
    ticks = tables[0].column("t").to_pylist()
    gate = Gate(GateTask(("t",), "t", ("g", "row"), ("g", "t", "row", "x", "y")))
    watermark = latest = before = -(1 << 52)

    def step(some: list[int], watermark: int) -> None:
        nonlocal before
        made, plans = [], iter(range(len(inner)))
        for part in parts:
            if part.clause is None:
                arrived = tables[0].take(pa.array(some, pa.int64()))
                passed = gate.advance(None, arrived, watermark)
                assert passed.late is not None
                assert not passed.late.num_rows
                made += part.read([row for each in passed.matches for row in each.to_pylist()])
                continue
            at = next(plans)
            known = len(buckets[at].rows)
            buckets[at].call(tables[at].take(pa.array(some, pa.int64())) if some else None, watermark)
            made += part.read(measured(inner[at], buckets[at].task, buckets[at].rows[known:]))
        assert all(row["t"] >= before for row in made), "nothing has been decided without it"
        made = [row for row in made if row["x"] is None or row["x"] < 9]
        marked = [{**row, "bits": row["bits"] | TIMELY} for row in with_terms(last, made)] if made else []
        before = watermark - follows.behind
        end.call(as_table(last, marked) if marked else None, before)

    for some in shuffled(ticks, delay, random):
        step(some, watermark)
        latest = max([latest, *(ticks[row] for row in some)])
        watermark = max(watermark, latest - delay)
    for beyond in (1, 10, 100):
        step([], latest + beyond)
    assert not any(bucket.late for bucket in (*buckets, end))
    return measured(last, end.task, end.rows), end


def agree(seed: int) -> bool:
    """Whether the rows of a table were beside the matches."""
    random = Random(seed)
    wanted: Any = None
    while not wanted:
        parts, outer = random_parts(random), streamed(random, bounded=False)
        groups = numbered([random_rows(random, most=14) for _ in range(random.randint(1, 2))])
        try:
            wanted = ordered(judged(parts, outer, groups))
        except SkipError:
            wanted = "error"
    where = f"seed {seed}\n{united_text(parts, outer)}\n{groups}"
    try:
        rows, end = followed(parts, outer, groups, random)
        found: Any = ordered(rows)
    except SaseRunError:
        found = "error"
    assert found == wanted, where
    if found != "error":
        assert end.remembered <= end.task.context * len(groups), where
    return any(part.clause is None for part in parts)


def test_a_clause_on_a_union_gives_what_the_judge_says() -> None:
    beside = sum(agree(seed) for seed in range(100_000, 100_000 + tries(80)))
    assert beside > tries(80) // 3


def test_the_clause_waits_for_the_slowest_matches() -> None:
    """Whichever SELECT they stand in. Matches of one clause come with their last rows, those of the other one when
    their windows have ended: nine ticks after the time by which they go."""
    rest = {"first": At("row", first=True, final=True), "v": At("x"), "n": Aggregate("count", None)}
    one, more = Variable("A"), Repeat(Variable("B"), 0, None)
    slow = Clause(Concat((one, more)), measures={"u": At("t", first=True), **rest}, within=("t", 9))
    quick = Clause(Concat((one, Variable("B"))), measures={"u": At("t", final=True), **rest})
    outer = Clause(Concat((one, Variable("B"))), measures={"rows": Aggregate("min", "row")}, within=("t", 99))
    groups = numbered([[{"t": t, "x": 0, "y": 0} for t in range(20)]])
    for seed, order in product(range(5), permutations([slow, quick, None])):
        parts = [Part(number, clause) for number, clause in enumerate(order)]
        rows, _ = followed(parts, outer, groups, Random(seed))
        assert ordered(rows) == ordered(judged(parts, outer, groups))
        assert len(rows) > 5


def test_rows_beside_matches_go_on_unless_they_came_too_late() -> None:
    rows = pa.table({"k": [1, 2, 3], "t": [1, 4, 10]})
    frame = pd.DataFrame({"bucket": [0], "kind": ["events"], "size": [rows.num_rows], "rows": [cell(rows)]})

    def told(late: tuple[str, ...], kept: tuple[str, ...]) -> dict[str, Rows]:
        worker, state, timer = BucketWorker(GateTask(("t",), "t", late, kept), "rows", "integer"), Value(), Value()
        out = pd.concat(worker.step(Timers(), state, timer, 0, [frame], EPOCH + 4, False))
        assert not state.exists()
        found: dict[str, Rows] = {}
        for kind, each in zip(out["kind"], out["rows"], strict=True):
            if each is not None:
                found[kind] = [row.get("event", row) for row in opened(each).to_pylist()]
        return found

    assert told((), ("t", "k")) == {"match": [{"t": 4, "k": 2}, {"t": 10, "k": 3}]}
    assert told(("k",), ()) == {"rejected": [{"k": 1}]}


class Made:
    """A stream in the place of one in Spark: what it is of, and the streams that it reads."""

    def __init__(self, of: str, reads: dict[str, Made]) -> None:
        self.of, self.reads, self.taken = of, reads, 0

    def matches(self) -> Made:
        self.taken += 1
        return self

    def all(self) -> Iterator[Made]:
        yield self
        for each in self.reads.values():
            yield from each.all()


def test_each_reader_has_a_stream_of_its_own() -> None:
    """Clauses on unions of clauses on unions: each stream is read under its name, once, and made before its reader."""
    clause = "MATCH_RECOGNIZE (PARTITION BY g ORDER BY t MEASURES LAST(t) AS t PATTERN (A B))"
    text = f"""
        WITH a AS (SELECT g, t FROM one {clause}), b AS (SELECT g, t FROM one UNION ALL SELECT * FROM a),
          c AS (SELECT * FROM b {clause}), d AS (SELECT * FROM c UNION ALL SELECT * FROM a UNION ALL SELECT * FROM c)
        SELECT g FROM d {clause} UNION ALL SELECT g FROM (SELECT * FROM b UNION ALL SELECT * FROM d) {clause}
        UNION ALL SELECT g FROM c"""
    found = compile_statement(text, "q.sql", "spark", version="0", stream=True)
    module = ModuleType("job")
    exec(compile(found.job, "job", "exec"), module.__dict__)
    names = vars(module)
    for view in found.statement.views:
        names[f"find_{view.name}"] = lambda rows, options, name=view.name: Made(name, rows)
    names["in_time"] = lambda rows, options, place: Made("rows", rows)
    names["one_time"] = lambda rows, time, *streams: rows if {*streams} == {*rows.values()} else None
    names["together"] = lambda finish, late, **final: (final, late)

    class Session:
        def sql(self, text: str, **reads: Made) -> dict[str, Made]:
            assert set(re.findall("{(.*?)}", text)) == reads.keys()
            return reads

    final, late = module.follow(Session(), None)
    made = [each for stream in final.values() for each in stream.all()]
    assert len({id(each) for each in made}) == len(made) > 20
    assert all(stream.taken == (stream not in final.values()) for stream in made)
    follows = dict(zip((view.name for view in found.statement.views), found.statement.followed, strict=True))
    for stream in made:
        sources = follows[stream.of].sources if stream.of != "rows" else ()
        assert list(stream.reads) == [source.name for source in sources]
        wanted = [source.view.name if isinstance(source, Read) else "rows" for source in sources]
        assert [each.of for each in stream.reads.values()] == wanted
    assert {each.of for each in late} == {"rows", "matches_1"}


# ---- in Spark -----------------------------------------------------------------------------------

UNITED = f"""
SELECT symbol, what, since, until, n FROM (
  SELECT symbol, since, until AS at, 'falls' AS kind FROM ({FALLS}) WHERE n > 1
  UNION ALL SELECT x.symbol, x.since, until, 'flat' FROM ({FLAT}) x LEFT JOIN names ON names.symbol = x.symbol
  UNION ALL SELECT symbol, at, at, NULL FROM ticker WHERE price IN (1, 4)
) MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY at, since, kind
  MEASURES FIRST(kind) AS what, FIRST(since) AS since, LAST(at) AS until, count(*) - count(kind) AS n
  PATTERN (A B+) WITHIN INTERVAL '9' DAYS DEFINE B AS kind IS NULL OR kind <> PREV(kind))"""

ENDS = f"""
WITH falls AS ({FALLS}), ends AS (
  SELECT symbol, since AS at, 1 AS n FROM falls
  UNION ALL SELECT falls.symbol, falls.until, -1 FROM falls JOIN names ON names.symbol = falls.symbol
  UNION ALL (SELECT * FROM (SELECT symbol, at, price FROM ticker) WHERE price > 3)
)
SELECT symbol, 'two' AS what, since, until FROM ends MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY at, n MEASURES FIRST(at) AS since, LAST(at) AS until
  PATTERN (A A | A B C) WITHIN INTERVAL '9' DAYS DEFINE A AS n = 1, B AS n = -1, C AS n > 3)
UNION ALL SELECT symbol, 'all', since, until FROM (SELECT * FROM ends) MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY at, n MEASURES FIRST(at) AS since, LAST(at) AS until
  PATTERN (A{3}) WITHIN INTERVAL '9' DAYS)"""


def test_a_clause_on_a_union_gives_the_rows_of_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Files come in two runs on one checkpoint; the row that is late takes part in nothing, although the clause on the
    matches is still to decide about its time."""
    rows = prices(11)
    wanted = batch(spark, UNITED, rows)
    assert {row[1] for row in wanted if row[4]} >= {"falls", "flat"}
    text, incoming, names = tmp_path / "united.sql", tmp_path / "incoming", tmp_path / "names.csv"
    text.write_text(UNITED, encoding="utf-8")
    names.write_text("symbol,name\na,Acme\n", encoding="utf-8")
    places = {name: str(tmp_path / name) for name in ("matches", "checkpoint")}
    options = ["--table", f"ticker={incoming}", "--table", f"names={names}", "--out", places["matches"]]
    options += ["--checkpoint", places["checkpoint"], "--max-delay", "1 day", "--trigger", "available-now"]
    for number, part in enumerate([rows[:24], [("a", DAY + timedelta(days=8), 4), *rows[24:]]]):
        arrive(incoming, number, part)
        assert main(["run", str(text), "--stream", "--buckets", "2", *options]) == 0
    assert as_sorted(spark.read.parquet(places["matches"]).drop("batch")) == wanted
    at = "2026-03-09T00:00:00.000Z"
    late = [json.loads(line) for line in spark.read.text(f"{places['matches']}-late").toPandas()["value"]]
    # Two clauses read the table, and tell of it once; the rows beside their matches are read otherwise.
    told = [{"symbol": "a", "at": at, "price": 4}, {"symbol": "a", "at": at, "at_2": at}]
    assert sorted((row["event"] for row in late), key=repr) == sorted(told, key=repr)


def test_a_clause_reads_the_same_matches_twice(spark: SparkSession, tmp_path: Path) -> None:
    """As their beginnings and their ends; under a watermark that the rows bring along."""
    rows = prices(5)
    for number, part in enumerate([rows[:24], rows[24:], [("z", DAY + timedelta(days=100), 1)]]):
        arrive(tmp_path, number, part)
    wanted = batch(spark, ENDS, rows)
    assert {row[1] for row in wanted} == {"two", "all"}
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path))
    tables = {
        "ticker": stream.withWatermark("at", "1 day"),
        "names": spark.createDataFrame([("a", "Acme")], "symbol string, name string"),
    }
    query = sase.sql(ENDS, tables=tables, buckets=2).writeStream.format("memory").queryName("ends").start()
    query.processAllAvailable()
    query.stop()
    assert as_sorted(spark.table("ends")) == wanted


def test_streams_of_a_union_go_by_one_time(spark: SparkSession) -> None:
    """A date would become the moment at which it begins in the zone of the session: not the one that it counts as."""
    ticks = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "at")
    matches = "SELECT at FROM t MATCH_RECOGNIZE (ORDER BY at MEASURES LAST(at) AS at PATTERN (A B))"

    def united(other: str) -> str:
        return f"SELECT * FROM ({matches} UNION ALL {other}) MATCH_RECOGNIZE (ORDER BY at PATTERN (A B))"

    assert sase.sql(united("SELECT at FROM t"), tables={"t": ticks}).isStreaming
    twice = united("SELECT at, at FROM t").replace("SELECT at FROM t M", "SELECT NULL, at FROM t M")
    assert sase.sql(twice, tables={"t": ticks.withWatermark("at", "1 minute")}).isStreaming
    with pytest.raises(SaseRunError, match=r"goes by at, which is timestamp, and rows that it reads go by date: cast"):
        sase.sql(united("SELECT to_date(at) FROM t"), tables={"t": ticks})
    rest = spark.createDataFrame([(DAY,)], "at timestamp")
    with pytest.raises(SaseRunError, match="some of the clauses read streams, and others tables at rest"):
        sase.sql(united("SELECT at FROM u"), tables={"t": ticks, "u": rest})
    with pytest.raises(SaseRunError, match="column _sase_x has a name that is ours"):
        sase.sql(united("SELECT at AS _sase_x FROM t"), tables={"t": ticks})
