"""The physical plan: columns, SQL texts and tables, in the order of the steps that a job takes.

Nothing is left to decide but how to write it down: the job, `sase explain`, the stages of a run and the pictures all
follow `PhysicalPlan.steps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from sqlglot import exp

from sase.compiler.core.bound import Apart, Arrival, Before, BoundQuery, Instant, Mode, Reported
from sase.compiler.core.dataclass import dataclass
from sase.compiler.plan.reach import Reach

if TYPE_CHECKING:
    from sase.compiler.plan.rows import RowPlan


@dataclass(frozen=True)
class Compare:
    left: str
    left_column: str
    op: str
    right: str
    right_column: str


@dataclass(frozen=True)
class Holds:
    variable: str
    column: str


Clause = tuple[Compare | Holds, ...]


@dataclass(frozen=True)
class Interval:
    """Where an event forbids a match: strictly after the event of one variable, strictly before that of another.

    A component that stands first has no `after`: its interval begins, exclusively, one window before the event of
    `since`. One that stands last has no `before`: its interval ends one window after the event of `until`. Without a
    window, both neighbours are there.
    """

    after: str | None
    before: str | None
    since: str | None = None
    until: str | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """Whose times bound it."""
        return tuple(name for name in (self.after, self.before, self.since, self.until) if name is not None)


@dataclass(frozen=True)
class NegatedState:
    variable: str
    interval: Interval
    where: tuple[Clause, ...]


# ---- patterns that are no sequence --------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """Events that could be added to a match: there may be none, or all of them are collected."""

    variables: tuple[str, ...]
    before: tuple[Before, ...]
    apart: tuple[Apart, ...]
    where: tuple[Clause, ...]
    groups: tuple[Group, ...]
    collect: bool
    name: str | None = None
    """Where its bindings come, for Spark to decide which of them forbid a match."""
    some: bool = False
    """Of what it collects, one binding is enough."""

    @property
    def clauses(self) -> Iterator[Clause]:
        yield from self.where
        for group in self.groups:
            yield from group.clauses

    @property
    def all_variables(self) -> Iterator[str]:
        yield from self.variables
        for group in self.groups:
            yield from group.all_variables


@dataclass(frozen=True)
class Branch:
    """One way to match."""

    variables: tuple[str, ...]
    before: tuple[Before, ...]
    apart: tuple[Apart, ...]
    where: tuple[Clause, ...]
    conditions: tuple[str, ...]
    """The condition of the query that each clause of `where` is, or is part of."""
    groups: tuple[Group, ...]
    instant: Instant
    order: tuple[tuple[str, ...], ...]
    """For each variable that may hold the latest event, it and then the others, as they are bound."""
    blocks: tuple[tuple[str, ...], ...] | None
    """In which events without an equal partner are left out first; None: in all."""

    @property
    def clauses(self) -> Iterator[Clause]:
        yield from self.where
        for group in self.groups:
            yield from group.clauses


# ---- the steps ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Read:
    """The columns that are read and their types, by event type; a tie-breaker that nothing declares is left out."""

    types: Mapping[str, Mapping[str, str]]
    where: str | None
    """Holds for every event that can take part, where more than its type tells: made of plain comparisons."""


Tree = tuple[Any, ...]
"""A sign and what it takes, as a worker computes it: `operator.results`, `operator.thinning`."""


@dataclass(frozen=True)
class Arrive:
    """Columns of the events of some types: aggregates over all events that had arrived with them."""

    arrivals: tuple[Arrival, ...]
    types: tuple[str, ...]
    takes_part: str
    """In SQL: an event that counts, or that gets the columns."""
    thinned: Tree | None = None
    """Holds for each of them that may fill a state, as far as a worker can tell (`operator.thinning`)."""
    inside: bool = False
    """Where the kernel is, and not before."""

    @property
    def all_alike(self) -> bool:
        """Whether every event that takes part counts for each of the columns, and so need not be asked for its type."""
        return all({*self.types} <= {*each.types} == {*self.arrivals[0].types} for each in self.arrivals)


@dataclass(frozen=True)
class Decide:
    """The ordered fold: moment by moment, what is in earlier results decides about a match."""

    reported: tuple[Reported, ...]
    conditions: tuple[str, ...]
    where: tuple[Tree, ...]
    """The same, over columns of single events."""
    last: tuple[str, ...]
    """The variables that may hold the last event."""
    row: str
    """The column that tells events apart."""
    among: tuple[str, ...] = ()
    """The positive variables, where `first`, `last` or CONSUME choose among the matches of a moment."""


@dataclass(frozen=True)
class Fill:
    """Which events may fill a state: Spark SQL conditions on the event's own columns, its type first."""

    variable: str
    parts: tuple[str, ...]
    plain: tuple[str, ...]
    """The type, and those of the conditions by which files can be skipped."""

    @property
    def condition(self) -> str:
        return " AND ".join(self.parts)


@dataclass(frozen=True)
class Computed:
    """A column that Spark computes from one event before the shuffle."""

    name: str
    sql: str


@dataclass(frozen=True)
class Slices:
    """Events are copied to the time slices that their window reaches."""

    length: int
    looks_ahead: bool
    """A trailing negation in the stacks: its events are needed by slices before their own."""
    reach: Reach | None = None
    """Where the latest event may be that of any variable: how far a match may reach back from it, and how far ahead. A
    copy is marked then, and no match is reported where its latest event is one."""
    by_span: bool = False
    """How long a slice is depends on how long the events last: `length` is what it is where that is long enough."""


@dataclass(frozen=True)
class Shuffle:
    """Events that may meet in a match come to one partition."""

    by: tuple[str, ...]
    partitions: int | None
    """How many; None lets Spark choose by size. Without a key, all events are in one."""
    stays: Reach | None = None
    """See `SequenceScan.stays`."""
    read: bool = False
    """What stays may be read by the worker, and not by Spark."""


@dataclass(frozen=True)
class Release:
    """In a stream, the watermark says up to where events are complete, and in order."""


@dataclass(frozen=True)
class Buckets:
    """In a stream, events come to the state of their bucket of keys."""

    keys: tuple[str, ...]
    scan: str = "auto"
    """Who reads files: `spark`, or workers those that they can."""


@dataclass(frozen=True)
class Remember:
    """In a stream, a bucket holds what the window can still reach: these columns."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class Sort:
    """Events in the order in which the kernel needs them. Spark sorts, unless there is a `code`."""

    by: tuple[str, ...]
    code: str | None = None
    """The worker sorts: by this column in place of the key, and by time."""
    hashed: tuple[str, ...] = ()
    """What the code is a hash of; nothing if it is the key itself."""


@dataclass(frozen=True)
class Total:
    """What the kernel adds up over all matches of a key; see `sase.runtime.pattern.Total`."""

    name: str
    kind: str
    variable: str | None
    column: str | None
    real: bool


@dataclass(frozen=True)
class Kernel:
    """Sequence scan and construction in the runtime."""

    positive: tuple[str, ...]
    negated: tuple[NegatedState, ...]
    where: tuple[Clause, ...]
    conditions: tuple[str, ...]
    """The condition of the query that each clause of `where` is, or is part of."""
    window_in_scan: bool
    window_in_construction: bool
    keys: tuple[str, ...]
    cross: tuple[str, ...]
    """Multi-PAIS: columns on which an event must agree with an instance of the previous stack to be pushed."""
    stacks: bool
    time: str
    """The column by which it knows the time: one of ours, in ticks, where Spark computes with it, too."""
    one_per: str | None = None
    """Of the sequences with one event for this variable, it may leave out all but one,"""
    one_per_group: bool = False
    """or of those of one key."""
    furthest: bool = False
    """Of each key, it finds one sequence, complete or not."""
    totals: tuple[Total, ...] | None = None
    """No sequence is built: of all of them, it hands over this, and the `shown` columns of the key."""
    shown: tuple[str, ...] = ()
    loops: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    """The variables that stand for several events: how many at least, and at most."""

    @property
    def clauses(self) -> Iterator[Clause]:
        yield from self.where
        for state in self.negated:
            yield from state.where

    @property
    def terms(self) -> set[str]:
        """The columns that it compares, or adds up."""
        return _compared(self.clauses) | {total.column for total in self.totals or () if total.column is not None}


@dataclass(frozen=True)
class Combination:
    """The walks of the runtime: for each branch and each variable that may hold the latest event of a match, that
    event, and backwards from it the others, each in the range that those before leave it."""

    branches: tuple[Branch, ...]
    once: bool
    select: tuple[tuple[str, Mode], ...]
    exclusive: bool
    keys: tuple[str, ...]
    time: str
    deferred: bool = False
    """It reports candidates, and `Choose` comes later."""
    cross: tuple[str, ...] = ()

    @property
    def clauses(self) -> Iterator[Clause]:
        for branch in self.branches:
            yield from branch.clauses

    @property
    def terms(self) -> set[str]:
        return _compared(self.clauses)

    @property
    def without_conditions(self) -> Combination:
        """What says which events take part, and for how long."""
        return replace(self, branches=tuple(_bare(branch) for branch in self.branches))

    @property
    def variables(self) -> tuple[str, ...]:
        """In the order of their state bits: those of matches, then those of groups."""
        positive = [name for branch in self.branches for name in branch.variables]
        added = [name for branch in self.branches for group in branch.groups for name in group.all_variables]
        return tuple(dict.fromkeys([*positive, *added]))


E = TypeVar("E", Branch, Group)


def _bare(each: E) -> E:
    return replace(each, where=(), groups=tuple(map(_bare, each.groups)))


def _compared(clauses: Iterable[Clause]) -> set[str]:
    atoms = [atom for clause in clauses for atom in clause]
    return {
        column
        for atom in atoms
        for column in ((atom.left_column, atom.right_column) if isinstance(atom, Compare) else (atom.column,))
    }


@dataclass(frozen=True)
class Runs:
    """Skip till next match and contiguity, in the kernel of row patterns: one run from each first event."""

    pattern: RowPlan
    keys: tuple[str, ...]
    event: str
    """The column that holds what a match keeps of an event: a struct,"""
    columns: tuple[str, ...]
    """and what is in there."""
    relevant: str | None
    """Which events are looked at; None for all."""
    values: Mapping[str, str]
    """For each variable, what of a match holds its event, or events,"""
    symbols: Mapping[str, tuple[str, ...]]
    """and the variables of the row pattern that are its events."""
    arrays: frozenset[str]
    first: str
    """What holds the first event of a match, and the last."""
    last: str
    number: str
    """The column that tells events apart, where matches are chosen among,"""
    chosen: tuple[str, ...]
    """and what of a match holds the numbers of its events, and of those by which it is selected."""

    @property
    def asked(self) -> list[str]:
        """The columns that conditions on several events look up, and matches."""
        looked_up = dict.fromkeys(each.column for each in self.pattern.looked_up)
        return [name for name in looked_up if name and name not in (self.event, self.number)]


@dataclass(frozen=True)
class Single:
    """A pattern of one event: each event is a match."""


@dataclass(frozen=True)
class Within:
    """Window: the sequences that are shorter than WITHIN."""

    first: str
    last: str


@dataclass(frozen=True)
class Select:
    """Selection: conditions on whole sequences, over `variable.attribute`."""

    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Forbidden:
    """A negated component that is looked for by an anti-join."""

    variable: str
    interval: Interval
    fill: Fill
    columns: tuple[str, ...]
    conditions: tuple[str, ...]
    """Equalities and P-, over `variable.attribute`, beside the interval."""


@dataclass(frozen=True)
class AntiJoin:
    """Negation on time buckets: one function of the job, and one scan, for all components that it looks for."""

    function: str
    components: tuple[Forbidden, ...]
    common: tuple[str, ...]
    """Of several components: the equalities that all of them ask for, of whichever of them an event is."""
    end: str
    """The variable whose event ends the last interval, or from which on a window does."""
    bucket: int | None
    """The length of a time bucket in ticks; None without a window."""

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(each.variable for each in self.components)

    @property
    def trailing(self) -> bool:
        return any(each.interval.until is not None for each in self.components)

    @property
    def windows(self) -> int:
        """How many windows before its end an interval may begin."""
        return 2 if self.trailing and any(each.interval.since is not None for each in self.components) else 1


@dataclass(frozen=True)
class LookUp:
    """In a stream, a negated component that is not in the stacks: each sequence brings the events of its interval
    along, for Spark to decide (`Exclude`)."""

    variable: str
    interval: Interval
    keyed: bool
    """Its events share the partition key."""
    fill: Fill
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Exclude:
    """What events that a match has brought along must meet to forbid it."""

    variables: tuple[str, ...]
    function: str
    told: str
    """The conditions, in words."""
    sql: str
    """What a match must meet."""
    asked: tuple[exp.Expr, ...] = ()
    """Conditions that are written in another way than the query has them."""


@dataclass(frozen=True)
class Choose:
    """Of the candidates that are matches: each match once, then `first` and `last`, and what is used up."""

    once: bool
    select: tuple[tuple[str, Mode], ...]
    exclusive: bool


@dataclass(frozen=True)
class Arrays:
    """The events of `A{2,4} a` under one name, in the order of time: arrays of the structs of their variables."""

    elements: Mapping[str, tuple[str, ...]]
    always: frozenset[str]
    """Those that every branch binds."""
    empty: frozenset[str] = frozenset()
    """Those that are empty where no event is there."""


@dataclass(frozen=True)
class Keep:
    """Of what is collected, the events that meet conditions which Spark decides."""

    variable: str
    function: str
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Ends:
    """A sequence starts with its first event. It is known at its last or, under a trailing negation, at the end of its
    window."""

    first: str
    last: str
    at_window_end: bool


@dataclass(frozen=True)
class Ticks:
    """The kernel tells when a match starts and when it is known, in ticks."""

    like: str
    """A variable whose events have times of the type that these have."""
    lengths: tuple[int, ...]
    """What may have been added to such a time."""


@dataclass(frozen=True)
class Running:
    """On a stream: a total of a group so far, and what each match adds to it."""

    sql: str
    name: str
    kind: str
    real: bool


@dataclass(frozen=True)
class Grouped:
    """Matches are grouped, and a result is a group. Both kinds of columns come as (SQL, name)."""

    by: tuple[tuple[str, str], ...]
    totals: tuple[tuple[str, str], ...]
    """Aggregates over matches. Nothing where the kernel has added them up: then they are merged."""
    why: str | None
    """Why matches were built; None if they were not."""
    running: tuple[Running, ...] = ()
    """On a stream, in the place of the aggregates over all matches."""


@dataclass(frozen=True)
class Moment:
    """Results that are events have a time of their own, and a tie-breaker where events have one."""

    time: str
    kind: str | None
    """The type of the time, where it is narrower than what a window is added to."""
    order: tuple[str, str] | None
    """SQL, and the name of the column."""


@dataclass(frozen=True)
class Result:
    """RETURN's columns as (SQL, name); without RETURN, one value per variable, `started_at` and `detected_at`."""

    columns: tuple[tuple[str, str], ...] | None
    variables: tuple[str, ...]
    times: Ends | Ticks
    reached: tuple[str, ...] = ()
    """The variables that a partial match may bind, each of them only after those before it."""
    grouped: Grouped | None = None
    """The columns are made of what it has of a group."""
    moment: Moment | None = None

    @property
    def tells_time(self) -> bool:
        return self.columns is None or self.moment is not None


Step = (
    Read | Arrive | Fill | Computed | Slices | Shuffle | Release | Buckets | Remember | Sort | Kernel | Combination
    | Runs | Single | LookUp | Within | Select | AntiJoin | Exclude | Choose | Decide | Arrays | Keep | Result
)  # fmt: skip


S = TypeVar("S", bound=Step)


@dataclass(frozen=True)
class PhysicalPlan:
    query: BoundQuery
    stream: bool
    steps: tuple[Step, ...]
    emit: Mapping[str, tuple[str, ...]]
    """The columns that a match keeps of the event of each variable."""
    selected: tuple[str, ...]
    """An event's own columns that travel to the kernel, in the source's order."""
    roles: Mapping[str, str]
    """The names of our columns by what they hold: see `names.ROLES`."""
    flags: str
    """Before a variable's name, it makes the column that says whether an event may fill the variable."""
    groups: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """The columns that a match keeps of the events in the bindings of its groups."""

    def own(self, role: str) -> str:
        return self.roles[role]

    def every(self, kind: type[S]) -> tuple[S, ...]:
        """The steps of a kind, in their order."""
        return tuple(step for step in self.steps if isinstance(step, kind))

    def only(self, kind: type[S]) -> S | None:
        """The step of a kind that a job takes once at most."""
        found = self.every(kind)
        return found[0] if found else None

    @cached_property
    def kernel(self) -> Kernel | Combination | None:
        return self.only(Kernel) or self.only(Combination)

    @property
    def fills(self) -> tuple[Fill, ...]:
        """In the order of the state bits."""
        return self.every(Fill)

    @property
    def result(self) -> Result:
        (result,) = self.every(Result)
        return result
