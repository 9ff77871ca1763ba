"""What a pattern that is no sequence is expected to cost: the walks of the kernel, and in which order they bind best.

A walk begins with the latest event of a match, whichever variable holds it, and binds the others one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import combinations

from sase.compiler.core.bound import Before
from sase.compiler.plan.estimate import Calibration, Cost, Estimate
from sase.compiler.plan.logical import BranchPlan, GroupPlan, Plan
from sase.compiler.plan.roadmap import Edge, Effort, Roadmap, binding_order
from sase.compiler.plan.statistics import Statistics

MOST_SUBSETS = 12
"""Up to so many variables, every order of binding is weighed; beyond, the next is that with the fewest candidates."""


class Walks(Estimate):
    def __init__(self, plan: Plan, statistics: Statistics, constants: Calibration) -> None:
        super().__init__(plan, statistics, constants)
        names = dict.fromkeys(name for branch in plan.branches for name in _names(branch))
        self.states = {name: self.filling(self.query.variable(name)) for name in names}

    def cost(self) -> Cost:
        plan, constants, cores = self.plan, self.constants, max(1, self.statistics.cores)
        relevant = self.filling_any(map(self.query.variable, self.states))
        shuffled, width, moved = self.moved(relevant)
        edges, sequences, matches = 0.0, 0.0, 0.0
        for branch in plan.branches:
            survival = math.prod(self.survival(branch, group) for group in branch.groups)
            for latest in latest_of(branch):
                order = next((each for each in branch.order if each[0] == latest), None) or self.order(branch, latest)
                edges += self.visited(branch, order)
                found = self.walks(branch, frozenset(order), latest)
                edges += found * len(branch.groups)
                edges += found * sum(self.added(branch, group) for group in branch.groups if group.collects)
                sequences += found * survival
                matches += found * survival * self.selected(branch)
        searched = edges * constants.edge + sequences * constants.sequence
        most = max(len(branch.branch.variables) for branch in plan.branches)
        even, uneven = self.hottest(1, cores), self.hottest(most, cores)
        late = any(each.selection.predicates or each.selection.equivalences for each in plan.branches)
        searched += sequences * constants.select if late else 0.0
        seconds = constants.stage + self.statistics.events * constants.read / cores + moved * even + searched * uneven
        instances = tuple(self.states.values())
        return Cost(relevant, shuffled, shuffled * width, instances, edges, sequences, matches, 0.0, uneven, seconds)

    # ---- a walk ---------------------------------------------------------------------------------

    def order(self, branch: BranchPlan, latest: str) -> tuple[str, ...]:
        """The cheapest order of binding, by dynamic programming over what is bound: how many walks there are depends
        on that alone, and not on the way there."""
        names = branch.branch.variables
        if len(names) > MOST_SUBSETS:
            return self.greedy(branch, latest)
        best: dict[frozenset[str], tuple[float, tuple[str, ...]]] = {frozenset([latest]): (0.0, (latest,))}
        for _ in names[1:]:
            longer: dict[frozenset[str], tuple[float, tuple[str, ...]]] = {}
            for bound, (cost, order) in best.items():
                for name in (name for name in names if name not in bound):
                    way = (cost + self.candidates(branch, bound, name, latest), (*order, name))
                    known = longer.get(bound | {name})
                    if known is None or way[0] < known[0]:
                        longer[bound | {name}] = way
            best = longer
        ((_, order),) = best.values()
        return order

    def along(self, roadmap: Roadmap, branch: BranchPlan, latest: str) -> tuple[str, ...]:
        return binding_order(roadmap, latest, lambda bound, name: self.effort(branch, bound, name, latest))

    def comparisons(self, branch: BranchPlan) -> dict[Edge, float]:
        """For two variables, the share of pairs that meet all that construction checks between them."""
        names, shares = branch.branch.variables, dict[Edge, float]()
        for left, right in combinations(names, 2):
            parts = [part for part in branch.construction.predicates if part.variables == {left, right}]
            tests = [
                test
                for test in branch.construction.equivalences
                if {left, right} <= {name for name, _ in test.positive}
            ]
            if parts or tests:
                shares[left, right] = math.prod(map(self.selectivity, parts)) * self.agreement(tests, 2)
        return shares

    def greedy(self, branch: BranchPlan, latest: str) -> tuple[str, ...]:
        order: tuple[str, ...] = (latest,)
        while left := [name for name in branch.branch.variables if name not in order]:
            bound = frozenset(order)
            order = (*order, min(left, key=lambda name: self.effort(branch, bound, name, latest)))
        return order

    def effort(self, branch: BranchPlan, bound: frozenset[str], name: str, latest: str) -> Effort:
        return self.candidates(branch, bound, name, latest), self.walks(branch, bound | {name}, latest)

    def visited(self, branch: BranchPlan, order: tuple[str, ...]) -> float:
        """Candidates that the walks of an order look at."""
        return sum(
            self.candidates(branch, frozenset(order[:depth]), order[depth], order[0]) for depth in range(1, len(order))
        )

    def candidates(self, branch: BranchPlan, bound: frozenset[str], name: str, latest: str) -> float:
        """Where the ranges of the next variable are, for all walks that have bound so much: its conditions are not
        checked yet, and its key is."""
        partition, depth = self.plan.scan.partition, len(bound)
        ordered = _fraction(branch, bound | {name}, latest) / _fraction(branch, bound, latest)
        agree = self.agreement(partition, depth + 1) / self.agreement(partition, depth)
        return self.walks(branch, bound, latest) * self.states[name] * self.share_of_span * ordered * agree

    def walks(self, branch: BranchPlan, bound: frozenset[str], latest: str) -> float:
        """How many assignments of these variables meet all that is about them: the others lie in the window before the
        latest, in one of the orders that the pattern allows."""
        construction, depth = branch.construction, len(bound)
        events = math.prod(self.states[name] for name in bound) * self.share_of_span ** (depth - 1)
        agree = self.agreement(self.plan.scan.partition, depth)
        for test in construction.equivalences:
            agree *= self.agreement((test,), max(1, sum(test.attribute(name) is not None for name in bound)))
        decided = (part for part in construction.predicates if part.variables <= bound)
        return events * agree * math.prod(map(self.selectivity, decided)) * _fraction(branch, bound, latest)

    # ---- groups and what is left ----------------------------------------------------------------

    def survival(self, branch: BranchPlan, group: GroupPlan) -> float:
        """The probability that a group does not forbid a match."""
        return 1.0 if group.group.fold != "none" else math.exp(-self.added(branch, group))

    def added(self, branch: BranchPlan, each: GroupPlan) -> float:
        """How many events, or combinations of them, could be added to a match: in its window, or between neighbours."""
        group, count = each.group, 1.0
        for name in group.variables:
            closed = {name} <= {one for one, _ in group.before} & {other for _, other in group.before}
            place = 1.0 / len(branch.branch.variables) if closed else 1.0
            count *= self.states[name] * self.share_of_span * place
            tests = [test for test in each.equivalences if test.attribute(name) is not None]
            count *= math.prod(self.agreement((test,), 2) for test in tests)
        return count * math.prod(map(self.selectivity, (*each.predicates, *each.late)))

    def selected(self, branch: BranchPlan) -> float:
        """The share of matches that selection leaves."""
        late = (part for part in branch.selection.predicates if part not in branch.construction.predicates)
        tests = self.agreement(branch.selection.equivalences, len(branch.branch.variables))
        return tests * math.prod(map(self.selectivity, late))


def latest_of(branch: BranchPlan) -> list[str]:
    """The variables that may hold the latest event."""
    behind = {earlier for earlier, _ in branch.branch.before}
    return [name for name in branch.branch.variables if name not in behind]


def _names(each: BranchPlan | GroupPlan) -> Iterator[str]:
    yield from each.branch.variables if isinstance(each, BranchPlan) else each.group.variables
    for group in each.groups:
        yield from _names(group)


def _fraction(branch: BranchPlan, bound: frozenset[str], latest: str) -> float:
    """Of the orders in which the others can come, the share that the pattern allows: 1 / d! in a chain, 1 without
    any."""
    before = frozenset(_following(branch.branch.before))
    others = bound - {latest}
    return _extensions(others, frozenset(pair for pair in before if {*pair} <= others)) / math.factorial(len(others))


def _following(before: Iterable[Before]) -> set[Before]:
    """With what follows from it."""
    known = set(before)
    while more := {(a, d) for a, b in known for c, d in known if b == c} - known:
        known |= more
    return known


@cache
def _extensions(names: frozenset[str], before: frozenset[Before]) -> int:
    """The linear extensions of a partial order: those that end with each of its last elements."""
    if len(names) < 2 or not before:
        return math.factorial(len(names))
    behind = {earlier for earlier, _ in before}
    return sum(
        _extensions(names - {name}, frozenset(pair for pair in before if name not in pair)) for name in names - behind
    )
