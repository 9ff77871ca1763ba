"""TelegraphCQ's operators: the examples and random expressions, by their letter, through branches, and in Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from branches import Match, matches
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from random_queries import Case
from telegraphcq_judge import judge
from test_stream_core import answers
from together import together
from worked_examples import Example, examples

from sase.arguments import is_sql
from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import SaseError
from sase.compiler.languages.registry import read, recognised
from sase.pictures import variants

EXAMPLES = examples("telegraphcq")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("SELECT a.* FROM A a EVENT a", "telegraphcq"),
        ("-- misspelled\nselect * from A a, B b event FOLOWS(a, b, 5)", "telegraphcq"),
        ("SELECT B.* FROM Book B, Checkout C PARTITION BY book_id BOTH(B, C, ‘1 min’)", "telegraphcq"),
        ("WITH E1 as (SELECT * FROM s WHERE t = 1) (SELECT * FROM E1[RANGE BY ‘9’], s[RANGE BY ‘9’])", "telegraphcq"),
        ("SELECT event FROM visits event WHERE event IN (1, 2) ORDER BY event DESC", "SQL"),
        ("WITH a AS (SELECT 1 AS event) SELECT event FROM a", "SQL"),
        ("PATTERN x:A", "vdms-pq"),
        ("FROM s EVENT A a", "sase"),
    ],
)
def test_the_first_words_tell_the_language(text: str, language: str) -> None:
    assert is_sql(text, "") is (language == "SQL")
    assert recognised(text).name == ("sase" if language == "SQL" else language)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_letter_gives_what_the_example_says(example: Example) -> None:
    assert told(judge(example.query, example.catalog, example.given)) == expected(example)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_branches_give_what_the_example_says(example: Example) -> None:
    bound = read(example.query, "q", "telegraphcq").bind(example.catalog)
    assert told(matches(bound, example.given)) == expected(example)


def expected(example: Example) -> Counter[Any]:
    """An example lists the aliases that some result binds, in the order of FROM."""
    bound = [variable.name for variable in read(example.query, "q", "telegraphcq").bind(example.catalog).positive]
    return Counter(
        {
            (frozenset((name, label) for name, label in zip(bound, labels, strict=True) if label != "-"), time): count
            for (labels, time), count in example.matches.items()
        }
    )


def told(found: Counter[Match]) -> Counter[Any]:
    return Counter({(labels, str(time)): count for (labels, time), count in found.items()})


TIES = {
    "FOLLOWS(BOTH(a, b, 3), a2, 5)": ["A1", "B1", "A2"],  # simultaneous events, whose instant is asked
    "FOLLOWS(a2, BOTH(a, b, 3), 5)": ["A0", "A1", "B1"],
    "BOTH(NOTFOLLOWS(a, b, 2), a2, 3)": ["A1", "A3"],  # a derived time, and an event of that time
    "NOTPRECEDES(a2, BOTH(a, b, 3), 5)": ["A1", "B1", "A2", "A9"],
}


@pytest.mark.parametrize("expression", TIES)
def test_what_is_simultaneous_is_neither_before_nor_after(expression: str) -> None:
    query = f"FROM A a a2, B b EVENT {expression}"
    events = {name: {"type": name[0], "ts": int(name[1:]), "n": None} for name in TIES[expression]}
    found = matches(read(query, "q", "telegraphcq").bind(CATALOGS[None]), events)
    assert found == judge(query, CATALOGS[None], events)
    assert found


def test_a_comparison_on_what_is_unbound_is_left_out() -> None:
    query = "FROM A a, B b EVENT ANYONE(a, b) WHERE a.v = 1 OR b.v = 1"
    bound = read(query, "q", "telegraphcq").bind(CATALOGS[None])
    assert [[str(part) for part in branch.predicates] for branch in bound.branches] == [["a.v = 1"], ["b.v = 1"]]


# ---- WITH, and the join of section 3.1 ----------------------------------------------------------

GIVEN = {
    name: {"type": kind, "ts": ts, "n": at, "id": key, "v": value}
    for at, (name, kind, ts, key, value) in enumerate(
        [
            ("a1", "A", 1, 1, 1), ("a2", "A", 2, 1, 2), ("b2", "B", 2, 1, 1), ("b4", "B", 4, 1, 2),
            ("b5", "B", 5, 2, 1), ("b6", "B", 6, 1, 1), ("a7", "A", 7, None, 1), ("b8", "B", 8, None, 1),
        ]
    )
}  # fmt: skip
JOINED = "SELECT * FROM A[RANGE BY '5'] a, B[RANGE BY '5'] b WHERE a.id = b.id AND a.tcqtime < b.tcqtime"
ANSWERS = {
    "WITH e AS (SELECT * FROM A WHERE v = 1) "
    "SELECT * FROM e a, B b PARTITION BY id EVENT FOLLOWS(a, b, 5)": "a1b2 a1b4",
    "WITH e AS (SELECT * FROM A WHERE v = 2), f AS (SELECT * FROM B WHERE v = 1) "
    "(SELECT * FROM e a, f b PARTITION BY id EVENT FOLLOWS(a, b, ‘5’))": "a2b6",
    "WITH e AS (SELECT * FROM B WHERE v = 1) "
    "SELECT a.* FROM A a, e b PARTITION BY id EVENT NOTFOLLOWS(a, b, 4)": "a2 a7",
    JOINED: "a1b2 a1b4 a2b4 a2b6",
    JOINED.replace("a.tcqtime < b.tcqtime", "b.tcqtime > a.tcqtime"): "a1b2 a1b4 a2b4 a2b6",
    "SELECT * FROM A[RANGE BY '5'] a, B[RANGE BY '5'] b WHERE a.id = b.id": "a1b2 a1b4 a2b2 a2b4 a2b6",
    "SELECT * FROM A[RANGE BY '3'] a, A[RANGE BY '3'] c, B[RANGE BY '3'] b "
    "WHERE a.tcqtime < c.tcqtime AND c.tcqtime < b.tcqtime": "",
    "SELECT * FROM A[RANGE BY '4'] a, A[RANGE BY '4'] c, B[RANGE BY '4'] b "
    "WHERE a.tcqtime < c.tcqtime AND c.tcqtime < b.tcqtime": "a1a2b4",
}
"""By hand; an event's time is in its name."""


def names_of(found: Counter[Match]) -> list[str]:
    return sorted("".join(sorted(label for _, label in labels)) for labels in (each for each, _ in found.elements()))


@pytest.mark.parametrize("query", ANSWERS)
def test_with_and_the_join_form(query: str) -> None:
    bound = read(query, "q").bind(CATALOGS[None])
    given = {name: {**row, "n": None} for name, row in GIVEN.items()}
    assert names_of(matches(bound, given)) == sorted(ANSWERS[query].split())


def test_the_join_form_is_follows() -> None:
    follows = read("SELECT * FROM A a, B b PARTITION BY id EVENT FOLLOWS(a, b, 5)", "q").bind(CATALOGS[None])
    joined = read(JOINED, "q").bind(CATALOGS[None])
    assert joined.branches == follows.branches
    assert joined.is_sequence


def test_without_a_catalog_any_stream_may_have_an_attribute() -> None:
    query = read("SELECT a.v FROM A a, B b PARTITION BY Id EVENT FOLLOWS(a, b, 5) WHERE b.v > 2", "q").bind(Catalog())
    assert [str(part) for part in query.predicates] == ["a.Id = b.Id", "b.v > 2"]
    with pytest.raises(SaseError, match="v could be of several aliases"):
        read("SELECT a.v FROM A a, B b EVENT FOLLOWS(a, b, 5) WHERE v > 2", "q").bind(Catalog())


# ---- random expressions -------------------------------------------------------------------------

CATALOGS = {
    order: Catalog(types={name: {"ts": "bigint", "id": "bigint", "v": "bigint"} for name in "AB"}, order=order)
    for order in (None, "n")
}
ALIASES = ("a", "b", "a2")


def expressions(depth: int) -> st.SearchStrategy[str]:
    leaf = st.sampled_from(ALIASES)
    if depth == 0:
        return leaf
    side = leaf | expressions(depth - 1)
    windowed = st.builds(
        lambda kind, one, other, ticks: f"{kind}({one}, {other}, {ticks})",
        st.sampled_from(("FOLLOWS", "PRECEDES", "NOTFOLLOWS", "NOTPRECEDES", "BOTH")),
        side,
        side,
        st.integers(1, 4),
    )
    return windowed | st.builds("ANYONE({}, {})".format, side, side)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, Catalog, dict[str, dict[str, Any]]]:
    partition = draw(st.sampled_from(("", "", "PARTITION BY id ")))
    conditions = ("", "", " WHERE a.v < b.v", " WHERE b.v > 1", " WHERE a.v = a2.v AND b.v < 2")
    query = f"FROM A a a2, B b {partition}EVENT {draw(expressions(2))}{draw(st.sampled_from(conditions))}"
    order = draw(st.sampled_from((None, "n")))
    values = st.sampled_from((1, 2, 2, None))
    rows = draw(st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 7), values, values), max_size=6))
    events = {
        f"e{at}": {"type": kind, "ts": ts, "n": at if order else None, "id": key, "v": value}
        for at, (kind, ts, key, value) in enumerate(rows)
    }
    return query, CATALOGS[order], events


REFUSED = (
    "cannot be compared with itself",
    "compares events that its left side has bound",
    "could be the very event",
    "forms of results",
    "says what must not be there, and speaks of",
)


@given(cases())
@settings(deadline=None)
def test_branches_and_the_letter_agree(case: tuple[str, Catalog, dict[str, dict[str, Any]]]) -> None:
    query, catalog, events = case
    try:
        bound = read(query, "q", "telegraphcq").bind(catalog)
    except SaseError as error:
        assert all(any(reason in each.message for reason in REFUSED) for each in error.diagnostics), str(error)
        return
    assert matches(bound, events) == judge(query, catalog, events), query


# ---- in Spark -----------------------------------------------------------------------------------

ROW = "__row"


def in_spark(cases: list[tuple[BoundQuery, dict[str, dict[str, Any]]]], spark: SparkSession) -> list[Counter[Match]]:
    """What each query finds among its own events, all in one job."""
    frames = []
    for number, (bound, events) in enumerate(cases):
        asked = variants.numbered(bound, ROW)
        declared = dict.fromkeys(name for variable in bound.variables for name in variable.attributes)
        kinds = {name: "string" if name == "type" else "bigint" for name in (*declared, ROW, "n")}
        rows = [tuple({ROW: at, **row}.get(name) for name in kinds) for at, row in enumerate(events.values())]
        table = spark.createDataFrame(rows, ", ".join(f"{name} {kind}" for name, kind in kinds.items()))
        found = variants.found(asked, table)
        numbers = [F.col(f"`{each.name}`.{ROW}") for each in asked.positive]
        frames.append(found.select(F.lit(number).alias("case"), F.array(*numbers).alias("events"), "detected_at"))
    answers: list[Counter[Match]] = [Counter() for _ in cases]
    for number, events, time in together(frames):
        bound, given = cases[number]
        labels = [(each.name, event) for each, event in zip(bound.positive, events, strict=True) if event is not None]
        answers[number][frozenset((name, list(given)[event]) for name, event in labels), time] += 1
    return answers


def test_examples_in_spark(spark: SparkSession) -> None:
    cases = [(read(each.query, "q", "telegraphcq").bind(each.catalog), each.given) for each in EXAMPLES]
    more = [(replace(read(query, "q").bind(CATALOGS[None]), returns=None), GIVEN) for query in ANSWERS]
    found = in_spark([*cases, *more], spark)
    assert [names_of(each) for each in found[len(cases) :]] == [sorted(each.split()) for each in ANSWERS.values()]
    answers = dict(zip((each.name for each in EXAMPLES), map(told, found[: len(cases)]), strict=True))
    assert answers == {example.name: expected(example) for example in EXAMPLES}


def numbered(example: Example, text: str) -> Case:
    """The example with a number in every event, by which matches tell them."""
    assert example.catalog.types is not None
    more = {ROW: "bigint", **({"n": "bigint"} if example.catalog.order else {})}
    types = {name: {**declared, **more} for name, declared in example.catalog.types.items()}
    columns = {name: None for declared in types.values() for name in declared}
    events = [{**columns, **row, ROW: at} for at, row in enumerate(example.given.values())]
    return Case(text, replace(example.catalog, types=types), events)


def test_examples_on_a_stream(spark: SparkSession) -> None:
    stream(spark, EXAMPLES, [f"SELECT * {example.query}" for example in EXAMPLES])


def stream(spark: SparkSession, chosen: list[Example], texts: list[str]) -> None:
    """In micro-batches, shuffled within a delay: the same results, and nothing is remembered at the end."""
    frames, schedules = [], list[int]()
    for number, (example, text) in enumerate(zip(chosen, texts, strict=True)):
        case = numbered(example, text)
        names = [each.name for each in read(example.query, "q", "telegraphcq").bind(case.catalog).positive]
        different = answers(spark, case, "a stream", number)
        schedules.append(len(different))
        for found in different.values():
            numbers = F.array(*(F.col(f"`{name}`.{ROW}") for name in names))
            frames.append(found.select(F.lit(number).alias("example"), numbers.alias("events"), "detected_at"))
    told_of: list[Counter[Any]] = [Counter() for _ in chosen]
    for number, events, time in together(frames):
        given = list(chosen[number].given)
        told_of[number][tuple("-" if event is None else given[event] for event in events), str(time)] += 1
    for example, found, times in zip(chosen, told_of, schedules, strict=True):
        assert found == Counter({match: times * count for match, count in example.matches.items()}), example.name
