"""What is in results decides about later ones: candidates in the order of their last events in, results out.

All candidates of one moment see the same earlier results, are decided together, and count from the next moment on. What
counts are distinct events, by the number of their row, as long as the window of the moment reaches them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import groupby
from operator import add, eq, ge, gt, le, lt, mul, ne, sub
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sase.runtime.errors import SaseRunError
from sase.runtime.operator.matcher import int64s
from sase.runtime.operator.selection import Candidates, Selection
from sase.runtime.pattern import Branch, Combination

Tree = tuple[Any, ...]
"""A sign and what it takes: `("told", name)`, `("term", variable, column)`, `(">", tree, tree)`."""


@dataclass(frozen=True)
class Counted:
    """An aggregate of an attribute over the events of a variable that are in results."""

    name: str
    kind: str
    variable: str
    attribute: str
    result: str
    """Its Spark type."""


@dataclass(frozen=True)
class Deciding:
    """`last` are the variables that may hold the last event, `row` is the column that tells events apart.

    Of the matches of a moment, `select` and `exclusive` choose as `Combination` says, `among` all positive variables.
    """

    counted: tuple[Counted, ...]
    where: tuple[Tree, ...]
    last: tuple[str, ...]
    time: str
    order: str | None
    row: str
    within: int | None
    among: tuple[str, ...] = ()
    select: tuple[tuple[str, Literal["first", "last"]], ...] = ()
    exclusive: bool = False


# ---- values -------------------------------------------------------------------------------------

Values = Callable[[int, dict[str, Any]], Any]
"""Of a candidate, by its number, and what earlier results have."""

_UNIT = 2**1074
"""Every double is a whole number of these parts of one."""
_EXACT = Context(prec=100)


class Tally:
    """The distinct events of one aggregate. Sums are exact, and rounded once."""

    def __init__(self, counted: Counted, within: int | None) -> None:
        self.counted, self.within = counted, within
        self.inside: dict[Any, tuple[int, Any]] = {}
        self.oldest: list[tuple[int, int, Any]] = []
        self.best: list[tuple[Any, int, Any]] = []
        self.total, self.unit, self.number = 0, 1, 0
        self.special = [0, 0, 0]  # NaN, infinity, -infinity
        self.added = 0

    def add(self, row: Any, ticks: int, value: Any) -> None:
        if value is None or row in self.inside:
            return
        self.added += 1
        self.inside[row] = (ticks, value)
        heapq.heappush(self.oldest, (ticks, self.added, row))
        if self.counted.kind in ("min", "max"):
            heapq.heappush(self.best, (_Ranked(value, self.counted.kind == "max"), self.added, row))
        self._sum(value, 1)

    def forget(self, now: int) -> None:
        """What the window has left when it is `now`."""
        while self.within is not None and self.oldest and now - self.oldest[0][0] >= self.within:
            _, _, row = heapq.heappop(self.oldest)
            _, value = self.inside.pop(row)
            self._sum(value, -1)

    def _sum(self, value: Any, times: int) -> None:
        self.number += times
        if self.counted.kind not in ("sum", "avg"):
            return
        match value:
            case float() if not math.isfinite(value):
                self.special[0 if math.isnan(value) else 1 if value > 0 else 2] += times
            case float():
                self.unit = _UNIT
                above, below = value.as_integer_ratio()
                self.total += times * above * (_UNIT // below)
            case Decimal():
                scale = -int(value.as_tuple().exponent)
                self.unit = 10**scale
                self.total += times * int(value.scaleb(scale, _EXACT))
            case _:
                self.total += times * int(value)

    def value(self) -> Any:
        kind = self.counted.kind
        if kind == "count":
            return self.number
        if not self.number:
            return None
        if kind in ("min", "max"):
            while self.best[0][2] not in self.inside:
                heapq.heappop(self.best)
            return self.inside[self.best[0][2]][1]
        nan, above, below = self.special
        if nan or (above and below):
            return math.nan
        if above or below:
            return math.inf if above else -math.inf
        if kind == "avg" or self.counted.result == "double":
            return _quotient(self.total, self.unit * (self.number if kind == "avg" else 1))
        if self.counted.result == "bigint":
            if not -(2**63) <= self.total < 2**63:
                what = f"{self.counted.name} is {self.total}"
                raise SaseRunError(f"{what}, which does not fit into 64 bits: take the average, or cast it")
            return self.total
        return Decimal(self.total).scaleb(-len(str(self.unit)) + 1, _EXACT)


class _Ranked:
    """In the order of Spark: NaN is above everything."""

    def __init__(self, value: Any, most: bool) -> None:
        self.key = (isinstance(value, float) and math.isnan(value), value)
        self.most = most

    def __lt__(self, other: _Ranked) -> bool:
        if self.key[0] or other.key[0]:
            return self.key[0] > other.key[0] if self.most else self.key[0] < other.key[0]
        return bool(self.key[1] > other.key[1]) if self.most else bool(self.key[1] < other.key[1])


def _quotient(total: int, count: int) -> float:
    """Of whole numbers, Python's quotient is the nearest double."""
    try:
        return total / count
    except OverflowError:
        return math.inf if total > 0 else -math.inf


# ---- conditions ---------------------------------------------------------------------------------

_COMPARISONS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_ARITHMETIC = {"+": add, "-": sub, "*": mul}


def compiled(tree: Tree, terms: dict[tuple[str, str], list[Any]]) -> Values:
    """A function of a tree; `terms` has the values of all candidates, and is filled in for each batch of them."""
    sign, *parts = tree
    match sign:
        case "told":
            (name,) = parts
            return lambda at, told: told[name]
        case "term":
            column = terms.setdefault((parts[0], parts[1]), [])
            return lambda at, told: column[at]
    of = [compiled(part, terms) for part in parts]
    match sign:
        case "coalesce":
            return lambda at, told: next((v for v in (each(at, told) for each in of) if v is not None), None)
        case "is null":
            return lambda at, told: of[0](at, told) is None
        case "not":
            return lambda at, told: None if (value := of[0](at, told)) is None else not value
        case "negative":
            return lambda at, told: None if (value := of[0](at, told)) is None else -value
        case "and" | "or":
            return lambda at, told: _joined(sign == "or", (each(at, told) for each in of))
    function = _compare(sign) if sign in _COMPARISONS else _divide if sign == "/" else _arithmetic(sign)

    def both(at: int, told: dict[str, Any]) -> Any:
        left, right = of[0](at, told), of[1](at, told)
        return None if left is None or right is None else function(left, right)

    return both


def _joined(strong: bool, values: Iterator[Any]) -> bool | None:
    known: bool | None = not strong
    for value in values:
        if value is not None and bool(value) == strong:
            return strong
        if value is None:
            known = None
    return known


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """As Spark compares and computes: beside a double, every number is one."""
    if isinstance(left, float) or isinstance(right, float):
        return float(left), float(right)
    return left, right


def _compare(sign: str) -> Callable[[Any, Any], bool]:
    test = _COMPARISONS[sign]

    def compare(left: Any, right: Any) -> bool:
        left, right = _alike(left, right)
        if isinstance(left, float) and (math.isnan(left) or math.isnan(right)):
            left, right = math.isnan(left), math.isnan(right)  # NaN is itself, and above everything
        return bool(test(left, right))

    return compare


def _arithmetic(sign: str) -> Callable[[Any, Any], Any]:
    function = _ARITHMETIC[sign]

    def compute(left: Any, right: Any) -> Any:
        value = function(*_alike(left, right))
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise SaseRunError(f"{left} {sign} {right} does not fit into 64 bits, and earlier results depend on it")
        return value

    return compute


def _divide(left: Any, right: Any) -> float:
    if right == 0:
        raise SaseRunError(f"{left} / {right}: a condition on earlier results divides by zero")
    return float(left) / float(right)


# ---- the fold -----------------------------------------------------------------------------------


class Fold:
    """Candidates in the order of their moments, some at a time; those of one moment together. `kept` is what was left
    before, as `state` gave it: the events of each aggregate, and those that are used up."""

    def __init__(self, deciding: Deciding, kept: Sequence[pa.Table] = ()) -> None:
        self.deciding = deciding
        self.tallies = [Tally(each, deciding.within) for each in deciding.counted]
        self.terms: dict[tuple[str, str], list[Any]] = {}
        self.where = [compiled(tree, self.terms) for tree in deciding.where]
        self.choice = _Choice(deciding, kept[len(self.tallies) :]) if deciding.among else None
        for tally, table in zip(self.tallies, kept, strict=False):
            for row, ticks, value in zip(*(column.to_pylist() for column in table.columns), strict=True):
                tally.add(row, ticks, value)

    def moments(self, matches: pa.Table) -> list[tuple[Any, ...]]:
        """Of each candidate, the place of its last event."""
        places = [_places(matches, variable, self.deciding) for variable in self.deciding.last]
        return [max(place for place in each if place is not None) for each in zip(*places, strict=True)]

    def decide(self, matches: pa.Table, moments: Sequence[tuple[Any, ...]]) -> pa.Table:
        """The results among the candidates, with a column for each aggregate: with the results of its own moment."""
        for (variable, column), values in self.terms.items():
            values[:] = _field(matches, variable, column)
        events = [
            list(
                zip(
                    _field(matches, each.variable, self.deciding.row),
                    _ticks(matches, each.variable, self.deciding.time),
                    _field(matches, each.variable, each.attribute),
                    strict=True,
                )
            )
            for each in self.deciding.counted
        ]
        if self.choice is not None:
            self.choice.open(matches)
        kept: list[int] = []
        told: dict[str, list[Any]] = {each.name: [] for each in self.deciding.counted}
        for moment, group in groupby(range(len(moments)), key=moments.__getitem__):
            for tally in self.tallies:
                tally.forget(moment[0])
            before = {tally.counted.name: tally.value() for tally in self.tallies}
            now = [at for at in group if all(condition(at, before) is True for condition in self.where)]
            if self.choice is not None:
                now = self.choice.chosen(now)
            for tally, listed in zip(self.tallies, events, strict=True):
                for at in now:
                    row, ticks, value = listed[at]
                    if ticks is not None:
                        tally.add(row, ticks, value)
            kept += now
            for tally in self.tallies if now else ():
                told[tally.counted.name] += [tally.value()] * len(now)
        results = matches.take(pa.array(kept, pa.int64()))
        for each in self.deciding.counted:
            results = results.append_column(each.name, pa.array(told[each.name], arrow_type(each.result)))
        return results

    def state(self, now: int) -> list[pa.Table]:
        """What matters in moments from `now` on: the events of each aggregate, and those that are used up."""
        tables = []
        for tally in self.tallies:
            tally.forget(now)
            rows = list(tally.inside)
            ticks, values = zip(*tally.inside.values(), strict=True) if rows else ((), ())
            tables.append(pa.table({"row": rows, "ticks": pa.array(ticks, pa.int64()), "value": pa.array(values)}))
        if self.choice is not None and self.deciding.exclusive:
            tables.append(self.choice.state(now))
        return tables


class _Choice:
    """`first`, `last`, and what is used up, among the matches that earlier results have let through."""

    def __init__(self, deciding: Deciding, kept: Sequence[pa.Table] = ()) -> None:
        self.deciding = deciding
        pattern = Combination((Branch(deciding.among),), False, deciding.select, deciding.exclusive)
        rows, ticks = (column.to_pylist() for column in kept[0].columns) if kept else ([], [])
        self.selection = Selection.of(pattern, np.ones(len(rows), np.bool))
        self.numbers: dict[Any, int] = {row: at for at, row in enumerate(rows)}
        """Of the events, by their rows."""
        self.ticks: dict[int, int] = dict(enumerate(ticks))
        """The times of the events, by their numbers."""

    def open(self, matches: pa.Table) -> None:
        """The candidates of which some are then asked for."""
        events, places = [], []
        for variable in self.deciding.among:
            rows = _field(matches, variable, self.deciding.row)
            events.append([-1 if row is None else self.numbers.setdefault(row, len(self.numbers)) for row in rows])
            places.append(_places(matches, variable, self.deciding))
        known = sorted({place for each in places for place in each if place is not None})
        ranks: dict[Any, int] = {place: rank for rank, place in enumerate(known)} | {None: -1}
        self.found = Candidates(
            np.array(events, np.int64).T,
            np.array([[ranks[place] for place in each] for each in places], np.int64).T,
            np.zeros(matches.num_rows, np.int64),
        )
        if self.deciding.exclusive:
            for numbers, listed in zip(events, places, strict=True):
                self.ticks |= {number: place[0] for number, place in zip(numbers, listed, strict=True) if place}
            more = np.zeros(len(self.numbers) - len(self.selection.used), np.bool)
            self.selection.used = np.concatenate([self.selection.used, more])

    def chosen(self, moment: list[int]) -> list[int]:
        kept: list[int] = self.selection.of_moment(self.found, np.array(moment, np.int64)).tolist()
        return kept

    def state(self, now: int) -> pa.Table:
        """The events that are used up, and that a match from `now` on could still reach."""
        within, used = self.deciding.within, self.selection.used
        rows = [
            row
            for row, number in self.numbers.items()
            if used[number] and (within is None or now - self.ticks[number] < within)
        ]
        ticks = [self.ticks[self.numbers[row]] for row in rows]
        return pa.table({"row": rows, "ticks": pa.array(ticks, pa.int64())})


def run(deciding: Deciding, batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The results of a partition that is sorted by moment; the matches' columns are called `names`. A batch may end
    between candidates of one moment, so those of the last one wait for the next batch."""
    fold = Fold(deciding)
    held: pa.Table | None = None
    for batch in _and_last(batches):
        tables = [held] if held is not None else []
        if batch is not None:
            tables.append(pa.Table.from_batches([batch]).rename_columns(list(names)))
        if not tables:
            continue
        table = pa.concat_tables(tables)
        moments = fold.moments(table)
        end = len(moments)
        while batch is not None and end > 0 and moments[end - 1] == moments[-1]:
            end -= 1
        held = None if batch is None else table.slice(end)
        yield from fold.decide(table.slice(0, end), moments[:end]).combine_chunks().to_batches()


def _and_last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch | None]:
    yield from batches
    yield None


def arrow_type(name: str) -> pa.DataType:
    if name.startswith("decimal"):
        precision, scale = name.removeprefix("decimal(").rstrip(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    kinds = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
    return kinds.get(name, pa.float64())


def _column(matches: pa.Table, variable: str, name: str) -> pa.ChunkedArray:
    return pc.struct_field(matches.column(variable), name)


def _field(matches: pa.Table, variable: str, name: str) -> list[Any]:
    values: list[Any] = _column(matches, variable, name).to_pylist()
    return values


def _places(matches: pa.Table, variable: str, deciding: Deciding) -> list[tuple[Any, ...] | None]:
    time = _ticks(matches, variable, deciding.time)
    order = _field(matches, variable, deciding.order) if deciding.order else [0] * len(time)
    return [None if at is None else (at, n) for at, n in zip(time, order, strict=True)]


def _ticks(matches: pa.Table, variable: str, name: str) -> list[int | None]:
    """None where there is no such event."""
    column = _column(matches, variable, name)
    there = pc.is_valid(column).to_numpy()
    ticks = np.full(len(column), None, object)
    ticks[there] = int64s(pa.table({name: column.filter(pa.array(there))}), name)
    return list(ticks)
