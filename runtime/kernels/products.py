"""What all sequences of a group come to, without building one: their number, sums, least values.

An event takes partial sequences from one state to the next and leaves others where they are. That is a small matrix,
and the sequences in a window are the product of its matrices. Events leave a window at the one end as they come at the
other, and matrices have no inverses; so the window is kept as two stacks. For each event of the *front*, there is the
product from it to the end of the front; one product, that of the *back*, takes in what is new. When the front is used
up, the back becomes the front.

Numbers are elements of a semiring. Counts and sums are dual numbers: a count, and sums beside it, (c, s) * (d, t) =
(c d, c t + s d). Where the least value is asked for, + is the smaller of two, and so is *, unless one of them is
`zero`: no sequence at all; `one` is a sequence without a value.

Invariants
----------
Rows are sorted by (group, position), as in `sequences`. Simultaneous events make one matrix and take its steps side by
side: they do not see each other. A position of a group that changes nothing is no position here.
    weight[v]           what a step of variable v is multiplied with, by the events at hand
    back[r, s]          the product of the back, from state r to state s; without a window only r = 0, where all begin
    front[i]            for a position i of the front, by state: from state 0 before it to the end of the front
    first .. middle     the positions of the front; those of the back lie between it and `count`
    begins[i]           the rows at which position i begins and ends
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sase.runtime.kernels.compiled import in_machine_code
from sase.runtime.kernels.sequences import Events, Ints, each_array, read_only, table_types

Numbers = NDArray[Any]

FROM, TO, BY = range(3)
"""Columns of `Machine.steps`: an event of variable BY takes sequences from one state to another."""

FRESH, BITS, SPOILED = range(3)
"""Columns of `Machine.kills`: a negated event with one of these bits ends the sequences of FRESH, or moves them to
SPOILED, where only another event of their loop helps them; -1 if there is no such state."""

LARGE = 9.2e18
"""Whole numbers stay below; beyond 2**63, they would wrap around."""

TOO_LARGE = 2**63 - 1
"""A sum of simultaneous events that does not; no product with it does."""


class Machine(NamedTuple):
    """A pattern as integers; built by `machine.machine`. State 0 is that of no event."""

    states: int
    variables: int
    within: int  # 0: no window
    steps: Ints  # [step, 3], by target, then by source
    ends: Ints  # [step, 3]: those that complete a sequence; TO is not used
    kills: Ints  # [kill, 3]


def _times(one: Any, other: Any) -> Any:
    """Zero is stronger than infinity: there is no such sequence."""
    return one * other if one != 0 and other != 0 else 0


def _plus(one: Any, other: Any, exact: int) -> Any:
    """What is too large stays so."""
    if exact and (one == TOO_LARGE or abs(float(one) + float(other)) > LARGE):
        return TOO_LARGE
    return one + other


def _add(
    total: Numbers, at: int, left: Numbers, at_left: int, right: Numbers, at_right: int, elements: int, least: int,
    exact: int, zero: Any,
) -> bool:  # fmt: skip
    """total += left * right, of the numbers at these places, which may be the same ones; False where a whole number
    becomes too large."""
    a, b = left[at_left], right[at_right]
    if a == zero or b == zero:
        return True
    if least:
        total[at] = min(total[at], a, b)
        return True
    for j in range(elements):
        c, d = left[at_left + j], right[at_right + j]
        if exact:
            size = abs(float(total[at + j])) + abs(float(a) * float(d))
            if j > 0:
                size += abs(float(c) * float(b))
            if size > LARGE:
                return False
        total[at + j] += _times(a, d)
        if j > 0:
            total[at + j] += _times(c, b)
    return True


def _weigh(
    begin: int, end: int, states: Ints, least: int, exact: int, unit: Numbers, of: Ints, value: Numbers,
    weight: Numbers,
) -> int:  # fmt: skip
    """What the rows begin .. end of a position multiply with; returns their state bits."""
    bits, elements = 0, len(of)
    for at in range(len(weight)):
        weight[at] = unit[elements]
    for row in range(begin, end):
        bits |= states[row]
        for v in range(len(weight) // elements):
            if states[row] >> v & 1:
                at = v * elements
                if least:
                    weight[at] = min(weight[at], value[0, row] if of[0] == v else unit[0])
                else:
                    weight[at] += unit[0]
                    for j in range(1, elements):
                        if of[j] == v:
                            weight[at + j] = _plus(weight[at + j], value[j, row], exact)
    return bits


def _copy(target: Numbers, at: int, source: Numbers, begin: int, size: int) -> None:
    for j in range(size):
        target[at + j] = source[begin + j]


def _identity(matrix: Numbers, states: int, unit: Numbers, elements: int) -> None:
    for at in range(0, len(matrix), elements):
        _copy(matrix, at, unit, elements, elements)
    for r in range(len(matrix) // (states * elements)):
        matrix[(r * states + r) * elements] = unit[0]


def slide(
    machine: Machine, events: Events, least: int, exact: int, of: Ints, value: Numbers, unit: Numbers, weight: Numbers,
    back: Numbers, old: Numbers, front: Numbers, begins: Ints, totals: Numbers,
) -> int:  # fmt: skip
    """Fills `totals`, a number per group; returns the group whose numbers become too large, or -1.

    A number has as many elements as `of`, and tables of numbers are flat: a view of each number would cost more than
    to add it. `unit` is `one`, then `zero`. Element j > 0 sums value[j] over the events of variable of[j]; element 0
    counts sequences or, if the `least` is asked for, is the least value[0] of variable of[0].
    """
    steps, ends, kills, within = machine.steps, machine.ends, machine.kills, machine.within
    elements, states = len(of), machine.states
    row_size = states * elements
    zero = unit[elements]
    moving = 0
    for step in range(len(steps)):
        moving |= 1 << steps[step, BY]
    for kill in range(len(kills)):
        moving |= kills[kill, BITS]
    position, time, bits_of = events.position, events.time, events.states
    groups, told, since, stop = events.groups, events.fresh, events.since, events.stop
    sums = np.empty_like(unit)
    # Steps lead onwards, and come in the order of their targets: none of them takes what another has changed, backwards
    # in the product with what is new, and forwards in that with what was before. But killed sequences are elsewhere.
    in_place = len(kills) == 0
    was = back if in_place else old
    for group in range(len(groups) - 1):
        begin, end = groups[group], min(groups[group + 1], stop)
        _copy(totals, group * elements, unit, elements, elements)
        first = middle = count = 0
        _identity(back, states, unit, elements)
        while begin < end:
            later = begin + 1
            while later < end and position[later] == position[begin]:
                later += 1
            # What the window has left
            while within and first < count and not 0 <= time[begin] - time[begins[first, 0]] < within:
                if first == middle:  # the back becomes the front
                    middle = count
                    _identity(back, states, unit, elements)
                    for i in range(count - 1, first - 1, -1):
                        bits = _weigh(begins[i, 0], begins[i, 1], bits_of, least, exact, unit, of, value, weight)
                        if not in_place:
                            _copy(old, 0, back, 0, len(back))
                        for kill in range(len(kills)):
                            if bits & kills[kill, BITS]:
                                fresh, spoiled = kills[kill, FRESH], kills[kill, SPOILED]
                                if spoiled >= 0:
                                    _copy(back, fresh * row_size, old, spoiled * row_size, row_size)
                                else:
                                    for s in range(states):
                                        _copy(back, fresh * row_size + s * elements, unit, elements, elements)
                        for step in range(len(steps)):
                            by = steps[step, BY] * elements
                            if weight[by] == zero:
                                continue
                            source, target = steps[step, FROM] * row_size, steps[step, TO] * row_size
                            for s in range(0, row_size, elements):
                                if not _add(
                                    back, source + s, weight, by, was, target + s, elements, least, exact, zero
                                ):
                                    return group
                        _copy(front, i * row_size, back, 0, row_size)
                    _identity(back, states, unit, elements)
                first += 1
            bits = _weigh(begin, later, bits_of, least, exact, unit, of, value, weight)
            # Sequences that these events complete, if an earlier chunk, or micro-batch, has not told of them
            if later > told and time[begin] >= since:
                if begin < told:
                    _weigh(told, later, bits_of, least, exact, unit, of, value, weight)
                for step in range(len(ends)):
                    source, by = ends[step, FROM] * elements, ends[step, BY] * elements
                    if weight[by] == zero:
                        continue
                    if first == middle:
                        _copy(sums, 0, back, source, elements)
                    else:
                        _copy(sums, 0, unit, elements, elements)
                        for s in range(states):
                            at, to = first * row_size + s * elements, s * row_size + source
                            if not _add(sums, 0, front, at, back, to, elements, least, exact, zero):
                                return group
                    if not _add(totals, group * elements, sums, 0, weight, by, elements, least, exact, zero):
                        return group
                if begin < told:
                    _weigh(begin, later, bits_of, least, exact, unit, of, value, weight)
            # The product with their matrix
            if bits & moving:
                if not in_place:
                    _copy(old, 0, back, 0, len(back))
                for r in range(0, len(back), row_size):
                    for kill in range(len(kills)):
                        if bits & kills[kill, BITS]:
                            fresh, spoiled = kills[kill, FRESH], kills[kill, SPOILED]
                            _copy(back, r + fresh * elements, unit, elements, elements)
                            at, to = r + fresh * elements, r + spoiled * elements
                            if spoiled >= 0 and not _add(back, to, old, at, unit, 0, elements, least, exact, zero):
                                return group
                    for step in range(len(steps) - 1, -1, -1):
                        by = steps[step, BY] * elements
                        if weight[by] == zero:
                            continue
                        source, target = steps[step, FROM] * elements, steps[step, TO] * elements
                        if not _add(back, r + target, was, r + source, weight, by, elements, least, exact, zero):
                            return group
                begins[count, 0], begins[count, 1] = begin, later
                count += 1
            begin = later
    return -1


@cache
def _compiled() -> dict[str, Any] | None:
    """`slide` in machine code, for whole and for real numbers; None without numba."""
    try:
        import numba
        from numba.extending import register_jitable
    except ImportError:
        return None
    for helper in (_times, _plus, _add, _weigh, _copy, _identity):
        register_jitable(forceinline=True)(helper)
    types: Any = numba.types
    integer = types.int64
    given, given_table, _, kept_table, events = table_types()
    machine = types.BaseTuple.from_types([integer] * 3 + [given_table] * 3, Machine)

    def compiled(kind: Any) -> Any:
        values, table = (types.Array(kind, dimensions, "C") for dimensions in (2, 1))
        signature = integer(
            machine, events, integer, integer, given, values, table, table, table, table, table, kept_table, table
        )
        return in_machine_code(slide, signature)

    return {"i": compiled(integer), "f": compiled(types.float64)}


NONE, EMPTY = 2**62, 2**62 - 1
"""Where the least value is asked for: no sequence, and one without a value. Values are smaller."""


def folded(
    machine: Machine, events: Events, value: Numbers, of: Ints, *, least: bool = False, jit: bool = True
) -> tuple[Numbers, int]:
    """By group, the number of sequences and the sums of `value[1:]`, or the least of value[0]; and the group whose
    whole numbers become too large, or -1. Numbers are whole or real, as `value` is."""
    kind = value.dtype
    elements, rows = len(of), len(events.states)
    size = machine.states * elements
    unit = np.zeros(2 * elements, kind)
    unit[::elements] = (EMPTY, NONE) if least else (1, 0)
    arrays: list[Any] = [
        np.ascontiguousarray(value),
        unit,
        np.empty(machine.variables * elements, kind),
        np.empty((machine.states if machine.within else 1) * size, kind),
        np.empty(machine.states * size, kind),
        np.empty((rows if machine.within else 0) * size, kind),
        np.empty((rows, 2), np.int64),
        np.empty((len(events.groups) - 1) * elements, kind),
    ]
    tables: Any = (each_array(machine, read_only), each_array(events, read_only))
    compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
    run: Any = compiled[kind.kind] if compiled else slide
    with np.errstate(over="ignore"):
        wrong = run(*tables, int(least), int(kind.kind == "i" and not least), read_only(of), *arrays)
    return arrays[-1].reshape(-1, elements), wrong
