"""What a plan is expected to cost: docs/cost-model.md has the formulas and where they come from.

The estimate is made from the logical plan, whatever made the plan that way, so plans of any strategy compare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sase.compiler.core.bound import EquivalenceTest
from sase.compiler.plan.estimate import Calibration, Cost, Estimate, calibration
from sase.compiler.plan.logical import Negation, Plan
from sase.compiler.plan.statistics import Statistics
from sase.compiler.plan.walks import Walks


def cost(plan: Plan, statistics: Statistics, constants: Calibration | None = None) -> Cost:
    kind = _Runs if plan.query.runs else Walks if plan.branches else _Sequences
    return kind(plan, statistics, constants or calibration()).cost()


class _Runs(Estimate):
    """Every event is looked at, and each that may begin a run has a match at most."""

    def cost(self) -> Cost:
        constants, cores = self.constants, max(1, self.statistics.cores)
        filled = tuple(map(self.filling, self.query.variables))
        relevant = sum(filled) if self.query.strategy == "skip till next match" else self.statistics.events
        shuffled, width, moved = self.moved(relevant)
        matches = self.filling(self.query.positive[0])
        hottest = self.hottest(1, cores)
        seconds = constants.stage + self.statistics.events * constants.read / cores
        seconds += (moved + relevant * constants.edge + matches * constants.sequence) * hottest
        return Cost(relevant, shuffled, shuffled * width, filled, relevant, matches, matches, 0.0, hottest, seconds)


class _Sequences(Estimate):
    def __init__(self, plan: Plan, statistics: Statistics, constants: Calibration) -> None:
        super().__init__(plan, statistics, constants)
        self.states = [self.filling(variable) for variable in self.query.positive]

    def cost(self) -> Cost:
        plan, constants, cores = self.plan, self.constants, max(1, self.statistics.cores)
        inside = [self.query.variable(negation.variable) for negation in plan.construction.negations]
        relevant = self.filling_any([*self.query.positive, *inside])
        shuffled, width, moved = self.moved(relevant)
        instances = self.instances()
        visited, built = self.construction(instances)
        surviving = math.prod(map(self.survival, plan.construction.negations))
        sequences = built * surviving
        matches = sequences * self.selected()
        edges = sum(visited)
        joined, joining = 0.0, 0.0
        left = sequences if plan.negation_first else matches
        joins = dict.fromkeys(negation.alike for negation in plan.negations)
        for alike in joins:
            moved_there, compared = left, 0.0
            for negation in (each for each in plan.negations if each.alike == alike):
                copies, pairs = self.anti_join(negation, left)
                moved_there, compared = moved_there + copies, compared + pairs
                left *= self.survival(negation)
                matches *= self.survival(negation)
            joined += moved_there
            # Events are read again, and the bucket is one more key.
            joining += self.statistics.events * constants.read + moved_there * self.joined(len(alike) + 1)
            joining += compared * constants.compared
        searched = edges * constants.edge + sequences * constants.sequence
        even, uneven = self.hottest(1, cores), self.hottest(len(self.states), cores)
        late = sequences * constants.select if plan.selection.equivalences or plan.selection.predicates else 0.0
        kernel = moved * even + (searched + late) * uneven
        if not plan.needs_kernel:
            kernel = 0.0
        seconds = (
            constants.stage + constants.join * len(joins) + self.statistics.events * constants.read / cores + kernel
        )
        seconds += joining / cores
        return Cost(relevant, shuffled, shuffled * width, instances, edges, sequences, matches, joined, uneven, seconds)

    # ---- the kernel -----------------------------------------------------------------------------

    def instances(self) -> tuple[float, ...]:
        """Events that are pushed. Multi-PAIS pushes only what finds a partner on the previous stack."""
        pushed = [self.states[0]]
        agreement = self.agreement(self.plan.scan.partition, 2) * self.agreement(self.plan.scan.cross, 2)
        for events in self.states[1:]:
            partners = pushed[-1] * self.share_of_span * agreement
            pushed.append(events * (1.0 - math.exp(-partners)) if self.plan.scan.cross else events)
        return tuple(pushed)

    def construction(self, instances: tuple[float, ...]) -> tuple[list[float], float]:
        """Instances visited at each depth, from the last state backwards, and sequences that get through.

        The d events before a last event lie in its window in one of d! orders.
        """
        plan = self.plan
        if plan.scan.cross:
            # Whatever belongs to a match is pushed; the rest is pushed by chance.
            agreeing, chance = self._walks(self.states, plan.scan.cross), self._walks(instances, ())
            return [sum(both) for both in zip(agreeing[0], chance[0], strict=True)], agreeing[1] + chance[1]
        return self._walks(instances, ())

    def _walks(self, instances: Sequence[float], cross: tuple[EquivalenceTest, ...]) -> tuple[list[float], float]:
        plan, positive, partition = self.plan, self.query.positive, self.plan.scan.partition + cross
        walks, visited = instances[-1], list[float]()
        everything = self.statistics.events
        bound = {self.query.last.name}
        for depth in range(1, len(positive)):
            at = len(positive) - 1 - depth
            reach = instances[at] * self.share_of_span / depth
            step = self.agreement(partition, depth + 1) / self.agreement(partition, depth)
            candidates = walks * reach * step
            visited.append(walks * everything * self.share_of_span * step if plan.construction.basic else candidates)
            filtered = self.agreement(plan.construction.equivalences, depth + 1)
            filtered /= self.agreement(plan.construction.equivalences, depth)
            newly = bound | {positive[at].name}
            decided = [p for p in plan.construction.predicates if p.variables <= newly and not p.variables <= bound]
            walks = candidates * filtered * math.prod(map(self.selectivity, decided))
            bound = newly
        return visited, walks

    def selected(self) -> float:
        """The share of sequences that selection and a window after it leave."""
        plan, length = self.plan, len(self.query.positive)
        if plan.scan.cross:
            _, agreeing = self._walks(self.states, plan.scan.cross)
            _, built = self.construction(self.instances())
            return agreeing / built if built else 1.0
        share = self.agreement(plan.selection.equivalences, length)
        late = (part for part in plan.selection.predicates if part not in plan.construction.predicates)
        share *= math.prod(map(self.selectivity, late))
        if plan.window and self.share_of_span == 1.0 and self.query.within is not None:
            share *= min(1.0, self.query.within.ticks / max(self.statistics.span, 1.0)) ** (length - 1)
        return float(share)

    def survival(self, negation: Negation) -> float:
        """The probability that no event of a negated component lies in its interval, an L-th of the window."""
        return math.exp(-self.forbidding(negation) / len(self.query.positive))

    def forbidding(self, negation: Negation) -> float:
        """Negated events in a window that meet the conditions."""
        events = self.filling(self.query.variable(negation.variable)) * self.share_of_span
        events *= math.prod(self.agreement((test,), 2) for test in negation.equivalences)
        return float(events * math.prod(map(self.selectivity, negation.predicates)))

    # ---- anti-joins -----------------------------------------------------------------------------

    def anti_join(self, negation: Negation, matches: float) -> tuple[float, float]:
        """Negated events that are moved to the join, and pairs that share its keys and bucket."""
        negated = self.filling(self.query.variable(negation.variable))
        if self.query.within is None:
            return negated, matches * self.forbidding(negation)
        window = float(self.query.within.ticks)
        bucket = float(self.plan.bucket or window)
        pairs = matches * self.forbidding(negation) * (1.0 + bucket / window)
        return negated * (1.0 + window / bucket), pairs
