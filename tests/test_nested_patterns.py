"""Patterns that are no sequences, in real Spark: the examples of the seeds, and random ones whatever the plan.

An event has a number, so that a match is compared by the numbers of its events: many cases are one Spark job.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from brute_force import evaluate
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from random_queries import Case, nested_cases
from test_algebra import EXAMPLES, TRAP_CATALOG, TRAP_EVENTS, TRAPS, events, text
from test_random_queries import compiled, different, frame, some_plans
from test_stream_core import answers
from together import together

import sase
from sase.compiler.core.catalog import Catalog

NUMBER = "number"


def numbered(case: Case) -> Case:
    """With a number in every event, which every type declares."""
    order = case.catalog.order
    common = {NUMBER: "bigint", **({order: "bigint"} if order else {})}
    types = {name: {**common, **declared} for name, declared in (case.catalog.types or {}).items()}
    catalog = Catalog(order=order, types=types, parameters=case.catalog.parameters)
    return Case(case.query, catalog, [{**event, NUMBER: at} for at, event in enumerate(case.events)])


def shown(match: dict[str, Any]) -> str:
    """A match by the numbers of its events. What is collected at one time is in no order."""
    numbers: dict[str, Any] = {}
    for name, value in match.items():
        if isinstance(value, dict):
            numbers[name] = value[NUMBER]
        elif isinstance(value, list):
            numbers[name] = sorted(event[NUMBER] for event in value)
        elif value is not None:
            numbers[name] = value
    return json.dumps(numbers, sort_keys=True)


def compare(answers: Iterable[tuple[str, Case, DataFrame]]) -> None:
    """All answers, by name, in one Spark job, each of them equal to the judge's as a bag."""
    expected: dict[str, Counter[str]] = {}
    frames: list[DataFrame] = []
    for name, case, answer in answers:
        assert name not in expected
        expected[name] = Counter(map(shown, evaluate(*case)))
        frames.append(answer.select(F.lit(name).alias("name"), F.to_json(F.struct("*")).alias("match")))
    found: dict[str, Counter[str]] = {name: Counter() for name in expected}
    for name, match in together(frames):
        found[name][shown(json.loads(match))] += 1
    for name, bag in found.items():
        wrong = f"too many are {dict(bag - expected[name])}, missing are {dict(expected[name] - bag)}"
        assert bag == expected[name], f"{name}\n{wrong}"


def planned(
    spark: SparkSession, cases: Iterable[Case], plans: list[str] | None = None
) -> Iterator[tuple[str, Case, DataFrame]]:
    """The answers of the default plan, and of some others."""
    for number, case in enumerate(map(numbered, cases)):
        rows = frame(spark, case)
        queries = {"the default plan": compiled(case)} if plans is None else different(case, plans)
        for plan, query in queries.items():
            yield f"{number}, {plan}: {case.query}", case, query.run(rows)


def is_followed(case: Case) -> bool:
    """What a stream has used up is known before Spark decides what does not come apart, so both are refused."""
    try:
        return bool(sase.compile(case.query, case.catalog, stream=True))
    except sase.SaseError as error:
        assert "on a stream CONSUME EXCLUSIVE chooses among matches before" in str(error)
        return False


def test_examples_and_traps(spark: SparkSession) -> None:
    cases = [Case(text(example), example.catalog, events(example)) for example in EXAMPLES]
    traps = [Case(query, TRAP_CATALOG, TRAP_EVENTS) for query in TRAPS]
    compare([*planned(spark, cases), *planned(spark, traps, ["slices of one tick"])])


@settings(max_examples=tries(3))
@given(cases=st.lists(nested_cases(), min_size=3, max_size=3), plans=some_plans(2))
def test_every_plan_gives_the_answer_of_the_judge(spark: SparkSession, cases: list[Case], plans: list[str]) -> None:
    compare(planned(spark, cases, plans))


@settings(max_examples=tries(3))
@given(cases=st.lists(nested_cases(windowed=True), min_size=3, max_size=3), seed=st.integers(0, 10**6))
def test_a_stream_gives_the_answer_of_the_judge(spark: SparkSession, cases: list[Case], seed: int) -> None:
    compare(
        (f"{number}, {name}: {case.query}", case, answer)
        for number, case in enumerate(filter(is_followed, map(numbered, cases)))
        for name, answer in answers(spark, case, "a stream", seed).items()
    )
