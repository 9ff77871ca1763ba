"""The order of rows by (code, time): where events that arrive in any order become groups in the order of time.

A comparison sort does not know what is common here: few groups against rows, and time that rises but for the places
where one block of a shuffle ends and the next begins. So rows are numbered by group, spread over the groups by
counting, which keeps their order, and within a group the runs that are there already are merged. That is one pass over
the rows for each doubling of the runs, and none for a group that has come in order. Codes that lie close together are
numbers of groups already, of which some may be empty; others are numbered with a hash table, which takes as long as all
the rest.

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


_MIX = 0x1E3779B97F4A7C15
"""2^64 over the golden ratio, less its highest bit: near and far codes are spread over the table alike."""


_CLOSE = 2
"""How many numbers of groups may be reserved for each row."""


def sorting(code: Ints, time: Ints, jit: bool = True) -> Ints:
    """The rows in the order of (code, time); those that agree on both as they stand."""
    compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
    if compiled is None:
        return np.lexsort((time, code)).astype(np.int64, copy=False)
    number, spread = compiled
    code, time = np.ascontiguousarray(code), np.ascontiguousarray(time)
    low, high = (int(code.min()), int(code.max())) if len(code) else (0, 0)
    if high - low <= _CLOSE * len(code):
        group = (code - low).astype(np.int32)
        rank = np.arange(high - low + 1)
    else:
        group = np.empty(len(code), np.int32)
        codes = number(code, group)
        rank = np.empty(len(codes), np.int64)
        rank[np.argsort(codes)] = np.arange(len(codes))
    order: Ints = spread(group, rank, time)
    return order


def number(code: Ints, group: Any) -> Ints:
    """Fills in a number from 0 for each row, in the order in which codes first occur; returns the codes."""
    shift = 64 - 10
    slots = np.full(1 << 10, -1, np.int32)
    codes = np.empty(1 << 9, np.int64)
    known = 0
    last, last_group = np.int64(0), np.int32(-1)
    for row in range(len(code)):
        value = code[row]
        if last_group >= 0 and value == last:
            group[row] = last_group
            continue
        at = (np.uint64(value) * np.uint64(_MIX)) >> np.uint64(shift)
        found = slots[at]
        while found >= 0 and codes[found] != value:
            at = (at + np.uint64(1)) & np.uint64(len(slots) - 1)
            found = slots[at]
        if found < 0:
            if known == len(codes):
                longer = np.empty(2 * known, np.int64)
                longer[:known] = codes
                codes = longer
                shift -= 1
                slots = np.full(4 * known, -1, np.int32)
                for each in range(known):
                    at = (np.uint64(codes[each]) * np.uint64(_MIX)) >> np.uint64(shift)
                    while slots[at] >= 0:
                        at = (at + np.uint64(1)) & np.uint64(len(slots) - 1)
                    slots[at] = each
                at = (np.uint64(value) * np.uint64(_MIX)) >> np.uint64(shift)
                while slots[at] >= 0:
                    at = (at + np.uint64(1)) & np.uint64(len(slots) - 1)
            found = np.int32(known)
            codes[known] = value
            slots[at] = found
            known += 1
        group[row] = found
        last, last_group = value, found
    return codes[:known].copy()


def spread(group: Any, rank: Ints, time: Ints) -> Ints:
    """The rows by rank of their group, and in a group by time."""
    rows, groups = len(group), len(rank)
    end = np.zeros(groups + 1, np.int64)
    for row in range(rows):
        end[rank[group[row]] + 1] += 1
    for each in range(groups):
        end[each + 1] += end[each]
    order, moment = np.empty(rows, np.int64), np.empty(rows, np.int64)
    for row in range(rows):
        each = rank[group[row]]
        at = end[each]
        end[each] = at + 1
        order[at] = row
        moment[at] = time[row]
    # end[g] is now the end of group g
    begin = 0
    other_order, other_moment = np.empty(0, np.int64), np.empty(0, np.int64)
    for each in range(groups):
        stop = end[each]
        at = begin + 1
        while at < stop and moment[at - 1] <= moment[at]:
            at += 1
        if at < stop:
            if len(other_order) < stop - begin:
                other_order, other_moment = np.empty(stop - begin, np.int64), np.empty(stop - begin, np.int64)
            merge_runs(order[begin:stop], moment[begin:stop], other_order, other_moment)
        begin = stop
    return order


def merge_runs(order: Ints, moment: Ints, other_order: Ints, other_moment: Ints) -> None:
    """Sorts by moment in place, stable: merges neighbouring runs until there is one."""
    rows = len(order)
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
def _compiled() -> tuple[Any, Any] | None:
    """In machine code, from numba's cache but for the first time; None without numba."""
    try:
        import numba
        from numba.extending import register_jitable
    except ImportError:
        return None
    register_jitable(merge_runs)
    types: Any = numba.types
    given = types.Array(types.int64, 1, "C", readonly=True)
    ints, numbers = types.Array(types.int64, 1, "C"), types.Array(types.int32, 1, "C")
    return in_machine_code(number, ints(given, numbers)), in_machine_code(spread, ints(numbers, ints, given))
