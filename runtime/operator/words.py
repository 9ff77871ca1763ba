"""Columns of Arrow as the words that `kernels/arrivals.py` computes with, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sase.runtime.kernels import arrivals as k
from sase.runtime.kernels.encode import ordered_bits
from sase.runtime.kernels.sequences import Ints

Truths = NDArray[np.bool]


def zeros_of(rows: int) -> tuple[Ints, Ints]:
    zeros = np.zeros(rows, np.int64)
    return zeros, zeros


def to_add(values: pa.Array | pa.ChunkedArray) -> tuple[int, Ints, Ints, int]:
    """The kind of the values, their words, and how many digits are behind the point."""
    if pa.types.is_decimal(values.type):
        return k.WHOLE, *words_of(values), values.type.scale
    numbers = numbers_of(values)
    if numbers.dtype.kind == "f":
        return k.REAL, numbers.astype(np.float64).view(np.int64), np.zeros(len(numbers), np.int64), 0
    low = numbers.astype(np.int64)
    return k.WHOLE, low >> 63, low, 0


def to_compare(values: pa.Array | pa.ChunkedArray) -> tuple[Ints, Ints]:
    if pa.types.is_decimal(values.type):
        return words_of(values)
    numbers = numbers_of(values)
    high = ordered_bits(numbers) if numbers.dtype.kind == "f" else numbers.astype(np.int64)
    return high, np.zeros(len(high), np.int64)


def words_of(values: pa.Array | pa.ChunkedArray) -> tuple[Ints, Ints]:
    """Of decimals, which Arrow has as whole numbers of 128 bits."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], values.type)
    array = array.cast(pa.decimal128(38, array.type.scale))
    words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    return words[1::2].copy(), words[::2].copy()


def decimals_of(high: Ints, low: Ints, unknown: Truths, kind: pa.DataType) -> pa.Array:
    words = np.empty((len(high), 2), np.int64)
    words[:, 0], words[:, 1] = low, high
    valid = np.packbits(~unknown, bitorder="little")
    return pa.Array.from_buffers(kind, len(high), [pa.py_buffer(valid), pa.py_buffer(words)])


def powers_of_ten(scale: int) -> Iterator[int]:
    """Ten to a power, in factors below 2^31."""
    while scale > 0:
        yield 10 ** min(scale, 9)
        scale -= 9


def numbers_of(values: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Anything will do for NULL."""
    return values_of(pc.fill_null(values, 0) if values.null_count else values)


def ints_of(column: pa.Array | pa.ChunkedArray) -> Ints:
    return numbers_of(column).astype(np.int64, copy=False)


def truths_of(column: pa.Array | pa.ChunkedArray) -> Truths:
    return values_of(column)


def values_of(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    copies = {} if isinstance(column, pa.ChunkedArray) else {"zero_copy_only": False}
    values: NDArray[Any] = column.to_numpy(**copies)
    return values
