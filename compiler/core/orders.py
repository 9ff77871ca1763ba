"""What follows from bounds on differences of times: which event comes before which, and how far apart they can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, permutations, product

from sase.compiler.core.dataclass import dataclass

Difference = tuple[str, str, int]
"""`later - earlier < ticks`, of two variables."""


@dataclass(frozen=True)
class Order:
    """All that follows; ticks are whole, so less than so many is at most one less."""

    names: tuple[str, ...]
    most: dict[tuple[str, str], int]
    """For two variables, the most by which the time of the second exceeds that of the first."""

    @property
    def is_possible(self) -> bool:
        return all(self.most.get((name, name), 0) >= 0 for name in self.names)

    def before(self, one: str, other: str) -> bool:
        return self.most.get((other, one), 0) < 0

    def implies(self, difference: Difference) -> bool:
        earlier, later, ticks = difference
        return (earlier, later) in self.most and self.most[earlier, later] < ticks

    @property
    def chain(self) -> tuple[str, ...] | None:
        """The variables one after the other, if any two have an order."""
        if not all(self.before(*pair) or self.before(*reversed(pair)) for pair in combinations(self.names, 2)):
            return None
        return tuple(sorted(self.names, key=lambda name: sum(self.before(other, name) for other in self.names)))

    @property
    def strict(self) -> frozenset[tuple[str, str]]:
        return frozenset(pair for pair in permutations(self.names, 2) if self.before(*pair))

    def unbounded(self) -> tuple[str, str] | None:
        """Two variables that may be any time apart."""
        return next((pair for pair in combinations(self.names, 2) if not {pair, pair[::-1]} <= self.most.keys()), None)

    def reach(self) -> int:
        """The least length of time that is longer than any difference."""
        return max((self.most[pair] for pair in permutations(self.names, 2)), default=0) + 1


def order_of(names: Sequence[str], differences: Iterable[Difference]) -> Order:
    most: dict[tuple[str, str], int] = {}
    for earlier, later, ticks in differences:
        most[earlier, later] = min(ticks - 1, most.get((earlier, later), ticks - 1))
    return Order(tuple(names), shortest(names, most))


def shortest(names: Sequence[str], lengths: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """The lengths of the shortest paths between any two."""
    paths = dict(lengths)
    for through, start, end in product(names, names, names):
        if (start, through) in paths and (through, end) in paths:
            way = paths[start, through] + paths[through, end]
            paths[start, end] = min(way, paths.get((start, end), way))
    return paths
