"""The words of a bound query in SASE: components, names, conditions, lengths of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from sqlglot import exp

from sase.compiler.core import durations, scalars
from sase.compiler.core.bound import BoundQuery, Branch, EquivalenceTest, Group, Variable
from sase.compiler.core.fields import of_variable


def component(variable: Variable, negated: bool = False) -> str:
    types = ", ".join(map(_type, variable.types))
    event = f"{types if len(variable.types) == 1 else f'ANY({types})'} {name_of(variable.name)}"
    return f"!({event})" if negated else event


def _type(name: str) -> str:
    return name if all(map(scalars.is_plain_name, name.split("-"))) else name_of(name)


def name_of(name: str) -> str:
    return scalars.column_sql(name)


def test(query: BoundQuery, branch: Branch, test: EquivalenceTest) -> str:
    """`[id]` where that says the same: of all in its branch that declare it."""
    places = test.positive + test.negated
    names = {attribute for _, attribute in places}
    here = frozenset(branch.variables).union(names_of(branch.groups))
    declaring = [
        each.name
        for each in query.variables
        if each.name in here and any(name.lower() in each.attributes for name in names)
    ]
    if len(names) == 1 and sorted(declaring) == sorted(name for name, _ in places):
        return f"[{name_of(str(next(iter(names))))}]"
    columns = [of_variable(variable, attribute) for variable, attribute in test.positive]
    equal = [exp.EQ(this=one.copy(), expression=other.copy()) for one, other in pairwise(columns)]
    equal += [
        exp.EQ(this=columns[0].copy(), expression=of_variable(variable, attribute))
        for variable, attribute in test.negated
    ]
    return " AND ".join(map(scalars.sql, equal))


def names_of(groups: Iterable[Group]) -> Iterator[str]:
    """The variables of groups, and of those inside them."""
    for group in groups:
        yield from group.variables
        yield from names_of(group.groups)


def text_of(query: BoundQuery, node: exp.Expr) -> str:
    arrivals = {arrival.name for arrival in query.arrivals}
    told = {each.name for each in node.find_all(scalars.Told)}
    node = node.transform(_as_written, copy=True)
    text = scalars.sql(node)
    for name in told:
        text = text.replace(scalars.column_sql(name), name)
    for column in scalars.columns(node):
        if column.name in arrivals:
            text = text.replace(scalars.sql(column), column.name)
    return f"({text})" if isinstance(node, exp.Or) else text


def _as_written(node: exp.Expr) -> exp.Expr:
    """The probability of a match is a product of many columns."""
    if isinstance(node, scalars.Folded) and node.this == "probability":
        return exp.Anonymous(this="probability", expressions=[])
    return node


def length(query: BoundQuery, ticks: int) -> str:
    """In one unit, so that it may stand wherever a number may."""
    if query.time_kind == "integer":
        return str(ticks)
    if ticks == 0:
        return "0 seconds"
    size, name = next((size, name) for size, name in _UNITS if ticks % size == 0)
    return f"{ticks // size} {name}{'' if ticks == size else 's'}"


_UNITS = (
    (durations.DAY, "day"),
    (durations.HOUR, "hour"),
    (durations.MINUTE, "minute"),
    (durations.SECOND, "second"),
    (1, "microsecond"),
)
