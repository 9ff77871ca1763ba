"""A query asked differently, for pictures: which events, by their number, make up each match or forbid it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

import sase
from sase.compiler.compile import compile_bound
from sase.compiler.core.bound import Attribute, BoundQuery, EquivalenceTest, Output
from sase.compiler.core.fields import Path, of_variable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_killer(query: BoundQuery, name: str) -> BoundQuery:
    """The pattern with one negated component made positive, and the others gone: its matches are what that component
    forbids, each with an event that does so.

    First and last, too: `B.time > pn.time - T` is the window of SEQ(B, p1 … pn), and `B.time < p1.time + T` that of
    SEQ(p1 … pn, B).
    """
    kept = tuple(
        replace(variable, negated=False)
        for variable in query.variables
        if not variable.negated or variable.name == name
    )
    order = [variable.name for variable in kept]
    tests = []
    for test in query.equivalences:
        places = [*test.positive, *(place for place in test.negated if place[0] == name)]
        if len(places) > 1:
            tests.append(EquivalenceTest(tuple(sorted(places, key=lambda place: order.index(place[0])))))
    parts = tuple(replace(part, negated=None) for part in query.predicates if part.negated in (None, name))
    return replace(query, variables=kept, equivalences=tuple(tests), predicates=parts)


def returning(query: BoundQuery, outputs: Mapping[str, exp.Expr]) -> BoundQuery:
    return replace(
        query, returns=tuple(Output(name, value, query.span) for name, value in outputs.items()), composite=None
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
