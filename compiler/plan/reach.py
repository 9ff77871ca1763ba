"""How far the events of a match can lie from its latest one, and those that could be added to it; and how long after
its time a match may be certain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from sase.compiler.core.bound import Apart, Before, BoundQuery, Branch, Group
from sase.compiler.core.dataclass import dataclass

Bounds = dict[tuple[str, str], int]
"""For two variables, the most by which the time of the second exceeds that of the first."""


@dataclass(frozen=True)
class Reach:
    """In ticks, exclusively: an event at `latest - back` is out of reach, and so is one at `latest + ahead`."""

    back: int
    ahead: int


def reach(branches: Iterable[Branch]) -> Reach | None:
    """Of all branches together; None where the times of a match, or of what could be added to it, have no bound."""
    far = [each for branch in branches for each in _of_branch(branch)]
    known = [each for each in far if each is not None]
    if len(known) < len(far):
        return None
    return Reach(max(each.back for each in known), max(each.ahead for each in known))


def latest(query: BoundQuery) -> int | None:
    """How far the watermark may be behind the time of a match until the match is certain; None without a bound.

    Where runs may not overlap, one that began before decides whether there is another one inside of it: when its window
    ends, at the latest, and it did not begin after the match has ended.
    """
    if not query.runs or query.after == "to next row":
        return 0
    return query.within.ticks if query.within is not None else None


def _of_branch(branch: Branch) -> Iterator[Reach | None]:
    bounds = _bounds(branch.before, branch.apart)
    behind = {earlier for earlier, _ in branch.before}
    for latest in (name for name in branch.variables if name not in behind):
        known = bounds | {(latest, name): min(0, bounds.get((latest, name), 0)) for name in branch.variables}
        yield _reach(branch.variables, (), known, latest)
        for group in branch.groups:
            yield from _of_group(group, branch.variables, known, latest)


def _of_group(group: Group, around: tuple[str, ...], bounds: Bounds, latest: str) -> Iterator[Reach | None]:
    known = dict(bounds)
    for pair, ticks in _bounds(group.before, group.apart).items():
        known[pair] = min(ticks, known.get(pair, ticks))
    yield _reach(around, group.variables, known, latest)
    for inner in group.groups:
        yield from _of_group(inner, around + group.variables, known, latest)


def _bounds(before: Iterable[Before], apart: Iterable[Apart]) -> Bounds:
    """Before is not after; and less than so many ticks later is at most one less, as ticks are whole."""
    bounds: Bounds = {(later, earlier): 0 for earlier, later in before}
    for each in apart:
        pair, most = (each.earlier, each.later), each.ticks - 1
        bounds[pair] = min(most, bounds.get(pair, most))
    return bounds


def _reach(around: tuple[str, ...], own: tuple[str, ...], bounds: Bounds, latest: str) -> Reach | None:
    """Bounds follow from bounds, along shortest paths."""
    names, most = around + own, dict(bounds)
    for through, start, end in product(names, names, names):
        if (start, through) in most and (through, end) in most:
            way = most[start, through] + most[through, end]
            most[start, end] = min(way, most.get((start, end), way))
    others = [name for name in names if name != latest]
    if any((name, latest) not in most or (latest, name) not in most for name in others):
        return None
    back = max((most[name, latest] for name in others), default=0)
    ahead = max((most[latest, name] for name in others), default=0)
    return Reach(max(0, back) + 1, max(0, ahead) + 1 if ahead > 0 else 0)
