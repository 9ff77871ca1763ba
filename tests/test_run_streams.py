"""Runs on streams: random queries on events that are cut into micro-batches, against the judge.

Without Spark, as in `test_row_streams`; at the end, a stream in Spark.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from brute_force import evaluate
from composition_judge import evaluate_all
from pyspark.sql import SparkSession
from random_queries import Case
from random_runs import CATALOG, run_case
from test_random_queries import canonical
from test_row_streams import Bucket
from test_runs import by_number, letters, measures_of, names_of, relevant

import sase
from sase.cli import main
from sase.compiler.core.catalog import Catalog
from sase.compiler.plan.physical import Choose, Runs
from sase.compiler.plan.reach import latest
from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.sort import SortKey
from sase.runtime.stream.horizon import TIMELY
from sase.runtime.stream.row_bucket import Choice, RowStreamTask
from tests.streams import shuffled


def streamed_case(random: Random) -> tuple[Case, sase.Query]:
    """A query that a stream takes, and what it is compiled to."""
    while True:
        case = run_case(random)
        try:
            return case, sase.compile(case.query, case.catalog, stream=True)
        except sase.SaseError as error:
            assert "a stream needs WITHIN" in str(error), case.query


def bucket_of(query: sase.Query, jit: bool = False, limit: int | None = None, behind: int = 0) -> tuple[Bucket, Runs]:
    step, job = query.compiled.physical.only(Runs), query.module
    assert step is not None
    event = pa.struct([("number", pa.int64()), ("v", pa.int64())])
    task = RowStreamTask(
        pattern=job.PATTERN,
        names=("_sase_time", "_sase_symbols", "id", "v", "number", *step.pattern.terms),
        by=tuple(job.ORDER.by),
        keys=(SortKey("_sase_time"),),
        symbols="_sase_symbols",
        shown="one row",
        kept=(),
        measures=measures_of(job, event),
        batch_rows=100,
        chunk_rows=100,
        jit=jit,
        steps_per_row=10_000,
        refuse_ties=True,
        event=("_sase_event", ("number", "v")),
        late=("number",),
        limit=limit,
        choice=chosen_by(query, step),
        behind=behind,
    )
    return Bucket(task), step


def chosen_by(query: sase.Query, step: Runs) -> Choice | None:
    if not step.chosen:
        return None
    (choose,) = query.compiled.physical.every(Choose)
    numbers, *columns = step.chosen
    modes = tuple((column, mode) for column, (_, mode) in zip(columns, choose.select, strict=True))
    return Choice(step.number, numbers, modes, choose.exclusive)


def found_by(bucket: Bucket, step: Runs, query: sase.Query) -> Counter[str]:
    shown, job = names_of(query, step), query.module
    looked_up = [dict(zip(job.VALUES, row.values(), strict=False)) for row in bucket.rows]
    return Counter(by_number({shown[name]: each for name, each in row.items() if name in shown}) for row in looked_up)


@pytest.mark.parametrize("jit", [False, True])
def test_random_streams_give_what_the_judge_says(jit: bool) -> None:
    bounded = chosen = stuck = 0
    for seed in range(120):
        random = Random(f"{seed} {jit}")
        case, query = streamed_case(random)
        bucket, step = bucket_of(query, jit)
        table, delay = relevant(step, case.events, {"number": "number"}), random.choice([0, 1, 4, 20])
        ticks = table.column("_sase_time").to_pylist()
        watermark = latest = -(1 << 52)
        for batch in shuffled(ticks, delay, random):
            bucket.call(table.take(pa.array(batch, pa.int64())) if batch else None, watermark)
            latest = max([latest, *(ticks[row] for row in batch)])
            watermark = max(watermark, latest - delay)
        for beyond in (1, 100):
            bucket.call(None, latest + beyond)
        expected = Counter(map(by_number, evaluate(*case)))
        where = f"{seed}: {case.query}\n{case.events}"
        assert found_by(bucket, step, query) == expected, where
        assert not bucket.late
        chosen += step.chosen != ()
        stuck += query.compiled.query.timed_out and bool(expected)
        if query.compiled.query.within is not None:
            assert bucket.state is None, where
        else:
            bounded += 1
    assert bounded > 5, "a run of bounded length needs no window"
    assert chosen > 5, "first, last and CONSUME are among them"
    assert stuck > 3, "and runs that timed out"


@pytest.mark.parametrize("after", ["", " AFTER MATCH SKIP PAST LAST ROW"])
def test_a_match_is_out_when_it_is_certain(after: str) -> None:
    """With its last event; and if no run may begin inside of another one, when those before it are decided."""
    text = f"EVENT SEQ(A a, B b) WHERE b.v > a.v WITHIN 10 SKIP TILL NEXT MATCH{after}"
    query = sase.compile(text, CATALOG, stream=True)
    bucket, step = bucket_of(query, limit=3)
    events = letters("a1=5 a2=0 b3=1 c9 b30=9")
    table = relevant(step, events, {"number": "number"})
    assert table.num_rows == 4, "C is of no use to this query"
    bucket.call(table.slice(0, 3), 0)
    bucket.call(None, 4)
    assert len(bucket.rows) == (0 if after else 1), "the run from a1 may still end"
    bucket.call(None, 11)
    assert [row["0"]["number"] for row in bucket.rows] == [1]
    assert bucket.state is None
    bucket.call(table, 20)
    assert bucket.late == [{"number": 0}, {"number": 1}, {"number": 2}]


@pytest.mark.parametrize("consume", ["SHARED", "EXCLUSIVE"])
def test_what_is_used_up_is_part_of_the_state(consume: str) -> None:
    text = "EVENT SEQ(A a, B b, C c) WHERE c.v > a.v WITHIN 10 SKIP TILL NEXT MATCH CONSUME"
    bucket, step = bucket_of(sase.compile(f"{text} {consume}", CATALOG, stream=True))
    bucket.call(relevant(step, letters("a1=5 a2=0 b3 c4=1 c5=9"), {"number": "number"}), 0)
    for watermark in (5, 6, 20):
        bucket.call(None, watermark)
    found = [(row["0"]["number"], row["2"]["number"]) for row in bucket.rows]
    assert found == ([(1, 3)] if consume == "EXCLUSIVE" else [(1, 3), (0, 4)]), "b3 is in both"


def test_a_result_of_another_query_is_not_late() -> None:
    """It comes when it is certain, just behind the watermark. Columns are as Spark has them, which never are NULL."""
    query = sase.compile("EVENT SEQ(A a, B b) WITHIN 10 SKIP TILL NEXT MATCH", CATALOG, stream=True)
    bucket, step = bucket_of(query)
    table = relevant(step, letters("a1 b3 b5"), {"number": "number"})
    symbols = pa.field("_sase_symbols", pa.int64(), nullable=False)
    table = table.set_column(1, symbols, table.column(1))
    marked = table.set_column(1, symbols, pa.array([bits | TIMELY for bits in table.column(1).to_pylist()]))
    bucket.call(table.slice(0, 1), 1)
    bucket.call(marked.slice(1), 4)
    assert not bucket.late
    bucket.call(None, 5)
    assert [(row["0"]["number"], row["1"]["number"]) for row in bucket.rows] == [(0, 1)]


@pytest.mark.parametrize("after", ["", " AFTER MATCH SKIP PAST LAST ROW"])
def test_random_results_of_runs_are_events_of_runs(after: str) -> None:
    """As one job has both: what the first finds reaches the second in the same micro-batch, and that is as far behind
    the watermark as results may take."""
    known = Catalog(types={**CATALOG.types, "Hit": CATALOG.types["A"]} if CATALOG.types else None)
    texts = {
        "Hit": f"EVENT SEQ(last A a, B b) WHERE [id] AND b.v >= a.v WITHIN 6 SKIP TILL NEXT MATCH{after} "
        "RETURN EVENT Hit(b.id AS id, b.v AS v, b.number AS number)",
        "Two": "EVENT SEQ(Hit h, C+ c, Hit i) WHERE [id] WITHIN 12 SKIP TILL NEXT MATCH "
        "RETURN EVENT Two(h.number AS h, i.number AS i)",
    }
    first, second = (sase.compile(text, known, stream=True) for text in texts.values())
    behind = latest(first.compiled.query)
    assert behind == (6 if after else 0)
    found = 0
    for seed in range(40):
        random = Random(seed)
        happened = [
            {"ts": at, "type": random.choice("AABBCC"), "id": random.choice([1, 1, 2]), "v": random.randint(0, 4)}
            | {"number": at}
            for at in range(30)
        ]
        ticks, delay = [event["ts"] for event in happened], random.choice([0, 2])
        (hits, hit), (twos, two) = bucket_of(first), bucket_of(second, behind=behind)
        watermark = seen = -(1 << 52)
        batches = shuffled(ticks, delay, random)
        for number, batch in enumerate([*batches, [], []]):
            arrived = [happened[row] for row in batch]
            reported = len(hits.rows)
            hits.call(_arrived(hit, arrived), watermark)
            results = [_result(happened, row) for row in hits.rows[reported:]]
            made = _arrived(two, results)
            tables = [_arrived(two, arrived), None if made is None else _timely(made)]
            tables = [table for table in tables if table is not None]
            twos.call(pa.concat_tables(tables) if tables else None, watermark - behind)
            seen = max([seen, *(event["ts"] for event in arrived)])
            watermark = max(watermark, seen - delay) if number < len(batches) else 1000
        judged = evaluate_all(texts, CATALOG, happened)["Two"]
        expected = Counter((match["h"], match["i"]) for match in judged)
        shown = list(two.values.values())
        at = [list(second.module.VALUES).index(shown[place]) for place in (0, 2)]
        assert Counter(tuple(row[str(each)]["number"] for each in at) for row in twos.rows) == expected, seed
        assert not twos.late
        found += len(judged)
    assert found > 20


def _arrived(step: Runs, happened: list[dict[str, Any]]) -> pa.Table | None:
    table = relevant(step, happened, {"number": "number"})
    return table if table.num_rows else None


def _result(happened: list[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any]:
    return {**happened[row["1"]["number"]], "type": "Hit"}


def _timely(table: pa.Table) -> pa.Table:
    place = table.column_names.index("_sase_symbols")
    marked = pa.array([bits | TIMELY for bits in table.column(place).to_pylist()], pa.int64())
    return table.set_column(place, "_sase_symbols", marked)


def test_events_at_one_time_stop_a_stream() -> None:
    query = sase.compile("EVENT SEQ(A a, B b) WITHIN 10 SKIP TILL NEXT MATCH", CATALOG, stream=True)
    bucket, step = bucket_of(query)
    table = relevant(step, letters("a1 b2 b2"), {"number": "number"})
    bucket.call(table.slice(0, 2), 0)
    bucket.call(table.slice(2), 2)
    with pytest.raises(SaseRunError, match="nothing says which of them is the next"):
        bucket.call(None, 3)


def test_too_many_events_of_a_key_name_it() -> None:
    query = sase.compile("EVENT SEQ(A a, B b) WHERE [id] WITHIN 10 SKIP TILL NEXT MATCH", CATALOG, stream=True)
    bucket, step = bucket_of(query, limit=2)
    with pytest.raises(SaseRunError, match=r"3 events of id=1 are waiting .* leave such events out with"):
        bucket.call(relevant(step, letters("a1 a2 a3"), {"number": "number"}), 0)


def test_a_checkpoint_fits_its_query() -> None:
    def state(query: str) -> str:
        return str(sase.compile(f"EVENT {query}", CATALOG, stream=True).module.STATE)

    known = state("SEQ(A a, B+ b, C c) WHERE [id] AND c.v > a.v WITHIN 9 SKIP TILL NEXT MATCH")
    assert known == state(
        "SEQ(A a, B+ b, C c) WHERE [id] AND c.v < a.v WITHIN 9 SKIP TILL NEXT MATCH AFTER MATCH SKIP PAST LAST ROW"
    ), "conditions between events may change"
    for other in (
        "SEQ(A a, B+ b, C c) WHERE [id] AND c.v > a.v WITHIN 8 SKIP TILL NEXT MATCH",
        "SEQ(A a, B+ b, C c) WHERE [id] AND c.v > a.v WITHIN 9 PARTITION CONTIGUITY",
        "SEQ(A a, B+ b, D c) WHERE [id] AND c.v > a.v WITHIN 9 SKIP TILL NEXT MATCH",
        "SEQ(A a, B+ b, C c) WHERE c.v > a.v WITHIN 9 SKIP TILL NEXT MATCH",
    ):
        assert state(other) != known


# ---- Spark --------------------------------------------------------------------------------------


def test_a_stream_in_spark_gives_the_matches_of_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Files come in two runs on one checkpoint, events out of order by 3, and one of them late."""
    random = Random(7)
    text = "EVENT SEQ(last A a, B+ b, C c) WHERE [id] AND b.v >= a.v WITHIN 30 SKIP TILL NEXT MATCH CONSUME EXCLUSIVE"
    events = [
        {"ts": at, "type": random.choice("AABBBCDE"), "id": random.choice([1, 1, 2, None]), "v": random.randint(0, 4)}
        for at in range(90)
    ]
    late = {"ts": 1, "type": "A", "id": 1, "v": 0}
    arrived = sorted(events, key=lambda event: event["ts"] + random.randint(0, 3))
    far = {"ts": 900, "type": "E", "id": 1, "v": 0}
    (tmp_path / "q.sase").write_text(text, encoding="utf-8")
    declared = "\n".join(f'{name} = {{ ts = "bigint", id = "int", v = "int" }}' for name in "ABCDE")
    (tmp_path / "c.toml").write_text(f'time = "ts"\ntype = "type"\n[types]\n{declared}\n', encoding="utf-8")
    (tmp_path / "in").mkdir()
    options = ["--events", f"{tmp_path}/in", "--out", f"{tmp_path}/out", "--checkpoint", f"{tmp_path}/check"]
    options += ["--max-delay", "3", "--trigger", "available-now", "--buckets", "2", "--format", "json"]
    for number, part in enumerate((arrived[:50], [late, *arrived[50:], far])):
        lines = "".join(f"{json.dumps(event)}\n" for event in part)
        (tmp_path / "in" / f"{number}.jsonl").write_text(lines, encoding="utf-8")
        assert main(["run", f"{tmp_path}/q.sase", "--catalog", f"{tmp_path}/c.toml", "--stream", *options]) == 0
    found = spark.read.parquet(f"{tmp_path}/out").drop("batch")
    judged = evaluate(text, sase.Catalog.load(tmp_path / "c.toml"), events)
    assert len(judged) > 3
    assert Counter(canonical(row.asDict(recursive=True)) for row in found.collect()) == Counter(map(canonical, judged))
    rejected = [json.loads(line) for line in spark.read.text(f"{tmp_path}/out-late").toPandas()["value"]]
    assert [(row["reason"], row["event"]) for row in rejected] == [("late", late)]
