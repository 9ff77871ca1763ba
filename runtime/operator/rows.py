"""Sorted rows through the kernel of row patterns: what a partition of a batch and a bucket of a stream have in common,
and the partition.

A partition is cut into chunks that fit in memory, and a chunk ends anywhere in a group. Rows from the first match on
that is not decided yet are carried into the next chunk, so memory is bounded by the open stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.compile_conditions import Program, Unfit
from sase.runtime.kernels.conditions import NO_CONDITIONS, NO_TERMS, Conditions
from sase.runtime.kernels.encode import changes
from sase.runtime.kernels.rows import (
    BACK,
    COVERED,
    EXHAUSTED,
    NOWHERE,
    NUMBER,
    OPEN,
    OVERFLOW,
    ROW,
    STATUS,
    SWEPT_COUNT,
    SWEPT_FIRST,
    SWEPT_LAST,
    Bytes,
    Found,
    Ints,
    Rows,
    Walk,
    encode,
    in_one_piece,
)
from sase.runtime.kernels.sort import SortKey
from sase.runtime.operator.construction import taken
from sase.runtime.operator.matcher import combined, int64s
from sase.runtime.operator.neighbours import Neighbours
from sase.runtime.operator.sorting import in_order
from sase.runtime.operator.values import Points, Values, rows_of
from sase.runtime.row_pattern import (
    At,
    Classifier,
    Condition,
    MatchNumber,
    Measure,
    Over,
    RowPattern,
    Shift,
    leaves_of,
)

_CHUNK_BYTES = 128 << 20
_LEAST_BUDGET = 1_000_000


@dataclass(frozen=True)
class Task:
    """What a worker is told, as plain data: see `rows.match_rows`."""

    pattern: RowPattern
    names: tuple[str, ...]
    """The columns as they come."""
    by: tuple[str, ...]
    keys: tuple[SortKey, ...]
    """Of ORDER BY."""
    symbols: str
    shown: str
    kept: tuple[str, ...]
    """The columns of a row that are shown: those of PARTITION BY with one row per match."""
    measures: tuple[tuple[str, Measure, pa.DataType], ...]
    batch_rows: int
    chunk_rows: int
    jit: bool
    steps_per_row: int
    """How many steps a search may take, on the average of the rows of a chunk."""
    refuse_ties: bool = False
    """Rows of a group that ORDER BY does not tell apart are an error."""
    code: str | None = None
    """The column by which rows that come in any order are told by key; None if they come sorted: see `sorting`."""
    shifts: tuple[tuple[str, Shift], ...] = ()
    """Columns that hold a value of another row, before or behind."""
    meets: tuple[tuple[str, Condition], ...] = ()
    """What a row must meet beside its symbol bit, given the rows around it: whatever was mapped."""

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(key.column for key in self.keys)

    @property
    def back(self) -> int:
        """How many rows values look back,"""
        return max((-shift.step for _, shift in self.shifts if shift.step < 0), default=0)

    @property
    def ahead(self) -> int:
        """and how many ahead."""
        return max((shift.step for _, shift in self.shifts if shift.step > 0), default=0)

    @property
    def looked_up(self) -> set[str]:
        """The columns that conditions on rows mapped before, and matches, ask for."""
        asked = [*self.kept, *(getattr(measure, "column", None) for _, measure, _ in self.measures)]
        asked += [getattr(leaf, "column", None) for _, each in self.pattern.running for leaf in leaves_of(each)]
        return {name for name in asked if name is not None}


def run(
    task: Task, batches: Iterator[pa.RecordBatch], ties: Callable[[int], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """A chunk is at least as long as what it carries along, so all work stays linear."""
    partition = Partition(task)
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    batches = (batch.rename_columns(task.names) for batch in batches)
    if task.code is not None:
        batches = in_order(batches, task)
    if task.shifts or task.meets:
        batches = Neighbours(task).beside(batches)
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if (rows >= task.chunk_rows or size >= _CHUNK_BYTES) and rows >= partition.carried_rows:
            yield from partition.matches(waiting, final=False)
            waiting.clear()
            rows = size = 0
    yield from partition.matches(waiting, final=True)
    if ties is not None and partition.ties:
        ties(partition.ties)


class RowMatcher:
    """Sorted rows in, matches out."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.tables = encode(task.pattern)
        self.program: Program | None = None
        self.conditions: Conditions = NO_CONDITIONS

    def walk(self, chunk: pa.Table, rows: Rows, marks: Bytes) -> Walk:
        terms, budget = NO_TERMS, 0
        if self.task.pattern.running:
            program = self._program(chunk.schema)
            terms, budget = program.encoded(chunk), _LEAST_BUDGET + self.task.steps_per_row * chunk.num_rows
        return Walk(self.tables, rows, marks, self.task.jit, self.conditions, terms, budget)

    def time(self, chunk: pa.Table) -> Ints:
        return int64s(chunk, self.task.order[0]) if self.tables.within else np.zeros(0, np.int64)

    def columns(self, chunk: pa.Table) -> dict[str, pa.Array]:
        """Those that matches show."""
        measured = (getattr(measure, "column", None) for _, measure, _ in self.task.measures)
        names = dict.fromkeys([*self.task.kept, *(name for name in measured if name)])
        return {name: combined(chunk.column(name)) for name in names}

    def found(self, walk: Walk, chunk: pa.Table, columns: dict[str, pa.Array]) -> Iterator[pa.RecordBatch]:
        """What is decided. Afterwards, the walk says how far it has come."""
        unmatched = self.task.shown == "all rows and unmatched rows"
        for found in walk.found():
            if unmatched:
                for rows in (found.start, rows_of(found)):  # an empty match covers the row at which it is found
                    walk.marks[rows] |= COVERED
            yield from self._shown(found, columns)
        self._refuse(walk, chunk)
        if unmatched:
            decided = np.arange(chunk.num_rows) < np.repeat(walk.ends.row, walk.group_sizes)
            yield from self._unmatched(np.flatnonzero(decided & (walk.marks & COVERED == 0)), columns)

    def _program(self, schema: pa.Schema) -> Program:
        if self.program is None:
            self.program = Program(self.task.pattern, {field.name: field.type for field in schema})
            try:
                self.conditions = self.program.conditions()
            except Unfit as error:
                raise SaseRunError(f"DEFINE: {error}") from None
        return self.program

    def tied(self, chunk: pa.Table, groups: Ints) -> NDArray[np.bool]:
        """The rows that ORDER BY does not tell from the next one of their group; an error, where there may be none."""
        same = np.ones(chunk.num_rows - 1, np.bool)
        for name in self.task.order:
            same &= ~changes(chunk.column(name))
        same[groups[1:-1] - 1] = False
        if self.task.refuse_ties and same.any():
            row = int(np.argmax(same))
            key = ", ".join(f"{name}={chunk.column(name)[row].as_py()!s}" for name in self.task.by)
            raise SaseRunError(
                f"two events{f' of {key}' if key else ''} are simultaneous, and nothing says which of them is the "
                "next: name a tie-breaker, a column that tells them apart (order in the catalog, --order)"
            )
        return same

    def place(self, chunk: pa.Table, row: int) -> str:
        """A row, in words: its keys. Empty if there are none."""
        names = dict.fromkeys((*self.task.by, *self.task.order))
        return ", ".join(f"{name}={chunk.column(name)[row].as_py()!s}" for name in names)

    def _refuse(self, walk: Walk, chunk: pa.Table) -> None:
        status, row = int(walk.cursor[STATUS]), int(walk.cursor[ROW])
        if status not in (NOWHERE, BACK, EXHAUSTED, OVERFLOW):
            return
        variables = " or ".join(self.task.pattern.skip.variables)
        where = self.place(chunk, row)
        if status == EXHAUSTED:
            tried = self.task.pattern.symbols[int(np.argmax(walk.trail.tried))]
            raise SaseRunError(
                f"the search for a match at {where or 'a row'} takes too many steps, most of them for {tried}: "
                "conditions depend on the rows before, and too many ways lead there; make PATTERN say more exactly "
                f"what comes before and after {tried}, or allow more with steps_per_row"
            )
        if status == OVERFLOW:
            raise SaseRunError(f"a number in DEFINE is beyond a bigint at {where or 'a row'}: cast it to a double")
        match = f"match {int(walk.cursor[NUMBER])} ({where})" if where else f"match {int(walk.cursor[NUMBER])}"
        if status == NOWHERE:
            raise SaseRunError(f"AFTER MATCH SKIP TO {variables}: {match} has no row of {variables} to go to")
        raise SaseRunError(
            f"AFTER MATCH SKIP TO {variables}: {match} begins with that row, and would be found again for ever"
        )

    # ---- output ---------------------------------------------------------------------------------

    def _shown(self, found: Found, columns: dict[str, pa.Array]) -> Iterator[pa.RecordBatch]:
        values = Values(self.task.pattern, found, columns, self.task.jit)
        if self.task.shown == "one row":
            points, rows = values.at_ends(), found.start
        else:
            points, rows = self._each_row(values, found)
        for begin in range(0, len(rows), self.task.batch_rows):
            part = slice(begin, begin + self.task.batch_rows)
            some = Points(points.match[part], points.until[part])
            kept = [taken(columns[name], rows[part]) for name in self.task.kept]
            measured = [values.column(measure, some, kind) for _, measure, kind in self.task.measures]
            yield self._batch(kept, measured, len(some.match))

    def _each_row(self, values: Values, found: Found) -> tuple[Points, Ints]:
        """The rows of matches that are not excluded, and the first row of empty ones."""
        lengths = np.diff(found.offset)
        element = np.arange(len(found.label))
        match = np.repeat(np.arange(len(lengths)), lengths)
        if self.task.pattern.excluded:
            table = np.ones(len(self.task.pattern.symbols), np.bool)
            table[list(self.task.pattern.excluded)] = False
            shown = table[found.label]
            element, match = element[shown], match[shown]
        rows = values.row[element]
        if self.task.shown == "all rows but empty matches" or lengths.all():
            return Points(match, element + 1), rows
        empty = np.flatnonzero(lengths == 0)
        points = Points(np.concatenate([match, empty]), np.concatenate([element + 1, found.offset[empty]]))
        return points, np.concatenate([rows, found.start[empty]])

    def _unmatched(self, rows: Ints, columns: dict[str, pa.Array]) -> Iterator[pa.RecordBatch]:
        for begin in range(0, len(rows), self.task.batch_rows):
            part = rows[begin : begin + self.task.batch_rows]
            kept = [taken(columns[name], part) for name in self.task.kept]
            yield self._batch(kept, [pa.nulls(len(part), kind) for _, _, kind in self.task.measures], len(part))

    def _batch(self, kept: list[pa.Array], measured: list[pa.Array], rows: int) -> pa.RecordBatch:
        """Columns have numbers, as on the way in. There is always one, or nobody would know how many rows there are."""
        arrays = [*kept, *measured, pa.array(np.ones(rows, np.bool))]
        return pa.RecordBatch.from_arrays(arrays, names=[str(at) for at in range(len(arrays))])


class Partition(RowMatcher):
    """A partition on its way through the kernel, chunk by chunk.

    `carried` holds the rows from which on nothing is decided; `marks` tells which of them are part of a match already,
    if rows of none are asked for.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.carried: list[pa.RecordBatch] = []
        self.marks: Bytes = np.zeros(0, np.uint8)
        self.previous: pa.Table | None = None
        """The row before the carried ones; None at the beginning of the partition."""
        self.number = 0
        self.ties = 0
        self.questions = _questions(task)

    @property
    def carried_rows(self) -> int:
        return len(self.marks)

    def matches(self, batches: Sequence[pa.RecordBatch], *, final: bool) -> Iterator[pa.RecordBatch]:
        """The matches that the new batches decide; all that are left if no batch follows."""
        batches = [*self.carried, *batches]
        total = sum(batch.num_rows for batch in batches)
        if not total:
            return
        old = self.carried_rows
        chunk = pa.Table.from_batches(batches)
        begun, groups = self._groups(chunk)
        if self.task.order:
            same = self.tied(chunk, groups)
            self.ties += int(np.count_nonzero(same[max(old - 1, 0) :]))  # those between carried rows are counted
        marks = np.concatenate([self.marks, np.zeros(total - old, np.uint8)])
        number = self.number if begun else 0
        symbols = int64s(chunk, self.task.symbols)
        rows = in_one_piece(symbols, groups, self.time(chunk), begun, number, not final)
        walk, columns = self.walk(chunk, rows, marks), self.columns(chunk)
        if self.questions is not None:
            decided, summaries = self._swept(walk, groups, number, columns)
            yield from summaries
        else:
            yield from self.found(walk, chunk, columns)
            decided, self.number = int(walk.ends.row[-1]), int(walk.ends.number[-1])
        self._carry(chunk, marks, decided)

    def _carry(self, chunk: pa.Table, marks: Bytes, decided: int) -> None:
        if decided:
            self.previous = chunk.slice(decided - 1, 1)
        self.carried = chunk.slice(decided).to_batches()
        self.marks = marks[decided:]

    def _groups(self, chunk: pa.Table) -> tuple[bool, Ints]:
        """Whether the first row goes on with an earlier group, and where groups begin and end."""
        previous = self.previous
        together = chunk if previous is None else pa.concat_tables([previous, chunk])
        new = np.zeros(together.num_rows - 1, np.bool)
        for name in self.task.by:
            new |= changes(together.column(name))
        if previous is None:
            begun = False
        else:
            begun, new = not new[0], new[1:]
        return begun, np.concatenate([[0], np.flatnonzero(new) + 1, [chunk.num_rows]])

    def _swept(
        self, walk: Walk, groups: Ints, number: int, columns: dict[str, pa.Array]
    ) -> tuple[int, Iterator[pa.RecordBatch]]:
        """How many rows are decided, and a row for each match, where one may begin at each row. They overlap, so all
        that is asked of them comes from one pass, and no match is walked through."""
        assert self.questions is not None
        found = walk.swept(*self.questions)
        undecided = np.flatnonzero(found[:, 0] == OPEN)
        decided = int(undecided[0]) if len(undecided) else len(found)
        start = np.flatnonzero(found[:decided, 0] >= 0)
        group = np.searchsorted(groups, start, side="right")
        heads = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]])[: len(start)])
        numbers = np.arange(len(start)) - np.repeat(heads, np.diff([*heads, len(start)])) + 1
        numbers[group == 1] += number
        last = int(np.searchsorted(groups, max(decided - 1, 0), side="right"))
        counted = int(np.count_nonzero(group == last))
        self.number = counted + (number if last == 1 else 0)
        return decided, self._summaries(found, start, numbers, columns)

    def _summaries(
        self, found: Ints, start: Ints, numbers: Ints, columns: dict[str, pa.Array]
    ) -> Iterator[pa.RecordBatch]:
        questions, symbols = len(self.task.measures), pa.array(self.task.pattern.symbols, pa.string())
        for begin in range(0, len(start), self.task.batch_rows):
            part = slice(begin, begin + self.task.batch_rows)
            rows = start[part]
            measured = []
            for at, (_, measure, _) in enumerate(self.task.measures):
                values, places = found[rows, 1 + at], found[rows, 1 + questions + at]
                match measure:
                    case MatchNumber():
                        measured.append(pa.array(numbers[part]))
                    case At():
                        measured.append(columns[measure.column].take(pa.array(values, mask=values < 0)))
                    case Classifier():
                        measured.append(symbols.take(pa.array(places, mask=places < 0)))
                    case Over():
                        measured.append(pa.array(values))
            yield self._batch([taken(columns[name], rows) for name in self.task.kept], measured, len(rows))


def _questions(task: Task) -> tuple[Ints, Ints] | None:
    """What `sweep` is asked for each measure, if it can answer all of them: one row per match, and a match may begin at
    each row; then FIRST and LAST without an offset, CLASSIFIER, MATCH_NUMBER, and counts of rows."""
    pattern = task.pattern
    if task.shown != "one row" or pattern.skip.to != "next row" or pattern.running or pattern.within:
        return None
    asked = np.zeros((len(task.measures), len(pattern.symbols)), np.int64)
    kinds = np.zeros(len(task.measures), np.int64)
    for at, (_, measure, _) in enumerate(task.measures):
        match measure:
            case (
                At(offset=0, variables=variables, first=first)
                | Classifier(offset=0, variables=variables, first=first, step=0)
            ):
                kinds[at] = SWEPT_FIRST if first else SWEPT_LAST
            case Over(function="count", column=None, variables=variables):
                kinds[at] = SWEPT_COUNT
            case MatchNumber():
                variables = ()
            case _:
                return None
        asked[at, list(pattern.positions(variables))] = 1
    return asked, kinds
