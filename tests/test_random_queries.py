"""One answer: random queries on random streams, in real Spark, whatever the plan, against the judge.

An example costs a second or more, so it runs some of the plans in a single Spark job: those that differ as text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from ansi import ansi_mode
from brute_force import Verdict, evaluate, verdict
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from random_queries import KINDS_AT_THE_END, UNITS, Case, cases, cases_at_the_end, kind_of_time

import sase
from sase.compiler.plan.rules import NAMES

EXAMPLES = settings.default.max_examples // 8

# What the options can force. Lengths of slices are in ticks of the case's time column.
PLANS: dict[str, dict[str, Any]] = {
    "the default plan": {},
    "the basic plan": {"disable": NAMES},
    **{f"without {rule}": {"disable": [rule]} for rule in NAMES},
    "negation in the stacks": {"negation": "stack"},
    "negation by anti-join": {"negation": "anti-join"},
    "anti-join before selection": {"negation": "anti-join", "negation_place": "before"},
    "one partition": {"partitions": 1},
    "many partitions": {"partitions": 5},
    "not sliced": {"slice": "off"},
    "slices of one tick": {"slice": "1"},
    "slices of five ticks": {"slice": "5"},
    "without stacks": {"construction": "basic"},
    "tests in selection": {"equivalence": "selection"},
    "dynamic filtering": {"equivalence": "pais"},
    "Multi-PAIS": {"equivalence": "multi-pais"},
    "Multi-PAIS without stacks": {"equivalence": "multi-pais", "construction": "basic"},
    "shuffled by time alone": {"parallel": "time"},
    "shuffled by key alone": {"parallel": "key"},
}
ALWAYS = ("the default plan", "the basic plan")


def some_plans(count: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(list(PLANS)), min_size=count, max_size=count, unique=True)


# Queries that a plan is easily wrong about, all on one stream. D has no `id`, whatever its row says.
TRAPS = [
    # A positive event whose attribute is NULL agrees with no negated event, so nothing forbids it.
    ("EVENT SEQ(A x, !(C y), B z) WHERE x.id = y.id = z.id", "without stacks"),
    ("EVENT SEQ(A x, !(C y), B z) WHERE y.n > x.n WITHIN 9", "negation by anti-join"),
    ("EVENT SEQ(A x, !(B y)) WHERE [id] WITHIN 3", "negation in the stacks"),
    ("EVENT SEQ(!(B y), A x) WHERE [id] WITHIN 3", "negation in the stacks"),
    ("EVENT SEQ(A x, B y, !(C z)) WHERE x.n != z.n WITHIN 6", "slices of one tick"),
    # Between x and z, y is nobody's link: they may differ.
    ("EVENT SEQ(A x, !(C y), B z) WHERE y.id = x.id AND y.id = z.id WITHIN 9", "Multi-PAIS"),
    # An event has two keys, one as x and one as y.
    ("EVENT SEQ(A x, A y) WHERE x.id = y.n WITHIN 9", "tests in selection"),
    ("EVENT SEQ(A x, !(A y), A z) WHERE x.id = y.n AND [id] WITHIN 9", "negation in the stacks"),
    # A component that lacks the attribute does not break the tie between the others.
    ("EVENT SEQ(A x, D y, ANY(A, B, D) z) WHERE [id]", "dynamic filtering"),
    ("EVENT SEQ(A x, !(ANY(C, D) y), B z) WHERE [id] AND y.n >= x.n WITHIN 9", "negation by anti-join"),
    # NOT reaches both tests.
    ("EVENT SEQ(A x, B y) WHERE NOT [id, n]", "without filter_in_construction"),
    # NULL in the list makes NOT IN unknown.
    ("EVENT SEQ(A x, B y) WHERE x.id NOT IN (y.id, y.n, 7)", "without filter_in_construction"),
    ("EVENT SEQ(A x, !(C w), B y) WHERE NOT (w.id = 1 OR y.id = 2) WITHIN 9", "anti-join before selection"),
]
TRAP_STREAM = [
    *(("A", 1, 1, 1), ("A", 1, None, None), ("A", 2, 2, None), ("C", 2, 1, 2), ("C", 3, None, 1)),
    *(("B", 4, 1, 1), ("B", 4, 2, None), ("D", 4, 9, 3), ("A", 5, 1, 2), ("C", 5, 2, 0), ("A", 6, 2, 1)),
    *(("B", 6, None, 2), ("D", 6, 1, None), ("B", 7, 2, 3), ("A", 7, None, 1), ("C", 8, 1, 1), ("B", 9, 1, 2)),
]


@pytest.mark.parametrize(("query", "plan"), TRAPS)
def test_traps(spark: SparkSession, query: str, plan: str) -> None:
    both = {"ts": "bigint", "id": "bigint", "n": "bigint"}
    catalog = sase.Catalog(types={"A": both, "B": both, "C": both, "D": {"ts": "bigint", "n": "bigint"}})
    case = Case(query, catalog, [dict(zip(("type", *both), row, strict=True)) for row in TRAP_STREAM])
    assert evaluate(*case), "a trap without a match tests nothing"
    events = frame(spark, case)
    compare(case, {name: compiled(case, name).run(events) for name in (*ALWAYS, plan)})


@settings(max_examples=EXAMPLES)
@given(case=cases(), more=some_plans(6))
def test_every_plan_gives_the_answer_of_the_judge(spark: SparkSession, case: Case, more: list[str]) -> None:
    events = frame(spark, case)
    compare(case, {plan: query.run(events) for plan, query in different(case, more).items()})


@settings(max_examples=EXAMPLES // 2)
@given(cases=st.lists(cases_at_the_end(), min_size=3, max_size=3), ansi=st.booleans())
def test_numbers_that_do_not_fit(spark: SparkSession, cases: list[Case], ansi: bool) -> None:
    judge_numbers(spark, cases, ansi)


# Sums that reach the ends of their types, or do so once they are moved.
SUMS = [
    *("x.l + y.l > 1000", "y.l - x.l > 2", "x.l + y.l = 9007199254740992", "x.i + y.i > 1000", "y.i - x.i > 2"),
    *("x.i = y.f", "x.l IN (y.l, y.d)", "CAST(x.i AS bigint) + y.i > 1000"),
]
AT_THE_END = {  # in the order of KINDS_AT_THE_END
    "zero": (0, 0, 0, 0, 0.0, 0.0),
    "one": (1, 1, 2**24 + 1, 2**53 + 1, 1.0, 1.0),
    "low": (-(2**7), -(2**15), -(2**31), -(2**63), -1.0, -1.0),
    "middle": (9, 9, 5000, 2**53, 2.0**24, 9.0),
    "high": (2**7 - 1, 2**15 - 1, 2**31 - 1, 2**63 - 1, 9.0, 2.0**53),
}


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "not ansi"])
def test_sums_at_the_end(spark: SparkSession, ansi: bool) -> None:
    """Beside 0 everything fits, so there is an answer; beside 1 it does not."""
    catalog = sase.Catalog(types={name: {"ts": "bigint", **KINDS_AT_THE_END} for name in "AB"})

    def stream(*first: str) -> list[dict[str, Any]]:
        named = [*(("A", name) for name in first), *(("B", name) for name in ("low", "middle", "high"))]
        rows = ((kind, ts, *AT_THE_END[name]) for ts, (kind, name) in enumerate(named))
        return [dict(zip(("type", "ts", *KINDS_AT_THE_END), row, strict=True)) for row in rows]

    streams = [stream("zero"), stream("one")] if ansi else [stream("zero", "one")]
    cases = [
        Case(f"EVENT SEQ(A x, B y) WHERE {condition} WITHIN 9", catalog, events)
        for events in streams
        for condition in SUMS
    ]
    judged = [verdict(*case, ansi) for case in cases]
    assert sum(bool(found.matches) for found in judged) >= len(SUMS)
    assert any(found.matches is None for found in judged) == ansi
    judge_numbers(spark, cases, ansi)


def judge_numbers(spark: SparkSession, cases: list[Case], ansi: bool) -> None:
    """In one Spark job, what does not overflow. Of the rest, which fails, what comes first.

    A plan may fail where an expression does, and must where a match depends on it; it may not give another answer.
    """
    fine: dict[str, DataFrame] = {}
    expected: dict[str, list[dict[str, Any]]] = {}
    risky: list[tuple[Case, Verdict]] = []
    with ansi_mode(spark, ansi):
        for place, case in enumerate(cases):
            judged = verdict(*case, ansi)
            if judged.matches is None or judged.may_fail:
                risky.append((case, judged))
                continue
            for plan, query in different(case, []).items():
                fine[f"{place}, {plan}"] = query.run(frame(spark, case))
                expected[f"{place}, {plan}"] = judged.matches
        if fine:
            bags: dict[str, Counter[Any]] = {name: Counter() for name in fine}
            for name, answer in collect(fine):
                bags[name][canonical(answer)] += 1
            assert bags == {name: Counter(map(canonical, matches)) for name, matches in expected.items()}
        for case, judged in risky[:2]:
            for plan in ALWAYS:
                try:
                    compare(case, {plan: compiled(case, plan).run(frame(spark, case))}, judged.matches or [])
                except ArithmeticException:
                    continue
                assert judged.matches is not None, f"{plan}: an overflow that decides about a match is not seen"


@settings(max_examples=EXAMPLES // 4)
@given(case=cases())
def test_without_the_jit(spark: SparkSession, case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SASE_JIT", "0")
        compare(case, {"without the JIT": compiled(case).run(frame(spark, case))})


@settings(max_examples=EXAMPLES // 4)
@given(case=cases())
def test_a_table_a_type_gives_the_same_answer(spark: SparkSession, case: Case) -> None:
    """Each type has its own table, with the columns that it declares and no other."""
    assert case.catalog.types is not None
    whole = frame(spark, case)
    tables = {
        name: whole.where(F.col("type") == name).select(*declared) for name, declared in case.catalog.types.items()
    }
    compare(case, {"one table per type": compiled(case).run(tables)})


def different(case: Case, more: Sequence[str]) -> dict[str, sase.Query]:
    """Two plans that are always worth it and some more, if they are possible and differ as text."""
    jobs: dict[str, tuple[str, sase.Query]] = {}
    for plan in (*ALWAYS, *more):
        try:
            query = compiled(case, plan)
        except sase.OptionError:  # this query cannot be evaluated so
            continue
        jobs.setdefault(query.job, (plan, query))
    return dict(jobs.values())


def compiled(case: Case, plan: str = "the default plan") -> sase.Query:
    options = PLANS[plan]
    if options.get("slice", "off") != "off":
        options = {"slice": f"{options['slice']} {UNITS[kind_of_time(case.catalog)]}".rstrip()}
    return sase.compile(case.query, case.catalog, **options)


# ---- Spark --------------------------------------------------------------------------------------


def frame(spark: SparkSession, case: Case) -> DataFrame:
    """The events as one table, in the order they come in."""
    assert case.catalog.types is not None
    columns = {"type": "string"}
    for declared in case.catalog.types.values():
        columns.update(declared)
    rows = [tuple(event[name] for name in columns) for event in case.events]
    return spark.createDataFrame(rows, ", ".join(f"{name} {kind}" for name, kind in columns.items()))


def compare(case: Case, answers: dict[str, DataFrame], judged: list[dict[str, Any]] | None = None) -> None:
    """All answers in one Spark job, each of them equal to the judge's as a bag."""
    expected = Counter(map(canonical, evaluate(*case) if judged is None else judged))
    found: dict[str, Counter[Any]] = {name: Counter() for name in answers}
    for name, answer in collect(answers):
        found[name][canonical(answer)] += 1
    for name, bag in found.items():
        if bag != expected:
            note(compiled(case, name if name in PLANS else "the default plan").job)
            pytest.fail(f"{name}: too many are {dict(bag - expected)}, missing are {dict(expected - bag)}")


def collect(answers: dict[str, DataFrame]) -> Iterator[tuple[str, dict[str, Any]]]:
    together: DataFrame | None = None
    for name, answer in answers.items():
        named = answer.select(F.lit(name).alias("plan"), F.struct("*").alias("answer"))
        together = named if together is None else together.union(named)
    assert together is not None
    for row in together.collect():
        yield row["plan"], row["answer"].asDict(recursive=True)


def canonical(value: Any) -> Any:
    """Equal exactly where two values mean the same: NaN is NaN, -0.0 is 0.0."""
    match value:
        case dict():
            return tuple(sorted((name, canonical(item)) for name, item in value.items()))
        case list():
            return tuple(map(canonical, value))
        case float() if math.isnan(value):
            return "NaN"
        case float():
            return value + 0.0
        case _:
            return value
