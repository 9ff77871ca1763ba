"""Rows that public documentation prints, or that the tests of an engine hold, as facts: without Spark.

What is shared by the cases of a table is written once; the columns are the number of the match, the value, and the
variable. Where Trino looks ahead of the current row (`FIRST(x, 2)`), its rows are not ours: see docs/sql.md.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from sase.runtime.errors import SaseRunError
from tests.test_row_patterns import found_by_operator

LABELLED = "MEASURES MATCH_NUMBER() AS n, RUNNING LAST(x) AS v, CLASSIFIER() AS label"
NOTHING = "1,, 2,, 3,, 4,,"
Table = tuple[tuple[int, ...], str, dict[str, str]]
"""Values, a clause with a place for what differs, and the rows for each case."""

# Trino's tests of row pattern matching: the clause around the part that differs, and the rows for each part.
QUANTIFIERS: Table = (
    (90, 80, 70, 70),
    f"{LABELLED} ALL ROWS PER MATCH PATTERN ({{}}) DEFINE B AS B.x <= PREV(B.x)",
    {
        "B*": "1,, 2,80,B 2,70,B 2,70,B",
        "B*?": NOTHING,
        "B+": "1,80,B 1,70,B 1,70,B",
        "B+?": "1,80,B 2,70,B 3,70,B",
        "B?": "1,, 2,80,B 3,70,B 4,70,B",
        "B??": NOTHING,
        "B{,}": "1,, 2,80,B 2,70,B 2,70,B",
        "B{,}?": NOTHING,
        "B{1,}": "1,80,B 1,70,B 1,70,B",
        "B{1,}?": "1,80,B 2,70,B 3,70,B",
        "B{2,}": "1,80,B 1,70,B 1,70,B",
        "B{2,}?": "1,80,B 1,70,B",
        "B{5,}": "",
        "B{5,}?": "",
        "B{,1}": "1,, 2,80,B 3,70,B 4,70,B",
        "B{,1}?": NOTHING,
        "B{,2}": "1,, 2,80,B 2,70,B 3,70,B",
        "B{,2}?": NOTHING,
        "B{,5}": "1,, 2,80,B 2,70,B 2,70,B",
        "B{1,1}": "1,80,B 2,70,B 3,70,B",
    },
)
PATTERNS: Table = (
    (90, 80, 70, 70),
    f"{LABELLED} ALL ROWS PER MATCH PATTERN ({{}}) DEFINE B AS B.x < PREV(B.x), C AS C.x <= PREV(C.x)",
    {
        "() | A": NOTHING,
        "^A": "1,90,A",
        "A^": "",
        "^A^": "",
        "A$": "1,70,A",
        "$A": "",
        "B | C | A": "1,90,A 2,80,B 3,70,B 4,70,C",
        "PERMUTE(B, C)": "1,80,B 1,70,C",
        "()* | B": NOTHING,
        "()+ | B": NOTHING,
        "(){5,} | B": NOTHING,
        "B | ()*": "1,, 2,80,B 3,70,B 4,,",
        "(B ()*)*": "1,, 2,80,B 2,70,B 3,,",
        "(B ()*)*?": NOTHING,
        "^* | B": NOTHING,
        "^+ | B": "1,, 2,80,B 3,70,B",
        "^* A B": "1,90,A 1,80,B",
        "$* | B": NOTHING,
        "$+ | B": "1,80,B 2,70,B",
        "B A $+": "1,70,B 1,70,A",
    },
)
GROUPS: Table = (
    (90, 80, 70, 70),
    f"{LABELLED} ALL ROWS PER MATCH PATTERN ({{}}) DEFINE B AS B.x < PREV(B.x), C AS C.x = PREV(C.x)",
    {"A B C": "1,80,A 1,70,B 1,70,C", "((A) (B (C)))": "1,80,A 1,70,B 1,70,C"},
)
EXCLUSIONS: Table = (
    (90, 80, 70, 80, 90, 50, 40, 60),
    f"{LABELLED} ALL ROWS PER MATCH PATTERN ({{}}) DEFINE B AS B.x < PREV(B.x), C AS C.x > PREV(C.x)",
    {
        "A B+ C+": "1,90,A 1,80,B 1,70,B 1,80,C 1,90,C 2,50,A 2,40,B 2,60,C",
        "A {- B+ -} C+": "1,90,A 1,80,C 1,90,C 2,50,A 2,60,C",
        "{- A -} {- B+ -} C+": "1,80,C 1,90,C 2,60,C",
        "A {- {- B+ -} C+ -}": "1,90,A 2,50,A",
        "{- A B+ C+ -}": "",
        "A B+ {- ()* -} C+": "1,90,A 1,80,B 1,70,B 1,80,C 1,90,C 2,50,A 2,40,B 2,60,C",
        "A {- B -}+ {- C -}+": "1,90,A 2,50,A",
        "A {- B -}* {- C -}*": "1,90,A 2,50,A",
        "A {- B -}{1,2} {- C -}{1,2}": "1,90,A 2,50,A",
        "A {- C -}{2,3} {- B -}{2,3}": "1,70,A",
    },
)
MODES: Table = (
    (90, 80, 70, 70),
    f"{LABELLED} {{}} DEFINE B AS B.x < PREV(B.x)",
    {
        "ONE ROW PER MATCH PATTERN (B*)": "1,, 2,70,B 3,,",
        "PATTERN (B*)": "1,, 2,70,B 3,,",
        "ONE ROW PER MATCH PATTERN (B+)": "1,70,B",
        "ALL ROWS PER MATCH PATTERN (B*)": "1,, 2,80,B 2,70,B 3,,",
        "ALL ROWS PER MATCH PATTERN (B+)": "1,80,B 1,70,B",
        "ALL ROWS PER MATCH SHOW EMPTY MATCHES PATTERN (B*)": "1,, 2,80,B 2,70,B 3,,",
        "ALL ROWS PER MATCH OMIT EMPTY MATCHES PATTERN (B*)": "2,80,B 2,70,B",
        "ALL ROWS PER MATCH OMIT EMPTY MATCHES PATTERN (B+)": "1,80,B 1,70,B",
        "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (B+)": ",, 1,80,B 1,70,B ,,",
    },
)
FIRST_V, SECOND_V = "1,90,A 1,80,B 1,70,B 1,80,C", "2,80,A 2,70,B 2,80,C"
SKIPS: Table = (
    (90, 80, 70, 80, 70, 80),
    f"{LABELLED} ALL ROWS PER MATCH AFTER MATCH SKIP {{}} PATTERN (A B+ C+ D?) SUBSET U = (C, D) "
    "DEFINE B AS B.x < PREV(B.x), C AS C.x > PREV(C.x), D AS false",
    {
        "PAST LAST ROW": FIRST_V,
        "TO NEXT ROW": f"{FIRST_V} {SECOND_V} 3,80,A 3,70,B 3,80,C",
        "TO FIRST C": f"{FIRST_V} {SECOND_V}",
        "TO LAST B": f"{FIRST_V} {SECOND_V}",
        "TO B": f"{FIRST_V} {SECOND_V}",
        "TO U": f"{FIRST_V} {SECOND_V}",
        "TO A": "error",
        "TO D": "error",
    },
)
UNMATCHED: Table = (
    (100, 100, 90, 80, 70, 100),
    "MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS label ALL ROWS PER MATCH WITH UNMATCHED ROWS "
    "AFTER MATCH SKIP TO NEXT ROW PATTERN ({}) DEFINE B AS B.x < PREV(B.x)",
    {"A B{2}": ", 1,A 1,B 1,B 2,A 2,B 2,B ,"},
)
UNIONS: Table = (
    (90, 80, 70, 80),
    "MEASURES MATCH_NUMBER() AS n, CLASSIFIER(U) AS u, CLASSIFIER(W) AS w ALL ROWS PER MATCH PATTERN ({}) "
    "SUBSET U = (L, H), W = (A, L, H) DEFINE A AS A.x = 80, L AS L.x < 80, H AS H.x > 80",
    {"(L | H) A": "1,H,H 1,H,A 2,L,L 2,L,A"},
)
NAVIGATION: Table = (
    (10, 20, 30),
    "MEASURES {} AS v ALL ROWS PER MATCH PATTERN (A+)",
    {
        "x": "10 20 30",
        "LAST(x)": "10 20 30",
        "RUNNING LAST(x)": "10 20 30",
        "FINAL LAST(x)": "30 30 30",
        "FIRST(x)": "10 10 10",
        "RUNNING FIRST(x)": "10 10 10",
        "FINAL FIRST(x)": "10 10 10",
        "FINAL LAST(x, 2)": "10 10 10",
        "LAST(x, 10)": "- - -",
        "FIRST(x, 10)": "- - -",
        "PREV(x)": "- 10 20",
        "NEXT(x)": "20 30 -",
        "NEXT(FIRST(x), 2)": "30 30 30",
        "NEXT(FIRST(x), 10)": "- - -",
        "PREV(FIRST(x), 10)": "- - -",
        "PREV(FIRST(x, 10), 2)": "- - -",
        "PREV(LAST(x, 10), 2)": "- - -",
    },
)
OUTSIDE: Table = (
    (10, 20, 30, 30, 40),
    "MEASURES {} AS v PATTERN (A B) DEFINE B AS B.x = PREV(B.x)",
    {"PREV(B.x, 4)": "-", "PREV(B.x, 3)": "10", "PREV(B.x, 2)": "20", "NEXT(B.x, 1)": "40", "NEXT(B.x, 2)": "-"},
)
NEXT_LABEL: Table = (
    (90, 80, 70, 80),
    "MEASURES CLASSIFIER() AS label, NEXT(CLASSIFIER()) AS other ALL ROWS PER MATCH {}",
    {
        "PATTERN (A B+ C+) DEFINE B AS B.x < PREV(B.x), C AS C.x > PREV(C.x)": "A,B B,B B,C C,",
        "PATTERN (A+) DEFINE A AS NEXT(CLASSIFIER()) = 'A'": "",
    },
)
BACK: Table = (
    (1, 2, 3, 4, 5, 6),
    "MEASURES CLASSIFIER() AS label ALL ROWS PER MATCH {}",
    {
        "PATTERN ((A | B)* X) DEFINE X AS x = PREV(LAST(A.x), 3) + FIRST(A.x) + PREV(LAST(B.x), 2)": "B A A A B X",
    },
)
BACK_LABELS: Table = (
    (1, 2, 3, 4, 5),
    "MEASURES CLASSIFIER() AS label ALL ROWS PER MATCH PATTERN ((A | B)* X $) SUBSET U = (A, B) DEFINE X AS {}",
    {"PREV(CLASSIFIER(U), 1) = 'A' AND LAST(CLASSIFIER(), 3) = 'B' AND FIRST(CLASSIFIER(U)) = 'B'": "B B A A X"},
)
SAME: Table = (
    (1, 1),
    "MEASURES CLASSIFIER() AS label ALL ROWS PER MATCH PATTERN ((A | B)* X) DEFINE X AS {}",
    {"x = A.x": "A X", "x = B.x": "B X"},
)
SEMANTICS: Table = (
    (90, 80, 70, 100, 200),
    "MEASURES CLASSIFIER() AS c, FINAL LAST(CLASSIFIER()) AS f, RUNNING LAST(x) AS r, FINAL LAST(x) AS l, "
    "RUNNING LAST(A.x) AS ra, FINAL LAST(A.x) AS fa, RUNNING LAST(B.x) AS rb, FINAL LAST(B.x) AS fb, "
    "RUNNING LAST(C.x) AS rc, FINAL LAST(C.x) AS fc ALL ROWS PER MATCH PATTERN ({}) "
    "DEFINE B AS B.x < PREV(B.x), C AS C.x > PREV(C.x)",
    {
        "A B+ C+": "A,C,90,200,90,90,,70,,200 B,C,80,200,90,90,80,70,,200 B,C,70,200,90,90,70,70,,200 "
        "C,C,100,200,90,90,70,70,100,200 C,C,200,200,90,90,70,70,200,200",
    },
)
TABLES = {name: table for name, table in globals().items() if isinstance(table, tuple)}


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_trino_s_tests(name: str) -> None:
    values, clause, cases = TABLES[name]
    rows = [{"t": at, "x": value, "y": 0} for at, value in enumerate(values)]
    for part, wanted in cases.items():
        text = f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY g ORDER BY t, row {defined(clause.format(part))})"
        assert found(text, rows) == wanted, part


def defined(clause: str) -> str:
    """Without the definitions that are for other cases."""
    before, word, define = clause.partition(" DEFINE ")
    pattern = before.partition("PATTERN")[2]
    parts = [part for part in re.split(r", (?=[A-Z] AS )", define) if re.search(rf"\b{part[:1]}\b", pattern)]
    return before + (word + ", ".join(parts) if parts and define else "")


def found(text: str, rows: list[dict[str, Any]]) -> str:
    """The measures of each row, in order."""
    try:
        shown = found_by_operator(text, [rows], Random(1), jit=False)
    except SaseRunError:
        return "error"
    if shown and "row" in shown[0]:
        number = next((name for name, value in shown[0].items() if name == "n"), "g")
        shown = sorted(shown, key=lambda row: (row[number] or (0 if row["row"] == 0 else 99), row["row"]))
    told = [[value for name, value in row.items() if name not in ("g", "row")] for row in shown]
    alone = told and len(told[0]) == 1
    return " ".join(",".join(("-" if alone else "") if each is None else str(each) for each in row) for row in told)
