"""Why rows are part of no match, and clauses in pictures, without Spark; test_sql has both in Spark."""

from __future__ import annotations

from datetime import date
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import sase
from sase.analysis.rows import LANE, ROW, Labelled, Miss, RowAnalysis, Tries, parts_of
from sase.pictures.picture import Picture
from sase.pictures.rows import row_automata, row_report, scene_of
from sase.pictures.timeline import chart
from sase.pictures.timeline_text import text as in_words

PRICES = [12, 17, 19, 21, 25, 12, 15, 15, 24, 19, 15]
CLAUSE = """SELECT * FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day MEASURES count(*) AS days
  PATTERN (A DOWN+ UP{2,}) WITHIN 5
  DEFINE A AS price > 12, DOWN AS price < PREV(price), UP AS price > PREV(price) AND UP.price < A.price)"""


def labelled(text: str) -> Labelled:
    statement = sase.compile_sql(text, "trino").with_windows
    (view,) = statement.compiled.statement.views
    module: ModuleType = statement.module
    nothing: Any = None
    return Labelled(view, module.MATCHES_ORDER, module.MATCHES_PATTERN, nothing, nothing, tuple(parts_of(view.plan)))


def table(found: Labelled, prices: list[int]) -> pa.Table:
    """The rows as Spark prepares them: symbol bits, and the parts of conditions with their sides."""
    before = [None, *prices[:-1]]
    truths = [
        [price > 12 for price in prices],
        [was is not None and price < was for price, was in zip(prices, before, strict=True)],
        [was is not None and price > was for price, was in zip(prices, before, strict=True)],
    ]
    columns: dict[str, Any] = {
        "day": list(range(len(prices))),
        "price": prices,
        LANE: ["ACME"] * len(prices),
        ROW: list(range(1, len(prices) + 1)),
        "_sase_symbols": [sum(1 << at for at in range(3) if truths[at][row]) for row in range(len(prices))],
    }
    for at, part in enumerate(found.parts):
        columns[f"holds{at}"] = truths[["A", "DOWN", "UP"].index(part.variable)]
        columns[f"left{at}"] = list(map(str, prices))
        columns[f"right{at}"] = ["12"] * len(prices) if part.variable == "A" else list(map(str, before))
    return pa.table(columns)


def test_the_longest_try_tells_where_it_got_stuck_and_why() -> None:
    found = labelled(CLAUSE)
    tries = Tries(found, table(found, PRICES))

    def miss(row: int) -> str:
        return str(tries.miss(0, row - 1, len(PRICES)))

    assert [part.text for part in found.parts] == ["price > 12", "price < PREV(price)", "price > PREV(price)"]
    assert miss(1) == "row 1 (ACME · day 0): row 1: A failed, 12 > 12 (price > 12)"
    assert miss(5) == ("row 5 (ACME · day 4): A DOWN UP, then row 8: UP failed, 15 > 15 (price > PREV(price))")
    assert miss(9) == "row 9 (ACME · day 8): A DOWN×2, then row 12: the partition ends"
    rising = Tries(found, table(found, [20, 10, 15, 25]))
    assert str(rising.miss(0, 0, 4)) == (
        "row 1 (ACME · day 0): A DOWN UP, then row 4: UP failed, given the rows before: "
        "price < (price of the last row of A, so far)"
    )
    long = Tries(found, table(found, [30, 29, 28, 27, 26, 27, 28]))
    assert str(long.miss(0, 0, 7)) == "row 1 (ACME · day 0): A DOWN×4, then row 6: WITHIN has ended"
    assert Tries(found, table(found, [20, 10, 15, 18])).miss(0, 0, 4) is None


def test_an_analysis_in_words() -> None:
    found = labelled(CLAUSE)
    counts = (5, 3, 6)
    misses = (Miss("ACME", 5, "day 4", ("A", "DOWN", "UP", "UP"), ("UP failed, 15 > 15 (price > PREV(price))",)),)
    mapped = (("A", 1), ("DOWN", 1), ("UP", 2))
    analysis = RowAnalysis("matches", 11, 1, tuple(zip(found.parts, counts, strict=True)), 1, 4, mapped, misses)
    assert (
        str(analysis)
        == """\
{matches}
  rows         11  in 1 partition
  may be A      5  price > 12
  may be DOWN   3  price < PREV(price)
  may be UP     6  price > PREV(price)
  matches       1  A 1, DOWN 1, UP 2
  of a match    4  rows
  of no match   7  rows
  The longest tries from rows of no match, and where they got stuck:
    row 5 (ACME · day 4): A DOWN UP×2, then row 9: UP failed, 15 > 15 (price > PREV(price))
"""
    )


def test_a_pattern_as_an_automaton() -> None:
    statement = sase.compile_sql(CLAUSE, "trino")
    picture = sase.nfa(statement)
    assert repr(picture).splitlines() == [
        "begins with A",
        "A → DOWN",
        "DOWN → DOWN | UP#2",
        "UP#2 → UP#3",
        "UP#3 → UP#3 | end",
        "A: price > 12",
        "DOWN: price < PREV(price)",
        "UP: price > PREV(price)",
        "UP: price < (price of the last row of A, so far)",
    ]
    assert picture.svg().count(">match<") == 1
    assert "The pattern as an automaton" in row_report(statement)
    other = CLAUSE.removeprefix("SELECT * FROM ")
    both = f"{CLAUSE.replace('SELECT *', 'SELECT a.symbol')} a JOIN {other} b USING (symbol)"
    assert [each.title for each in row_automata(sase.compile_sql(both, "trino"))] == [
        "The pattern of matches_1 as an automaton",
        "The pattern of matches_2 as an automaton",
    ]
    with pytest.raises(sase.OptionError, match="the statement has 2 clauses"):
        sase.nfa(sase.compile_sql(both, "trino"))


def test_long_patterns_and_ways_back_are_drawn() -> None:
    clause = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x PATTERN ((A B | C)+ D{30}))"
    picture = sase.nfa(sase.compile_sql(clause))
    assert "9 more states are not drawn" in picture.svg()


def test_matches_on_a_time_axis() -> None:
    """A row in two matches is drawn once, and named by the variables of both."""
    found = labelled(CLAUSE.replace("WITHIN 5", "WITHIN INTERVAL '5' DAY"))
    labels = [(1, 1, "A"), (2, 1, "DOWN"), (3, 1, "UP"), (3, 2, "A"), (4, 2, "DOWN"), (5, None, None)]
    rows = [
        {
            LANE: "ACME",
            ROW: row,
            "day": date(2026, 3, row),
            "price": row,
            "_sase_number": number,
            "_sase_variable": name,
        }
        for row, number, name in labels
    ]
    shown = scene_of(rows, ["ACME"], "day", found, ())
    assert [event.type for event in shown.events] == ["A", "DOWN", "UP", "DOWN", "no match"]
    assert [run.events for run in shown.matches] == [(("A", 0), ("DOWN", 1), ("UP", 2)), (("A", 2), ("DOWN", 3))]
    assert shown.window == 5 * 86_400_000
    assert "match A 2026-03-01 → DOWN 2026-03-02 → UP 2026-03-03 (2 d)" in in_words(shown)
    assert Picture("Matches", "", lambda: chart(shown)).svg().startswith("<svg")
