"""Which row groups of files each task reads.

Where these are mostly in the order of time, it is a span of time, and what its matches reach into. A span owns the
matches whose last event lies in it. Its task reads whatever row groups have times of it, or near it, of whichever file:
some of them are read twice, by the tasks on either side of a cut. So no event has to go to another task.

Where they are in no such order, each is read once, and its events go by key.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise

from sase.runtime.operator.reading import RowGroup, Span
from sase.runtime.zones import FOREVER

A_SPAN = 2_500_000
"""Events for which a task is worth its while: what they take to be sorted is far from what a worker may have."""
AGAIN = 0.25
"""Of all events, how many more may be read than there are: what is read again is not sorted again."""


def spans(groups: Sequence[RowGroup], back: int, ahead: int, cores: int) -> list[Span] | None:
    """All of time, in spans of about as many events each. None where more than a quarter of the events would be read
    again.

    `back` and `ahead` say how far a match, and what could be added to it, lies from its last event, exclusively.
    """
    ordered = sorted(groups, key=lambda group: (group.first, group.last))
    before = [0, *accumulate(group.events for group in ordered)]
    events = before[-1]
    for count in range(tasks(events, cores), cores - 1, -cores):
        places = {bisect_left(before, events * number // count) for number in range(1, count)}
        cuts = sorted({ordered[place].first for place in places if place < len(ordered)} - {ordered[0].first})
        found = [_span(ordered, start, end, back, ahead) for start, end in pairwise([-FOREVER, *cuts, FOREVER])]
        sizes = [sum(group.events for group in span.groups) for span in found]
        busy = max(sizes) * cores <= (1 + 2 * AGAIN) * events  # else one core works while others are done
        if busy and sum(sizes) <= (1 + AGAIN) * events:
            return found
    return None


def shares(groups: Sequence[RowGroup], cores: int) -> list[Span] | None:
    """All of the row groups, each once and at all of its times, in shares of about as many events: for events that go
    by key. None where a core would have nothing to do."""
    before = [0, *accumulate(group.events for group in groups)]
    events = before[-1]
    count = tasks(events, cores)
    cuts = sorted({bisect_left(before, events * number // count) for number in range(count + 1)})
    found = [Span(-FOREVER, FOREVER, -FOREVER, FOREVER, tuple(groups[start:end])) for start, end in pairwise(cuts)]
    return found if len(found) >= cores else None


def tasks(events: int, cores: int) -> int:
    """As many as pay, and as keep the cores busy."""
    return cores * max(1, -(-events // (A_SPAN * cores)))


def _span(groups: Sequence[RowGroup], start: int, end: int, back: int, ahead: int) -> Span:
    since, until = start - max(0, back - 1), end + max(0, ahead - 1)
    reached = tuple(group for group in groups if group.last >= since and group.first < until)
    return Span(start, end, since, until, reached)
