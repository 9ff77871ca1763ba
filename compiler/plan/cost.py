"""What a plan is expected to cost: docs/cost-model.md has the formulas and where they come from.

The estimate is made from the logical plan, whatever made the plan that way, so plans of any strategy compare.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sqlglot import exp

from sase.compiler.core.bound import BoundQuery, EquivalenceTest, Predicate, Variable
from sase.compiler.core.fields import attribute_of
from sase.compiler.core.scalars import columns
from sase.compiler.plan.logical import Negation, Plan
from sase.compiler.plan.statistics import DEFAULT_COLUMN, ColumnStatistics, Statistics, predicate_key


@dataclass(frozen=True)
class Calibration:
    """Seconds of one core: `python -m benchmarks calibrate` measures them."""

    stage: float
    """Starting a stage, with the exchange before it. A job without anti-joins has one."""
    read: float
    """Reading an event of the input, and finding out that it fills no state."""
    shuffle: float
    """Moving an event through the shuffle and the sort into the kernel, and its sequence scan,"""
    byte: float
    """for each byte of it,"""
    key: float
    """and for each column of the partition key."""
    number: float
    """Numbering an event by the attributes that Multi-PAIS filters transitions by."""
    edge: float
    """Visiting an instance in construction."""
    sequence: float
    """Handing a sequence back to Spark."""
    select: float
    """Checking a sequence in selection."""
    joined: float
    """Moving a match or a negated event to an anti-join."""
    compared: float
    """Looking at a pair of them."""


@cache
def calibration() -> Calibration:
    return Calibration(**json.loads((files("sase.compiler.plan") / "calibration.json").read_text()))


@dataclass(frozen=True)
class Cost:
    """The quantities that the model is about, and the seconds that they come to."""

    relevant: float
    """Events that may fill a state."""
    shuffled: float
    """Relevant events with their copies in other time slices."""
    bytes: float
    instances: tuple[float, ...]
    """Instances that are pushed on each stack over the whole stream."""
    edges: float
    """Instances that construction visits."""
    sequences: float
    """Sequences that leave the kernel."""
    matches: float
    joined: float
    """Matches and copies of negated events that meet in anti-joins."""
    hottest: float
    """The share of the kernel's work that one core has to do, at best."""
    seconds: float


def cost(plan: Plan, statistics: Statistics, constants: Calibration | None = None) -> Cost:
    return _Estimate(plan, statistics, constants or calibration()).cost()


class _Estimate:
    """The paper's symbols: L components, W the window, V the values of an attribute; λ·W is `reach` here."""

    def __init__(self, plan: Plan, statistics: Statistics, constants: Calibration) -> None:
        self.plan, self.query = plan, plan.query
        self.statistics, self.constants = statistics, constants
        self.share_of_span = self._share_of_span()
        self.states = [self.filling(variable) for variable in self.query.positive]

    def cost(self) -> Cost:
        plan, constants, cores = self.plan, self.constants, max(1, self.statistics.cores)
        inside = [self.query.variable(negation.variable) for negation in plan.construction.negations]
        relevant = sum(self.states) + sum(map(self.filling, inside))
        shuffled = relevant * self.copies()
        instances = self.instances()
        visited, built = self.construction(instances)
        surviving = math.prod(map(self.survival, plan.construction.negations))
        sequences = built * surviving
        matches = sequences * self.selected()
        edges = sum(visited)
        joined, compared = 0.0, 0.0
        left = sequences if plan.negation_first else matches
        for negation in plan.negations:
            more_joined, more_compared = self.anti_join(negation, left)
            joined, compared = joined + more_joined, compared + more_compared
            left *= self.survival(negation)
            matches *= self.survival(negation)
        width = 16 + 8 * (3 + len(self.columns()))
        moved = shuffled * (constants.shuffle + constants.byte * width + constants.key * len(plan.scan.partition))
        moved += shuffled * constants.number if plan.scan.cross else 0.0
        searched = edges * constants.edge + sequences * constants.sequence
        even, uneven = self.hottest(1, cores), self.hottest(len(self.states), cores)
        late = sequences * constants.select if plan.selection.equivalences or plan.selection.predicates else 0.0
        kernel = moved * even + (searched + late) * uneven
        if not plan.needs_kernel:
            kernel = 0.0
        stages = 1 + len(plan.negations)
        seconds = constants.stage * stages + self.statistics.events * constants.read / cores + kernel
        seconds += (joined * constants.joined + compared * constants.compared) / cores
        return Cost(relevant, shuffled, shuffled * width, instances, edges, sequences, matches, joined, uneven, seconds)

    # ---- events ---------------------------------------------------------------------------------

    def filling(self, variable: Variable) -> float:
        """Events that may fill the state: those of its types that pass the simple predicates that are pushed down."""
        events = sum(self.statistics.type(name).events for name in variable.types)
        pushed = self.plan.scan.simple.get(variable.name, ())
        return float(events * math.prod(map(self.selectivity, pushed)))

    def _share_of_span(self) -> float:
        """W as a share of the whole stream: what of another stack an event can reach."""
        within, plan = self.query.within, self.plan
        if within is None or not (plan.scan.window or plan.construction.window):
            return 1.0
        return min(1.0, within.ticks / max(self.statistics.span, 1.0))

    def copies(self) -> float:
        length, within = self.plan.scan.slice, self.query.within
        return 1.0 if length is None or within is None else 1.0 + within.ticks / length

    def columns(self) -> set[str]:
        """The attributes that travel, more or less: those that the query names."""
        named = {column.name for predicate in self.query.predicates for column in columns(predicate.condition)}
        named |= {attribute_of(attribute) for test in self.query.equivalences for _, attribute in test.positive}
        if self.query.returns is None:
            return named | {name for variable in self.query.positive for name in variable.attributes}
        return named | {column.name for output in self.query.returns for column in columns(output.value)}

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

    def hottest(self, events: int, cores: int) -> float:
        """The share of work that one core is left with, where work grows with `events` that agree on the key.

        A group is never divided, and groups go to partitions by chance.
        """
        plan, statistics = self.plan, self.statistics
        slices = max(1.0, statistics.span / plan.scan.slice) if plan.scan.slice else 1.0
        if plan.strategy.parallel == "time" or not plan.scan.partition:
            biggest, groups = 1.0, 1.0
        else:
            biggest, groups = 1.0, 1.0
            for test in plan.scan.partition:
                values = self.values(test)
                agreement = values.agreement(events)
                biggest *= values.hottest**events / agreement
                groups *= max(1.0, agreement**2 / values.agreement(2 * events))
        groups, biggest = groups * slices, biggest / slices
        chance = math.sqrt(2.0 * math.log(max(cores, 1)) * (1.0 - 1.0 / cores) / (cores * groups)) if cores > 1 else 0.0
        return min(1.0, max(biggest, 1.0 / cores + chance))

    # ---- anti-joins -----------------------------------------------------------------------------

    def anti_join(self, negation: Negation, matches: float) -> tuple[float, float]:
        """Rows that are moved to the join, and pairs that share its keys and bucket."""
        negated = self.filling(self.query.variable(negation.variable))
        if self.query.within is None:
            return negated + matches, matches * self.forbidding(negation)
        window = float(self.query.within.ticks)
        bucket = float(self.plan.bucket or window)
        pairs = matches * self.forbidding(negation) * (1.0 + bucket / window)
        return negated * (1.0 + window / bucket) + matches, pairs

    # ---- values ---------------------------------------------------------------------------------

    def values(self, test: EquivalenceTest) -> ColumnStatistics:
        variable, attribute = test.positive[0]
        return self.statistics.column(self.query.variable(variable).types[0], attribute)

    def agreement(self, tests: Iterable[EquivalenceTest], events: int) -> float:
        """The probability that so many events agree on all tests, taken for independent."""
        return math.prod(self.values(test).agreement(events) for test in tests)

    def selectivity(self, predicate: Predicate) -> float:
        measured = self.statistics.predicates
        known = measured.get(predicate_key(self.query, predicate)) if measured else None
        return known if known is not None else _guess(predicate, self.query, self.statistics)


def _guess(predicate: Predicate, query: BoundQuery, statistics: Statistics) -> float:
    """The textbook's: one value of V for an equality, half for an order between two events, a third to a constant."""
    distinct = 1.0
    for column in columns(predicate.condition):
        known = statistics.type(query.variable(column.table).types[0]).columns.get(column.name)
        distinct = max(distinct, (known or (DEFAULT_COLUMN if len(predicate.variables) > 1 else CONSTANT)).distinct)
    match predicate.condition:
        case exp.EQ():
            return 1.0 / distinct
        case exp.NEQ():
            return 1.0 - 1.0 / distinct
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            return 0.5 if len(predicate.variables) > 1 else 1.0 / 3.0
    return 0.5


CONSTANT = ColumnStatistics(distinct=10.0)
"""For an attribute that is compared with a constant: constants in queries are seldom rare values."""
