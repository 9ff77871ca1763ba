"""The syntax tree: what the text says, with the place of every part, before any name is looked up.

Scalar expressions are sqlglot's; `spans.span_of` tells where one stands. `Equivalence`, for `[id]` and `[id='1']`, is
a node of this language alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sase.compiler.core.aggregates import CountAll
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.durations import Parts
from sase.compiler.core.errors import Span


class Equivalence(exp.Expression, exp.Condition):
    """One attribute of `[a, b='v']`: `this` is the attribute, or a field of it, `value` the literal it must have."""

    arg_types = {"this": True, "value": False}  # noqa: RUF012  (sqlglot's own convention)

    @property
    def attribute(self) -> exp.Identifier:
        """The attribute, or the one that the field is in."""
        inside = self.this
        while not isinstance(inside, exp.Identifier):
            inside = inside.this
        return inside

    def of(self, column: exp.Column) -> exp.Expr:
        """The column in the place of the attribute."""
        if isinstance(self.this, exp.Identifier):
            return column
        value: exp.Expr = self.this.copy()
        inside = value
        while not isinstance(inside.this, exp.Identifier):
            inside = inside.this
        inside.set("this", column)
        return value


class PlaceInLoop(exp.Expression):
    """What stands in the brackets of `b[i]`, `b[i-1]` and `b[..i-1]`: so many events back from the one at hand, or all
    up to there."""

    arg_types = {"back": True, "up_to": True}  # noqa: RUF012


@dataclass(frozen=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True)
class Component:
    """`TYPE x`, `ANY(A, B) x` or `ANY(*) x`; `A{2,4} x` and `A+ x` are repeated, `A? x` may be left out."""

    types: tuple[Name, ...]
    every: bool
    """`ANY(*)`: all types that the catalog has."""
    variable: Name | None
    repeated: tuple[int, int | None] | None
    """At least and at most; None for any number."""
    span: Span
    optional: bool = False


@dataclass(frozen=True)
class Part:
    """An operand of SEQ, AND, OR or ANY; only in SEQ it may select, `first A a`."""

    pattern: Pattern
    mode: Name | None = None


@dataclass(frozen=True)
class Seq:
    parts: tuple[Part, ...]
    span: Span


@dataclass(frozen=True)
class And:
    parts: tuple[Part, ...]
    span: Span


@dataclass(frozen=True)
class Or:
    parts: tuple[Part, ...]
    span: Span
    every: bool = False
    """`OR ALL`: a match that several parts have is several matches."""


@dataclass(frozen=True)
class Some:
    """`ANY(2, A a, B b, C c)`: so many of its parts, in any order."""

    least: int
    parts: tuple[Part, ...]
    span: Span


@dataclass(frozen=True)
class Not:
    pattern: Pattern
    span: Span


@dataclass(frozen=True)
class All:
    """`ALL(T t)`: every event that could stand there."""

    component: Component
    span: Span


@dataclass(frozen=True)
class Bounded:
    """`(SEQ(A a, B b) WHERE a.v < b.v WITHIN 5)`: a part of a pattern with clauses of its own."""

    pattern: Pattern
    where: exp.Expr | None
    within: Duration | Name | None
    span: Span


Pattern = Component | Seq | And | Or | Some | Not | All | Bounded


def components(pattern: Pattern) -> Iterator[Component]:
    """In the order of the text."""
    return (part for part in inside(pattern) if isinstance(part, Component))


def clauses(pattern: Pattern) -> Iterator[Bounded]:
    """The parts with clauses of their own."""
    return (part for part in inside(pattern) if isinstance(part, Bounded))


def alternatives(pattern: Pattern) -> Iterator[Or]:
    return (part for part in inside(pattern) if isinstance(part, Or))


def inside(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern and its parts, outer ones first."""
    yield pattern
    match pattern:
        case All():
            yield pattern.component
        case Not() | Bounded():
            yield from inside(pattern.pattern)
        case Seq() | And() | Or() | Some():
            for part in pattern.parts:
                yield from inside(part.pattern)


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
    group_by: tuple[exp.Expr, ...] | None = None
    """None: not grouped. `GROUP BY ()` is one group, of all matches."""

    @property
    def aggregates(self) -> bool:
        """Whether it is about all matches of a group, and not about each of them."""
        return self.group_by is not None or any(item.expression.find(CountAll) for item in self.items)


@dataclass(frozen=True)
class Query:
    text: str
    filename: str
    stream: str | None
    pattern: Pattern
    where: exp.Expr | None
    within: Duration | Name | None  # a Name is a parameter: `WITHIN T`
    timed_out: Span | None
    consume: Name | None  # EXCLUSIVE or SHARED
    strategy: Name | None  # "skip till next match"
    after_match: Name | None  # "past last row"
    returns: Return | None
    into: Name | None
    span: Span  # of the pattern
