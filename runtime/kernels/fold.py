"""Running sums, least and greatest values, that begin anew at each head: compiled where there is numba."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sase.runtime.kernels.compiled import in_machine_code

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Truths = NDArray[np.bool]

LARGE = 9.2e18
"""Sums of integers stay below; beyond 2**63, they would wrap around."""


def add(values: Ints, heads: Truths, out: Ints) -> bool:
    """False if a sum is too large."""
    total = np.int64(0)
    for at in range(len(values)):
        if heads[at]:
            total = np.int64(0)
        if abs(float(total) + float(values[at])) > LARGE:
            return False
        total += values[at]
        out[at] = total
    return True


def add_reals(values: Floats, heads: Truths, out: Floats) -> bool:
    """From left to right, as Spark adds."""
    total = 0.0
    for at in range(len(values)):
        if heads[at]:
            total = 0.0
        total += values[at]
        out[at] = total
    return True


def least(values: Ints, heads: Truths, out: Ints) -> bool:
    """Which value is the least so far: the first of equal ones."""
    best = 0
    for at in range(len(values)):
        if heads[at] or values[at] < values[best]:
            best = at
        out[at] = best
    return True


@cache
def _compiled() -> dict[str, Any] | None:
    """In machine code, from numba's cache but for the first time; None without numba."""
    try:
        import numba
    except ImportError:
        return None
    types: Any = numba.types

    def compiled(function: Any, kind: Any, result: Any) -> Any:
        given = types.Array(kind, 1, "C", readonly=True)
        heads, out = types.Array(types.boolean, 1, "C", readonly=True), types.Array(result, 1, "C")
        return in_machine_code(function, types.boolean(given, heads, out))

    return {
        "add": compiled(add, types.int64, types.int64),
        "add_reals": compiled(add_reals, types.float64, types.float64),
        "least": compiled(least, types.int64, types.int64),
    }


def folded(function: str, values: Any, heads: Truths, jit: bool = True) -> Any:
    """The result of `add`, `add_reals` or `least`; None if a sum is too large."""
    out = np.empty(len(values), np.float64 if function == "add_reals" else np.int64)
    compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
    run: Any = compiled[function] if compiled else {"add": add, "add_reals": add_reals, "least": least}[function]
    given = [np.ascontiguousarray(array).view() for array in (values, heads)]
    for array in given:
        array.flags.writeable = False
    return out if run(*given, out) else None
