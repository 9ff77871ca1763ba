"""MATCH_RECOGNIZE over a DataFrame: one shuffle, and one sort, by the worker, or by Spark for the kernel and for window
functions."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark import AccumulatorParam, TaskContext
from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
)
from pyspark.sql.utils import is_remote

from sase.runtime import neighbours
from sase.runtime.errors import SaseRunError
from sase.runtime.events import collation, quoted, state_bits
from sase.runtime.executors import from_package
from sase.runtime.io.batches import bound_batches
from sase.runtime.kernels.sort import SortKey
from sase.runtime.operator.rows import Task
from sase.runtime.row_pattern import (
    At,
    Classifier,
    Condition,
    Constant,
    Label,
    MatchNumber,
    Measure,
    Operation,
    Over,
    RowPattern,
    Shift,
)
from sase.runtime.shuffle import by_key
from sase.runtime.ssc import Worker

OURS = "_sase_"
"""What names of our columns begin with."""


@dataclass(frozen=True)
class Key:
    """A column of ORDER BY."""

    column: str
    descending: bool = False
    nulls_first: bool | None = None

    @property
    def first(self) -> bool:
        """Whether NULL comes first."""
        return not self.descending if self.nulls_first is None else self.nulls_first

    def sorted(self) -> Column:
        column = F.col(quoted(self.column))
        if self.descending:
            return column.desc_nulls_first() if self.first else column.desc_nulls_last()
        return column.asc_nulls_first() if self.first else column.asc_nulls_last()


@dataclass(frozen=True)
class RowOrder:
    """PARTITION BY and ORDER BY."""

    by: Sequence[str]
    keys: Sequence[Key]

    def spread(self, rows: DataFrame) -> DataFrame:
        """The rows of a partition together, in any order. Without PARTITION BY, all of them are in one place."""
        self.refuse_ours(rows)
        bound_batches(rows, rows.columns)
        by = [quoted(name) for name in self.by]
        return by_key(rows, *by) if by else rows.repartition(1)

    def sort(self, rows: DataFrame) -> DataFrame:
        """The rows of a partition together, in order."""
        return self.sorted(self.spread(rows))

    def sorted(self, spread: DataFrame) -> DataFrame:
        keys = [*(F.col(quoted(name)).asc() for name in self.by), *(key.sorted() for key in self.keys)]
        return spread.sortWithinPartitions(*keys) if keys else spread

    def refuse_ours(self, rows: DataFrame) -> None:
        for name in rows.columns:
            if name.lower().startswith(OURS) and name not in (*self.by, *(key.column for key in self.keys)):
                raise SaseRunError(f"column {name} has a name that is ours: rename it in a subquery")

    def neighbour(self, value: str, step: int) -> Column:
        """A value of the row that stands `step` rows before (if negative) or behind."""
        shift = F.lag if step < 0 else F.lead
        return shift(F.expr(value), abs(step)).over(self._window())

    def number(self) -> Column:
        """Of a row, in its partition: from 1."""
        return F.row_number().over(self._window())

    def _window(self) -> WindowSpec:
        window = Window.partitionBy(*(quoted(name) for name in self.by))
        # lag and lead want an order; without one, rows stay as they come.
        return window.orderBy(*(key.sorted() for key in self.keys)) if self.keys else window.orderBy(F.lit(1))


@dataclass(frozen=True)
class Options:
    """What a run may ask for beside the rows.

    `warn` is told of ties in ORDER BY, and of what makes a run slow or its output large. Where conditions look at rows
    that were mapped before, `steps_per_row` is how many steps the search for matches may take, on the average of the
    rows of a chunk: more, and the run fails.
    """

    warn: Callable[[str], None] = field(default_factory=lambda: logging.getLogger("sase").warning)
    steps_per_row: int = 10_000
    batch_rows: int = 65_536
    chunk_rows: int = 262_144


def symbol_bits(define: Mapping[str, str]) -> Column:
    """A bit for each variable, the first one lowest: set where the row may be mapped to it."""
    return state_bits(define) if define else F.lit(0).cast("bigint")


def match_rows(
    rows: DataFrame,
    pattern: RowPattern,
    order: RowOrder,
    values: Mapping[str, Measure],
    *,
    shown: str,
    sort: str = "spark",
    before: Mapping[str, Shift] | None = None,
    meets: Mapping[str, Condition] | None = None,
    options: Options | None = None,
    symbols: str = "_sase_symbols",
    bootstrap: Callable[[], None] | None = None,
    refuse_ties: bool = False,
) -> DataFrame:
    """The matches of rows: their keys with one row per match, else the rows themselves; and the looked-up values.

    Rows come sorted, or the worker sorts them. `before` are columns with values of other rows, and `meets` what a row
    must meet beside its symbol bit, given these: the worker looks after both, too. Types that it does not know are
    Spark's to sort, to look up and to compare.

    The function that goes to the workers is pickled by value and holds no object of this package, so a worker can load
    it in any case and explain what it misses. It calls `bootstrap` first, which may bring the package along.
    """
    options = options or Options()
    for text in doubts(pattern, order, shown):
        options.warn(text)
    rows, before, meets, code = _prepared(rows, pattern, order, sort, before or {}, meets or {}, symbols)
    # What the worker adds has the types of what it comes from.
    typed = rows.withColumns({name: F.col(quoted(shift.column)) for name, shift in before.items()})
    task = task_of(
        typed, pattern, order, values, shown=shown, symbols=symbols, options=options, refuse_ties=refuse_ties
    )
    task = with_neighbours(task, before, meets, code)
    out = output_of(typed, task)
    numbered = StructType([StructField(str(at), kind) for at, (_, kind) in enumerate(out)])
    worker = _worker(
        pickle.dumps(task), _ties(rows, options.warn) if task.order and not refuse_ties else None, bootstrap
    )
    # Columns have numbers on their way: mapInArrow does not take every name.
    narrow = {symbols: F.col(symbols).cast(_narrowest(len(pattern.variables)))}
    columns = [narrow.get(name, F.col(quoted(name))) for name in task.names]
    given = rows.select(*columns).toDF(*map(str, range(len(task.names))))
    return given.mapInArrow(worker, numbered).toDF(*(name for name, _ in out)).drop(f"{OURS}there")


def _narrowest(bits: int) -> str:
    """A type that has so many bits beside its sign: rows travel with few bytes."""
    return next(name for name, size in (("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64)) if bits < size)


CODE = f"{OURS}code"


def _prepared(
    rows: DataFrame,
    pattern: RowPattern,
    order: RowOrder,
    sort: str,
    before: Mapping[str, Shift],
    meets: Mapping[str, Condition],
    symbols: str,
) -> tuple[DataFrame, Mapping[str, Shift], Mapping[str, Condition], str | None]:
    """The rows as a worker can take them, what is left for it to look up and to decide, and the column of codes by
    which it sorts; None if Spark sorts."""
    if sort == "spark":
        return rows, before, meets, None
    proper = _spelled(rows)
    before, meets = spelled_neighbours(rows, before, meets)
    kinds = {field.name: field.dataType for field in rows.schema}
    kinds |= {name: kinds[shift.column] for name, shift in before.items()}
    if not neighbours.decides(meets, kinds, rows.sparkSession):
        found = {name: order.neighbour(quoted(shift.column), shift.step) for name, shift in before.items()}
        return neighbours.with_windows(order.sorted(rows), found, meets, pattern.variables, symbols), {}, {}, None
    by = [proper(name) for name in order.by]
    if not neighbours.sorts([kinds[proper(key.column)] for key in order.keys]):
        return order.sorted(rows), before, meets, None
    if len(by) == 1 and isinstance(kinds[by[0]], IntegralType):
        return rows, before, meets, by[0]
    code = F.xxhash64(*(F.col(quoted(name)) for name in by)) if by else F.lit(0).cast("tinyint")
    return rows.withColumn(CODE, code), before, meets, CODE


def spelled_neighbours(
    rows: DataFrame, before: Mapping[str, Shift], meets: Mapping[str, Condition]
) -> tuple[dict[str, Shift], dict[str, Condition]]:
    """Columns of other rows, and conditions on these, in the names that the rows have."""
    proper = _spelled(rows)
    found = {name: Shift(proper(shift.column), shift.step) for name, shift in before.items()}

    def known(name: str) -> str:
        return name if name in found else proper(name)

    return found, {name: _spelled_out(each, known) for name, each in meets.items()}


def with_neighbours(
    task: Task, before: Mapping[str, Shift], meets: Mapping[str, Condition], code: str | None = None
) -> Task:
    """What a worker is told, if it sorts, or looks at the rows around a row."""
    asked = [shift.column for shift in before.values()]
    asked += [column for each in meets.values() for column in _columns(each)]
    names = dict.fromkeys([*task.names, *asked, *([code] if code else [])])
    return replace(
        task,
        names=tuple(name for name in names if name not in before),
        code=code,
        shifts=tuple(before.items()),
        meets=tuple(meets.items()),
    )


def doubts(pattern: RowPattern, order: RowOrder, shown: str) -> Iterator[str]:
    """What somebody may not have meant."""
    if not order.by:
        yield "there is no PARTITION BY: one core looks for all matches"
    if shown != "one row" and pattern.skip.to == "next row":
        yield (
            "ALL ROWS PER MATCH with SKIP TO NEXT ROW: a row comes as often as it is part of a match, which may be "
            "once for each row before it"
        )


def task_of(
    rows: DataFrame,
    pattern: RowPattern,
    order: RowOrder,
    values: Mapping[str, Measure],
    *,
    shown: str,
    symbols: str,
    options: Options,
    refuse_ties: bool = False,
) -> Task:
    """What a worker is told, in the names that the rows have."""
    ours = {name for name in rows.columns if name.startswith(OURS)}
    by, keys = tuple(order.by), tuple(key.column for key in order.keys)
    proper = _spelled(rows)
    by, keys = tuple(map(proper, by)), tuple(map(proper, keys))
    values = {name: _with_column(value, proper) for name, value in values.items()}
    kept = by if shown == "one row" else tuple(name for name in rows.columns if name not in ours)
    kinds = {name: _kind(rows, value) for name, value in values.items()}
    measured = [getattr(value, "column", None) for value in values.values()]
    pattern = replace(pattern, running=tuple((name, _spelled_out(each, proper)) for name, each in pattern.running))
    conditions = [column for _, each in pattern.running for column in _columns(each)]
    aggregated = [str(value.column) for value in values.values() if isinstance(value, Over) and value.column]
    for name in (*by, *conditions, *aggregated):
        if collated := collation(rows.schema[name].dataType, name, f"column {name}"):
            raise SaseRunError(collated)
    names = tuple(dict.fromkeys([*by, *keys, symbols, *kept, *(name for name in measured if name), *conditions]))
    return Task(
        pattern=pattern,
        names=names,
        by=by,
        keys=tuple(SortKey(name, key.descending, key.first) for name, key in zip(keys, order.keys, strict=True)),
        symbols=symbols,
        shown=shown,
        kept=kept,
        measures=tuple((name, value, _arrow(kinds[name])) for name, value in values.items()),
        batch_rows=options.batch_rows,
        chunk_rows=options.chunk_rows,
        steps_per_row=options.steps_per_row,
        jit=os.environ.get("SASE_JIT") != "0",
        refuse_ties=refuse_ties,
    )


def output_of(rows: DataFrame, task: Task) -> list[tuple[str, DataType]]:
    """The columns of matches: those of a row, the looked-up values, and one that is always there."""
    kept = [(name, rows.schema[name].dataType) for name in task.kept]
    return [*kept, *((name, _kind(rows, value)) for name, value, _ in task.measures), (f"{OURS}there", BooleanType())]


def all_rows(matches: DataFrame, first: Sequence[str], measures: Mapping[str, str]) -> DataFrame:
    """ALL ROWS PER MATCH: the keys, the measures, and then the other columns."""
    proper = _spelled(matches)
    head = list(map(proper, first))
    rest = [name for name in matches.columns if name not in head and not name.startswith(OURS)]
    return matches.select(
        *(F.col(quoted(name)) for name in head),
        *(F.expr(value).alias(name) for name, value in measures.items()),
        *(F.col(quoted(name)) for name in rest),
    )


def _spelled(rows: DataFrame) -> Callable[[str], str]:
    """Names as the DataFrame has them: Spark does not mind upper and lower case."""
    known = {name.lower(): name for name in rows.columns}

    def proper(name: str) -> str:
        if name in rows.columns:
            return name
        if name.lower() in known:
            return known[name.lower()]
        rows.select(F.col(quoted(name)))  # Spark says what is wrong, and what there is
        raise SaseRunError(f"there is no column {name}")

    return proper


def _with_column(value: Measure, proper: Callable[[str], str]) -> Measure:
    match value:
        case At() | Over(column=str()):
            return type(value)(**{**vars(value), "column": proper(str(value.column))})
        case _:
            return value


def _spelled_out(condition: Condition, proper: Callable[[str], str]) -> Condition:
    match condition:
        case Operation(sign, parts):
            return Operation(sign, tuple(_spelled_out(part, proper) for part in parts))
        case Constant() | Label():
            return condition
        case _:
            return _with_column(condition, proper)


def _columns(condition: Condition) -> Iterator[str]:
    match condition:
        case Operation(parts=parts):
            for part in parts:
                yield from _columns(part)
        case At(column=str(column)) | Over(column=str(column)):
            yield column


def _kind(rows: DataFrame, value: Measure) -> DataType:
    """The type of a value: for an aggregate, that of Spark's own."""
    match value:
        case MatchNumber():
            return LongType()
        case Classifier():
            return StringType()
        case Over(function="count"):
            return LongType()
        case At(column=column):
            return rows.schema[column].dataType
        case Over(function="labels"):
            return ArrayType(StringType())
        case Over(function="array_agg", column=str(column)):
            return ArrayType(rows.schema[column].dataType)
        case Over(function="min" | "max", column=str(column)):
            return rows.schema[column].dataType
    assert value.column is not None
    found = rows.select(F.expr(f"{value.function}({quoted(value.column)})")).schema[0].dataType
    if not isinstance(found, LongType | DoubleType | DecimalType):
        raise SaseRunError(
            f"{value.function} of {value.column} is {found.simpleString()}, which a match does not add up"
        )
    if isinstance(found, DoubleType) and isinstance(rows.schema[value.column].dataType, StringType):
        raise SaseRunError(f"{value.function}({value.column}): cast it to a number first")
    return found


def _arrow(kind: DataType) -> pa.DataType:
    """Types of aggregates, and of what is NULL on unmatched rows."""
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(kind, timezone="UTC")


class _Ties(AccumulatorParam[int]):
    """Rows that ORDER BY does not tell apart. Workers count them, and the driver says so when it hears of some."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.warn: Callable[[str], None] | None = warn

    def zero(self, value: int) -> int:
        return 0

    def addInPlace(self, value1: int, value2: int) -> int:
        if value2 and not value1 and self.warn is not None and TaskContext.get() is None:
            self.warn(
                f"{value2:,} rows or more have the same ORDER BY values as the row before them in their partition: "
                "their order is left to chance, and so are matches; add a key that tells them apart"
            )
        return value1 + value2

    def __reduce__(self) -> Any:
        return _Ties, (None,)  # what a worker counts with


def _ties(rows: DataFrame, warn: Callable[[str], None]) -> Callable[[int], None] | None:
    if is_remote():  # Spark Connect has no accumulators
        return None
    return rows.sparkSession.sparkContext.accumulator(0, _Ties(warn)).add


def _worker(task: bytes, ties: Callable[[int], None] | None, bootstrap: Callable[[], None] | None) -> Worker:
    load = from_package("sase.runtime.operator.rows", "run", bootstrap)

    def worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        run = load()
        yield from run(pickle.loads(task), batches, ties)

    return worker
