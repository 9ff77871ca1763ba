"""Funnels: levels and times are the judge's, in real Spark; the table and the picture; what is refused, and how."""

from __future__ import annotations

import random
import statistics

import funnel_judge
import pytest
from pyspark.sql import SparkSession

import sase
from sase.conversion import Group, Step, asked_for, compiled
from sase.pictures.funnel import funnel as picture

TYPES = ("VIEW", "CART", "BUY", "LEAVE")
CATALOG = sase.Catalog(
    order="seq", types={name: {"ts": "bigint", "seq": "int", "user": "bigint", "n": "int"} for name in TYPES}
)


def test_levels_times_and_numbers_are_those_of_the_judge(spark: SparkSession) -> None:
    """A step with a condition, an event that may be two steps, one that may not happen, and ties."""
    chance = random.Random(4)
    rows = [
        {
            "type": chance.choices(TYPES, [4, 4, 3, 1])[0],
            "ts": chance.randint(0, 60),
            "seq": chance.randint(0, 1),
            "user": chance.choice([None, *range(40)]),
            "n": chance.randint(0, 9),
        }
        for _ in range(600)
    ]
    steps = ["VIEW", "CART dear WHERE n > 3", "!LEAVE", "ANY(CART, BUY)", "BUY last WHERE last.n < {most}"]
    events = spark.createDataFrame(rows, "type string, ts bigint, seq int, user bigint, n int")
    funnel = sase.funnel(events, steps, by="user", within=25, breakdown="n", catalog=CATALOG, parameters={"most": 8})
    assert funnel.names == ("view", "dear", "cart", "last")

    expected = {}
    for user in range(40):
        mine = [row for row in rows if row["user"] == user]
        found = funnel_judge.furthest(
            [
                funnel_judge.Event(
                    (row["ts"], row["seq"]),
                    row["ts"],
                    frozenset(
                        name
                        for name, fills in {
                            "view": row["type"] == "VIEW",
                            "dear": row["type"] == "CART" and row["n"] > 3,
                            "cart": row["type"] in ("CART", "BUY"),
                            "last": row["type"] == "BUY" and row["n"] < 8,
                            "leave": row["type"] == "LEAVE",
                        }.items()
                        if fills
                    ),
                )
                for row in mine
            ],
            funnel.names,
            25,
            [("leave", "dear")],
        )
        if found:
            times = [mine[number]["ts"] for number in found]
            expected[user] = (len(found), *times, *[None] * (4 - len(found)))
    answer = {row["user"]: row for row in funnel.levels.collect()}
    assert {user: (row.level, row.view_at, row.dear_at, row.cart_at, row.last_at) for user, row in answer.items()} == (
        expected
    )
    assert {row[0] for row in expected.values()} == {1, 2, 3, 4}

    for group in funnel.groups:
        mine_too = [expected[user] for user, row in answer.items() if row.n == group.value]
        for at, step in enumerate(group.steps):
            there = [row for row in mine_too if row[0] > at]
            took = [row[at + 1] - row[at] for row in there] if at else []
            assert (step.keys, step.median) == (len(there), statistics.median(took) if took else None)
            assert step.of_first == len(there) / len(mine_too)
    assert sum(group.steps[0].keys for group in funnel.groups) == len(expected)
    assert repr(funnel).splitlines()[0].split() == [
        "n",
        "step",
        "keys",
        "of",
        "first",
        "of",
        "previous",
        "median",
        "time",
    ]


def test_the_table_and_the_picture() -> None:
    second = 1_000_000
    groups = [
        Group("DE", (Step("view", 1200, 1.0, 1.0, None), Step("buy", 300, 0.25, 0.25, 3725.4 * second))),
        Group(None, (Step("view", 1, 1.0, 1.0, None), Step("buy", 0, 0.0, 0.0, None))),
    ]
    drawn = picture(groups, "country", timed=True)
    assert drawn.text == (
        "country  step   keys  of first  of previous      median time\n"
        "───────  ────  ─────  ────────  ───────────  ───────────────\n"
        "DE       view  1,200    100.0%       100.0%\n"
        "DE       buy     300     25.0%        25.0%  1 hour 2 minutes\n"
        "NULL     view      1    100.0%       100.0%\n"
        "NULL     buy       0      0.0%         0.0%\n"
    ).replace("      median time", "       median time").replace("───────────────\n", "────────────────\n")
    assert "country DE" in drawn.svg()
    untimed = picture([Group(None, groups[0].steps)], None, timed=False)
    assert untimed.text.splitlines()[0].split() == ["step", "keys", "of", "first", "of", "previous", "median", "time"]
    assert "3,725,400,000" in untimed.text


@pytest.mark.parametrize(
    ("steps", "within", "message"),
    [
        (
            ["VIEW", "CART WHERE amout > 3", "BUY"],
            5,
            "funnel:2:18: error: CART cart declares no attribute amout\n"
            "   2 | EVENT CART WHERE amout > 3\n"
            "     |                  ^^^^^",
        ),
        (
            ["VIEW", "BUY"],
            "2 hours",
            "funnel:3:8: error: the time column ts is an integer and has no units\n"
            "   3 | WITHIN 2 hours\n"
            "     |        ^^^^^^^",
        ),
        (
            ["SEQ(VIEW a, CART b)", "BUY"],
            5,
            "funnel:1:7: error: a step of a funnel is one event\n"
            "   1 | EVENT SEQ(VIEW a, CART b)\n"
            "     |       ^^^^^^^^^^^^^^^^^^^\n"
            "  help: a step is an event type, ANY(A, B), or !A between two steps; and its own WHERE",
        ),
        (
            ["VIEW", "CART+ c", "BUY"],
            5,
            "funnel:2:7: error: a step of a funnel is one event\n   2 | EVENT CART+ c\n     |       ^^^^^^^",
        ),
        (
            ["VIEW", "BUY", "!LEAVE"],
            5,
            "funnel:3:7: error: what may not happen stands between two steps\n"
            "   3 | EVENT !LEAVE\n"
            "     |       ^^^^^^\n"
            "  help: move it, or leave it out of the funnel",
        ),
        (
            ["VIEW", "BUY WHERE view.n = n"],
            5,
            "funnel:2:17: error: a step's condition is about its own event\n"
            "   2 | EVENT BUY WHERE view.n = n\n"
            "     |                 ^^^^^^\n"
            "  help: compare attributes with values; a field of one needs the step's name, "
            "CART c WHERE c.props.page = 'x'",
        ),
        (
            ["VIEW WITHIN 3", "BUY"],
            5,
            "funnel:1:7: error: the window is that of the whole funnel\n"
            "   1 | EVENT VIEW WITHIN 3\n"
            "     |       ^^^^\n"
            "  help: give it as within",
        ),
        (
            ["VIEW RETURN n", "BUY"],
            5,
            "funnel:1:7: error: a step of a funnel has a condition, and nothing else\n"
            "   1 | EVENT VIEW RETURN n\n"
            "     |       ^^^^\n"
            "  help: a step is an event type, ANY(A, B), or !A between two steps; and its own WHERE",
        ),
        (
            ["VIEW", "PAY"],
            5,
            "funnel:2:7: error: unknown event type PAY\n"
            "   2 | EVENT PAY\n"
            "     |       ^^^\n"
            "  help: the catalog has BUY, CART, LEAVE, VIEW",
        ),
    ],
)
def test_what_is_wrong_with_a_step_is_shown_there(steps: list[str], within: int | str, message: str) -> None:
    with pytest.raises(sase.SaseError) as raised:
        compiled(asked_for(steps, "user", within, None), CATALOG)
    assert str(raised.value).startswith(message)


def test_what_no_step_is_to_blame_for() -> None:
    with pytest.raises(sase.OptionError, match="two steps or more"):
        asked_for(["VIEW"], "user", None, None)
    with pytest.raises(sase.OptionError, match="about keys"):
        asked_for(["VIEW", "BUY"], [], None, None)
    with pytest.raises(sase.SaseError, match="VIEW declares no attribute usr, and the funnel is counted by it"):
        compiled(asked_for(["VIEW", "BUY"], "usr", None, None), CATALOG)
    real = sase.Catalog(types={name: {"ts": "bigint", "user": "double"} for name in TYPES})
    with pytest.raises(sase.SaseError, match="user cannot tell keys apart: a key is no floating-point number"):
        compiled(asked_for(["VIEW", "BUY"], "user", None, None), real)
    with pytest.raises(sase.OptionError, match="a stream does not end"):
        compiled(asked_for(["VIEW", "BUY"], "user", 5, None), CATALOG, stream=True)


def test_the_job_is_one_of_ours() -> None:
    job = compiled(asked_for(["VIEW", "!LEAVE", "BUY"], "user", 5, "n"), CATALOG).job
    assert 'PATTERN = Furthest(\n    positive=("view", "buy"),' in job
    assert 'Negated("leave", after="view", before="buy")' in job
