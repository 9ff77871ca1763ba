"""When the events of a stream make matches due, and until when they are of use.

A match is *due* at the watermark at which nothing to come can change it. Its due time is that of one of its events,
plus some ticks: so events say when there is something to do. All times and watermarks are in ticks.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sase.runtime.kernels.relations import clocks, reach
from sase.runtime.kernels.sequences import Ints
from sase.runtime.pattern import USED, Combination, Negated, Outside, Pattern

COPY = 1 << 62
"""The state bit of an event that is in this bucket for an `Outside` component's sake only."""

TIMELY = -1 << 63
"""The state bit of an event that is a result of another query. It comes when it is certain, which is just behind the
watermark, and yet it is not late: nothing was decided without it."""

FOREVER = 1 << 62

Marks = NDArray[np.bool]


class Horizon(Protocol):
    def due(self, time: Ints, states: Ints, since: int, watermark: int) -> Marks:
        """The events that make matches due between the watermark of the last call and this one."""

    def tried(self, states: Ints, due: Marks) -> Ints:
        """The state bits with which events go to the kernel: no match is found that was found before."""

    def remembered(self, time: Ints, states: Ints, watermark: int) -> Ints:
        """The state bits that are still of use; 0 if an event is to be forgotten."""

    def wake(self, time: Ints, states: Ints, watermark: int) -> int:
        """The watermark at which remembered events make a match due, or at which the last one is forgotten."""


def horizon(pattern: Pattern | Combination, outside: tuple[Outside, ...]) -> Horizon:
    return OfCombination(pattern) if isinstance(pattern, Combination) else OfSequence(pattern, outside)


class OfSequence:
    """A sequence is due when its last event is released or, under a trailing negation, when the watermark reaches the
    end of its window, `first.time + within`.

    Once, since the event that makes it due then loses its state bit: the last positive's bit when it is released, the
    first positive's when its window has ended.
    """

    def __init__(self, pattern: Pattern, outside: tuple[Outside, ...]) -> None:
        components: tuple[Negated | Outside, ...] = (*pattern.negated, *outside)
        within = pattern.within or 0
        self.trailing = any(component.before is None for component in components)
        leading = any(component.after is None for component in components)
        # Under a trailing negation a match waits for one window, and its leading negation looks back one more.
        self.reach = min(2 * within if self.trailing and leading else within, FOREVER)
        last = 1 << (len(pattern.positive) - 1)
        self.clock = (1, min(within, FOREVER)) if self.trailing else (last, 1)
        known = len(pattern.variables)
        negated = {component.variable: pattern.bit(component.variable) for component in pattern.negated}
        negated |= {component.variable: 1 << (known + at) for at, component in enumerate(outside)}
        self.leading = sum(negated[component.variable] for component in components if component.after is None)

    def due(self, time: Ints, states: Ints, since: int, watermark: int) -> Marks:
        bit, ticks = self.clock
        due: Marks = (states & bit != 0) & (time <= watermark - ticks)
        return due

    def tried(self, states: Ints, due: Marks) -> Ints:
        return states & ~np.where(due, 0, self.clock[0]) & ~COPY

    def remembered(self, time: Ints, states: Ints, watermark: int) -> Ints:
        bit, ticks = self.clock
        left = states & (self.leading | COPY if self.trailing else ~bit)
        states = np.where(time <= watermark - ticks, left, states)
        return np.where((states & ~COPY != 0) & (time > watermark - self.reach), states, 0)

    def wake(self, time: Ints, states: Ints, watermark: int) -> int:
        bit, ticks = self.clock
        deciding = time[states & bit != 0]
        wake = int(time.max()) + self.reach
        return min(wake, int(deciding.min()) + ticks) if len(deciding) else wake


class OfCombination:
    """A match of a combination is due once, since the kernel is told between which watermarks it must be."""

    def __init__(self, pattern: Combination) -> None:
        def bits(variables: tuple[str, ...]) -> int:
            return sum(map(pattern.bit, variables))

        memory = reach(pattern).memory
        if unbounded := sorted(variable for variable, ticks in memory.items() if ticks is None):
            raise ValueError(f"nothing says when events of {unbounded} are of no more use: a stream needs a window")
        self.clocks = [(bits(variables), min(ticks, FOREVER)) for variables, ticks in clocks(pattern)]
        self.memory = [(pattern.bit(variable), min(ticks, FOREVER)) for variable, ticks in memory.items() if ticks]

    def due(self, time: Ints, states: Ints, since: int, watermark: int) -> Marks:
        marks = np.zeros(len(time), np.bool)
        for bits, ticks in self.clocks:
            marks |= (states & bits != 0) & (time > since - ticks) & (time <= watermark - ticks)
        return marks

    def tried(self, states: Ints, due: Marks) -> Ints:
        return states

    def remembered(self, time: Ints, states: Ints, watermark: int) -> Ints:
        kept = np.zeros(len(states), np.int64)
        for bit, ticks in self.memory:
            kept |= np.where(time > watermark - ticks, states & bit, 0)
        return np.where(kept != 0, kept | (states & USED), 0)

    def wake(self, time: Ints, states: Ints, watermark: int) -> int:
        wake = max(int(time[states & bit != 0].max(initial=watermark - ticks)) + ticks for bit, ticks in self.memory)
        for bits, ticks in self.clocks:
            deciding = time[(states & bits != 0) & (time > watermark - ticks)]
            if len(deciding):
                wake = min(wake, int(deciding.min()) + ticks)
        return wake
