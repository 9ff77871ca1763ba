"""Aggregates at run time and probabilities by the letter, for any pattern of SASE's: what `brute_force` does not know.

`avg*(y.v)` is over all that has arrived up to the last positive event, `avg+(y.v)` over the distinct events that are
bound to `y` in results whose last event is before it, and `probability()` is the product over the events of a match,
and of what is left of 1 for each event that could be added under a NOT.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

from brute_force import (
    Bound,
    Branch,
    Event,
    Group,
    Match,
    Pattern,
    assignments,
    before,
    cannot_be_added,
    declared,
    fits,
    last_event,
    matches,
    of_types,
    place,
    selected,
    taking_part,
    variable,
)
from sqlglot import exp

from sase.compiler.core.arrivals import Arrivals
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.results import Results
from sase.compiler.languages.sase.syntax import Query


class Leaf(exp.Expression, exp.Condition):
    """What is no matter of the events at hand: `of` is the aggregate's name, `column` what it is over."""

    arg_types = {"of": True, "kind": False, "column": False}  # noqa: RUF012


def judged(query: Query, catalog: Catalog, rows: list[dict[str, Any]]) -> list[tuple[dict[str, int], dict[str, Any]]]:
    """The matches: by variable the number of its event, and what RETURN makes of it."""
    stream = taking_part(rows, catalog)
    judge = Judge(query, catalog, stream)
    number = {id(event): at for at, event in enumerate(stream)}
    return [
        ({name: number[id(event)] for name, event in match.bound.items()}, values) for match, values in judge.results()
    ]


class Judge(Pattern):
    def __init__(self, query: Query, catalog: Catalog, stream: list[Event]) -> None:
        where = None if query.where is None else _with_leaves(query.where)
        super().__init__(replace(query, where=where), catalog, ansi=True)
        self.stream = stream
        self.returned = {}
        if query.returns is not None:
            self.returned = {
                item.alias.text if item.alias else item.expression.name: _with_leaves(item.expression)
                for item in query.returns.items
            }
        self.at_the_end = [part for part in self.parts if _leaves(part, "results", "probability")]
        self.parts = [part for part in self.parts if part not in self.at_the_end]
        asked = [*self.at_the_end, *self.returned.values()]
        self.weighs = any(_leaves(part, "probability") for part in asked)
        self.branch: Branch | None = None
        self.last: Event | None = None
        self.counted: list[tuple[str, Event]] = []
        self.whole: dict[int, Branch] = {}
        # Selection and consumption choose among results, and so behind what earlier results decide.
        self.chosen, self.modes = self.modes, {}
        self.consumes, self.exclusive = self.exclusive, False

    def results(self) -> list[tuple[Match, dict[str, Any]]]:
        """Moment by moment: what a moment decides counts from the next one on, and in its own RETURN."""
        found = matches(self._certain() if self.weighs else self, self.stream)
        answer = []
        used: set[int] = set()
        self.modes = self.chosen
        for moment in sorted({place(last_event(match)) for match in found}):
            now = [match for match in found if place(last_event(match)) == moment]
            now = [match for match in now if all(self.decides(part, match) for part in self.at_the_end)]
            now = selected(self, [match for match in now if used.isdisjoint(map(id, match.bound.values()))])
            used |= {id(event) for match in now for event in match.bound.values() if self.consumes}
            for match in now:
                for name, event in match.bound.items():
                    if all(event is not other for known, other in self.counted if known == variable(name)):
                        self.counted.append((variable(name), event))
            answer += [(match, {name: self.of(each, match) for name, each in self.returned.items()}) for match in now]
        return answer

    def _certain(self) -> Pattern:
        """The pattern without what only weighs."""
        branches = [
            replace(branch, groups=tuple(group for group in branch.groups if not self.is_uncertain(group)))
            for branch in self.branches
        ]
        self.branches, self.whole = branches, {id(new): old for new, old in zip(branches, self.branches, strict=True)}
        return self

    def is_uncertain(self, group: Group) -> bool:
        return not group.collects and any(
            "prob" in declared(kind, self.catalog) for name in group.names for kind in self.component(name).types
        )

    def decides(self, part: exp.Expr, match: Match) -> bool:
        self.branch = match.branch
        return self.holds(part, match.bound, match.collected)

    def of(self, node: exp.Expr, match: Match) -> Any:
        self.branch, self.last = match.branch, last_event(match)
        self.events = match.bound
        if any(column.table not in match.bound for column in node.find_all(exp.Column)):
            return None
        single = {name: event for name, event in match.bound.items() if variable(name) == name}
        return self.value(node, Bound(single, match.collected))

    def holds(self, part: exp.Expr, bound: dict[str, Event], collected: dict[str, list[Event]]) -> bool:
        positive = {name: event for name, event in bound.items() if variable(name) in self.positive}
        self.last, self.events = max(positive.values(), key=place), positive
        return super().holds(part, bound, collected)

    def value(self, node: exp.Expr, bound: Bound) -> Any:
        if not isinstance(node, Leaf):
            return super().value(node, bound)
        if node.args["of"] == "probability":
            return self.probability()
        column = node.args["column"]
        events = self.arrived(column) if node.args["of"] == "arrivals" else self.in_results(column)
        values = [event.attributes[column[1].lower()] for event in events if self.counts(event, column[1])]
        return aggregate(node.args["kind"], values)

    def number_type(self, node: exp.Expr) -> str | None:
        if not isinstance(node, Leaf):
            return super().number_type(node)
        if node.args["of"] == "probability" or node.args["kind"] == "avg":
            return "double"
        kind = super().number_type(exp.column(node.args["column"][1], table=node.args["column"][0]))
        return "bigint" if node.args["kind"] in ("count", "sum") else kind

    def counts(self, event: Event, attribute: str) -> bool:
        assert self.last is not None
        inside = self.within is None or self.last.time - event.time < self.within
        return inside and event.attributes.get(attribute.lower()) is not None

    def arrived(self, column: tuple[str, str]) -> list[Event]:
        assert self.last is not None
        return [event for event in of_types(self.stream, self.component(column[0])) if not before(self.last, event)]

    def in_results(self, column: tuple[str, str]) -> list[Event]:
        return [event for name, event in self.counted if name == column[0]]

    def probability(self) -> Any:
        assert self.branch is not None
        branch = self.whole.get(id(self.branch), self.branch)
        forbidding = {
            id(way[name]): way[name]
            for group in branch.groups
            if self.is_uncertain(group)
            for (name,) in [group.names]
            for way in assignments(self, group.names, self.stream, self.events)
            if fits(self, branch.before, way) and not cannot_be_added(self, branch, group, way, self.stream)
        }
        likely = [event.attributes.get("prob", 1.0) for event in self.events.values()]
        unlikely = [event.attributes.get("prob", 1.0) for event in forbidding.values()]
        if None in likely + unlikely:
            return None
        return prod(likely) * prod(1 - each for each in unlikely)


def aggregate(kind: str, values: list[Any]) -> Any:
    if kind == "count":
        return len(values)
    if not values:
        return None
    if kind == "avg":
        exact = sum(map(Fraction, values)) / len(values)
        return exact.numerator / exact.denominator
    return {"sum": sum, "min": min, "max": max}[kind](values)


def _with_leaves(node: exp.Expr) -> exp.Expr:
    def visit(part: exp.Expr) -> exp.Expr:
        match part:
            case Arrivals() | Results():
                of = "arrivals" if isinstance(part, Arrivals) else "results"
                return Leaf(of=of, kind=part.args["kind"], column=(part.this.table, part.this.name))
            case exp.Anonymous(expressions=[]) if part.name.lower() == "probability":
                return Leaf(of="probability")
        return part

    return node.transform(visit, copy=True)


def _leaves(node: exp.Expr, *of: str) -> bool:
    return any(leaf.args["of"] in of for leaf in node.find_all(Leaf))
