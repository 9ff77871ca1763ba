"""Names get their meaning: columns their variable, declared spelling and type; parameters their value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import Attribute, Variable
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.durations import DAY
from sase.compiler.core.errors import Diagnostic, did_you_mean
from sase.compiler.core.fields import bind_field
from sase.compiler.core.spans import at, span_of


class Parameter(exp.Expression, exp.Condition):
    """`{name}`: a value given with the query, bound as a literal and never as text."""

    arg_types = {"this": True}  # noqa: RUF012  (sqlglot's own convention)


VariableOf = Callable[[exp.Column], Variable | None]
"""Which variable a column is of, by the rules of a language; None where it has said that there is none."""


def resolve(node: exp.Expr, variable_of: VariableOf, catalog: Catalog, found: list[Diagnostic]) -> exp.Expr:
    """A copy of a language's expression in terms of the bound query; what has no meaning is added to `found`."""

    def visit(part: exp.Expr) -> exp.Expr:
        match part:
            case exp.Column():
                variable = variable_of(part)
                return part if variable is None else _column(part, variable, catalog, found)
            case exp.Dot() | exp.Bracket():
                inside = visit(part.this)
                return bind_field(part, inside.copy(), found) if inside is not part.this else part
            case Parameter():
                return _value(part, catalog.parameters, found)
            case exp.In():
                part.set("expressions", [value for each in part.expressions for value in _listed(each, catalog)])
                return part
            case _:
                return part

    return node.transform(visit, copy=True)


def _column(node: exp.Column, variable: Variable, catalog: Catalog, found: list[Diagnostic]) -> exp.Expr:
    attribute = variable.attributes.get(node.name.lower())
    # Of a type that is unknown, nobody knows what it declares, and it has been said.
    if attribute is None and catalog.types is not None and all(name in catalog.types for name in variable.types):
        known = (attribute.name for attribute in variable.attributes.values())
        found.append(
            Diagnostic(
                f"{' or '.join(variable.types)} {variable.name} declares no attribute {node.name}",
                span_of(node.this) if node.table else span_of(node),
                did_you_mean(node.name, known, "declared are"),
            )
        )
        return node
    attribute = attribute or Attribute(node.name, scalars.UNKNOWN, ())
    bound = exp.Column(
        this=exp.Identifier(this=attribute.name, quoted=True), table=exp.Identifier(this=variable.name, quoted=True)
    )
    bound.type = attribute.kind.copy()
    if attribute.lacking:
        bound.meta["lacking"] = attribute.lacking
    return at(bound, span_of(node))


def _listed(node: exp.Expr, catalog: Catalog) -> list[exp.Expr]:
    """The values of a parameter that is a list, as IN takes them; anything else stands for itself."""
    values = catalog.parameters.get(node.this.name) if isinstance(node, Parameter) else None
    if not isinstance(values, list | tuple | set | frozenset):
        return [node]
    literals = [_literal(value) for value in values]
    if not literals or None in literals:
        return [node]
    return [at(literal, span_of(node)) for literal in literals if literal is not None]


def _value(node: Parameter, parameters: Mapping[str, object], found: list[Diagnostic]) -> exp.Expr:
    name, span = node.this.name, span_of(node)
    literal = None
    if name not in parameters:
        help = did_you_mean(name, parameters, "given are")
        found.append(
            Diagnostic(
                f"the parameter {name} has no value",
                span,
                help or f"give it one: --param {name}=…, or [parameters] in the catalog",
            )
        )
    elif (literal := _literal(parameters[name])) is None:
        found.append(
            Diagnostic(
                f"the parameter {name} is {'an empty' if parameters[name] == [] else 'a'} "
                f"{type(parameters[name]).__name__}",
                span,
                "a number, a text, a boolean, a date or a time is needed; a list of them behind IN",
            )
        )
    literal = literal or exp.Null()
    for part in literal.walk():
        at(part, span)
    return literal


def _literal(value: object) -> exp.Expr | None:
    """A Python value as a literal; None when it has no such form."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int() | Decimal() if value < 0:
            return exp.Neg(this=exp.Literal.number(str(-value)))
        case int():
            return exp.Literal.number(str(value))
        case Decimal() if value.is_finite():
            return exp.Literal.number(f"{value:f}")
        case float():
            text = (
                repr(value) if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
            )
            return exp.cast(exp.Literal.string(text), "double", dialect="spark")
        case str():
            return exp.Literal.string(value)
        case datetime():
            kind = "timestamp" if value.tzinfo else "timestamp_ntz"
            return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), kind, dialect="spark")
        case date():
            return exp.cast(exp.Literal.string(value.isoformat()), "date", dialect="spark")
        case timedelta():
            length = value // timedelta(microseconds=1)
            amount, unit = (f"{length // DAY}", "DAY") if length % DAY == 0 else (f"{length / 1_000_000:.6f}", "SECOND")
            return exp.Interval(this=exp.Literal.string(amount), unit=exp.Var(this=unit))
        case _:
            return None
