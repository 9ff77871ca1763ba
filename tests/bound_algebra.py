"""The bound query by brute force: what its branches and groups say, with all assignments of events.

Beside the judge, which reads the text, this finds mistakes of the binder without Spark. Scalars are the judge's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from brute_force import FOLDS, Bound, Component, Event, Pattern, equal, place, taking_part
from sqlglot import exp

from sase.compiler.core.bound import Apart, At, Before, BoundQuery, Branch, Derived, Earliest, Group, Latest, Predicate
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.fields import Path
from sase.compiler.core.scalars import Folded


class Found(NamedTuple):
    bound: frozenset[tuple[str, int]]
    """A variable, and the number of its event."""
    collected: frozenset[tuple[str, frozenset[int]]]
    started_at: Any
    detected_at: Any


class Scalars(Pattern):
    """The judge's scalars, over bound expressions."""

    def __init__(self, query: BoundQuery, catalog: Catalog) -> None:
        self.catalog, self.ansi = catalog, True
        self.components = [Component(variable.name, variable.types) for variable in query.variables]
        self.repeated, self.collects, self.optional = set(), set(), set()

    def component(self, name: str) -> Component:
        return next(component for component in self.components if component.name == name)

    def owner(self, column: exp.Column) -> str:
        return column.table

    def value(self, node: exp.Expr, bound: Bound) -> Any:
        if isinstance(node, Folded):
            columns = node.expressions
            if node.args.get("collected"):
                events = bound.several[columns[0].table]
                values = [event.attributes.get(columns[0].name.lower()) for event in events]
            else:
                values = [bound[column.table].attributes.get(column.name.lower()) for column in columns]
            return len(values) if node.this == "size" else FOLDS[node.this](values)
        return super().value(node, bound)

    def number_type(self, node: exp.Expr) -> str | None:
        if isinstance(node, Folded):
            kind = self.number_type(node.expressions[0])
            return {"sum": "bigint" if kind in ("int", "bigint") else kind, "avg": "double"}.get(node.this, kind)
        return super().number_type(node)

    def is_true(self, part: exp.Expr, bound: dict[str, Event], events: dict[str, list[Event]]) -> bool:
        return self.sql(part, Bound(bound, events)) is True

    def sql(self, node: exp.Expr, bound: Bound) -> Any:
        return self.value(node, bound)


def matches(query: BoundQuery, catalog: Catalog, rows: list[dict[str, Any]]) -> list[Found]:
    stream = taking_part(rows, catalog)
    return _Algebra(query, catalog, stream).matches()


class _Algebra:
    def __init__(self, query: BoundQuery, catalog: Catalog, stream: list[Event]) -> None:
        self.query, self.stream = query, stream
        self.scalars = Scalars(query, catalog)

    def matches(self) -> list[Found]:
        found: list[tuple[dict[str, Event], Found]] = []
        for branch in self.query.branches:
            for bound in self.assignments(branch.variables, {}):
                if self.accepts(branch, bound):
                    match = self.found(branch, bound)
                    if not (self.query.once and any(other.bound == match.bound for _, other in found)):
                        found.append((bound, match))
        return [match for _, match in self.chosen(found)]

    def assignments(self, names: tuple[str, ...], bound: dict[str, Event]) -> Iterator[dict[str, Event]]:
        if not names:
            yield bound
            return
        types = self.query.variable(names[0]).types
        for event in self.stream:
            if event.type in types and all(event is not other for other in bound.values()):
                yield from self.assignments(names[1:], {**bound, names[0]: event})

    def accepts(self, branch: Branch, bound: dict[str, Event]) -> bool:
        return (
            related(branch.before, branch.apart, bound)
            and all(agree(dict(test.positive), bound) for test in branch.equivalences)
            and self.hold(branch.predicates, bound, self.collected(branch, bound))
            and not any(self.can_be_added(branch, group, bound) for group in branch.groups if group.fold == "none")
        )

    def can_be_added(self, branch: Branch, group: Group, bound: dict[str, Event]) -> bool:
        return any(self.is_addition(branch, group, way) for way in self.assignments(group.variables, bound))

    def is_addition(self, branch: Branch, group: Group, way: dict[str, Event]) -> bool:
        return (
            related(group.before, group.apart, way)
            and all(
                equal(value(way[name], attribute), value(way[test.positive[0][0]], test.positive[0][1])) is True
                for test in branch.equivalences
                for name, attribute in test.negated
                if name in group.variables
            )
            and self.hold(group.predicates, way, {})
            and not any(self.can_be_added(branch, inner, way) for inner in group.groups)
        )

    def hold(self, parts: tuple[Predicate, ...], bound: dict[str, Event], collected: dict[str, list[Event]]) -> bool:
        return all(self.scalars.is_true(part.condition, bound, collected) for part in parts)

    def collected(self, branch: Branch, bound: dict[str, Event]) -> dict[str, list[Event]]:
        return {
            group.variables[0]: [
                way[group.variables[0]]
                for way in self.assignments(group.variables, bound)
                if self.is_addition(branch, group, way)
            ]
            for group in branch.groups
            if group.fold == "collect"
        }

    def found(self, branch: Branch, bound: dict[str, Event]) -> Found:
        number = {id(event): at for at, event in enumerate(self.stream)}
        first, last = min(bound.values(), key=place), max(bound.values(), key=place)
        match branch.instant:
            case Latest():
                instant = last.time
            case Earliest(ticks=ticks):
                instant = first.time + ticks
            case At(variable=name):
                instant = bound[name].time
            case Derived(variable=name, ticks=ticks):
                instant = bound[name].time + ticks
        return Found(
            frozenset((name, number[id(event)]) for name, event in bound.items()),
            frozenset(
                (name, frozenset(number[id(event)] for event in events))
                for name, events in self.collected(branch, bound).items()
            ),
            first.time,
            instant,
        )

    def chosen(self, found: list[tuple[dict[str, Event], Found]]) -> list[tuple[dict[str, Event], Found]]:
        """By moments of the last event: what is used up, then `first` and `last`."""
        result = []
        used: set[int] = set()
        for moment in sorted({place(max(bound.values(), key=place)) for bound, _ in found}):
            now = [each for each in found if place(max(each[0].values(), key=place)) == moment]
            now = [each for each in now if not any(number in used for _, number in each[1].bound)]
            lasts = {id(max(bound.values(), key=place)) for bound, _ in now}
            kept = []
            for last in lasts:
                rest = [each for each in now if id(max(each[0].values(), key=place)) == last]
                for name, mode in self.query.selection.items():
                    best = (min if mode == "first" else max)(place(bound[name]) for bound, _ in rest)
                    rest = [each for each in rest if place(each[0][name]) == best]
                kept += rest
            if self.query.consume == "exclusive":
                used |= {number for _, match in kept for _, number in match.bound}
            result += kept
        return result


def related(before: frozenset[Before], apart: tuple[Apart, ...], bound: dict[str, Event]) -> bool:
    return all(place(bound[one]) < place(bound[other]) for one, other in before) and all(
        bound[each.later].time - bound[each.earlier].time < each.ticks for each in apart
    )


def agree(places: dict[str, str], bound: dict[str, Event]) -> bool:
    (first, attribute), *others = places.items()
    return all(equal(value(bound[first], attribute), value(bound[name], each)) is True for name, each in others)


def value(event: Event, attribute: str) -> Any:
    assert not isinstance(attribute, Path)
    return event.attributes.get(attribute.lower())
