"""What the kernel must know of a query, in the names of the query.

A generated job writes one `Pattern` as a literal, so it is plain data: strings, integers and tuples.
Simple predicates are not here: Spark has turned them into the state bits of each event before the shuffle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Operator = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Compare:
    """`left.left_column op right.right_column`; not true when either side is NULL."""

    left: str
    left_column: str
    op: Operator
    right: str
    right_column: str


@dataclass(frozen=True)
class Holds:
    """A boolean column of one event; not true when it is NULL."""

    variable: str
    column: str


Atom = Compare | Holds
Clause = tuple[Atom, ...]
"""A disjunction: at least one atom holds. A tuple of clauses is their conjunction (CNF)."""


@dataclass(frozen=True)
class Negated:
    """A negated component: no such event, satisfying `where`, strictly between its positive neighbours.

    `after` is the positive variable before it (None: it stands first), `before` the one after it (None: last).
    Its clauses speak of itself and of positive variables only.
    """

    variable: str
    after: str | None
    before: str | None
    where: tuple[Clause, ...] = ()


@dataclass(frozen=True)
class Pattern:
    """SEQ of the positive variables, with what is checked while sequences are built.

    Bit i of an event's state bits says that it may fill `variables[i]`: the positives in order, then the negated.
    """

    positive: tuple[str, ...]
    negated: tuple[Negated, ...] = ()
    where: tuple[Clause, ...] = ()
    within: int | None = None
    window_in_scan: bool = True
    window_in_construction: bool = True
    stacks: bool = True
    """False is the paper's baseline: construction looks at every event of the window, whatever it could fill."""

    @property
    def variables(self) -> tuple[str, ...]:
        return self.positive + tuple(component.variable for component in self.negated)

    def bit(self, variable: str) -> int:
        return 1 << self.variables.index(variable)


def match_column(variable: str, column: str) -> str:
    """The column of a match, as a worker hands it over: `x.id` for x's id, and never one name for two of them."""
    plain = "." not in variable and "`" not in variable
    return f"{variable if plain else '`' + variable.replace('`', '``') + '`'}.{column}"


@dataclass(frozen=True)
class Outside:
    """In a stream, a negated component that the kernel cannot look up: Spark decides about it, on whole matches.

    A match gets its events inside the forbidden interval as an array of structs of `columns`. Without columns there is
    nothing to decide: any event forbids the match. `keyed` says that only events of the match's key count. Their state
    bits follow those of `Pattern.variables`.
    """

    variable: str
    after: str | None
    before: str | None
    keyed: bool
    columns: tuple[str, ...] = ()
