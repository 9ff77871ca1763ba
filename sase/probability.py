"""A probabilistic state: what is known of some variables, as a joint probability mass function that events change.

Events apply in strict order, `p'(s') ∝ L(s') · Σ_s M(s → s') · p(s)`: a move M says who may change from where to where,
evidence L how likely it is in each state. Probabilities that are given as integers and fractions stay exact.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

Event: TypeAlias = Mapping[str, Any]
Number: TypeAlias = Fraction | float
Values: TypeAlias = Mapping[str, Hashable]
"""A state of the world: each variable with its value."""
Question: TypeAlias = str | Callable[[Values], Any]
"""A variable, or what a state of the world answers."""


class StateError(ValueError):
    """A state that is none, or events that say nothing about it."""


@dataclass(frozen=True)
class Move:
    """Somebody has moved from one value to another: each variable of `who` that is there is equally likely.

    States with nobody there drop out. `who` is every variable unless it is said.
    """

    origin: Hashable
    target: Hashable
    who: Sequence[str] | None = None


@dataclass(frozen=True)
class Evidence:
    """How likely what was seen is, for each answer to a question."""

    of: Question
    likelihood: Mapping[Any, Number]


Change: TypeAlias = Move | Evidence


@dataclass(frozen=True)
class State:
    """A joint probability mass function. `mass` has the values of all variables, in order, that are possible."""

    variables: tuple[str, ...]
    mass: Mapping[tuple[Hashable, ...], Number]

    def __getitem__(self, values: tuple[Hashable, ...]) -> Number:
        return self.mass.get(values, Fraction(0))

    def expect(self, question: Question) -> Number:
        """The expectation of a number."""
        return sum((self._answer(question, values) * mass for values, mass in self.mass.items()), Fraction(0))

    def distribution(self, question: Question) -> dict[Any, Number]:
        """Each possible answer with its probability: the marginal, where the question is a variable."""
        found: dict[Any, Number] = {}
        for values, mass in self.mass.items():
            answer = self._answer(question, values)
            found[answer] = found.get(answer, Fraction(0)) + mass
        return found

    def probability(self, question: Callable[[Values], bool]) -> Number:
        """That the answer is yes."""
        return sum((mass for values, mass in self.mass.items() if self._answer(question, values)), Fraction(0))

    def after(self, change: Change) -> State:
        weighed: dict[tuple[Hashable, ...], Number] = {}
        for values, mass in self.mass.items():
            for reached, weight in self._outcomes(values, change):
                weighed[reached] = weighed.get(reached, Fraction(0)) + mass * weight
        total = sum(weighed.values(), Fraction(0))
        if not total:
            raise StateError("it is impossible in every state that is left")
        return State(self.variables, {values: mass / total for values, mass in weighed.items() if mass})

    def _outcomes(self, values: tuple[Hashable, ...], change: Change) -> Iterable[tuple[tuple[Hashable, ...], Number]]:
        match change:
            case Move(origin, target, who):
                places = [self.variables.index(name) for name in who or self.variables]
                there = [place for place in places if values[place] == origin]
                for place in there:
                    yield (*values[:place], target, *values[place + 1 :]), Fraction(1, len(there))
            case Evidence(of, likelihood):
                answer = self._answer(of, values)
                if answer not in likelihood:
                    raise StateError(f"there is no likelihood for {answer!r}")
                yield values, _number(likelihood[answer])

    def _answer(self, question: Question, values: tuple[Hashable, ...]) -> Any:
        if isinstance(question, str):
            return values[self.variables.index(question)]
        return question(dict(zip(self.variables, values, strict=True)))


@dataclass(frozen=True)
class Filter:
    """A state that events keep up to date.

    `variables` declares each variable with the values that it may have, and `prior` is where it all begins. `events`
    has what an event of a type changes, or a function of the event that tells it; other types do not concern it.
    """

    variables: Mapping[str, Sequence[Hashable]]
    prior: Mapping[tuple[Hashable, ...], Number]
    events: Mapping[str, Change | Callable[[Event], Change]]
    time: str = "ts"
    type: str = "type"
    order: str | None = None
    start: State = field(init=False)

    def __post_init__(self) -> None:
        mass = {values: _number(each) for values, each in self.prior.items() if each}
        for values in mass:
            if len(values) != len(self.variables):
                raise StateError(f"{values} is no state of {', '.join(self.variables)}")
            for name, value in zip(self.variables, values, strict=True):
                self._check(name, value)
        if min(mass.values(), default=0) < 0 or abs(float(sum(mass.values())) - 1) > 1e-9:
            raise StateError("the prior is no distribution: its probabilities must add up to 1")
        object.__setattr__(self, "start", State(tuple(self.variables), mass))

    def state(self, events: Iterable[Event], at: Any = None) -> State:
        """The state as of an instant, after the events before it; without one, after all of them.

        An instant is a time, with which all events of that time are simultaneous, or a time and a tie-breaker.
        """
        relevant = [event for event in events if event[self.type] in self.events]
        state = self.start
        for event in self._in_order([event for event in relevant if at is None or self._is_before(event, at)]):
            declared = self.events[event[self.type]]
            try:
                change = declared(event) if callable(declared) else declared
                self._check_change(change)
                state = state.after(change)
            except StateError as error:
                raise StateError(f"{self._named(event)}: {error}") from None
        return state

    def _is_before(self, event: Event, at: Any) -> bool:
        if self.order is not None and isinstance(at, tuple):
            return self._place(event) < at
        return bool(event[self.time] < at)

    def _in_order(self, events: list[Event]) -> list[Event]:
        """Updates do not commute, so two events of one place have no meaning."""
        ordered = sorted(events, key=self._place)
        for one, other in pairwise(ordered):
            if self._place(one) == self._place(other):
                raise StateError(
                    f"{self._named(one)} and {self._named(other)} are simultaneous, and the state depends on their "
                    f"order: a tie-breaker must tell them apart, Filter(…, order=…)"
                )
        return ordered

    def _place(self, event: Event) -> tuple[Any, ...]:
        return (event[self.time],) if self.order is None else (event[self.time], event[self.order])

    def _named(self, event: Event) -> str:
        return f"{event[self.type]} at {', '.join(map(str, self._place(event)))}"

    def _check(self, name: str, value: Hashable) -> None:
        if value not in self.variables[name]:
            raise StateError(f"{name} is never {value!r}: it is one of {', '.join(map(repr, self.variables[name]))}")

    def _check_change(self, change: Change) -> None:
        match change:
            case Move(origin, target, who):
                for name in who or self.variables:
                    if name not in self.variables:
                        raise StateError(f"there is no variable {name}")
                    self._check(name, origin)
                    self._check(name, target)
            case Evidence(of, _) if isinstance(of, str) and of not in self.variables:
                raise StateError(f"there is no variable {of}")
            case Evidence(_, likelihood) if any(each < 0 for each in likelihood.values()):
                raise StateError("a likelihood is not negative")


def _number(value: Number) -> Number:
    return Fraction(value) if isinstance(value, int) else value
