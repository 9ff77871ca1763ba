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
    steps: Ints  # [step, 3]
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


def _add(total: Numbers, left: Numbers, right: Numbers, least: int, exact: int, zero: Any) -> bool:
    """total += left * right; False where a whole number becomes too large."""
    a, b = left[0], right[0]
    if a == zero or b == zero:
        return True
    if least:
        total[0] = min(total[0], a, b)
        return True
    for j in range(len(total)):
        c, d = (a, b) if j == 0 else (a, right[j])
        if exact:
            size = abs(float(total[j])) + abs(float(c) * float(d))
            if j > 0:
                size += abs(float(left[j]) * float(b))
            if size > LARGE:
                return False
        total[j] += _times(c, d)
        if j > 0:
            total[j] += _times(left[j], b)
    return True


def _weigh(
    begin: int, end: int, states: Ints, least: int, exact: int, zero: Any, one: Any, of: Ints, value: Numbers,
    weight: Numbers,
) -> int:  # fmt: skip
    """What the rows begin .. end of a position multiply with; returns their state bits."""
    bits = 0
    weight[:, :] = zero
    for row in range(begin, end):
        bits |= states[row]
        for v in range(len(weight)):
            if states[row] >> v & 1:
                if least:
                    weight[v, 0] = min(weight[v, 0], value[0, row] if of[0] == v else one)
                else:
                    weight[v, 0] += one
                    for j in range(1, len(of)):
                        if of[j] == v:
                            weight[v, j] = _plus(weight[v, j], value[j, row], exact)
    return bits


def _identity(matrix: Numbers, zero: Any, one: Any) -> None:
    matrix[:, :, :] = zero
    if zero != 0:
        matrix[:, :, 1:] = 0
    for r in range(len(matrix)):
        matrix[r, r, 0] = one


def slide(
    machine: Machine, events: Events, least: int, exact: int, of: Ints, value: Numbers, unit: Numbers, weight: Numbers,
    back: Numbers, old: Numbers, front: Numbers, begins: Ints, totals: Numbers,
) -> int:  # fmt: skip
    """Fills `totals`, one row per group; returns the group whose numbers become too large, or -1.

    `unit` is the element `one` in row 0, and `zero` in row 1. Element j > 0 sums value[j] over the events of variable
    of[j]; element 0 counts sequences or, if the `least` is asked for, is the least value[0] of variable of[0].
    """
    one, zero = unit[0, 0], unit[1, 0]
    moving = 0
    for step in range(len(machine.steps)):
        moving |= 1 << machine.steps[step, BY]
    for kill in range(len(machine.kills)):
        moving |= machine.kills[kill, BITS]
    position, time = events.position, events.time
    sums = np.empty_like(unit[0])
    for group in range(len(events.groups) - 1):
        begin, end = events.groups[group], min(events.groups[group + 1], events.stop)
        totals[group, :] = unit[1]
        first = middle = count = 0
        _identity(back, zero, one)
        while begin < end:
            later = begin + 1
            while later < end and position[later] == position[begin]:
                later += 1
            # What the window has left
            while machine.within and first < count and not 0 <= time[begin] - time[begins[first, 0]] < machine.within:
                if first == middle:  # the back becomes the front
                    middle = count
                    _identity(back, zero, one)
                    for i in range(count - 1, first - 1, -1):
                        bits = _weigh(
                            begins[i, 0], begins[i, 1], events.states, least, exact, zero, one, of, value, weight
                        )
                        old[:, :, :] = back
                        for kill in range(len(machine.kills)):
                            if bits & machine.kills[kill, BITS]:
                                fresh, spoiled = machine.kills[kill, FRESH], machine.kills[kill, SPOILED]
                                for s in range(machine.states):
                                    back[fresh, s] = old[spoiled, s] if spoiled >= 0 else unit[1]
                        for step in range(len(machine.steps)):
                            source, target, by = machine.steps[step]
                            if weight[by, 0] != zero:
                                for s in range(machine.states):
                                    if not _add(back[source, s], weight[by], old[target, s], least, exact, zero):
                                        return group
                        front[i] = back[0]
                    _identity(back, zero, one)
                first += 1
            bits = _weigh(begin, later, events.states, least, exact, zero, one, of, value, weight)
            # Sequences that these events complete, if an earlier chunk, or micro-batch, has not told of them
            if later > events.fresh and time[begin] >= events.since:
                if begin < events.fresh:
                    _weigh(events.fresh, later, events.states, least, exact, zero, one, of, value, weight)
                for step in range(len(machine.ends)):
                    source, by = machine.ends[step, FROM], machine.ends[step, BY]
                    if weight[by, 0] == zero:
                        continue
                    if first == middle:
                        sums[:] = back[0, source]
                    else:
                        sums[:] = unit[1]
                        for s in range(machine.states):
                            if not _add(sums, front[first, s], back[s, source], least, exact, zero):
                                return group
                    if not _add(totals[group], sums, weight[by], least, exact, zero):
                        return group
                if begin < events.fresh:
                    _weigh(begin, later, events.states, least, exact, zero, one, of, value, weight)
            # The product with their matrix
            if bits & moving:
                old[: len(back)] = back
                for r in range(len(back)):
                    for kill in range(len(machine.kills)):
                        if bits & machine.kills[kill, BITS]:
                            fresh, spoiled = machine.kills[kill, FRESH], machine.kills[kill, SPOILED]
                            back[r, fresh] = unit[1]
                            if spoiled >= 0 and not _add(back[r, spoiled], old[r, fresh], unit[0], least, exact, zero):
                                return group
                    for step in range(len(machine.steps)):
                        source, target, by = machine.steps[step]
                        if not _add(back[r, target], old[r, source], weight[by], least, exact, zero):
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
    for helper in (_times, _plus, _add, _weigh, _identity):
        register_jitable(helper)
    types: Any = numba.types
    integer = types.int64
    given, given_table, _, kept_table, events = table_types()
    machine = types.BaseTuple.from_types([integer] * 3 + [given_table] * 3, Machine)

    def compiled(kind: Any) -> Any:
        values, table, cube = (types.Array(kind, dimensions, "C") for dimensions in (2, 2, 3))
        signature = integer(
            machine, events, integer, integer, given, values, table, table, cube, cube, cube, kept_table, table
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
    size, elements = machine.states, len(of)
    unit = np.zeros((2, elements), kind)
    unit[:, 0] = (EMPTY, NONE) if least else (1, 0)
    rows = len(events.states)
    arrays: list[Any] = [
        np.ascontiguousarray(value),
        unit,
        np.empty((machine.variables, elements), kind),
        np.empty((size if machine.within else 1, size, elements), kind),
        np.empty((size, size, elements), kind),
        np.empty((rows if machine.within else 0, size, elements), kind),
        np.empty((rows, 2), np.int64),
        np.empty((len(events.groups) - 1, elements), kind),
    ]
    tables: Any = (each_array(machine, read_only), each_array(events, read_only))
    compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
    run: Any = compiled[kind.kind] if compiled else slide
    with np.errstate(over="ignore"):
        wrong = run(*tables, int(least), int(kind.kind == "i" and not least), read_only(of), *arrays)
    return arrays[-1], wrong
