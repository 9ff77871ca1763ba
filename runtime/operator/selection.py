"""Instance selection and consumption: which of the candidates that a moment completes are reported.

The matches of one *terminator* are ranked: the event at the latest place of a match; of simultaneous ones, that of the
variable that stands first. `first` keeps those whose event of a variable is earliest, `last` those whose event is
latest, one variable after the other, and ties are all kept. A mode concerns the matches that bind its variable. Under
`exclusive`, a match may only use events that no match of an earlier moment has used. Of several branches that bind the
same events, the first one is kept (`once`), where nobody has done so before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sase.runtime.kernels.sequences import Ints
from sase.runtime.pattern import Combination

_GATHERED = 65_536
"""How many matches are gathered before they are ranked and handed on, give or take a moment."""


class Candidates(NamedTuple):
    """In the order of their latest places. An event is known by a number, and a place that is later by a larger one."""

    events: Ints  # [candidate, positive variable]; -1 where it is not bound
    places: Ints  # of these events, likewise
    branches: Ints  # [candidate]


class Selection:
    """A fold over candidates, moment by moment. `used` says of each event whether it has been used up."""

    def __init__(self, modes: Sequence[tuple[int, str]], exclusive: bool, once: bool, used: NDArray[np.bool]) -> None:
        """`modes` go by columns of the candidates."""
        self.modes, self.exclusive, self.once, self.used = modes, exclusive, once, used

    @classmethod
    def of(cls, pattern: Combination, used: NDArray[np.bool]) -> Selection:
        modes = [(pattern.positive.index(variable), mode) for variable, mode in pattern.select]
        return cls(modes, pattern.exclusive, pattern.once and pattern.deferred, used)

    def decided(self, found: Candidates, *, ended: bool) -> tuple[Ints, Ints]:
        """Which of the candidates are reported, and which have to wait for more of their moment: of the last one,
        unless it has ended, those that are the best so far."""
        moments = found.places.max(axis=1)
        begin = len(moments) if ended else int(np.searchsorted(moments, moments[-1]))
        decided = np.arange(begin)
        if self.exclusive:
            parts = np.split(decided, np.flatnonzero(np.diff(moments[:begin])) + 1)
            kept = np.concatenate([self._consumed(found, part) for part in parts])
        else:
            kept = self._best(found, decided)
        return kept, self._best(found, np.arange(begin, len(moments)))

    def of_moment(self, found: Candidates, moment: Ints) -> Ints:
        """Of some candidates of one moment, those that are reported."""
        return self._consumed(found, moment) if self.exclusive else self._best(found, moment)

    def _consumed(self, found: Candidates, moment: Ints) -> Ints:
        """Of the candidates of one moment, those that are reported; their events are used from now on."""
        kept = self._best(found, moment)
        events = found.events[kept]
        self.used[events[events >= 0]] = True
        return kept

    def _best(self, found: Candidates, kept: Ints) -> Ints:
        """Of some candidates, all of their moments, the unused ones that the modes keep."""
        if self.exclusive:
            events = found.events[kept]
            kept = kept[~(self.used[events] & (events >= 0)).any(axis=1)]
        if self.once and len(kept) > 1:
            first = kept[np.argsort(found.branches[kept], kind="stable")]
            _, at = np.unique(found.events[first], axis=0, return_index=True)
            kept = np.sort(first[at])
        if not self.modes or len(kept) < 2:
            return kept
        last = found.places[kept].argmax(axis=1)
        _, terminator = np.unique(found.events[kept, last], return_inverse=True)
        for variable, mode in self.modes:
            place = found.places[kept, variable]
            bound = place >= 0
            best = np.full(len(found.events), -1 if mode == "last" else np.iinfo(np.int64).max)
            (np.maximum if mode == "last" else np.minimum).at(best, terminator[bound], place[bound])
            chosen = ~bound | (place == best[terminator])
            kept, terminator = kept[chosen], terminator[chosen]
        return kept


def candidates(matches: Ints, positives: int, position: Ints) -> Candidates:
    """Of matches as the kernel of combinations gives them, by the rows of their chunk."""
    events = matches[:, :positives]
    return Candidates(events, np.where(events >= 0, position[events], -1), matches[:, positives])


def reported(selection: Selection, found: Iterator[Ints], positives: int, position: Ints) -> Iterator[Ints]:
    """The matches of a chunk, of which those that the kernel gives are the candidates."""
    waiting: list[Ints] = []
    size, most = 0, _GATHERED
    for matches in found:
        waiting.append(matches.copy())
        size += len(matches)
        if size >= most:
            gathered = np.concatenate(waiting)
            kept, still = selection.decided(candidates(gathered, positives, position), ended=False)
            if len(kept):
                yield gathered[kept]
            waiting, size = [gathered[still]], len(still)
            most = max(_GATHERED, 2 * size)
    if waiting:
        gathered = np.concatenate(waiting)
        kept, _ = selection.decided(candidates(gathered, positives, position), ended=True)
        if len(kept):
            yield gathered[kept]
