"""VDMS-PQ: the examples and random conditions, by the letter of its rules and in Spark; the letter's own queries."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from random_queries import Case
from test_stream_core import answers
from together import together
from vdms_judge import judge
from worked_examples import Example, Match, examples

from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.missing import with_escapes, without_missing
from sase.compiler.languages.registry import read
from sase.compiler.languages.sase.binder import bind
from sase.compiler.languages.vdms_pq.parser import parse
from sase.pictures import variants

EXAMPLES = examples("vdms-pq")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_letter_gives_what_the_example_says(example: Example) -> None:
    assert judged(example) == example.matches


def judged(example: Example) -> Counter[Match]:
    missing = "true" if example.settings.get("missing") == "true" else "left out"
    found = judge(example.query, example.catalog, example.given, missing)
    return Counter((tuple(event.label for event in match.values()), None) for match in found)


def bound(example: Example) -> BoundQuery:
    rule = with_escapes if example.settings.get("missing") == "true" else without_missing
    return bind(parse(example.query), example.catalog, missing=rule)


ROW = "__row"


def in_spark(cases: list[tuple[BoundQuery, dict[str, dict[str, Any]]]], spark: SparkSession) -> list[Counter[Match]]:
    """What each query finds among its own events, all in one job."""
    frames = []
    for number, (bound, given) in enumerate(cases):
        asked = variants.numbered(bound, ROW)
        columns = {f"row{at}": variants.column(asked, each.name, ROW) for at, each in enumerate(asked.positive)}
        rows = [{ROW: at, **row} for at, row in enumerate(given.values())]
        declared = (each for variable in bound.variables for each in variable.attributes.values())
        names = dict.fromkeys(["type", *(each.name for each in declared if not each.computed)])
        kinds = {name: "string" if name == "type" else "bigint" for name in (*names, ROW, "ts", "n")}
        table = spark.createDataFrame(
            [tuple(row.get(name) for name in kinds) for row in rows],
            ", ".join(f"{name} {kinds[name]}" for name in kinds),
        )
        matches = variants.found(variants.returning(asked, columns), table)
        frames.append(matches.select(F.lit(number).alias("case"), F.array(*columns).alias("events")))
    found: list[Counter[Match]] = [Counter() for _ in cases]
    for number, events in together(frames):
        labels = list(cases[number][1])
        found[number][tuple(labels[event] for event in events), None] += 1
    return found


# Every way in which a comparison can be left out: under AND, OR and NOT, of one variable and of two, in P+ and in P-.
CONDITIONS = [
    "y.speed > 1 OR y.code = 1",
    "NOT y.speed > 1",
    "NOT (y.speed > 1 AND y.code = 1)",
    "NOT (y.speed > 1 OR x.w = 1)",
    "(y.speed > 1 AND x.w = 1) OR y.code = 1",
    "(y.speed > 1 OR x.w = 1) && (NOT (y.code = 1) OR x.id = y.id)",
    "y.speed = x.w OR y.code = x.id",
    "(n.speed = 1 OR n.code = x.id)",
    "NOT (n.speed = x.id)",
    "x.id = n.id = y.id && (n.speed = 1 OR n.code = 1)",
    "x.id = y.id <= n.id",
    "n.id = x.id = m.id = y.id",
]
PATTERN = "PATTERN x:ANY(A, C), NOT(n:ANY(S, D)), y:ANY(S, D), NOT(m:D)"
VARIOUS = Catalog(
    types={
        "A": {"ts": "bigint", "id": "bigint", "w": "bigint"},
        "C": {"ts": "bigint", "id": "bigint"},
        "S": {"ts": "bigint", "id": "bigint", "speed": "bigint"},
        "D": {"ts": "bigint", "id": "bigint", "code": "bigint"},
    },
)


def various() -> dict[str, dict[str, Any]]:
    """Every type with every value, NULL included, in a fixed shuffle."""
    assert VARIOUS.types is not None
    rows = [
        {"type": kind, "n": None, "id": number, **{name: value for name in declared if name not in ("ts", "id")}}
        for kind, declared in VARIOUS.types.items()
        for number in (1, 2)
        for value in (1, 2, None)
    ]
    ordered = sorted(rows, key=lambda row: rows.index(row) * 7919 % 23)
    return {f"e{at}": {**row, "ts": at // 2} for at, row in enumerate(ordered)}


@pytest.mark.spark
def test_examples_and_conditions_in_spark(spark: SparkSession) -> None:
    given = various()
    queries = [f"{PATTERN} WHERE ({condition}) && m.id = 2 WITHIN 6" for condition in CONDITIONS]
    cases = [(bound(each), each.given) for each in EXAMPLES]
    cases += [(read(query, "q").bind(VARIOUS), given) for query in queries]
    found = in_spark(cases, spark)
    assert dict(zip((each.name for each in EXAMPLES), found, strict=False)) == {
        each.name: each.matches for each in EXAMPLES
    }
    for query, matches in zip(queries, found[len(EXAMPLES) :], strict=True):
        expected = judge(query, VARIOUS, given)
        assert expected, "a case that finds nothing tests nothing"
        assert matches == Counter((tuple(event.label for event in each.values()), None) for each in expected), query


@pytest.mark.spark
def test_examples_on_a_stream(spark: SparkSession) -> None:
    """With a window, where there is none, that reaches over all of them."""
    chosen = [each for each in EXAMPLES if "missing" not in each.settings]
    frames, schedules = [], list[int]()
    for number, example in enumerate(chosen):
        query = example.query if "WITHIN" in example.query else f"{example.query} WITHIN 1000"
        types = {name: {**kinds, "n": "bigint", ROW: "bigint"} for name, kinds in (example.catalog.types or {}).items()}
        columns = dict.fromkeys(name for kinds in types.values() for name in kinds)
        rows = [{**dict.fromkeys(columns), **row, ROW: at} for at, row in enumerate(example.given.values())]
        case = Case(query, replace(example.catalog, types=types), rows)
        names = [each.name for each in read(query, "q").bind(case.catalog).positive]
        different = answers(spark, case, "a stream", number)
        schedules.append(len(different))
        for answer in different.values():
            events = F.array(*(F.col(f"{name}.{ROW}") for name in names))
            frames.append(answer.select(F.lit(number).alias("case"), events.alias("events")))
    found: list[Counter[Match]] = [Counter() for _ in chosen]
    for number, events in together(frames):
        labels = list(chosen[number].given)
        found[number][tuple(labels[event] for event in events), None] += 1
    for example, matches, times in zip(chosen, found, schedules, strict=True):
        expected = {match: count * times for match, count in example.matches.items()}
        assert matches == expected, example.name


def test_without_missing_and_true_differ_only_under_or_and_not() -> None:
    sequence = "EVENT SEQ(ANY(A, C) x, !(ANY(S, D) n), ANY(S, D) y, !(D m))"
    both = "y.speed > 1 AND x.w = n.speed"
    either = "y.speed > 1 OR x.w = 1"

    def parts(pattern: str, condition: str) -> list[str]:
        return [str(part) for part in read(f"{pattern} WHERE {condition} WITHIN 9", "q").bind(VARIOUS).predicates]

    assert (
        parts(PATTERN, both)
        == parts(sequence, both)
        == [
            "y.type = 'D' OR y.speed > 1",
            "x.type = 'C' OR n.type = 'D' OR x.w = n.speed",
        ]
    )
    assert parts(sequence, either) == ["(y.type = 'D' OR y.speed > 1) OR (x.type = 'C' OR x.w = 1)"]
    assert parts(PATTERN, either) == [
        "(x.type = 'C' AND y.type = 'D') OR "
        "(((NOT (y.type = 'D')) AND y.speed > 1) OR ((NOT (x.type = 'C')) AND x.w = 1))"
    ]


def test_a_language_is_recognised_by_its_first_words_or_forced() -> None:
    text = "/* a comment */ -- and another\n  pattern x:A, y:S"
    assert [variable.name for variable in read(text, "q").bind(VARIOUS).variables] == ["x", "y"]
    assert [*read("EVENT SEQ(A x, S y)", "q", "sase").types] == ["A", "S"]
    assert replace(read(text, "q"), bind=without_missing) == replace(read(text, "q", "vdms-pq"), bind=without_missing)  # type: ignore[arg-type]
