"""What is known of the events of a plan before anything is built: how many there are, and how they are spread."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from sqlglot import exp

from sase.compiler.core.bound import BoundQuery, EquivalenceTest, Predicate, Variable
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.fields import attribute_of
from sase.compiler.core.scalars import columns
from sase.compiler.plan.file_sizes import file_bytes
from sase.compiler.plan.logical import Plan
from sase.compiler.plan.statistics import DEFAULT_COLUMN, ColumnStatistics, Statistics, predicate_key, variable_of


@dataclass(frozen=True)
class Calibration:
    """Seconds of one core: `python -m benchmarks calibrate` measures them."""

    stage: float
    """Planning a job, and starting the stages that every one has."""
    join: float
    """The same for an anti-join."""
    read: float
    """Reading an event of the input, and finding out that it fills no state."""
    shuffle: float
    """Moving an event through the shuffle and a sort in the worker into the kernel, and its sequence scan,"""
    dealt: float
    """or doing so where workers have read it, and deal it out by key,"""
    byte: float
    """for each byte of it,"""
    key: float
    """and for each column of the partition key."""
    sort: float
    """What it takes longer if Spark sorts by key and time."""
    number: float
    """Numbering an event by the attributes that Multi-PAIS filters transitions by."""
    edge: float
    """Visiting an instance in construction."""
    sequence: float
    """Handing a sequence back to Spark."""
    select: float
    """Checking a sequence in selection."""
    joined: float
    """Moving a match or a negated event to an anti-join, beside its bytes and its keys."""
    compared: float
    """Looking at a pair of them."""


LARGE = 8 << 20
"""Bytes of files from which on workers read them: `SMALL` of `runtime/in_place.py`."""


_NOT_DEALT = {"BINARY", "DECIMAL"}
"""Types of keys by which only Spark deals events out (`_HASHED` of `runtime/reading.py`)."""


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


class Estimate:
    """The paper's symbols: L components, W the window, V the values of an attribute; λ·W is `reach` here."""

    def __init__(self, plan: Plan, statistics: Statistics, constants: Calibration) -> None:
        self.plan, self.query = plan, plan.query
        self.statistics, self.constants = statistics, constants
        self.share_of_span = self._share_of_span()

    # ---- events ---------------------------------------------------------------------------------

    def filling(self, variable: Variable) -> float:
        """Events that may fill the state: those of its types that pass the simple predicates that are pushed down."""
        events = sum(self.statistics.type(name).events for name in variable.types)
        pushed = self.plan.scan.simple.get(variable.name, ())
        return float(events * math.prod(map(self.selectivity, pushed)))

    def filling_any(self, variables: Iterable[Variable]) -> float:
        """Events that may fill one of the states or more. Those of two variables may be the same events: what is known
        is that there are no more than all of a type."""
        found: dict[tuple[str, ...], float] = {}
        for variable in variables:
            events = sum(self.statistics.type(name).events for name in variable.types)
            found[variable.types] = min(events, found.get(variable.types, 0.0) + self.filling(variable))
        return sum(found.values())

    def joined(self, keys: int) -> float:
        """Seconds of moving a row to a join by so many keys: it is shuffled, and sorted by them."""
        constants = self.constants
        return constants.joined + constants.byte * self.width + constants.key * keys

    def _share_of_span(self) -> float:
        """W as a share of the whole stream: what of another stack an event can reach."""
        within, plan = self.query.within, self.plan
        if within is None or not (plan.scan.window or plan.construction.window or plan.branches):
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

    @property
    def width(self) -> float:
        """Bytes of an event that travels."""
        return 16 + 8 * (3 + len(self.columns()))

    def moved(self, relevant: float) -> tuple[float, float, float]:
        """Events that are shuffled, the bytes of each, and the seconds of moving them all."""
        constants, plan = self.constants, self.plan
        shuffled, width = relevant * self.copies(), self.width
        each = constants.dealt if self.read_by_workers() else constants.shuffle
        seconds = shuffled * (each + constants.byte * width + constants.key * len(plan.scan.partition))
        seconds += shuffled * constants.number if plan.scan.cross else 0.0
        by_key = plan.scan.partition or plan.scan.slice
        seconds += shuffled * constants.sort if by_key and plan.strategy.sort == "spark" else 0.0
        return shuffled, width, seconds

    def read_by_workers(self) -> bool:
        """Whether workers read the events themselves, if they are in Parquet files at hand. These are taken to be in no
        order of time: then every event goes by key, and they leave to Spark what they cannot deal out."""
        plan, strategy = self.plan, self.plan.strategy
        if plan.scan.stays is None or plan.scan.slice or "spark" in (strategy.scan, strategy.sort):
            return False
        attributes = {name: each for variable in self.query.variables for name, each in variable.attributes.items()}
        keys = [attributes.get(attribute) for test in plan.scan.partition for _, attribute in test.positive]
        if not keys or any(key is None or key.kind.this.name in _NOT_DEALT for key in keys):
            return False
        return file_bytes(self.statistics.events, attributes.values()) >= LARGE

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
        known = statistics.type(variable_of(query, column.table).types[0]).columns.get(column.name)
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
