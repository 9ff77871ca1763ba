"""Row patterns over sorted rows, in linear time and without backtracking: one kernel for every clause.

`look_back` goes over the rows from the last to the first and notes which positions are *live*: such a position may take
the row, and the rest of the pattern can still be completed behind it. `walk` then goes forward, and at each row takes
the most preferred live position. Since whatever is live can be completed, no step is ever taken back.

`live[i] = may[i] & before(live[i + 1])`, where `may[i]` has the positions whose variable the row's symbol bits allow,
and `before(S)` those behind which one of S may follow, or the match may end. Both are unions over bits, and so are
looked up byte by byte. Where a byte holds all variables, and another all positions, that is one look-up a row on the
way back, and one on the way forward: what is taken of a list, given what is live. These loops wait for nothing but the
look-up of the row before. So their tables and sets are small, and an index is made of numbers without a sign: numba
would look whether it is negative else.

A group may be *open*: more of its rows may follow in a later chunk, or a later micro-batch. What follows is unknown,
and everything is taken to be possible there. So a walk that ends within the known rows took the right way (what it
left aside is dead for sure), and one that reaches the end of the known rows is undecided: its match is left for later,
with the rows from its first on.

With WITHIN, a bit is not enough: the rest must be completed within the window, which depends on where the match began.
There `reach[i, p]` is the first row on which a match that takes row i with position p can end. The window of a start is
a range of rows, and a position is live if its reach lies in there. No row of a group will follow before its time
`known`: so a start whose window has ended by then is decided, as if its group were not open.

Where a match may begin on the row behind the first of another one, the next row, and matches have no numbers, starts
do not depend on each other. Then a walk may be *eager*: it leaves an open start behind, goes on, and marks the rows
whose starts are decided, so that they are not tried again when more rows have come.

Invariants
----------
Rows are sorted by (group, order). Group g is rows groups[g] .. groups[g + 1]. Positions are numbered from 0; a set of
them is `words` integers of 64 bits, or one byte in a small pattern. The live ones of a row are `width` bytes, in which
position p is bit p & 7 of byte p >> 3. Lists of positions lie one behind the other in `lists`: list l is
lists[ends[l] : ends[l + 1]], where l is START, FIRST, or FOLLOW + p.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sase.runtime.kernels.compiled import in_machine_code
from sase.runtime.kernels.conditions import (
    ERROR,
    HELPERS,
    NO_CONDITIONS,
    NO_TERMS,
    Conditions,
    Terms,
    Trail,
    holds,
    new_trail,
    signatures,
)
from sase.runtime.row_pattern import ACCEPT, RowPattern

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

POSITIONS = 256
"""A label is a byte."""

SMALL = 8
"""Of a small pattern, a byte holds all variables, and another all positions."""

START, FIRST, FOLLOW = 0, 1, 2
"""Places of lists in `Tables.lists`."""

PAST_LAST, NEXT, TO_FIRST, TO_LAST = range(4)
"""`Tables.skip`."""

ROW, GROUP, NUMBER, STATUS, FOUND, USED = range(6)
"""Slots of the cursor: the next row at which a match may begin, its group, the number of the last match of that group,
why `walk` returned, and how many matches and labels it has written."""

FULL, OVER, NOWHERE, BACK, EXHAUSTED, OVERFLOW = range(6)
"""`STATUS`: the output is full; all groups are done, as far as they can be; AFTER MATCH SKIP goes to a variable that
the match at ROW has no row of; or to that row itself; the search at ROW has spent the budget; a number in a condition
is too large there."""

COVERED, DECIDED = 1, 4
"""What is marked of a row: it is part of a match, which is left to others to mark; whether a match begins there is
decided, which an eager walk marks."""

BEGINNING = -(2**63)
"""`Rows.known`, where nothing is known of the rows to come."""


class Tables(NamedTuple):
    """A pattern as integers; built by `encode`."""

    words: int
    width: int  # 1 in a small pattern
    symbol_bytes: int
    position_bytes: int
    may: Ints  # [256 * symbol byte + its value, word]
    before: Ints  # [256 * byte of positions + its value, word]
    accepting: Ints  # [word]: behind these a match may end,
    ending: Ints  # [word]: and behind these on the last row of a partition
    hopeful: Ints  # [word]: behind these it may end, sooner or later, if the right rows follow, or none
    lists: Ints
    ends: Ints
    skip: int
    skipped_to: Ints  # [position]: 1 if AFTER MATCH SKIP goes to its rows
    within: int  # 0: no window
    symbol: Ints  # [position]: the bit of its variable
    stuck: int  # 1: what is open when its window ends is wanted, and no match
    # Of a small pattern; else empty:
    allowed: Bytes  # [symbol bits]: `may`
    completed: Bytes  # [live positions of the next row]: `before`, and `accepting`
    step: NDArray[np.uint16]  # [256 * list + live positions]: 256 * the list behind what `walk` takes; NONE, ACCEPTED


class Rows(NamedTuple):
    """A chunk of rows, sorted by (group, order)."""

    symbols: Ints  # bit v: may be mapped to variable v
    groups: Ints
    time: Ints  # empty without a window
    begun: Ints  # [group] 1: rows of it have gone before,
    number: Ints  # [group] and the last match among them had this number
    open: Ints  # [group] 1: more rows of it may follow,
    known: Ints  # [group] and none of them before this time
    eager: int = 0  # 1: behind a start that is open, others are decided


def in_one_piece(symbols: Ints, groups: Ints, time: Ints, begun: bool, number: int, goes_on: bool) -> Rows:
    """A chunk of a partition: rows of the first group may have gone before, and rows of the last one may follow."""
    flags = np.zeros((3, len(groups) - 1), np.int64)
    flags[0, 0], flags[1, 0], flags[2, -1] = begun, number, goes_on
    return Rows(symbols, groups, time, flags[0], flags[1], flags[2], np.full(len(groups) - 1, BEGINNING))


class Ends(NamedTuple):
    """How far the groups have come."""

    row: Ints  # [group]: the first start that is not decided; unless starts are decided eagerly, none behind it is
    number: Ints  # [group]: of the last match


class Found(NamedTuple):
    """Matches: match m takes rows start[m] .., with the positions label[offset[m] : offset[m + 1]]."""

    start: Ints
    number: Ints
    offset: Ints
    label: Bytes


def encode(pattern: RowPattern) -> Tables:
    positions = len(pattern.symbols)
    if positions > POSITIONS:
        raise ValueError(f"a pattern has {POSITIONS} positions at most, and not {positions}")
    words = max(1, -(-positions // 64))
    small = max(positions, len(pattern.variables)) <= SMALL

    def bits(numbers: Any) -> int:
        return sum(1 << number for number in numbers)

    def table(size: int, image: list[int]) -> Ints:
        """For each byte of a set and each value of it, the union of the images of its bits."""
        out = np.zeros((256 * -(-max(size, 1) // 8), words), np.uint64)
        for bit, positions in enumerate(image):
            for word in range(words):
                part = np.uint64(positions >> 64 * word & (2**64 - 1))
                rows = 256 * (bit // 8) + np.flatnonzero(np.arange(256) >> bit % 8 & 1)
                out[rows, word] |= part
        return out.view(np.int64)

    def set_of(numbers: Any) -> Ints:
        whole = bits(numbers)
        return np.array([whole >> 64 * word & (2**64 - 1) for word in range(words)], np.uint64).view(np.int64)

    before = [bits(p for p, follow in enumerate(pattern.follow) if q in follow) for q in range(positions)]
    lists = [pattern.start, pattern.start if pattern.first is None else pattern.first, *pattern.follow]
    target = pattern.positions(pattern.skip.variables) if pattern.skip.variables else ()
    may = table(len(pattern.variables), [bits(pattern.positions((name,))) for name in pattern.variables])
    behind = table(positions, before)
    accepting = set_of(p for p, follow in enumerate(pattern.follow) if ACCEPT in follow)
    return Tables(
        words=words,
        width=1 if small else 8 * words,
        symbol_bytes=-(-max(len(pattern.variables), 1) // 8),
        position_bytes=-(-max(positions, 1) // 8),
        may=may,
        before=behind,
        accepting=accepting,
        ending=set_of(pattern.ends),
        hopeful=set_of(_hopeful(pattern)),
        lists=np.array([position for each in lists for position in each], np.int64),
        ends=np.cumsum([0, *map(len, lists)]),
        skip=("past last row", "next row", "first", "last").index(pattern.skip.to),
        skipped_to=np.array([int(p in target) for p in range(positions)], np.int64),
        within=pattern.within or 0,
        symbol=np.array([pattern.variables.index(symbol) for symbol in pattern.symbols], np.int64),
        stuck=int(pattern.stuck),
        allowed=may[:, 0].astype(np.uint8) if small else np.zeros(0, np.uint8),
        completed=(accepting | behind[:, 0]).astype(np.uint8) if small else np.zeros(0, np.uint8),
        step=np.array([_step(each, live) for each in lists for live in range(256)] if small else [], np.uint16),
    )


def _step(listed: tuple[int, ...], live: int) -> int:
    """The list behind the first position that is live, or ACCEPTED if that comes before; NONE if there is none."""
    taken = next((each for each in listed if each == ACCEPT or live >> each & 1), None)
    return NONE if taken is None else ACCEPTED if taken == ACCEPT else FOLLOW + taken << 8


def _hopeful(pattern: RowPattern) -> set[int]:
    """Positions behind which the pattern can be completed by some rows, or by none."""
    found = set(pattern.ends) | {p for p, follow in enumerate(pattern.follow) if ACCEPT in follow}
    while more := {p for p, follow in enumerate(pattern.follow) if p not in found and not found.isdisjoint(follow)}:
        found |= more
    return found


def look_back(tables: Tables, rows: Rows, live: Bytes, sets: Ints) -> None:
    """Fills live[row * width + byte]; `sets` are the same bytes as words, where the pattern is not small."""
    words, symbol_bytes, position_bytes = tables.words, tables.symbol_bytes, tables.position_bytes
    may, before, accepting, ending, hopeful = tables.may, tables.before, tables.accepting, tables.ending, tables.hopeful
    symbols, groups, allowed, completed = rows.symbols, rows.groups, tables.allowed, tables.completed
    for g in range(len(groups) - 2, -1, -1):
        unknown = rows.open[g] == 1
        begin, last = groups[g], groups[g + 1] - 1
        if tables.width == 1:
            if last < begin:
                continue
            live[last] = allowed[symbols[last] & 255] & (hopeful[0] if unknown else ending[0])
            behind = live[last]
            for row in range(last - 1, begin - 1, -1):
                behind = allowed[symbols[row] & 255] & completed[behind]
                live[row] = behind
            continue
        for row in range(last, begin - 1, -1):
            for word in range(words):
                here = 0
                for byte in range(symbol_bytes):
                    here |= may[256 * byte + (symbols[row] >> 8 * byte & 255), word]
                if row == last:
                    here &= hopeful[word] if unknown else ending[word]
                elif here != 0:
                    rest = accepting[word]
                    for byte in range(position_bytes):
                        next_live = sets[(row + 1) * words + (byte >> 3)]
                        rest |= before[256 * byte + (next_live >> 8 * (byte & 7) & 255), word]
                    here &= rest
                sets[row * words + word] = here


def reach_back(tables: Tables, rows: Rows, live: Bytes, reach: Ints) -> None:
    """Fills reach[row * positions + position]; `len(symbols) + 1` stands for never."""
    width, lists, ends = tables.width, tables.lists, tables.ends
    groups, positions = rows.groups, len(tables.skipped_to)
    never = len(rows.symbols) + 1
    for g in range(len(groups) - 2, -1, -1):
        for row in range(groups[g + 1] - 1, groups[g] - 1, -1):
            last = row == groups[g + 1] - 1
            for position in range(positions):
                best = never
                if live[row * width + (position >> 3)] >> (position & 7) & 1:
                    if last and tables.ending[position >> 6] >> (position & 63) & 1:
                        best = row
                    else:
                        for at in range(ends[FOLLOW + position], ends[FOLLOW + position + 1]):
                            target = lists[at]
                            if target == -1:
                                best = row
                            elif last:
                                best = min(best, row + 1)
                            else:
                                best = min(best, reach[(row + 1) * positions + target])
                reach[row * positions + position] = best


NONE, ACCEPTED = START << 8, FIRST << 8
"""In `Tables.step`: no way leads on; the match ends. START and FIRST stand behind no position."""

NO_MATCH, OPEN, SPENT, TOO_LARGE = -1, -2, -3, -4
"""In place of the length of a match: there is no match at this row; that depends on rows to come; the
budget is spent; a number grew too large."""


def _search(
    tables: Tables, live: Bytes, reach: Ints, choices: int, row: int, stop: int, goes_on: bool, bound: int,
    label: Bytes, used: int, conditions: Conditions, terms: Terms, trail: Trail, number: int,
) -> int:  # fmt: skip
    """The length of the match at this row, where conditions look at the rows that were mapped before: a walk that goes
    back where a row meets no condition. What is not live is not tried, so it goes back for those conditions alone."""
    width, lists, ends, within = tables.width, tables.lists, tables.ends, tables.within
    positions = len(tables.skipped_to)
    choice, tried, spent = trail.choice, trail.tried, trail.spent
    depth = 0
    choice[0] = ends[choices]
    while depth >= 0:
        here = row + depth
        listed = choices if depth == 0 else FOLLOW + label[used + depth - 1]
        if here == stop:
            accepted = ends[listed] < ends[listed + 1] and lists[ends[listed]] == -1
            if goes_on and not accepted:
                return OPEN
            last = label[used + depth - 1] if depth else 0
            if accepted or (depth and tables.ending[last >> 6] >> (last & 63) & 1):
                return depth
            depth -= 1
            continue
        moved = False
        while choice[depth] < ends[listed + 1]:
            target = lists[choice[depth]]
            choice[depth] += 1
            if target == -1:
                return depth
            if not live[here * width + (target >> 3)] >> (target & 7) & 1:
                continue
            if within and reach[here * positions + target] >= bound + (goes_on and bound == stop):
                continue
            tried[target] += 1
            spent[0] += 1
            if spent[0] > spent[1]:
                return SPENT
            label[used + depth] = target
            truth = holds(conditions, terms, trail, label, used, depth, row, number)
            if truth == ERROR:
                return TOO_LARGE
            if truth == 1:
                moved = True
                break
        if moved:
            depth += 1
            if row + depth < stop:
                choice[depth] = ends[FOLLOW + target]
        else:
            depth -= 1
    return NO_MATCH


def _stuck(
    tables: Tables, symbols: Ints, row: int, bound: int, undecided: bool, label: Bytes, used: int,
    conditions: Conditions, terms: Terms, trail: Trail,
) -> int:  # fmt: skip
    """The number of rows up to the end of the window, if what begins at this row is open there. A row fits one position
    at most, so there is no way back; and before the window has ended, there is no need to go on."""
    lists, ends, symbol = tables.lists, tables.ends, tables.symbol
    searching = len(conditions.program) > 0
    listed = START
    for here in range(row, bound):
        taken = -1
        for at in range(ends[listed], ends[listed + 1]):
            target = lists[at]
            if not symbols[here] >> symbol[target] & 1:
                continue
            label[used + here - row] = target
            if searching:
                truth = holds(conditions, terms, trail, label, used, here - row, row, 1)
                if truth == ERROR:
                    return TOO_LARGE
                if truth != 1:
                    continue
            taken = target
            break
        if taken < 0:
            return NO_MATCH
        listed = FOLLOW + taken
        if ends[listed] < ends[listed + 1] and lists[ends[listed]] == -1:
            return NO_MATCH
        if undecided:
            return OPEN
    return bound - row


def walk(
    tables: Tables, rows: Rows, live: Bytes, reach: Ints, marks: Bytes, cursor: Ints, ends_at: Ends, found: Found,
    conditions: Conditions, terms: Terms, trail: Trail,
) -> None:  # fmt: skip
    """The matches from the cursor on, as many as there is room for. An eager walk marks the starts that it decides."""
    width, lists, ends, within = tables.width, tables.lists, tables.ends, tables.within
    skip, skipped_to, positions = tables.skip, tables.skipped_to, len(tables.skipped_to)
    groups, time, count, eager = rows.groups, rows.time, len(rows.groups) - 1, rows.eager == 1
    start, numbers, offset, label = found.start, found.number, found.offset, found.label
    row, group, counted = cursor[ROW], cursor[GROUP], cursor[NUMBER]
    searching = len(conditions.program) > 0
    step = tables.step
    one_look_up = width == 1 and within == 0
    passing = one_look_up and not eager and tables.stuck == 0
    matches, used, status = 0, 0, OVER
    bound = 0  # with a window: the first row behind it
    while group < count:
        stop = groups[group + 1]
        if row >= stop:
            if ends_at.row[group] < 0:
                ends_at.row[group] = stop
            ends_at.number[group] = counted
            group += 1
            counted = rows.number[group] if group < count else 0
            continue
        if eager and marks[row] & DECIDED:
            row += 1
            continue
        choices = FIRST if row == groups[group] and rows.begun[group] == 0 else START
        if passing and choices == START and step[live[row]] == NONE:
            row += 1
            while row < stop and step[live[row]] == NONE:
                row += 1
            continue
        goes_on = rows.open[group] == 1 and (within == 0 or time[row] + within > rows.known[group])
        if matches == len(start) or (matches > 0 and used + stop - row > len(label)):
            status = FULL
            break
        if within:
            bound = max(bound, row)
            while bound < stop and 0 <= time[bound] - time[row] < within:
                bound += 1
        length = NO_MATCH
        if tables.stuck == 1:
            length = _stuck(
                tables, rows.symbols, row, bound, goes_on and bound == stop, label, used, conditions, terms, trail,
            )  # fmt: skip
        elif eager and goes_on and within:
            # No way ends on a known row, and some may end later: nothing is decided yet, and there is no need to walk.
            for at in range(ends[choices], ends[choices + 1]):
                target = lists[at]
                if target == -1 or reach[row * positions + target] < stop:
                    length = NO_MATCH
                    break
                if reach[row * positions + target] < bound + (bound == stop):
                    length = OPEN
        if length == OPEN or tables.stuck == 1:
            pass
        elif searching:
            length = _search(
                tables, live, reach, choices, row, stop, goes_on, bound, label, used, conditions, terms, trail,
                counted + 1,
            )  # fmt: skip
        else:
            # At each row, the first live position of the list. Not a function of its own: a call per start would cost
            # more than all the rest.
            here, length = row, OPEN
            if one_look_up:
                at = choices << 8
                while here < stop:
                    at = step[at + live[here]]
                    if at <= ACCEPTED:
                        length = here - row if at == ACCEPTED else NO_MATCH
                        break
                    label[used + here - row] = (at >> 8) - FOLLOW
                    here += 1
                choices = at >> 8
            while length == OPEN:
                if here == stop:
                    # Live on the last row of its partition, a match ends there. Else who knows, unless it ends anyhow.
                    if not goes_on or (ends[choices] < ends[choices + 1] and lists[ends[choices]] == -1):
                        length = here - row
                    break
                length = NO_MATCH
                for at in range(ends[choices], ends[choices + 1]):
                    target = lists[at]
                    if target == -1:
                        length = here - row
                        break
                    if live[here * width + (target >> 3)] >> (target & 7) & 1 and (
                        within == 0 or reach[here * positions + target] < bound + (goes_on and bound == stop)
                    ):
                        label[used + here - row] = target
                        choices = FOLLOW + target
                        here += 1
                        length = OPEN
                        break
        if length == OPEN and eager:
            if ends_at.row[group] < 0:
                ends_at.row[group] = row
            row += 1
            continue
        if eager:
            marks[row] |= DECIDED
        if length == NO_MATCH:
            row += 1
            continue
        if length == OPEN:
            ends_at.row[group] = row
            ends_at.number[group] = counted
            row = stop
            group += 1
            counted = rows.number[group] if group < count else 0
            continue
        if length < 0:
            status = EXHAUSTED if length == SPENT else OVERFLOW
            break
        counted += 1
        start[matches] = row
        numbers[matches] = counted
        used += length
        matches += 1
        offset[matches] = used
        if length == 0:
            row += 1
        elif skip == PAST_LAST:
            row += length
        elif skip == NEXT:
            row += 1
        else:
            target = -1
            for k in range(length):
                at = k if skip == TO_FIRST else length - 1 - k
                if skipped_to[label[used - length + at]] == 1:
                    target = row + at
                    break
            if target <= row:
                status = NOWHERE if target < 0 else BACK
                break
            row = target
    cursor[ROW] = row
    cursor[GROUP] = group
    cursor[NUMBER] = counted
    cursor[STATUS] = status
    cursor[FOUND] = matches
    cursor[USED] = used


SWEPT_FIRST, SWEPT_LAST, SWEPT_COUNT = range(3)
"""What `sweep` finds of a set of positions: the first row, the last row, or how many there are."""


def sweep(tables: Tables, rows: Rows, live: Bytes, asked: Ints, kinds: Ints, state: Ints, found: Ints) -> None:
    """One match per row: its length, and what is asked of it, for all rows in one pass from the last to the first.

    Where a walk goes from a row and a position does not depend on where it began, so the walks from all rows are a
    forest, and what is asked of each comes from the next row of its walk. Without this, walks that overlap would be
    taken again and again: n rows that all fit `A+` have n matches, of n rows and fewer.

    `asked` is [question, position], 1 where a position counts, and `kinds` what of these is asked. found[row] is the
    length, or NO_MATCH or OPEN, then each row number (-1 for none) or count, and then the positions of these rows.
    `state` is [2, position, 1 + 2 * question], for the row at hand and the one behind it, in turn.
    """
    width, lists, ends, groups = tables.width, tables.lists, tables.ends, rows.groups
    positions, questions = len(tables.skipped_to), len(kinds)
    for g in range(len(groups) - 2, -1, -1):
        stop = groups[g + 1]
        goes_on = rows.open[g] == 1
        for row in range(stop - 1, groups[g] - 1, -1):
            now, then = row & 1, (row + 1) & 1
            for position in range(positions):
                if not live[row * width + (position >> 3)] >> (position & 7) & 1:
                    continue
                listed, target = FOLLOW + position, NO_MATCH
                if row + 1 == stop:
                    if goes_on and not (ends[listed] < ends[listed + 1] and lists[ends[listed]] == -1):
                        target = OPEN
                else:
                    for at in range(ends[listed], ends[listed + 1]):
                        each = lists[at]
                        if each == -1:
                            break
                        if live[(row + 1) * width + (each >> 3)] >> (each & 7) & 1:
                            target = each
                            break
                if target == OPEN or (target >= 0 and state[then, target, 0] == OPEN):
                    state[now, position, 0] = OPEN
                    continue
                state[now, position, 0] = 1 + (state[then, target, 0] if target >= 0 else 0)
                for q in range(questions):
                    counts = asked[q, position] == 1
                    value = (0 if kinds[q] == SWEPT_COUNT else -1) if target < 0 else state[then, target, 1 + q]
                    place = -1 if target < 0 else state[then, target, 1 + questions + q]
                    if kinds[q] == SWEPT_COUNT:
                        value += 1 if counts else 0
                    elif counts and (kinds[q] == SWEPT_FIRST or value < 0):
                        value, place = row, position
                    state[now, position, 1 + q] = value
                    state[now, position, 1 + questions + q] = place
            at_first = row == groups[g] and rows.begun[g] == 0
            listed, chosen = (FIRST if at_first else START), NO_MATCH
            for at in range(ends[listed], ends[listed + 1]):
                each = lists[at]
                if each == -1 or live[row * width + (each >> 3)] >> (each & 7) & 1:
                    chosen = positions if each == -1 else each
                    break
            found[row, 0] = 0 if chosen == positions else chosen if chosen < 0 else state[now, chosen, 0]
            for q in range(questions):
                empty = 0 if kinds[q] == SWEPT_COUNT else -1
                there = 0 <= chosen < positions
                found[row, 1 + q] = state[now, chosen, 1 + q] if there else empty
                found[row, 1 + questions + q] = state[now, chosen, 1 + questions + q] if there else -1


def _meets(conditions: Conditions, terms: Terms, trail: Trail, each: Ints, met: Ints) -> None:
    """Bit p of met[row]: the row alone, as the first one of a match, meets the condition of position p; or ERROR."""
    for row in range(len(met)):
        bits = 0
        for position in range(len(each)):
            truth = holds(conditions, terms, trail, each, position, 0, row, 1)
            if truth == ERROR:
                bits = ERROR
                break
            bits |= truth << position
        met[row] = bits


def meets(conditions: Conditions, terms: Terms, rows: int, jit: bool = True) -> Ints:
    """Of each row, by itself, which conditions it meets: those of position p make bit p."""
    positions = len(conditions.variable)
    trail = new_trail(conditions, 1, positions, 0)
    met = np.zeros(rows, np.int64)
    compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
    given: Any = _given if compiled else memoryview
    kept: Any = np.asarray if compiled else memoryview
    kernel = compiled["meets"] if compiled else _meets
    read = _each(conditions, given), _each(terms, given)
    kernel(*read, _each(trail, kept), given(np.arange(positions)), kept(met))
    return met


@cache
def _compiled() -> dict[str, Any] | None:
    """The kernel in machine code, from numba's cache but for the first time; None without numba."""
    try:
        import numba
        from numba.extending import register_jitable
    except ImportError:
        return None
    # A call would pass all tables, and count their references, at each step: the search would take twice as long.
    for helper in (*HELPERS, _search):
        register_jitable(forceinline=True)(helper)
    register_jitable(_stuck)  # once for each start
    types: Any = numba.types
    integer, named = types.int64, types.BaseTuple.from_types
    given, given_table = (types.Array(integer, dimensions, "C", readonly=True) for dimensions in (1, 2))
    kept, kept_table, kept_cube = (types.Array(integer, dimensions, "C") for dimensions in (1, 2, 3))
    given_bytes, kept_bytes = (types.Array(types.uint8, 1, "C", readonly=readonly) for readonly in (True, False))
    small = [given_bytes, given_bytes, types.Array(types.uint16, 1, "C", readonly=True)]
    numbers = [integer, given, integer, given, integer]
    tables = named([integer] * 4 + [given_table] * 2 + [given] * 5 + numbers + small, Tables)
    rows = named([given] * 7 + [integer], Rows)
    ends, found = named([kept] * 2, Ends), named([kept] * 3 + [kept_bytes], Found)

    def compiled(function: Any, *arguments: Any) -> Any:
        return in_machine_code(function, types.void(*arguments), allocates=False)

    return {
        "meets": compiled(_meets, *signatures(types), given, kept),
        "look_back": compiled(look_back, tables, rows, kept_bytes, kept),
        "reach_back": compiled(reach_back, tables, rows, kept_bytes, kept),
        "sweep": compiled(sweep, tables, rows, kept_bytes, given_table, given, kept_cube, kept_table),
        "walk": compiled(walk, tables, rows, kept_bytes, kept, kept_bytes, kept, ends, found, *signatures(types)),
    }


def _given(array: Any) -> Any:
    """A read-only view: pyarrow's arrays are read-only, and there is one compilation."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _each(tables: Any, change: Any) -> Any:
    return type(tables)(*(change(field) if isinstance(field, np.ndarray) else field for field in tables))


class Walk:
    """One chunk of rows on its way through the kernel. `cursor` says where it has come to, and `ends` where each group
    ends that has been left."""

    def __init__(
        self,
        tables: Tables,
        rows: Rows,
        marks: Bytes,
        jit: bool = True,
        conditions: Conditions = NO_CONDITIONS,
        terms: Terms = NO_TERMS,
        budget: int = 0,
    ) -> None:
        """`marks` has what is marked of rows already."""
        total, positions, groups = len(rows.symbols), len(tables.skipped_to), len(rows.groups) - 1
        self.cursor = np.array([0, 0, rows.number[0], FULL, 0, 0], np.int64)
        self.group_sizes = np.diff(rows.groups)
        self.ends = Ends(np.full(groups, -1), np.zeros(groups, np.int64))
        self.marks = marks
        self.trail = new_trail(conditions, total, positions, budget)
        start, number, offset = (np.empty(size, np.int64) for size in (total, total, total + 1))
        self._found = Found(start, number, offset, np.empty(2 * total, np.uint8))
        self._found.offset[0] = 0
        live = np.empty(total * tables.width, np.uint8)
        sets = live.view(np.int64) if tables.width > 1 else np.empty(0, np.int64)
        reach = np.empty(total * positions if tables.within else 0, np.int64)
        compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
        kernel: Any = compiled or {"look_back": look_back, "reach_back": reach_back, "sweep": sweep, "walk": walk}
        # Memory views give Python integers: faster than numpy's, where numba does not compile.
        given: Any = _given if compiled else memoryview
        kept: Any = np.asarray if compiled else memoryview
        self._arguments = [_each(tables, given), _each(rows, given), kept(live), kept(reach)]
        self._arguments += [kept(marks), kept(self.cursor), _each(self.ends, kept), _each(self._found, kept)]
        self._arguments += [_each(conditions, given), _each(terms, given), _each(self.trail, kept)]
        self._kernel, self._given, self._kept = kernel, given, kept
        kernel["look_back"](*self._arguments[:3], kept(sets))
        if tables.within:
            kernel["reach_back"](*self._arguments[:4])

    def swept(self, asked: Ints, kinds: Ints) -> Ints:
        """What `sweep` finds for each row."""
        tables, rows, live = self._arguments[:3]
        found = np.empty((len(self.marks), 1 + 2 * len(kinds)), np.int64)
        state = np.zeros((2, asked.shape[1], found.shape[1]), np.int64)
        self._kernel["sweep"](
            tables, rows, live, self._given(asked), self._given(kinds), *map(self._kept, (state, found))
        )
        return found

    def found(self) -> Iterator[Found]:
        """Matches, as much as fits into the memory that is filled again and again: use it up before asking for more."""
        while self.cursor[STATUS] == FULL:
            self._kernel["walk"](*self._arguments)
            matches, used = int(self.cursor[FOUND]), int(self.cursor[USED])
            if matches:
                start, number, offset, label = self._found
                yield Found(start[:matches], number[:matches], offset[: matches + 1], label[:used])
