"""Which events can stay where they are read: those of times of which one part of a file has all that a match may need.

A part has events of a *stretch* of time. Where no other part has any, time is its *zone*. The matches that end in a
zone, so far from its ends that neither they nor what forbids them reaches out of it, are found there. The rest of the
time is that of the *borders*, whose events have to be brought together by key. So who reports a match depends on the
time of its last event alone, and each match has one owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter

FOREVER = 1 << 63
"""Ticks that no event has: less this, before all times; and behind them."""


@dataclass(frozen=True)
class Stretch:
    """What a part of a file has: so many events, from `first` to `last`, both included."""

    first: int
    last: int
    events: int


@dataclass(frozen=True)
class Zone:
    """Times from `start` on, up to the start of the next one, of a part by its number; of None, if several parts have
    events there. `owns` says that matches which end there are found in the part; else it has but events for others."""

    start: int
    part: int | None
    owns: bool


Times = tuple[int, int]
"""From the first up to the second, which is not included."""


@dataclass(frozen=True)
class Layout:
    zones: tuple[Zone, ...]
    borders: tuple[Times, ...]
    """When matches end that are found in no part."""
    near: tuple[Times, ...]
    """When events are that these matches may need: the borders, and what is in reach of them."""
    share: float
    """Of all events, about how many are near."""


def layout(stretches: Sequence[Stretch], back: int, ahead: int) -> Layout:
    """`back` and `ahead` say how far a match, and what could be added to it, lies from its last event, exclusively."""
    before, behind = max(0, back - 1), max(0, ahead - 1)
    zones: list[Zone] = []
    for (start, part), (end, _) in pairwise([*_parts(stretches), (FOREVER, None)]):
        own_start = start if start == -FOREVER else start + before
        own_end = end if end == FOREVER else end - behind
        if part is None or own_start >= own_end:
            zones.append(Zone(start, part, False))
            continue
        pieces = ((start, own_start, False), (own_start, own_end, True), (own_end, end, False))
        zones += [Zone(first, part, owns) for first, until, owns in pieces if first < until]
    ends = [*(zone.start for zone in zones[1:]), FOREVER]
    borders = _merged([(zone.start, end) for zone, end in zip(zones, ends, strict=True) if not zone.owns])
    near = _merged([(start - before, end + behind) for start, end in borders])
    return Layout(tuple(zones), borders, near, _share(stretches, near))


def _parts(stretches: Sequence[Stretch]) -> list[tuple[int, int | None]]:
    """From when on one part has all events; None where several have some. All of time is of a part: where there are no
    events, of that with the events before."""
    changes = [(each.first, True, part) for part, each in enumerate(stretches)]
    changes += [(each.last + 1, False, part) for part, each in enumerate(stretches)]
    there: set[int] = set()
    found: list[tuple[int, int | None]] = []
    for time, several in groupby(sorted(changes), key=itemgetter(0)):
        for _, begins, part in several:
            there = there | {part} if begins else there - {part}
        owner = next(iter(there)) if len(there) == 1 else None
        if there and (not found or found[-1][1] != owner):
            found.append((time if found else -FOREVER, owner))
    return found


def _merged(times: Iterable[Times]) -> tuple[Times, ...]:
    """As few as possible, in order."""
    merged: list[Times] = []
    for start, end in sorted(times):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _share(stretches: Sequence[Stretch], near: Sequence[Times]) -> float:
    """As if the events of a stretch had equal distances."""
    found = 0.0
    for each in stretches:
        common = sum(max(0, min(end, each.last + 1) - max(start, each.first)) for start, end in near)
        found += each.events * common / (each.last + 1 - each.first)
    return found / max(1, sum(each.events for each in stretches))
