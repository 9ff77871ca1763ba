"""What the kernel must know of a MATCH_RECOGNIZE clause, in the names of the clause.

A generated job writes this down as literals, so it is plain data: strings, integers and tuples. Conditions on single
rows are not here: Spark has turned them into the symbol bits of each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

ACCEPT = -1
"""The end of a match, among the positions that may come next."""


@dataclass(frozen=True)
class Skip:
    """Where the next match may begin."""

    to: Literal["past last row", "next row", "first", "last"] = "past last row"
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class At:
    """A column of the first or last row of `variables` (None: of any), or of one that is `offset` rows from it."""

    column: str
    variables: tuple[str, ...] | None = None
    first: bool = False
    offset: int = 0
    final: bool = True
    before: bool = False
    """In a condition: of the rows before the one at hand."""


@dataclass(frozen=True)
class Classifier:
    """The variable of such a row, or of the one `step` rows further, if that is part of the match."""

    variables: tuple[str, ...] | None = None
    first: bool = False
    offset: int = 0
    final: bool = True
    step: int = 0


@dataclass(frozen=True)
class Over:
    """An aggregate over a column of the rows of `variables`; without a column, over the rows themselves. If it is
    `distinct`, of equal values the first one counts."""

    function: Literal["array_agg", "avg", "count", "labels", "max", "min", "sum"]
    """`labels` are the variables of the rows, as an array."""
    column: str | None = None
    variables: tuple[str, ...] | None = None
    final: bool = True
    before: bool = False
    """In a condition: of the rows before the one at hand."""
    distinct: bool = False


@dataclass(frozen=True)
class MatchNumber:
    """Matches of a partition are numbered from 1."""


Measure = At | Classifier | Over | MatchNumber


@dataclass(frozen=True)
class Constant:
    """A number (as text, if it has a fraction, so that it stays exact), a truth value, or a length of time in
    microseconds."""

    value: int | str | bool | None
    interval: bool = False


@dataclass(frozen=True)
class Label:
    """The name of a variable, or of none."""

    name: str


@dataclass(frozen=True)
class Operation:
    """An operator and what it takes: = != < <= > >= + - * / AND OR NOT, IS NULL, IS TRUE and IF."""

    sign: str
    parts: tuple[Condition, ...]


Condition = Measure | Constant | Label | Operation
"""Of rows that were mapped so far: `At(column, final=False)` is of the row at hand, on trial for its variable."""


def leaves_of(condition: Condition) -> Iterator[Condition]:
    """What an operation is made of, at last."""
    if isinstance(condition, Operation):
        for part in condition.parts:
            yield from leaves_of(part)
    else:
        yield condition


@dataclass(frozen=True)
class Shift:
    """A column of the row that stands `step` rows further in its partition: before it, if that is negative."""

    column: str
    step: int


@dataclass(frozen=True)
class RowPattern:
    """Positions, and behind each one those that may take the next row: the preferred first, `ACCEPT` for none of them.

    A position is an occurrence of a variable in the pattern, quantifiers written out. A match goes from `start` (from
    `first` on the first row of a partition, where that differs) along `follow`; on the last row of a partition it may
    end at one of `ends`. Bit i of a row's symbol bits says that it may be mapped to `variables[i]`.
    """

    symbols: tuple[str, ...]
    start: tuple[int, ...]
    follow: tuple[tuple[int, ...], ...]
    ends: tuple[int, ...]
    first: tuple[int, ...] | None = None
    excluded: tuple[int, ...] = ()
    skip: Skip = Skip()
    within: int | None = None
    running: tuple[tuple[str, Condition], ...] = ()
    """What a row must also meet to be mapped to a variable, given the rows that were mapped before it."""
    stuck: bool = False
    """Of a pattern in which a row fits one position at most, with a window: not its matches are wanted, but what had
    begun and was open when its window ended, with the rows up to there."""

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.symbols))

    def positions(self, variables: tuple[str, ...] | None) -> tuple[int, ...]:
        """Those of some variables; of all, without any."""
        return tuple(i for i, symbol in enumerate(self.symbols) if variables is None or symbol in variables)
