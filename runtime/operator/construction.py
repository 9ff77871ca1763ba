"""How the matches of a chunk are found: what the operator asks of a sequence and of a combination alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sase.runtime.kernels.combinations import Combinations
from sase.runtime.kernels.combinations import Counters as CombinationCounters
from sase.runtime.kernels.encode import Terms, encode_pattern, no_terms
from sase.runtime.kernels.furthest import furthest
from sase.runtime.kernels.program import encode_combination
from sase.runtime.kernels.relations import reach
from sase.runtime.kernels.sequences import Counters, Events, Ints, sequences
from sase.runtime.operator.selection import Candidates, Selection, candidates, reported
from sase.runtime.pattern import USED, Branch, Combination, Furthest, Pattern, Totals

Columns = Mapping[str, pa.Array | pa.ChunkedArray]

_COLLECTED = 1 << 20
"""How many collected events a batch of matches carries along, give or take one match's."""


@dataclass(frozen=True)
class Rows:
    """The events that a variable has in some matches, as row numbers of a chunk, match after match.

    Without offsets each match has exactly one, as a positive component of SEQ has, and nothing is paid for the rest.
    With them, match i has rows[offsets[i] : offsets[i + 1]]: any number if they are `collected`, else one or none. A
    match whose branch does not collect, one that is not `there`, has no array, which is not an empty one.
    """

    rows: Ints
    offsets: Ints | None = None
    collected: bool = False
    there: Ints | None = None

    def column(self, columns: Columns, names: Sequence[str]) -> pa.Array:
        """One value per match: a struct, NULL where there is no event; an array of structs, if they are collected."""
        structs = pa.StructArray.from_arrays([taken(columns[name], self.rows) for name in names], names=list(names))
        if self.offsets is None:
            return structs
        if self.collected:
            missing = None if self.there is None else pa.array(self.there == 0)
            return pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), structs, mask=missing)
        missing = self.offsets[1:] == self.offsets[:-1]
        return structs.take(pa.array(self.offsets[:-1], mask=missing))


@dataclass(frozen=True)
class Bindings:
    """What a group has collected in some matches: binding after binding, the row of each of its variables."""

    rows: Ints
    offsets: Ints
    there: Ints | None

    def column(self, columns: Columns, names: Mapping[str, Sequence[str]], name: str) -> pa.Array:
        """An array of bindings per match: a struct per variable, and under the group's own name the numbers of the
        events, by which they are known in the bindings of another group."""
        rows = np.ascontiguousarray(self.rows)
        events = [Rows(rows[at]).column(columns, wanted) for at, wanted in enumerate(names.values())]
        ends = pa.array(np.arange(rows.shape[1] + 1) * len(rows), pa.int32())
        numbers = pa.ListArray.from_arrays(ends, pa.array(rows.T.ravel()))
        structs = pa.StructArray.from_arrays([*events, numbers], names=[*names, name])
        missing = None if self.there is None else pa.array(self.there == 0)
        return pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), structs, mask=missing)


def taken(column: pa.Array | pa.ChunkedArray, rows: Ints) -> pa.Array:
    """The values at `rows`. Arrow would first combine a chunked array: take what is needed from every chunk instead."""
    if isinstance(column, pa.Array):
        return column.take(pa.array(rows))
    needed, place = np.unique(rows, return_inverse=True)
    ends = np.cumsum([len(chunk) for chunk in column.chunks])
    parts = np.split(needed, np.searchsorted(needed, ends[:-1]))
    taken = [
        chunk.take(pa.array(part - (end - len(chunk))))
        for chunk, part, end in zip(column.chunks, parts, ends, strict=True)
    ]
    return pa.concat_arrays(taken).take(pa.array(place))


@dataclass(frozen=True)
class Part:
    """Some matches: the events of each variable, and the ticks of the earliest event and of the instant, if known. The
    bindings of groups, and what the matches are as candidates, for those who have more to decide."""

    events: Mapping[str, Rows]
    started: Ints | None = None
    detected: Ints | None = None
    bindings: Mapping[str, Bindings] = field(default_factory=dict)
    candidates: Candidates | None = None


class Found(Protocol):
    """The matches of a chunk."""

    @property
    def used(self) -> NDArray[np.bool] | None:
        """Of each row, whether a match that was reported has used it up; None where nothing is."""

    def rows(self, capacity: int) -> Iterator[Ints]:
        """Matches as row numbers; an array is to be used up before the next is asked for."""

    def parts(self, rows: Ints, variables: Sequence[str]) -> Iterator[Part]:
        """The same in terms of the query."""


class Construction(Protocol):
    """A pattern that is ready for chunks.

    What lies `back` ticks or more before the latest row of a match, or `ahead` or more after it, does not concern it;
    None means that anything may. Nothing after the row itself does if `ahead` is 0.
    """

    terms: Terms
    counters: Ints
    back: int | None
    ahead: int | None

    def found(self, events: Events, jit: bool) -> Found: ...


def construction(pattern: Pattern | Combination) -> Construction:
    match pattern:
        case Totals():
            from sase.runtime.operator.totals import OfTotals

            return OfTotals(pattern)
        case Combination():
            return OfCombination(pattern)
        case Furthest():
            return OfFurthest(pattern)
        case _:
            return OfSequence(pattern)


class OfSequence:
    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        encoding = encode_pattern(pattern)
        self.terms: Terms = encoding
        self.query = encoding.query
        self.counters: Ints = np.concatenate(Counters.of(pattern))
        self.back = self.query.within if self.query.prune else None
        self.ahead: int | None = self.query.within if any(each.before is None for each in pattern.negated) else 0

    def found(self, events: Events, jit: bool) -> Found:
        return FoundSequences(self, events, jit)


class FoundSequences:
    used: NDArray[np.bool] | None = None

    def __init__(self, of: OfSequence, events: Events, jit: bool) -> None:
        self.of, self.events, self.jit = of, events, jit

    def rows(self, capacity: int) -> Iterator[Ints]:
        return sequences(self.of.query, self.events, self.of.counters, capacity, self.jit)

    def parts(self, rows: Ints, variables: Sequence[str]) -> Iterator[Part]:
        positive = self.of.pattern.positive
        yield Part({v: Rows(np.ascontiguousarray(rows[:, positive.index(v)])) for v in variables})


class OfFurthest:
    """What gets furthest is known of whole groups: nothing of one is forgotten, and none is decided before its end."""

    back: int | None = None
    ahead: int | None = None

    def __init__(self, pattern: Furthest) -> None:
        self.pattern = pattern
        self.terms: Terms = no_terms(pattern)
        self.counters: Ints = np.zeros(1, np.int64)

    def found(self, events: Events, jit: bool) -> Found:
        return FoundFurthest(self, events, jit)


class FoundFurthest:
    used: NDArray[np.bool] | None = None

    def __init__(self, of: OfFurthest, events: Events, jit: bool) -> None:
        self.of, self.events, self.jit = of, events, jit

    def rows(self, capacity: int) -> Iterator[Ints]:
        found = furthest(self.of.pattern, self.events, self.jit)
        self.of.counters += len(found)
        yield from (found[start : start + capacity] for start in range(0, len(found), capacity))

    def parts(self, rows: Ints, variables: Sequence[str]) -> Iterator[Part]:
        pattern = self.of.pattern
        columns = {v: np.ascontiguousarray(rows[:, pattern.positive.index(v)]) for v in variables}
        yield Part({v: _maybe(column) if v in pattern.optional else Rows(column) for v, column in columns.items()})


class OfCombination:
    def __init__(self, pattern: Combination) -> None:
        self.pattern = pattern
        encoding = encode_combination(pattern)
        self.terms: Terms = encoding
        self.program = encoding.program
        self.counters: Ints = np.concatenate(CombinationCounters.of(pattern))
        reached = reach(pattern)
        self.back, self.ahead, self.memory = reached.back, reached.ahead, reached.memory

    def found(self, events: Events, jit: bool) -> Found:
        return FoundCombinations(self, events, jit)


class FoundCombinations:
    def __init__(self, of: OfCombination, events: Events, jit: bool) -> None:
        self.pattern = of.pattern
        self.kernel = Combinations(of.program, events, of.counters, jit)
        # Of a place, the number of its first row: what is behind this chunk must know it by the same number.
        self.position = np.searchsorted(events.position, events.position) if of.pattern.deferred else events.position
        choosing = (of.pattern.select or of.pattern.exclusive) and not of.pattern.deferred
        self.selection = Selection.of(of.pattern, events.states & USED != 0) if choosing else None

    @property
    def used(self) -> NDArray[np.bool] | None:
        return self.selection.used if self.selection is not None and self.pattern.exclusive else None

    def rows(self, capacity: int) -> Iterator[Ints]:
        found = self.kernel.matches(capacity)
        if self.selection is None:
            return found
        return reported(self.selection, found, len(self.pattern.positive), self.position)

    def parts(self, rows: Ints, variables: Sequence[str]) -> Iterator[Part]:
        collected, bindings = self.pattern.collected, self.pattern.bindings
        folded = [variable for variable in variables if variable in collected]
        if not folded and not bindings:
            yield self._part(rows, variables, {}, {})
            return
        single = [variable for variable in variables if variable not in collected]
        for begin, end, found, offsets in self.kernel.collected(rows, _COLLECTED):
            some = rows[begin:end]
            arrays = {}
            for variable in folded:
                column = collected.index(variable)
                of_each, there = offsets[column], self._there(some, variable)
                arrays[variable] = Rows(found[column, : of_each[-1]], of_each, collected=True, there=there)
            groups, column = {}, len(collected)
            for name, own in bindings.items():
                of_each, there = offsets[column], self._there(some, name)
                groups[name] = Bindings(found[column : column + len(own), : of_each[-1]], of_each, there)
                column += len(own)
            yield self._part(some, single, arrays, groups)

    def _there(self, rows: Ints, name: str) -> Ints | None:
        """Of each match, whether its branch collects what goes by the name; None if all branches do."""
        collecting = [_collects(branch, name) for branch in self.pattern.branches]
        return None if all(collecting) else np.array(collecting, np.int64)[rows[:, len(self.pattern.positive)]]

    def _part(
        self, rows: Ints, single: Sequence[str], arrays: Mapping[str, Rows], groups: Mapping[str, Bindings]
    ) -> Part:
        positive, optional = self.pattern.positive, self.pattern.optional
        events = dict(arrays)
        for variable in single:
            column = np.ascontiguousarray(rows[:, positive.index(variable)])
            events[variable] = _maybe(column) if variable in optional else Rows(column)
        started, detected = (np.ascontiguousarray(rows[:, len(positive) + at]) for at in (1, 2))
        found = candidates(rows, len(positive), self.position) if self.pattern.deferred else None
        return Part(events, started, detected, groups, found)


def _maybe(column: Ints) -> Rows:
    """One event or none per match: -1 is none."""
    bound = column >= 0
    return Rows(column[bound], np.concatenate([[0], np.cumsum(bound)]))


def _collects(branch: Branch, name: str) -> int:
    names = ((group.name,) if group.name else group.variables for group in branch.groups if group.collect)
    return int(any(name in each for each in names))
