"""A query asked differently, for pictures: which events, by their number, make up each match or forbid it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

import sase
from sase.compiler.compile import compile_bound
from sase.compiler.core.bound import (
    Attribute,
    Before,
    BoundQuery,
    Branch,
    EquivalenceTest,
    Group,
    Latest,
    Output,
)
from sase.compiler.core.fields import Path, of_variable
from sase.compiler.core.scalars import Folded
from sase.compiler.core.spans import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def forbidding(query: BoundQuery) -> list[tuple[str, ...]]:
    """The variables of each group that may not be there, once."""
    groups = (group for branch in query.branches for group in branch.groups if group.fold == "none")
    return list(dict.fromkeys(group.variables for group in groups))


def with_killer(query: BoundQuery, names: tuple[str, ...]) -> BoundQuery:
    """The pattern with one negated group made positive, and the others gone: its matches are what that group forbids,
    each with the events that do so.

    First and last, too: `B.time > pn.time - T` is the window of SEQ(B, p1 … pn), and `B.time < p1.time + T` that of
    SEQ(p1 … pn, B).
    """
    branches = [
        _positive(branch, group, query)
        for branch in query.branches
        for group in branch.groups
        if group.fold == "none" and group.variables == names
    ]
    used = {name for branch in branches for name in _names(branch)}
    return replace(
        query,
        variables=tuple(replace(each, negated=False) for each in query.variables if each.name in used),
        branches=tuple(branches),
        selection={},
        consume="shared",
        timed_out=False,
    )


def _positive(branch: Branch, group: Group, query: BoundQuery) -> Branch:
    """In the order of the text, so that a sequence stays one."""
    inner = {name for each in group.groups for name in _names(each)}
    names = {*branch.variables, *group.variables}
    places = [variable.name for variable in query.variables]
    tests = []
    for test in branch.equivalences:
        bound = sorted(
            (place for place in test.positive + test.negated if place[0] in names), key=lambda p: places.index(p[0])
        )
        if len(bound) > 1 or any(name in inner for name, _ in test.negated):
            tests.append(EquivalenceTest(tuple(bound), tuple(place for place in test.negated if place[0] in inner)))
    before = _reduced(branch.before | group.before)
    return Branch(
        variables=tuple(name for name in places if name in names),
        before=before,
        apart=branch.apart + group.apart,
        predicates=branch.predicates + tuple(replace(part, negated=None) for part in group.predicates),
        equivalences=tuple(tests),
        groups=group.groups,
        instant=Latest(),
    )


def _reduced(before: frozenset[Before]) -> frozenset[Before]:
    """Without what follows from the rest."""

    def reaches(start: str, end: str, pairs: frozenset[Before]) -> bool:
        return any(one == start and (other == end or reaches(other, end, pairs)) for one, other in pairs)

    return frozenset(pair for pair in before if not reaches(*pair, before - {pair}))


def _names(each: Branch | Group) -> Iterator[str]:
    yield from each.variables
    for group in each.groups:
        yield from _names(group)


def returning(query: BoundQuery, outputs: Mapping[str, exp.Expr]) -> BoundQuery:
    return replace(
        query,
        returns=tuple(Output(name, value, query.span) for name, value in outputs.items()),
        composite=None,
        timed=False,
    )


def numbered(query: BoundQuery, row: str) -> BoundQuery:
    """The query over events with one more column, of type bigint, that every type declares."""
    number = Attribute(row, exp.DataType.build("bigint"), ())
    variables = tuple(
        replace(variable, attributes={**variable.attributes, row.lower(): number}) for variable in query.variables
    )
    return replace(query, variables=variables)


def column(query: BoundQuery, variable: str, attribute: str) -> exp.Expr:
    """An attribute of a variable, or a field of one."""
    if isinstance(attribute, Path):
        return of_variable(variable, attribute)
    declared = query.variable(variable).attributes[attribute.lower()]
    node = exp.Column(
        this=exp.Identifier(this=declared.name, quoted=True), table=exp.Identifier(this=variable, quoted=True)
    )
    node.type = declared.kind.copy()
    return node


def first_value(query: BoundQuery, variable: str, attribute: str) -> exp.Expr:
    """An attribute of a variable's event; of a loop, of the first one."""
    value = column(query, variable, attribute)
    if variable not in query.loops or query.loops[variable].single:
        return value
    return at(Folded(this="first", expressions=[value], collected=True), query.span)


def collected(query: BoundQuery, variable: str, attribute: str) -> exp.Expr:
    """An attribute of all that is collected, as an array."""
    values = Folded(this="collect", expressions=[column(query, variable, attribute)], collected=True)
    return at(values, query.span)


def first_of(query: BoundQuery, function: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """`least` or `coalesce` of values, some of which may be NULL: of several branches, one has them."""
    if len(values) == 1:
        return values[0]
    return at(exp.Anonymous(this=function, expressions=list(values)), query.span)


def found(query: BoundQuery, events: DataFrame) -> DataFrame:
    """The matches of such a query."""
    from sase.api import Query

    job = Query(compile_bound(query, version=sase.__version__)).batch_job
    return job.find_matches(events)


def result_columns(query: BoundQuery) -> list[tuple[str, str, exp.Expr]]:
    """The columns of a query's result: the name, SQL for it on that result, and what it is in terms of the query."""
    if query.returns is not None:
        return [(output.name, quoted(output.name), output.value) for output in query.returns]
    return [
        (
            variable.name,
            f"{quoted(variable.name)}.{quoted(attribute.name)}",
            column(query, variable.name, attribute.name),
        )
        for variable in query.positive
        for attribute in variable.attributes.values()
    ]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
