"""Rows of a chunk by the variables that they may fill and, where many lie in a window, by their values.

A walk looks for an event that equals a bound one in an index, and not among all events of the window. And before it
begins, events without an equal partner are left out, by a semijoin: a walk through several equalities might
find that out much later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from sase.runtime.kernels.sequences import NULL, Events, Ints

if TYPE_CHECKING:
    from sase.runtime.kernels.combinations import Program

PARTNER, PARTNER_TERM, OTHER, OTHER_TERM, BACK, AHEAD = range(6)
"""Columns of `Program.partners`: in every match, the term of an event equals that of another one, which is at most so
many ticks before it, and at most so many after it."""

CROWDED = 32
"""Candidates of a variable in a window, on average, from which on sorting them is worth its while."""

_SAMPLE = 64
_MOST = np.iinfo(np.int64).max


def crowded(program: Program, events: Events) -> bool:
    """Whether some variable with an equality has many candidates, by a sample of the rows that may be the latest."""
    if len(events.states) < CROWDED:
        return False
    latest = np.flatnonzero(events.states & program.starts)
    variables = {int(variable) for variable in (*program.indices[:, 0], *program.partners[:, PARTNER])}
    if not len(latest) or not variables:
        return False
    sample = latest[np.linspace(0, len(latest) - 1, _SAMPLE).astype(np.int64)]
    group = np.searchsorted(events.groups, sample, side="right") - 1
    for variable in variables:
        filling = np.concatenate([[0], np.cumsum(events.states >> variable & 1)])
        back, candidates = int(program.back[variable]), 0
        for row, begin in zip(sample.tolist(), events.groups[group].tolist(), strict=True):
            oldest = max(int(events.time[row]) - back, -_MOST)
            first = begin + int(np.searchsorted(events.time[begin:row], oldest))
            candidates += int(filling[row] - filling[first])
        if candidates >= CROWDED * len(sample):
            return True
    return False


def arranged(program: Program, events: Events, indices: Iterable[int]) -> tuple[Ints, Ints, Ints]:
    """`rows`, `offset` and `place` of `combinations.Walks`, with these indices."""
    rows = [np.flatnonzero(events.states & (1 << v)) for v in range(len(program.back))]
    offset = np.cumsum([0, *map(len, rows)])
    place = np.full(len(program.indices), -1)
    size = int(offset[-1])
    for index in indices:
        variable, term = program.indices[index]
        own = rows[variable]
        values = events.terms[term, own]
        group = np.searchsorted(events.groups, own, side="right")
        rows.append(own[np.lexsort((values, group))])
        place[index], size = size, size + len(own)
    return np.concatenate([np.zeros(0, np.int64), *rows]), offset, place


def reduced(program: Program, events: Events) -> Ints:
    """The state bits, without those of events that have no partner for an equality. Twice over all of them: what one
    leaves out may have been a partner for another."""
    states, size = events.states.copy(), len(events.states)
    if not len(program.partners):
        return states
    group = np.repeat(np.arange(len(events.groups) - 1), np.diff(events.groups))
    least = int(events.time.min())
    span = int(events.time.max()) - least + 1
    if (len(events.groups) + 1) * span >= _MOST:
        return states
    moment = group * span + (events.time - least)
    for edge in (*program.partners, *program.partners[::-1]):
        bit, other_bit = 1 << int(edge[PARTNER]), 1 << int(edge[OTHER])
        rows, others = np.flatnonzero(states & bit), np.flatnonzero(states & other_bit)
        own, theirs = events.terms[edge[PARTNER_TERM], rows], events.terms[edge[OTHER_TERM], others]
        _, codes = np.unique(np.concatenate([own, theirs]), return_inverse=True)
        keys = np.sort(codes[len(rows) :] * (size + 1) + others)
        back, ahead = min(int(edge[BACK]), span), min(int(edge[AHEAD]), span)
        begin, end = group[rows] * span, (group[rows] + 1) * span - 1
        first = np.searchsorted(moment, np.maximum(moment[rows] - back, begin))
        last = np.searchsorted(moment, np.minimum(moment[rows] + ahead, end), side="right")
        code = codes[: len(rows)] * (size + 1)
        alone = np.searchsorted(keys, code + first) == np.searchsorted(keys, code + last)
        states[rows[alone | (own == NULL)]] &= ~bit
    return states
