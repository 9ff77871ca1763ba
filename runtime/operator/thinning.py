"""Rows that Spark would drop in any case, told by comparisons of doubles, which are the same there and here.

What is not sure is kept: wherever there is NULL or NaN, Spark has the word.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sase.runtime.operator.words import Truths, values_of

Tree = tuple[Any, ...]
"""A sign and what it takes: `("column", name)`, `("number", 1.5)`, `(">", tree, tree)`."""
Numbers = NDArray[np.float64] | float

_COMPARISONS: dict[str, Callable[[Any, Any], Truths]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_ARITHMETIC: dict[str, Callable[[Any, Any], Numbers]] = {"+": add, "-": sub, "*": mul}


def possible(tree: Tree, column: Callable[[str], pa.Array | pa.ChunkedArray]) -> Truths:
    """The rows of which the tree may hold."""
    sign, *parts = tree
    match sign:
        case "and" | "or":
            return reduce(and_ if sign == "and" else or_, (possible(part, column) for part in parts))
    with np.errstate(all="ignore"):
        left, right = (_numbers(part, column) for part in parts)
        return _COMPARISONS[sign](left, right) | np.isnan(left) | np.isnan(right)


def _numbers(tree: Tree, column: Callable[[str], pa.Array | pa.ChunkedArray]) -> Numbers:
    """NULL is NaN."""
    sign, *parts = tree
    match sign:
        case "number":
            return float(parts[0])
        case "column":
            return values_of(column(parts[0]).cast(pa.float64(), safe=False).fill_null(np.nan))
    return _ARITHMETIC[sign](*(_numbers(part, column) for part in parts))
