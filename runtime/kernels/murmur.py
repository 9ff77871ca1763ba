"""Spark's hash of a row, by which it spreads keys: murmur3 with 32 bits, as its `hash` has it.

A worker that reads files puts keys where Spark would, so that a stream may be read by either.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sase.runtime.kernels.compiled import over_strings

Words = NDArray[np.uint32]
_SEED = 42


def murmur3(columns: Sequence[pa.Array], jit: bool = True) -> NDArray[np.int32]:
    """Of the columns of a key: integers, dates, timestamps, truths and strings. A NULL leaves it as it was."""
    hashes = np.full(len(columns[0]), _SEED, np.uint32)
    for column in columns:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            found = _of_strings(column.cast(pa.large_string()).fill_null(""), hashes, jit)
        elif pa.types.is_int64(kind) or pa.types.is_timestamp(kind):
            values = column.cast(pa.int64()).fill_null(0).to_numpy().view(np.uint64)
            low, high = values.astype(np.uint32), (values >> np.uint64(32)).astype(np.uint32)
            found = _finished(_mixed(_mixed(hashes, low), high), 8)
        elif pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_boolean(kind):
            values = column.cast(pa.int32()).fill_null(0).to_numpy().view(np.uint32)
            found = _finished(_mixed(hashes, values), 4)
        else:
            raise TypeError(f"nobody has said how {kind} is spread")
        known = column.is_valid().to_numpy(zero_copy_only=False)
        hashes = np.where(known, found, hashes) if column.null_count else found
    return hashes.view(np.int32)


def bucket_labels(buckets: int) -> list[int]:
    """Numbers of buckets that Spark's hash spreads evenly over as many partitions as there are buckets, or a part."""
    labels: dict[int, int] = {}
    for first in count(step=64 * buckets):
        numbers = range(first, first + 64 * buckets)
        for label, code in zip(numbers, murmur3([pa.array(numbers, pa.int32())]).tolist(), strict=True):
            labels.setdefault(code % buckets, label)
        if len(labels) == buckets:
            return [labels[place] for place in range(buckets)]
    raise AssertionError("the numbers do not end")


def _turned(words: Words, by: int) -> Words:
    return words << np.uint32(by) | words >> np.uint32(32 - by)


def _mixed(hashes: Words, words: Words) -> Words:
    words = _turned(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _turned(hashes ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(hashes: Words, size: int) -> Words:
    hashes = hashes ^ np.uint32(size)
    hashes = (hashes ^ hashes >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ hashes >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return hashes ^ hashes >> np.uint32(16)


def _of_strings(words: pa.Array, hashes: Words, jit: bool) -> Words:
    _, ends, letters = words.buffers()
    offset = np.frombuffer(ends, np.int64, len(words) + 1, 8 * words.offset)
    compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
    with np.errstate(over="ignore"):  # what does not fit is cut off, as it is in machine code
        found: Words = (compiled or of_strings)(offset, np.frombuffer(letters or b"", np.uint8), hashes)
    return found


def of_strings(offset: Any, letters: Any, hashes: Any) -> Any:
    """Four bytes at a time, and what is left of them one by one, each as a number with a sign."""
    mask = np.int64(0xFFFFFFFF)
    found = np.empty_like(hashes)
    for row in range(len(hashes)):
        at, end = offset[row], offset[row + 1]
        size, mixed = end - at, np.int64(hashes[row])
        while at < end:
            if end - at >= 4:
                word = np.int64(0)
                for place in range(4):
                    word |= np.int64(letters[at + place]) << (8 * place)
                at += 4
            else:
                word = np.int64(letters[at])
                if word > 127:
                    word += mask - 255
                at += 1
            word = word * 0xCC9E2D51 & mask
            word = (word << 15 | word >> 17) & mask
            mixed ^= word * 0x1B873593 & mask
            mixed = (mixed << 13 | mixed >> 19) & mask
            mixed = (mixed * 5 + 0xE6546B64) & mask
        mixed ^= size
        mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & mask
        mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & mask
        found[row] = mixed ^ mixed >> 16
    return found


@cache
def _compiled() -> Any | None:
    return over_strings(of_strings, "uint32")
