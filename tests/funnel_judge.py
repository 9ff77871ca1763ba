"""What a funnel means, by the letter: every chain of events is tried.

The level of a key is the largest k for which `SEQ(p1, …, pk) WITHIN T` has a match; negated components between two of
these steps count. Of the matches of that k, the one is reported that ends first; of these, the one that starts last;
and of these, from the end backwards, the one whose events come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple


class Event(NamedTuple):
    place: Any
    """(time, tie-breaker): before is <."""
    time: int
    fills: frozenset[str]


def furthest(
    events: Sequence[Event], steps: Sequence[str], within: int | None, between: Sequence[tuple[str, str]] = ()
) -> tuple[int, ...]:
    """The events of one key that are reported, as numbers; none if its level is 0.

    `between` has pairs (negated, step): such an event may not lie between that step and the next.
    """
    for level in range(len(steps), 0, -1):
        matches = [
            chain
            for chain in _chains(events, steps[:level])
            if within is None or events[chain[-1]].time - events[chain[0]].time < within
            if not any(_forbidden(events, chain, steps, *pair) for pair in between)
        ]
        if matches:
            return min(matches, key=lambda chain: _rank(events, chain))
    return ()


def _chains(events: Sequence[Event], steps: Sequence[str]) -> Iterator[tuple[int, ...]]:
    if not steps:
        yield ()
        return
    for chain in _chains(events, steps[:-1]):
        for number, event in enumerate(events):
            if steps[-1] in event.fills and (not chain or events[chain[-1]].place < event.place):
                yield (*chain, number)


def _forbidden(events: Sequence[Event], chain: tuple[int, ...], steps: Sequence[str], negated: str, step: str) -> bool:
    at = steps.index(step)
    if at + 1 >= len(chain):
        return False
    after, before = events[chain[at]].place, events[chain[at + 1]].place
    return any(negated in event.fills and after < event.place < before for event in events)


def _rank(events: Sequence[Event], chain: tuple[int, ...]) -> tuple[Any, ...]:
    """Less is better. Places are numbered, so that the latest start can be asked for."""
    numbers = {place: number for number, place in enumerate(sorted({event.place for event in events}))}
    places = [numbers[events[number].place] for number in chain]
    return (places[-1], -places[0], *reversed(places))
