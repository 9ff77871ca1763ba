"""A sequence with loops as states and steps: what `products` multiplies.

A state is the place of the latest event: the first, second, … event of a component. A loop is entered with its first
event and left when it has enough of them; without an upper bound, its last place is taken again and again. Behind a
loop, a negated event spoils what could be left, until another event of the loop is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sase.runtime.kernels.products import FROM, TO, Machine
from sase.runtime.pattern import Totals

Place = tuple[int, int]
"""A component, and which of its events."""


def machine(pattern: Totals) -> Machine:
    loops = [pattern.loops.get(name, (1, 1)) for name in pattern.positive]
    copies = [max(least, 1) if most is None else most for least, most in loops]
    start: Place = (-1, 0)
    places = [start, *((at, number) for at in range(len(loops)) for number in range(1, copies[at] + 1))]

    def inside(place: Place) -> Iterator[Place]:
        """Another event of the same component."""
        at, number = place
        if at >= 0 and number < copies[at]:
            yield at, number + 1
        elif at >= 0 and loops[at][1] is None:
            yield place

    def onwards(place: Place) -> Iterator[Place]:
        """The first event of a later component; those between may be left out."""
        at, number = place
        if at < 0 or number >= loops[at][0]:
            for later in range(at + 1, len(loops)):
                yield later, 1
                if loops[later][0] > 0:
                    return

    def complete(place: Place) -> bool:
        at, number = place
        return number >= loops[at][0] and all(least == 0 for least, _ in loops[at + 1 :])

    negated: dict[int, int] = {}
    for component in pattern.negated:
        after = -1 if component.after is None else pattern.positive.index(component.after)
        negated[after] = negated.get(after, 0) | pattern.bit(component.variable)
    kept = [place for place in places if place == start or any(inside(place)) or any(onwards(place))]
    numbers = {place: number for number, place in enumerate(kept)}
    steps, ends, kills = list[list[int]](), list[list[int]](), list[list[int]]()

    def lead(source: int, targets: Iterator[Place]) -> None:
        for target in targets:
            if complete(target):
                ends.append([source, 0, target[0]])
            if target in numbers:
                steps.append([source, numbers[target], target[0]])

    size = len(numbers)
    for place, number in numbers.items():
        lead(number, inside(place))
        lead(number, onwards(place))
        at, events = place
        if at in negated and (at < 0 or events >= loops[at][0]):
            spoiled = -1
            if any(inside(place)):
                spoiled, size = size, size + 1
                lead(spoiled, inside(place))
            kills.append([number, negated[at], spoiled])
    return Machine(
        states=size,
        variables=len(pattern.positive),
        within=pattern.within or 0,
        steps=_table(sorted(steps, key=lambda step: (step[TO], step[FROM]))),
        ends=_table(ends),
        kills=_table(kills),
    )


def _table(rows: Sequence[Sequence[int]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array(rows, np.int64).reshape(-1, 3)


def read_columns(pattern: Totals) -> tuple[str, ...]:
    """The columns that are added up; ValueError where more than state bits is asked of events."""
    if not pattern.totals:
        raise ValueError("there is nothing to add up")
    if pattern.where or any(component.where for component in pattern.negated):
        raise ValueError("no comparisons between events are possible here")
    for component in pattern.negated:
        beside = [pattern.loops.get(name, (1, 1)) for name in (component.after, component.before) if name is not None]
        if component.before is None or any(least == 0 for least, _ in beside):
            raise ValueError(f"{component.variable!r} must stand before an event that is there")
    return tuple(dict.fromkeys(each.column for each in pattern.totals if each.column is not None))
