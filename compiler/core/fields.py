"""Fields inside an attribute: `x.props.page`, `x.tags[0]`, `x.headers['host']`.

A field is an expression like any other. What is not there is NULL: a field of NULL, an element beyond the end, a key
that the map does not have.
"""

from __future__ import annotations

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.errors import Diagnostic, did_you_mean
from sase.compiler.core.spans import at, span_of

_T = exp.DataType.Type


class Path(str):
    """What an equivalence test compares where it is not an attribute but a field: its SQL over an event's columns."""

    value: exp.Expr

    @staticmethod
    def of(value: exp.Expr) -> Path:
        bare = scalars.without_variable(value)
        path = Path(scalars.sql(bare))
        path.value = bare
        return path

    @property
    def attribute(self) -> str:
        """The attribute that the field is in."""
        (column,) = scalars.columns(self.value)
        return column.name


def is_field(node: exp.Expr) -> bool:
    return bool(node.meta.get("field"))


def attribute_of(attribute: str) -> str:
    """The attribute itself, or the one that the field is in."""
    return attribute.attribute if isinstance(attribute, Path) else attribute


def of_variable(variable: str, attribute: str) -> exp.Expr:
    """`variable.attribute`, or the field of it."""
    table = exp.Identifier(this=variable, quoted=True)
    if not isinstance(attribute, Path):
        return exp.Column(this=exp.Identifier(this=attribute, quoted=True), table=table)
    value = attribute.value.copy()
    for column in scalars.columns(value):
        column.set("table", table.copy())
    return value


def of_event(attribute: str) -> str:
    """SQL over the columns of an event."""
    return str(attribute) if isinstance(attribute, Path) else scalars.column_sql(attribute)


def bind_field(node: exp.Dot | exp.Bracket, inside: exp.Expr, found: list[Diagnostic]) -> exp.Expr:
    """The field that `node` names, of the bound expression `inside`."""
    kind = inside.type or scalars.UNKNOWN
    if isinstance(node, exp.Dot):
        bound, field_kind = _member(node, inside, kind, found)
    else:
        bound, field_kind = _element(node, inside, kind, found)
    bound.type = field_kind.copy()
    bound.meta["field"] = True
    return at(bound, span_of(node))


def _member(
    node: exp.Dot, inside: exp.Expr, kind: exp.DataType, found: list[Diagnostic]
) -> tuple[exp.Expr, exp.DataType]:
    name, span = node.expression.name, span_of(node.expression)
    members = {member.name.lower(): member for member in kind.expressions} if kind.this == _T.STRUCT else {}
    member = members.get(name.lower())
    if member is not None:
        name = member.name
    elif members:
        names = [each.name for each in members.values()]
        found.append(
            Diagnostic(f"{scalars.sql(inside)} has no field {name}", span, did_you_mean(name, names, "its fields are"))
        )
    elif kind != scalars.UNKNOWN:
        found.append(Diagnostic(f"{scalars.sql(inside)} is {scalars.a_type(kind)}, and has no fields", span))
    bound = exp.Dot(this=inside, expression=at(exp.Identifier(this=name, quoted=True), span))
    known = member.args.get("kind") if member is not None else None
    return bound, known if isinstance(known, exp.DataType) else scalars.UNKNOWN


def _element(
    node: exp.Bracket, inside: exp.Expr, kind: exp.DataType, found: list[Diagnostic]
) -> tuple[exp.Expr, exp.DataType]:
    (index,) = node.expressions
    parts = [part for part in kind.expressions if isinstance(part, exp.DataType)]
    if kind.this == _T.MAP and len(parts) == 2:
        return exp.Anonymous(this="try_element_at", expressions=[inside, index.copy()]), parts[1]
    if index.is_string or kind.this not in (_T.ARRAY, _T.UNKNOWN):
        found.append(
            Diagnostic(
                f"{scalars.sql(inside)} is {scalars.a_type(kind)}, and has no element {index.this!r}"
                if index.is_string
                else f"{scalars.sql(inside)} is {scalars.a_type(kind)}, and has no elements",
                span_of(index),
                "arrays have elements, counted from 0, and maps have values by their keys",
            )
        )
    return exp.Anonymous(this="get", expressions=[inside, index.copy()]), parts[0] if parts else scalars.UNKNOWN
