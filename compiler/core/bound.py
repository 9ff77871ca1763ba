"""The bound query: every name resolved, every type known, the pattern lowered to branches, WHERE split into P+ and P-.

Nothing below this point knows the surface syntax: another language that wants our plans ends here.

A query is a set of *branches*. A branch has positive variables, a strict order between some of them, bounds on
differences of their times, conditions, and *groups*: events that could be added. A match of a branch is an injective
assignment of events to its positive variables that meets all of these, and for which no group of fold `none` has a
binding. A chain, SEQ of single events, is the special case `BoundQuery.is_sequence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import pairwise
from textwrap import dedent
from typing import Literal

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.catalog import AS_USUAL, Csv
from sase.compiler.core.dataclass import dataclass
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
    computed: bool = False
    """No column of the events, but one of `BoundQuery.arrivals`."""


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
    """One part of WHERE: about positive variables alone (P+), or about those of a group, too (P-)."""

    condition: exp.Expr
    negated: str | None
    """The variable of the group that it is about, the first that it names; None in P+."""
    span: Span = field(compare=False)

    @cached_property
    def variables(self) -> frozenset[str]:
        return scalars.variables(self.condition)

    @property
    def is_simple(self) -> bool:
        """Whether it is about one event."""
        return len(self.variables) == 1 and not self.is_folded

    @cached_property
    def is_folded(self) -> bool:
        """Whether it speaks of a value of several events, and so of a whole match."""
        return self.condition.find(scalars.Folded) is not None

    def __str__(self) -> str:
        return scalars.sql(self.condition)


@dataclass(frozen=True)
class EquivalenceTest:
    """Positive variables that agree on an attribute, and those of groups that must agree to count.

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
class Arrival:
    """A column of the last event: an aggregate over all events that had arrived, less than a window before it."""

    name: str
    kind: str
    variable: str
    attribute: str
    types: tuple[str, ...]
    """The events of these types are aggregated: those of the variable that declare the attribute."""
    result: str
    """Its Spark type."""


@dataclass(frozen=True)
class Reported:
    """An aggregate over the events of a variable in earlier results, less than a window before the last event."""

    name: str
    kind: str
    variable: str
    attribute: str
    result: str
    """Its Spark type."""


@dataclass(frozen=True)
class Loop:
    """How many events one component takes, one after the other."""

    least: int
    most: int | None
    """None: any number."""
    single: bool = False
    """`B? b`, which is one event or none, and no array."""

    def __str__(self) -> str:
        match self.least, self.most:
            case 0, 1 if self.single:
                return "?"
            case 0, None:
                return "*"
            case 1, None:
                return "+"
            case least, most if least == most:
                return f"{{{least}}}"
            case least, most:
                return f"{{{least},{'' if most is None else most}}}"


Before = tuple[str, str]
"""The place (time, tie-breaker) of the first variable's event is strictly before that of the second."""

Fold = Literal["none", "collect", "weigh"]
"""What is done with the bindings of a group: NOT forbids any, ALL collects them, and where events are uncertain, NOT
weighs a match by how likely it is that none of them has happened."""

EventStrategy = Literal["skip till any match", "skip till next match", "partition contiguity", "strict contiguity"]
"""Which events a match may take, in SASE+'s words: all combinations; from each start one run, which takes the first
event that it can; or such a run without a gap, among the events of its partition or of the whole stream."""

AfterMatch = Literal["to next row", "past last row"]
"""Where the run of the next match may begin, in the words of MATCH_RECOGNIZE: with any event, or behind the match."""

Mode = Literal["first", "last"]
Consumption = Literal["shared", "exclusive"]


@dataclass(frozen=True)
class Apart:
    """`later.time - earlier.time < ticks`. Offsets of derived times are part of `ticks`, which may be negative."""

    earlier: str
    later: str
    ticks: int


@dataclass(frozen=True)
class Group:
    """Events that could be added to a match. Its relations and conditions may speak of the match's variables, too, and
    of those of the groups around it. Orders that follow from others are left out."""

    variables: tuple[str, ...]
    before: frozenset[Before]
    apart: tuple[Apart, ...]
    predicates: tuple[Predicate, ...] = ()
    groups: tuple[Group, ...] = ()
    fold: Fold = "none"


@dataclass(frozen=True)
class Latest:
    """A match is certain at the place of its latest event, whichever variable holds it."""


@dataclass(frozen=True)
class Earliest:
    """A match is certain so many ticks after its earliest event: a group is open until then."""

    ticks: int


@dataclass(frozen=True)
class At:
    """A match is certain at the place of this variable's event."""

    variable: str


@dataclass(frozen=True)
class Derived:
    """A match is certain so many ticks after this variable's event."""

    variable: str
    ticks: int


Instant = Latest | Earliest | At | Derived


@dataclass(frozen=True)
class Branch:
    variables: tuple[str, ...]
    """The positive ones, in the order of the text."""
    before: frozenset[Before]
    """The order, without what follows from the rest of it."""
    apart: tuple[Apart, ...]
    predicates: tuple[Predicate, ...]
    """P+, without comparisons on variables that this branch does not bind."""
    equivalences: tuple[EquivalenceTest, ...]
    groups: tuple[Group, ...]
    instant: Instant

    @property
    def is_chain(self) -> bool:
        return self.before == frozenset(pairwise(self.variables))


def chain(
    variables: Sequence[str],
    within: Window | None,
    predicates: tuple[Predicate, ...] = (),
    equivalences: tuple[EquivalenceTest, ...] = (),
) -> Branch:
    """The branch of positive variables one after the other."""
    ends = (Apart(variables[0], variables[-1], within.ticks),) if within and len(variables) > 1 else ()
    return Branch(
        tuple(variables), frozenset(pairwise(variables)), ends, predicates, equivalences, groups=(), instant=Latest()
    )


@dataclass(frozen=True)
class Grouping:
    """RETURN has a row for each group of matches: aggregates over them, and what they agree on."""

    by: tuple[exp.Expr, ...]
    span: Span = field(compare=False)


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
    """Every component once, in the order of the text, whatever branches it is in."""
    branches: tuple[Branch, ...]
    within: Window | None
    returns: tuple[Output, ...] | None
    composite: str | None
    timed: bool = False
    """The results are events, of the type `composite`: each has the time, and the tie-breaker, of its instant."""
    time_unit: str | None = None
    time_format: str | None = None
    csv: Csv = AS_USUAL
    once: bool = True
    """Equal assignments of several branches are one match."""
    whole: bool = False
    """Its event types are all that there are: each has a table of its own."""
    selection: Mapping[str, Mode] = field(default_factory=dict)
    """Among the matches of one last event, those whose event for this variable is first or last, in this order."""
    consume: Consumption = "shared"
    arrays: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The variables that stand for the single events of a repeated positive component: `A{2,4} a` has four. Without
    those that no match has room for, in the window of a part."""
    empty: frozenset[str] = frozenset()
    """Those of `arrays` that are empty, and not NULL, where none of their events is there: `A{0,4} a`."""
    loops: Mapping[str, Loop] = field(default_factory=dict)
    """Variables that stand for several events, or none, and are not written out: those of runs and of counts. A
    condition on such a variable holds of each of its events; `scalars.Folded` is a value of all of them."""
    strategy: EventStrategy = "skip till any match"
    after: AfterMatch = "to next row"
    others: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of contiguity: the other types of events that there are, and their attributes. One of them breaks a run."""
    arrivals: tuple[Arrival, ...] = ()
    reported: tuple[Reported, ...] = ()
    decided: tuple[Predicate, ...] = ()
    """The parts of WHERE that depend on earlier results, by `reported`: moment by moment, behind all others."""
    timed_out: bool = False
    """The branches are those in which a sequence got stuck: `reached` is the number of variables that one binds. Of
    runs, there is the branch of all variables, and a run is open when its window ends."""
    grouped: Grouping | None = None
    """The outputs are aggregates over all matches of a group."""
    some: frozenset[str] = frozenset()
    """Of these collected variables nothing is asked but whether there is an event: one is as good as all."""
    one_per: str | None = None
    """Results tell of this variable's event only, and equal ones are one: of the matches of each such event, one is as
    good as all."""
    furthest: bool = False
    """Of each key, one sequence is wanted: that which fills the most variables, from the first one on, be it complete
    or not. What the others would add to it is NULL."""

    @property
    def own_text(self) -> str:
        """Its lines alone: the other queries of a file are blank in its text."""
        return dedent("\n".join(line.rstrip() for line in self.text.split("\n")).strip("\n"))

    @property
    def runs(self) -> bool:
        """Whether a match is the run of its first event, and not one of all combinations."""
        return self.strategy != "skip till any match"

    @cached_property
    def bound(self) -> frozenset[str]:
        """The variables that are positive in some branch."""
        return frozenset(name for branch in self.branches for name in branch.variables)

    @cached_property
    def positive(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if variable.name in self.bound)

    @cached_property
    def negated(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if variable.name not in self.bound)

    def variable(self, name: str) -> Variable:
        return next(variable for variable in self.variables if variable.name == name)

    @cached_property
    def predicates(self) -> tuple[Predicate, ...]:
        """The parts of WHERE, of all branches and groups, in the order of the text."""
        parts = (part for branch in self.branches for part in (*branch.predicates, *_inside(branch.groups)))
        once = {(part.span, part): part for part in parts}
        return tuple(sorted(once.values(), key=lambda part: part.span.start))

    @cached_property
    def equivalences(self) -> tuple[EquivalenceTest, ...]:
        return tuple(dict.fromkeys(test for branch in self.branches for test in branch.equivalences))

    @cached_property
    def collected(self) -> frozenset[str]:
        """The variables of ALL: each is an array in a match."""
        return frozenset(
            name
            for branch in self.branches
            for group in branch.groups
            if group.fold == "collect"
            for name in group.variables
        )

    @cached_property
    def result_variables(self) -> tuple[str, ...]:
        """Those of a result, in the order of the text: bound ones, collected ones, and repeated ones as one. A run that
        has its last event is not stuck."""
        whole = {element: name for name, elements in self.arrays.items() for element in elements}
        shown = self.bound | self.collected
        if self.timed_out and self.runs:
            shown -= {self.branches[0].variables[-1]} - {*self.loops}
        names = (variable.name for variable in self.variables if variable.name in shown)
        return tuple(dict.fromkeys(whole.get(name, name) for name in names))

    # ---- sequences ------------------------------------------------------------------------------

    @cached_property
    def is_sequence(self) -> bool:
        """Whether it is SEQ of single events, negated or not, and nothing else: `chain` and all below it say so."""
        if len(self.branches) > 1 or self.selection or self.consume == "exclusive" or self.arrays or self.timed_out:
            return False
        if self.runs or (self.loops and self.grouped is None):
            return False
        (branch,) = self.branches
        if not branch.is_chain or branch.apart != chain(branch.variables, self.within).apart:
            return False
        if len({group.variables for group in branch.groups}) < len(branch.groups):  # alternatives under one NOT
            return False
        trailing = any(
            group.before == {(branch.variables[-1], name)} for group in branch.groups for name in group.variables
        )
        instant = Earliest(self.within.ticks) if self.within and trailing else Latest()
        return branch.instant == instant and all(self._is_component(group, branch.variables) for group in branch.groups)

    def _is_component(self, group: Group, positive: tuple[str, ...]) -> bool:
        """Whether a group is one negated event beside a positive one, or between two neighbours, inside the window."""
        if len(group.variables) > 1 or group.groups or group.fold != "none":
            return False
        (name,) = group.variables
        ticks = self.within.ticks if self.within else 0
        return (group.before, group.apart) in [
            (
                frozenset({*([(after, name)] if after else []), *([(name, before)] if before else [])}),
                (Apart(*((name, positive[-1]) if after is None else (positive[0], name)), ticks),)
                if after is None or before is None
                else (),
            )
            for after, before in pairwise((None, *positive, None))
        ]

    # Of sequences only: the order of time is asked here, and nowhere taken from the place of a variable in a tuple.

    @cached_property
    def first(self) -> Variable:
        """The positive variable whose event is before all others': it starts a match."""
        return self.variable(self.chain.variables[0])

    @cached_property
    def last(self) -> Variable:
        """The positive variable whose event is after all others': it completes a sequence."""
        return self.variable(self.chain.variables[-1])

    @property
    def chain(self) -> Branch:
        assert self.is_sequence, "the order of time is partial: ask the branches"
        return self.branches[0]

    def before(self, one: str, other: str) -> bool:
        """Whether the event of `one` must be before that of `other`, either of which may be negated.

        Negated components between the same neighbours stand each for itself: none of them is before another.
        """
        return self._ranks[one] < self._ranks[other]

    def neighbours(self, negated: str) -> tuple[str | None, str | None]:
        """The positive variables just before and just after a negated one; None where it stands first or last."""
        (group,) = (group for group in self.chain.groups if group.variables == (negated,))
        return (
            next((earlier for earlier, later in group.before if later == negated), None),
            next((later for earlier, later in group.before if earlier == negated), None),
        )

    @cached_property
    def leading(self) -> tuple[Variable, ...]:
        """The negated variables with no positive one before them: the window opens their interval."""
        return tuple(variable for variable in self.negated if self.neighbours(variable.name)[0] is None)

    @cached_property
    def trailing(self) -> tuple[Variable, ...]:
        """The negated variables with no positive one after them: the window closes their interval."""
        return tuple(variable for variable in self.negated if self.neighbours(variable.name)[1] is None)

    @cached_property
    def _ranks(self) -> Mapping[str, int]:
        """Positive variables have odd ranks, and negated ones the even rank in between."""
        ranks = {name: 2 * index + 1 for index, name in enumerate(self.chain.variables)}
        for variable in self.negated:
            after, _ = self.neighbours(variable.name)
            ranks[variable.name] = 0 if after is None else ranks[after] + 1
        return ranks


def _inside(groups: Iterable[Group]) -> Iterator[Predicate]:
    for group in groups:
        yield from group.predicates
        yield from _inside(group.groups)
