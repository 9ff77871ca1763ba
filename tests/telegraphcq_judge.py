"""What TelegraphCQ's operators give, by their letter: bags of results, from the leaves of an expression up.

It shares nothing with the compiler but the parser, and is as slow as it looks. Values are integers or NULL.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from branches import Match
from sqlglot import exp

from sase.compiler.core.catalog import Catalog
from sase.compiler.languages.telegraphcq.parser import parse
from sase.compiler.languages.telegraphcq.syntax import Event, Expression, Join, Operator, Query

COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.LT: operator.lt,
    exp.GT: operator.gt,
    exp.LTE: operator.le,
}


@dataclass(frozen=True)
class Result:
    """Events by alias, each by its label; the instant has no tie-breaker where it is derived."""

    events: tuple[tuple[str, str], ...]
    time: int
    order: int | None

    def before(self, other: Result) -> bool:
        if self.order is None or other.order is None:
            return self.time < other.time
        return (self.time, self.order) < (other.time, other.order)


def judge(text: str, catalog: Catalog, given: dict[str, dict[str, Any]]) -> Counter[Match]:
    query = parse(text)
    assert not isinstance(query.event, Join)
    found = _Judge(query, catalog, given).results(query.event)
    return Counter((frozenset(each.events), each.time) for each in found)


class _Judge:
    def __init__(self, query: Query, catalog: Catalog, given: dict[str, dict[str, Any]]) -> None:
        self.query = query
        self.given = given
        self.types = catalog.types or {}
        self.streams = {alias.name.text: alias.stream.text for alias in query.aliases}
        self.parts = list(_conjuncts(query.where)) if query.where is not None else []

    def results(self, expression: Expression) -> Iterator[Result]:
        if isinstance(expression, Event):
            name = expression.alias.text
            for label, row in self.given.items():
                if row["type"] == self.streams[name] and self.hold({name: label}, {name}):
                    yield Result(((name, label),), row["ts"], row["n"] or 0)
            return
        lefts, rights = list(self.results(expression.left)), list(self.results(expression.right))
        match expression.kind:
            case "ANYONE":
                yield from lefts
                yield from rights
            case "FOLLOWS":
                yield from self.pairs(expression, lefts, rights, lambda one, other: other, self.follows)
            case "PRECEDES":
                yield from self.pairs(expression, rights, lefts, lambda one, other: other, self.follows)
            case "BOTH":
                yield from self.pairs(
                    expression, lefts, rights, _later, lambda one, other, t: abs(one.time - other.time) < t
                )
            case "NOTFOLLOWS":
                ticks = _ticks(expression)
                for one in lefts:
                    if not any(self.follows(one, other, ticks) and self.compatible(one, other) for other in rights):
                        yield Result(one.events, one.time + ticks, None)
            case "NOTPRECEDES":
                for one in lefts:
                    if not any(
                        self.follows(other, one, _ticks(expression)) and self.compatible(one, other) for other in rights
                    ):
                        yield one

    def pairs(
        self,
        expression: Operator,
        ones: list[Result],
        others: list[Result],
        instant: Callable[[Result, Result], Result],
        related: Callable[[Result, Result, int], bool],
    ) -> Iterator[Result]:
        for one, other in product(ones, others):
            if related(one, other, _ticks(expression)) and self.compatible(one, other):
                at = instant(one, other)
                yield Result(tuple(sorted({**dict(one.events), **dict(other.events)}.items())), at.time, at.order)

    @staticmethod
    def follows(one: Result, other: Result, ticks: int) -> bool:
        return one.before(other) and other.time - one.time < ticks

    @staticmethod
    def are_near(one: Result, other: Result, ticks: int) -> bool:
        return abs(one.time - other.time) < ticks

    def compatible(self, one: Result, other: Result) -> bool:
        first, second = dict(one.events), dict(other.events)
        together = {**first, **second}
        if any(first[alias] != second[alias] for alias in first.keys() & second.keys()):
            return False
        if len(set(together.values())) < len(together):
            return False
        for attribute in self.query.partition:
            rows = [self.given[label] for label in together.values()]
            values = [row.get(attribute.text) for row in rows if attribute.text in self.types[row["type"]]]
            if len(values) > 1 and (None in values or len(set(values)) > 1):
                return False
        return self.hold(together, set(together), not_by=(set(first), set(second)))

    def hold(self, bound: dict[str, str], aliases: set[str], not_by: tuple[set[str], ...] = ()) -> bool:
        """The parts of WHERE that are about these aliases, and were not decided below."""
        for part in self.parts:
            about = {column.table for column in part.find_all(exp.Column)}
            if about <= aliases and not any(about <= each for each in not_by) and not self.truth(part, bound):
                return False
        return True

    def truth(self, part: exp.Expr, bound: dict[str, str]) -> bool:
        sides = [self.value(each, bound) for each in (part.this, part.expression)]
        return None not in sides and COMPARISONS[type(part)](*sides)

    def value(self, node: exp.Expr, bound: dict[str, str]) -> Any:
        return int(node.this) if isinstance(node, exp.Literal) else self.given[bound[node.table]].get(node.name)


def _ticks(expression: Operator) -> int:
    return int(expression.window.parts[0][0])  # type: ignore[union-attr]


def _later(one: Result, other: Result) -> Result:
    """The later instant; of simultaneous ones, that of an event."""
    if one.before(other) or other.before(one):
        return other if one.before(other) else one
    return other if one.order is None else one


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node
