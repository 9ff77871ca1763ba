"""Why rows are part of no match: what each condition of a MATCH_RECOGNIZE clause lets through, and how far it gets.

The clause is run with all its rows shown, so that each is known to be part of a match or not. Of a few partitions with
rows of no match, all rows are then looked at here: the pattern is tried from each such row, and what is told is the row
at which the longest try got stuck, and what failed there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import sqlglot
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from sase.compiler.emit.explain_sql import condition_text
from sase.compiler.plan.rows import RowPlan
from sase.compiler.plan.statement import PlannedView, printed, used_by
from sase.runtime.events import quoted
from sase.runtime.kernels.compile_conditions import Program
from sase.runtime.kernels.conditions import holds, new_trail
from sase.runtime.operator.matcher import int64s
from sase.runtime.row_pattern import ACCEPT, Classifier, MatchNumber, Measure, RowPattern
from sase.runtime.rows import Options, RowOrder, match_rows, symbol_bits

if TYPE_CHECKING:
    from types import ModuleType

    from sase.statement import Statement

LANE, ROW = "__sase_lane", "__sase_row"
PARTITIONS, ROWS, MISSES, STEPS = 3, 2_000, 5, 20_000


@dataclass(frozen=True)
class Part:
    """A part of a condition: as it is shown, as Spark computes it, and its two sides, if it is a comparison."""

    variable: str
    text: str
    sql: str
    sides: tuple[str, str] | None
    sign: str = ""


@dataclass(frozen=True)
class Miss:
    """The longest try from a row: the variables that took rows, where it got stuck, and why."""

    lane: str
    row: int
    where: str
    taken: tuple[str, ...]
    failed: tuple[str, ...]
    """At the row behind these."""

    def __str__(self) -> str:
        stuck = self.row + len(self.taken)
        behind = f"{' '.join(_runs(self.taken))}, then " if self.taken else ""
        place = " · ".join(text for text in (self.lane, self.where) if text)
        return f"row {self.row} ({place}): {behind}row {stuck}: {'; '.join(self.failed)}"


@dataclass(frozen=True)
class RowAnalysis:
    view: str
    rows: int
    partitions: int
    parts: tuple[tuple[Part, int], ...]
    """How many rows meet each part of each condition."""
    matches: int
    covered: int
    mapped: tuple[tuple[str, int], ...]
    """How many rows each variable has taken."""
    misses: tuple[Miss, ...]

    def __str__(self) -> str:
        rows = [("rows", f"{self.rows:,}", f"in {self.partitions:,} partition{'' if self.partitions == 1 else 's'}")]
        rows += [(f"may be {part.variable}", f"{count:,}", part.text) for part, count in self.parts]
        taken = ", ".join(f"{name} {count:,}" for name, count in self.mapped)
        rows.append(("matches", f"{self.matches:,}", taken))
        rows.append(("of a match", f"{self.covered:,}", "rows"))
        rows.append(("of no match", f"{self.rows - self.covered:,}", "rows"))
        heads, counts = (max(len(row[at]) for row in rows) for at in (0, 1))
        last = ""
        lines = [f"{{{self.view}}}"]
        for head, count, text in rows:
            lines.append(f"  {'' if head == last else head:<{heads}}  {count:>{counts}}  {text}".rstrip())
            last = head
        if self.misses:
            lines += ["  The longest tries from rows of no match, and where they got stuck:"]
            lines += [f"    {miss}" for miss in self.misses]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Labelled:
    """A clause with all of its rows shown: to which variable of which match each is mapped, or to none."""

    view: PlannedView
    order: RowOrder
    pattern: RowPattern
    prepared: DataFrame
    rows: DataFrame
    parts: tuple[Part, ...]


def analyses(statement: Statement) -> list[RowAnalysis]:
    return [_analysis(each) for each in labelled(statement)]


def labelled(statement: Statement) -> Iterator[Labelled]:
    from sase.runtime.session import session

    counted = statement.with_windows
    planned, module = counted.compiled.statement, counted.module
    quiet = Options(warn=lambda text: None)
    frames: dict[str, DataFrame] = {}
    for view in planned.views:
        used: dict[str, Any] = {each.name: frames[each.name] for each in used_by(view.reads, planned.views)}
        rows = session().sql(printed(view.reads, planned.views), **used)
        yield _labelled(view, module, rows, quiet)
        frames[view.name] = getattr(module, f"find_{view.name}")(rows, quiet)


def _labelled(view: PlannedView, module: ModuleType, rows: DataFrame, options: Options) -> Labelled:
    plan = view.plan
    order: RowOrder = getattr(module, f"{view.name.upper()}_ORDER")
    pattern: RowPattern = getattr(module, f"{view.name.upper()}_PATTERN")
    parts = tuple(parts_of(plan))
    lane = F.concat_ws(", ", *(F.coalesce(F.col(quoted(name)).cast("string"), F.lit("NULL")) for name in plan.by))

    def with_columns(rows: DataFrame, columns: dict[str, Column]) -> DataFrame:
        return rows.withColumns(columns) if columns else rows

    prepared = with_columns(rows, {name: F.expr(text) for name, text in plan.computed.items()})
    prepared = order.sort(prepared)
    neighbours = {name: order.neighbour(each.sql, each.step) for name, each in plan.neighbours.items()}
    prepared = with_columns(prepared, {ROW: order.number(), **neighbours})
    prepared = with_columns(prepared, {name: F.expr(text) for name, text in plan.terms.items()})
    prepared = prepared.withColumns({LANE: lane, "_sase_symbols": symbol_bits(plan.fills)})
    values: dict[str, Measure] = {"_sase_number": MatchNumber(), "_sase_variable": Classifier(final=False)}
    every = replace(pattern, excluded=())
    shown = match_rows(prepared, every, order, values, shown="all rows and unmatched rows", options=options)
    return Labelled(view, order, pattern, prepared, shown, parts)


# ---- counts -------------------------------------------------------------------------------------


def parts_of(plan: RowPlan) -> Iterator[Part]:
    """The conditions on single rows, taken apart at AND, in the words of the clause."""
    for variable, fill in plan.fills.items():
        for part in _conjuncts(sqlglot.parse_one(fill, read="spark")):
            sides, sign = None, _SIGNS.get(type(part), "")
            if sign and isinstance(part, exp.Binary):
                sides = part.left.sql("spark"), part.right.sql("spark")
            yield Part(variable, _in_words(part, plan), part.sql("spark"), sides, sign)


_SIGNS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Paren):
        yield from _conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node


def _in_words(part: exp.Expr, plan: RowPlan) -> str:
    """With PREV and NEXT in place of the columns that hold their values."""

    def named(node: exp.Expr) -> exp.Expr:
        each = plan.neighbours.get(node.name) if isinstance(node, exp.Column) else None
        if each is None:
            return node
        steps = [] if abs(each.step) == 1 else [exp.Literal.number(abs(each.step))]
        inner = sqlglot.parse_one(each.sql, read="spark")
        return exp.Anonymous(this="PREV" if each.step < 0 else "NEXT", expressions=[inner, *steps])

    return part.copy().transform(named).sql("spark")


def _analysis(found: Labelled) -> RowAnalysis:
    counted = found.prepared.agg(
        F.count("*").alias("rows"),
        F.count_distinct(LANE).alias("partitions"),
        *(
            F.count_if(F.coalesce(F.expr(part.sql), F.lit(False))).alias(f"p{at}")
            for at, part in enumerate(found.parts)
        ),
    ).first()
    variables = found.pattern.variables
    per_lane = found.rows.groupBy(LANE).agg(
        F.max("_sase_number").alias("matches"),
        F.count_distinct(F.when(F.col("_sase_variable").isNotNull(), F.col(ROW))).alias("covered"),
        *(F.count_if(F.col("_sase_variable") == name).alias(f"v{at}") for at, name in enumerate(variables)),
    )
    totals = per_lane.agg(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in per_lane.columns[1:])).first()
    assert counted is not None and totals is not None
    return RowAnalysis(
        view=found.view.name,
        rows=counted["rows"],
        partitions=counted["partitions"],
        parts=tuple((part, counted[f"p{at}"]) for at, part in enumerate(found.parts)),
        matches=int(totals["matches"]),
        covered=int(totals["covered"]),
        mapped=tuple((name, int(totals[f"v{at}"])) for at, name in enumerate(variables)),
        misses=tuple(_misses(found)),
    )


# ---- tries --------------------------------------------------------------------------------------


def _misses(found: Labelled) -> list[Miss]:
    unmatched = found.rows.where(F.col("_sase_variable").isNull() & F.col("_sase_number").isNull())
    lanes = [row[0] for row in unmatched.select(LANE).distinct().orderBy(LANE).limit(PARTITIONS).collect()]
    if not lanes:
        return []
    chosen = found.rows.where(F.col(LANE).isin(lanes))
    matched = {(row[0], row[1]) for row in chosen.where("_sase_number IS NOT NULL").select(LANE, ROW).collect()}
    sides = {}
    for at, part in enumerate(found.parts):
        sides[f"holds{at}"] = F.coalesce(F.expr(part.sql), F.lit(False))
        for side, sql in zip(("left", "right"), part.sides or (), strict=bool(part.sides)):
            sides[f"{side}{at}"] = F.coalesce(F.expr(sql).cast("string"), F.lit("NULL"))
    rows = found.prepared.where(F.col(LANE).isin(lanes)).withColumns(sides).limit(ROWS).toArrow()
    rows = rows.sort_by([(LANE, "ascending"), (ROW, "ascending")])
    tries = Tries(found, rows)
    places = list(zip(rows.column(LANE).to_pylist(), rows.column(ROW).to_pylist(), strict=True))
    misses: list[Miss] = []
    begin = 0
    for _, group in groupby(places, key=lambda place: place[0]):
        stop = begin + len(list(group))
        for at in range(begin, stop):
            if places[at] not in matched and (miss := tries.miss(begin, at, stop)) is not None:
                misses.append(miss)
        begin = stop
    return sorted(misses, key=lambda miss: (-len(miss.taken), miss.lane, miss.row))[:MISSES]


class Tries:
    """The rows of some partitions, from which the pattern is tried."""

    def __init__(self, found: Labelled, rows: pa.Table) -> None:
        self.found, self.pattern, self.rows = found, found.pattern, rows
        self.symbols = int64s(rows, "_sase_symbols")
        self.bit = {name: 1 << at for at, name in enumerate(self.pattern.variables)}
        within = self.pattern.within
        self.time = int64s(rows, found.order.keys[0].column) if within else None
        self.program = Program(self.pattern, {field.name: field.type for field in rows.schema})
        self.conditions = self.program.conditions()
        self.terms = self.program.encoded(rows) if self.pattern.running else None

    def miss(self, first: int, begin: int, stop: int) -> Miss | None:
        """What became of the longest try; None if the pattern can be completed."""
        pattern = self.pattern
        start = pattern.start if pattern.first is None or begin != first else pattern.first
        best: tuple[int, ...] = ()
        failed: dict[str, None] = {}
        waiting: list[tuple[tuple[int, ...], tuple[int, ...]]] = [(start, ())]
        seen: set[tuple[int, int]] = set()
        for _ in range(STEPS):
            if not waiting:
                break
            choices, trail = waiting.pop()
            if len(trail) > len(best):
                best, failed = trail, {}
            further = []
            for position in choices:
                if position == ACCEPT:
                    return None
                if not pattern.running and (len(trail), position) in seen:
                    continue
                seen.add((len(trail), position))
                why = self._fails(begin, stop, trail, position)
                if why is None:
                    further.append((pattern.follow[position], (*trail, position)))
                elif len(trail) == len(best):
                    failed |= dict.fromkeys(why)
            waiting += reversed(further)
        keys = [key.column for key in self.found.order.keys if not key.column.startswith("_sase_")]
        where = ", ".join(f"{name} {self.rows.column(name)[begin].as_py()}" for name in keys)
        lane, row = (self.rows.column(name)[begin].as_py() for name in (LANE, ROW))
        return Miss(lane, row, where, tuple(pattern.symbols[each] for each in best), tuple(failed))

    def _fails(self, begin: int, stop: int, trail: tuple[int, ...], position: int) -> list[str] | None:
        """Why this position cannot take the next row; None if it can."""
        variable, here = self.pattern.symbols[position], begin + len(trail)
        if here == stop:
            return ["the partition ends"]
        if self.time is not None and self.time[here] - self.time[begin] >= (self.pattern.within or 0):
            return ["WITHIN has ended"]
        if not self.symbols[here] & self.bit[variable]:
            return [f"{variable} failed, {text}" for text in self._false(variable, here)]
        if self.terms is not None:
            label = np.array([*trail, position], np.int64)
            noted = new_trail(self.conditions, len(label), len(self.pattern.symbols), 0)
            for depth in range(len(label)):
                truth = holds(self.conditions, self.terms, noted, label, 0, depth, begin, 1)
            if truth != 1:
                running = self.found.view.plan.running[variable]
                return [f"{variable} failed, given the rows before: {condition_text(running)}"]
        return None

    def _false(self, variable: str, row: int) -> Iterator[str]:
        """The parts of its condition that do not hold, with the values that they compare."""
        for at, part in enumerate(self.found.parts):
            if part.variable == variable and not self.rows.column(f"holds{at}")[row].as_py():
                if part.sides is None:
                    yield part.text
                else:
                    left, right = (self.rows.column(f"{side}{at}")[row].as_py() for side in ("left", "right"))
                    yield f"{left} {part.sign} {right} ({part.text})"


def _runs(names: Sequence[str]) -> Iterator[str]:
    """`A DOWN×3`."""
    for name, group in groupby(names):
        count = len(list(group))
        yield name if count == 1 else f"{name}×{count}"


def told(statement: Statement) -> str:
    """What `sase explain --analyze` says of a statement."""
    found = analyses(statement)
    return "\n".join(map(str, found)) if found else "There is no MATCH_RECOGNIZE: nothing is to be analysed.\n"
