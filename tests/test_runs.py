"""Runs and loops: what the judge says of them by hand, what the worker finds, and what Spark does."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from brute_force import evaluate
from effort import tries
from pyspark.sql import SparkSession
from random_queries import Case
from random_runs import CATALOG, events, run_case
from test_nested_patterns import compare
from test_random_queries import compiled, frame

import sase
from sase.compiler.plan.physical import Choose, Runs
from sase.pictures.plan import plan
from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.sort import SortKey
from sase.runtime.operator.choice import choose_runs
from sase.runtime.operator.rows import Task, run
from sase.runtime.row_pattern import Over


def letters(text: str) -> list[dict[str, Any]]:
    """`a1 b2=7`: an A at 1, and a B at 2 whose v is 7."""
    found = []
    for number, word in enumerate(text.split()):
        event, _, value = word.partition("=")
        kind, time = event[0].upper(), int(event[1:])
        found.append({"ts": time, "type": kind, "id": 1, "v": int(value or 0), "number": number})
    return found


def shown(match: dict[str, Any]) -> str:
    """`a1 [b2 b4] c5`"""

    def name(event: dict[str, Any] | None) -> str:
        return "-" if event is None else f"{event['type'].lower()}{event['ts']}"

    values = [value for key, value in match.items() if key not in ("started_at", "detected_at")]
    return " ".join(f"[{' '.join(map(name, each))}]" if isinstance(each, list) else name(each) for each in values)


STREAM = "a1 b2 d3 b4 c5 a6 b7 c8"


@pytest.mark.parametrize(
    ("query", "given", "expected"),
    [
        ("SEQ(A+ a, B b)", "a1 a2 b3", ["[a1] b3", "[a2] b3", "[a1 a2] b3"]),
        ("SEQ(A a, B? b, C c)", "a1 b2 c3", ["a1 - c3", "a1 b2 c3"]),
        ("SEQ(A a, B{0,2} b, C c)", "a1 b2 c3", ["a1 [] c3", "a1 [b2] c3"]),
        ("SEQ(A a, B{0,2} b, C c) WHERE count(b) >= 1", "a1 b2 c3", ["a1 [b2] c3"]),
        ("SEQ(B{2,3} b) WHERE b[i].v > b[i-1].v", "b1=1 b2=3 b3=2", ["[b1 b2]", "[b1 b3]"]),
        # One stream and its answers: strategies.md shows them.
        ("SEQ(A a, B+ b, C c) SKIP TILL NEXT MATCH", STREAM, ["a1 [b2 b4] c5", "a6 [b7] c8"]),
        ("SEQ(A a, B+ b, C c) PARTITION CONTIGUITY", STREAM, ["a6 [b7] c8"]),
        ("SEQ(A a, B+ b, C c) STRICT CONTIGUITY", STREAM, ["a6 [b7] c8"]),
        # The first event that can close the match closes it, and what must hold of a loop says when that is.
        ("SEQ(A a, B+ b, C c) WHERE count(b) >= 2 SKIP TILL NEXT MATCH", "a1 b2 c3 b4 c5", ["a1 [b2 b4] c5"]),
        ("SEQ(A a, B{2,} b) WHERE sum(b.v) > 6 SKIP TILL NEXT MATCH", "a1 b2=3 b3=2 b4=5 b6=1", ["a1 [b2 b3 b4]"]),
        ("SEQ(A a, B+ b) SKIP TILL NEXT MATCH", "a1 b2 b3", ["a1 [b2]"]),
        ("SEQ(A a, ANY(B, C)+ b, C c) SKIP TILL NEXT MATCH", "a1 b2 c3 c4", ["a1 [b2] c3"]),
        # What looks back is left out for the first event of a loop; an event that does not fit is passed over.
        ("SEQ(A a, B* b, C c) WHERE b[i].v > b[i-1].v SKIP TILL NEXT MATCH", "a1 b2=3 b3=2 b4=5 c6", ["a1 [b2 b4] c6"]),
        # An event that may not be there ends a run, unless a loop goes on behind it.
        ("SEQ(A a, B+ b, !(D d), C c) SKIP TILL NEXT MATCH", "a1 b2 d3 c4 b5 c6", ["a1 [b2 b5] c6"]),
        ("SEQ(A a, !(D d), B+ b, C c) SKIP TILL NEXT MATCH", "a1 d2 b3 c4", []),
        ("SEQ(A a, C c) SKIP TILL NEXT MATCH", "a1 a2 c3", ["a1 c3", "a2 c3"]),
        ("SEQ(A a, C c) SKIP TILL NEXT MATCH AFTER MATCH SKIP PAST LAST ROW", "a1 a2 c3", ["a1 c3"]),
        ("SEQ(A a, C c) WITHIN 2 SKIP TILL NEXT MATCH", "a1 a2 c3", ["a2 c3"]),
        # Among the matches that one event completes; and each event in those of one moment.
        ("SEQ(first A a, C c) SKIP TILL NEXT MATCH", "a1 a2 c3 a4 c5", ["a1 c3", "a4 c5"]),
        ("SEQ(last A a, B+ b, C c) SKIP TILL NEXT MATCH", "a1 b2 a3 b4 c5", ["a3 [b4] c5"]),
        ("SEQ(A a, B b) SKIP TILL NEXT MATCH CONSUME EXCLUSIVE", "a1 a2 b3 b4", ["a1 b3", "a2 b3"]),
        ("SEQ(A a, B{2} b) SKIP TILL NEXT MATCH CONSUME EXCLUSIVE", "a1 b2 a3 b4 b5", ["a1 [b2 b4]"]),
    ],
)
def test_the_judge(query: str, given: str, expected: list[str]) -> None:
    assert sorted(map(shown, evaluate(f"EVENT {query}", CATALOG, letters(given)))) == sorted(expected)


# ---- the worker ---------------------------------------------------------------------------------


def relevant(step: Runs, events: list[dict[str, Any]], event: Mapping[str, str]) -> pa.Table:
    """What the job makes of single events, with SQLite in the place of Spark; `event` are columns, in SQL, by name."""
    names = ["ts", "type", "id", "v", "number"]
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE events (ts INTEGER, type TEXT, id INTEGER, v INTEGER, number INTEGER)")
    database.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", ([row[name] for name in names] for row in events))
    bits = " + ".join(f"{1 << bit} * (({sql}) IS TRUE)" for bit, sql in enumerate(step.pattern.fills.values()))
    terms = step.pattern.terms
    numbers = {name for name, sql in terms.items() if sql.startswith("CASE") and sql.endswith("END")}
    order = ", ".join([*step.keys, "ts"])
    number = f"row_number() OVER (ORDER BY {order})"
    columns = {
        "_sase_time": "ts",
        "_sase_symbols": bits,
        "_sase_place": number,
        "id": "id",
        "v": "v",
        **event,
        **terms,
    }
    rows = database.execute(
        f"SELECT {', '.join(columns.values())} FROM events WHERE {step.relevant or 'true'} ORDER BY {order}"
    ).fetchall()
    kinds = [pa.bool_() if name in terms and name not in numbers else pa.int64() for name in columns]
    values = list(zip(*rows, strict=True)) or [()] * len(kinds)
    arrays = [
        pa.array([None if cell is None else kind.to_pandas_dtype()(cell) for cell in each], kind)
        for each, kind in zip(values, kinds, strict=True)
    ]
    return pa.table(arrays, names=list(columns))


def measures_of(job: Any, event: pa.DataType) -> tuple[tuple[str, Any, pa.DataType], ...]:
    def kind(value: Any) -> pa.DataType:
        of_one = pa.int64() if value.column == "_sase_place" else event
        return pa.list_(of_one) if isinstance(value, Over) else of_one

    return tuple((name, value, kind(value)) for name, value in job.VALUES.items())


def names_of(query: sase.Query, step: Runs) -> dict[str, str]:
    """The variables of a result, by what of a match holds their events."""
    variables = query.compiled.physical.result.variables
    return {value: name for name, value in step.values.items() if name in variables}


def found_by_worker(case: Case, chunk_rows: int, jit: bool) -> Iterator[dict[str, Any]]:
    """What the job would do: the matches by the numbers of their events."""
    query = sase.compile(case.query, case.catalog)
    step = query.compiled.physical.only(Runs)
    assert step is not None
    job = query.batch_job
    table = relevant(step, case.events, {"_sase_event": "number"})
    task = Task(
        pattern=job.PATTERN,
        names=tuple(table.column_names),
        by=tuple(job.ORDER.by),
        keys=(SortKey("_sase_time"),),
        symbols="_sase_symbols",
        shown="one row",
        kept=(),
        measures=measures_of(job, pa.int64()),
        batch_rows=3,
        chunk_rows=chunk_rows,
        jit=jit,
        steps_per_row=10_000,
        refuse_ties=True,
    )
    shown = names_of(query, step)
    batches = run(task, iter(table.to_batches(max_chunksize=2)))
    if step.chosen:
        places = {name: at for at, name in enumerate(job.VALUES)}
        (choice,) = query.compiled.physical.every(Choose)
        numbers, *columns = (places[name] for name in step.chosen)
        modes = [(column, mode) for column, (_, mode) in zip(columns, choice.select, strict=True)]
        batches = choose_runs(numbers, modes, choice.exclusive, batches)
    for batch in batches:
        for row in batch.to_pylist():
            looked_up = dict(zip(job.VALUES, row.values(), strict=False))
            yield {shown[name]: value for name, value in looked_up.items() if name in shown}


def by_number(match: dict[str, Any]) -> str:
    def number(value: Any) -> Any:
        return value["number"] if isinstance(value, dict) else value

    return str(
        {
            name: list(map(number, value)) if isinstance(value, list) else number(value)
            for name, value in match.items()
            if name not in ("started_at", "detected_at", "reached")
        }
    )


@pytest.mark.parametrize("jit", [False, True])
def test_random_runs_in_the_worker(jit: bool) -> None:
    for seed in range(tries(60)):
        case = run_case(Random(f"{seed} {jit}"))
        expected = Counter(map(by_number, evaluate(*case)))
        found = Counter(map(by_number, found_by_worker(case, Random(seed).choice([1, 3, 100]), jit)))
        assert found == expected, f"{seed}: {case.query}\n{case.events}"


def test_events_at_one_time_are_an_error() -> None:
    case = Case("EVENT SEQ(A a, B b) SKIP TILL NEXT MATCH", CATALOG, letters("a1 b2 b2"))
    with pytest.raises(SaseRunError, match="nothing says which of them is the next"):
        list(found_by_worker(case, 100, False))


def test_pictures_show_loops() -> None:
    query = "EVENT SEQ(A a, B+ b, !(D d), C c) WHERE [id] AND b.v > a.v AND sum(b.v) > 3 WITHIN 10 SKIP TILL NEXT MATCH"
    assert "R→  Runs                   a → b+ → c, within 10" in str(plan(sase.compile(query, CATALOG)))
    assert str(sase.nfa(sase.compile(query, CATALOG))).splitlines() == [
        "( 0 )  start",
        "  │    A a",
        "  ▼",
        "( 1 )",
        "  │    B+ b",
        "  │      [id]",
        "  │      b.v > a.v",
        "  ▼",
        "( 2 )  ↺ B+ b",
        "  │    C c",
        "  │      [id]",
        "  │      sum(b.v) > 3",
        "  │      c.ts - a.ts < 10",
        "  │    ✗ no D d",
        "  ▼",
        "((3))  match",
    ]


# ---- Spark --------------------------------------------------------------------------------------


def test_random_runs_in_spark(spark: SparkSession) -> None:
    cases = [run_case(Random(seed)) for seed in range(5)]
    chosen = "EVENT SEQ(last A a, ANY(B, C)+ b, C c) WHERE [id] AND count(b) >= 2 WITHIN 30 SKIP TILL NEXT MATCH"
    cases.append(Case(f"{chosen} CONSUME EXCLUSIVE", CATALOG, events(Random(0), 60)))
    compare(
        (f"{number}: {case.query}", case, compiled(case).run(frame(spark, case))) for number, case in enumerate(cases)
    )
