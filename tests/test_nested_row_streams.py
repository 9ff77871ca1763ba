"""Row patterns on the matches of others, and beside them, on streams: against the judge, and against batch in Spark.

Without Spark, as in `test_row_streams`: two buckets, one behind the other, in the same micro-batches, under the same
watermark; the judge answers the inner clause, and the outer one on what that gave. At the end, streams in Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import sqlglot
from effort import tries
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from test_row_streams import Bucket, as_table, longest, measured, numbered, pattern_rows, streamed, table_of, task_of

import sase
from sase.cli import main
from sase.compiler.compile_sql import compile_statement
from sase.compiler.plan.row_columns import Output, Reader
from sase.runtime.errors import SaseRunError
from sase.runtime.stream.horizon import TIMELY
from sase.runtime.stream.row_bucket import GateTask, RowStreamTask
from sase.runtime.stream.worker import EPOCH, BucketWorker, cell, opened
from tests.random_rows import ONE, random_rows
from tests.row_judge import (
    Aggregate,
    At,
    Clause,
    Concat,
    Either,
    Exclude,
    Expression,
    Pattern,
    Permute,
    Repeat,
    Row,
    SkipError,
    Variable,
    answer,
    text_of,
)
from tests.streams import Timers, Value, shuffled
from tests.test_row_patterns import ordered, with_terms


def shortest(pattern: Pattern) -> int:
    match pattern:
        case Variable():
            return 1
        case Repeat(part, low, _):
            return shortest(part) * low
        case Exclude(part):
            return shortest(part)
        case Concat(parts) | Permute(parts):
            return sum(map(shortest, parts))
        case Either(parts):
            return min(map(shortest, parts))
    return 0


def inner_clause(random: Random, fixed: bool) -> Clause:
    """One that another may read: `u` is the time of one of its rows, and `first` and `row` tell its rows apart."""
    while True:
        clause = streamed(random, bounded=fixed)
        lengths = shortest(clause.pattern), longest(clause.pattern)
        if fixed and (lengths not in ((2, 2), (3, 3), (4, 4)) or "NEXT" in text_of(clause, "t", [], [])):
            continue
        if fixed and random.random() < 0.5:
            clause = replace(clause, within=("t", random.randint(1, 9)))
        variable = random.choice([None, *sorted(set(str(clause.pattern)) & set("ABC"))])
        times: list[Expression] = [At("t", final=True), Aggregate("max", "t", None, True)]
        if clause.within:
            some = At("t", variable, random.random() < 0.5, random.choice([0, 0, 1]))
            times += [some, Aggregate("min", "t", variable)]
        return replace(
            clause,
            rows=ONE if fixed else clause.rows,
            measures={
                "u": random.choice(times),
                "first": At("row", first=True, final=True),
                "v": At("x"),
                "n": Aggregate("count", None),
            },
        )


def nested_text(inner: Clause, outer: Clause) -> str:
    row = "first" if inner.rows == ONE else "first * 100 + row"
    rows = text_of(inner, "t", ["g"], ["t", "row"])
    reads = f"(SELECT g, u AS t, {row} AS row, v AS x, n AS y FROM ({rows}) WHERE u IS NOT NULL AND n <> 3)"
    return text_of(outer, reads, ["g"], ["t", "row"])


def between(inner: Clause, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What stands between the two clauses of `nested_text`."""
    return [
        {
            "g": row["g"],
            "t": row["u"],
            "row": row["first"] if inner.rows == ONE else row["first"] * 100 + row["row"],
            "x": row["v"],
            "y": row["n"],
        }
        for row in rows
        if row["u"] is not None and row["n"] != 3
    ]


def judged(inner: Clause, outer: Clause, groups: list[list[Row]]) -> list[dict[str, Any]]:
    found = []
    for group, rows in enumerate(groups):
        matches = between(inner, [{"g": group, **row} for row in answer(inner, rows)])
        matches.sort(key=lambda row: (row["t"], row["row"]))
        for row in answer(outer, matches):
            shown = {"row": matches[row["row"]]["row"]} if "row" in row else {}
            found.append({"g": group, **row, **shown})
    return found


def followed(
    inner: Clause, outer: Clause, groups: list[list[Row]], random: Random
) -> tuple[list[dict[str, Any]], Bucket, Bucket]:
    statement = compile_statement(nested_text(inner, outer), "q.sql", "spark", version="0", stream=True)
    module = ModuleType("job")
    exec(compile(statement.job, "job", "exec"), module.__dict__)
    one, other = (view.plan for view in statement.statement.views)
    behind = statement.statement.followed[1].behind
    buckets = Bucket(task_of(one, module, False, "MATCHES_1")), Bucket(task_of(other, module, False, "MATCHES_2"))
    buckets[1].task = replace(buckets[1].task, behind=behind)
    table, delay = table_of(one, groups), random.choice([0, 1, 4, 20])
    ticks = table.column("t").to_pylist()
    watermark = latest = before = -(1 << 52)

    def step(arrived: pa.Table | None, watermark: int) -> None:
        nonlocal before
        known = len(buckets[0].rows)
        buckets[0].call(arrived, watermark)
        made = between(inner, measured(one, buckets[0].task, buckets[0].rows[known:]))
        assert all(row["t"] >= before for row in made), "nothing has been decided without it"
        marked = [{**row, "bits": row["bits"] | TIMELY} for row in with_terms(other, made)] if made else []
        rows = as_table(other, marked) if made else None
        before = watermark - behind
        buckets[1].call(rows, before)

    for batch in shuffled(ticks, delay, random):
        step(table.take(pa.array(batch, pa.int64())) if batch else None, watermark)
        latest = max([latest, *(ticks[row] for row in batch)])
        watermark = max(watermark, latest - delay)
    for beyond in (1, 10, 100):
        step(None, latest + beyond)
    assert not buckets[0].late
    assert not buckets[1].late
    return measured(other, buckets[1].task, buckets[1].rows), *buckets


def agree(seed: int, fixed: bool) -> None:
    random = Random(seed)
    wanted: Any = None
    while not wanted:  # most clauses find nothing in what others have found
        inner, outer = inner_clause(random, fixed), streamed(random, bounded=False)
        groups = numbered([random_rows(random, most=14) for _ in range(random.randint(1, 2))])
        try:
            wanted = ordered(judged(inner, outer, groups))
        except SkipError:
            wanted = "error"
    where = f"seed {seed}\n{nested_text(inner, outer)}\n{groups}"
    try:
        rows, *buckets = followed(inner, outer, groups, random)
        found: Any = ordered(rows)
    except SaseRunError:
        found = "error"
    assert found == wanted, where
    if found != "error":
        for bucket, most in zip(buckets, (longest(inner.pattern) if fixed else 0, 0), strict=True):
            assert bucket.remembered <= (bucket.task.context + most) * len(groups), where


def test_a_clause_on_matches_with_a_window_gives_what_the_judge_says() -> None:
    for seed in range(80_000, 80_000 + tries(60)):
        agree(seed, fixed=False)


def test_a_clause_on_matches_of_one_length_gives_what_the_judge_says() -> None:
    for seed in range(90_000, 90_000 + tries(40)):
        agree(seed, fixed=True)


def test_all_clauses_that_read_the_same_rows_tell_once_of_late_ones() -> None:
    """With the columns that any of them remembers. What only other clauses read has somebody to tell."""
    text = f"SELECT * FROM ({FALLS} WHERE n > 1) MATCH_RECOGNIZE (ORDER BY until PATTERN (A B)) UNION ALL {FLAT}"
    statement = compile_statement(text, "q.sql", "spark", version="0", stream=True).statement
    assert [each.late for each in statement.followed] == [(), None, ("symbol", "at", "price")]
    assert not statement.tellers
    other = compile_statement(text.replace(FLAT, FLAT.replace("ticker", "quotes")), "q.sql", "spark", version="0",
                              stream=True).statement  # fmt: skip
    assert [each.late for each in other.followed] == [None, None, None]
    assert [view.name for view in other.tellers] == ["matches_1"]
    assert other.streams == ("ticker", "quotes")
    idle = f"WITH idle AS ({FALLS.replace('ticker', 'quotes')}), more AS (SELECT * FROM idle {TWO_OF}) {FLAT}"
    assert not compile_statement(idle, "q.sql", "spark", version="0", stream=True).statement.tellers


def test_late_rows_are_told_by_those_who_are_asked() -> None:
    """A clause beside which another one tells of the same rows is silent, and one may do nothing but tell."""
    bucket, rows = pattern_rows("PATTERN (A B*) WITHIN 10", 1, 4, 10)
    frame = pd.DataFrame({"bucket": [0], "kind": ["events"], "size": [rows.num_rows], "rows": [cell(rows)]})

    def told(task: RowStreamTask | GateTask) -> tuple[list[dict[str, Any]], int]:
        worker, state, timer = BucketWorker(task, "state", "integer"), Value(), Value()
        out = pd.concat(worker.step(Timers(), state, timer, 0, [frame], EPOCH + 4, False))
        late = [row for each in out["rows"][out["kind"] == "rejected"] for row in opened(each).to_pylist()]
        return [row["event"] for row in late], int(out["size"][out["kind"] == "state"].sum())

    assert told(bucket.task) == ([{"t": 1}], 2)
    assert told(replace(bucket.task, late=())) == ([], 2)
    assert told(GateTask(("g",), "t", ("g", "t"))) == ([{"g": 1, "t": 1}], 0)


@pytest.mark.parametrize(
    ("selected", "found"),
    [
        ("SELECT * FROM m", "at"),
        ("SELECT k, until AS at, at AS until FROM m", "until"),
        ("SELECT x.* FROM m AS x JOIN names ON names.k = x.k", "at"),
        ("SELECT x.at, names.k FROM m AS x JOIN names ON names.k = x.k", "at"),
        ("SELECT at FROM (SELECT m.AT FROM m WHERE k > 1)", "at"),
        ("WITH c AS (SELECT until AS at FROM m) SELECT * FROM c", "until"),
        ("WITH c (n, at) AS (SELECT k, until FROM m) SELECT x.* FROM c AS x", "until"),
        ("SELECT * FROM m AS x (at, k)", "k"),
        ("SELECT *, upper(k) AS name, until AS other FROM m", "at"),
        ("SELECT at + 1 AS at FROM m", None),
        ("SELECT k FROM m", None),
        ("SELECT until + 1 AS t, t AS at FROM m", None),
        ("SELECT k.at FROM m", None),
        ("SELECT * FROM m JOIN names ON names.k = m.k", "at"),
        ("SELECT at FROM m JOIN names ON names.k = m.k", "at"),
        ("SELECT x.* FROM m AS x JOIN names USING (k)", "at"),
        ("SELECT * FROM m JOIN names USING (k)", None),
        ("SELECT * FROM m NATURAL JOIN names", None),
        ("SELECT names.*, at AS other FROM m JOIN names ON names.k = m.k", None),
        ("SELECT names.at FROM m JOIN names ON names.k = m.k", None),
        ("SELECT *, until AS at FROM m", None),
        ("SELECT * EXCEPT (at) FROM m", None),
        ("SELECT * FROM m PIVOT (max(k) FOR until IN (1, 2))", None),
        ("WITH m AS (SELECT * FROM m) SELECT * FROM m", "at"),
    ],
)
def test_where_a_column_comes_from(selected: str, found: str | None) -> None:
    reader = Reader({"m": Output(["k", "at", "until"], all=True)})
    origins = reader.origins(sqlglot.parse_one(selected, read="databricks"), "AT")
    assert (origins or (None,)) == (found,)


@pytest.mark.parametrize(
    ("selected", "found"),
    [
        ("SELECT k, at FROM m UNION ALL SELECT x, until FROM n", ("at", "until")),
        ("SELECT * FROM m UNION ALL SELECT * FROM n", ("at", "until")),
        ("SELECT k, at FROM m UNION ALL SELECT at, k FROM m", ("at", "k")),
        (
            "SELECT * FROM (SELECT at FROM m UNION ALL SELECT until FROM n UNION ALL SELECT k FROM m)",
            ("at", "until", "k"),
        ),
        ("WITH n AS (SELECT k AS at FROM m UNION ALL SELECT x FROM n) SELECT * FROM n", ("k", "x")),
        ("SELECT k, at FROM m UNION ALL SELECT x, until + 1 FROM n", ("at", None)),
        ("SELECT k, at FROM m UNION ALL SELECT x, y.until FROM n AS y CROSS JOIN names", ("at", "until")),
        ("SELECT k, at FROM m UNION ALL SELECT y.*, 1 FROM n AS y", ("at", "until")),
        ("SELECT k, at, until FROM m UNION ALL SELECT names.*, until FROM n CROSS JOIN names", None),
        ("SELECT at FROM m UNION ALL BY NAME SELECT until AS at FROM n", None),
    ],
)
def test_a_union_goes_by_the_places_of_columns(selected: str, found: tuple[str | None, ...] | None) -> None:
    """Of `n`, all rows are shown: there may be other columns behind those that are known."""
    reader = Reader({"m": Output(["k", "at", "until"], all=True), "n": Output(["x", "until"], all=False)})
    assert reader.origins(sqlglot.parse_one(selected, read="duckdb"), "at") == found


# ---- in Spark -----------------------------------------------------------------------------------

FALLS = """SELECT * FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY at, price
  MEASURES FIRST(at) AS since, LAST(at) AS until, count(*) AS n
  PATTERN (A DOWN+) WITHIN INTERVAL '4' DAYS DEFINE DOWN AS price < PREV(price))"""
FLAT = """SELECT symbol, since, until FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY at, price MEASURES FIRST(at) AS since, LAST(at) AS until
  PATTERN (A SAME) DEFINE SAME AS price = PREV(price))"""
TWO_OF = """MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY until MEASURES FIRST(since) AS since, LAST(until) AS until
  PATTERN (A B+) WITHIN INTERVAL '9' DAYS)"""

CHEAP = FLAT.replace("ticker", "(SELECT * FROM ticker WHERE price < 5)")
BESIDE = f"""
SELECT m.symbol, name, 'flat' AS what, since, until FROM ({CHEAP}) m LEFT JOIN names ON names.symbol = m.symbol
UNION ALL
SELECT symbol, NULL, 'falls', since, until FROM (SELECT * FROM ({FALLS}) WHERE n > 1) {TWO_OF}"""

TWICE = f"""
WITH falls AS ({FALLS})
SELECT symbol, since, until FROM falls WHERE n > 2
UNION ALL SELECT symbol, since, until FROM falls {TWO_OF}
UNION ALL SELECT symbol, since, until FROM (SELECT * FROM ({FLAT})) {TWO_OF}"""

DAY = datetime(2026, 3, 1)
SCHEMA = "symbol string, at timestamp, price int"
Rows = Sequence[tuple[str, datetime, int]]


def prices(seed: int) -> list[tuple[str, datetime, int]]:
    """Out of order by a day; a row far behind all others ends the windows."""
    random = Random(seed)
    rows = [(name, DAY + timedelta(days=at), random.randint(1, 4)) for name in ("a", "b") for at in range(24)]
    rows.sort(key=lambda row: row[1] + timedelta(hours=random.randint(0, 24)))
    return [*rows, ("z", DAY + timedelta(days=99), 1)]


def arrive(place: Path, number: int, rows: Rows) -> None:
    frame = pa.table(dict(zip(("symbol", "at", "price"), map(list, zip(*rows, strict=True)), strict=True)))
    frame = frame.set_column(1, "at", frame.column("at").cast(pa.timestamp("us", "UTC")))
    in_turn(place, number, frame.set_column(2, "price", frame.column("price").cast(pa.int32())))


def in_turn(place: Path, number: int, rows: pa.Table) -> None:
    """Spark reads files in the order of their times of change, and those of one tick of the clock in any order."""
    place.mkdir(exist_ok=True)
    parquet.write_table(rows, place / f"{number}.parquet")
    os.utime(place / f"{number}.parquet", (1_000_000_000 + number,) * 2)


def batch(spark: SparkSession, text: str, rows: Rows) -> list[tuple[Any, ...]]:
    names = spark.createDataFrame([("a", "Acme")], "symbol string, name string")
    tables = {"ticker": spark.createDataFrame(list(rows), SCHEMA), "names": names}
    return as_sorted(sase.sql(text, tables=tables))


def as_sorted(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows.collect()), key=repr)


def test_clauses_beside_each_other_and_nested_give_the_rows_of_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Files come in two runs on one checkpoint; one row is late, and only the inner clause reads it."""
    rows = prices(3)
    text, incoming = tmp_path / "beside.sql", tmp_path / "incoming"
    text.write_text(BESIDE, encoding="utf-8")
    incoming.mkdir()
    names = tmp_path / "names.csv"
    names.write_text("symbol,name\na,Acme\n", encoding="utf-8")
    places = {name: str(tmp_path / name) for name in ("matches", "checkpoint")}
    options = ["--table", f"ticker={incoming}", "--table", f"names={names}", "--out", places["matches"]]
    options += ["--checkpoint", places["checkpoint"], "--max-delay", "1 day", "--trigger", "available-now"]
    for number, part in enumerate([rows[:24], [("a", DAY, 5), *rows[24:]]]):
        arrive(incoming, number, part)
        assert main(["run", str(text), "--stream", "--buckets", "2", *options]) == 0
    wanted = batch(spark, BESIDE, rows)
    assert {row[2] for row in wanted} == {"flat", "falls"}
    assert {row[1] for row in wanted} == {None, "Acme"}
    assert as_sorted(spark.read.parquet(places["matches"]).drop("batch")) == wanted
    late = [json.loads(line) for line in spark.read.text(f"{places['matches']}-late").toPandas()["value"]]
    assert [(row["reason"], row["event"]["symbol"], row["event"]["price"]) for row in late] == [("late", "a", 5)]


def test_a_clause_that_others_read_is_made_for_each(spark: SparkSession, tmp_path: Path) -> None:
    """Also under a watermark that the rows bring along: Spark must not take two parts of the plan for one."""
    rows = prices(5)
    for number, part in enumerate([rows[:24], rows[24:], [("z", DAY + timedelta(days=100), 1)]]):
        arrive(tmp_path, number, part)
    wanted = batch(spark, TWICE, rows)
    assert len(wanted) > 5
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path))
    found = sase.sql(TWICE, tables={"ticker": stream.withWatermark("at", "1 day")}, buckets=2)
    query = found.writeStream.format("memory").queryName("falls").start()
    query.processAllAvailable()
    query.stop()
    assert as_sorted(spark.table("falls")) == wanted


def test_two_streams_in_one_statement(spark: SparkSession, tmp_path: Path) -> None:
    """One clause reads both tables, and one the second: its rows wait for those of the first."""
    clause = "PARTITION BY g ORDER BY t, x MEASURES FIRST(t) AS since, count(*) AS n PATTERN (A B*) WITHIN 5"
    both = "SELECT g, t, x FROM one UNION ALL SELECT g, t, x FROM other"
    define = "DEFINE A AS x > 1, B AS x > 0"
    text = f"SELECT g, since, n FROM ({both}) MATCH_RECOGNIZE ({clause} {define}) "
    text += f"UNION ALL SELECT g, since, -n FROM other MATCH_RECOGNIZE ({clause} {define})"
    random, schema = Random(9), "g int, t bigint, x int, more string"
    rows = {
        name: [(random.randint(0, 1), t, random.randint(0, 2), name) for t in range(30)] for name in ("one", "other")
    }
    streams = {}
    for name, part in rows.items():
        for number, some in enumerate([part[:10], part[10:], [(9, 100, 0, name)], [(9, 101, 0, name)]]):
            columns = dict(zip(("g", "t", "x", "more"), map(list, zip(*some, strict=True)), strict=True))
            kinds = pa.schema([("g", pa.int32()), ("t", pa.int64()), ("x", pa.int32()), ("more", pa.string())])
            in_turn(tmp_path / name, number, pa.table(columns, kinds))
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        streams[name] = reader.parquet(str(tmp_path / name))
    tables = {name: spark.createDataFrame(each, schema) for name, each in rows.items()}
    wanted = as_sorted(sase.sql(text, tables=tables))
    assert {row[2] > 0 for row in wanted} == {True, False}
    query = sase.sql(text, tables=streams, buckets=2).writeStream.format("memory").queryName("two").start()
    query.processAllAvailable()
    query.stop()
    assert as_sorted(spark.table("two")) == wanted
    with pytest.raises(SaseRunError, match="some of the clauses read streams, and others tables at rest"):
        sase.sql(text, tables={**streams, "other": tables["other"]})


def test_clauses_of_one_stream_go_by_times_of_one_kind(spark: SparkSession) -> None:
    ticks = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "at")
    clauses = (f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY {time} PATTERN (A B))" for time in ("at", "value"))
    with pytest.raises(SaseRunError, match="one clause goes by timestamps and another by whole numbers"):
        sase.sql(" UNION ALL ".join(clauses), tables={"t": ticks})
