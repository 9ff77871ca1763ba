"""The order of rows by (code, time): where events that arrive in any order become groups in the order of time.

A comparison sort does not know what is common here: few groups against rows, and time that rises but for the places
where one block of a shuffle ends and the next begins. So rows are spread over buckets by counting, which keeps their
order. Codes that lie close together have a bucket each. Others, as hashes are, share one with those that have the same
first bits, a few rows in all; where these turn out to be many, they are spread again. What has come in order stays,
short buckets are sorted by insertion, and in long ones of one code the runs that are there already are merged: one pass
over the rows for each doubling of the runs.

Without numba it is numpy's `lexsort`, which gives the same order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sase.runtime.kernels.compiled import in_machine_code
from sase.runtime.kernels.sequences import Ints


@dataclass(frozen=True)
class SortKey:
    """A column that rows are sorted by."""

    column: str
    descending: bool = False
    nulls_first: bool = True


_CLOSE = 2
"""How many buckets there may be for each row, if none is shared."""
_ROOM = 16
"""Rows for a bucket that is shared, on average: fewer would be sorted faster, and counted more slowly."""
_SHORT = 48
"""Rows that are sorted by insertion."""
_RUN = 16
"""Rows that are, before they are merged with others."""


def sorting(code: Ints, time: Ints, jit: bool = True) -> Ints:
    """The rows in the order of (code, time); those that agree on both as they stand."""
    compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
    if compiled is None:
        return np.lexsort((time, code)).astype(np.int64, copy=False)
    low, high = (int(code.min()), int(code.max())) if len(code) else (0, 0)
    bits = 0 if high - low <= _CLOSE * len(code) else max(1, (len(code) // _ROOM).bit_length())
    shift = (high - low).bit_length() - bits if bits else 0
    buckets = ((high - low) >> shift) + 1
    order: Ints = compiled(np.ascontiguousarray(code), np.ascontiguousarray(time), low, shift, buckets)
    return order


def spread(code: Ints, time: Ints, low: int, shift: int, buckets: int) -> Ints:
    """The rows by code and time. Each bucket has the codes that are alike but for their last `shift` bits, counted from
    the lowest code."""
    rows, least, last = len(code), np.uint64(low), np.uint64(shift)
    end = np.zeros(buckets + 1, np.int64)
    for row in range(rows):
        end[((np.uint64(code[row]) - least) >> last) + np.uint64(1)] += 1
    for each in range(buckets):
        end[each + 1] += end[each]
    order, moment = np.empty(rows, np.int64), np.empty(rows, np.int64)
    if shift == 0:
        for row in range(rows):
            bucket = np.uint64(code[row]) - least
            at = end[bucket]
            end[bucket] = at + 1
            order[at], moment[at] = row, time[row]
        known = moment  # a bucket has one code, and its rows are in order if their moments are
    else:
        known = np.empty(rows, np.int64)
        for row in range(rows):
            bucket = (np.uint64(code[row]) - least) >> last
            at = end[bucket]
            end[bucket] = at + 1
            order[at], moment[at], known[at] = row, time[row], code[row]
    # end[b] is now the end of bucket b
    begin = 0
    room, more_room = np.empty(0, np.int64), np.empty(0, np.int64)
    for each in range(buckets):
        stop = end[each]
        at = begin + 1
        while at < stop and (
            known[at - 1] < known[at] or (known[at - 1] == known[at] and moment[at - 1] <= moment[at])
        ):
            at += 1
        if at < stop:
            alike = begin + 1 if shift else stop
            while alike < stop and known[alike] == known[begin]:
                alike += 1
            if len(room) < stop - begin:
                room, more_room = np.empty(stop - begin, np.int64), np.empty(stop - begin, np.int64)
            if alike == stop:
                merge_runs(order[begin:stop], moment[begin:stop], room, more_room)
            elif stop - begin <= _SHORT:
                insert(order[begin:stop], known[begin:stop], moment[begin:stop])
            else:
                set_apart(order[begin:stop], known[begin:stop], moment[begin:stop], room, more_room)
        begin = stop
    return order


def set_apart(order: Ints, code: Ints, moment: Ints, room: Ints, more_room: Ints) -> None:
    """Sorts many rows of a bucket by code and moment, stable: they are spread again, by what their codes are between.
    So one code that is far from the others costs them one pass. Afterwards, what stands in the others says nothing."""
    others = np.empty(len(order), np.int64)
    todo = [(0, len(order))]
    while len(todo):
        begin, stop = todo.pop()
        low = high = code[begin]
        in_order = True
        for at in range(begin + 1, stop):
            low, high = min(low, code[at]), max(high, code[at])
            if code[at - 1] > code[at] or (code[at - 1] == code[at] and moment[at - 1] > moment[at]):
                in_order = False
        if in_order:
            continue
        if low == high:
            merge_runs(order[begin:stop], moment[begin:stop], room, more_room)
            continue
        if stop - begin <= _SHORT:
            insert(order[begin:stop], code[begin:stop], moment[begin:stop])
            continue
        least, between = np.uint64(low), np.uint64(high) - np.uint64(low)
        most = (stop - begin) // _ROOM if between > np.uint64(_CLOSE * (stop - begin)) else _CLOSE * (stop - begin)
        last = np.uint64(0)
        while (between >> last) > np.uint64(most):
            last += np.uint64(1)
        end = np.zeros(np.int64(between >> last) + 2, np.int64)
        for at in range(begin, stop):
            end[((np.uint64(code[at]) - least) >> last) + np.uint64(1)] += 1
        for each in range(1, len(end)):
            end[each] += end[each - 1]
        for each in range(len(end) - 1):
            if end[each + 1] - end[each] > 1:
                todo.append((begin + end[each], begin + end[each + 1]))
        for at in range(begin, stop):
            bucket = (np.uint64(code[at]) - least) >> last
            to = end[bucket]
            end[bucket] = to + 1
            room[to], more_room[to], others[to] = order[at], moment[at], code[at]
        for at in range(stop - begin):
            order[begin + at], moment[begin + at], code[begin + at] = room[at], more_room[at], others[at]


def insert(order: Ints, code: Ints, moment: Ints) -> None:
    """Sorts a few rows by code and moment in place, stable."""
    for row in range(1, len(order)):
        number, key, when = order[row], code[row], moment[row]
        at = row
        while at > 0 and (code[at - 1] > key or (code[at - 1] == key and moment[at - 1] > when)):
            order[at], code[at], moment[at] = order[at - 1], code[at - 1], moment[at - 1]
            at -= 1
        order[at], code[at], moment[at] = number, key, when


def merge_runs(order: Ints, moment: Ints, other_order: Ints, other_moment: Ints) -> None:
    """Sorts the order by moment, stable: merges neighbouring runs until there is one. Afterwards, what stands in the
    three others says nothing."""
    rows = len(order)
    for begin in range(0, rows, _RUN):
        for row in range(begin + 1, min(begin + _RUN, rows)):
            number, when = order[row], moment[row]
            at = row
            while at > begin and moment[at - 1] > when:
                order[at], moment[at] = order[at - 1], moment[at - 1]
                at -= 1
            order[at], moment[at] = number, when
    source_order, source, target_order, target = order, moment, other_order, other_moment
    swapped = False
    while True:
        begin = out = 0
        merges = 0
        while begin < rows:
            middle = begin + 1
            while middle < rows and source[middle - 1] <= source[middle]:
                middle += 1
            stop = middle
            if middle < rows:
                stop = middle + 1
                while stop < rows and source[stop - 1] <= source[stop]:
                    stop += 1
            left, right = begin, middle
            while left < middle and right < stop:
                if source[left] <= source[right]:
                    target[out], target_order[out] = source[left], source_order[left]
                    left += 1
                else:
                    target[out], target_order[out] = source[right], source_order[right]
                    right += 1
                out += 1
            while left < middle:
                target[out], target_order[out] = source[left], source_order[left]
                left += 1
                out += 1
            while right < stop:
                target[out], target_order[out] = source[right], source_order[right]
                right += 1
                out += 1
            merges += 1
            begin = stop
        source_order, source, target_order, target = target_order, target, source_order, source
        swapped = not swapped
        if merges == 1:
            break
    if swapped:
        for row in range(rows):
            order[row] = source_order[row]


@cache
def _compiled() -> Any | None:
    """In machine code, from numba's cache but for the first time; None without numba."""
    try:
        import numba
        from numba.extending import register_jitable
    except ImportError:
        return None
    for part in (merge_runs, insert, set_apart):
        register_jitable(part)
    types: Any = numba.types
    given = types.Array(types.int64, 1, "C", readonly=True)
    number = types.int64
    return in_machine_code(spread, types.Array(number, 1, "C")(given, given, number, number, number))
