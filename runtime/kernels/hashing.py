"""One integer for each key, equal where keys are, for keys that are not one integer already.

Of keys that differ it nearly always does, too; where it does not, the sort tells them apart (`operator/sorting.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from sase.runtime.kernels.compiled import over_strings
from sase.runtime.kernels.sequences import Ints

_FACTOR = 0x1E3779B97F4A7C15


def hashes(columns: Sequence[pa.Array], jit: bool = True) -> Ints:
    """Of the columns of a key. A NULL is as good as any value."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if pa.types.is_temporal(column.type):  # as a number: of a zone, Arrow may not know what Spark knows
            column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
        if pa.types.is_integer(column.type):
            codes = (codes ^ column.cast(pa.int64()).fill_null(0).to_numpy()) * _FACTOR
        else:
            codes = _spelled(column.cast(pa.large_string()).fill_null(""), codes, jit)
    return codes


def _spelled(words: pa.Array, codes: Ints, jit: bool) -> Ints:
    compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
    if compiled is None:
        return np.array([hash((code, word)) for code, word in zip(codes.tolist(), words.to_pylist(), strict=True)])
    _, ends, letters = words.buffers()
    offset = np.frombuffer(ends, np.int64, len(words) + 1, 8 * words.offset)
    found: Ints = compiled(offset, np.frombuffer(letters or b"", np.uint8), codes)
    return found


def spelled(offset: Any, letters: Any, codes: Ints) -> Ints:
    """The codes, with a word for each: eight letters at a time."""
    found = np.empty_like(codes)
    for row in range(len(codes)):
        at, end = offset[row], offset[row + 1]
        code = (np.uint64(codes[row]) ^ np.uint64(end - at)) * np.uint64(_FACTOR)
        while at < end:
            part = np.uint64(0)
            for place in range(min(8, end - at)):
                part |= np.uint64(letters[at + place]) << np.uint64(8 * place)
            code = (code ^ (code >> np.uint64(29)) ^ part) * np.uint64(_FACTOR)
            at += 8
        found[row] = np.int64(code ^ (code >> np.uint64(32)))
    return found


@cache
def _compiled() -> Any | None:
    return over_strings(spelled, "int64")
