"""Row patterns on streams: random clauses on rows that are cut into micro-batches, against the judge.

Without Spark, as in `test_row_patterns`: SQLite makes what Spark makes of single rows; the rows are shuffled within the
delay, and driven through the buckets as Spark would do it. At the end, one stream in Spark, from files to files.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from effort import tries
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import sase
from sase.cli import main
from sase.compiler.compile_sql import compile_statement
from sase.compiler.plan.rows import RowPlan
from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.sort import SortKey
from sase.runtime.row_pattern import Measure
from sase.runtime.stream.horizon import FOREVER
from sase.runtime.stream.row_bucket import RowBucket, RowStreamTask
from sase.runtime.stream.worker import cell, opened
from tests.random_rows import SHOWN, random_clause, random_rows
from tests.row_judge import (
    Anchor,
    At,
    Clause,
    Concat,
    Exclude,
    Expression,
    IsNull,
    MatchNumber,
    Not,
    Operation,
    Pattern,
    Permute,
    Repeat,
    Row,
    SkipError,
    Variable,
    answer,
    text_of,
)
from tests.streams import shuffled
from tests.test_row_patterns import KINDS, evaluated, kind_of, ordered, partition, truths_of


def looking_back(expression: Expression) -> Expression:
    """The same, with PREV in place of NEXT."""
    match expression:
        case At():
            return replace(expression, step=-abs(expression.step))
        case Operation(left, sign, right):
            return Operation(looking_back(left), sign, looking_back(right))
        case Not(part):
            return Not(looking_back(part))
        case IsNull(part):
            return IsNull(looking_back(part))
        case _:
            return expression


def longest(pattern: Pattern) -> int:
    """How many rows a pattern takes at most; a million if there is no bound."""
    match pattern:
        case Variable():
            return 1
        case Repeat(part, _, high):
            return 10**6 if high is None else longest(part) * high
        case Exclude(part):
            return longest(part)
        case Concat(parts) | Permute(parts):
            return sum(map(longest, parts))
    return max((longest(part) for part in getattr(pattern, "parts", ())), default=0)


def anchored(pattern: Pattern) -> bool:
    return pattern == Anchor("$") or any(
        anchored(part) for part in (*getattr(pattern, "parts", ()), getattr(pattern, "part", None)) if part
    )


def streamed(random: Random, bounded: bool, ahead: bool = False) -> Clause:
    """A random clause that a stream takes; `ahead` says whether one with a window has NEXT, too."""
    while True:
        clause = random_clause(random, running=random.random() < 0.4)
        if anchored(clause.pattern) or (bounded and longest(clause.pattern) > 5):
            continue
        clause = replace(clause, within=None if bounded else ("t", random.randint(1, 9)))
        if not bounded and not ahead:
            clause = replace(
                clause,
                define={name: looking_back(each) for name, each in clause.define.items()},
                measures={name: looking_back(each) for name, each in clause.measures.items()},
            )
        if bounded:
            measures = {**clause.measures, "first": At("row", first=True, final=True)}
            clause = replace(clause, rows=random.choice(SHOWN[:-1]), measures=measures)
        return clause


def compiled(clause: Clause) -> tuple[RowPlan, ModuleType]:
    text = text_of(clause, "t", ["g"], ["t", "row"])
    found = compile_statement(text, "q.sql", "spark", version="0", stream=True)
    module = ModuleType("job")
    exec(compile(found.job, "job", "exec"), module.__dict__)
    return found.statement.views[0].plan, module


def task_of(plan: RowPlan, module: ModuleType, jit: bool, name: str = "MATCHES") -> RowStreamTask:
    values: dict[str, Measure] = getattr(module, f"{name}_VALUES")
    assert plan.context is not None
    return RowStreamTask(
        pattern=getattr(module, f"{name}_PATTERN"),
        names=("g", "row", "t", "x", "y", *plan.terms, "bits"),
        by=("g",),
        keys=(SortKey("t"), SortKey("row")),
        symbols="bits",
        shown=plan.shown,
        kept=("g",) if plan.shown == "one row" else ("g", "row"),
        measures=tuple((name, value, kind_of(value)) for name, value in values.items()),
        batch_rows=100,
        chunk_rows=100,
        jit=jit,
        steps_per_row=100_000,
        shifts=tuple(getattr(module, f"{name}_BEFORE", {}).items()),
        meets=tuple(getattr(module, f"{name}_MEETS", {}).items()),
        context=plan.context,
        late=("g", "row"),
    )


class Bucket:
    """A bucket as Spark has it: nothing but its state outlives a call, and that is written and read."""

    def __init__(self, task: RowStreamTask) -> None:
        self.task = task
        self.state: bytes | None = None
        self.wake: int | None = None
        self.rows: list[dict[str, Any]] = []
        self.late: list[dict[str, Any]] = []

    def call(self, arrived: pa.Table | None, watermark: int) -> None:
        if arrived is None and (self.wake is None or self.wake > watermark):
            return
        state = None if self.state is None else opened(self.state)
        step = RowBucket(self.task).advance(state, arrived, watermark)
        assert (step.state is None) == (step.wake is None)
        assert step.wake is None or step.wake > watermark
        for batch in step.matches:
            self.rows += batch.to_pylist()
        if step.late is not None:
            self.late += step.late.to_pylist()
        self.state, self.wake = None if step.state is None else cell(step.state, "state"), step.wake

    @property
    def remembered(self) -> int:
        return 0 if self.state is None else opened(self.state).num_rows


def table_of(plan: RowPlan, groups: list[list[Row]]) -> pa.Table:
    return as_table(plan, [row for group, part in enumerate(groups) for row in partition(plan, group, part)])


def as_table(plan: RowPlan, rows: list[dict[str, Any]]) -> pa.Table:
    names = ("g", "row", "t", "x", "y", *plan.terms, "bits")
    columns = {name: [row[name] for row in rows] for name in names}
    kinds = {**KINDS, **dict.fromkeys(truths_of(plan.terms), pa.bool_())}
    return pa.table({name: pa.array(columns[name], kinds.get(name, pa.int64())) for name in names})


def followed(clause: Clause, groups: list[list[Row]], random: Random, jit: bool) -> tuple[list[dict[str, Any]], Bucket]:
    """The rows of the matches, and what is left of the bucket when the watermark has passed everything."""
    plan, module = compiled(clause)
    table = table_of(plan, groups)
    delay = random.choice([0, 1, 4, 20])
    ticks = table.column("t").to_pylist()
    bucket = Bucket(task_of(plan, module, jit))
    watermark = latest = -(1 << 52)
    for batch in shuffled(ticks, delay, random):
        bucket.call(table.take(pa.array(batch, pa.int64())) if batch else None, watermark)
        latest = max([latest, *(ticks[row] for row in batch)])
        watermark = max(watermark, latest - delay)
    for beyond in (1, 100):
        bucket.call(None, latest + beyond)
    assert not bucket.late
    return measured(plan, bucket.task, bucket.rows), bucket


def measured(plan: RowPlan, task: RowStreamTask, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What Spark makes of the values that were looked up."""
    out = []
    for row in found:
        looked_up = dict(zip((*task.kept, *(name for name, _, _ in task.measures)), row.values(), strict=False))
        measures = {each.name: evaluated(each.sql, looked_up) for each in plan.measures}
        out.append({**{name: looked_up[name] for name in task.kept}, **measures})
    return out


def numbered(groups: list[list[Row]]) -> list[list[Row]]:
    return [[{**row, "row": at} for at, row in enumerate(rows)] for rows in groups]


def agree(seed: int, jit: bool = False) -> None:
    """With a window, the watermark decides everything in the end, and nothing is left but what is looked back to."""
    random = Random(seed)
    clause = streamed(random, bounded=False)
    groups = numbered([random_rows(random) for _ in range(random.randint(1, 3))])
    try:
        wanted: Any = ordered([{"g": g, **row} for g, rows in enumerate(groups) for row in answer(clause, rows)])
    except SkipError:
        wanted = "error"
    try:
        rows, bucket = followed(clause, groups, random, jit)
        found: Any = ordered(rows)
    except SaseRunError:
        found = "error"
    assert found == wanted, f"seed {seed}\n{text_of(clause, 't', ['g'], ['t'])}\n{groups}"
    if found != "error":
        assert bucket.remembered <= bucket.task.context * len(groups)
        assert bucket.wake == (FOREVER if bucket.remembered else None)


def test_a_row_whose_next_one_is_not_there_yet_waits_for_it() -> None:
    """NEXT with a window: what began before the last rows is what it is in batch, and those wait, whatever the time."""
    looking_ahead = 0
    for seed in range(70_020, 70_020 + tries(40)):
        random = Random(seed)
        clause = streamed(random, bounded=False, ahead=True)
        plan, module = compiled(clause)
        ahead = task_of(plan, module, jit=False).ahead
        looking_ahead += ahead > 0
        groups = [random_rows(random) for _ in range(random.randint(1, 3))]
        lengths = [len(rows) for rows in groups]
        for rows in groups:
            rows += [{"t": rows[-1]["t"] + 50, "x": random.choice([0, 1, None]), "y": at} for at in range(ahead)]
        groups = numbered(groups)
        where = f"seed {seed}\n{text_of(clause, 't', ['g'], ['t'])}\n{groups}"
        parts = enumerate(zip(groups, lengths, strict=True))
        try:
            wanted = [{"g": g, **row} for g, (rows, length) in parts for row in answer(clause, rows, length)]
        except SkipError:
            continue
        rows, bucket = followed(clause, groups, random, jit=False)
        assert ordered(rows) == ordered(wanted), where
        assert bucket.remembered <= (bucket.task.context + ahead) * len(groups), where
        assert bucket.wake == (FOREVER if bucket.remembered else None), where
    assert looking_ahead > tries(40) // 4


@pytest.mark.parametrize("block", range(2))
def test_random_streams_give_what_the_judge_says(block: int) -> None:
    for seed in range(40_000 + block, 40_000 + block + 2 * tries(50), 2):
        agree(seed)


def test_compiled_to_machine_code_it_is_the_same() -> None:
    for seed in range(50_000, 50_000 + tries(20)):
        agree(seed, jit=True)


def test_a_pattern_of_bounded_length_needs_no_window() -> None:
    """A match is decided when as many rows have come as it may take, and those that NEXT looks at; the last ones of a
    key wait for ever."""
    for seed in range(60_000, 60_000 + tries(50)):
        random = Random(seed)
        clause = streamed(random, bounded=True)
        groups = numbered([random_rows(random, most=15) for _ in range(2)])
        try:
            wanted = [{"g": g, **row} for g, rows in enumerate(groups) for row in answer(clause, rows)]
        except SkipError:
            continue
        rows, bucket = followed(clause, groups, random, jit=False)
        found, expected = Counter(ordered(rows)), Counter(ordered(wanted))
        where = f"seed {seed}\n{text_of(clause, 't', ['g'], ['t'])}\n{groups}"
        assert found <= expected, where
        length = longest(clause.pattern) + bucket.task.ahead
        decided = [row for row in wanted if first_row(row) + length < len(groups[row["g"]])]
        assert Counter(ordered(decided)) <= found, where
        assert bucket.remembered <= (length + bucket.task.context) * len(groups), where


def first_row(row: dict[str, Any]) -> int:
    """The first row of the match, or the row of an empty one, which has none; too late, where that is not shown."""
    return int(row["first"] if row["first"] is not None else row.get("row", 10**6))


def pattern_rows(text: str, *times: int) -> tuple[Bucket, pa.Table]:
    """A bucket of a clause over rows of one key, numbered from 0, of which all may be A and B."""
    clause = f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY g ORDER BY t, row MEASURES count(*) AS n {text})"
    module = ModuleType("job")
    exec(compile_statement(clause, "q.sql", "spark", version="0", stream=True).job, module.__dict__)
    values = tuple((name, value, pa.int64()) for name, value in module.MATCHES_VALUES.items())
    names = ("g", "row", "t", "bits")
    keys = (SortKey("t"), SortKey("row"))
    task = RowStreamTask(module.MATCHES_PATTERN, names, ("g",), keys, "bits", "one row", ("g",), values,
                         100, 100, False, 1000, late=("t",), limit=5)  # fmt: skip
    rows = len(times)
    return Bucket(task), pa.table({"g": [1] * rows, "row": list(range(rows)), "t": list(times), "bits": [3] * rows})


def test_a_match_comes_when_its_window_has_ended() -> None:
    bucket, rows = pattern_rows("PATTERN (A B*) WITHIN 10", 1, 4, 10)
    bucket.call(rows, 0)
    assert (bucket.rows, bucket.wake) == ([], 2)
    bucket.call(None, 10)
    assert (bucket.rows, bucket.remembered, bucket.wake) == ([], 3, 11), "the last row is not released"
    bucket.call(None, 11)
    assert [row["1"] for row in bucket.rows] == [3]
    assert bucket.state is None


def test_a_match_that_nothing_can_change_comes_at_once() -> None:
    bucket, rows = pattern_rows("PATTERN (A B) WITHIN 10", 1, 4)
    bucket.call(rows, 0)
    bucket.call(None, 5)
    assert [row["1"] for row in bucket.rows] == [2]
    assert bucket.state is None


def test_a_row_behind_the_watermark_is_late_and_takes_no_part() -> None:
    bucket, rows = pattern_rows("PATTERN (A B*) WITHIN 10", 1, 4, 10)
    bucket.call(rows, 4)
    assert bucket.late == [{"t": 1}]
    bucket.call(None, 30)
    assert [row["1"] for row in bucket.rows] == [2]


def test_too_many_rows_of_a_key_name_it() -> None:
    bucket, rows = pattern_rows("PATTERN (A B*) WITHIN 10", *range(6))
    with pytest.raises(SaseRunError, match=r"6 rows of g=1 are waiting in the window: raise --max-window-events-per"):
        bucket.call(rows, 0)


def test_numbers_go_on_although_all_rows_are_decided() -> None:
    random = Random(1)
    clause = Clause(Variable("A"), measures={"n": MatchNumber()}, within=("t", 2))
    groups = numbered([[{"t": 10 * at, "x": 0, "y": 0} for at in range(5)]])
    rows, bucket = followed(clause, groups, random, jit=False)
    assert [row["n"] for row in rows] == [1, 2, 3, 4, 5]
    assert bucket.remembered == 1


# ---- in Spark -----------------------------------------------------------------------------------

V_SHAPES = """
SELECT symbol, n, upper(symbol) AS name, bottom, peak FROM (SELECT * FROM ticker WHERE price > 0) MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY at, price DESC
  MEASURES MATCH_NUMBER() AS n, LAST(DOWN.price) AS bottom, LAST(UP.price) AS peak, count(*) AS days
  PATTERN (A DOWN+ UP+) WITHIN INTERVAL '5' DAYS
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price) AND count(UP.*) <= 3)
WHERE days > 2"""


def test_a_stream_in_spark_gives_the_rows_of_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Files come in two runs on one checkpoint; rows are out of order by a day, and one is late."""
    random = Random(7)
    day = datetime(2026, 3, 1)
    rows = [(name, day + timedelta(days=at), random.randint(1, 9)) for name in ("a", "b", "c") for at in range(20)]
    rows.sort(key=lambda row: row[1] + timedelta(hours=random.randint(0, 24)))
    far = [("z", day + timedelta(days=99), 1)]
    parts = [rows[:30], [("a", day, 5), *rows[30:], *far]]
    text = tmp_path / "v.sql"
    text.write_text(V_SHAPES, encoding="utf-8")
    places = {name: str(tmp_path / name) for name in ("incoming", "matches", "checkpoint")}
    options = ["--table", f"ticker={places['incoming']}", "--out", places["matches"], "--buckets", "2"]
    options += ["--checkpoint", places["checkpoint"], "--max-delay", "1 day", "--trigger", "available-now"]
    Path(places["incoming"]).mkdir()
    for number, part in enumerate(parts):
        frame = pa.table(dict(zip(("symbol", "at", "price"), map(list, zip(*part, strict=True)), strict=True)))
        frame = frame.set_column(1, "at", frame.column("at").cast(pa.timestamp("us", "UTC")))
        parquet.write_table(frame, f"{places['incoming']}/{number}.parquet")
        assert main(["run", str(text), "--stream", *options]) == 0
    found = spark.read.parquet(places["matches"]).drop("batch")
    batch = sase.sql(
        V_SHAPES, tables={"ticker": spark.createDataFrame([*rows, *far], "symbol string, at timestamp, price int")}
    )
    assert batch.count() > 3
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, batch.collect()))
    late = [json.loads(line) for line in spark.read.text(f"{places['matches']}-late").toPandas()["value"]]
    assert [(row["reason"], row["event"]["symbol"], row["event"]["price"]) for row in late] == [("late", "a", 5)]


def test_a_streaming_table_makes_a_streaming_result(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "at")
    clause = "ORDER BY at MEASURES LAST(value) AS v PATTERN (A B) DEFINE B AS value > PREV(value)"
    text = f"SELECT * FROM ticks MATCH_RECOGNIZE ({clause})"
    assert sase.sql(text, tables={"ticks": stream}, max_delay="1 minute").isStreaming
    with pytest.raises(SaseRunError, match=r"ORDER BY begins, is double: it must be a timestamp, a date or a whole"):
        sase.sql(text, tables={"ticks": stream.withColumn("at", F.rand(1))})
    with pytest.raises(sase.OptionError, match="max_delay: these are options of a stream, and the tables are none"):
        sase.sql(text, tables={"ticks": spark.range(1).selectExpr("id AS at", "id AS value")}, max_delay="1 minute")
