"""The syntax tree: what the text says, with the place of every part, before any name is looked up.

Scalar expressions are sqlglot's; `spans.span_of` tells where one stands. `Equivalence`, for `[id]` and `[id='1']`, is
a node of this language alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sase.compiler.core.durations import Parts
from sase.compiler.core.errors import Span


class Equivalence(exp.Expression, exp.Condition):
    """One attribute of `[a, b='v']`: `this` is its identifier, `value` the literal it must have."""

    arg_types = {"this": True, "value": False}  # noqa: RUF012  (sqlglot's own convention)


@dataclass(frozen=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True)
class Component:
    """`TYPE x`, `ANY(A, B) x` or one of them under `!`."""

    types: tuple[Name, ...]
    variable: Name | None
    negated: bool
    span: Span


@dataclass(frozen=True)
class Duration:
    parts: Parts
    span: Span


@dataclass(frozen=True)
class ReturnItem:
    expression: exp.Expr
    alias: Name | None
    span: Span


@dataclass(frozen=True)
class Return:
    items: tuple[ReturnItem, ...]
    composite: Name | None
    span: Span


@dataclass(frozen=True)
class Query:
    text: str
    filename: str
    stream: str | None
    components: tuple[Component, ...]
    where: exp.Expr | None
    within: Duration | Name | None  # a Name is a parameter: `WITHIN T`
    returns: Return | None
    span: Span  # of the pattern
