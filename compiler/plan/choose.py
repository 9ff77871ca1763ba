"""The cost-based rule: of the plans that a query allows, the one that is expected to take the least time.

Equivalence tests: all of them as one composite key, one of them (PAIS) with the others by dynamic filtering or by
Multi-PAIS, or none. Negation: in the stacks, or by anti-join. For each of these plans the rest is fitted: the length
of time slices, who sorts, the length of an anti-join's buckets, its place, and the number of partitions. What the user
forces is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, product

from sase.compiler.core import durations
from sase.compiler.core.bound import BoundQuery, TimeKind
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import OptionError
from sase.compiler.core.windows import LONGEST, longest
from sase.compiler.plan import rules
from sase.compiler.plan.cost import cost
from sase.compiler.plan.counting import why_enumerated
from sase.compiler.plan.estimate import Cost, calibration
from sase.compiler.plan.logical import BranchPlan, Plan, basic_plan
from sase.compiler.plan.roadmap import Partners, best, blocks, nestings, parsed, restricted, spanning, spelled
from sase.compiler.plan.rules.partition_by_equivalence import partitioning
from sase.compiler.plan.rules.slice_by_time import can_slice, slice_by_time
from sase.compiler.plan.settle import settled
from sase.compiler.plan.statistics import Statistics, default_statistics
from sase.compiler.plan.strategy import Strategy
from sase.compiler.plan.walks import Walks, latest_of

WORTHWHILE = 0.9
"""A plan with more to it must promise to take less than this share of the time of the simpler one."""

SLICES = (64, 16, 4, 2, 1)
"""Lengths of a time slice, in windows."""

MOST_BUCKETS, LEAST_BUCKETS = 8, 16
"""An anti-join's bucket is no shorter than the window over the one, and no longer than the window times the other."""

PARTITIONS_PER_CORE = 4

FEW = 4
"""A pattern of so many events has five roadmaps at most."""


@dataclass(frozen=True)
class Choice:
    plan: Plan
    cost: Cost


@dataclass(frozen=True)
class Choices:
    """`chosen` and the plans that would cost more, the cheapest first."""

    chosen: Choice
    rejected: tuple[Choice, ...]
    statistics: Statistics
    measured: bool


def choose(
    query: BoundQuery,
    strategy: Strategy,
    disable: frozenset[str] = frozenset(),
    statistics: Statistics | None = None,
    *,
    stream: bool = False,
) -> Choices:
    strategy = replace(
        strategy,
        slice=_ticks("slice", strategy.slice, query.time_kind, ("auto", "off")),
        bucket=_ticks("bucket", strategy.bucket, query.time_kind, ("auto",)),
    )
    known = statistics or default_statistics(query)
    if query.runs:
        only = basic_plan(query, strategy)
        return Choices(Choice(only, cost(only, known)), (), known, statistics is not None)
    plans = _possible(query, _strategies(query, strategy, disable, stream), disable, stream)
    choices = [each for plan in _distinct(plans) for each in _fitted_ways(plan, known, statistics, disable)]
    if query.grouped is not None:
        choices = [each for each in choices if why_enumerated(each.plan) is None] or choices
    chosen = _cheapest([each for each in choices if statistics or not _is_gamble(each, strategy)] or choices)
    _check_forced(chosen.plan)
    rejected = sorted((each for each in choices if each is not chosen), key=lambda each: each.cost.seconds)
    return Choices(chosen, tuple(rejected), known, statistics is not None)


# ---- the plans ----------------------------------------------------------------------------------


def _strategies(query: BoundQuery, strategy: Strategy, disable: frozenset[str], stream: bool) -> Iterator[Strategy]:
    """The simplest first, since it wins where costs are much the same. A stream has no anti-join to weigh: what cannot
    go into the stacks is looked up there."""
    tests = [] if "partition_by_equivalence" in disable else partitioning(query)
    _check_of_sequences(query, strategy)
    attributes = [test.positive[0][1] for test in tests]
    equivalences = [strategy.equivalence]
    if strategy.equivalence == "auto" and tests:
        ways = () if len(tests) < 2 else ("pais", "multi-pais") if query.is_sequence else ("pais",)
        equivalences = ["composite", *(f"{way}:{name}" for way in ways for name in attributes), "selection"]
    elif strategy.equivalence in ("pais", "multi-pais") and tests:
        equivalences = [f"{strategy.equivalence}:{name}" for name in attributes]
    has_choice = strategy.negation == "auto" and query.negated and query.is_sequence and not stream
    negations = ["auto", "anti-join"] if has_choice else [strategy.negation]
    for equivalence, negation in product(equivalences, negations):
        yield replace(strategy, equivalence=equivalence, negation=negation)


def _possible(query: BoundQuery, strategies: Iterable[Strategy], disable: frozenset[str], stream: bool) -> list[Plan]:
    """Without the plans that cannot do what the user forces; an error if none can."""
    plans, refused = [], []
    for strategy in strategies:
        try:
            plans.append(settled(rules.optimise(basic_plan(query, strategy), disable), stream))
        except OptionError as error:
            refused.append(error)
    if not plans:
        raise refused[0]
    return plans


def _distinct(plans: Iterable[Plan]) -> list[Plan]:
    """Strategies that come to one plan are one: PAIS with a single test is the composite key."""
    found: list[Plan] = []
    for plan in plans:
        if not any(replace(plan, strategy=known.strategy) == known for known in found):
            found.append(plan)
    return found


def _is_gamble(choice: Choice, strategy: Strategy) -> bool:
    """No test pushed down: the paper's runs of such plans did not end. That takes more than assumptions to choose."""
    return choice.plan.strategy.equivalence == "selection" != strategy.equivalence


def _cheapest(choices: Iterable[Choice]) -> Choice:
    best, *others = choices
    for other in others:
        if other.cost.seconds < WORTHWHILE * best.cost.seconds:
            best = other
    return best


# ---- fitting one plan ---------------------------------------------------------------------------


def _fitted_ways(
    plan: Plan, statistics: Statistics, measured: Statistics | None, disable: frozenset[str]
) -> Iterator[Choice]:
    """One, or, for a plan whose events can be bound along several roadmaps, one for each: the cheapest order first,
    under the name of a roadmap that comes to it, if there is one."""
    fitted = _fitted(plan, statistics, measured, disable)
    if not plan.branches:
        yield fitted
        return
    ways: dict[tuple[BranchPlan, ...], Choice] = {}
    for way in [plan.strategy.roadmap, *_roadmaps(plan, statistics)]:
        choice = _along(fitted.plan, way, statistics)
        known = ways.get(choice.plan.branches)
        if known is None or known.plan.strategy.roadmap == "auto":
            ways[choice.plan.branches] = choice
    yield from ways.values()


def _along(plan: Plan, roadmap: str, statistics: Statistics) -> Choice:
    """The plan with the events of each branch bound along a roadmap, or in the cheapest order of all. Where nothing but
    the window ties them together, the runtime may choose.

    A roadmap that is asked for says in which blocks events without a partner are left out first, which is what the
    seed counts as its searches; what is left is bound in the cheapest order, whatever the roadmap. Else they are left
    out in all blocks: that takes one more sort for each, and saves walks."""
    asked = plan.strategy.roadmap != "auto"
    walks, names = Walks(plan, statistics, calibration()), plan.query.bound
    given = None if roadmap == "auto" else parsed(roadmap, names)

    def ordered(branch: BranchPlan) -> BranchPlan:
        names = branch.branch.variables
        if given is None and not (len(names) > 2 and walks.comparisons(branch)):
            return branch
        if given is None and branch.branch.is_chain:
            backwards = walks.visited(branch, names[::-1])
            if walks.visited(branch, walks.order(branch, names[-1])) > WORTHWHILE * backwards:
                return branch
        road = None if given is None else restricted(given, names)
        orders = [
            walks.order(branch, latest) if road is None or asked else walks.along(road, branch, latest)
            for latest in latest_of(branch)
        ]
        inside = tuple(blocks(road)) if asked and road is not None else None
        return replace(branch, order=tuple(orders), blocks=inside)

    plan = replace(plan, strategy=replace(plan.strategy, roadmap=roadmap)).with_branches(ordered)
    return Choice(plan, cost(plan, statistics))


def _roadmaps(plan: Plan, statistics: Statistics) -> Iterator[str]:
    """Of a pattern of one branch: all of few, else the one that promises the fewest searches."""
    if plan.strategy.roadmap != "auto" or len(plan.branches) != 1:
        return
    walks, names = Walks(plan, statistics, calibration()), plan.branches[0].branch.variables
    compared = walks.comparisons(plan.branches[0])
    if len(names) < 3 or not compared:
        return
    shares = {edge: compared.get(edge, 1.0) for edge in combinations(names, 2)}
    tree = spanning(names, shares)
    if len(names) <= FEW:
        yield from map(spelled, nestings(names, tree))
    else:
        partners = Partners(walks.states, {edge: shares[edge] * walks.share_of_span for edge in tree})
        yield spelled(best(names, tree, partners))


def _fitted(plan: Plan, statistics: Statistics, measured: Statistics | None, disable: frozenset[str]) -> Choice:
    def best(plans: Iterable[Plan]) -> Plan:
        return _cheapest(Choice(each, cost(each, statistics)) for each in plans).plan

    if "slice_by_time" not in disable:
        plan = best(_sliced(plan, measured is not None))
    plan = best(_sorted(plan))
    if plan.negations:
        plan = best(_placed(plan))
        plan = _bucketed(plan, statistics)
    plan = _partitioned(plan, measured)
    return Choice(plan, cost(plan, statistics))


def _sliced(plan: Plan, measured: bool) -> Iterator[Plan]:
    """On assumptions alone, nothing is left to one core that could be cut."""
    strategy, within = plan.strategy, plan.query.within
    if strategy.slice != "auto" or within is None or not can_slice(plan):
        yield plan
        return
    if strategy.parallel in ("files", "key") or (strategy.parallel == "auto" and (plan.scan.partition or measured)):
        yield plan
    if strategy.parallel not in ("files", "key"):
        for windows in (each for each in SLICES if each * within.ticks <= LONGEST[plan.query.time_kind]):
            yield slice_by_time(replace(plan, strategy=replace(strategy, slice=windows * within.ticks)))


def _sorted(plan: Plan) -> Iterator[Plan]:
    """By time alone, Spark has a radix sort of its own, and there is nothing to gain."""
    ways = ("worker", "spark") if plan.scan.partition or plan.scan.slice else ("spark",)
    for way in ways if plan.strategy.sort == "auto" else (plan.strategy.sort,):
        yield replace(plan, strategy=replace(plan.strategy, sort=way))


def _placed(plan: Plan) -> Iterator[Plan]:
    yield plan
    if plan.strategy.negation_place == "auto" and (plan.selection.predicates or plan.selection.equivalences):
        yield replace(plan, negation_first=True)


def _bucketed(plan: Plan, statistics: Statistics) -> Plan:
    """Short buckets copy negated events to many of them, long ones compare matches with many: the least of both."""
    if plan.query.within is None:
        return plan
    if isinstance(plan.strategy.bucket, int):
        return replace(plan, bucket=plan.strategy.bucket)
    window = plan.query.within.ticks

    def joins(bucket: int) -> float:
        found = cost(replace(plan, bucket=bucket), statistics)
        return found.seconds

    lengths = [window]
    while lengths[0] % 2 == 0 and lengths[0] * MOST_BUCKETS > window:
        lengths.insert(0, lengths[0] // 2)
    enough = statistics.span / (PARTITIONS_PER_CORE * max(1, statistics.cores))
    enough = min(enough, LONGEST[plan.query.time_kind])
    lengths += [window << power for power in range(1, int(math.log2(LEAST_BUCKETS)) + 1) if window << power <= enough]
    shortest = min(lengths, key=lambda length: (round(joins(length), 6), abs(length - window)))
    return replace(plan, bucket=shortest if joins(shortest) < WORTHWHILE * joins(window) else window)


def _partitioned(plan: Plan, statistics: Statistics | None) -> Plan:
    """Adaptive execution makes partitions by their size. Where the work is in the search and not in the size, there
    should be some per core, so that no core waits for another; for that the number of cores must be known."""
    if plan.strategy.partitions is not None or statistics is None:
        return plan
    expected, constants = cost(plan, statistics), calibration()
    search = expected.edges * constants.edge + expected.sequences * constants.sequence
    if search < 10 * expected.shuffled * constants.shuffle:
        return plan
    return replace(plan, strategy=replace(plan.strategy, partitions=PARTITIONS_PER_CORE * max(1, statistics.cores)))


# ---- what the user forces -----------------------------------------------------------------------


def _ticks(option: str, value: int | str, time_kind: TimeKind, words: tuple[str, ...]) -> int | str:
    """A length in ticks."""
    if value in words:
        return value
    parts = durations.parse(str(value)) or ()
    units = {unit.lower() if unit else "microsecond" for _, unit in parts}  # a bare number is in ticks
    bare = all(unit is None for _, unit in parts)
    if parts and (bare or time_kind == "timestamp") and units <= durations.UNITS.keys():
        length = sum(durations.microseconds(amount, unit or "microsecond") for amount, unit in parts)
    else:
        example = "8 days" if time_kind == "timestamp" else "10000"
        raise OptionError(f"{option} is {', '.join(words)} or a length such as {example}, not {value!r}")
    if length < 1 or length.denominator != 1:
        raise OptionError(f"a time {option} is at least one tick long")
    if length > LONGEST[time_kind]:
        raise OptionError(f"a time {option} is at most {longest(time_kind)} long")
    return int(length)


def _check_of_sequences(query: BoundQuery, strategy: Strategy) -> None:
    """What only a sequence has, or has not."""
    if query.is_sequence:
        if strategy.roadmap != "auto":
            raise OptionError("a roadmap is for events in any order: a sequence is built from its last event backwards")
        return
    if strategy.construction == "basic":
        raise OptionError("construction=basic goes along a sequence, and this pattern is none")
    if strategy.equivalence_kind == "multi-pais":
        raise OptionError("multi-pais filters the transitions of a sequence, and this pattern is none")
    if strategy.negation == "anti-join":
        raise OptionError("negation=anti-join is for sequences: what this pattern forbids is looked for in the kernel")


def _check_forced(plan: Plan) -> None:
    strategy = plan.strategy
    if isinstance(strategy.slice, int) and plan.scan.slice is None:
        if plan.query.consume == "exclusive":
            raise OptionError("what CONSUME EXCLUSIVE has used up is known in one place: there are no time slices")
        raise OptionError("time slices need WITHIN, and the rules window_in_scan and window_in_construction")
    if strategy.parallel in ("time", "both") and plan.scan.slice is None:
        raise OptionError(f"parallel={strategy.parallel} needs time slices, and this plan has none")
    if strategy.sort == "worker" and not (plan.scan.partition or plan.scan.slice):
        raise OptionError("sort=worker needs a partition key or time slices, and this plan has none")
    if strategy.parallel == "files" and plan.scan.stays is None:
        raise OptionError("parallel=files needs a partition key, WITHIN, and matches that need no events beyond it")
    if strategy.scan == "worker" and (plan.scan.stays is None or strategy.sort != "worker"):
        raise OptionError("scan=worker needs parallel=files and sort=worker, which this plan does not have")
    if strategy.parallel in ("key", "both") and not plan.scan.partition:
        raise OptionError(f"parallel={strategy.parallel} needs a partition key, and this plan has none")
