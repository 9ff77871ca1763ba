"""What the kernel must know of a query, in the names of the query.

A generated job writes one `Pattern` as a literal, so it is plain data: strings, integers and tuples.
Simple predicates are not here: Spark has turned them into the state bits of each event before the shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
    one_per: str | None = None
    """Of the sequences that have the same event for this variable, one is enough: the others may be left out."""
    one_per_group: bool = False
    """One is enough of all sequences of a group."""

    @property
    def variables(self) -> tuple[str, ...]:
        return self.positive + tuple(component.variable for component in self.negated)

    def bit(self, variable: str) -> int:
        return 1 << self.variables.index(variable)


@dataclass(frozen=True)
class Furthest(Pattern):
    """Of each group of events, not all sequences but one: that which gets furthest.

    It fills as many of the positive variables as any does, from the first one on, inside the window and with no negated
    event between two of them. Of several, it is the first to get there; of these, the one that starts last; and of
    these, from its end backwards, the one whose events come first.
    """

    @property
    def optional(self) -> tuple[str, ...]:
        """The variables that it may leave unbound."""
        return self.positive[1:]


@dataclass(frozen=True)
class Total:
    """What is made of all matches of a group: a column of the result.

    Without a variable, `count` is the number of matches. Else it is about the events that a variable has in all of
    them: `count` is how many there are in which the column is not NULL, `sum` adds it up, and `min` and `max` are its
    least and its greatest value. `real`: as a double, which may be rounded, and cannot become too large.
    """

    name: str
    kind: Literal["count", "sum", "min", "max"]
    variable: str | None = None
    column: str | None = None
    real: bool = False


@dataclass(frozen=True)
class Totals(Pattern):
    """Of each group of events, not its matches but what they come to: no match is built.

    `loops` are the variables that stand for several events, one after the other: how many there are at least and at
    most (None: any number).
    """

    loops: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    """The columns of the key that come with the totals."""
    totals: tuple[Total, ...] = ()


WORKER = "scan_and_construct"
"""What makes matches of events goes by this name in Spark's plans."""


def match_column(variable: str, column: str) -> str:
    """The column of a match, as a worker hands it over: `x.id` for x's id, and never one name for two of them."""
    return f"{variable_column(variable)}.{column}"


def column_of(match_column: str) -> str | None:
    """Whose column it is, without the variable; None if it is none of an event."""
    if match_column.startswith("`"):
        return None
    _, dot, column = match_column.partition(".")
    return column if dot else None


def variable_column(variable: str) -> str:
    """The column of a variable that comes as one value."""
    plain = "." not in variable and "`" not in variable
    return variable if plain else "`" + variable.replace("`", "``") + "`"


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


# ---- combinations: events in any order, alternatives, groups --------------------------------------------------------

Before = tuple[str, str]
"""The first variable's event is strictly before the second's."""


@dataclass(frozen=True)
class Apart:
    """`later.time - earlier.time < ticks`. Ticks that are not positive put `later` before `earlier`."""

    earlier: str
    later: str
    ticks: int


@dataclass(frozen=True)
class Latest:
    """A match is certain with its latest event."""


@dataclass(frozen=True)
class Earliest:
    """A match is certain this long after its earliest event: a group is open until then."""

    ticks: int


@dataclass(frozen=True)
class At:
    """A match is certain with this event."""

    variable: str


@dataclass(frozen=True)
class Derived:
    """A match is certain this long after this event."""

    variable: str
    ticks: int


Instant = Latest | Earliest | At | Derived


@dataclass(frozen=True)
class Group:
    """Events that could be added to a match: it is forbidden if there are any, or gets all of them (`collect`).

    The relations and clauses speak of the group's own variables, of the match's, and of enclosing groups'. A binding
    counts if no inner group has one. Events of a match and of its groups are all different.

    What is collected of one variable goes by its name. With a `name`, the bindings go by that one: each is an event per
    variable, for somebody else to decide whether it forbids the match.
    """

    variables: tuple[str, ...]
    before: tuple[Before, ...] = ()
    apart: tuple[Apart, ...] = ()
    where: tuple[Clause, ...] = ()
    groups: tuple[Group, ...] = ()
    collect: bool = False
    name: str | None = None
    some: bool = False
    """Of what it collects, one binding is enough: whether there is any is all that is asked."""


@dataclass(frozen=True)
class Branch:
    """One way to match: different events for its variables that meet all relations and clauses, and its groups.

    `order` is the binding order, where it is chosen by hand or by cost. Each of its tuples names all variables: the one
    that holds the latest row, then the others in the order in which they are bound. A variable without a tuple of its
    own, and one that can be the latest, is given one.

    Where many events lie in a window, those without a partner for an equality are left out before matches are built: of
    all variables or, if there are `blocks`, of those that are in one together.
    """

    variables: tuple[str, ...]
    before: tuple[Before, ...] = ()
    apart: tuple[Apart, ...] = ()
    where: tuple[Clause, ...] = ()
    groups: tuple[Group, ...] = ()
    instant: Instant = Latest()
    order: tuple[tuple[str, ...], ...] = ()
    blocks: tuple[tuple[str, ...], ...] | None = None


BORROWED = 1 << 62
"""The state bit of an event that is also in another time slice: here it may not be the latest row of a match."""

ARRIVES = 1 << 60
"""The state bit of an event that takes part in what has arrived: that counts, or is told. A pattern has 60 bits."""

USED = 1 << 61
"""The state bit of an event that an `exclusive` match has used up."""


@dataclass(frozen=True)
class Combination:
    """Events in any order, alternatives and groups, with what is checked while matches are built.

    Bit i of an event's state bits says that it may fill `variables[i]`. A variable that several branches bind, or look
    for in groups, has one bit. With `once`, equal assignments of several branches are one match.

    Of the matches with the same latest row, `select` keeps those whose events are the `first` or `last` of the named
    variables, one variable after the other. `exclusive`: events of a reported match take part in no later one.

    A `deferred` one reports every candidate, with its branch: these choices are made by `operator.choice`, when
    somebody else has decided which candidates are matches.
    """

    branches: tuple[Branch, ...]
    once: bool = True
    select: tuple[tuple[str, Literal["first", "last"]], ...] = ()
    exclusive: bool = False
    deferred: bool = False

    @property
    def positive(self) -> tuple[str, ...]:
        """In the order of their first appearance."""
        return tuple(dict.fromkeys(variable for branch in self.branches for variable in branch.variables))

    @property
    def collected(self) -> tuple[str, ...]:
        """The variables whose events come as an array."""
        groups = (group for branch in self.branches for group in branch.groups if group.collect and not group.name)
        return tuple(dict.fromkeys(variable for group in groups for variable in group.variables))

    @property
    def bindings(self) -> dict[str, tuple[str, ...]]:
        """The groups whose bindings come as an array, by name, and their variables."""
        groups = (group for branch in self.branches for group in branch.groups)
        return {group.name: group.variables for group in groups if group.name}

    @property
    def optional(self) -> tuple[str, ...]:
        """The positive variables that some branch does not bind."""
        return tuple(v for v in self.positive if any(v not in branch.variables for branch in self.branches))

    @property
    def variables(self) -> tuple[str, ...]:
        """The positive variables, then those of groups, in the order of their first appearance."""
        grouped = (v for branch in self.branches for group in branch.groups for v in _grouped(group))
        return tuple(dict.fromkeys((*self.positive, *grouped)))

    def bit(self, variable: str) -> int:
        return 1 << self.variables.index(variable)


def _grouped(group: Group) -> Iterator[str]:
    yield from group.variables
    for inner in group.groups:
        yield from _grouped(inner)
