"""Queries of other languages in words of SASE: read again, they are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import brute_force
import pytest
import telegraphcq_judge
import test_telegraphcq
import test_vdms_pq
from branches import matches
from effort import tries
from hypothesis import given, settings
from pyspark.sql import SparkSession
from test_telegraphcq import cases
from worked_examples import Example, examples

import sase
from sase.cli import main
from sase.compiler.core.bound import BoundQuery, Branch, Derived, Earliest, EquivalenceTest, Group
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import SaseError
from sase.compiler.languages.registry import read
from sase.compiler.languages.sase.parser import parse
from sase.compiler.languages.sase.spelling import spelled

T = TypeVar("T")

EXAMPLES = [(language, example) for language in ("vdms-pq", "telegraphcq") for example in examples(language)]
MISSING = {"A6", "A7", "A8"}
"""What is missing is spelled out, and SASE's rule then adds what follows from it."""
FOLDER = Path(__file__).parent.parent / "examples"
LIBRARY = Catalog.load(FOLDER / "library" / "library.toml")


def again(query: BoundQuery, catalog: Catalog) -> BoundQuery:
    return read(spelled(query), "q", "sase").bind(catalog)


@pytest.mark.parametrize(
    ("language", "example"),
    [pytest.param(*each, id=each[1].name) for each in EXAMPLES if each[1].name not in MISSING],
)
def test_read_again_it_is_the_same(language: str, example: Example) -> None:
    query = read(example.query, "q", language).bind(example.catalog)
    same = again(query, example.catalog)
    assert list(map(in_one_order, same.branches)) == list(map(in_one_order, query.branches))
    assert (same.arrivals, same.reported, same.decided) == (query.arrivals, query.reported, query.decided)
    assert same.is_sequence >= query.is_sequence
    assert same.once == query.once or len(query.branches) == 1 or binds_different(query)


def in_one_order(branch: Branch) -> Branch:
    """The same, however its parts are listed; of one event, the earliest is that event."""
    instant = branch.instant
    if isinstance(instant, Derived) and len(branch.variables) == 1:
        instant = Earliest(instant.ticks)
    return replace(
        branch,
        apart=listed(branch.apart),
        variables=listed(branch.variables),
        groups=in_one_place(branch.groups),
        equivalences=listed(
            EquivalenceTest(listed(each.positive), listed(each.negated)) for each in branch.equivalences
        ),
        instant=instant,
    )


def in_one_place(groups: Iterable[Group]) -> tuple[Group, ...]:
    alike = [
        replace(each, variables=listed(each.variables), apart=listed(each.apart), groups=in_one_place(each.groups))
        for each in groups
    ]
    return tuple(sorted(alike, key=lambda each: (each.variables, str(each.apart), sorted(each.before))))


def listed(parts: Iterable[T]) -> tuple[T, ...]:
    return tuple(sorted(parts, key=str))


def binds_different(query: BoundQuery) -> bool:
    return len({frozenset(branch.variables) for branch in query.branches}) == len(query.branches)


# ---- by the judges ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "example"),
    [
        pytest.param(*each, id=each[1].name)
        for each in EXAMPLES
        if "avg" not in each[1].query and "*(" not in each[1].query
    ],
)
def test_the_judge_of_sase_gives_what_the_example_says(language: str, example: Example) -> None:
    """It reads the text that is printed, and knows nothing of the binder."""
    query = read(example.query, "q", language).bind(example.catalog)
    found = judged(spelled(query), example.catalog, example.given)
    names = [variable.name for variable in query.positive]
    told = any(time is not None for _, time in example.matches)
    assert (
        found
        == Counter(
            {
                (
                    frozenset((name, label) for name, label in zip(names, labels, strict=True) if label != "-"),
                    time,
                ): count
                for (labels, time), count in example.matches.items()
            }
        )
        if told
        else {labels for labels, _ in found}
        == {frozenset(zip(names, labels, strict=True)) for labels, _ in example.matches}
    )


def judged(text: str, catalog: Catalog, given: Mapping[str, Mapping[str, Any]]) -> Counter[tuple[Any, str]]:
    rows = [dict(row) for row in given.values()]
    pattern = brute_force.Pattern(parse(text), catalog, ansi=True)
    stream = brute_force.taking_part(rows, catalog)
    labels = dict(zip(map(id, stream), given, strict=True))
    return Counter(
        (
            frozenset((name, labels[id(event)]) for name, event in match.bound.items()),
            str(brute_force.times(pattern, match)["detected_at"]),
        )
        for match in brute_force.matches(pattern, stream)
    )


@given(cases())
@settings(deadline=None, max_examples=tries(60))
def test_random_operators_in_words_of_sase(case: tuple[str, Catalog, dict[str, dict[str, Any]]]) -> None:
    """What the letter of TelegraphCQ finds, SASE finds in its own words, at the same times."""
    query, catalog, events = case
    try:
        bound = read(query, "q", "telegraphcq").bind(catalog)
    except SaseError:
        return
    text = spelled(bound)
    expected = telegraphcq_judge.judge(query, catalog, events)
    assert matches(read(text, "q", "sase").bind(catalog), events) == expected, text
    with suppress(brute_force.NotTold):
        told = Counter({(labels, str(time)): count for (labels, time), count in expected.items()})
        assert judged(text, catalog, events) == told, text


# ---- in Spark -----------------------------------------------------------------------------------


def test_examples_of_telegraphcq_in_spark(spark: SparkSession) -> None:
    chosen = [example for language, example in EXAMPLES if language == "telegraphcq"]
    bound = [read(each.query, "q", "telegraphcq").bind(each.catalog) for each in chosen]
    found = test_telegraphcq.in_spark(
        [(again(query, e.catalog), e.given) for query, e in zip(bound, chosen, strict=True)], spark
    )
    expected = [test_telegraphcq.expected(example) for example in chosen]
    assert dict(zip((e.name for e in chosen), map(test_telegraphcq.told, found), strict=True)) == dict(
        zip((e.name for e in chosen), expected, strict=True)
    )


def test_examples_of_vdms_pq_in_spark(spark: SparkSession) -> None:
    chosen = [example for language, example in EXAMPLES if language == "vdms-pq"]
    found = test_vdms_pq.in_spark([(again(test_vdms_pq.bound(e), e.catalog), e.given) for e in chosen], spark)
    assert dict(zip((e.name for e in chosen), found, strict=True)) == {e.name: e.matches for e in chosen}


def test_examples_of_telegraphcq_on_a_stream(spark: SparkSession) -> None:
    """In micro-batches, shuffled within a delay."""
    chosen = [example for language, example in EXAMPLES if language == "telegraphcq"]
    texts = [spelled(read(each.query, "q", "telegraphcq").bind(each.catalog)) for each in chosen]
    test_telegraphcq.stream(spark, chosen, texts)


# ---- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [*(FOLDER / "library").glob("*.tcq"), *(FOLDER / "vdms_pq").glob("*.vdms")], ids=lambda path: path.stem
)
def test_every_query_of_the_examples_has_words(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalogs = {"q1": "cars.toml", "q2": "cars.toml", "q3": "abcd.toml", "q4": "abcd.toml"}
    catalog = path.parent / catalogs.get(path.stem, "library.toml")
    more = ["--param", "SOME_ERR=7"] if path.stem == "q2" else []
    assert main(["explain", str(path), "--catalog", str(catalog), "--as", "sase", *more]) == 0
    printed = capsys.readouterr().out
    assert "--" not in printed, "a query that stays as it is has a comment that says why"
    assert sase.compile(printed, sase.Catalog.load(catalog)) is not None


@pytest.mark.parametrize("name", ["booklifting", "cleaning"])
def test_what_is_printed_has_the_same_plan(name: str) -> None:
    text = (FOLDER / "library" / f"{name}.tcq").read_text(encoding="utf-8")
    printed = spelled(read(text, "q").bind(LIBRARY))
    one, other = (sase.compile(each, LIBRARY).explain() for each in (printed, text))
    assert sorted(one.split()) == sorted(other.split()), "but for the order in which events are listed"


def test_booklifting_and_confusion() -> None:
    texts = [(FOLDER / "library" / f"{name}.tcq").read_text(encoding="utf-8") for name in ("booklifting", "confusion")]
    booklifting, confusion = (spelled(read(text, "q").bind(LIBRARY)) for text in texts)
    assert booklifting == BOOKLIFTING
    assert confusion == CONFUSION


BOOKLIFTING = """\
EVENT SEQ(!(Checkout C), Book B, !(Checkout C_2))
WHERE [book_id]
  AND elapsed(C, B) < 1 minute
  AND elapsed(B, C_2) < 2 seconds
RETURN B.`timestamp` AS `timestamp`, B.type AS type, B.book_id AS book_id, B.loc_id AS loc_id
"""
CONFUSION = """\
EVENT OR ALL(
    SEQ(AND(Person P1, Book B), Person P2) WITHIN 3 seconds,
    SEQ(AND(Person P2, Book B), Person P1) WITHIN 3 seconds,
    SEQ(Book B, AND(Person P1, Person P2))
      WHERE elapsed(P1, P2) = 0 seconds AND elapsed(B, P1) < 3 seconds,
    SEQ(Person P1, Person P2, Book B) WHERE elapsed(P1, P2) < 3 seconds AND elapsed(P2, B) < 3 seconds,
    SEQ(Person P2, Person P1, Book B) WHERE elapsed(P2, P1) < 3 seconds AND elapsed(P1, B) < 3 seconds,
    SEQ(AND(Person P1, Person P2), Book B)
      WHERE elapsed(P1, P2) = 0 seconds AND elapsed(P1, B) < 3 seconds
  )
WHERE [loc_id]
RETURN P1.loc_id AS loc_id, P1.person_id AS person1_id, P2.person_id AS person2_id, B.book_id AS book_id
"""
ABC = Catalog(types={name: {"ts": "bigint", "id": "bigint", "v": "bigint"} for name in "ABC"})
WORDS = {
    "FOLLOWS(x, FOLLOWS(y, z, 5), 5)": """\
EVENT SEQ(AND(A x, B y), C z)
WITHIN 5
""",
    "FOLLOWS(FOLLOWS(x, y, 5), z, 3)": """\
EVENT SEQ(A x, B y, C z)
WHERE elapsed(x, y) < 5
  AND elapsed(y, z) < 3
""",
    "FOLLOWS(NOTFOLLOWS(x, y, 5), z, 3)": """\
EVENT AND(A x, C z, !(B y))
WHERE elapsed(x, z) > 5
  AND elapsed(x, z) < 8
  AND before(x, y)
  AND elapsed(x, y) < 5
""",
    "BOTH(NOTPRECEDES(x, y, 5), NOTFOLLOWS(x, z, 2), 3)": """\
EVENT SEQ(!(B y), A x, !(C z))
WHERE elapsed(y, x) < 5
  AND elapsed(x, z) < 2
""",
    "ANYONE(NOTPRECEDES(x, y, 5), x)": """\
EVENT OR ALL(SEQ(!(B y), A x) WITHIN 5, A x)
""",
    "ANYONE(x, FOLLOWS(y, z, 4))": """\
EVENT OR(A x, SEQ(B y, C z) WITHIN 4)
""",
    "NOTFOLLOWS(x, FOLLOWS(y, z, 3), 5)": """\
EVENT AND(A x, NOT (SEQ(B y, C z) WHERE before(x, z) AND elapsed(x, z) < 5 AND elapsed(y, z) < 3))
""",
    "NOTFOLLOWS(x, BOTH(y, z, 3), 5)": """\
EVENT AND(
      A x,
      NOT OR(
        SEQ(B y, C z) WHERE before(x, z) AND elapsed(x, z) < 5 AND elapsed(y, z) < 3,
        SEQ(C z, B y) WHERE before(x, y) AND elapsed(x, y) < 5 AND elapsed(z, y) < 3,
        AND(B y, C z) WHERE before(x, y) AND before(x, z) AND elapsed(x, y) < 5 AND elapsed(y, z) = 0
      )
    )
""",
    "BOTH(BOTH(FOLLOWS(x, z, 9), FOLLOWS(y, z, 9), 9), FOLLOWS(y, w, 9), 9)": """\
EVENT AND(A x, A w, B y, C z)
WHERE before(x, z)
  AND before(y, w)
  AND before(y, z)
  AND elapsed(x, z) < 9
  AND elapsed(y, z) < 9
  AND elapsed(y, w) < 9
  AND elapsed(w, z) < 9
  AND elapsed(z, w) < 9
""",
    "NOTPRECEDES(z, BOTH(x, y, 3), 5)": """\
EVENT SEQ(
      NOT OR(
        SEQ(A x, B y) WHERE elapsed(y, z) < 5 AND elapsed(x, y) < 3,
        SEQ(B y, A x) WHERE elapsed(x, z) < 5 AND elapsed(y, x) < 3,
        AND(A x, B y) WHERE elapsed(x, z) < 5 AND elapsed(x, y) = 0
      ),
      C z
    )
""",
    "NOTPRECEDES(x, y, 5) WHERE y.v > 1 OR x.v > 1": """\
EVENT SEQ(!(B y WHERE (y.v > 1 OR x.v > 1)), A x)
WITHIN 5
""",
}


@pytest.mark.parametrize("expression", WORDS)
def test_words_of_operators(expression: str) -> None:
    query = read(f"SELECT * FROM A x w, B y, C z EVENT {expression}", "q").bind(ABC)
    assert spelled(query) == WORDS[expression]
    assert list(map(in_one_order, again(query, ABC).branches)) == list(map(in_one_order, query.branches))


def test_a_test_of_some_events_is_not_one_of_all() -> None:
    """Another test is of all of them, and does not count."""
    text = "FROM A x w, B y PARTITION BY id EVENT BOTH(ANYONE(x, y), FOLLOWS(w, y, 2), 1) WHERE x.v = w.v"
    printed = spelled(read(f"SELECT * {text}", "q").bind(ABC))
    assert "WHERE [id]" in printed
    assert "x.v = w.v" in printed
    assert "[v]" not in printed


NEVER = {
    "NOTFOLLOWS(x, FOLLOWS(x, y, 1), 2)": """\
EVENT SEQ(A x, !(B y), !(A never))
WHERE elapsed(x, y) < 1
  AND elapsed(x, never) < 2
  AND never.ts IS NULL
""",
    "ANYONE(NOTFOLLOWS(x, ANYONE(x, x), 4), NOTFOLLOWS(never, ANYONE(never, never), 3))": """\
EVENT OR(
    SEQ(A x, !(A never2)) WHERE never2.ts IS NULL WITHIN 4,
    SEQ(B never, !(B never3)) WHERE never3.ts IS NULL WITHIN 3
  )
""",
}


@pytest.mark.parametrize("expression", NEVER)
def test_a_result_that_is_certain_before_its_time_is_kept_open(expression: str) -> None:
    """By one more event that must not be there, and never is: the time of a result is that of its operator."""
    text = f"SELECT * FROM A x w, B y never EVENT {expression}"
    query = read(text, "q").bind(ABC)
    assert spelled(query) == NEVER[expression]
    assert [each.instant for each in map(in_one_order, again(query, ABC).branches)] == [
        each.instant for each in map(in_one_order, query.branches)
    ]
    rows = {label: {"type": label, "ts": at, "n": None, "id": 1, "v": 1} for at, label in enumerate("AB")}
    assert matches(again(query, ABC), rows) == telegraphcq_judge.judge(text, ABC, rows)


def test_names_types_and_columns_are_quoted_where_they_must_be() -> None:
    example = examples("vdms-pq")[0]
    catalog = replace(example.catalog, types={"a b": {"ts": "bigint", "x y": "bigint"}, "SHELF-1": {"ts": "bigint"}})
    text = (
        "PATTERN `v 1`:`a b`, w:ANY(SHELF-1, `a b`) WHERE `v 1`.`x y` = 3 RETURN w.ts AS `at once`, `v 1`.ts + 1 AS n"
    )
    query = read(text, "q").bind(catalog)
    assert spelled(query) == (
        "EVENT SEQ(`a b` `v 1`, ANY(`SHELF-1`, `a b`) w)\n"
        "WHERE `v 1`.`x y` = 3\n"
        "RETURN w.ts AS `at once`, `v 1`.ts + 1 AS n\n"
    )
    assert read(spelled(query), "q").bind(catalog).branches == query.branches


def test_what_is_missing_is_spelled_out() -> None:
    example = next(each for each in examples("vdms-pq") if each.name == "A6")
    assert spelled(read(example.query, "q").bind(example.catalog)) == (
        "EVENT SEQ(START x, ANY(STATUS, DTC) y)\n"
        "WHERE [car_id]\n"
        "  AND x.start_time > 21\n"
        "  AND (((NOT (y.type = 'DTC')) AND y.speed > avg*(y.speed)) OR ((NOT (y.type = 'STATUS')) AND y.code = 7))\n"
    )


def test_a_query_of_sase_is_its_own_words_where_there_are_no_others() -> None:
    catalog = examples("vdms-pq")[0].catalog
    text = "-- how many\nEVENT SEQ(ALL(A a), C c)\nWHERE count(a) > 2\nWITHIN 5"
    assert spelled(read(f"{text};\n", "q").bind(catalog)) == f"{text}\n"


def test_an_order_that_is_not_that_of_the_names() -> None:
    case = next(each for each in examples("telegraphcq") if each.name == "B5")
    assert spelled(read(case.query, "q", "telegraphcq").bind(case.catalog)) == "EVENT SEQ(B y, A x)\nWITHIN 5\n"
