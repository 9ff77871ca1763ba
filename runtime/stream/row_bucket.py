"""Row patterns on a stream: what a bucket of keys remembers from one micro-batch to the next.

The state of a bucket is a table of rows, in no order. A micro-batch releases the rows that the watermark has passed,
and walks through the groups in which that may decide something: those with a row that is newly released, and those with
a start whose window has ended. What is decided is reported, and forgotten. Nothing here knows of Spark, nor of SQL: the
rows are those of MATCH_RECOGNIZE, or the events of runs.

Invariants
----------
The state of a group is its open stretch: the rows from the first start on that is not decided, those that wait for the
watermark, and in front of them as many *context* rows as values look back to. With a window, a start is decided when
the watermark reaches its end; with a pattern of bounded length, when as many rows have come. Where matches may overlap
(AFTER MATCH SKIP TO NEXT ROW) and have no numbers, a start does not depend on those before it: then a match is out when
its last row is released, and the state says which starts are decided. Else starts are decided in order. Where values
look ahead, the last rows of a group wait for those that they look at, and the walk does not see them: there, a window
has ended when the first row that waits is behind it, and no clock decides anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sase.runtime.errors import SaseRunError
from sase.runtime.kernels.compile_conditions import Program, Unfit
from sase.runtime.kernels.conditions import ERROR
from sase.runtime.kernels.encode import group_codes, sort_ranks
from sase.runtime.kernels.rows import BEGINNING, COVERED, DECIDED, Ints, Rows, meets
from sase.runtime.operator.choice import of_runs, rows_of
from sase.runtime.operator.matcher import int64s
from sase.runtime.operator.neighbours import shifted_column
from sase.runtime.operator.rows import RowMatcher, Task
from sase.runtime.operator.selection import Candidates, Selection
from sase.runtime.row_pattern import Condition, MatchNumber, RowPattern, leaves_of
from sase.runtime.stream.bucket import Step, called_at, named_at, sorting
from sase.runtime.stream.horizon import FOREVER, TIMELY

FLAGS, NUMBER = "_sase_flags", "_sase_number"
"""Columns of a state: what a row is, and the number of the last match of its group."""

CONTEXT, USED = 2, 8
"""Flags beside those of the kernel: the row is decided, and only looked back to; a match has used it up."""


@dataclass(frozen=True)
class Choice:
    """`first`, `last` and what is used up, among the matches that one row completes."""

    number: str
    """The column that has the numbers of rows, which rise through a group,"""
    numbers: str
    """and the measure that has those of all rows of a match."""
    modes: tuple[tuple[str, str], ...]
    """Measures that have the number of one row, each with its mode."""
    exclusive: bool


@dataclass(frozen=True)
class RowStreamTask(Task):
    """What a bucket is told. The first of its keys is the time."""

    event: tuple[str, tuple[str, ...]] | None = None
    """A column that is a struct of others, which alone are remembered: what a match keeps of an event."""
    context: int = 0
    """How many rows before the open stretch are looked back to, for ever."""
    late: tuple[str, ...] = ()
    """The columns of a row that came too late."""
    limit: int | None = None
    behind: int = 0
    """How far behind the watermark it works: results of other queries may come so long after their time."""
    choice: Choice | None = None

    @property
    def eager(self) -> bool:
        """Whether a match is out as soon as it is found: starts do not depend on each other, and nobody counts."""
        asked: list[Condition] = [measure for _, measure, _ in self.measures]
        asked += [leaf for _, condition in self.pattern.running for leaf in leaves_of(condition)]
        return self.pattern.skip.to == "next row" and not any(isinstance(each, MatchNumber) for each in asked)

    @property
    def time(self) -> str:
        return self.order[0]


@dataclass(frozen=True)
class GateTask:
    """What a bucket is told that has no state: rows go on as they come, but for those that came too late."""

    by: tuple[str, ...]
    time: str
    late: tuple[str, ...]
    """The columns of a row that came too late,"""
    kept: tuple[str, ...] = ()
    """and of one that goes on; where there are none, none does."""


class Gate:
    def __init__(self, task: GateTask) -> None:
        self.task = task

    def advance(self, state: pa.Table | None, arrived: pa.Table | None, watermark: int) -> Step:
        late, timely = None, list[pa.RecordBatch]()
        if arrived is not None:
            behind = int64s(arrived, self.task.time) < watermark
            late = arrived.filter(behind).select(list(self.task.late))
            if self.task.kept:
                timely = arrived.filter(~behind).select(list(self.task.kept)).to_batches()
        return Step(late, iter(timely), None, None)


class RowBucket(RowMatcher):
    """The rows of some keys, on their way through the window."""

    def __init__(self, task: RowStreamTask) -> None:
        super().__init__(task)
        self.stream = task
        self.clocked = self.tables.within > 0 and not task.ahead

    def advance(self, state: pa.Table | None, arrived: pa.Table | None, watermark: int) -> Step:
        """One micro-batch of a bucket; time and watermark are in ticks. The watermark is that by which the bucket
        works."""
        late = None
        if arrived is not None:
            symbols = int64s(arrived, self.task.symbols)
            if (timely := symbols & TIMELY != 0).any():
                place = arrived.schema.get_field_index(self.task.symbols)
                arrived = arrived.set_column(place, arrived.schema.field(place), pa.array(symbols & ~TIMELY))
            behind = (int64s(arrived, self.stream.time) < watermark + self.stream.behind) & ~timely
            if behind.any():
                late = arrived.filter(behind).select(list(self.stream.late))
                arrived = arrived.filter(~behind)
            nothing = pa.array(np.zeros(arrived.num_rows, np.int64))
            arrived = arrived.select(list(self.task.names)).append_column(FLAGS, nothing).append_column(NUMBER, nothing)
        tables = [table for table in (state, arrived) if table is not None and table.num_rows]
        if not tables:
            return Step(late, iter(()), None, None)
        table = pa.concat_tables([table.replace_schema_metadata() for table in tables]).combine_chunks()
        codes = group_codes([table.column(name) for name in self.task.by], table.num_rows)
        if self.stream.limit is not None:
            self._enforce_limit(table, codes, self.stream.limit)
        time = int64s(table, self.stream.time)
        since = BEGINNING if state is None else called_at(state, BEGINNING)
        walked = self._concerned(time, int64s(table, FLAGS), codes, since, watermark)[codes] & (time < watermark)
        matches: list[pa.RecordBatch] = []
        if walked.any():
            rows = np.flatnonzero(walked)
            rows = rows[self._sorting(table, time, codes, rows)]
            chunk = table.take(pa.array(rows))
            keep = self._decided(chunk, codes[rows], watermark, matches)
            table = pa.concat_tables([table.filter(~walked), keep])
        return self._remembered(late, iter(matches), table, watermark)

    def _concerned(self, time: Ints, flags: Ints, codes: Ints, since: int, watermark: int) -> NDArray[np.bool]:
        """The groups in which something may be decided."""
        fresh = flags & CONTEXT == 0
        concerned = np.zeros(int(codes.max()) + 1, np.bool)
        concerned[codes[fresh & (time >= since) & (time < watermark)]] = True
        if self.clocked:
            concerned[codes[fresh & (time <= watermark - self.tables.within)]] = True
        return concerned

    def _sorting(self, table: pa.Table, time: Ints, codes: Ints, rows: Ints) -> Ints:
        """By group, time and the other keys. Rows that no key tells apart stay in the order of the state."""
        keys = [codes[rows], time[rows]]
        for key in self.task.keys[1:]:
            keys += sort_ranks(table.column(key.column).take(pa.array(rows)), key.descending, key.nulls_first)
        return sorting(*keys, stable=True)

    def _decided(self, chunk: pa.Table, codes: Ints, watermark: int, matches: list[pa.RecordBatch]) -> pa.Table:
        """Adds to the matches what is decided of some groups, and gives what is left of them."""
        edges = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])
        size = np.diff(edges)
        flags, number = int64s(chunk, FLAGS).copy(), int64s(chunk, NUMBER)
        looked_back = flags & CONTEXT != 0
        context = np.add.reduceat(looked_back.astype(np.int64), edges[:-1])
        from_end = np.repeat(edges[1:], size) - 1 - np.arange(len(codes))
        waits = ~looked_back & (from_end < self.task.ahead)
        waiting = np.add.reduceat(waits.astype(np.int64), edges[:-1])
        walked = ~looked_back & ~waits
        if self.task.refuse_ties:
            self.tied(chunk, edges)
        seen = self._with_event(self._with_shifts(chunk, edges))
        symbols = self._symbols(seen)
        if not walked.all():
            seen = seen.filter(walked)
        groups = np.concatenate([[0], np.cumsum(size - context - waiting)])
        known = np.full(len(size), watermark)
        if self.tables.within and self.task.ahead:
            time, first = int64s(chunk, self.stream.time), edges[1:] - waiting
            known[waiting > 0] = time[first[waiting > 0]]
        rows = Rows(
            symbols=symbols[walked],
            groups=groups,
            time=self.time(seen),
            begun=(context > 0).astype(np.int64),
            number=np.maximum.reduceat(number, edges[:-1]),
            open=np.ones(len(size), np.int64),
            known=known,
            eager=int(self.stream.eager),
        )
        marks, used = (flags[walked] & (COVERED | DECIDED)).astype(np.uint8), flags[walked] & USED
        walk = self.walk(seen, rows, marks)
        if self.stream.choice is None:
            matches += self.found(walk, seen, self.columns(seen))
        else:
            numbered = seen.append_column(self.stream.choice.number, pa.array(np.arange(seen.num_rows)))
            found = list(self.found(walk, numbered, self.columns(numbered)))
            matches += self._chosen(self.stream.choice, found, used)

        flags[walked] = marks | used
        left = groups[1:] - walk.ends.row + waiting
        flags[from_end >= np.repeat(left, size)] = CONTEXT
        keep = from_end < np.repeat(left + self.stream.context, size)
        chunk = chunk.drop_columns([FLAGS, NUMBER]).append_column(FLAGS, pa.array(flags))
        return chunk.append_column(NUMBER, pa.array(np.repeat(walk.ends.number, size))).filter(keep)

    def _chosen(self, choice: Choice, found: list[pa.RecordBatch], used: Ints) -> Iterator[pa.RecordBatch]:
        """Of the matches that released rows complete, those that are reported; their rows become used, if they are."""
        if not found:
            return
        table = pa.Table.from_batches(found)
        place = {name: len(self.task.kept) + at for at, (name, _, _) in enumerate(self.task.measures)}
        columns = [place[name] for name, _ in choice.modes]
        candidates = of_runs(table, place[choice.numbers], columns)
        order = np.argsort(candidates.places.max(axis=1), kind="stable")
        modes = [(at, mode) for at, (_, mode) in enumerate(choice.modes)]
        selection = Selection(modes, choice.exclusive, False, used != 0)
        kept, _ = selection.decided(Candidates(*(part[order] for part in candidates)), ended=True)
        used[selection.used] = USED
        yield from rows_of(table, order[kept])

    def _with_shifts(self, chunk: pa.Table, edges: Ints) -> pa.Table:
        """Values of rows before and behind; NULL where a group has none."""
        for name, shift in self.stream.shifts:
            chunk = chunk.append_column(name, shifted_column(chunk.column(shift.column), shift.step, edges))
        return chunk

    def _with_event(self, chunk: pa.Table) -> pa.Table:
        if self.stream.event is None:
            return chunk
        name, columns = self.stream.event
        arrays = [chunk.column(column).combine_chunks() for column in columns]
        return chunk.append_column(name, pa.StructArray.from_arrays(arrays, names=list(columns)))

    def _symbols(self, chunk: pa.Table) -> Ints:
        symbols = int64s(chunk, self.task.symbols)
        if not self.stream.meets:
            return symbols
        program = self._meeting(chunk.schema)
        try:
            conditions = program.conditions()
        except Unfit as error:
            raise SaseRunError(f"DEFINE: {error}") from None
        met = meets(conditions, program.encoded(chunk), chunk.num_rows, self.task.jit)
        if (met == ERROR).any():
            where = self.place(chunk, int(np.argmax(met == ERROR)))
            raise SaseRunError(f"a number in DEFINE is beyond a bigint at {where}: cast it to a double")
        for at, (variable, _) in enumerate(self.stream.meets):
            bit = 1 << self.task.pattern.variables.index(variable)
            symbols = np.where(met >> at & 1, symbols, symbols & ~bit)
        return symbols

    def _meeting(self, schema: pa.Schema) -> Program:
        """The conditions as those of a pattern, of which each row is tried alone."""
        names = tuple(variable for variable, _ in self.stream.meets)
        pattern = RowPattern(names, (), ((),) * len(names), (), running=self.stream.meets)
        return Program(pattern, {field.name: field.type for field in schema})

    def _remembered(
        self, late: pa.Table | None, matches: Iterator[pa.RecordBatch], table: pa.Table, watermark: int
    ) -> Step:
        if not table.num_rows:
            return Step(late, matches, None, None)
        time, flags = int64s(table, self.stream.time), int64s(table, FLAGS)
        waiting = time[time >= watermark]
        wake = int(waiting.min()) + 1 if len(waiting) else FOREVER
        if self.clocked:
            # The first row of an open stretch is a start; the others are decided later, or by its match.
            undecided = time[(flags & CONTEXT == 0) & (time < watermark)]
            wake = min(wake, int(undecided.min(initial=FOREVER - self.tables.within)) + self.tables.within)
        return Step(late, matches, named_at(table, watermark), wake)

    def _enforce_limit(self, table: pa.Table, codes: Ints, limit: int) -> None:
        count = np.bincount(codes)
        worst = int(count.argmax())
        if count[worst] > limit:
            row = int(np.flatnonzero(codes == worst)[0])
            key = ", ".join(f"{name}={table.column(name)[row].as_py()!r}" for name in self.task.by)
            rows, how = ("rows", "in a subquery") if self.stream.event is None else ("events", "with a condition")
            raise SaseRunError(
                f"{count[worst]:,} {rows}{f' of {key}' if key else ''} are waiting in the window: raise "
                f"--max-window-events-per-key, shorten WITHIN or --max-delay, or leave such {rows} out {how}"
            )
