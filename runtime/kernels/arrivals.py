"""Aggregates over a moving window, exact: compiled where there is numba.

A value is two 64-bit words. A whole number (of an integer, or of a decimal's last digit) is 128 bits in two's
complement; a double is its bits, in `high`; what is compared are words of the same order, `low` without a sign.

Invariants
----------
A sum is whole numbers of 2^(32 i - 1088), its *limbs*: each double and each whole number adds less than 2^32 to one,
so that 2^31 of them fit. What is added is taken out again without a trace, and the sum is rounded once, when it is
asked for: to the nearest double, and of two that are as near, to the even one. `edges` are the lowest and the highest
limb that was ever touched. Rows are sorted by slice and place; of those that share a place, all are in before one is
answered.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sase.runtime.kernels.compiled import in_machine_code
from sase.runtime.kernels.sequences import Ints

Truths = NDArray[np.bool]

COUNT, WHOLE, REAL = 0, 1, 2
"""What is added: nothing but one to the count, a whole number, a double."""
AVERAGE, TOTAL = 0, 1
"""What is answered: the quotient as a double, or the sum: a double, or the two words of a whole number."""

LIMBS = 72
ONE = 34
"""The limb of 1: below it is what a double may have of a fraction."""
_MASK = 0xFFFFFFFF

NUMBER, NAN, ABOVE, BELOW = 0, 1, 2, 3
"""How many values there are, and how many of them are NaN, infinity and its opposite."""


def add(limbs: Ints, edges: Ints, counts: Ints, kind: int, high: int, low: int, times: int) -> None:
    """Adds a value, or takes one out: `times` is 1 or -1."""
    counts[NUMBER] += times
    if kind == COUNT:
        return
    if kind == WHOLE:
        limbs[ONE] += times * (low & _MASK)
        limbs[ONE + 1] += times * ((low >> 32) & _MASK)
        limbs[ONE + 2] += times * (high & _MASK)
        limbs[ONE + 3] += times * (high >> 32)
        edges[0], edges[1] = min(edges[0], ONE), max(edges[1], ONE + 3)
        return
    exponent = (high >> 52) & 0x7FF
    mantissa = high & 0xFFFFFFFFFFFFF
    if exponent == 0x7FF:
        counts[NAN if mantissa != 0 else BELOW if high < 0 else ABOVE] += times
        return
    if exponent != 0:
        mantissa |= 1 << 52
    if high < 0:
        times = -times
    place = max(exponent, 1) + 13  # the mantissa counts 2^(exponent - 1075)
    limb, shift = place >> 5, place & 31
    bottom = (mantissa & _MASK) << (shift >> 1)
    bottom_low = (bottom & _MASK) << (shift - (shift >> 1))
    rest = ((bottom >> 32) << (shift - (shift >> 1))) + (bottom_low >> 32) + ((mantissa >> 32) << shift)
    limbs[limb] += times * (bottom_low & _MASK)
    limbs[limb + 1] += times * (rest & _MASK)
    limbs[limb + 2] += times * (rest >> 32)
    edges[0], edges[1] = min(edges[0], limb), max(edges[1], limb + 2)


def normalised(limbs: Ints, edges: Ints, digits: Ints) -> bool:
    """Writes the sum's magnitude as digits of 32 bits, eight places higher; returns whether it is negative."""
    for at in range(max(0, min(edges[0] - 3, ONE)), max(edges[1], ONE + 4) + 10):
        digits[at] = 0
    carry = 0
    for limb in range(edges[0], edges[1] + 1):
        carry += limbs[limb]
        digits[limb + 8] = carry & _MASK
        carry >>= 32
    if carry >= 0:
        digits[edges[1] + 9] = carry
        return False
    borrow = 0
    for limb in range(edges[0], edges[1] + 1):
        borrow -= digits[limb + 8]
        digits[limb + 8] = borrow & _MASK
        borrow >>= 32
    digits[edges[1] + 9] = borrow - carry
    return True


def divided(digits: Ints, bottom: int, top: int, by: int) -> bool:
    """Divides by less than 2^31, in place; returns whether something is left over."""
    rest = 0
    for at in range(top, bottom - 1, -1):
        part = (rest << 32) | digits[at]
        digits[at] = np.uint64(part) // np.uint64(by)  # without a sign, it takes a third less
        rest = part - digits[at] * by
    return rest != 0


def nearest(digits: Any, bottom: int, top: int, more: bool) -> Any:
    """The bits of the double that is nearest to the digits, and a little `more` than they say."""
    while top > bottom and digits[top] == 0:
        top -= 1
    if digits[top] == 0:
        return 0
    length = 1
    for step in (16, 8, 4, 2, 1):
        if digits[top] >> (length + step - 1) != 0:
            length += step
    # 62 bits: of the highest digit `length`, then 32, then 30 - length; so that they are never taken for negative.
    second = digits[top - 1] if top > bottom else 0
    third = digits[top - 2] if top > bottom + 1 else 0
    if length <= 30:
        bits = (digits[top] << (62 - length)) | (second << (30 - length)) | (third >> (2 + length))
        more = more or (third & ((1 << (2 + length)) - 1)) != 0
    else:
        bits = (digits[top] << (62 - length)) | (second >> (length - 30))
        more = more or (second & ((1 << (length - 30)) - 1)) != 0 or third != 0
    for at in range(top - 3, bottom - 1, -1):
        if digits[at] != 0:
            more = True
            break
    exponent = (top - 8) * 32 + length - 1 - 1088
    if exponent > 1023:
        return 0x7FF << 52
    dropped = 9 if exponent >= -1022 else 9 + (-1022 - exponent)
    if dropped > 62:
        return 0
    kept, rest, half = bits >> dropped, bits & ((1 << dropped) - 1), 1 << (dropped - 1)
    if rest > half or (rest == half and (more or kept & 1 == 1)):
        kept += 1
    if exponent < -1022:
        return kept
    return ((exponent + 1022) << 52) + kept  # the leading bit of `kept` adds the last 1


def quotient(limbs: Ints, edges: Ints, digits: Ints, divisors: Ints) -> Any:
    """The bits of the sum as a double, divided by all the divisors."""
    if edges[0] > edges[1]:
        return 0
    negative = normalised(limbs, edges, digits)
    top = edges[1] + 9
    while top > edges[0] + 8 and digits[top] == 0:
        top -= 1
    bottom = max(0, min(edges[0] + 8, top - 3 - len(divisors)))
    more = False
    for at in range(len(divisors)):
        more = divided(digits, bottom, top, divisors[at]) or more
    bits = nearest(digits, bottom, top, more)
    return bits | (-1 << 63) if negative else bits


def quick(limbs: Ints, edges: Ints, powers: Any, by: int) -> float:
    """The quotient by doubles, where that is known to be the nearest one; NaN where it is not. (Exact digits take ten
    times as long, and are hardly ever needed.)

    The sum becomes two doubles, `high` and `low`; what they may be off by, less than 2^-88 of all that was added, is
    known. The product of the quotient and the divisor is exact in halves of them (Dekker), so its distance from the sum
    corrects the quotient. If the correction, made smaller and larger by what it may be off by, comes to the same
    double, that is the nearest.
    """
    bottom, top = edges[0], edges[1]
    if bottom < 8 or top > 60:  # what is too small or too large for halves of it
        return np.nan
    high = low = size = 0.0
    for limb in range(top, bottom - 1, -1):
        value = limbs[limb]
        for half in range(1 if -(1 << 53) <= value <= 1 << 53 else 2):  # a double for each
            part = value * powers[limb]
            if half == 1:
                part = (value & _MASK) * powers[limb]
            elif not -(1 << 53) <= value <= 1 << 53:
                part = (value >> 32) * 4294967296.0 * powers[limb]
            size += abs(part)
            total = high + part
            there = total - high
            low += (high - (total - there)) + (part - there)
            high = total
    total = high + low
    low -= total - high
    high = total
    first = high / by
    wide = 134217729.0 * first
    front = wide - (wide - first)
    back = first - front
    above, below = (by >> 16) * 65536.0, (by & 0xFFFF) * 1.0
    product = first * by
    missing = ((front * above - product) + front * below + back * above) + back * below
    more = (((high - product) - missing) + low) / by
    off = abs(more) * 2.0**-50 + size / by * 2.0**-88
    least, most = first + (more - off), first + (more + off)
    return least if least == most else np.nan


def whole(limbs: Ints, edges: Ints, digits: Ints, words: Ints, long: bool) -> bool:
    """Writes the two words of the sum; False if it does not fit into 64 bits, or, if it is `long`, into 127."""
    words[0] = words[1] = 0
    if edges[0] > edges[1]:
        return True
    negative = normalised(limbs, edges, digits)
    at = ONE + 8
    for limb in range(at + (4 if long else 2), edges[1] + 10):
        if digits[limb] != 0:
            return False
    is_least = not long and negative and digits[at + 1] == 1 << 31 and digits[at] == 0
    if digits[at + (3 if long else 1)] >> 31 != 0 and not is_least:
        return False
    if negative:
        borrow = 0
        for digit in range(at, at + 4):
            borrow -= digits[digit]
            digits[digit] = borrow & _MASK
            borrow >>= 32
    words[1] = digits[at] | (digits[at + 1] << 32)
    words[0] = digits[at + 2] | (digits[at + 3] << 32)
    return True


def sums(
    kind: int,
    answer: int,
    within: int,
    start: int,
    slices: Ints,
    ticks: Ints,
    begins: Truths,
    high: Ints,
    low: Ints,
    feeds: Truths,
    wanted: Truths,
    divisors: Ints,
    limbs: Ints,
    counts: Ints,
    edges: Ints,
    current: Ints,
    base_slices: Ints,
    base_limbs: Ints,
    base_counts: Ints,
    out_high: Ints,
    out_low: Ints,
    known: Truths,
) -> tuple[int, int]:
    """Answers the rows that are `wanted`. Those before `start` are in the sum, and may leave it.

    `limbs`, `counts` and `edges` are the sum of slice `current[1]`, if `current[0]` says that there is one. `within` is
    -1 without a window, `begins` marks the first row of each place, and `divisors` has room for the count before what a
    sum is divided by in any case. Returns the first row that is still inside, and one whose sum does not fit, or -1.
    """
    digits, words = np.zeros(LIMBS + 12, np.int64), np.zeros(2, np.int64)
    powers, real = 2.0 ** (32.0 * np.arange(LIMBS - 8) - 1088), np.zeros(1)
    bits = real.view(np.int64)
    rows, begin, row = len(ticks), 0, start
    while row < rows:
        stop = row + 1
        while stop < rows and not begins[stop]:
            stop += 1
        if current[0] == 0 or slices[row] != current[1]:
            begin = row
            current[0], current[1] = 1, slices[row]
            limbs[:] = 0
            counts[:] = 0
            edges[0], edges[1] = LIMBS, -1
            at = np.searchsorted(base_slices, slices[row])
            if at < len(base_slices) and base_slices[at] == slices[row]:
                for limb in range(LIMBS):
                    limbs[limb] = base_limbs[at, limb]
                    if limbs[limb] != 0:
                        edges[0], edges[1] = min(edges[0], limb), max(edges[1], limb)
                for each in range(4):
                    counts[each] = base_counts[at, each]
        asked = False
        for each in range(row, stop):
            if feeds[each]:
                add(limbs, edges, counts, kind, high[each], low[each], 1)
            asked = asked or wanted[each]
        if asked:
            if within >= 0:
                while begin < stop and (not feeds[begin] or ticks[begin] <= ticks[row] - within):
                    if feeds[begin]:
                        add(limbs, edges, counts, kind, high[begin], low[begin], -1)
                    begin += 1
            there = True
            value_high = value_low = 0
            if kind == COUNT:
                value_low = counts[NUMBER]
            elif counts[NUMBER] == 0:
                there = False
            elif counts[NAN] > 0 or (counts[ABOVE] > 0 and counts[BELOW] > 0):
                value_low = 0x7FF8 << 48
            elif counts[ABOVE] > 0:
                value_low = 0x7FF << 52
            elif counts[BELOW] > 0:
                value_low = -1 << 52
            elif answer == AVERAGE or kind == REAL:
                divisors[0] = counts[NUMBER] if answer == AVERAGE else 1
                real[0] = quick(limbs, edges, powers, divisors[0]) if len(divisors) == 1 else np.nan
                value_low = bits[0] if real[0] == real[0] else quotient(limbs, edges, digits, divisors)
            else:
                if not whole(limbs, edges, digits, words, len(out_high) > 0):
                    return begin, row
                value_high, value_low = words[0], words[1]
            for each in range(row, stop):
                if wanted[each]:
                    known[each] = there
                    out_low[each] = value_low
                    if len(out_high) > 0:
                        out_high[each] = value_high
        row = stop
    return begin, -1


def gathered(
    kind: int, group: Ints, high: Ints, low: Ints, feeds: Truths, limbs: Ints, counts: Ints, edges: Ints
) -> None:
    """The sums of groups, by their numbers."""
    for row in range(len(group)):
        if feeds[row]:
            at = group[row]
            add(limbs[at], edges[at], counts[at], kind, high[row], low[row], 1)


def is_better(most: bool, high: int, low: int, other_high: int, other_low: int) -> bool:
    """Or as good."""
    if high != other_high:
        return (high > other_high) == most
    if low == other_low:
        return True
    return ((low ^ (-1 << 63)) > (other_low ^ (-1 << 63))) == most


def extremes(
    most: bool,
    within: int,
    slices: Ints,
    ticks: Ints,
    begins: Truths,
    high: Ints,
    low: Ints,
    feeds: Truths,
    wanted: Truths,
    base_slices: Ints,
    base_high: Ints,
    base_low: Ints,
    out_high: Ints,
    out_low: Ints,
    known: Truths,
    queue: Ints,
) -> tuple[int, int]:
    """The greatest (`most`) or the least value of each wanted row's window, by a queue in which each value is better
    than all behind it. Returns where the queue begins and ends."""
    rows, row, head, tail = len(ticks), 0, 0, 0
    base = -1
    while row < rows:
        stop = row + 1
        while stop < rows and not begins[stop]:
            stop += 1
        if row == 0 or slices[row] != slices[row - 1]:
            head = tail = 0
            at = np.searchsorted(base_slices, slices[row])
            base = at if at < len(base_slices) and base_slices[at] == slices[row] else -1
        asked = False
        for each in range(row, stop):
            if feeds[each]:
                while tail > head and is_better(
                    most, high[each], low[each], high[queue[tail - 1]], low[queue[tail - 1]]
                ):
                    tail -= 1
                queue[tail] = each
                tail += 1
            asked = asked or wanted[each]
        if asked:
            while within >= 0 and head < tail and ticks[queue[head]] <= ticks[row] - within:
                head += 1
            there = True
            value_high = value_low = 0
            if head < tail:
                value_high, value_low = high[queue[head]], low[queue[head]]
                if base >= 0 and is_better(most, base_high[base], base_low[base], value_high, value_low):
                    value_high, value_low = base_high[base], base_low[base]
            elif base >= 0:
                value_high, value_low = base_high[base], base_low[base]
            else:
                there = False
            for each in range(row, stop):
                if wanted[each]:
                    known[each] = there
                    out_high[each], out_low[each] = value_high, value_low
        row = stop
    return head, tail


def best(
    most: bool, group: Ints, high: Ints, low: Ints, feeds: Truths, out_high: Ints, out_low: Ints, known: Truths
) -> None:
    """The greatest or the least value of groups, by their numbers."""
    for row in range(len(group)):
        at = group[row]
        if feeds[row] and (not known[at] or is_better(most, high[row], low[row], out_high[at], out_low[at])):
            known[at] = True
            out_high[at], out_low[at] = high[row], low[row]


_HELPERS = (add, normalised, divided, nearest, quotient, quick, whole, is_better)
_KERNELS = {"sums": sums, "gathered": gathered, "extremes": extremes, "best": best}


@cache
def _compiled() -> dict[str, Any] | None:
    """In machine code, from numba's cache but for the first time; None without numba."""
    try:
        import numba
        from numba.extending import register_jitable
    except ImportError:
        return None
    for helper in _HELPERS:
        register_jitable(helper)
    types: Any = numba.types
    number, truth = types.int64, types.boolean
    given, marks = (types.Array(kind, 1, "C", readonly=True) for kind in (number, truth))
    ints, truths = types.Array(number, 1, "C"), types.Array(truth, 1, "C")
    table, given_table = types.Array(number, 2, "C"), types.Array(number, 2, "C", readonly=True)
    pair = types.UniTuple(number, 2)
    rows = (given, given, marks, given, given, marks, marks)
    signatures = {
        "sums": pair(
            *(number, number, number, number, *rows, ints, ints, ints, ints, ints),
            *(given, given_table, given_table, ints, ints, truths),
        ),
        "gathered": types.void(number, given, given, given, marks, table, table, table),
        "extremes": pair(truth, number, *rows, given, given, given, ints, ints, truths, ints),
        "best": types.void(truth, given, given, given, marks, ints, ints, truths),
    }
    return {name: in_machine_code(_KERNELS[name], signature) for name, signature in signatures.items()}


def kernel(name: str, jit: bool = True) -> Any:
    """`sums`, `gathered`, `extremes` or `best`."""
    compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
    return (compiled or _KERNELS)[name]
