"""What the relations of a combination imply: how far apart events can be, and which come before which.

`a ≺ b` and `b ≺ c`, with `c.time - a.time < 5`, put b within 5 of c, too: the kernel looks for b between bounds that no
relation names. They are shortest paths, since every relation is an upper bound of a difference of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sase.runtime.pattern import Apart, At, Before, Branch, Combination, Derived, Earliest, Group, Latest

FOREVER = 1 << 100
"""More ticks than there are: where nothing bounds a difference."""


class Order:
    """The closure of relations between variables.

    `most[u, v]` is the largest that v.time - u.time can be, FOREVER if nothing says. `before` holds (u, v) if u's place
    is always before v's.
    """

    def __init__(self, variables: Iterable[str], before: Iterable[Before], apart: Iterable[Apart]) -> None:
        self.variables = tuple(variables)
        self.most = {(u, v): 0 if u == v else FOREVER for u in self.variables for v in self.variables}
        self.before = set(before)
        for u, v in self.before:
            self.most[v, u] = min(self.most[v, u], 0)
        for each in apart:
            self.most[each.earlier, each.later] = min(self.most[each.earlier, each.later], each.ticks - 1)
        for w in self.variables:
            into = [(u, self.most[u, w]) for u in self.variables if self.most[u, w] < FOREVER]
            out = [(v, self.most[w, v]) for v in self.variables if self.most[w, v] < FOREVER]
            for u, first in into:
                for v, second in out:
                    if first + second < self.most[u, v]:
                        self.most[u, v] = first + second
        self.before |= {(v, u) for (u, v), most in self.most.items() if most < 0}
        for w in self.variables:
            into_w = [u for u in self.variables if (u, w) in self.before]
            self.before |= {(u, v) for u in into_w for v in self.variables if (w, v) in self.before}

    @property
    def possible(self) -> bool:
        """Whether any events meet the relations. (Some that do not may be taken for possible: then none is found.)"""
        return not any((v, v) in self.before for v in self.variables)

    def apart(self, u: str, v: str) -> bool:
        """Whether u and v are different events in any case."""
        return (u, v) in self.before or (v, u) in self.before

    def latest(self) -> Iterator[str]:
        """The variables that may hold the latest row."""
        return (v for v in self.variables if not any((v, u) in self.before for u in self.variables))

    def with_latest(self, latest: str) -> Order:
        """The same where no row is after that of `latest`: simultaneous ones have an order, too."""
        return self.adding((), (), (Apart(latest, v, 1) for v in self.variables))

    def adding(self, variables: Iterable[str], before: Iterable[Before], apart: Iterable[Apart]) -> Order:
        known = (Apart(u, v, most + 1) for (u, v), most in self.most.items() if most < FOREVER and u != v)
        return Order((*self.variables, *variables), (*self.before, *before), (*known, *apart))

    def among(self, variables: Iterable[str]) -> Order:
        kept = tuple(v for v in self.variables if v in set(variables))
        known = (Apart(u, v, self.most[u, v] + 1) for u in kept for v in kept if u != v and self.most[u, v] < FOREVER)
        return Order(kept, ((u, v) for u, v in self.before if u in kept and v in kept), known)


def order_of(branch: Branch) -> Order:
    return Order(branch.variables, branch.before, branch.apart)


def extended(order: Order, group: Group) -> Order:
    """With the variables of a group, and its relations."""
    return order.adding(group.variables, group.before, group.apart)


@dataclass(frozen=True)
class Reach:
    """How far the events of a match, and of its groups, can lie from its latest row, in ticks.

    An event that is `back` or more before the latest row, or `ahead` or more after it, concerns no match of that row.
    None: nothing bounds it. `ahead` is 0 where no later row concerns it, however close. In a stream, an event of a
    variable is of no more use when it is `memory[variable]` or more before the watermark.
    """

    back: int | None
    ahead: int | None
    memory: Mapping[str, int | None]


def reach(pattern: Combination) -> Reach:
    """Used by the operator for chunks and streams, and by a job for its time slices."""
    back, ahead = 0, 0
    memory = dict.fromkeys(pattern.variables, 1)  # what is at the watermark has yet to be released
    for branch in pattern.branches:
        order = order_of(branch)
        if not order.possible:
            continue
        for latest in order.latest():
            for scope, variables in scopes(order.with_latest(latest), branch):
                for variable in variables:
                    back = max(back, scope.most[variable, latest] + 1)
                    memory[variable] = max(memory[variable], _age(scope, variable, branch, latest, pattern))
                    closed = any((variable, positive) in scope.before for positive in branch.variables)
                    if not closed and variable not in branch.variables:
                        ahead = max(ahead, scope.most[latest, variable] + 1)
    if pattern.select or pattern.exclusive:
        ahead = max(ahead, 1)  # matches of a moment are decided together
    return Reach(_known(back), _known(ahead), {variable: _known(ticks) for variable, ticks in memory.items()})


def scopes(order: Order, each: Branch | Group) -> Iterator[tuple[Order, tuple[str, ...]]]:
    """The variables of a branch or group, and of all groups in it, each with the order of all that is bound there."""
    yield order, each.variables
    for group in each.groups:
        scope = extended(order, group)
        if scope.possible:
            yield from scopes(scope, group)


def held(pattern: Combination) -> int | None:
    """How long after its latest event a match is due, where the matches of a moment are decided together, in the order
    of moments: when all of them are certain. None where each is due by itself."""
    together = pattern.select or pattern.exclusive or (pattern.deferred and pattern.once)
    return max(map(_wait, pattern.branches)) if together else None


def _wait(branch: Branch) -> int:
    """How long after its instant's event a match is due: the watermark passes an event, and reaches a derived time."""
    match branch.instant:
        case Latest() | At():
            return 1
        case Earliest(ticks) | Derived(_, ticks):
            return ticks


def clocks(pattern: Combination) -> Iterator[tuple[tuple[str, ...], int]]:
    """Matches are due so many ticks after an event of one of these variables, at no other time."""
    hold = held(pattern)
    for branch in pattern.branches:
        latest = tuple(order_of(branch).latest())
        if hold is not None:
            yield latest, hold
            continue
        match branch.instant:
            case Latest():
                yield latest, _wait(branch)
            case Earliest():
                yield branch.variables, _wait(branch)
            case At(variable) | Derived(variable):
                yield (variable,), _wait(branch)


def _age(scope: Order, variable: str, branch: Branch, latest: str, pattern: Combination) -> int:
    """How old an event of `variable` may be, in a match that is not due yet: `due - event.time` is at most that."""
    most, hold = scope.most, held(pattern)
    if hold is not None:
        return most[variable, latest] + hold
    match branch.instant:
        case Latest():
            return most[variable, latest] + 1
        case Earliest(ticks):
            return min(most[variable, positive] for positive in branch.variables) + ticks
        case At(instant):
            return most[variable, instant] + 1
        case Derived(instant, ticks):
            return most[variable, instant] + ticks


def _known(ticks: int) -> int | None:
    return ticks if ticks < FOREVER >> 1 else None
