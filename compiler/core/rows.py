"""A bound MATCH_RECOGNIZE clause: what it looks for and what it gives, whatever dialect it was written in.

Expressions are sqlglot's, in which nodes of our own say at which row of a match something is looked up. Columns inside
such a node are those of that one row.
"""

from __future__ import annotations

from typing import Literal

from sqlglot import exp

from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Span

# ---- the pattern --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Symbol:
    """A row of a variable."""

    variable: str
    span: Span


@dataclass(frozen=True)
class Empty:
    span: Span


@dataclass(frozen=True)
class Anchor:
    """The beginning (`^`) or the end (`$`) of a partition."""

    sign: Literal["^", "$"]
    span: Span


@dataclass(frozen=True)
class Concat:
    parts: tuple[Node, ...]
    span: Span


@dataclass(frozen=True)
class Either:
    """The first part is preferred."""

    parts: tuple[Node, ...]
    span: Span


@dataclass(frozen=True)
class Permute:
    """All parts, in any order; the order in which they are written is preferred."""

    parts: tuple[Node, ...]
    span: Span


@dataclass(frozen=True)
class Exclude:
    """Rows that belong to the match, and are not shown."""

    part: Node
    span: Span


@dataclass(frozen=True)
class Repeat:
    part: Node
    low: int
    high: int | None
    greedy: bool
    span: Span
    quantifier: Span


Node = Symbol | Empty | Anchor | Concat | Either | Permute | Exclude | Repeat


def symbols(node: Node) -> list[Symbol]:
    """From left to right."""
    match node:
        case Symbol():
            return [node]
        case Empty() | Anchor():
            return []
        case Exclude(part=part) | Repeat(part=part):
            return symbols(part)
        case Concat(parts=parts) | Either(parts=parts) | Permute(parts=parts):
            return [symbol for part in parts for symbol in symbols(part)]


# ---- rows of a match, in expressions ------------------------------------------------------------


@dataclass(frozen=True)
class Address:
    """The first or the last row that a match has mapped to one of some variables, or one `offset` rows from there.

    Without variables: to any. RUNNING looks at what was mapped up to the current row, FINAL at the whole match;
    `before` at what was mapped before the current row.
    """

    variables: tuple[str, ...] | None
    first: bool = False
    offset: int = 0
    final: bool = False
    before: bool = False

    @property
    def current(self) -> bool:
        """The row at hand, whatever its variable."""
        return self == Address(None)


class At(exp.Expression, exp.Condition):
    """An expression of the one row at `address`, or `step` rows of the partition from there."""

    arg_types = {"this": True, "address": True, "step": True}  # noqa: RUF012

    @property
    def address(self) -> Address:
        address = self.args["address"]
        assert isinstance(address, Address)
        return address

    @property
    def step(self) -> int:
        return int(self.args["step"])


class Over(exp.Expression, exp.Condition):
    """An aggregate of the rows of some variables; without an expression, of the rows themselves. If it is distinct, of
    equal values the first one counts."""

    arg_types = {"function": True, "this": False, "address": True, "distinct": False}  # noqa: RUF012

    @property
    def address(self) -> Address:
        address = self.args["address"]
        assert isinstance(address, Address)
        return address

    @property
    def function(self) -> str:
        return str(self.args["function"])

    @property
    def distinct(self) -> bool:
        return bool(self.args.get("distinct"))


class Classifier(exp.Expression, exp.Condition):
    """The variable to which the row at `address` was mapped, or the row `step` rows from there: NULL outside of the
    match."""

    arg_types = {"address": True, "step": False}  # noqa: RUF012

    @property
    def address(self) -> Address:
        address = self.args["address"]
        assert isinstance(address, Address)
        return address

    @property
    def step(self) -> int:
        return int(self.args.get("step") or 0)


class MatchNumber(exp.Expression, exp.Condition):
    """Matches of a partition are numbered from 1, in order."""

    arg_types = {}  # noqa: RUF012


AGGREGATES = ("array_agg", "avg", "count", "max", "min", "sum")


# ---- the clause ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class OrderKey:
    expression: exp.Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Measure:
    name: str
    expression: exp.Expr


@dataclass(frozen=True)
class Skip:
    """Where the next match may begin: behind the last row, at the next row, or at an end of some variables' rows."""

    to: Literal["past last row", "next row", "first", "last"] = "past last row"
    variables: tuple[str, ...] = ()


Shown = Literal["one row", "all rows", "all rows but empty matches", "all rows and unmatched rows"]


@dataclass(frozen=True)
class Window:
    """Strictly less than this lies between the first and the last row: microseconds, or units of a number."""

    length: int
    in_time: bool
    span: Span


@dataclass(frozen=True)
class RowClause:
    """All that a clause says. Variables without a definition are true of every row."""

    by: tuple[exp.Expr, ...]
    order: tuple[OrderKey, ...]
    measures: tuple[Measure, ...]
    shown: Shown
    skip: Skip
    pattern: Node
    within: Window | None
    define: dict[str, exp.Expr]
    text: str
    """As it was written."""
    span: Span

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(symbol.variable for symbol in symbols(self.pattern)))
