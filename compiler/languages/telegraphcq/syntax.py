"""The syntax tree: what the text says, with the place of every part, before any name is looked up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from sqlglot import exp

from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Span
from sase.compiler.languages.sase.syntax import Duration, Name, Return

Kind = Literal["FOLLOWS", "PRECEDES", "NOTFOLLOWS", "NOTPRECEDES", "ANYONE", "BOTH"]
NEGATIVE = ("NOTFOLLOWS", "NOTPRECEDES")


@dataclass(frozen=True)
class Alias:
    """An alias of a stream: two aliases of one stream are two events."""

    name: Name
    stream: Name


@dataclass(frozen=True)
class Defined:
    """`WITH name AS (SELECT * FROM stream WHERE …)`."""

    name: Name
    stream: Name
    where: exp.Expr | None


@dataclass(frozen=True)
class Event:
    alias: Name
    span: Span


@dataclass(frozen=True)
class Operator:
    kind: Kind
    left: Expression
    right: Expression
    window: Duration | Name | None  # a Name is a parameter; ANYONE has no window
    span: Span


Expression = Event | Operator


@dataclass(frozen=True)
class Join:
    """Streams that are joined over one window, `FROM A[RANGE BY '5 min'], B[RANGE BY '5 min']`."""

    aliases: tuple[Name, ...]
    windows: tuple[Duration | Name, ...]
    span: Span


@dataclass(frozen=True)
class Query:
    text: str
    filename: str
    defined: tuple[Defined, ...]
    returns: Return | None  # None is `SELECT *`
    into: Name | None
    aliases: tuple[Alias, ...]
    partition: tuple[Name, ...]
    event: Expression | Join
    where: exp.Expr | None


def events(expression: Expression) -> Iterator[Event]:
    match expression:
        case Event():
            yield expression
        case Operator():
            yield from events(expression.left)
            yield from events(expression.right)
