"""Sorted rows in; out come the same rows with values of the rows before and behind them, and with symbol bits that
depend on these.

A condition that compares a row with those around it is decided here, for all rows of a chunk at once. Columns that are
compared with each other become the integers of `encode`; sums and differences are those of Spark: integers fail where
they leave their type, and floats are floats.

A truth is two arrays: where a condition is true, and where it is false. NULL is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.encode import Terms, changes, encode_terms, ordered_bits, terms_of
from sase.runtime.kernels.sequences import NULL, Ints
from sase.runtime.operator.matcher import int64s
from sase.runtime.pattern import Compare
from sase.runtime.row_pattern import At, Condition, Constant, Operation, RowPattern, Shift

Truths = NDArray[np.bool]
_DAY = 86_400_000_000
_COMPARED = {
    "=": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


class Task(Protocol):
    @property
    def pattern(self) -> RowPattern: ...
    @property
    def by(self) -> tuple[str, ...]: ...
    @property
    def symbols(self) -> str: ...
    @property
    def shifts(self) -> tuple[tuple[str, Shift], ...]: ...
    @property
    def meets(self) -> tuple[tuple[str, Condition], ...]: ...
    @property
    def back(self) -> int: ...
    @property
    def ahead(self) -> int: ...
    @property
    def looked_up(self) -> set[str]: ...
    @property
    def chunk_rows(self) -> int: ...


class Neighbours:
    """A partition on its way, chunk by chunk. Of the chunk before, there are as many rows as values look back to, and
    those that wait for the rows to which theirs look ahead."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.shifts = dict(task.shifts)
        self.shown = [name for name in self.shifts if name in task.looked_up]
        self.meeting = _Meeting(task)
        self.kept: pa.Table | None = None
        self.handed = 0
        """How many of the rows that are kept have been handed on."""

    def beside(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            waiting.append(batch)
            count += batch.num_rows
            if count >= self.task.chunk_rows:
                yield from self._rows(waiting, self.task.ahead)
                waiting, count = [], 0
        yield from self._rows(waiting, 0)

    def _rows(self, batches: list[pa.RecordBatch], waiting: int) -> Iterator[pa.RecordBatch]:
        """Those whose values are known with some more batches; the last rows may have to wait."""
        tables = [] if self.kept is None else [self.kept]
        tables += [pa.Table.from_batches(batches)] if batches else []
        if not tables:
            return
        rows = pa.concat_tables(tables).combine_chunks()
        end = rows.num_rows - waiting
        if end > self.handed:
            done = self._filled(rows)
            yield from done.slice(self.handed, end - self.handed).to_batches()
        end = max(end, self.handed)
        first = max(0, end - self.task.back)
        self.kept, self.handed = rows.slice(first), end - first

    def _filled(self, rows: pa.Table) -> pa.Table:
        new = np.zeros(rows.num_rows - 1, np.bool)
        for name in self.task.by:
            new |= changes(rows.column(name))
        edges = np.concatenate([[0], np.flatnonzero(new) + 1, [rows.num_rows]])
        if self.task.meets:
            place = rows.schema.get_field_index(self.task.symbols)
            symbols = self.meeting.symbols(rows, edges)
            rows = rows.set_column(place, self.task.symbols, pa.array(symbols))
        for name in self.shown:
            shift = self.shifts[name]
            rows = rows.append_column(name, shifted_column(rows.column(shift.column), shift.step, edges))
        return rows


def shifted_column(column: pa.ChunkedArray, step: int, edges: Ints) -> pa.ChunkedArray:
    """The values `step` rows further; NULL where a group has no such row."""
    missing = np.zeros(len(column), np.bool)
    missing[_outside(edges, step)] = True
    return column.take(pa.array(np.arange(len(column)) + step, mask=missing))


def _outside(edges: Ints, step: int) -> Ints:
    """The rows from which one `step` rows further is not of their group."""
    steps = np.arange(abs(step))
    if step < 0:
        rows, inside = edges[:-1, None] + steps, edges[1:, None]
        return rows[rows < inside]
    rows, inside = edges[1:, None] - 1 - steps, edges[:-1, None]
    return rows[rows >= inside]


def _moved(values: NDArray[Any], step: int, edges: Ints, nothing: Any) -> NDArray[Any]:
    if step == 0:
        return values
    moved = np.empty_like(values)
    if step < 0:
        moved[-step:] = values[:step]
    else:
        moved[:-step] = values[step:]
    moved[_outside(edges, step)] = nothing
    return moved


class _Truth(NamedTuple):
    true: Truths
    false: Truths


class _Number(NamedTuple):
    """Values, of which some are missing; a constant has one, of no dimension."""

    values: NDArray[Any]
    missing: Truths | np.bool


class _Meeting:
    """The conditions of a task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.places = {name: (shift.column, shift.step) for name, shift in task.shifts}
        found = [pair for _, condition in task.meets for pair in _column_pairs(condition)]
        clauses = [(Compare("", self._place(left)[0], sign, "", self._place(right)[0]),) for sign, left, right in found]
        self.terms: Terms = terms_of(clauses)

    def _place(self, at: At) -> tuple[str, int]:
        """A column, and how many rows further its value is."""
        return self.places.get(at.column, (at.column, 0))

    def symbols(self, rows: pa.Table, edges: Ints) -> Ints:
        """The symbol bits, less those of variables whose condition a row does not meet."""
        symbols = int64s(rows, self.task.symbols).copy()
        chunk = _Chunk(self, rows, edges)
        for variable, condition in self.task.meets:
            bit = 1 << self.task.pattern.variables.index(variable)
            symbols &= np.where(chunk.truth(condition).true, -1, ~bit)
        return symbols


class _Chunk:
    """Some rows, and what conditions make of them."""

    def __init__(self, meeting: _Meeting, rows: pa.Table, edges: Ints) -> None:
        self.meeting, self.rows, self.edges = meeting, rows, edges
        self.encoded = dict(zip(meeting.terms.columns, encode_terms(meeting.terms, rows), strict=True))

    def truth(self, condition: Condition) -> _Truth:
        match condition:
            case Operation("AND", parts):
                truths = list(map(self.truth, parts))
                return _Truth(
                    np.logical_and.reduce([each.true for each in truths]),
                    np.logical_or.reduce([each.false for each in truths]),
                )
            case Operation("OR", parts):
                truths = list(map(self.truth, parts))
                return _Truth(
                    np.logical_or.reduce([each.true for each in truths]),
                    np.logical_and.reduce([each.false for each in truths]),
                )
            case Operation("NOT", (part,)):
                return _Truth(*reversed(self.truth(part)))
            case Operation("IS TRUE", (part,)):
                true = self.truth(part).true
                return _Truth(true, ~true)
            case Operation("IS NULL", (part,)):
                missing = self._missing(part)
                return _Truth(missing, ~missing)
            case Operation(sign, (At() as left, At() as right)) if sign in _COMPARED:
                one, other = self._codes(left), self._codes(right)
                return _decided(_COMPARED[sign](one, other), (one == NULL) | (other == NULL))
            case Operation(sign, (left, right)) if sign in _COMPARED:
                return _compared(sign, self._number(left), self._number(right))
            case At():
                column, step = self.meeting._place(condition)
                values, missing = _there(self.rows.column(column).cast(pa.int8()))
                return _decided(*(_moved(each, step, self.edges, True) for each in (values != 0, missing)))
        raise TypeError(f"{condition} is no truth")

    def _codes(self, at: At) -> Ints:
        column, step = self.meeting._place(at)
        codes: Ints = _moved(self.encoded[column], step, self.edges, NULL)
        return codes

    def _missing(self, condition: Condition) -> Truths:
        match condition:
            case At():
                column, step = self.meeting._place(condition)
                return _moved(self.rows.column(column).is_null().to_numpy(), step, self.edges, True)
            case Operation(sign, _) if sign in ("+", "-"):
                return np.broadcast_to(self._number(condition).missing, self.rows.num_rows)
        truth = self.truth(condition)
        return ~(truth.true | truth.false)

    def _number(self, condition: Condition) -> _Number:
        match condition:
            case Constant(value=int(value)):
                wide = np.int32 if -(2**31) <= value < 2**31 else np.int64
                return _Number(np.asarray(value, wide), np.False_)
            case Constant(value=str(value)):
                return _Number(np.asarray(float(value)), np.False_)
            case At():
                column, step = self.meeting._place(condition)
                values, missing = _there(_plain(self.rows.column(column)))
                return _Number(_moved(values, step, self.edges, 0), _moved(missing, step, self.edges, True))
            case Operation("+" | "-" as sign, (left, right)):
                return self._sum(sign, self._number(left), self._number(right))
        raise TypeError(f"{condition} is no number")

    def _sum(self, sign: str, left: _Number, right: _Number) -> _Number:
        missing = left.missing | right.missing
        if left.values.dtype.kind == "f" or right.values.dtype.kind == "f":
            with np.errstate(all="ignore"):
                return _Number(left.values + right.values if sign == "+" else left.values - right.values, missing)
        wide = np.promote_types(left.values.dtype, right.values.dtype)
        one, other = left.values.astype(np.int64), right.values.astype(np.int64)
        total = one + other if sign == "+" else one - other
        # A sum has left its type if its sign is that of neither summand.
        beyond = ((one ^ total) & (other ^ total if sign == "+" else one ^ other)) < 0
        values = total.astype(wide)
        if (too_large := (beyond | (values != total)) & ~missing).any():
            row = self.rows.slice(int(np.argmax(too_large)), 1).to_pylist()[0]
            place = ", ".join(f"{name}={row[name]!s}" for name in self.meeting.task.by)
            where = f" at {place}" if place else ""
            raise SaseRunError(f"a number in DEFINE is beyond {_NAMES[wide.itemsize]}{where}: cast it to a wider type")
        return _Number(values, missing)


_NAMES = {1: "a tinyint", 2: "a smallint", 4: "an int", 8: "a bigint"}


def _compared(sign: str, left: _Number, right: _Number) -> _Truth:
    one, other = left.values, right.values
    if one.dtype.kind == "f" or other.dtype.kind == "f":
        one, other = (ordered_bits(np.atleast_1d(each.astype(np.float64))) for each in (one, other))
    return _decided(_COMPARED[sign](one, other), left.missing | right.missing)


def _decided(truths: Truths, missing: Truths | np.bool) -> _Truth:
    return _Truth(truths & ~missing, ~truths & ~missing)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers as they are, times in microseconds."""
    if pa.types.is_date32(column.type):
        days = column.cast(pa.int32()).cast(pa.int64())
        return pa.chunked_array([pa.array(days.fill_null(0).to_numpy() * _DAY, mask=days.is_null().to_numpy())])
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _there(column: pa.ChunkedArray) -> tuple[NDArray[Any], Truths]:
    """The values, 0 where there is none; and where that is."""
    if not column.null_count:
        return column.to_numpy(), np.zeros(len(column), np.bool)
    return column.fill_null(0).to_numpy(), column.is_null().to_numpy()


def _column_pairs(condition: Condition) -> Iterator[tuple[Any, At, At]]:
    """The comparisons of one column with another, or with itself."""
    match condition:
        case Operation(sign, (At() as left, At() as right)) if sign in _COMPARED:
            yield sign, left, right
        case Operation(_, parts):
            for part in parts:
                yield from _column_pairs(part)
