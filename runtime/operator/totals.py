"""What all matches of a key come to, chunk by chunk: Arrow rows in, a row per key and chunk out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.encode import Terms, group_codes, ranks
from sase.runtime.kernels.machine import machine, read_columns
from sase.runtime.kernels.products import EMPTY, LARGE, NONE, folded
from sase.runtime.kernels.sequences import NULL, Events, Ints
from sase.runtime.operator.construction import Found, Part, taken
from sase.runtime.operator.matcher import Matcher
from sase.runtime.operator.partition import Partition
from sase.runtime.pattern import Total, Totals

Numbers = NDArray[Any]


class OfTotals:
    """A window of events is enough to go on: what has left it is in the totals of an earlier chunk."""

    def __init__(self, pattern: Totals) -> None:
        self.pattern = pattern
        self.machine = machine(pattern)
        self.terms = Terms(read_columns(pattern), (), frozenset())
        self.counters: Ints = np.zeros(1, np.int64)
        self.back = pattern.within
        self.ahead: int | None = 0

    def found(self, events: Events, jit: bool) -> Found:
        return Added(self, events, jit)


class Added:
    """The totals of a chunk. There are no matches to be told of."""

    used: NDArray[np.bool] | None = None

    def __init__(self, of: OfTotals, events: Events, jit: bool) -> None:
        self.of, self.events, self.jit = of, events, jit

    def rows(self, capacity: int) -> Iterator[Ints]:
        raise AssertionError("no match is built")

    def parts(self, rows: Ints, variables: Sequence[str]) -> Iterator[Part]:
        raise AssertionError("no match is built")

    def batch(self, matcher: Matcher, chunk: pa.Table) -> pa.RecordBatch:
        """A row per group that has a match: the key, and the totals."""
        pattern, first = self.of.pattern, self.events.groups[:-1]
        columns: dict[str, tuple[NDArray[np.bool], pa.Array]] = {}
        for kind in (np.int64, np.float64):
            wanted = [each for each in pattern.totals if each.kind in ("count", "sum") and _kind(each) == kind]
            if wanted:
                columns |= self.numbers(matcher, chunk, wanted, kind)
        for each in pattern.totals:
            if each.kind in ("min", "max"):
                columns[each.name] = self.extreme(chunk, each)
        there = next(there for there, _ in columns.values())
        keys = [taken(chunk.column(name), first[there]) for name in pattern.shown]
        made = [columns[each.name][1].filter(pa.array(there)) for each in pattern.totals]
        self.of.counters += int(there.sum())
        return pa.RecordBatch.from_arrays(keys + made, names=[*pattern.shown, *(each.name for each in pattern.totals)])

    def numbers(
        self, matcher: Matcher, chunk: pa.Table, wanted: Sequence[Total], kind: type
    ) -> dict[str, tuple[NDArray[np.bool], pa.Array]]:
        """Counts and sums, all of them whole, or all of them real."""
        positive = self.of.pattern.positive
        beside = [each for each in wanted if each.variable is not None]
        value = np.zeros((1 + len(beside), chunk.num_rows), kind)
        for at, each in enumerate(beside, 1):
            column = chunk.column(str(each.column))
            if each.kind == "count":
                value[at] = column.is_valid()
            else:  # a double may be rounded
                value[at] = column.cast(pa.from_numpy_dtype(kind), safe=False).fill_null(0)
        of = np.array([-1, *(positive.index(str(each.variable)) for each in beside)])
        found, wrong = folded(self.of.machine, self.events, value, of, jit=self.jit)
        if wrong >= 0:
            key = matcher.of_key(chunk, int(self.events.groups[wrong]))
            raise SaseRunError(
                f"there are too many matches{key} for a whole number, or their sum is too large: "
                "CAST(count(*) AS double) counts in doubles, and so does CAST(sum(…) AS double)"
            )
        there = found[:, 0] != 0
        places = {each.name: beside.index(each) + 1 if each in beside else 0 for each in wanted}
        return {name: (there, pa.array(found[:, place])) for name, place in places.items()}

    def extreme(self, chunk: pa.Table, each: Total) -> tuple[NDArray[np.bool], pa.Array]:
        """The least or the greatest value: by its rank in the chunk, which leads back to a row that has it."""
        column = chunk.column(str(each.column))
        (order,) = ranks(column)
        missing = column.is_null().to_numpy() if column.null_count else np.zeros(len(order), np.bool)
        distinct, row, place = np.unique(order, return_index=True, return_inverse=True)
        if each.kind == "max":
            place = len(distinct) - 1 - place
        value = np.where(missing | (order == NULL), EMPTY, place)[None, :]
        of = np.array([self.of.pattern.positive.index(str(each.variable))])
        found, _ = folded(self.of.machine, self.events, value, of, least=True, jit=self.jit)
        best = found[:, 0]
        some = best < EMPTY
        best = np.where(some, best, 0)
        rows = row[len(distinct) - 1 - best] if each.kind == "max" else row[best]
        values = taken(column, rows)
        return found[:, 0] != NONE, pa.array(values.to_pylist(), values.type, mask=~some) if (~some).any() else values


class Summed(Protocol):
    """Totals by the columns of a group."""

    @property
    def shown(self) -> tuple[str, ...]: ...

    @property
    def totals(self) -> tuple[Total, ...]: ...


def brought_together(pattern: Summed, parts: pa.Table) -> tuple[pa.Table, Ints]:
    """One row per key, and for each of the parts the number of its row."""
    codes = group_codes([parts.column(name) for name in pattern.shown], parts.num_rows)
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    keys = parts.select(list(pattern.shown)).take(pa.array(first))
    columns = {name: keys.column(name) for name in pattern.shown}
    for each in pattern.totals:
        column = parts.column(each.name)
        if each.kind in ("min", "max"):
            (order,) = ranks(column)
            by = np.lexsort((~order if each.kind == "max" else order, column.is_null().to_numpy(), place))
            best = by[np.flatnonzero(np.diff(place[by], prepend=-1))]
            columns[each.name] = column.take(pa.array(best))
            continue
        if pa.types.is_decimal(column.type):
            columns[each.name] = _exact_sums(column, place, len(first))
            continue
        value = column.to_numpy()
        sums = np.zeros(len(first), value.dtype)
        np.add.at(sums, place, value)
        if not each.real and (np.bincount(place, np.abs(value.astype(np.float64))) > LARGE).any():
            raise SaseRunError(
                f"there are too many matches for a whole number, or their sum is too large: CAST({each.kind}(…) AS "
                "double) counts in doubles"
            )
        columns[each.name] = pa.chunked_array([pa.array(sums)])
    return pa.table(columns), place


def _exact_sums(column: pa.ChunkedArray, place: Ints, groups: int) -> pa.ChunkedArray:
    sums = [Decimal(0)] * groups
    with localcontext(prec=2 * column.type.precision):
        for at, value in zip(place.tolist(), column.to_pylist(), strict=True):
            sums[at] += value
    try:
        return pa.chunked_array([pa.array(sums, column.type)])
    except pa.ArrowInvalid:
        raise SaseRunError(
            f"a sum of decimals is too large for {column.type.precision} digits: CAST(sum(…) AS double) adds doubles"
        ) from None


class Adding(Partition):
    """A partition of which totals are wanted."""

    def found(self, chunk: pa.Table, found: Found) -> Iterator[pa.RecordBatch]:
        assert isinstance(found, Added)
        batch = found.batch(self, chunk)
        if batch.num_rows:
            yield batch


def _kind(total: Total) -> type:
    return np.float64 if total.real else np.int64
