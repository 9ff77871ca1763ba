"""Conditions on the rows that a match has mapped so far, as programs of integers.

A condition is a program for a stack: values are pushed, operators take what is on top. Which operators there are for
integers and which for floats is decided when the types of the columns are known, so nothing is asked here. Exact
numbers are integers: a decimal is its digits, and a time its microseconds. What is compared and not counted with, such
as a text, is its rank among the values of the chunk.

Invariants
----------
The rows that were mapped so far are the trail: element k is the row `start + k`, with the position label[used + k]. For
each element, and each set of variables that a condition speaks of, `Trail` has what the elements up to it come to. So
what is tried at a depth overwrites what was tried there before, and nothing is undone.
    last[s, k]      the last element up to k that is of set s, or -1
    counts[s, k]    how many there are
    nth[a, k]       for address a, which is a FIRST: its element, or -1
    whole[g, k], real[g, k], seen[g, k]
                    for aggregate g: the sum, or the least or greatest value so far, and of how many values
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Labels = NDArray[np.integer[Any]]

(
    LOAD, LOAD_REAL, CONSTANT, NOTHING, COUNT, AGGREGATE, AGGREGATE_REAL, NUMBER, LABEL, TO_REAL,
    ADD, SUBTRACT, MULTIPLY, ADD_REAL, SUBTRACT_REAL, MULTIPLY_REAL, DIVIDE_REAL,
    COMPARE, COMPARE_REAL, AND, OR, NOT, IS_NULL, IS_TRUE, IF, IF_REAL,
) = range(26)  # fmt: skip
"""Operations. The second column of a program is what they are about: an address, a constant, an aggregate, or for
comparisons one of EQ .. GE; the third the term, for TO_REAL how many digits are behind the point, for aggregates 1
where the row at hand is left out, and for LABEL how many rows further the row is."""

EQ, NE, LT, LE, GT, GE = range(6)

SUM, LEAST, GREATEST = range(3)

SET, IS_FIRST, OFFSET, BEFORE = range(4)
"""Columns of `Conditions.addresses`. A set of -1 is that of all variables; 1 in BEFORE leaves out the row at hand."""

GROUPED, FUNCTION, TERM, IS_REAL, IS_DISTINCT = range(5)
"""Columns of `Conditions.aggregates`; a term of -1 counts rows. With 1 in the last, equal values count once."""

ERROR = -1
"""A number is too large."""

_LARGE = 9.2e18


class Conditions(NamedTuple):
    program: Ints  # [instruction, 3], those of all variables one behind the other
    begins: Ints  # [position + 1]: the program of its variable, empty where there is none,
    ends: Ints  # and where it ends
    constants: Ints
    addresses: Ints  # [address, 4]
    sets: Ints  # [set, position]: 1 if it is of the set
    aggregates: Ints  # [aggregate, 5]
    variable: Ints  # [position]: the number of its variable


class Terms(NamedTuple):
    """Columns of the rows of a chunk: [term, row]."""

    whole: Ints
    real: Floats
    missing: Ints
    same: Ints  # the row before with the same value, or -1: of terms that an aggregate with DISTINCT asks for


class Trail(NamedTuple):
    choice: Ints
    last: Ints
    counts: Ints
    nth: Ints
    whole: Ints
    real: Floats
    seen: Ints
    stack: Ints
    stack_real: Floats
    stack_null: Ints
    tried: Ints  # [position]: how often
    spent: Ints  # steps, and how many there may be


def _table(*shape: int) -> Ints:
    return np.zeros(shape, np.int64)


NO_CONDITIONS = Conditions(
    _table(0, 3), _table(0), _table(0), _table(0), _table(0, 4), _table(0, 0), _table(0, 5), _table(0)
)
NO_TERMS = Terms(_table(0, 0), np.zeros((0, 0)), _table(0, 0), _table(0, 0))


def new_trail(conditions: Conditions, rows: int, positions: int, budget: int) -> Trail:
    """An element is written down before it is looked at, so what there is of each element begins with anything."""
    rows = rows + 1 if len(conditions.program) else 0
    sets, addresses, aggregates = len(conditions.sets), len(conditions.addresses), len(conditions.aggregates)
    deep = len(conditions.program) + 1
    return Trail(
        choice=np.empty(rows, np.int64),
        last=np.empty((sets, rows), np.int64),
        counts=np.empty((sets, rows), np.int64),
        nth=np.empty((addresses, rows), np.int64),
        whole=np.empty((aggregates, rows), np.int64),
        real=np.empty((aggregates, rows)),
        seen=np.empty((aggregates, rows), np.int64),
        stack=_table(deep),
        stack_real=np.zeros(deep),
        stack_null=_table(deep),
        tried=_table(positions),
        spent=np.array([0, budget], np.int64),
    )


def _order(left: float, right: float) -> int:
    """-1, 0 or 1, in Spark's order of floats: NaN is itself and above everything."""
    if left != left:
        return 0 if right != right else 1
    if right != right or left < right:
        return -1
    return 0 if left == right else 1


def _compared(operator: int, order: int) -> int:
    if operator == EQ:
        return 1 if order == 0 else 0
    if operator == NE:
        return 1 if order != 0 else 0
    if operator == LT:
        return 1 if order < 0 else 0
    if operator == LE:
        return 1 if order <= 0 else 0
    if operator == GT:
        return 1 if order > 0 else 0
    return 1 if order >= 0 else 0


def _note(
    conditions: Conditions, terms: Terms, trail: Trail, label: Labels, used: int, depth: int, row: int
) -> bool:  # fmt: skip
    """Writes down what the trail comes to with the element at `depth`; False if a sum is too large."""
    position, here = label[used + depth], row + depth
    for s in range(len(conditions.sets)):
        inside = conditions.sets[s, position] == 1
        before = trail.last[s, depth - 1] if depth else -1
        trail.last[s, depth] = depth if inside else before
        trail.counts[s, depth] = (trail.counts[s, depth - 1] if depth else 0) + (1 if inside else 0)
    for a in range(len(conditions.addresses)):
        if conditions.addresses[a, IS_FIRST] == 1:
            s = conditions.addresses[a, SET]
            inside = s < 0 or conditions.sets[s, position] == 1
            counted = depth + 1 if s < 0 else trail.counts[s, depth]
            if inside and counted == conditions.addresses[a, OFFSET] + 1:
                trail.nth[a, depth] = depth
            else:
                trail.nth[a, depth] = trail.nth[a, depth - 1] if depth else -1
    for g in range(len(conditions.aggregates)):
        s, function, term = (
            conditions.aggregates[g, GROUPED], conditions.aggregates[g, FUNCTION], conditions.aggregates[g, TERM],
        )  # fmt: skip
        seen = trail.seen[g, depth - 1] if depth else 0
        whole = trail.whole[g, depth - 1] if depth else 0
        real = trail.real[g, depth - 1] if depth else 0.0
        counts = (s < 0 or conditions.sets[s, position] == 1) and (term < 0 or terms.missing[term, here] == 0)
        if counts and conditions.aggregates[g, IS_DISTINCT] == 1:
            earlier = terms.same[term, here]
            while earlier >= row and s >= 0 and conditions.sets[s, label[used + earlier - row]] == 0:
                earlier = terms.same[term, earlier]
            counts = earlier < row
        if counts:
            if term >= 0 and conditions.aggregates[g, IS_REAL] == 1:
                value = terms.real[term, here]
                if function == SUM:
                    real += value
                elif seen == 0 or _order(value, real) == (-1 if function == LEAST else 1):
                    real = value
            elif term >= 0:
                number = terms.whole[term, here]
                if function == SUM:
                    if abs(float(whole) + float(number)) > _LARGE:
                        return False
                    whole += number
                elif seen == 0 or (number < whole if function == LEAST else number > whole):
                    whole = number
            seen += 1
        trail.seen[g, depth] = seen
        trail.whole[g, depth] = whole
        trail.real[g, depth] = real
    return True


def _element(conditions: Conditions, trail: Trail, address: int, depth: int) -> int:
    """The element of the trail that an address means, or -1."""
    s, offset = conditions.addresses[address, SET], conditions.addresses[address, OFFSET]
    element: int = trail.nth[address, depth]
    if conditions.addresses[address, IS_FIRST] == 1:
        return element
    if s < 0:
        return depth - offset if offset <= depth else -1
    element = trail.last[s, depth]
    while offset > 0 and element > 0:
        element = trail.last[s, element - 1]
        offset -= 1
    return element if offset == 0 else -1


def holds(
    conditions: Conditions, terms: Terms, trail: Trail, label: Labels, used: int, depth: int, row: int, number: int
) -> int:  # fmt: skip
    """1 if the last element of the trail meets the condition of its variable, 0 if not; or ERROR."""
    if not _note(conditions, terms, trail, label, used, depth, row):
        return ERROR
    program, stack, reals, nulls = conditions.program, trail.stack, trail.stack_real, trail.stack_null
    position = label[used + depth]
    begin, end = conditions.begins[position], conditions.ends[position]
    if begin == end:
        return 1
    top = -1
    for at in range(begin, end):
        operation, about, term = program[at, 0], program[at, 1], program[at, 2]
        if operation in (LOAD, LOAD_REAL, LABEL):
            top += 1
            known = depth - conditions.addresses[about, BEFORE]
            element = _element(conditions, trail, about, known) if known >= 0 else -1
            if operation == LABEL and element >= 0:
                element = element + term if element + term <= depth else -1
            nulls[top] = 1 if element < 0 else 0
            if element >= 0:
                if operation == LABEL:
                    stack[top] = conditions.variable[label[used + element]]
                else:
                    nulls[top] = terms.missing[term, row + element]
                    if operation == LOAD:
                        stack[top] = terms.whole[term, row + element]
                    else:
                        reals[top] = terms.real[term, row + element]
        elif operation == CONSTANT:
            top += 1
            nulls[top] = 0
            stack[top] = conditions.constants[about]
        elif operation == NOTHING:
            top += 1
            nulls[top] = 1
        elif operation == COUNT:
            top += 1
            nulls[top] = 0
            stack[top] = trail.seen[about, depth - term] if depth >= term else 0
        elif operation in (AGGREGATE, AGGREGATE_REAL):
            top += 1
            nulls[top] = 1 if depth < term or trail.seen[about, depth - term] == 0 else 0
            if nulls[top] == 0:
                if operation == AGGREGATE:
                    stack[top] = trail.whole[about, depth - term]
                else:
                    reals[top] = trail.real[about, depth - term]
        elif operation == NUMBER:
            top += 1
            nulls[top] = 0
            stack[top] = number
        elif operation == TO_REAL:
            reals[top] = stack[top] / 10.0**term
        elif operation == NOT:
            stack[top] = 1 - stack[top]
        elif operation == IS_TRUE:
            stack[top] = 1 if nulls[top] == 0 and stack[top] == 1 else 0
            nulls[top] = 0
        elif operation == IS_NULL:
            stack[top] = nulls[top]
            nulls[top] = 0
        elif operation in (IF, IF_REAL):
            top -= 2
            chosen = top + 1 if nulls[top] == 0 and stack[top] == 1 else top + 2
            nulls[top] = nulls[chosen]
            if operation == IF:
                stack[top] = stack[chosen]
            else:
                reals[top] = reals[chosen]
        elif operation in (AND, OR):
            top -= 1
            deciding = 0 if operation == AND else 1
            left = nulls[top] == 0 and stack[top] == deciding
            right = nulls[top + 1] == 0 and stack[top + 1] == deciding
            if left or right:
                stack[top] = deciding
                nulls[top] = 0
            elif nulls[top] == 1 or nulls[top + 1] == 1:
                nulls[top] = 1
            else:
                stack[top] = 1 - deciding
        else:
            top -= 1
            if nulls[top] == 1 or nulls[top + 1] == 1:
                nulls[top] = 1
            elif operation == COMPARE:
                left_value, right_value = stack[top], stack[top + 1]
                order = -1 if left_value < right_value else 1 if left_value > right_value else 0
                stack[top] = _compared(about, order)
            elif operation == COMPARE_REAL:
                stack[top] = _compared(about, _order(reals[top], reals[top + 1]))
            elif operation == ADD_REAL:
                reals[top] += reals[top + 1]
            elif operation == SUBTRACT_REAL:
                reals[top] -= reals[top + 1]
            elif operation == MULTIPLY_REAL:
                reals[top] *= reals[top + 1]
            elif operation == DIVIDE_REAL:
                if reals[top + 1] == 0.0:
                    nulls[top] = 1
                else:
                    reals[top] /= reals[top + 1]
            else:
                x, y = float(stack[top]), float(stack[top + 1])
                size = abs(x + y) if operation == ADD else abs(x - y) if operation == SUBTRACT else abs(x * y)
                if size > _LARGE:
                    return ERROR
                if operation == ADD:
                    stack[top] += stack[top + 1]
                elif operation == SUBTRACT:
                    stack[top] -= stack[top + 1]
                else:
                    stack[top] *= stack[top + 1]
    return 1 if nulls[0] == 0 and stack[0] == 1 else 0


HELPERS = (_order, _compared, _note, _element, holds)


def signatures(types: Any) -> tuple[Any, Any, Any]:
    """numba's types of `Conditions`, `Terms` and `Trail`."""
    named = types.BaseTuple.from_types

    def array(kind: Any, dimensions: int, given: bool) -> Any:
        return types.Array(kind, dimensions, "C", readonly=given)

    def kinds(example: Any, given: bool) -> list[Any]:
        return [
            array(types.float64 if field.dtype == np.float64 else types.int64, field.ndim, given) for field in example
        ]

    trail = new_trail(NO_CONDITIONS, 0, 0, 0)
    return (
        named(kinds(NO_CONDITIONS, True), Conditions),
        named(kinds(NO_TERMS, True), Terms),
        named(kinds(trail, False), Trail),
    )
