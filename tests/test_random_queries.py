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
from brute_force import evaluate, verdict
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from random_queries import KINDS_AT_THE_END, UNITS, Case, cases, cases_at_the_end, kind_of_time
from together import rows_of, together

import sase
from sase.compiler.plan.rules import NAMES

# What the options can force. Lengths of slices and buckets are in ticks of the case's time column.
PLANS: dict[str, dict[str, Any]] = {
    "the default plan": {},
    "the basic plan": {"disable": NAMES},
    **{f"without {rule}": {"disable": [rule]} for rule in NAMES},
    "negation in the stacks": {"negation": "stack"},
    "negation by anti-join": {"negation": "anti-join"},
    "anti-join before selection": {"negation": "anti-join", "negation_place": "before"},
    "buckets of one tick": {"negation": "anti-join", "bucket": "1"},
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
    "sorted by Spark": {"sort": "spark"},
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
    # Several components that one anti-join looks for, of one type and of others.
    ("EVENT SEQ(!(C u), A x, !(C v), B y) WHERE [id] AND u.n >= x.n AND v.n < y.n WITHIN 9", "negation by anti-join"),
    ("EVENT SEQ(!(C u), A x, B y, !(ANY(C, A) w)) WHERE [id] AND u.n > 1 WITHIN 4", "buckets of one tick"),
    ("EVENT SEQ(A x, !(C u), B y, !(D v), C z) WHERE u.n > x.n AND v.n <= z.n", "negation by anti-join"),
    # Between x and z, y is nobody's link: they may differ.
    ("EVENT SEQ(A x, !(C y), B z) WHERE y.id = x.id AND y.id = z.id WITHIN 9", "Multi-PAIS"),
    # An event has two keys, one as x and one as y.
    ("EVENT SEQ(A x, A y) WHERE x.id = y.n WITHIN 9", "tests in selection"),
    ("EVENT SEQ(A x, !(A y), A z) WHERE x.id = y.n AND [id] WITHIN 9", "negation in the stacks"),
    # A component that lacks the attribute does not break the tie between the others.
    ("EVENT SEQ(A x, D y, ANY(A, B, D) z) WHERE [id]", "dynamic filtering"),
    ("EVENT SEQ(A x, !(ANY(C, D) y), B z) WHERE [id] AND y.n >= x.n WITHIN 9", "negation by anti-join"),
    # Every type of the catalog, those that lack the attribute among them.
    ("EVENT SEQ(A x, !(C n), ANY(*) z) WHERE [id] AND z.n > 1 WITHIN 4", "dynamic filtering"),
    # NOT reaches both tests.
    ("EVENT SEQ(A x, B y) WHERE NOT [id, n]", "without filter_in_construction"),
    # NULL in the list makes NOT IN unknown.
    ("EVENT SEQ(A x, B y) WHERE x.id NOT IN (y.id, y.n, 7)", "without filter_in_construction"),
    ("EVENT SEQ(A x, !(C w), B y) WHERE NOT (w.id = 1 OR y.id = 2) WITHIN 9", "anti-join before selection"),
    # NULL is a key to Spark, and equal to nothing in a query.
    ("EVENT SEQ(A x, B y) WHERE [id] WITHIN 9", "shuffled by time alone"),
    ("EVENT SEQ(A x, B y) WHERE [id, n] WITHIN 9", "sorted by Spark"),
    ("EVENT SEQ(A x, !(C w), B y) WHERE [id, n] WITHIN 9", "Multi-PAIS"),
    # An attribute that D lacks, though its rows have a value there.
    ("EVENT SEQ(A x, ANY(B, D) y) WHERE x.id = y.id WITHIN 9", "without filter_in_construction"),
    # Two events in one sum, the later one first or last.
    ("EVENT SEQ(A x, B y) WHERE y.n - x.n > 0 WITHIN 9", "without filter_in_construction"),
    ("EVENT SEQ(A x, B y) WHERE x.n - y.n < 0 AND x.n + y.n >= 3 WITHIN 9", "slices of one tick"),
    ("EVENT SEQ(A x, !(C w), B y) WHERE w.n - x.n = 1 WITHIN 9", "anti-join before selection"),
    ("EVENT SEQ(!(C v), A x, B y, !(C w)) WHERE [id] WITHIN 4", "negation by anti-join"),
]
TRAP_STREAM = [
    *(("A", 1, 1, 1), ("A", 1, None, None), ("A", 2, 2, None), ("C", 2, 1, 2), ("C", 3, None, 1)),
    *(("B", 4, 1, 1), ("B", 4, 2, None), ("D", 4, 9, 3), ("A", 5, 1, 2), ("C", 5, 2, 0), ("A", 6, 2, 1)),
    *(("B", 6, None, 2), ("D", 6, 1, None), ("B", 7, 2, 3), ("A", 7, None, 1), ("C", 8, 1, 1), ("B", 9, 1, 2)),
]


TRAP_TYPES = {"ts": "bigint", "id": "bigint", "n": "bigint"}
TRAP_CATALOG = sase.Catalog(types={**dict.fromkeys("ABC", TRAP_TYPES), "D": {"ts": "bigint", "n": "bigint"}})
TRAP_EVENTS = [dict(zip(("type", *TRAP_TYPES), row, strict=True)) for row in TRAP_STREAM]


@pytest.mark.parametrize("part", range(3))
def test_traps(spark: SparkSession, part: int) -> None:
    jobs = [
        (Case(query, TRAP_CATALOG, TRAP_EVENTS), name) for query, plan in TRAPS[part::3] for name in (*ALWAYS, plan)
    ]
    events = frame(spark, jobs[0][0])
    answers = {f"{plan}: {case.query}": compiled(case, plan).run(events) for case, plan in jobs}
    expected = {f"{plan}: {case.query}": Counter(map(canonical, evaluate(*case))) for case, plan in jobs}
    assert all(expected.values()), "a trap without a match tests nothing"
    assert {name: Counter(map(canonical, rows)) for name, rows in rows_of(answers).items()} == expected


# One tick on either side of every bound of a window of 5, far from each other: is an end in the window, or a negated
# event in its interval? Then ties with the events beside it.
EDGE_STREAM = """
    a10 b14  a30 b35  c46 a49 b50  c65 a69 b70  a90 b91 c94  a110 b111 c115  c130 a130 b131  a150 b151 c151
    a170 c170 b172  a190 c191 b192  a210 c212 b212  c226 a229 b230 c233  c245 a249 b250 c254
"""
EDGES = [
    "EVENT SEQ(A x, B y) WITHIN 5",
    "EVENT SEQ(!(C w), A x, B y) WITHIN 5",
    "EVENT SEQ(A x, B y, !(C w)) WITHIN 5",
    "EVENT SEQ(!(C u), A x, !(C v), B y, !(C w)) WITHIN 5",
]
EDGE_CASES = [
    Case(
        query,
        sase.Catalog(types={name: {"ts": "bigint"} for name in "ABC"}),
        [{"type": word[0].upper(), "ts": int(word[1:])} for word in EDGE_STREAM.split()],
    )
    for query in EDGES
]


def test_edges(spark: SparkSession) -> None:
    plans = (*ALWAYS, "slices of one tick", "slices of five ticks", "negation by anti-join", "buckets of one tick")
    compare_many(spark, [(case, plan) for case in EDGE_CASES for plan in plans if "!" in case.query or "tick" in plan])


# -0.0 is 0.0 and NaN is NaN, in whatever bits: no hash may decide about them.
FLOATS = [("A", 1, 0.0), ("A", 2, float("nan")), ("A", 3, 1.5), ("B", 4, -0.0), ("B", 5, -float("nan")), ("B", 6, 1.5)]
FLOAT_CASE = Case(
    "EVENT SEQ(A x, B y) WHERE [v] WITHIN 9 RETURN x.ts AS first, y.ts AS last",
    sase.Catalog(types={name: {"ts": "bigint", "v": "double"} for name in "AB"}),
    [dict(zip(("type", "ts", "v"), row, strict=True)) for row in FLOATS],
)


def test_floats_that_are_equal(spark: SparkSession) -> None:
    assert len(evaluate(*FLOAT_CASE)) == 3
    compare_many(spark, [(FLOAT_CASE, plan) for plan in (*ALWAYS, "many partitions", "dynamic filtering")])


@settings(max_examples=tries(8))
@given(case=cases(), more=some_plans(6))
def test_every_plan_gives_the_answer_of_the_judge(spark: SparkSession, case: Case, more: list[str]) -> None:
    events = frame(spark, case)
    compare(case, {plan: query.run(events) for plan, query in different(case, more).items()})


@settings(max_examples=tries(4))
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
    verdicts = [(case, verdict(*case, ansi)) for case in cases]
    with ansi_mode(spark, ansi):
        fine = [case for case, judged in verdicts if judged.matches is not None and not judged.may_fail]
        if fine:
            compare_many(spark, [(case, plan) for case in fine for plan in ALWAYS], ansi)
        for case, judged in [(case, judged) for case, judged in verdicts if case not in fine][:2]:
            for plan in ALWAYS:
                try:
                    compare(case, {plan: compiled(case, plan).run(frame(spark, case))}, judged.matches or [])
                except ArithmeticException:
                    continue
                assert judged.matches is not None, f"{plan}: an overflow that decides about a match is not seen"


@settings(max_examples=tries(2))
@given(case=cases())
def test_without_the_jit(spark: SparkSession, case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SASE_JIT", "0")
        compare(case, {"without the JIT": compiled(case).run(frame(spark, case))})


@settings(max_examples=tries(2))
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
    unit = UNITS[kind_of_time(case.catalog)]
    options = {
        name: f"{value} {unit}".rstrip() if name in ("slice", "bucket") and value != "off" else value
        for name, value in PLANS[plan].items()
    }
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
            job = compiled(case, name if name in PLANS else "the default plan").job
            pytest.fail(f"{name}: too many are {dict(bag - expected)}, missing are {dict(expected - bag)}\n{job}")


def compare_many(spark: SparkSession, jobs: Sequence[tuple[Case, str]], ansi: bool = True) -> None:
    """Several cases and plans in one Spark job. Their answers have the same columns."""
    found: dict[str, DataFrame] = {}
    expected: dict[str, Counter[Any]] = {}
    for place, (case, plan) in enumerate(jobs):
        name = f"{place}, {plan}: {case.query}"
        found[name] = compiled(case, plan).run(frame(spark, case))
        expected[name] = Counter(map(canonical, evaluate(*case, ansi)))
    bags: dict[str, Counter[Any]] = {name: Counter() for name in found}
    for name, answer in collect(found):
        bags[name][canonical(answer)] += 1
    assert bags == expected


def collect(answers: dict[str, DataFrame]) -> Iterator[tuple[str, dict[str, Any]]]:
    named = [
        answer.select(F.lit(name).alias("plan"), F.struct("*").alias("answer")) for name, answer in answers.items()
    ]
    for row in together(named):
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
