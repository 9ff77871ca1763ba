"""`sase test`: how tests are written, and what is said of those that fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sase
from sase.cli import main
from sase.compiler.core.catalog import Catalog
from sase.testing import Event, cases_in, outcomes

QUERY = "EVENT SEQ(view v, !purchase p, leave l)\nWHERE [user]\nWITHIN 30 minutes\nRETURN v.user\n"
LETTERS = "EVENT SEQ(A x, B y) WITHIN 3\n"


def test_a_query_has_its_tests_in_comments() -> None:
    text = f"""{QUERY}
/* of no concern */
/* test: who buys is left alone
given    view@9:00(user=1, name='O''Brien, (J.)') leave@9:10(user=NULL)
         leave@9:10(user=2)
matches  (view@9:00, leave@9:10(user=2))
         (view@9:00(user=1), leave@9:10(user=NULL))
*/
/* test
given
matches
*/
"""
    first, second = cases_in(text, "q.sase")
    assert (first.place, first.title, tuple(first.query.types)) == (
        "q.sase:7", "who buys is left alone", ("view", "purchase", "leave"),
    )  # fmt: skip
    assert first.given[0] == Event("view@9:00", (("user", "1"), ("name", "O'Brien, (J.)")))
    assert first.given[1] == Event("leave@9:10", (("user", None),))
    assert first.matches == ((0, 2), (0, 1))
    assert first.named((0, 2)) == "(view@9:00, leave@9:10(user=2))"
    assert (second.place, second.title, second.given, second.matches) == ("q.sase:13", "", (), ())


def test_of_several_queries_a_test_is_of_the_one_above_it() -> None:
    text = """EVENT SEQ(A a, B b) RETURN EVENT Hit(a.id);
/* test: of the first
given    a1(id=7) b2
matches  (a1, b2)
*/
EVENT SEQ(Hit h, B b) WITHIN 5 INTO Next
/* test: results of others are events
given    hit1(id=7) b2
matches  (hit1, b2)
*/
"""
    first, second = cases_in(text, "q.sase")
    assert [list(case.query.types) for case in (first, second)] == [["A", "B"], ["Hit", "B"]]
    assert second.file is not None
    catalog = Catalog(types={name: {"ts": "bigint", "id": "int"} for name in "AB"})
    assert second.file.known(catalog).types == {**(catalog.types or {}), "Hit": {"ts": "bigint", "id": "int"}}


def test_markdown_has_them_in_blocks() -> None:
    text = (
        f"# A page\n```sase\n{LETTERS}```\n```events\ngiven    a1 b2\nmatches  (a1, b2)\n```\n```sase\n{LETTERS}```\n"
    )
    (case,) = cases_in(text, "page.md")
    assert (case.place, case.query.filename, case.matches) == ("page.md:5", "page.md:2", ((0, 1),))


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("given a1 b2", "a test has the word `given` with events, and then the word `matches` with matches"),
        ("matches\ngiven a1", "a test has the word `given` with events, and then the word `matches` with matches"),
        ("when\ngiven a1\nmatches", "a test begins with `given`, and not with 'when'"),
        ("given a1\nmatches (a1, b2)", "b2 is not given: there are a1"),
        ("given a1(id=1) a1(id=2)\nmatches (a1)", "a1 could be a1(id=1) or a1(id=2)"),
        ("given a1(id)\nmatches", "'id' is not an attribute, such as id=7 or name='Smith, J.'"),
        ("given a1 ,\nmatches", "',' is not an event, such as a3 or login@9:30(user=7)"),
        ("given a1\nmatches a1", "'a1' is not a match, such as (a1, b3)"),
    ],
)
def test_what_is_no_test_is_said_with_its_place(test: str, message: str) -> None:
    with pytest.raises(sase.OptionError) as caught:
        cases_in(f"{LETTERS}\n/* test\n{test}\n*/", "q.sase")
    assert str(caught.value) == f"q.sase:3: {message}"


CATALOG = sase.Catalog(types={name: {"ts": "bigint", "id": "int"} for name in ("A", "B")})


def test_outcomes_show_what_is_missing_and_what_is_too_much(spark: SparkSession) -> None:
    tests = [
        "given a1 a2 b4\nmatches (a2, b4)",
        "given a1 a2 b3 b4\nmatches (a1, b3) (a2, b4) (a2, b4)",
        "given a1(id=x) b2\nmatches (a1, b2)",
        "given a1 c2\nmatches",
        "given a1(idd=1)\nmatches",
        "given a\nmatches",
    ]
    query = "EVENT SEQ(A x, B y) WHERE coalesce(x.id, 0) = 0 WITHIN 3\n"
    cases = cases_in(query + "".join(f"/* test: {at}\n{test}\n*/\n" for at, test in enumerate(tests)), "q.sase")
    right, wrong, value, unknown, attribute, timeless = outcomes(cases, CATALOG, spark)
    assert right.passed
    assert str(wrong) == (
        "FAIL  q.sase:6: 1\n      missing     (a2, b4)\n      unexpected  (a2, b3)"
    )  # fmt: skip
    assert value.error is not None and "x is no int" in value.error
    assert unknown.error == "there is no event type c: there are A, B"
    assert attribute.error == "a1(idd=1): A declares no attribute idd: did you mean id?"
    assert timeless.error == "a has no time: write a@9:30, or a@12 where time is an integer"


def test_times_are_those_of_a_clock_however_the_data_has_them(spark: SparkSession) -> None:
    (case,) = cases_in(
        f"{QUERY}/* test\ngiven view@9:00(user=1) leave@9:29(user=1)\nmatches (view@9:00, leave@9:29)\n*/", "q"
    )
    types = {name: {"ts": "bigint", "user": "int"} for name in ("view", "leave", "purchase")}
    (outcome,) = outcomes([case], sase.Catalog(types=types, time_unit="ms"), spark)
    assert outcome.passed, str(outcome)


def test_the_command_tests_all_files_and_exits_with_1_if_a_test_fails(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without a catalog, types and attributes are those of the tests."""
    good, bad, without, broken = (tmp_path / f"{name}.sase" for name in ("good", "bad", "without", "broken"))
    good.write_text(
        f"{QUERY}/* test: who buys is left alone\n"
        "given    view@9:00(user=1) leave@9:10(user=1) view@9:00(user=b) PURCHASE@9:05(user=b) leave@9:10(user=b)\n"
        "matches  (view@9:00(user=1), leave@9:10(user=1))\n*/\n"
    )
    bad.write_text(f"{QUERY}/* test\ngiven view@9:00(user=1) leave@9:30(user=1)\nmatches (view@9:00, leave@9:30)\n*/")
    without.write_text(QUERY)
    broken.write_text("EVENT SEQ(")
    assert main(["test", str(good), str(without)]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("1 test · all passed · ") and shown.err == f"note: {without} has no test\n"
    assert main(["test", str(good), str(bad), str(broken)]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith(
        f"FAIL  {bad}:5\n      missing     (view@9:00, leave@9:30)\n\n2 tests · 1 failed · 1 of 3 files"
    )
    assert f"{broken}:1:11: error: expected" in shown.err
    assert main(["test", str(without)]) == 1
    assert "error: there is no test: a test is a comment,  /* test: TITLE given" in capsys.readouterr().err


def test_a_match_may_leave_variables_unbound_stand_for_several_and_have_a_time(spark: SparkSession) -> None:
    query = "EVENT OR(SEQ(A x, ALL(B y)), B z) WITHIN 3\n"
    texts = [
        "given a1 b2 b3\nmatches (a1, {b2 b3}, -)@4 (-, -, b2)@2 (-, -, b3)@3",
        "given a1 a5 b7\nmatches (a1, {}, -) (a5, {b7}, -)",
        "given a1\nmatches (a1, {}, -)@3",
    ]
    cases = cases_in(query + "".join(f"/* test\n{text}\n*/\n" for text in texts), "q.sase")
    assert cases[0].matches[0] == (0, frozenset({1, 2}), None, "4") and cases[0].timed
    right, unbound, early = outcomes(cases, CATALOG, spark)
    assert right.passed, str(right)
    assert str(unbound) == "FAIL  q.sase:6\n      unexpected  (-, -, b7)"
    assert (early.missing, early.unexpected) == (("(a1, {}, -)@3",), ("(a1, {}, -)@4",))


def test_the_time_of_each_match_is_said_or_of_none() -> None:
    with pytest.raises(sase.OptionError, match="the time of each match is said, or of none"):
        cases_in(f"{LETTERS}\n/* test\ngiven a1 b2 b3\nmatches (a1, b2)@2 (a1, b3)\n*/", "q.sase")
