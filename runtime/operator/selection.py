"""Instance selection and consumption: which of the matches that a moment completes are reported.

The matches of one *terminator* are ranked: the event at the latest place of a match; of simultaneous ones, that of the
variable that stands first. `first` keeps those whose event of a variable is earliest, `last` those whose event is
latest, one variable after the other, and ties are all kept. A mode concerns the matches that bind its variable. Under
`exclusive`, a match may only use events that no match of an earlier moment has used.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sase.runtime.kernels.sequences import Events, Ints
from sase.runtime.pattern import USED, Combination

_GATHERED = 65_536
"""How many matches are gathered before they are ranked and handed on, give or take a moment."""


class Selection:
    """Of a chunk: matches in the order of their latest rows in, those that are reported out."""

    def __init__(self, pattern: Combination, events: Events) -> None:
        self.positives = len(pattern.positive)
        self.modes = [(pattern.positive.index(variable), mode) for variable, mode in pattern.select]
        self.exclusive = pattern.exclusive
        self.position = events.position
        self.used: NDArray[np.bool] = events.states & USED != 0

    def reported(self, found: Iterator[Ints]) -> Iterator[Ints]:
        """The matches of a moment are ranked together; of one that has not ended, only the best wait."""
        waiting: list[Ints] = []
        size, most = 0, _GATHERED
        for matches in found:
            waiting.append(matches.copy())
            size += len(matches)
            if size >= most:
                gathered = np.concatenate(waiting)
                moments = self._moments(gathered)
                begin = int(np.searchsorted(moments, moments[-1]))
                if begin:
                    yield from self._decided(gathered[:begin], moments[:begin])
                open_moment = self._selected(gathered[begin:])
                waiting, size = [open_moment], len(open_moment)
                most = max(_GATHERED, 2 * size)
        if waiting:
            gathered = np.concatenate(waiting)
            yield from self._decided(gathered, self._moments(gathered))

    def _moments(self, matches: Ints) -> Ints:
        moments: Ints = self.position[matches[:, : self.positives].max(axis=1)]
        return moments

    def _decided(self, matches: Ints, moments: Ints) -> Iterator[Ints]:
        if not self.exclusive:
            kept = self._selected(matches)
        else:
            parts = np.split(matches, np.flatnonzero(np.diff(moments)) + 1)
            kept = np.concatenate([self._consumed(part) for part in parts])
        if len(kept):
            yield kept

    def _consumed(self, matches: Ints) -> Ints:
        """Of the matches of one moment, those that are reported; their events are used from now on."""
        matches = self._selected(matches)
        events = matches[:, : self.positives]
        self.used[events[events >= 0]] = True
        return matches

    def _selected(self, matches: Ints) -> Ints:
        if self.exclusive:
            events = matches[:, : self.positives]
            matches = matches[~(self.used[events] & (events >= 0)).any(axis=1)]
        if not self.modes or len(matches) < 2:
            return matches
        events = matches[:, : self.positives]
        places = np.where(events >= 0, self.position[events], -1)
        kept = np.arange(len(matches))
        _, terminator = np.unique(events[kept, places.argmax(axis=1)], return_inverse=True)
        for variable, mode in self.modes:
            place, of = places[kept, variable], terminator[kept]
            bound = place >= 0
            best = np.full(len(matches), -1 if mode == "last" else np.iinfo(np.int64).max)
            (np.maximum if mode == "last" else np.minimum).at(best, of[bound], place[bound])
            kept = kept[~bound | (place == best[of])]
        return matches[kept]
