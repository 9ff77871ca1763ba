"""What a query of VDMS-PQ means, by the letter: every sequence of events is tried.

It shares nothing with the compiler but the parser, and is as slow as it looks. Values are integers or NULL. What is
left out is `LEFT_OUT`: a fourth truth value beside True, False and None.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

from sqlglot import exp

from sase.compiler.core.arrivals import Arrivals
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.names import Parameter
from sase.compiler.core.results import Results
from sase.compiler.languages.sase.syntax import Component, Not, Query, Seq
from sase.compiler.languages.vdms_pq.parser import parse

LEFT_OUT = object()
COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
ARITHMETIC = {exp.Add: operator.add, exp.Sub: operator.sub, exp.Mul: operator.mul}


@dataclass(frozen=True)
class Event:
    label: str
    type: str
    place: tuple[int, int]
    values: dict[str, Any]

    @property
    def time(self) -> int:
        return self.place[0]


Bound = dict[str, Event]


def judge(text: str, catalog: Catalog, given: dict[str, dict[str, Any]], missing: str = "left out") -> list[Bound]:
    """The matches, each by variable."""
    return _Judge(parse(text), catalog, given, missing).matches()


class _Judge:
    def __init__(self, query: Query, catalog: Catalog, given: dict[str, dict[str, Any]], missing: str) -> None:
        assert catalog.types is not None
        self.query = query
        self.catalog = catalog
        self.missing = missing
        self.stream = [
            Event(
                label,
                row["type"],
                (row["ts"], row["n"] or 0),
                {name: row.get(name) for name in catalog.types[row["type"]]},
            )
            for label, row in given.items()
        ]
        listed = [part.pattern for part in query.pattern.parts] if isinstance(query.pattern, Seq) else [query.pattern]
        self.components = [each.pattern if isinstance(each, Not) else each for each in listed]
        self.negated = [each.pattern for each in listed if isinstance(each, Not)]
        self.positive = [each for each in self.components if each not in self.negated]
        within = query.within
        self.within = None if within is None else int(within.parts[0][0])  # type: ignore[union-attr]
        parts = list(_conjuncts(query.where)) if query.where is not None else []
        self.ordered = [part for part in parts if part.find(Results)]
        self.parts = [part for part in parts if part not in self.ordered]
        self.results: list[Bound] = []

    def matches(self) -> list[Bound]:
        """Moment by moment: what is in results counts from the next one on."""
        candidates = [found for found in self.sequences() if self.holds(found)]
        results: list[Bound] = []
        for moment in sorted({self.last(found).place for found in candidates}):
            now = [found for found in candidates if self.last(found).place == moment]
            self.results = list(results)
            results += [
                found for found in now if all(self.truth(part, found) in (True, LEFT_OUT) for part in self.ordered)
            ]
        return results

    def last(self, bound: Bound) -> Event:
        return max((bound[_variable(each)] for each in self.positive), key=lambda event: event.place)

    def sequences(self) -> Iterable[Bound]:
        for events in product(*(self.of_types(component) for component in self.positive)):
            in_order = all(one.place < other.place for one, other in pairwise(events))
            if in_order and (self.within is None or events[-1].time - events[0].time < self.within):
                yield dict(zip(map(_variable, self.positive), events, strict=True))

    def of_types(self, component: Component) -> list[Event]:
        return [event for event in self.stream if event.type in [name.text for name in component.types]]

    def holds(self, found: Bound) -> bool:
        if not all(self.truth(part, found) in (True, LEFT_OUT) for part in self.parts_about(None)):
            return False
        return not any(
            self.forbids(component, event, found) for component in self.negated for event in self.of_types(component)
        )

    def forbids(self, component: Component, event: Event, found: Bound) -> bool:
        """Could it be added: in its place, with its conditions, and with everything still inside the window?"""
        at = self.components.index(component)
        earlier = [found[_variable(other)] for other in self.components[:at] if other in self.positive]
        later = [found[_variable(other)] for other in self.components[at + 1 :] if other in self.positive]
        together = [*found.values(), event]
        length = max(each.time for each in together) - min(each.time for each in together)
        return (
            all(other.place < event.place for other in earlier)
            and all(event.place < other.place for other in later)
            and (self.within is None or length < self.within)
            and all(
                self.truth(part, {**found, _variable(component): event}) in (True, LEFT_OUT)
                for part in self.parts_about(_variable(component))
            )
        )

    def parts_about(self, negated: str | None) -> list[exp.Expr]:
        names = {_variable(component) for component in self.negated}
        return [part for part in self.parts if _speaks_of(part) & names == ({negated} if negated else set())]

    def truth(self, node: exp.Expr, bound: Bound) -> Any:
        match node:
            case exp.Paren():
                return self.truth(node.this, bound)
            case exp.And() | exp.Or():
                both = [self.truth(each, bound) for each in (node.left, node.right)]
                kept = [each for each in both if each is not LEFT_OUT]
                strong = isinstance(node, exp.Or)
                return LEFT_OUT if not kept else strong if strong in kept else None if None in kept else not strong
            case exp.Not():
                value = self.truth(node.this, bound)
                return value if value in (None, LEFT_OUT) else not value
            case _:
                if any(column.name not in bound[column.table].values for column in _columns(node)):
                    return LEFT_OUT if self.missing == "left out" else True
                left, right = (self.value(each, bound) for each in (node.this, node.expression))
                return None if left is None or right is None else COMPARISONS[type(node)](left, right)

    def value(self, node: exp.Expr, bound: Bound) -> Any:
        match node:
            case exp.Paren():
                return self.value(node.this, bound)
            case exp.Literal():
                return int(node.this)
            case Parameter():
                return self.catalog.parameters[node.this.name]
            case exp.Column():
                return bound[node.table].values[node.name]
            case Arrivals():
                return self.aggregate(str(node.args["kind"]), node.this, self.arrived(node.this, bound))
            case Results():
                return self.aggregate(str(node.args["kind"]), node.this, self.in_results(node.this, bound))
            case exp.Anonymous() if node.name.lower() == "coalesce":
                values = (self.value(each, bound) for each in node.expressions)
                return next((value for value in values if value is not None), None)
            case _:
                left, right = (self.value(each, bound) for each in (node.this, node.expression))
                return None if left is None or right is None else ARITHMETIC[type(node)](left, right)

    def arrived(self, column: exp.Column, bound: Bound) -> list[Event]:
        """All that has arrived up to the last positive event, whatever else is true of it."""
        last = self.last(bound)
        (component,) = (each for each in self.components if _variable(each) == column.table)
        return [
            event
            for event in self.of_types(component)
            if event.place <= last.place and (self.within is None or last.time - event.time < self.within)
        ]

    def in_results(self, column: exp.Column, bound: Bound) -> list[Event]:
        """The distinct events of earlier results, inside the window."""
        last = self.last(bound)
        events = {id(found[column.table]): found[column.table] for found in self.results}
        return [event for event in events.values() if self.within is None or last.time - event.time < self.within]

    def aggregate(self, kind: str, column: exp.Column, events: list[Event]) -> Any:
        values = [event.values[column.name] for event in events if event.values.get(column.name) is not None]
        if kind == "count":
            return len(values)
        if not values:
            return None
        return {"sum": sum, "min": min, "max": max, "avg": lambda each: Fraction(sum(each), len(each))}[kind](values)


def _columns(node: exp.Expr) -> list[exp.Column]:
    """Of the events at hand: what an aggregate is over is no matter of one event."""
    inside = {id(column) for each in node.find_all(Arrivals, Results) for column in each.find_all(exp.Column)}
    return [column for column in node.find_all(exp.Column) if id(column) not in inside]


def _variable(component: Component) -> str:
    assert component.variable is not None
    return component.variable.text


def _conjuncts(node: exp.Expr) -> Iterable[exp.Expr]:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node


def _speaks_of(node: exp.Expr) -> set[str]:
    return {column.table for column in _columns(node)}
