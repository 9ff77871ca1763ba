"""Queries of other languages in words of SASE: read again, they are the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worked_examples import Example, examples

from sase.compiler.core.bound import Branch
from sase.compiler.core.errors import SaseError
from sase.compiler.languages.registry import read
from sase.compiler.languages.sase.spelling import spelled

EXAMPLES = [(language, example) for language in ("vdms-pq", "telegraphcq") for example in examples(language)]
WITHOUT_WORDS = {"B6", "B7", "B8", "B9", "B13", "B14", "B15", "B18", "B19", "B20", "B21"}
REFUSED = {"A15", "A16", "A17", "A18", "A19"}
"""Aggregates over what is in results."""
MISSING = {"A6", "A7", "A8"}
"""What is missing is spelled out, and SASE's rule then adds what follows from it."""


@pytest.mark.parametrize(
    ("language", "example"),
    [pytest.param(*each, id=each[1].name) for each in EXAMPLES if each[1].name not in REFUSED | MISSING],
)
def test_read_again_it_is_the_same(language: str, example: Example) -> None:
    query = read(example.query, "q", language).bind(example.catalog)
    if example.name in WITHOUT_WORDS:
        with pytest.raises(SaseError, match="SASE has no words for this query"):
            spelled(query)
    else:
        again = read(spelled(query), "q", "sase").bind(example.catalog)
        assert list(map(in_one_order, again.branches)) == list(map(in_one_order, query.branches))
        assert again.arrivals == query.arrivals


def in_one_order(branch: Branch) -> Branch:
    apart = sorted(branch.apart, key=lambda each: (each.earlier, each.later))
    return replace(branch, apart=tuple(apart), variables=tuple(sorted(branch.variables)))


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


@pytest.mark.parametrize(
    ("example", "why", "at"),
    [
        (
            "B7",
            "its windows are of pairs (x and y, 5; y and z, 5), and SASE's is of the whole match",
            "FOLLOWS(FOLLOWS(x",
        ),
        (
            "B9",
            "its windows are of pairs (C and B, 60; B and C_2, 2), and SASE's is of the whole match",
            "BOTH(NOTPRECEDES(B, C",
        ),
        ("B14", "its results come in 2 orders, and each of these counts for itself", "ANYONE(x, y)"),
    ],
)
def test_what_sase_has_no_words_for(example: str, why: str, at: str) -> None:
    case = next(each for each in examples("telegraphcq") if each.name == example)
    with pytest.raises(SaseError) as error:
        spelled(read(case.query, "q", "telegraphcq").bind(case.catalog))
    (found,) = error.value.diagnostics
    assert found.message == f"SASE has no words for this query: {why}"
    assert case.query[found.span.start : found.span.end].startswith(at)


def test_an_order_that_is_not_that_of_the_names() -> None:
    case = next(each for each in examples("telegraphcq") if each.name == "B5")
    assert spelled(read(case.query, "q", "telegraphcq").bind(case.catalog)) == "EVENT SEQ(B y, A x)\nWITHIN 5\n"
