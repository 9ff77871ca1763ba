"""`explain --analyze`: what got through each step, and what removed the rest."""

from __future__ import annotations

import random
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from brute_force import evaluate
from pyspark.sql import SparkSession

import sase
from sase.analysis.stages import Stage
from sase.cli import main
from sase.compiler.plan.rules import NAMES

EXAMPLES = Path(__file__).parent.parent / "examples"

CATALOG = sase.Catalog(
    types={name: {"ts": "bigint", "id": "bigint", "v": "int"} for name in ("A", "B", "C")},
)
QUERY = "EVENT SEQ(A x, !(B n), C z) WHERE [id] AND x.v > 1 AND x.v < z.v AND abs(x.v - z.v) < 5 WITHIN 10"
SCHEMA = "type string, ts bigint, id bigint, v int"
EVENTS = [
    ("A", 1, 1, 2), ("C", 2, 1, 3),  # a match
    ("A", 1, 2, 0), ("C", 2, 2, 3),  # x.v > 1 fails
    ("A", 1, 3, 4), ("C", 2, 3, 3),  # x.v < z.v fails
    ("A", 1, 4, 2), ("B", 2, 4, 0), ("C", 3, 4, 3),  # an n between
    ("A", 1, 5, 2), ("C", 2, 5, 9),  # abs(x.v - z.v) < 5 fails
    ("A", 1, 6, 2), ("C", 50, 6, 3),  # out of the window
    ("A", 1, None, 2), ("C", 2, None, 3),  # no key
    ("D", 1, 1, 1),  # not of the query's types
]  # fmt: skip


def test_every_step_tells_what_it_removed(spark: SparkSession) -> None:
    lost = [("A", None, 1, 2), (None, 1, 1, 2)]
    events = spark.createDataFrame([*EVENTS, *lost], SCHEMA)
    shown = sase.compile(QUERY, CATALOG, slice="off").analyze(events)
    assert [" ".join(line.split()) for line in shown.splitlines()] == [
        "events read 18 events",
        "with a type 17 -1",
        "with a time 16 -1",
        "of type A, B, C 15 -1",
        "!n type = 'B' 1 event",
        "id IS NOT NULL 1",
        "x type = 'A' 7 events",
        "v IS NOT NULL 7",
        "id IS NOT NULL 6 -1",
        "v > 1 5 -1",
        "on the stack 5",
        "z type = 'C' 7 events",
        "v IS NOT NULL 7",
        "id IS NOT NULL 6 -1",
        "on the stack: after x 4 -2",
        "x → z candidates 4 candidates",
        "no n between x and z 3 -1",
        "x.v < z.v 2 -1",
        "sequences 2 sequences",
        "abs(x.v - z.v) < 5 1 -1",
        "matches 1 match",
        "",
        "1 match: of 4 candidates x → z, 1 has n between x and z, 1 fails x.v < z.v and 1 fails abs(x.v - z.v) < 5.",
    ]


STRATEGIES: list[dict[str, Any]] = [
    {},
    {"disable": NAMES},
    {"negation": "anti-join", "negation_place": "before"},
    {"construction": "basic"},
    {"slice": 20},
]


def made_up() -> list[tuple[Any, ...]]:
    rng = random.Random(7)
    return [(rng.choice("ABCD"), at // 2, rng.choice([1, 2, None]), rng.randrange(6)) for at in range(90)]


def how_many(text: str) -> int:
    """Matches in what is made up."""
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    found = len(evaluate(text, CATALOG, [dict(zip(names, row, strict=True)) for row in made_up()]))
    assert found
    return found


def add_up(counted: list[Stage], matches: int) -> None:
    """What a stage leaves is what the one before left, less what it removed; and the last leaves the answer."""
    assert (counted[0].what, counted[0].left) == ("read", 90)
    assert (counted[-1].unit, counted[-1].left) == ("match", matches)
    for before, stage in pairwise(counted):
        assert stage.removed is None or (stage.removed >= 0 and stage.left == before.left - stage.removed), stage
        assert stage.removed is None or stage.of == before.of or stage.step == "sequences", stage


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("EVENT AND(A x, B y, NOT C z) WHERE [id] AND x.v < y.v AND z.v > 3 WITHIN 6", {}),
        ("EVENT AND(A x, A y, B z) WHERE x.v < y.v AND abs(x.v - z.v) < 2 WITHIN 5", {"slice": 7}),
        ("EVENT OR(SEQ(A x, !C n, B y), AND(A x, B y), C z) WHERE [id] AND x.v < y.v WITHIN 4", {"disable": NAMES}),
        ("EVENT SEQ(A{2,3} x, ALL(C t), B y) WHERE [id] AND sum(x.v) > 5 AND abs(t.v - y.v) < 2 WITHIN 9", {}),
        ("EVENT SEQ(first A x, B y) WHERE x.v < y.v WITHIN 9 CONSUME EXCLUSIVE", {}),
        ("EVENT SEQ(A x, !C n, ALL(C t), B y) WHERE abs(n.v - x.v) < 1 WITHIN 5", {"slice": 20}),
    ],
)
def test_the_stages_of_a_pattern_in_any_order_add_up(spark: SparkSession, text: str, strategy: dict[str, Any]) -> None:
    events = spark.createDataFrame(made_up(), SCHEMA)
    add_up(sase.compile(text, CATALOG, **strategy).stages(events), how_many(text))


def test_what_became_of_the_candidates_in_any_order(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [
            ("A", 1, 1, 2),
            ("B", 2, 1, 1),
            ("B", 3, 1, 5),
            ("C", 12, 1, 9),
            ("A", 20, 1, 1),
            ("B", 21, 1, 4),
            ("C", 22, 1, 0),
        ],
        SCHEMA,
    )
    query = "EVENT AND(A x, B y, NOT C z) WHERE [id] AND x.v < y.v WITHIN 10"
    shown = sase.compile(query, CATALOG).analyze(events).splitlines()
    assert [" ".join(line.split()) for line in shown[-8:]] == [
        "x, y candidates 6 candidates",
        "x.v < y.v 5 -1",
        "no z 4 -1",
        "the last to be bound 1 -3",
        "built 1 match",
        "matches 1",
        "",
        "1 match: of 6 candidates x, y, 1 fails x.v < y.v, 1 has z and 3 lead on to other events.",
    ]
    alone = sase.compile("EVENT AND(A x, C z) WHERE [id] WITHIN 2", CATALOG).analyze(events).splitlines()[-1]
    assert alone == "No match: 2 events for z, but no others come with them within 2, with the same id."


@pytest.mark.parametrize(
    "text",
    [
        QUERY,
        "EVENT A x WHERE x.v > 1",
        "EVENT SEQ(A x, C y, C z) WHERE [id, v] WITHIN 30",
        "EVENT SEQ(A x, !(B n)) WHERE [id] WITHIN 10",
        "EVENT SEQ(!(B m), A x, B y, !(A n), C z) WHERE x.v + z.v < 9 AND n.v < z.v WITHIN 10",
        "EVENT SEQ(A x, C y, C z, !(B n)) WHERE x.v < y.v AND (y.v < z.v OR x.v = z.v) WITHIN 10",
    ],
)
def test_the_stages_of_any_plan_add_up_to_the_matches(spark: SparkSession, text: str) -> None:
    matches = how_many(text)
    events = spark.createDataFrame(made_up(), SCHEMA)
    keyed = [{"equivalence": "multi-pais:id"}, {"equivalence": "pais:v"}] if "[id, v]" in text else STRATEGIES
    for strategy in keyed if "C z" in text else keyed[:-1]:  # one event alone is not cut by time
        add_up(sase.compile(text, CATALOG, **strategy).stages(events), matches)


LOGINS = sase.Catalog(
    types={name: {"ts": "timestamp", "user": "string", "n": "int"} for name in ("login_failed", "login", "logout")}
)


@pytest.mark.parametrize(
    ("text", "events", "sentence"),
    [
        ("login_failed a, login_failed b, login_failed c", "f0 f5", "No match: 1 event for b after a, but no third "
         "login_failed (c) follows within 10 seconds, with the same user."),
        ("login_failed a, login_failed b, login_failed c", "f0 f8 f16", "No match: 1 candidate b → c, but no third "
         "login_failed (a) comes before within 10 seconds, with the same user."),
        ("login_failed a, login_failed b, login_failed c", "f0 f12", "No match: 2 events for a, but no second "
         "login_failed (b) follows within 10 seconds, with the same user."),
        ("login_failed a, login_failed b, login_failed c", "f0 f1 f2", "1 match: every candidate a → b → c is one."),
        ("login_failed a, login b", "", "No match: there are no events."),
        ("login_failed a, login b", "o1 o2", "No match: all of 2 events read are not of type login, login_failed."),
        ("login_failed a, login b", "f0 f1", "No match: 2 events for a, but no event has the type login: there "
         "are login_failed."),
        ("login_failed a, login b", "l0 f1", "No match: 1 event for a, but no login (b) follows within 10 seconds, "
         "with the same user."),
        ("login_failed a, !(logout o), login b", "f0 f1 o2 l3", "No match: all of 2 candidates a → b have o between a "
         "and b."),
        ("login_failed a, login b, !(logout o)", "f0 l3 o9", "No match: the only candidate a → b has o after b within "
         "10 seconds."),
        ("login_failed a WHERE a.n > 5", "f3 f5", "No match: all of 2 events for a fail n > 5."),
        ("login_failed a WHERE a.n > 4", "f3 f5", "1 match: of 2 events for a, 1 fails n > 4."),
        ("login_failed a, login b WHERE a.n > b.n AND abs(a.n - b.n) < 2", "f1 f2 l3", "No match: all of 2 candidates "
         "a → b fail a.n > b.n."),
        ("login_failed a, login b WHERE a.n < b.n AND abs(a.n - b.n) > 7 AND a.n + b.n > 9", "f0 f4 f5 l6", "No match: "
         "of 3 candidates a → b, 1 fails a.n + b.n > 9 and the others fail abs(a.n - b.n) > 7."),
    ],
)  # fmt: skip
def test_a_sentence_tells_what_was_left_last_and_what_took_the_rest(
    spark: SparkSession, text: str, events: str, sentence: str
) -> None:
    pattern, _, where = text.partition(" WHERE ")
    keyed = " AND ".join(filter(None, ["[user]" if "," in pattern else "", where]))
    query = sase.compile(f"EVENT SEQ({pattern}) {keyed and f'WHERE {keyed}'} WITHIN 10 seconds", LOGINS, slice="off")
    names = {"f": "login_failed", "l": "login", "o": "logout"}
    rows = [
        (names[each[0]], datetime(2026, 1, 1, 0, 0, int(each[1:])), "ann", int(each[1:])) for each in events.split()
    ]
    given = spark.createDataFrame(rows, "type string, ts timestamp, user string, n int")
    assert query.analyze(given).splitlines()[-1] == sentence


@pytest.mark.parametrize(
    ("strategy", "sentence"),
    [
        ({}, "No match: of 2 candidates a → b, 1 has o between a and b and the other fails a.n > b.n."),
        ({"negation": "anti-join"}, "No match: all of 2 candidates a → b fail a.n > b.n."),
        ({"negation": "anti-join", "negation_place": "before", "disable": ["filter_in_construction"]},
         "No match: of 2 candidates a → b, 1 has o between a and b and the other fails a.n > b.n."),
        ({"disable": NAMES}, "No match: of 6 candidates a → b, 3 are not within 10 seconds, 1 fails "
         "a.`user` = b.`user` and the others fail a.n > b.n."),
    ],
)  # fmt: skip
def test_the_sentence_is_true_of_the_plan_that_ran(
    spark: SparkSession, strategy: dict[str, Any], sentence: str
) -> None:
    text = "EVENT SEQ(login_failed a, !(logout o), login b) WHERE [user] AND a.n > b.n WITHIN 10 seconds"
    rows = [("login_failed", 0, "ann"), ("logout", 1, "ann"), ("login_failed", 2, "ann"), ("login", 3, "ann"),
            ("login_failed", 1, "bob"), ("login", 59, "cid")]  # fmt: skip
    given = spark.createDataFrame(
        [(kind, datetime(2026, 1, 1, 0, 0, at), user, at) for kind, at, user in rows],
        "type string, ts timestamp, user string, n int",
    )
    assert sase.compile(text, LOGINS, slice="off", **strategy).analyze(given).splitlines()[-1] == sentence


def test_what_cannot_be_read_is_part_of_the_first_row(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "events.json").write_text('{"type": "A", "ts": 1, "id": 1, "v": 5}\n###\n{"type": "A", "id": 1}\n')
    shown = sase.compile("EVENT A x WHERE x.v > 7", CATALOG).analyze(tmp_path / "events.json")
    assert [" ".join(line.split()) for line in shown.splitlines()][:5] == [
        "events read 3 events",
        "that can be read 2 -1",
        "with a time 1 -1",
        "of type A 1",
        "x type = 'A' 1 event",
    ]
    assert shown.splitlines()[-1] == "No match: the only event for x fails v > 7."


def test_on_the_command_line(capsys: pytest.CaptureFixture[str], spark: SparkSession) -> None:
    retail = ["--catalog", str(EXAMPLES / "retail.toml"), "--events", str(EXAMPLES / "data" / "retail.parquet")]
    assert main(["explain", str(EXAMPLES / "q1_food.sase"), "--analyze", *retail]) == 0
    out = capsys.readouterr().out
    assert "What got through\n" in out
    assert out.splitlines()[-3].split() == ["matches", "9", "matches"]
    assert out.splitlines()[-1].startswith("9 matches: of ")


RUN_EVENTS = [
    ("A", 1, 1, 1), ("B", 2, 1, 2), ("C", 4, 1, 0),  # a match
    ("A", 11, 1, 1), ("A", 12, 1, 1), ("B", 13, 1, 2), ("C", 15, 1, 0),  # two, of which one begins inside of the other
    ("A", 1, 2, 5), ("B", 2, 2, 2),  # b.v > a.v fails
    ("A", 1, 3, 0), ("B", 2, 3, 2), ("C", 90, 3, 0),  # out of the window
    ("A", 1, 4, 0), ("B", 2, 4, 2),  # nothing follows
    ("A", 1, None, 0),  # no key
]  # fmt: skip


def test_of_runs_it_tells_how_far_they_get(spark: SparkSession) -> None:
    events = spark.createDataFrame(RUN_EVENTS, "type string, ts bigint, id bigint, v int")
    text = "EVENT SEQ(A a, B+ b, C c) WHERE [id] AND b.v > a.v AND c.v < 3 WITHIN 10 SKIP TILL NEXT MATCH"
    shown = sase.compile(f"{text} AFTER MATCH SKIP PAST LAST ROW", CATALOG).analyze(events)
    assert [" ".join(line.split()) for line in shown.splitlines()] == [
        "events read 15 events",
        "of type A, B, C 15",
        "a type = 'A' 7 events",
        "b type = 'B' 5 events",
        "c type = 'C' 3 events",
        "v < 3 3",
        "a → b+ → c begun with a 6 runs",
        "on to b 5 -1",
        "on to c 4 -1",
        "within 10 3 -1",
        "begun behind the last row of a match 2 -1",
        "matches 2 matches",
        "",
        "2 matches: of 6 runs a → b+ → c, 1 does not get to b, 1 does not get to c, 1 is not within 10 and 1 begins "
        "inside of another match.",
    ]
    stuck = sase.compile(text.replace("WITHIN 10", "WITHIN 10 TIMED OUT"), CATALOG).analyze(events)
    assert stuck.splitlines()[-1] == (
        "3 matches: of 6 runs a → b+ → c, 3 are not open when the window ends, within 10."
    )
    none = sase.compile("EVENT SEQ(A a, C{2,} c) WHERE [id] AND sum(c.v) > 7 PARTITION CONTIGUITY", CATALOG).analyze(
        events
    )
    assert none.splitlines()[-1].startswith("No match: ")
