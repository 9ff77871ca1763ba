"""What a bound query finds, by the letter of its branches and groups: every assignment is tried.

It finds mistakes of front ends without Spark. Values are integers or NULL.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

from sqlglot import exp

from sase.compiler.core.bound import Apart, Before, BoundQuery, Branch, Derived, Earliest, Group, Predicate

Row = Mapping[str, Any]
Bound = dict[str, str]
Match = tuple[frozenset[tuple[str, str]], int]
"""Each bound variable with the label of its event, and the time of the instant."""
COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.LT: operator.lt,
    exp.GT: operator.gt,
    exp.LTE: operator.le,
}


def matches(query: BoundQuery, given: Mapping[str, Row]) -> Counter[Match]:
    found: Counter[Match] = Counter()
    for branch in query.branches:
        for bound in _bindings(query, given, branch.variables, {}):
            if (
                _meets(query, given, branch.before, branch.apart, branch.predicates, bound)
                and _agree(branch, given, bound)
                and not any(_exists(query, given, branch, group, bound) for group in branch.groups)
            ):
                found[frozenset(bound.items()), _time(branch, given, bound)] += 1
    return Counter(set(found)) if query.once else found


def _bindings(query: BoundQuery, given: Mapping[str, Row], variables: tuple[str, ...], known: Bound) -> Iterator[Bound]:
    fitting = [[label for label in given if given[label]["type"] in query.variable(name).types] for name in variables]
    for labels in product(*fitting):
        bound = {**known, **dict(zip(variables, labels, strict=True))}
        if len(set(bound.values())) == len(bound):
            yield bound


def _exists(query: BoundQuery, given: Mapping[str, Row], branch: Branch, group: Group, known: Bound) -> bool:
    return any(
        _meets(query, given, group.before, group.apart, group.predicates, bound)
        and _agree(branch, given, bound)
        and not any(_exists(query, given, branch, inner, bound) for inner in group.groups)
        for bound in _bindings(query, given, group.variables, known)
    )


def _meets(
    query: BoundQuery,
    given: Mapping[str, Row],
    before: frozenset[Before],
    apart: tuple[Apart, ...],
    predicates: tuple[Predicate, ...],
    bound: Bound,
) -> bool:
    def time(name: str) -> Any:
        return given[bound[name]]["ts"]

    def place(name: str) -> tuple[Any, Any]:
        return time(name), given[bound[name]]["n"] or 0

    return (
        all(place(one) < place(other) for one, other in before)
        and all(time(each.later) - time(each.earlier) < each.ticks for each in apart)
        and all(_truth(each.condition, given, bound) for each in predicates)
    )


def _agree(branch: Branch, given: Mapping[str, Row], bound: Bound) -> bool:
    """Equivalence tests hold among the positive variables, and of those of groups with them."""
    for test in branch.equivalences:
        places = [place for place in (*test.positive, *test.negated) if place[0] in bound]
        values = [given[bound[name]].get(attribute) for name, attribute in places]
        if len(values) > 1 and (None in values or len(set(values)) > 1):
            return False
    return True


def _truth(condition: exp.Expr, given: Mapping[str, Row], bound: Bound) -> bool:
    if isinstance(condition, exp.Boolean):
        return bool(condition.this)
    if isinstance(condition, exp.Is) and isinstance(condition.expression, exp.Null):
        return given[bound[condition.this.table]].get(condition.this.name) is None
    sides = [
        int(each.this) if isinstance(each, exp.Literal) else given[bound[each.table]].get(each.name)
        for each in (condition.this, condition.expression)
    ]
    return None not in sides and COMPARISONS[type(condition)](*sides)


def _time(branch: Branch, given: Mapping[str, Row], bound: Bound) -> int:
    times = [given[label]["ts"] for label in bound.values()]
    match branch.instant:
        case Derived(variable=name, ticks=ticks):
            return int(given[bound[name]]["ts"] + ticks)
        case Earliest(ticks=ticks):
            return int(min(times) + ticks)
        case _:
            return int(max(times))
