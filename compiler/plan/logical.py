"""The logical plan: the paper's six operators, bottom-up.

SASE's plan is a pipeline, not a tree, so a plan is a record with one field per operator. A rule takes a plan and
returns one that does the same with work moved from one operator to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from sase.compiler.core.bound import BoundQuery, Branch, EquivalenceTest, Group, Predicate
from sase.compiler.core.dataclass import dataclass
from sase.compiler.plan.reach import Reach
from sase.compiler.plan.strategy import Strategy


@dataclass(frozen=True)
class SequenceScan:
    """SS→. Which events may fill a state, how the stacks are partitioned, whether the window prunes them."""

    simple: Mapping[str, tuple[Predicate, ...]]
    """Simple predicates that an event must meet to enter, by variable."""
    partition: tuple[EquivalenceTest, ...] = ()
    cross: tuple[EquivalenceTest, ...] = ()
    """Multi-PAIS: tests that an event must meet with some instance of the previous stack to be pushed at all."""
    window: bool = False
    slice: int | None = None
    """Length of a time slice in ticks; None when the stream is not cut by time."""
    stays: Reach | None = None
    """Events stay where they are read, as far as files are in the order of time: how far a match lies from its last
    event, with what it needs."""


@dataclass(frozen=True)
class Negation:
    """One negated component with what is left of its P-."""

    variable: str
    predicates: tuple[Predicate, ...]
    equivalences: tuple[EquivalenceTest, ...]

    @property
    def alike(self) -> tuple[object, ...]:
        """One anti-join does for components that agree on the same attributes with a match: it hashes the same."""
        return tuple((test, test.attribute(self.variable)) for test in self.equivalences)


@dataclass(frozen=True)
class SequenceConstruction:
    """SC←. What is checked while a sequence is being built, so that no dead end is finished."""

    basic: bool = False
    """The paper's baseline: every event of the window is looked at, with no stacks to jump along."""
    predicates: tuple[Predicate, ...] = ()
    equivalences: tuple[EquivalenceTest, ...] = ()
    window: bool = False
    negations: tuple[Negation, ...] = ()


@dataclass(frozen=True)
class Selection:
    """σ. What is checked on whole sequences."""

    predicates: tuple[Predicate, ...]
    equivalences: tuple[EquivalenceTest, ...]


@dataclass(frozen=True)
class GroupPlan:
    """A group of events that could be added to a match, with what is left of its P-."""

    group: Group
    equivalences: tuple[EquivalenceTest, ...]
    """The tests of its branch that name a variable of it."""
    groups: tuple[GroupPlan, ...]
    predicates: tuple[Predicate, ...] = ()
    """Decided where its events are looked for."""
    late: tuple[Predicate, ...] = ()
    """Left to Spark, to which the match brings the events along."""

    @property
    def undecided(self) -> tuple[Predicate, ...]:
        """What is left to Spark, of the groups in it, too."""
        return (*self.late, *(part for inner in self.groups for part in inner.undecided))

    @property
    def collects(self) -> bool:
        """Whether a match gets its events: because they are wanted, or for Spark to decide about."""
        return self.group.fold != "none" or bool(self.undecided)


@dataclass(frozen=True)
class BranchPlan:
    """One branch of a pattern that is no sequence: SC← and σ on its own conditions, and its groups."""

    branch: Branch
    construction: SequenceConstruction
    selection: Selection
    groups: tuple[GroupPlan, ...]
    order: tuple[tuple[str, ...], ...] = ()
    """For each variable that may hold the latest event, it and then the others, as they are bound; empty where nobody
    has chosen."""
    blocks: tuple[tuple[str, ...], ...] | None = None
    """Of a roadmap that is asked for: in which blocks events without a partner are left out first. None: in all."""


@dataclass(frozen=True)
class Plan:
    query: BoundQuery
    scan: SequenceScan
    construction: SequenceConstruction
    selection: Selection
    window: bool
    """WD: whether whole sequences are still checked against WITHIN."""
    negations: tuple[Negation, ...]
    """NG: negated components that are looked for after the sequences are built, by anti-join."""
    strategy: Strategy
    negation_first: bool = False
    """NG before σ: fewer matches reach the selection, more reach the anti-join."""
    bucket: int | None = None
    """Length of NG's time buckets in ticks; None without a window."""
    pruned: bool = False
    """TF: whether only the columns that something reads are carried."""
    branches: tuple[BranchPlan, ...] = ()
    """Of a pattern that is no sequence: what is checked of each branch, in the place of `construction`, `selection`
    and `negations`. The window is part of them: it bounds where candidates are looked for."""
    deferred: bool = False
    """Whether the choice among candidates (each match once, first and last, consumption) comes behind what Spark
    decides; see `settle`."""

    @property
    def needs_kernel(self) -> bool:
        """One positive component without negation in the stacks is a filter; there are no sequences to build."""
        several = len(self.query.positive) > 1 or bool(self.query.loops)
        return bool(self.branches) or several or bool(self.construction.negations)

    @property
    def forbidden(self) -> frozenset[str]:
        """The variables that may not occur: negated components, and groups that are not collected."""
        if not self.branches:
            return frozenset(variable.name for variable in self.query.negated)
        found = frozenset(name for branch in self.branches for group in branch.groups for name in _forbidden(group))
        return found - self.query.bound - self.query.collected

    @property
    def has_interval(self) -> bool:
        """Whether the window restricts anything: one positive event alone always fits into it."""
        return self.query.within is not None and len(self.query.variables) > 1

    @property
    def window_text(self) -> str:
        return f"within {self.query.within.text}" if self.query.within else ""

    def with_scan(self, **changes: object) -> Plan:
        return replace(self, scan=replace(self.scan, **changes))  # type: ignore[arg-type]

    def with_construction(self, **changes: object) -> Plan:
        return replace(self, construction=replace(self.construction, **changes))  # type: ignore[arg-type]

    def with_selection(self, **changes: object) -> Plan:
        return replace(self, selection=replace(self.selection, **changes))  # type: ignore[arg-type]

    def with_branches(self, change: Callable[[BranchPlan], BranchPlan]) -> Plan:
        return replace(self, branches=tuple(map(change, self.branches)))


def basic_plan(query: BoundQuery, strategy: Strategy | None = None) -> Plan:
    """The paper's section 3.1: nothing pushed down."""
    strategy = strategy or Strategy()
    if not query.is_sequence:
        return _any_order(query, strategy)
    return Plan(
        query=query,
        scan=SequenceScan(simple={}),
        construction=SequenceConstruction(basic=strategy.construction == "basic"),
        selection=Selection(
            predicates=tuple(part for part in query.predicates if part.negated is None),
            equivalences=tuple(test for test in query.equivalences if len(test.positive) > 1),
        ),
        window=query.within is not None and len(query.positive) > 1,
        negations=tuple(
            Negation(
                variable.name,
                tuple(part for part in query.predicates if part.negated == variable.name),
                tuple(test for test in query.equivalences if test.attribute(variable.name) is not None),
            )
            for variable in query.negated
        ),
        strategy=strategy,
        negation_first=strategy.negation_place == "before",
        bucket=query.within.ticks if query.within else None,
    )


def _any_order(query: BoundQuery, strategy: Strategy) -> Plan:
    return Plan(
        query=query,
        scan=SequenceScan(simple={}),
        construction=SequenceConstruction(),
        selection=Selection((), ()),
        window=False,
        negations=(),
        strategy=strategy,
        branches=tuple(
            BranchPlan(
                branch,
                SequenceConstruction(),
                Selection(branch.predicates, tuple(test for test in branch.equivalences if len(test.positive) > 1)),
                tuple(_group(group, branch) for group in branch.groups),
            )
            for branch in query.branches
        ),
    )


def _forbidden(each: GroupPlan) -> Iterator[str]:
    if each.group.fold == "none":
        yield from each.group.variables
    for inner in each.groups:
        yield from _forbidden(inner)


def _group(group: Group, branch: Branch) -> GroupPlan:
    tests = (test for test in branch.equivalences if any(test.attribute(name) for name in group.variables))
    inner = tuple(_group(each, branch) for each in group.groups)
    return GroupPlan(group, tuple(tests), inner, late=group.predicates)
