"""The bound algebra says what the text says: examples of the seeds, and random nested patterns, without Spark."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import bound_algebra
import pytest
from brute_force import Match, Pattern, element, evaluate, matches, taking_part, times
from effort import tries
from hypothesis import given, settings
from random_queries import Case, nested_cases
from worked_examples import Example, examples

from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.catalog import Catalog
from sase.compiler.languages.sase.front_end import read
from sase.compiler.languages.sase.parser import parse

EXAMPLES = [example for example in examples("patterns") if "+" not in example.query]


def text(example: Example) -> str:
    """The query, with `select` and `consume` where SASE has them."""
    query = example.query
    for mode, name in re.findall(r"(\w+):(\w+)", example.settings.get("select", "")):
        query = re.sub(rf"(\w+) {name}\b", rf"{mode} \1 {name}", query, count=1)
    if "consume" in example.settings:
        query += f" CONSUME {example.settings['consume'].upper()}"
    return query


def events(example: Example) -> list[dict[str, Any]]:
    assert example.catalog.types is not None
    columns = ["type", "n", *dict.fromkeys(name for declared in example.catalog.types.values() for name in declared)]
    return [{name: row.get(name) for name in columns} for row in example.given.values()]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_judge_gives_the_matches_of_the_seeds(example: Example) -> None:
    pattern = Pattern(parse(text(example)), example.catalog, ansi=True)
    stream = taking_part(events(example), example.catalog)
    labels = dict(zip(map(id, stream), example.given, strict=True))

    def shown(match: Match, name: str) -> str:
        if name in match.collected:
            return "{" + " ".join(labels[id(event)] for event in match.collected[name]) + "}"
        return labels[id(match.bound[name])] if name in match.bound else "-"

    variables = [c.name for c in pattern.components if c.name in pattern.positive | pattern.collects]
    found = Counter((tuple(shown(match, name) for name in variables), None) for match in matches(pattern, stream))
    assert found == example.matches


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_bound_query_has_the_matches_of_the_seeds(example: Example) -> None:
    compare(text(example), example.catalog, events(example))


# What a binder or a plan is easily wrong about, all on one stream. D has no `id`, whatever its row says.
TRAPS = [
    # What a branch does not bind is left out, and OR goes on with the other side; NOT of it is left out, too.
    "EVENT AND(A a, OR(B b, C c)) WHERE b.n > 1 OR a.n > 1 WITHIN 5",
    "EVENT AND(A a, OR(B b, C c)) WHERE NOT b.n = 1 AND (b.n = 2 OR c.n = 2) WITHIN 5",
    "EVENT OR(SEQ(A a, B b), C c) WHERE [id] OR a.n = 1 WITHIN 5",
    # A missing attribute of a bound event is true.
    "EVENT AND(ANY(A, D) a, OR(B b, D d)) WHERE a.id = b.id OR d.n = a.n WITHIN 3",
    # In the group with d, nothing ties b to a.
    "EVENT AND(A a, NOT AND(B b, OR(C c, D d))) WHERE a.id = c.id AND b.id = c.id WITHIN 3",
    "EVENT SEQ(A a, NOT AND(B b, OR(C c, D d)), A z) WHERE a.id = b.id AND a.id = c.id AND b.n >= d.n WITHIN 9",
    # Of one NOT, whose groups forbid each for itself; inside, what may not be there must be.
    "EVENT SEQ(A a, NOT SEQ(B b, NOT C c), D d) WHERE b.id = a.id AND c.id = b.id AND c.n >= b.n",
    "EVENT AND(A a, NOT AND(NOT B b, NOT C c)) WHERE a.id = b.id AND a.id = c.id WITHIN 3",
    "EVENT AND(A a, NOT OR(B b, NOT C c)) WITHIN 2",
    # Equal assignments are one match, in whatever branch; simultaneous events have no order.
    "EVENT OR(SEQ(A a, B b), AND(A a, B b), AND(A a, NOT C c)) WHERE a.id = b.id WITHIN 2",
    "EVENT AND(A a, A b, NOT A c) WHERE [id] WITHIN 5",
    "EVENT ANY(2, A a, B b, NOT C c) WITHIN 2",
    # Collected with conditions, with a key, at both ends of the window; values of nothing.
    "EVENT AND(A a, ALL(B t)) WHERE [id] AND t.n >= a.n AND count(t) < 2 WITHIN 4",
    "EVENT SEQ(ALL(C t), A a, !B b, ALL(C u)) WHERE sum(t.n) >= 1 OR max(u.n) > 0 WITHIN 6",
    "EVENT SEQ(A a, OR(B b, ALL(C t)), D d) WHERE avg(t.n) > 0 WITHIN 6",
    # Of each event of a repeated one, of one of them, and of all.
    "EVENT SEQ(A{1,3} a, B b) WHERE [id] AND a.n <= b.n WITHIN 6",
    "EVENT SEQ(A{1,2} a, B b) WHERE a[1].n < b.n AND sum(a.n) > 1 AND last(a.n) >= first(a.n) WITHIN 6",
    "EVENT AND(A{2} a, NOT B{2} b) WHERE b.n > a.n OR b.id = a.id WITHIN 4",
    # What may be left out, and what looks at the events before it in a loop.
    "EVENT SEQ(A a, B? b, D d) WHERE b.n > a.n OR d.n > 2 WITHIN 6",
    "EVENT SEQ(A a, B{0,2} b, D d) WHERE [id] AND (count(b) > 1 OR sum(b.n) < d.n OR a.n < 2) WITHIN 6",
    "EVENT SEQ(A a, B{1,3} b) WHERE b[i].n >= b[i-1].n AND (b[i].n > avg(b[..i-1].n) OR b.n = 2) WITHIN 9",
    "EVENT SEQ(A{1,2} a, B b) WHERE a[-1].n < b.n AND NOT a[1].n = 2 WITHIN 6",
    # Selection and consumption.
    "EVENT SEQ(last A a, first B b, ANY(B, C, D) c) WITHIN 6",
    "EVENT SEQ(first A a, AND(B b, C c), last D d, B z) WITHIN 8",
    "EVENT AND(A a, B b) WITHIN 3 CONSUME EXCLUSIVE",
    "EVENT SEQ(last A a, OR(B b, C b2)) WHERE a.n = 1 WITHIN 4 CONSUME EXCLUSIVE",
    # Parts with clauses of their own: windows in windows, conditions of one alternative, of one group, and under NOT.
    "EVENT SEQ(A a, AND(B b, C c) WITHIN 2, D d) WITHIN 6",
    "EVENT OR(SEQ(A a, B b) WHERE a.n < b.n WITHIN 4, SEQ(B b, A a) WHERE [id] WITHIN 9) WHERE b.n > 0",
    "EVENT AND(A a, NOT OR(SEQ(B b, C c) WHERE b.n = a.n, SEQ(C c, B b) WHERE [id] AND c.n > 1)) WITHIN 5",
    "EVENT AND(A a, NOT (AND(B b, NOT (C c WHERE c.id = b.id OR a.n > 1 WITHIN 3)) WITHIN 2)) WITHIN 4",
    "EVENT SEQ(A a, ALL(B t) WHERE t.n > 1 OR a.n > 0, D d) WHERE count(t) > 0 WITHIN 6",
    "EVENT SEQ(A a, (B{1,2} b WHERE [id] WITHIN 3), D d) WITHIN 9",
    # For the third of them, a part has no room.
    "EVENT AND(SEQ(A{1,3} a, B b) WITHIN 3, C c) WHERE (a[1].n >= 1 OR a[0].n > 0) WITHIN 9",
    # Orders that no nesting says, bounds of pairs, exact ones, and such between what is not there and what is.
    "EVENT AND(A a, B b, C c, D d) WHERE before(a, c) AND before(b, c) AND before(b, d) WITHIN 6",
    "EVENT AND(A a, B b) WHERE elapsed(a, b) BETWEEN -2 AND 1 AND a.id = b.id",
    "EVENT AND(A a, B b, C c) WHERE elapsed(a, b) = 0 AND elapsed(b, c) <= 4 AND 1 <= elapsed(b, c)",
    "EVENT SEQ(!B b, A a, !C c) WHERE [id] AND elapsed(b, a) < 3 AND elapsed(a, c) < 2",
    "EVENT AND(A a, D d, NOT B b) WHERE elapsed(a, b) < 3 AND elapsed(b, a) < 2 AND elapsed(a, d) BETWEEN -9 AND 2",
    "EVENT SEQ(A{1,2} a, B b, ALL(C t)) WHERE elapsed(a, b) < 4 AND elapsed(b, t) = 2 AND elapsed(t, b) < 9",
    "EVENT OR(SEQ(A a, !B b) WHERE elapsed(a, b) < 3, C c)",
    "EVENT AND(A a, NOT B b) WHERE elapsed(a, b) < 1 AND elapsed(b, a) < 2",
    # Doubles, by every way; OR inside is once.
    "EVENT OR ALL(SEQ(A a, B b), AND(A a, B b), A a, A a) WITHIN 3",
    "EVENT AND(D d, OR ALL(A a, A a, OR(SEQ(A a, B b), C c))) WITHIN 3",
    # Stuck, with a key, a condition on the next step, and what forbids it.
    "EVENT SEQ(A a, B b, D d) WHERE a.id = b.id AND d.n > b.n WITHIN 3 TIMED OUT",
    "EVENT SEQ(!D x, A a, !C c, B b, A z) WHERE a.id = b.id AND c.n = a.n WITHIN 3 TIMED OUT",
]
TRAP_STREAM = [
    *(("A", 1, 1, 1), ("A", 1, None, None), ("B", 1, 1, 2), ("A", 2, 2, None), ("C", 2, 1, 2), ("C", 3, None, 1)),
    *(("B", 4, 1, 1), ("B", 4, 2, None), ("D", 4, 9, 3), ("A", 5, 1, 2), ("C", 5, 2, 0), ("A", 6, 2, 1)),
    *(("B", 6, None, 2), ("D", 6, 1, None), ("B", 7, 2, 3), ("A", 7, None, 1), ("C", 8, 1, 1), ("B", 9, 1, 2)),
    *(("A", 13, 1, 1), ("D", 14, 7, 1), ("A", 20, 3, 1), ("B", 22, 3, 1)),
]
TRAP_TYPES = {"ts": "bigint", "id": "bigint", "n": "bigint"}
TRAP_CATALOG = Catalog(types={**dict.fromkeys("ABC", TRAP_TYPES), "D": {"ts": "bigint", "n": "bigint"}})
TRAP_EVENTS = [dict(zip(("type", *TRAP_TYPES), row, strict=True)) for row in TRAP_STREAM]


@pytest.mark.parametrize("query", TRAPS)
def test_traps(query: str) -> None:
    assert evaluate(query, TRAP_CATALOG, TRAP_EVENTS), "a trap without a match tests nothing"
    compare(query, TRAP_CATALOG, TRAP_EVENTS)


@settings(max_examples=tries(25))
@given(case=nested_cases())
def test_the_bound_query_means_what_the_text_says(case: Case) -> None:
    compare(*case)


def compare(query: str, catalog: Catalog, events: list[dict[str, Any]]) -> None:
    bound = read(query, "query").bind(catalog)
    pattern = Pattern(parse(query), catalog, ansi=True)
    stream = taking_part(events, catalog)
    expected = Counter(as_found(pattern, match, stream, bound) for match in matches(pattern, stream))
    assert Counter(bound_algebra.matches(bound, catalog, events)) == expected


def as_found(pattern: Pattern, match: Match, stream: list[Any], query: BoundQuery) -> bound_algebra.Found:
    number = {id(event): at for at, event in enumerate(stream)}
    names = {element(name, at): hidden for name, elements in query.arrays.items() for at, hidden in enumerate(elements)}
    when = times(pattern, match)
    return bound_algebra.Found(
        frozenset((names.get(name, name), number[id(event)]) for name, event in match.bound.items()),
        frozenset((name, frozenset(number[id(event)] for event in events)) for name, events in match.collected.items()),
        when["started_at"],
        when["detected_at"],
    )
