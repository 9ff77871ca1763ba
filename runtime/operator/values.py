"""What is looked up in matches: rows of a match by FIRST and LAST, aggregates, variables and numbers.

Matches lie one behind the other: element j of the labels is the j-th row of all matches together. A value is asked for
at a *point*: a match, and how far into it has been mapped. For FINAL that is all of it. Whatever a value is made of, it
is then a question of counting: how many elements of its variables lie before the point, and where the n-th of them is.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.encode import equal_codes, ranks
from sase.runtime.kernels.fold import folded
from sase.runtime.kernels.rows import Found, Ints
from sase.runtime.operator.construction import taken
from sase.runtime.row_pattern import At, Classifier, MatchNumber, Measure, Over, RowPattern

Columns = Mapping[str, pa.ChunkedArray | pa.Array]


class Points(NamedTuple):
    """Where values are asked for: the match, and the end (exclusive) of the elements that were mapped by then."""

    match: Ints
    until: Ints


def rows_of(found: Found) -> Ints:
    """The row of each element."""
    lengths = np.diff(found.offset)
    rows: Ints = np.repeat(found.start - found.offset[:-1], lengths) + np.arange(len(found.label))
    return rows


class Values:
    """The values of some matches of a chunk."""

    def __init__(self, pattern: RowPattern, found: Found, columns: Columns, jit: bool) -> None:
        self.pattern, self.found, self.columns, self.jit = pattern, found, columns, jit
        self.row = rows_of(found)
        self._places: dict[tuple[str, ...], tuple[Ints, Ints]] = {}

    def at_ends(self) -> Points:
        return Points(np.arange(len(self.found.start)), self.found.offset[1:])

    def column(self, measure: Measure, points: Points, kind: pa.DataType) -> pa.Array:
        """One value per point."""
        match measure:
            case MatchNumber():
                return pa.array(self.found.number[points.match])
            case At():
                element, missing = self._elements(measure, points)
                if missing.all():
                    return pa.nulls(len(missing), kind)
                return _take(self.columns[measure.column], self.row[element], missing)
            case Classifier():
                element, missing = self._elements(measure, points)
                if measure.step:
                    element = element + measure.step
                    begin, end = self._scope(points, final=True)
                    missing |= (element < begin) | (element >= end)
                if missing.all():
                    return pa.nulls(len(missing), kind)
                names = pa.array(self.pattern.symbols, pa.string())
                return names.take(pa.array(self.found.label[np.where(missing, 0, element)], mask=missing))
            case Over():
                return self._over(measure, points, kind)

    def _scope(self, points: Points, final: bool) -> tuple[Ints, Ints]:
        begin = self.found.offset[points.match]
        return begin, self.found.offset[points.match + 1] if final else points.until

    def _of(self, variables: tuple[str, ...] | None) -> tuple[Ints, Ints]:
        """The elements of some variables, and how many of them lie before each element."""
        if variables is None:
            return np.arange(len(self.row)), np.arange(len(self.row) + 1)
        if variables not in self._places:
            table = np.zeros(len(self.pattern.symbols), np.bool)
            table[list(self.pattern.positions(variables))] = True
            self._places[variables] = _counted(table[self.found.label])
        return self._places[variables]

    def _elements(self, measure: At | Classifier, points: Points) -> tuple[Ints, NDArray[np.bool]]:
        """The element that FIRST or LAST means, and where there is none."""
        begin, end = self._scope(points, measure.final)
        if measure.variables is not None:
            places, before = self._of(measure.variables)
            begin, end = before[begin], before[end]
        wanted = begin + measure.offset if measure.first else end - 1 - measure.offset
        missing = (wanted >= end) | (wanted < begin)
        wanted = np.where(missing, 0, wanted)
        if measure.variables is not None and len(places):
            wanted = places[wanted]
        return wanted, missing

    # ---- aggregates -----------------------------------------------------------------------------

    def _over(self, measure: Over, points: Points, kind: pa.DataType) -> pa.Array:
        begin, end = self._scope(points, measure.final)
        places, before = self._of(measure.variables)
        if measure.column is not None:
            column = self.columns[measure.column]
            if column.null_count or measure.distinct:
                there = taken(column, self.row[places]).is_valid().to_numpy(zero_copy_only=False)
                chosen = np.zeros(len(self.row), np.bool)
                chosen[self._new(places[there], column) if measure.distinct else places[there]] = True
                places, before = _counted(chosen)
        low, high = before[begin], before[end]
        if measure.function == "count":
            return pa.array(high - low)
        if measure.function in ("array_agg", "labels"):
            return self._arrays(places, low, high, None if measure.column is None else column)
        empty = low == high
        if empty.all():
            return pa.nulls(len(empty), kind)
        last = np.where(empty, 0, high - 1)
        rows = self.row[places]
        values = taken(column, rows)
        if measure.function in ("min", "max"):
            best = _best(values, self._heads(places), measure.function == "max", self.jit)
            return _take(column, rows[best[last]], empty)
        sums = _sums(values, self._heads(places), measure, self.jit)
        if measure.function == "sum":
            return _masked(sums, last, empty, kind)
        return _averages(sums, last, empty, high - low, kind)

    def _matches(self, places: Ints) -> Ints:
        """The match that each element is of."""
        lengths = np.diff(self.found.offset)
        return np.repeat(np.arange(len(lengths)), lengths)[places]

    def _new(self, places: Ints, column: Any) -> Ints:
        """Of chosen elements, those with a value that their match has not had before."""
        if not len(places):
            return places
        value = equal_codes(pa.chunked_array([taken(column, self.row[places])]))
        _, first = np.unique(self._matches(places) * (value.max() + 1) + value, return_index=True)
        return places[first]

    def _heads(self, places: Ints) -> NDArray[np.bool]:
        """Of chosen elements, which is the first one of its match."""
        match = self._matches(places)
        return np.concatenate([[True], match[1:] != match[:-1]])[: len(places)]

    def _arrays(self, places: Ints, low: Ints, high: Ints, column: Any | None) -> pa.Array:
        """Of the values of a column, or of the names of variables."""
        lengths = high - low
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        index = np.repeat(low - offsets[:-1], lengths) + np.arange(offsets[-1])
        element = places[index] if len(places) else index
        if column is None:
            values = pa.array(self.pattern.symbols, pa.string()).take(pa.array(self.found.label[element]))
        else:
            values = taken(column, self.row[element])
        if offsets[-1] >= 2**31:
            raise SaseRunError("array_agg has more than two thousand million values: count or sum them")
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _counted(chosen: NDArray[np.bool]) -> tuple[Ints, Ints]:
    before = np.zeros(len(chosen) + 1, np.int64)
    np.cumsum(chosen, out=before[1:])
    return np.flatnonzero(chosen), before


def _take(column: Any, rows: Ints, missing: NDArray[np.bool]) -> pa.Array:
    values = taken(column, rows)
    if not missing.any():
        return values
    return values.take(pa.array(np.arange(len(rows)), mask=missing))


def _masked(values: Any, last: Ints, empty: NDArray[np.bool], kind: pa.DataType) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(values[last], kind, mask=empty)
    return pa.array([None if none else values[at] for at, none in zip(last, empty, strict=True)], kind)


def _best(values: pa.Array, heads: NDArray[np.bool], largest: bool, jit: bool) -> Ints:
    """Running, which value is the least or the greatest so far, in Spark's order: the first of equal ones."""
    keys = ranks(pa.chunked_array([values]))
    if len(keys) > 1:
        _, place = np.unique(np.stack(keys), axis=1, return_inverse=True)
        keys = [place.ravel()]
    found: Ints = folded("least", ~keys[0] if largest else keys[0], heads, jit)
    return found


def _sums(values: pa.Array, heads: NDArray[np.bool], measure: Over, jit: bool) -> Any:
    """Running sums from each head on, as Spark adds: exact numbers exactly, floats from left to right."""
    if pa.types.is_decimal(values.type):
        with localcontext() as context:
            context.prec = 76
            return _added(values.to_pylist(), heads)
    whole = pa.types.is_integer(values.type) and measure.function == "sum"
    numbers = values.cast(pa.int64() if whole else pa.float64()).to_numpy(zero_copy_only=False)
    sums = folded("add" if whole else "add_reals", numbers, heads, jit)
    if sums is None:
        raise SaseRunError(f"sum({measure.column}) of a match is beyond a bigint: cast it to a decimal or a double")
    return sums


def _added(values: list[Decimal], heads: NDArray[np.bool]) -> list[Decimal]:
    found: list[Decimal] = []
    for value, head in zip(values, heads, strict=True):
        found.append(value if head else found[-1] + value)
    return found


def _averages(sums: Any, last: Ints, empty: NDArray[np.bool], count: Ints, kind: pa.DataType) -> pa.Array:
    if isinstance(sums, np.ndarray):
        return pa.array(sums[last] / np.maximum(count, 1), kind, mask=empty)
    step = Decimal(1).scaleb(-kind.scale)
    with localcontext() as context:
        context.prec = 76
        found = [
            None if none else (sums[at] / int(n)).quantize(step, ROUND_HALF_UP)
            for at, none, n in zip(last, empty, count, strict=True)
        ]
    return pa.array(found, kind)
