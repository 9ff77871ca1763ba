"""Events that stay where they are read, against the judge: files in the order of time, and files that nearly are.

The files are small, and cut into parts of a few row groups; whether that would pay is not asked. All is read twice, by
Spark and by the workers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import test_aggregates as aggregates
from brute_force import evaluate
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from random_queries import Case
from test_random_queries import canonical
from together import rows_of

import sase
from sase.runtime import in_place, spans
from sase.runtime.operator.reading import CELL, SPAN

CATALOG = sase.Catalog(
    types={name: {"ts": "bigint", "id": "bigint", "n": "bigint"} for name in "ABC"},
)
TIMED = sase.Catalog(types={name: {"ts": "timestamp", "id": "bigint", "n": "bigint"} for name in "ABC"})
QUERIES = [
    "EVENT SEQ(A x, B y) WHERE [id] WITHIN 9",
    "EVENT SEQ(A x, B y, C z) WHERE [id] AND x.n <= z.n WITHIN 12",
    "EVENT SEQ(A x, !(C w), B y) WHERE [id] WITHIN 9",
    "EVENT SEQ(!(C w), A x, B y) WHERE [id] AND w.n >= y.n WITHIN 9",
    "EVENT SEQ(A x, B y, !(C w)) WHERE [id] WITHIN 9",
    "EVENT AND(A x, B y) WHERE [id] WITHIN 7",
    "EVENT SEQ(A x, OR(B y, C z)) WHERE [id] WITHIN 7",
    "EVENT SEQ(A x, NOT(AND(B u, C v)), A z) WHERE [id] WITHIN 9",
    "EVENT SEQ(A x, B y) WHERE [id] WITHIN 9 RETURN x.id, count(*) AS matches GROUP BY x.id",
]
PARTS = {
    "spark.sql.files.maxPartitionBytes": "4KB",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.minPartitionNum": "1",
}


@pytest.fixture(autouse=True)
def small_parts(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(in_place, "LARGE", 0)
    monkeypatch.setattr(in_place, "SMALL", 0)
    monkeypatch.setattr(in_place, "MOST_NEAR", 1.0)
    monkeypatch.setattr(spans, "A_SPAN", 20)
    monkeypatch.setattr(spans, "AGAIN", 9.0)
    before = {name: spark.conf.get(name, None) for name in PARTS}
    for name, value in PARTS.items():
        spark.conf.set(name, value)
    yield
    for name, old in before.items():
        spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def stream(seed: int, mixed: float = 0.0) -> list[dict[str, Any]]:
    """Events in the order of time, but for some that come earlier or later in the file than they should."""
    rng = random.Random(seed)
    times = sorted(rng.randrange(133) for _ in range(100))
    order = sorted(range(100), key=lambda at: at + (rng.uniform(-60, 60) if rng.random() < mixed else 0))
    return [
        {
            "type": rng.choice("AABBC"),
            "ts": times[at],
            "id": rng.choice([1, 2, 3, None]),
            "n": rng.randrange(4),
        }
        for at in order
    ]


def written(spark: SparkSession, path: Path, *files: list[dict[str, Any]], timed: bool = False) -> DataFrame:
    """Row groups of a few events, and in each a lot that nobody reads: so a part of a file has few of them."""
    kind = pa.timestamp("us", tz="UTC") if timed else pa.int64()
    kinds = {"type": pa.string(), "ts": kind, "x": pa.float64(), "rest": pa.binary()}
    schema = pa.schema({name: kinds.get(name, pa.int64()) for name in (*files[0][0], "rest")})
    rng = random.Random(0)
    for number, events in enumerate(files):
        rows = [{**event, "rest": rng.randbytes(100)} for event in events]
        with pq.ParquetWriter(path / f"{number}.parquet", schema) as writer:
            for start in range(0, len(rows), 6):
                writer.write_table(pa.Table.from_pylist(rows[start : start + 6], schema))
    return spark.read.parquet(str(path))


SCANS = ("spark", "worker")


def is_left_in_place(found: DataFrame, scan: str) -> bool:
    """What Spark reads comes from two places, and what workers read is hidden in spans."""
    plan = found._jdf.queryExecution().toString()
    return (SPAN in plan, "Union" in plan, CELL in plan) == (scan == "worker", scan == "spark", False)


def goes_in_cells(found: DataFrame) -> bool:
    """What workers read is in cells, then, which are shuffled."""
    plan = found._jdf.queryExecution().toString()
    return SPAN in plan and CELL in plan and "repartition" in plan.lower()


def judged(spark: SparkSession, events: DataFrame, stream: list[dict[str, Any]], queries: list[str]) -> None:
    """All in one Spark job: what is left in place is so beside other answers, too."""
    names = [f"{scan} {query}" for query in queries for scan in SCANS]
    answers = {name: sase.compile(name.split(" ", 1)[1], CATALOG, scan=name.split()[0]).run(events) for name in names}
    assert all(is_left_in_place(answer, name.split()[0]) for name, answer in answers.items())
    expected = {query: Counter(map(canonical, evaluate(query, CATALOG, stream))) for query in queries}
    assert all(expected.values()), "a query without a match tests nothing"
    found = {name: Counter(map(canonical, rows)) for name, rows in rows_of(answers).items()}
    assert found == {name: expected[name.split(" ", 1)[1]] for name in names}


def test_files_in_the_order_of_time(spark: SparkSession, tmp_path: Path) -> None:
    events = stream(1)
    judged(spark, written(spark, tmp_path, events), events, QUERIES)


def test_files_with_some_events_out_of_order(spark: SparkSession, tmp_path: Path) -> None:
    events = stream(13, mixed=0.05)
    judged(spark, written(spark, tmp_path, events), events, QUERIES[1::3])


def test_several_files_of_which_two_have_the_same_times(spark: SparkSession, tmp_path: Path) -> None:
    events, both = stream(3), stream(4)[26:46]
    files = [events[66:], events[:40], both, events[40:66]]
    judged(spark, written(spark, tmp_path, *files), [*events, *both], QUERIES[::3])


ANYWHERE: list[tuple[str, dict[str, Any]]] = [
    *((query, {}) for query in QUERIES),
    (QUERIES[1], {"partitions": 5}),
    ("EVENT SEQ(A x, !(C w), B y) WHERE [id, n] WITHIN 60", {}),
    (QUERIES[3], {"standalone": True}),
]


def test_files_in_no_order(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers read them, and bring together what is of one key."""
    monkeypatch.setattr(spans, "AGAIN", -1.0)  # however few events would be read twice
    events = stream(4, mixed=1.0)
    frame = written(spark, tmp_path, events[:70], events[70:])
    answers = {
        f"{at}": sase.compile(query, CATALOG, **options).run(frame) for at, (query, options) in enumerate(ANYWHERE)
    }
    assert all(map(goes_in_cells, answers.values()))
    found = {name: Counter(map(canonical, rows)) for name, rows in rows_of(answers).items()}
    expected = {f"{at}": evaluate(query, CATALOG, events) for at, (query, _) in enumerate(ANYWHERE)}
    assert found == {name: Counter(map(canonical, rows)) for name, rows in expected.items()}
    assert all(expected.values()), "a query without a match tests nothing"


ANY_KEY = {
    "user": pa.string(),
    "naïve": pa.int64(),
    "seen": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "place": pa.int32(),
}
"""Two have names that Spark knows in quotes alone, and one that of a column of ours."""


def test_files_in_no_order_by_any_key(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a zone that Arrow does not know, with strings of either of its kinds."""
    monkeypatch.setattr(spans, "AGAIN", -1.0)
    numbers = {"type": pa.string(), "ts": pa.int64(), "n": pa.int64()}
    values = [[f"é{number}", number, datetime(2026, 1, 1 + number, tzinfo=UTC), date(2026, 1, 1 + number), number]
              for number in range(3)]  # fmt: skip
    events = [
        {"type": event["type"], "ts": event["ts"], "n": at, **dict(zip(ANY_KEY, values[at % 3], strict=True))}
        for at, event in enumerate(stream(7, mixed=1.0))
    ]
    rows = pa.Table.from_pylist(events, pa.schema({**numbers, **ANY_KEY}))
    pq.write_table(rows, tmp_path / "0.parquet", row_group_size=6)
    kinds = ("string", "bigint", "timestamp", "date", "int")
    declared = {"ts": "bigint", "n": "bigint", **dict(zip(ANY_KEY, kinds, strict=True))}
    catalog = sase.Catalog(types=dict.fromkeys("ABC", declared))
    settings = {"spark.sql.session.timeZone": "GMT+03:00", "spark.sql.execution.arrow.useLargeVarTypes": "true"}
    before = {name: spark.conf.get(name) for name in settings}
    query = "EVENT SEQ(A x, B y) WHERE [{}] WITHIN 9 RETURN x.n AS x, y.n AS y"
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        frame = spark.read.parquet(str(tmp_path))
        answers = {key: sase.compile(query.format(key), catalog).run(frame) for key in ANY_KEY}
        assert all(map(goes_in_cells, answers.values()))
        found = {key: Counter(map(canonical, rows)) for key, rows in rows_of(answers).items()}
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    expected = Counter(map(canonical, evaluate(query.format("place"), catalog, events)))
    assert expected and found == {key: expected for key in ANY_KEY}


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_what_has_arrived_is_known_where_it_stays(spark: SparkSession, tmp_path: Path, ordered: bool) -> None:
    catalog = aggregates.CATALOG if ordered else aggregates.UNORDERED
    later = [{**row, "ts": row["ts"] + 17 * (at // 30)} for at, row in enumerate(aggregates.events(8, 150))]
    rows = [{**row, "number": at} for at, row in enumerate(sorted(later, key=itemgetter("ts")))]
    frame, queries = written(spark, tmp_path, rows), aggregates.TOLD[1 - ordered : 5 : 2]
    answers = {(scan, query): sase.compile(query, catalog, scan=scan).run(frame) for scan in SCANS for query in queries}
    assert all(is_left_in_place(answer, scan) for (scan, _), answer in answers.items())
    aggregates.compare(
        (f"{scan} {query}", Case(query, catalog, rows), answer) for (scan, query), answer in answers.items()
    )


@pytest.mark.parametrize("scan", SCANS)
def test_timestamps_and_ends_of_windows(spark: SparkSession, tmp_path: Path, scan: str) -> None:
    """The window ends at the tick, wherever a part does."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    events = [
        {"type": "A" if at % 2 == 0 else "B", "ts": start + timedelta(seconds=at * 5), "id": at % 4 // 2, "n": 1}
        for at in range(120)
    ]
    frame = written(spark, tmp_path, events, timed=True)
    for seconds in (25, 26):
        query = f"EVENT SEQ(A x, B y) WHERE [id] WITHIN {seconds} seconds RETURN x.ts AS first, y.ts AS last"
        found = sase.compile(query, TIMED, scan=scan).run(frame)
        assert is_left_in_place(found, scan)
        naive = [{**event, "ts": event["ts"].replace(tzinfo=None)} for event in events]
        expected = Counter(canonical(row) for row in evaluate(query, TIMED, naive))
        assert Counter(canonical(row.asDict()) for row in found.collect()) == expected
        assert len(expected) == (60 if seconds == 25 else 118)


def test_an_event_at_a_cut_ends_its_matches_once(spark: SparkSession, tmp_path: Path) -> None:
    """Spans are cut where row groups begin, and here each begins with the time of the last event of the one before."""
    events = [
        {"type": "B" if at % 6 == 5 else "A", "ts": at // 6 * 10 + (10 if at % 6 == 5 else at % 6), "id": 1, "n": 1}
        for at in range(60)
    ]
    query = QUERIES[4]  # which has to see what comes behind a match, so spans read on behind their ends
    found = sase.compile(query, CATALOG, scan="worker").run(written(spark, tmp_path, events))
    assert is_left_in_place(found, "worker")
    expected = Counter(map(canonical, evaluate(query, CATALOG, events)))
    assert Counter(canonical(row.asDict(recursive=True)) for row in found.collect()) == expected
    assert expected.total() == 30


@pytest.mark.parametrize("why", ["strategy", "rule", "far", "small", "another column"])
def test_events_go_by_key_where_they_must(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    events, query = written(spark, tmp_path, stream(5)), QUERIES[0]
    options: dict[str, Any] = {"strategy": {"parallel": "key"}, "rule": {"disable": ["leave_in_place"]}}.get(why, {})
    if why == "far":
        monkeypatch.setattr(in_place, "MOST_NEAR", 0.01)
        monkeypatch.setattr(spans, "AGAIN", 0.01)
    if why == "small":
        monkeypatch.setattr(in_place, "LARGE", 1 << 30)
        monkeypatch.setattr(in_place, "SMALL", 1 << 30)
    if why == "another column":  # of whose name the files have one, too
        events, options = events.selectExpr("type", "n AS ts", "id", "ts AS n"), {"scan": "spark"}
    found = sase.compile(query, CATALOG, **options).run(events)
    assert not any(is_left_in_place(found, scan) for scan in SCANS)
    assert goes_in_cells(found) == (why == "far")


def test_files_that_are_cut_anew_are_noticed(spark: SparkSession, tmp_path: Path) -> None:
    found = sase.compile(QUERIES[0], CATALOG, scan="spark").run(written(spark, tmp_path, stream(6)))
    assert is_left_in_place(found, "spark")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "3KB")
    with pytest.raises(PySparkException, match="read in other parts than when their times were looked up"):
        found.collect()


def test_what_is_missing_is_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    events = stream(7)
    for event in events[::10]:
        event["type"] = None
    answer, tally = sase.compile(QUERIES[0], CATALOG).watched({None: written(spark, tmp_path, events)})
    assert is_left_in_place(answer, "spark")  # which counts them
    answer.collect()
    assert tally.counts().rejected == "10 events without a type"
