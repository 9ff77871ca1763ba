"""How much worse the chosen strategy is than the best one, over the grid of domain sizes, lengths and skew.

A point is measured like a race, but a strategy that is far behind in its first run is not run again: it cannot be the
best one, and its one time says how wrong it would have been to choose it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import sase
from benchmarks.bench import Bench
from benchmarks.calibrate import known
from benchmarks.data import Stream
from benchmarks.measure import Disagreement, Result, Say, Scale
from benchmarks.peers import OverLimit, Run, Task
from benchmarks.peers.sase_job import prepare
from benchmarks.shape import Shape

V1 = (10, 50, 100, 500, 1_000, 10_000)
V2 = (5, 20, 1_000)
LENGTHS = (2, 3, 4)
SKEWS = (0, 1)
EVENTS = 2_000_000
WINDOW = 5_000
ROUNDS = 2
LIMIT = 20.0
BEHIND, CLOSE = 2.5, 1.1
"""A first run that takes the first of these times as long as the fastest first run decides. Up to the second, the
chosen strategy is as good as the fastest one."""

STRATEGIES: dict[str, dict[str, object]] = {
    "composite": {"equivalence": "composite", "parallel": "key"},
    "composite, sliced": {"equivalence": "composite", "parallel": "both"},
    "pais:attr1": {"equivalence": "pais:attr1", "parallel": "key"},
    "pais:attr2": {"equivalence": "pais:attr2", "parallel": "key"},
    "multi-pais:attr1": {"equivalence": "multi-pais:attr1", "parallel": "key"},
    "multi-pais:attr2": {"equivalence": "multi-pais:attr2", "parallel": "key"},
}
SHAPES = {length: Shape(length=length, window=WINDOW, equivalence=("attr1", "attr2")) for length in LENGTHS}


@dataclass(frozen=True)
class Point:
    v1: int
    v2: int
    length: int
    skew: int

    def stream(self, events: int) -> Stream:
        return Stream(events, v1=self.v1, v2=self.v2, skew=float(self.skew))

    def chosen(self, events: int, cores: int) -> str:
        """The name of the strategy that the cost model chooses."""
        stream = self.stream(events)
        query = sase.compile(
            SHAPES[self.length].text, sase.Catalog(types=stream.schema), statistics=known(stream, cores)
        )
        plan = query.compiled.plan
        if plan.scan.cross:
            return f"multi-pais:{plan.scan.partition[0].positive[0][1]}"
        if len(plan.scan.partition) == 1:
            return f"pais:{plan.scan.partition[0].positive[0][1]}"
        if not plan.scan.partition:
            return "selection"
        return "composite, sliced" if plan.scan.slice else "composite"


@dataclass(frozen=True)
class Regret:
    """The points of one length and skew."""

    length: int
    skew: int
    scale: Scale

    @property
    def name(self) -> str:
        return f"regret-l-{self.length}-skew-{self.skew}"

    @property
    def points(self) -> list[Point]:
        return [Point(v1, v2, self.length, self.skew) for v1, v2 in product(self.scale.grid(V1), self.scale.grid(V2))]

    def run(self, bench: Bench, say: Say) -> Result:
        points = []
        self._warm_up(bench)
        for point in self.points:
            chosen = point.chosen(self.scale.events(EVENTS), bench.cores)
            times = self._times(bench, point, chosen)
            points.append({"v1": point.v1, "v2": point.v2, "chosen": chosen, "seconds": times})
            best = min(times, key=lambda name: times[name])
            say(f"V1 = {point.v1}, V2 = {point.v2}: {chosen}, {times[chosen] / times[best]:.2f}× the best ({best})")
        return {"limit": self.scale.limit(LIMIT), "points": points, "contenders": {}}

    def _warm_up(self, bench: Bench) -> None:
        """A JVM that has just started would decide the first point."""
        point = self.points[-1]
        stream = point.stream(self.scale.events(EVENTS))
        run = prepare(bench, Task(stream, SHAPES[point.length], {}))
        for _ in range(self.scale.rounds(8)):
            run(self.scale.limit(LIMIT), count=True)

    def _times(self, bench: Bench, point: Point, chosen: str) -> dict[str, float]:
        """The best of some rounds, since what disturbs a run only ever makes it longer; the limit for what takes
        longer than that. The fastest of several equals is the luckiest one. So whoever seems to be better than the
        chosen one meets it again, once, and only those rounds count for the two."""
        limit, stream = self.scale.limit(LIMIT), point.stream(self.scale.events(EVENTS))
        runs: dict[str, Run] = {}
        first: dict[str, float] = {}
        rows: dict[str, int | None] = {}
        for name, options in STRATEGIES.items():
            task = Task(stream, SHAPES[point.length], {"statistics": known(stream, bench.cores), **options})
            runs[name] = prepare(bench, task)
            try:
                taken = runs[name](limit, count=True)
                first[name], rows[name] = taken.seconds, taken.rows
            except OverLimit:
                first[name] = limit
        if len(set(rows.values())) != 1:
            raise Disagreement(f"{point}: {rows}")
        best = min(first.values())
        close = [name for name in rows if first[name] < BEHIND * best or name == chosen]
        taken = {name: [] for name in close}  # type: dict[str, list[float]]
        for _ in range(self.scale.rounds(ROUNDS)):
            for name in close:
                taken[name].append(runs[name](limit, count=False).seconds)
        met = {chosen}
        while chosen in taken:
            fastest = min(close, key=lambda name: min(taken[name]))
            if fastest in met or min(taken[chosen]) <= CLOSE * min(taken[fastest]):
                break
            met.add(fastest)
            taken[chosen], taken[fastest] = [], []
            for _ in range(self.scale.rounds(3 * ROUNDS)):
                for name in (chosen, fastest):
                    taken[name].append(runs[name](limit, count=False).seconds)
        return first | {name: min(seconds) for name, seconds in taken.items()}


def regrets(scale: Scale) -> tuple[Regret, ...]:
    return tuple(Regret(length, skew, scale) for length in LENGTHS for skew in SKEWS)
