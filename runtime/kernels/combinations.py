"""Construction for combinations: events in any order, alternatives and groups. One kernel for every query.

`sequences` has its ranges computed ahead, by the scan: a RIP is one. Here, the candidates of a variable are found when
it is their turn, by binary search in its rows, between the bounds that the variables bound before it give. A walk
begins at each row that may be the latest of a match. A group is a walk as well, up to its first binding, in the middle
of another one; and what a group collects is all of its bindings, for matches that have been found.

Invariants
----------
Rows of a chunk are sorted and positioned as in `sequences`. The rows that may fill variable v are
`rows[offset[v] : offset[v + 1]]`, rising. An index of v has the same rows from place[index] on, group by group as well,
but within a group by their terms; rows of equal terms rise. For the latest row at hand,
    block[v]            is the first row of v in its group;
    base[v]             the first that is no longer before it than any walk can reach;
    upto[v]             the first that is not before it;
    limit[v]            the first after its group.
They only move forward.

The frames on the stack are those of the walk (level 0), of the group that is being asked for there, of a group in that
group, and so on. Of the frame at a level,
    step[level]         is the step whose candidates are being tried; earlier steps of the frame are bound;
    asked[level]        is the group that is being asked for with the candidate, a row of `Program.inner`.
Of a step, `at` is the next candidate and `end` the end of them. `chosen[v]` is the row bound to variable v.
Everything that outlives a call is in `Walks`, so `walk` returns whenever `out` is full.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from sase.runtime.kernels.candidates import arranged, crowded, reduced
from sase.runtime.kernels.compiled import in_machine_code
from sase.runtime.kernels.sequences import (
    NULL,
    Events,
    Ints,
    each_array,
    failing,
    first_at,
    read_only,
    table_types,
)
from sase.runtime.pattern import BORROWED, Combination

MOST, LEAST = 2**63 - 1, -(2**63)

(
    VARIABLE, FIXED, POSITIVE, BOUND, BOUND_END, OTHER, OTHER_END, CLAUSE, CLAUSE_END, INNER, INNER_END,
    INDEX, EQUAL, EQUAL_TERM,
) = range(14)  # fmt: skip
"""Columns of `Program.steps`.

A FIXED step finds its variable bound already and only checks it. The candidates of a POSITIVE one are before the latest
row. Then come ranges of the other tables: bounds, events that it must not be, clauses, and groups without a binding. If
it has an INDEX, its candidates' indexed term equals the term EQUAL_TERM of the bound variable EQUAL.
"""

AFTER, BEFORE, SINCE, UNTIL = range(4)
"""Kinds of bounds: candidates are after or before the place of a bound variable, or not before `time - ticks`, or not
after `time + ticks`."""

KIND, BOUND_BY, TICKS = range(3)
"""Columns of `Program.bounds`, and of `Program.instants`: which, of what variable, and how far from it."""

FRAME, COUNTER = range(2)
"""Columns of `Program.inner`: the frame of a group, and where it is counted that it forbids, or -1."""

BEGIN, END, BRANCH = range(3)
"""Columns of `Program.frames` and, with the branch, of `Program.walks`: a run of steps."""

FOLDED, OF_BRANCH, COLUMN, SOME = range(4)
"""Columns of `Program.folds`: a group that collects, its branch, where the rows of its first variable go, and 1 if one
binding is enough."""

LATEST, EARLIEST, AT, DERIVED = range(4)
"""Kinds of instants."""


class Program(NamedTuple):
    """A combination as integers; built by `program.encode_combination`."""

    positives: int
    starts: int  # the state bits with which a row may be the latest of a match
    steps: Ints  # [step, 14]
    bounds: Ints  # [bound, 3]
    others: Ints  # variables
    atoms: Ints  # as in `sequences.Query`
    clauses: Ints
    numbers: Ints  # where it is counted that a clause rejects
    inner: Ints  # [group at a step, 2]
    frames: Ints  # [frame, 2]: the groups
    walks: Ints  # [walk, 3]; the first step's variable holds the latest row
    instants: Ints  # [branch, 3]
    bound: Ints  # the positive variables of each branch, as state bits
    back: Ints  # how long before the latest row a variable's candidates can be, at most
    folds: Ints  # [group that collects, 4]
    collected: int  # how many variables are collected
    indices: Ints  # [index, 2]: a variable, and the term by which its rows may be sorted
    partners: Ints  # [equality, 6]: see `candidates`
    hold: int  # how long after its latest event a match is due; 0 where its instant says when


NEXT, WALK, GROUP, LEVEL = range(4)
"""Slots of `Walks.cursor`: the row that may be the latest, its next walk, its group, and the level of the open frame;
-1 if no walk is open."""


class Walks(NamedTuple):
    """Where the construction has come to."""

    rows: Ints
    offset: Ints
    place: Ints  # of each index; -1 if it was not worth its while
    block: Ints
    base: Ints
    upto: Ints
    limit: Ints
    cursor: Ints
    first: Ints  # of each level: the first step of its frame,
    last: Ints  # its last step,
    step: Ints
    asked: Ints
    at: Ints
    end: Ints
    chosen: Ints
    counters: Ints  # laid out as in `Counters`


class Counters(NamedTuple):
    """What the kernel did, for `explain --analyze`: consecutive parts of one array.

    Every visited candidate is the same event as another one of the match, or rejected, or killed, or ends a match that
    an earlier branch has given (`repeated`), or ends a match, or is extended by another variable.
    """

    pushed: Ints  # events per positive variable
    visited: Ints  # candidates per positive variable that walks looked at, the latest rows included
    rejected: Ints  # candidates per clause of the branches' WHERE, branch after branch
    killed: Ints  # candidates per group that forbids, branch after branch
    repeated: Ints  # one number, as are the rest
    same: Ints
    extended: Ints
    searches: Ints  # binary searches for the candidates of a variable
    sequences: Ints

    @classmethod
    def of(cls, pattern: Combination, counters: Ints | None = None) -> Counters:
        """The parts of `counters`, or of a new array of zeros."""
        positives = len(pattern.positive)
        clauses = sum(len(branch.where) for branch in pattern.branches)
        groups = sum(not group.collect for branch in pattern.branches for group in branch.groups)
        ends = np.cumsum([positives, positives, clauses, groups, *[1] * 5])
        return cls(*np.split(np.zeros(ends[-1], np.int64) if counters is None else counters, ends[:-1]))


_SAME, _EXTENDED, _SEARCHES, _FOUND = -4, -3, -2, -1


def _plus(time: int, ticks: int) -> int:
    """Their sum, or the end of all integers that is nearest to it."""
    if ticks >= 0:
        return time + ticks if time <= MOST - ticks else MOST
    return time + ticks if time >= LEAST - ticks else LEAST


def _minus(time: int, ticks: int) -> int:
    """Their difference, or the end of all integers that is nearest to it."""
    if ticks >= 0:
        return time - ticks if time >= LEAST + ticks else LEAST
    return time - ticks if time <= MOST + ticks else MOST


def _first_since(rows: Ints, begin: int, end: int, time: Ints, wanted: int) -> int:
    """The first of rows[begin:end] at time `wanted` or later."""
    while begin < end:
        middle = (begin + end) >> 1
        if time[rows[middle]] < wanted:
            begin = middle + 1
        else:
            end = middle
    return begin


def _first_past(rows: Ints, begin: int, end: int, time: Ints, last: int) -> int:
    """The first of rows[begin:end] that is later than `last`."""
    while begin < end:
        middle = (begin + end) >> 1
        if time[rows[middle]] <= last:
            begin = middle + 1
        else:
            end = middle
    return begin


def _first_equal(rows: Ints, begin: int, end: int, terms: Ints, term: int, wanted: int, row: int) -> int:
    """The first of rows[begin:end], sorted by a term and then by themselves, that is not before this value and row."""
    while begin < end:
        middle = (begin + end) >> 1
        value = terms[term, rows[middle]]
        if value < wanted or (value == wanted and rows[middle] < row):
            begin = middle + 1
        else:
            end = middle
    return begin


def _meets(row: int, kind: int, other: int, ticks: int, position: Ints, time: Ints) -> bool:
    """Whether a row lies within a bound that another row gives."""
    if kind == AFTER:
        return bool(position[row] > position[other])
    if kind == BEFORE:
        return bool(position[row] < position[other])
    if kind == SINCE:
        return bool(time[row] >= _minus(time[other], ticks))
    return bool(time[row] <= _plus(time[other], ticks))


def walk(program: Program, events: Events, walks: Walks, matches: Ints, out: Ints, offsets: Ints) -> int:
    """Construct matches or, given `matches`, collect what their groups do. One function, so that there is one walk, and
    no table is passed around in its middle: that would take longer than the walk.

    Without `matches`, writes the next ones to `out` and returns how many: fewer than fit means that there are no more.
    A match is the row of each positive variable, -1 where it is not bound; then its branch, and the ticks of its
    earliest event and of its instant.

    With them, writes the bindings of their groups that collect: the rows of the collected variable c in match m to
    out[c, offsets[c, m] : offsets[c, m + 1]]. Returns how many matches had room for all of theirs.
    """
    positives, hold, since, until = program.positives, program.hold, events.since, events.until
    steps, bounds, others, inner, frames = program.steps, program.bounds, program.others, program.inner, program.frames
    atoms, clauses, numbers, table = program.atoms, program.clauses, program.numbers, program.walks
    instants, folds, backs = program.instants, program.folds, program.back
    bound, starts, indices = program.bound, program.starts, program.indices
    position, time, states, groups = events.position, events.time, events.states, events.groups
    terms, stop = events.terms, events.stop
    rows, offset, place, block = walks.rows, walks.offset, walks.place, walks.block
    base, upto, limit = walks.base, walks.upto, walks.limit
    first, last, step, asked, at, ends = walks.first, walks.last, walks.step, walks.asked, walks.at, walks.end
    cursor, chosen, counters = walks.cursor, walks.chosen, walks.counters
    same, extended, searches = len(counters) + _SAME, len(counters) + _EXTENDED, len(counters) + _SEARCHES
    folding = len(matches) > 0
    level, opening = cursor[LEVEL], -1
    found = fold = 0
    while True:
        if level < 0 and folding:
            # Enter the next group that collects, of this match or of the next.
            if fold == 0:
                if found == len(matches):
                    return found
                row = 0
                for v in range(positives):
                    if matches[found, v] >= 0:
                        row = matches[found, v]
                        chosen[v] = row
                if cursor[GROUP] < 0 or row < groups[cursor[GROUP]] or row >= groups[cursor[GROUP] + 1]:
                    low, high = 0, len(groups) - 1
                    while high - low > 1:
                        middle = (low + high) >> 1
                        if groups[middle] <= row:
                            low = middle
                        else:
                            high = middle
                    cursor[GROUP] = low
                    begin, end = position[groups[low]], position[groups[low + 1] - 1] + 1
                    for v in range(len(base)):
                        block[v] = first_at(rows, offset[v], offset[v + 1], position, begin)
                        base[v] = block[v]
                        limit[v] = first_at(rows, base[v], offset[v + 1], position, end)
                for c in range(len(offsets)):
                    offsets[c, found + 1] = offsets[c, found]
            if fold == len(folds):
                fold = 0
                found += 1
                continue
            frame = folds[fold, FOLDED]
            collecting = (
                folds[fold, OF_BRANCH] == matches[found, positives] and frames[frame, BEGIN] < frames[frame, END]
            )
            fold += 1
            if not collecting:
                continue
            level, opening = 0, frames[frame, BEGIN]
            first[0], last[0] = opening, frames[frame, END] - 1
        elif level < 0:
            # Begin the next walk, of this row or of the next one that may be the latest.
            row, w = cursor[NEXT], cursor[WALK]
            if row >= stop:
                break
            if w == len(table):
                cursor[WALK] = 0
                cursor[NEXT] = row + 1
                continue
            if w == 0:
                if not states[row] & starts or states[row] & BORROWED:
                    cursor[NEXT] = row + 1
                    continue
                while groups[cursor[GROUP] + 1] <= row:
                    cursor[GROUP] += 1
                group, group_end = groups[cursor[GROUP]], groups[cursor[GROUP] + 1]
                for v in range(len(base)):
                    end = offset[v + 1]
                    i = limit[v]
                    while i < end and rows[i] < group_end:
                        i += 1
                    limit[v] = i
                    i = upto[v]
                    while i < end and rows[i] < row:
                        i += 1
                    upto[v] = i
                    i = block[v]
                    while i < end and rows[i] < group:
                        i += 1
                    block[v] = i
                    oldest = LEAST if backs[v] == MOST else _minus(time[row], backs[v])
                    i = max(i, base[v])
                    while i < end and rows[i] < group_end and time[rows[i]] < oldest:
                        i += 1
                    base[v] = i
            cursor[WALK] = w + 1
            begin = table[w, BEGIN]
            latest = steps[begin, VARIABLE]
            if not (states[row] >> latest) & 1:
                continue
            if hold or instants[table[w, BRANCH], KIND] == LATEST:
                due = _plus(time[row], hold or 1)
                if not since < due <= until:
                    continue
            missing = False
            for s in range(begin + 1, table[w, END]):
                if base[steps[s, VARIABLE]] >= upto[steps[s, VARIABLE]]:
                    missing = True
                    break
            if missing:
                continue
            chosen[latest] = row
            level, opening = 0, begin
            first[0], last[0] = begin, table[w, END] - 1

        if opening >= 0:
            # Find the candidates of a step between the bounds that the chosen events give.
            s, opening = opening, -1
            step[level] = s
            variable = steps[s, VARIABLE]
            if steps[s, FIXED]:
                begin, end = 0, 1
                for b in range(steps[s, BOUND], steps[s, BOUND_END]):
                    other = chosen[bounds[b, BOUND_BY]]
                    if not _meets(chosen[variable], bounds[b, KIND], other, bounds[b, TICKS], position, time):
                        end = 0
                        break
            else:
                begin, end = base[variable], upto[variable] if steps[s, POSITIVE] else limit[variable]
                for b in range(steps[s, BOUND], steps[s, BOUND_END]):
                    other, ticks, kind = chosen[bounds[b, BOUND_BY]], bounds[b, TICKS], bounds[b, KIND]
                    if kind == AFTER:
                        begin = first_at(rows, begin, end, position, position[other] + 1)
                    elif kind == BEFORE:
                        end = first_at(rows, begin, end, position, position[other])
                    elif kind == SINCE:
                        begin = _first_since(rows, begin, end, time, _minus(time[other], ticks))
                    else:
                        end = _first_past(rows, begin, end, time, _plus(time[other], ticks))
                index = steps[s, INDEX]
                if index >= 0 and place[index] >= 0 and begin < end:
                    oldest, newest, term = rows[begin], rows[end - 1], indices[index, 1]
                    wanted = terms[steps[s, EQUAL_TERM], chosen[steps[s, EQUAL]]]
                    shift = place[index] - offset[variable]
                    begin, end = block[variable] + shift, limit[variable] + shift
                    if wanted == NULL:
                        end = begin
                    begin = _first_equal(rows, begin, end, terms, term, wanted, oldest)
                    end = _first_equal(rows, begin, end, terms, term, wanted, newest + 1)
            at[s], ends[s] = begin, end

        s = step[level]
        if at[s] >= ends[s]:
            # No candidate is left: of the step before, the next one; or, at the first step, the frame has no binding.
            if s > first[level]:
                step[level] = s - 1
                continue
            level -= 1
            if level < 0:
                continue
            s = step[level]
            asked[level] += 1
        else:
            candidate = at[s]
            at[s] = candidate + 1
            variable = steps[s, VARIABLE]
            if level == 0:
                counters[positives + variable] += 1
            if not steps[s, FIXED]:
                row = rows[candidate]
                alike = False
                for o in range(steps[s, OTHER], steps[s, OTHER_END]):
                    if chosen[others[o]] == row:
                        alike = True
                        break
                if alike:
                    if level == 0:
                        counters[same] += 1
                    continue
                chosen[variable] = row
            if steps[s, CLAUSE] < steps[s, CLAUSE_END]:
                failed = failing(steps[s, CLAUSE], steps[s, CLAUSE_END], atoms, clauses, terms, chosen)
                if failed >= 0:
                    if level == 0:
                        counters[numbers[failed]] += 1
                    continue
            asked[level] = steps[s, INNER]

        # The candidate has passed its clauses: it must leave every group without a binding.
        if asked[level] < steps[s, INNER_END]:
            frame = inner[asked[level], FRAME]
            level += 1
            opening = frames[frame, BEGIN]
            first[level], last[level] = opening, frames[frame, END] - 1
            continue
        if s < last[level]:
            if level == 0:
                counters[extended] += 1
                counters[searches] += 1
            opening = s + 1
            continue

        # The frame is bound. A group that is forbids the candidate with which it was asked for.
        if level > 0:
            level -= 1
            if level == 0:
                counters[inner[asked[0], COUNTER]] += 1
            continue
        if folding:
            for i in range(first[0], last[0] + 1):
                c = folds[fold - 1, COLUMN] + i - first[0]
                if offsets[c, found + 1] == out.shape[1]:
                    return found
                out[c, offsets[c, found + 1]] = chosen[steps[i, VARIABLE]]
                offsets[c, found + 1] += 1
            if folds[fold - 1, SOME]:
                level = -1
            continue
        branch = table[cursor[WALK] - 1, BRANCH]
        earliest = time[cursor[NEXT]]
        for v in range(positives):
            if (bound[branch] >> v) & 1:
                out[found, v] = chosen[v]
                earliest = min(earliest, time[chosen[v]])
            else:
                out[found, v] = -1
        kind, instant = instants[branch, KIND], time[cursor[NEXT]]
        if kind == EARLIEST:
            instant = _plus(earliest, instants[branch, TICKS])
        elif kind != LATEST:
            instant = _plus(time[chosen[instants[branch, BOUND_BY]]], instants[branch, TICKS])
        if not hold:
            due = _plus(instant, 1) if kind in (LATEST, AT) else instant
            if not since < due <= until:
                continue
        out[found, positives] = branch
        out[found, positives + 1] = earliest
        out[found, positives + 2] = instant
        found += 1
        if found == len(out):
            break
    cursor[LEVEL] = level
    counters[len(counters) + _FOUND] += found
    return found


@cache
def _compiled() -> Any:
    """`walk` in machine code; None without numba."""
    try:
        import numba
        from numba.extending import register_jitable
    except ImportError:
        return None
    helpers: tuple[Any, ...] = (_plus, _minus, _first_since, _first_past, _first_equal, _meets, first_at, failing)
    for helper in helpers:
        register_jitable(helper)
    types: Any = numba.types
    integer, named = types.int64, types.BaseTuple.from_types
    given, given_table, kept, kept_table, events = table_types()
    fields = dict.fromkeys(("positives", "starts", "hold", "collected"), integer)
    fields |= dict.fromkeys(("others", "clauses", "numbers", "bound", "back"), given)
    program = named([fields.get(field, given_table) for field in Program._fields], Program)
    walks = named([kept] * len(Walks._fields), Walks)
    return in_machine_code(walk, integer(program, events, walks, given_table, kept_table, kept_table))


def _walks(program: Program, rows: Ints, offset: Ints, place: Ints, counters: Ints) -> Walks:
    """Before the first walk."""

    def zeros(size: int) -> Ints:
        return np.zeros(size, np.int64)

    levels = len(program.frames) + 1
    cursor = zeros(4)
    cursor[GROUP] = cursor[LEVEL] = -1
    return Walks(
        rows=rows,
        offset=offset,
        place=place,
        block=offset[:-1].copy(),
        base=offset[:-1].copy(),
        upto=offset[:-1].copy(),
        limit=offset[:-1].copy(),
        cursor=cursor,
        first=zeros(levels),
        last=zeros(levels),
        step=zeros(levels),
        asked=zeros(levels),
        at=zeros(len(program.steps)),
        end=zeros(len(program.steps)),
        chosen=zeros(len(program.back)),
        counters=counters,
    )


class Combinations:
    """The matches of a chunk, and what their groups collect."""

    def __init__(self, program: Program, events: Events, counters: Ints, jit: bool = True) -> None:
        self.program: Program = each_array(program, read_only)
        self.events: Events = each_array(events, read_only)
        self.compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
        for v in range(program.positives):
            fills = events.states[events.fresh : events.stop] & (1 << v)
            counters[v] += np.count_nonzero(fills)  # what was carried has been counted with its own chunk
        if crowded(program, events):
            self.events = self.events._replace(states=read_only(reduced(program, events)))
            rows, offset, place = arranged(program, self.events, range(len(program.indices)))
        else:
            rows, offset, place = arranged(program, self.events, ())
        spare = np.zeros(program.positives + len(program.back) + 5, np.int64)
        self.walks = _walks(program, rows, offset, place, counters)
        self.walks.cursor[NEXT], self.walks.cursor[GROUP] = events.fresh, 0
        self.folding = _walks(program, rows, offset, place, spare)

    def _walk(self, walks: Walks, matches: Ints, out: Ints, offsets: Ints) -> int:
        arguments = (self.program, self.events, walks, matches, out, offsets)
        if self.compiled is not None:
            return int(self.compiled(*arguments))
        # Memory views give Python integers: faster than numpy's, and they do not overflow.
        tables: list[Any] = [each_array(each, memoryview) for each in arguments[:3]]
        arrays: list[Any] = [matches, out, offsets]
        return walk(*tables, *(memoryview(array) for array in arrays))

    def matches(self, capacity: int) -> Iterator[Ints]:
        """Arrays [at most `capacity`, positives + 3], as `walk` writes them.

        The same memory is filled again and again: use an array up before asking for the next.
        """
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        out = np.empty((capacity, self.program.positives + 3), np.int64)
        nothing = np.zeros((0, 1), np.int64)
        found = capacity
        while found == capacity:
            found = self._walk(self.walks, read_only(nothing), out, nothing)
            if found:
                yield out[:found]

    def collected(self, matches: Ints, room: int) -> Iterator[tuple[int, int, Ints, Ints]]:
        """For matches begin .. end: the rows that their groups collect, and the offsets of each match; see `walk`.

        As many matches at a time as have room for that many rows, and one in any case.
        """
        variables = self.program.collected
        begin = 0
        while begin < len(matches):
            found = np.empty((variables, room), np.int64)
            offsets = np.zeros((variables, len(matches) - begin + 1), np.int64)
            self.folding.cursor[LEVEL] = -1
            size = self._walk(self.folding, read_only(matches[begin:]), found, offsets)
            if size:
                yield begin, begin + size, found, offsets[:, : size + 1]
            else:
                room *= 2
            begin += size
