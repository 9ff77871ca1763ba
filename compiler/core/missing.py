"""Missing is not NULL: a comparison on an attribute that the event's type does not declare is true."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.spans import at, span_of


def atoms(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The comparisons of a condition: what AND, OR and NOT connect."""
    match condition:
        case exp.And() | exp.Or():
            yield from atoms(condition.left)
            yield from atoms(condition.right)
        case exp.Not() if not condition.meta.get("comparison"):
            yield from atoms(condition.this)
        case exp.Paren():
            yield from atoms(condition.this)
        case _:
            yield condition


def with_escapes(condition: exp.Expr, type_column: str) -> exp.Expr:
    """The rule as plain SQL.

    `x.shelf_id = z.shelf_id` with `ANY(COUNTER-READING, SHELF-READING) z` becomes
    `(z.type = 'COUNTER-READING' OR x.shelf_id = z.shelf_id)`.
    """
    escaped = condition.copy()
    for atom in list(atoms(escaped)):
        lacking: dict[str, dict[str, None]] = {}  # by variable, the types that escape
        for column in scalars.columns(atom):
            if types := column.meta.get("lacking"):
                lacking.setdefault(column.table, {}).update(dict.fromkeys(types))
        if not lacking:
            continue
        span = span_of(atom)
        escapes = [at(_type_is(variable, list(types), type_column), span) for variable, types in lacking.items()]
        wrapped = at(exp.Paren(this=at(scalars.disjunction([*escapes, atom]), span)), span)
        if atom is escaped:
            return scalars.unparenthesised(wrapped)
        atom.replace(wrapped)
    return escaped


def _type_is(variable: str, types: list[str], type_column: str) -> exp.Expr:
    tested = exp.Column(
        this=exp.Identifier(this=type_column, quoted=True), table=exp.Identifier(this=variable, quoted=True)
    )
    tested.type = exp.DataType.build("string", dialect="spark")
    values: list[exp.Expr] = [exp.Literal.string(name) for name in types]
    return exp.EQ(this=tested, expression=values[0]) if len(values) == 1 else exp.In(this=tested, expressions=values)
