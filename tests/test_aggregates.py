"""Aggregates at run time in patterns of all kinds, in batch and on streams, against the judge."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from aggregate_judge import judged
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from random_queries import Case
from test_random_queries import frame
from test_stream_core import answers
from together import together

import sase
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import OptionError
from sase.compiler.languages.sase.parser import parse
from sase.compiler.plan.physical import Arrive
from sase.compiler.plan.statistics import Statistics

NUMBER = "number"
COLUMNS = {"ts": "bigint", "n": "bigint", NUMBER: "bigint", "id": "bigint", "v": "bigint", "x": "double"}
CATALOG = Catalog(order="n", types={kind: dict(COLUMNS) for kind in "ABC"})
UNORDERED = Catalog(types={kind: {name: COLUMNS[name] for name in COLUMNS if name != "n"} for kind in "ABC"})


def events(seed: int, size: int = 24) -> list[dict[str, Any]]:
    """Some are simultaneous, some without a value."""
    chosen = random.Random(seed)
    rows = [
        {
            "type": chosen.choice("AABBC"),
            "ts": chosen.randrange(18),
            "n": chosen.randrange(3),
            "id": chosen.randrange(2),
            "v": chosen.choice((None, *range(-3, 9))),
            "x": chosen.choice((None, 0.1, 0.2, 0.3, 1e300, -1e300, 2.5)),
        }
        for _ in range(size)
    ]
    return [{**row, NUMBER: at} for at, row in enumerate(rows)]


# The last event is one of several, in a group, not in all branches, only in whole matches.
ARRIVALS = [
    "EVENT AND(A a, B b) WHERE b.v > avg*(b.v) WITHIN 6",
    "EVENT AND(A a, B b) WHERE [id] AND a.v + b.v > sum*(b.v) WITHIN 6",
    "EVENT OR(SEQ(A a, B b), AND(C c, B b)) WHERE b.v >= max*(b.v) WITHIN 6",
    "EVENT SEQ(A a, AND(B b, C c)) WHERE count*(a.v) > 1 AND b.v > min*(c.v) WITHIN 6",
    "EVENT SEQ(AND(A a, B b), C c) WHERE c.v >= avg*(a.v)",
    "EVENT AND(A a, B b, NOT C n) WHERE [id] AND n.v > avg*(n.v) WITHIN 5",
    "EVENT SEQ(A{1,2} a, B b) WHERE b.v > avg*(a.v) WITHIN 6",
    "EVENT B b WHERE b.v > min*(b.v) WITHIN 6",
    "EVENT SEQ(A a, !(C n), B b) WHERE [id] AND abs(a.v - avg*(b.v)) < 4 AND n.v > min*(a.v) WITHIN 6",
    "EVENT SEQ(A a, B b) WHERE b.x >= avg*(b.x) WITHIN 9",
    "EVENT AND(A a, B b) WITHIN 4 RETURN a.number AS a, b.number AS b, avg*(a.v) AS mean, sum*(b.v) AS total, "
    "count*(b.x) AS many, max*(b.x) AS most",
]


# What the kernel's worker can be told, in time slices: by key and without, of other types than the last event's, of
# several, with the first event of the same type, in RETURN alone.
TOLD = [
    "EVENT SEQ(A a, B b) WHERE [id] AND b.x >= 0.5 * avg*(b.x) WITHIN 6",
    "EVENT SEQ(A a, B b) WHERE b.x <= max*(b.x) AND b.v > avg*(a.v) WITHIN 5",
    "EVENT SEQ(B a, B b, C c) WHERE a.id = c.id AND c.v <= avg*(b.v) WITHIN 7",
    "EVENT SEQ(B a, B b) WHERE b.v > avg*(b.v) WITHIN 2",
    "EVENT SEQ(A a, ANY(A, B) b) WHERE [id] AND (b.v >= avg*(b.v) OR b.v > avg*(a.x)) AND a.v < b.v WITHIN 9 "
    "RETURN a.number AS a, b.number AS b, sum*(b.v) AS total, min*(a.v) AS least",
    "EVENT SEQ(A a, B b) WHERE [id] WITHIN 40 "
    "RETURN a.number AS a, b.number AS b, max*(a.v) AS most, count*(b.v) AS many",
]


UNCERTAIN = Catalog(
    order="n", types={**{kind: {**COLUMNS, "prob": "double"} for kind in "ABC"}, "D": {"ts": "bigint", "n": "bigint"}}
)

# Between, before, after, beside; only under a condition, that comes apart or not; in one of several branches; certain.
PROBABILITIES = [
    "EVENT SEQ(A a, !(B m), C c) WHERE probability() > 0.1 WITHIN 9",
    "EVENT SEQ(A a, !(B m), C c) WHERE [id] AND m.v > a.v WITHIN 9 RETURN a.number AS a, c.number AS c, "
    "probability() AS p",
    "EVENT SEQ(!(B k), A a, !(B m)) WITHIN 4 RETURN a.number AS a, probability() AS p",
    "EVENT AND(A a, C c, NOT B m) WITHIN 4 RETURN a.number AS a, c.number AS c, probability() AS p",
    "EVENT OR(SEQ(A a, !(B m), C c), SEQ(A a, B b)) WITHIN 4 RETURN a.number AS a, b.number AS b, c.number AS c, "
    "2 * probability() AS p",
    "EVENT SEQ(A a, !(B m), C c) WHERE abs(m.v - a.v) < 4 AND (probability() < 0.5 OR a.v > 3) WITHIN 9",
    "EVENT SEQ(A a, !(D d), C c) WITHIN 9 RETURN a.number AS a, c.number AS c, probability() AS p",
    "EVENT SEQ(A a, !(B m), !(C k), B b) WHERE m.v > 2 WITHIN 9 RETURN a.number AS a, b.number AS b, "
    "probability() AS p",
]


# With a start, of earlier variables, of keys, in any order, with what has arrived, with negation, in RETURN alone; and
# where results use up their events.
RESULTS = [
    "EVENT SEQ(A a, B b) WHERE b.v > coalesce(avg+(b.v), 0)",
    "EVENT SEQ(A a, B b) WHERE [id] AND b.v > coalesce(avg+(b.v), 0) WITHIN 6",
    "EVENT SEQ(A a, B b) WHERE a.v + b.v >= coalesce(max+(a.v), -5) AND b.v IS NOT NULL WITHIN 6",
    "EVENT AND(A a, B b) WHERE NOT (count+(b.id) > 3) WITHIN 6",
    "EVENT SEQ(A a, !(C n), B b) WHERE n.v > 4 AND (sum+(a.v) IS NULL OR sum+(a.v) * 2 - b.v < 9) WITHIN 6 "
    "RETURN a.number AS a, b.number AS b, sum+(a.v) AS total, min+(b.v) AS least",
    "EVENT B b WHERE b.x <> coalesce(avg+(b.x), 0) WITHIN 5",
    "EVENT OR(SEQ(A a, B b), SEQ(C c, B b)) WHERE b.v - 1 < coalesce(min+(c.v), b.v) OR b.v = 3 WITHIN 6",
    "EVENT SEQ(A a, B b) WITHIN 3 RETURN a.number AS a, b.number AS b, avg+(b.x) AS mean, count+(a.v) AS many",
    "EVENT SEQ(last A a, B b) WHERE b.v >= coalesce(avg+(b.v), 0) WITHIN 6 CONSUME EXCLUSIVE",
]


def uncertain(seed: int) -> list[dict[str, Any]]:
    chosen = random.Random(seed)
    rows = [{**row, "prob": chosen.choice((0.0, 0.25, 0.5, 0.75, 1.0, 0.5, None))} for row in events(seed, 20)]
    return [*rows, *({**dict.fromkeys(rows[0]), "type": "D", "ts": at, "n": 0} for at in (3, 9))]


def shown(match: dict[str, Any]) -> str:
    """By the numbers of its events, with what RETURN computes. An event has its own columns and no others."""
    known = set(COLUMNS) | {"type", "prob"}
    numbers: dict[str, Any] = {}
    for name, value in match.items():
        if isinstance(value, dict):
            assert set(value) <= known
            numbers[name] = value[NUMBER]
        elif isinstance(value, list):
            assert all(set(event) <= known for event in value)
            numbers |= {f"{name}[{at}]": event[NUMBER] for at, event in enumerate(value)}
        elif value is not None and name not in ("started_at", "detected_at", "reached"):
            numbers[name] = value
    return json.dumps(numbers, sort_keys=True)


def expected(case: Case) -> Counter[str]:
    found: Counter[str] = Counter()
    query = parse(case.query)
    for bound, values in judged(query, case.catalog, case.events):
        kept = values if query.returns is not None else bound
        found[json.dumps({name: each for name, each in kept.items() if each is not None}, sort_keys=True)] += 1
    return found


def compare(answers: Iterable[tuple[str, Case, DataFrame]]) -> None:
    """All in one job."""
    cases, frames = {}, []
    for name, case, answer in answers:
        cases[name] = case
        frames.append(answer.select(F.lit(name).alias("name"), F.to_json(F.struct("*")).alias("match")))
    found: dict[str, Counter[str]] = {name: Counter() for name in cases}
    for name, match in together(frames):
        found[name][shown(json.loads(match))] += 1
    for name, case in cases.items():
        wanted = expected(case)
        assert wanted, f"{name}: a case that finds nothing tests nothing"
        assert found[name] == wanted, f"{name}\ntoo many: {found[name] - wanted}\nmissing: {wanted - found[name]}"


@pytest.mark.spark
def test_what_has_arrived_in_batch(spark: SparkSession) -> None:
    cases = [
        Case(query, catalog, events(seed))
        for seed, query in enumerate(ARRIVALS)
        for catalog in ([CATALOG, UNORDERED] if seed % 3 == 0 else [CATALOG])
    ]
    compare(
        (f"{number}: {case.query}", case, sase.compile(case.query, case.catalog).run(frame(spark, case)))
        for number, case in enumerate(cases)
    )


@pytest.mark.spark
@pytest.mark.parametrize("way", ["slices", "before"])
def test_an_event_is_told_in_slices_as_before(spark: SparkSession, way: str) -> None:
    cases = [
        Case(query, catalog, events(seed, 40)) for seed, query in enumerate(TOLD) for catalog in (CATALOG, UNORDERED)
    ]
    compare(
        (f"{number}: {case.query}", case, sase.compile(case.query, case.catalog, arrivals=way).run(frame(spark, case)))
        for number, case in enumerate(cases)
    )


def test_events_are_told_in_slices_where_they_can_be() -> None:
    def inside(query: str) -> bool:
        step = sase.compile(query, CATALOG).compiled.physical.only(Arrive)
        assert step is not None
        return step.inside

    assert all(map(inside, TOLD))
    assert [query for query in ARRIVALS if inside(query)] == ["EVENT SEQ(A a, B b) WHERE b.x >= avg*(b.x) WITHIN 9"]


def test_events_that_do_not_last_long_are_told_before() -> None:
    for span, inside in ((95, False), (96, True)):
        step = sase.compile(TOLD[0], CATALOG, statistics=Statistics(1e6, span, {})).compiled.physical.only(Arrive)
        assert step is not None and step.inside == inside, "16 windows of 6"


@pytest.mark.parametrize(
    ("query", "strategy", "why"),
    [
        ("EVENT SEQ(A a, B b) WHERE b.x > avg*(b.x)", {}, "needs WITHIN, as there is nothing to cut the stream by"),
        (
            "EVENT AND(A a, B b) WHERE b.x > avg*(b.x) WITHIN 3",
            {},
            "is for sequences of single events, without negation",
        ),
        (
            "EVENT SEQ(A a, B b) WHERE [id] AND b.x > avg*(b.x) WITHIN 3",
            {"parallel": "key"},
            "slices and sorts in its own way: leave slice, parallel and sort out",
        ),
        (
            "EVENT SEQ(A a, B b) WHERE a.x > avg*(b.x) WITHIN 3",
            {},
            "needs conditions that compare doubles of the last event, and a.x > b.`avg*(b.x)` is another",
        ),
        (
            "EVENT SEQ(A a, B b) WHERE b.x > avg*(b.x) WITHIN 3",
            {"disable": ["window_in_scan"]},
            "needs the rules slice_by_time, window_in_construction, window_in_scan",
        ),
    ],
)
def test_why_they_are_not(query: str, strategy: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=f"^arrivals=slices {re.escape(why)}$"):
        sase.compile(query, CATALOG, arrivals="slices", **strategy)
    sase.compile(query, CATALOG, **strategy)


def test_without_what_has_arrived_nothing_is_told() -> None:
    with pytest.raises(OptionError, match=r"^arrivals=before is for avg\* and its like, and this query has none$"):
        sase.compile("EVENT A a", CATALOG, arrivals="before")
    with pytest.raises(
        OptionError, match=r"^a stream tells what has arrived when it releases an event: leave arrivals"
    ):
        sase.compile(TOLD[0], CATALOG, arrivals="slices", stream=True)


@pytest.mark.spark
def test_what_has_arrived_on_a_stream(spark: SparkSession) -> None:
    windowed = [query if "WITHIN" in query else f"{query} WITHIN 100" for query in ARRIVALS]
    cases = [Case(query, UNORDERED if seed % 4 == 0 else CATALOG, events(seed)) for seed, query in enumerate(windowed)]
    compare(
        (f"{name}: {case.query}", case, answer)
        for seed, case in enumerate(cases)
        for name, answer in answers(spark, case, "a stream", seed).items()
    )


@pytest.mark.spark
def test_probabilities_in_batch_and_on_a_stream(spark: SparkSession) -> None:
    cases = [Case(query, UNCERTAIN, uncertain(seed)) for seed, query in enumerate(PROBABILITIES)]
    batch = ((f"{case.query}", case, sase.compile(case.query, UNCERTAIN).run(frame(spark, case))) for case in cases)
    streams = (
        (f"{name}: {case.query}", case, answer)
        for seed, case in enumerate(cases)
        for name, answer in [*answers(spark, case, "a stream", seed).items()][:1]
    )
    compare([*batch, *streams])


def test_the_probability_of_the_supplement() -> None:
    """`SEQ(A, !B, C)` with 0.5, 0.25 and 0.8: 0.5 * 0.8 * (1 - 0.25)."""
    given = {"A": 0.5, "B": 0.25, "C": 0.8}
    rows = [{"type": kind, "ts": at, "n": 0, "prob": prob} for at, (kind, prob) in enumerate(given.items())]
    ((_, values),) = judged(parse("EVENT SEQ(A a, !(B b), C c) RETURN probability() AS p"), UNCERTAIN, rows)
    assert values["p"] == pytest.approx(0.3)


@pytest.mark.spark
def test_what_is_in_results_in_batch_and_on_a_stream(spark: SparkSession) -> None:
    cases = [Case(query, UNORDERED if seed % 3 else CATALOG, events(seed)) for seed, query in enumerate(RESULTS)]
    cases.append(Case(f"{RESULTS[0]} AND a.v > avg*(a.v) AND abs(a.v - b.v) < 9", CATALOG, events(9)))
    batch = ((case.query, case, sase.compile(case.query, case.catalog).run(frame(spark, case))) for case in cases)
    windowed = [case for case in cases if "WITHIN" in case.query]
    streams = (
        (f"{name}: {case.query}", case, answer)
        for seed, case in enumerate(windowed)
        for name, answer in answers(spark, case, "a stream", seed).items()
    )
    compare([*batch, *streams])
