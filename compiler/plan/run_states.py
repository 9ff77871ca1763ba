"""The states of a run, as positions of a row pattern.

A run takes at each event the first way on that the event allows: the component furthest on, then the next ones, then
the loop at hand. So every position says which ways were preferred to it, and an event fits exactly one of them. Under
skip till next match, an event that fits none is passed over, by a position of its own; one that a negated component
forbids is passed over into a state from which there are fewer ways on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import combinations
from typing import Literal

from sase.compiler.core.dataclass import dataclass
from sase.compiler.plan.automaton import ACCEPT, POSITIONS, Automaton


@dataclass(frozen=True)
class Step:
    """A component: how many events it takes."""

    name: str
    least: int
    most: int | None
    closes: bool = False
    """Something is only known of all of its events, and must hold when the run is over."""


@dataclass(frozen=True)
class Take:
    """An event for a component, taken after one of component `after` (-1 at the beginning)."""

    after: int
    step: int


@dataclass(frozen=True)
class Forbid:
    """An event that may not lie between component `after` and the next."""

    after: int


Guard = Take | Forbid


@dataclass(frozen=True)
class Symbol:
    """What an event must be to fit a position: all of `fits`, and none of `unfit`.

    `closing` is about what must hold when the run is over: that it does, or that it does not yet."""

    fits: tuple[Guard, ...]
    unfit: tuple[Guard, ...]
    closing: Literal["holds", "fails"] | None = None

    @property
    def step(self) -> int | None:
        """The component that takes the event."""
        taken = [guard.step for guard in self.fits if isinstance(guard, Take)]
        return taken[0] if taken else None


@dataclass(frozen=True)
class _State:
    step: int
    count: int
    spoiled: frozenset[int] = frozenset()
    """Behind which components an event was seen that may not be there."""


_Place = tuple[Symbol, _State | None]
"""A position: what it takes, and the state behind it, None where the run is over."""


class TooManyPositions(Exception):
    pass


@dataclass
class RunStates:
    steps: Sequence[Step]
    forbidden: frozenset[int]
    """The components behind which a negated one stands."""
    skips: bool
    """An event that fits nothing is passed over."""
    same: Callable[[Symbol], Symbol]
    """The first of the symbols that ask for the same."""
    stuck: bool
    """Runs that get stuck are wanted, so a state from which there is no way on is one to wait in."""
    places: list[_Place] = field(default_factory=list)

    def automaton(self, names: dict[Symbol, str]) -> Automaton:
        """`names` is filled with a name for each symbol."""
        start = self._targets(_State(-1, 0))
        follow: list[tuple[int, ...]] = []
        while len(follow) < len(self.places):
            _, behind = self.places[len(follow)]
            follow.append((ACCEPT,) if behind is None else self._targets(behind))
        for symbol, _ in self.places:
            if symbol not in names:
                names[symbol] = self._name(symbol, set(names.values()))
        ends = tuple(at for at, (_, behind) in enumerate(self.places) if behind is None)
        symbols = tuple(names[symbol] for symbol, _ in self.places)
        return Automaton(symbols, start, start, tuple(follow), ends, ())

    def _name(self, symbol: Symbol, taken: set[str]) -> str:
        stem = self.steps[symbol.step].name if symbol.step is not None else "spoiled" if symbol.fits else "skipped"
        name, number = stem, 1
        while name in taken or (symbol.step is None and any(step.name == name for step in self.steps)):
            number += 1
            name = f"{stem}_{number}"
        return name

    def _targets(self, state: _State) -> tuple[int, ...]:
        return tuple(map(self._position, self._ways(state)))

    def _position(self, place: _Place) -> int:
        place = self.same(place[0]), place[1]
        if place not in self.places:
            if len(self.places) == POSITIONS:
                raise TooManyPositions
            self.places.append(place)
        return self.places.index(place)

    def _ways(self, state: _State) -> Iterator[_Place]:
        before: tuple[Guard, ...] = ()
        for guard, then in self._takes(state):
            symbol = Symbol((guard,), before)
            last = guard.step == len(self.steps) - 1 and then.count >= self.steps[guard.step].least
            if last and self.steps[guard.step].closes:
                yield Symbol((guard,), before, "holds"), None
                yield Symbol((guard,), before, "fails"), then
            else:
                yield symbol, None if last else then
            before = (*before, guard)
        if self.skips and state.step >= 0:
            yield from self._passed_over(state, before)

    def _takes(self, state: _State) -> Iterator[tuple[Take, _State]]:
        """The ways on, the preferred first."""
        here = state.step
        if here < 0 or state.count >= self.steps[here].least:
            onward = []
            for step in range(here + 1, len(self.steps)):
                onward.append(step)
                if self.steps[step].least > 0:
                    break
            for step in reversed(onward):
                if state.spoiled.isdisjoint(range(here, step)):
                    yield Take(here, step), _State(step, 1)
        if here >= 0:
            least, most = self.steps[here].least, self.steps[here].most
            if most is None or state.count < most:
                enough = max(least, 1) if most is None else most
                yield Take(here, here), _State(here, min(state.count + 1, enough))

    def _passed_over(self, state: _State, taken: tuple[Guard, ...]) -> Iterator[_Place]:
        furthest = max((guard.step for guard in taken if isinstance(guard, Take)), default=state.step)
        watched = [slot for slot in range(state.step, furthest) if slot in self.forbidden - state.spoiled]
        for count in range(len(watched), 0, -1):
            for seen in combinations(watched, count):
                spoiled = _State(state.step, state.count, state.spoiled | set(seen))
                if self.stuck or any(True for _ in self._takes(spoiled)):
                    others = tuple(Forbid(slot) for slot in watched if slot not in seen)
                    yield Symbol(tuple(map(Forbid, seen)), (*taken, *others)), spoiled
        yield Symbol((), (*taken, *map(Forbid, watched))), state
