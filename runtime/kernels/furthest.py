"""Of each group of events, the sequence that gets furthest: how far a key has come in a conversion funnel.

A sequence that fills the first k variables is carried on by any later event of variable k + 1 inside the window, and
of two such sequences the one that has started later can be carried on for longer: it *dominates* the other. So one for
each k is enough, and an event costs no more than the steps of one sequence, whatever the number of matches.

Invariants
----------
Rows of a chunk are sorted by (group, position), as in `sequences`.
    chain[k, : k + 1]   the rows of the sequence that ends with variable k: of those that no negated event behind it has
                        ended, the one with the latest start, and of these the one that was there first;
                        chain[k, 0] is -1 if there is none
    out[g]              of the groups done: the sequence that gets furthest, -1 behind its end. It is the first to get
                        there, and of those that end at its place the one that starts last.
Simultaneous events do not see each other: at each position, variables are gone through backwards.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np

from sase.runtime.kernels.compiled import in_machine_code
from sase.runtime.kernels.sequences import Events, Ints, each_array, read_only, table_types
from sase.runtime.pattern import Furthest


def advance(events: Events, positives: int, within: int, behind: Ints, chain: Ints, out: Ints) -> int:
    """Fills `out`, and returns how many groups have filled the first variable at all.

    `behind[k]` has the state bits of the negated variables between k and the next one; `within` is 0 without a window.
    """
    found = 0
    for group in range(len(events.groups) - 1):
        begin, end = events.groups[group], min(events.groups[group + 1], events.stop)
        best = -1
        for k in range(positives):
            chain[k, 0] = -1
        while begin < end and best < positives - 1:
            later, bits = begin, 0
            while later < end and events.position[later] == events.position[begin]:
                bits |= events.states[later]
                later += 1
            for k in range(positives - 1, -1, -1):
                if bits & behind[k]:
                    chain[k, 0] = -1
                if not bits >> k & 1:
                    continue
                row = begin
                while not events.states[row] >> k & 1:
                    row += 1
                first = row if k == 0 else chain[k - 1, 0]
                if first < 0 or (within and not 0 <= events.time[row] - events.time[first] < within):
                    continue
                if chain[k, 0] >= 0 and events.position[chain[k, 0]] >= events.position[first]:
                    continue
                for step in range(k):
                    chain[k, step] = chain[k - 1, step]
                chain[k, k] = row
                if k > best:
                    best = k
                    for step in range(k + 1):
                        out[found, step] = chain[k, step]
            begin = later
        if best >= 0:
            for step in range(best + 1, positives):
                out[found, step] = -1
            found += 1
    return found


@cache
def _compiled() -> tuple[Any] | None:
    """`advance` in machine code; None without numba."""
    try:
        import numba
    except ImportError:
        return None
    integer = numba.types.int64
    given, _, _, kept_table, events = table_types()
    return (in_machine_code(advance, integer(events, integer, integer, given, kept_table, kept_table)),)


def furthest(pattern: Furthest, events: Events, jit: bool = True) -> Ints:
    """The sequences as [group, positives]: of each group that has an event of the first variable, one."""
    positives = len(pattern.positive)
    behind = np.zeros(positives, np.int64)
    for component in pattern.negated:
        behind[pattern.positive.index(str(component.after))] |= pattern.bit(component.variable)
    chain = np.empty((positives, positives), np.int64)
    out = np.empty((len(events.groups) - 1, positives), np.int64)
    tables: list[Any] = [each_array(events, read_only), positives, pattern.within or 0, read_only(behind), chain, out]
    compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
    if compiled is None:
        run: Any = advance
        tables = [each_array(tables[0], memoryview), *tables[1:3], *(memoryview(table) for table in tables[3:])]
    else:
        (run,) = compiled
    return out[: run(*tables)]
