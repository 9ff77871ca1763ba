"""The bound query: every name resolved, every type known, WHERE split into P+ and P-.

Nothing below this point knows the surface syntax: another language that wants our plans ends here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.errors import Span

Place = tuple[str, str]
"""A variable and one of its attributes, or a field inside one: a `fields.Path`."""

TimeKind = Literal["timestamp", "integer"]
"""What the time column holds: a timestamp or a date, or an integer without a unit."""


@dataclass(frozen=True)
class Attribute:
    name: str
    kind: exp.DataType
    lacking: tuple[str, ...]
    """The types of the variable that do not declare it: a comparison on one of their events is true."""


@dataclass(frozen=True)
class Variable:
    """A component of the pattern. Its attributes are those of all its types: time, type and tie-breaker first."""

    name: str
    types: tuple[str, ...]
    negated: bool
    attributes: Mapping[str, Attribute]
    span: Span = field(compare=False)
    """Where the component stands in the text. Two spellings of a query are equal, so places do not count."""


@dataclass(frozen=True)
class Predicate:
    """One part of WHERE: about positive variables alone (P+), or about one negated variable, too (P-)."""

    condition: exp.Expr
    negated: str | None
    span: Span = field(compare=False)

    @cached_property
    def variables(self) -> frozenset[str]:
        return scalars.variables(self.condition)

    @property
    def is_simple(self) -> bool:
        return len(self.variables) == 1

    def __str__(self) -> str:
        return scalars.sql(self.condition)


@dataclass(frozen=True)
class EquivalenceTest:
    """Positive variables that agree on an attribute, and the negated ones that must agree to count.

    Every type of these variables declares the attribute, so the test is an equivalence: NULL is equal to nothing and
    no event escapes it. That is what makes it fit to partition by.
    """

    positive: tuple[Place, ...]
    negated: tuple[Place, ...] = ()

    def attribute(self, variable: str) -> str | None:
        return dict(self.positive + self.negated).get(variable)

    def __str__(self) -> str:
        names = {attribute for _, attribute in self.positive + self.negated}
        if len(names) == 1:
            return f"[{names.pop()}]"
        return "[" + " = ".join(f"{variable}.{attribute}" for variable, attribute in self.positive + self.negated) + "]"


@dataclass(frozen=True)
class Window:
    """A length of time in ticks: microseconds, or the units of an integer time column."""

    ticks: int
    text: str


@dataclass(frozen=True)
class Output:
    name: str
    value: exp.Expr
    span: Span = field(compare=False)


@dataclass(frozen=True)
class BoundQuery:
    text: str
    filename: str
    span: Span = field(compare=False)
    """Of the pattern."""
    stream: str | None
    time: str
    type: str
    order: str | None
    time_kind: TimeKind
    variables: tuple[Variable, ...]
    predicates: tuple[Predicate, ...]
    equivalences: tuple[EquivalenceTest, ...]
    within: Window | None
    returns: tuple[Output, ...] | None
    composite: str | None
    time_unit: str | None = None
    time_format: str | None = None

    @cached_property
    def positive(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if not variable.negated)

    @cached_property
    def negated(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if variable.negated)

    def variable(self, name: str) -> Variable:
        return next(variable for variable in self.variables if variable.name == name)

    # The order of time is asked here, and nowhere taken from the place of a variable in a tuple.

    @cached_property
    def first(self) -> Variable:
        """The positive variable whose event is before all others': it starts a match."""
        return min(self.positive, key=self._rank)

    @cached_property
    def last(self) -> Variable:
        """The positive variable whose event is after all others': it completes a sequence."""
        return max(self.positive, key=self._rank)

    def before(self, one: str, other: str) -> bool:
        """Whether the event of `one` must be before that of `other`, either of which may be negated.

        Negated components between the same neighbours stand each for itself: none of them is before another.
        """
        return self._ranks[one] < self._ranks[other]

    def neighbours(self, negated: str) -> tuple[str | None, str | None]:
        """The positive variables just before and just after a negated one; None where it stands first or last."""
        earlier = [variable for variable in self.positive if self.before(variable.name, negated)]
        later = [variable for variable in self.positive if self.before(negated, variable.name)]
        return (
            max(earlier, key=self._rank).name if earlier else None,
            min(later, key=self._rank).name if later else None,
        )

    @cached_property
    def leading(self) -> tuple[Variable, ...]:
        """The negated variables with no positive one before them: the window opens their interval."""
        return tuple(variable for variable in self.negated if self.neighbours(variable.name)[0] is None)

    @cached_property
    def trailing(self) -> tuple[Variable, ...]:
        """The negated variables with no positive one after them: the window closes their interval."""
        return tuple(variable for variable in self.negated if self.neighbours(variable.name)[1] is None)

    def _rank(self, variable: Variable) -> int:
        return self._ranks[variable.name]

    @cached_property
    def _ranks(self) -> Mapping[str, int]:
        """A sequence is a chain: its positive variables have odd ranks, and negated ones the even rank in between."""
        ranks: dict[str, int] = {}
        positives = 0
        for variable in self.variables:
            ranks[variable.name] = 2 * positives + (0 if variable.negated else 1)
            positives += not variable.negated
        return ranks
