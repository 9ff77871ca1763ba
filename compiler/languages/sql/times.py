"""What a condition of SQL says about the time between two rows, however it is spelled.

`b.ts - a.ts < INTERVAL '1' HOUR`, `b.ts < a.ts + INTERVAL '1' HOUR`, `timestampdiff(MINUTE, a.ts, b.ts) < 60` and half
of `b.ts BETWEEN a.ts AND …` are bounds on the difference of two times, in ticks. An inclusive bound is an exclusive one
a tick later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import Place
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.durations import DAY, SECOND, UNITS
from sase.compiler.core.windows import ticks_of

TypeOf = Callable[[exp.Column], str | None]
"""The Spark type of a column, and None where it is not known."""

INTEGERS = ("tinyint", "smallint", "int", "bigint")
INSTANTS = ("timestamp", "timestamp_ntz", "date")


@dataclass(frozen=True)
class Bound:
    """`later - earlier < ticks`."""

    earlier: Place
    later: Place
    ticks: int
    exact: bool = True
    """Else the condition says more than that, or something slightly different, and implies it."""
    steady: bool = False
    """True only where the clocks of the session's time zone never change: Spark computes with local times."""


@dataclass(frozen=True)
class _Linear:
    """A sum of times, each with its sign, and of a constant: in units of so many ticks."""

    places: Mapping[Place, int] = field(default_factory=dict)
    constant: int = 0
    unit: int | None = None
    """None for a plain number, which takes the unit of what it is added to."""
    rounded: bool = False
    """It may be off by less than one unit."""
    steady: bool = False
    zoned: bool = False
    """It is a timestamp with a zone, or differs from one by a constant."""
    dated: bool = False
    """The same of a date."""

    def plus(self, other: _Linear, sign: int) -> _Linear | None:
        units = {each for each in (self.unit, other.unit) if each is not None}
        if len(units) > 1:
            return None
        places = dict(self.places)
        for place, count in other.places.items():
            places[place] = places.get(place, 0) + sign * count
        return _Linear(
            {place: count for place, count in places.items() if count},
            self.constant + sign * other.constant,
            units.pop() if units else None,
            self.rounded or other.rounded,
            self.steady or other.steady or (self.zoned and other.zoned),
            self.zoned != other.zoned,
            self.dated != other.dated,
        )


def bounds(condition: exp.Expr, type_of: TypeOf) -> list[Bound]:
    """All that a comparison implies about the difference of two times of different variables; [] if that is nothing."""
    match condition:
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            left, right = condition.left, condition.right
        case _:
            return []
    less = isinstance(condition, exp.LT | exp.LTE)
    if not less:
        left, right = right, left
    strict = isinstance(condition, exp.LT | exp.GT)
    inner = scalars.unparenthesised(left)
    if isinstance(inner, exp.Abs):  # |x - y| < c
        one, limit = _linear(inner.this, type_of), _linear(right, type_of)
        if one is None or limit is None or limit.places:
            return []
        other = _Linear().plus(one, -1)
        sides = [one.plus(limit, -1), other.plus(limit, -1) if other else None]
    else:
        one, other = _linear(left, type_of), _linear(right, type_of)
        # Two instants are compared as they are: only their difference would be one of local times.
        sides = [] if one is None or other is None else [_compared(one, other)]
    return [bound for side in sides if side is not None for bound in _bound(side, strict)]


def _compared(one: _Linear, other: _Linear) -> _Linear | None:
    difference = one.plus(other, -1)
    return difference and replace(difference, steady=one.steady or other.steady)


def _bound(side: _Linear, strict: bool) -> Iterator[Bound]:
    """Of `side < 0`, or `side <= 0`."""
    signs = {sign: place for place, sign in side.places.items()}
    if len(side.places) != 2 or set(signs) != {1, -1} or signs[1][0] == signs[-1][0]:
        return
    unit = side.unit or 1
    if side.rounded:
        # v + n < 0 is v <= -n - 1, and v is less than 1 away from the exact quotient.
        ticks = (-side.constant if strict else 1 - side.constant) * unit
    else:
        ticks = -side.constant * unit + (0 if strict else 1)
    yield Bound(signs[-1], signs[1], ticks, not side.rounded, side.steady)


def _linear(node: exp.Expr, type_of: TypeOf) -> _Linear | None:
    match node:
        case exp.Paren():
            return _linear(node.this, type_of)
        case exp.Column():
            return _column(node, type_of)
        case exp.Literal() if not node.is_string and node.this.isdecimal():
            return _Linear(constant=int(node.this))
        case exp.Neg():
            inner = _linear(node.this, type_of)
            return None if inner is None else _Linear().plus(inner, -1)
        case exp.Interval():
            ticks = ticks_of(node)
            return None if ticks is None else _Linear(constant=ticks, unit=1)
        case exp.Add() | exp.Sub():
            return _sum(node, type_of)
        case exp.TsOrDsAdd() | exp.DateAdd() | exp.TimestampAdd() | exp.DatetimeAdd():
            return _moved(node, 1, type_of)
        case exp.DateSub() | exp.TimestampSub() | exp.DatetimeSub():
            return _moved(node, -1, type_of)
        case exp.DateDiff() | exp.TimestampDiff() | exp.DatetimeDiff():
            return _difference(node, type_of)
        case exp.StrToUnix() | exp.UnixSeconds():
            return _since_1970(node.this, SECOND, type_of)
        case exp.Cast() if node.to.this == exp.DataType.Type.BIGINT:
            cast = scalars.unparenthesised(node.this)
            if isinstance(cast, exp.Column) and type_of(cast) in INTEGERS:
                return _linear(cast, type_of)
            return _since_1970(cast, SECOND, type_of)
        case exp.UnixMillis():
            return _since_1970(node.this, 1_000, type_of)
        case exp.UnixMicros():
            return _since_1970(node.this, 1, type_of)
        case _:
            return None


def _column(node: exp.Column, type_of: TypeOf) -> _Linear | None:
    kind = type_of(node)
    if kind not in INTEGERS and kind not in INSTANTS:
        return None
    return _Linear({(node.table, node.name): 1}, unit=1, zoned=kind == "timestamp", dated=kind == "date")


def _sum(node: exp.Binary, type_of: TypeOf) -> _Linear | None:
    one, other = _linear(node.left, type_of), _linear(node.right, type_of)
    if one is not None and one.dated:
        other = _days(other)
    elif other is not None and other.dated:
        one = _days(one)
    if one is None or other is None:
        return None
    total = one.plus(other, 1 if isinstance(node, exp.Add) else -1)
    days = any(abs(each.constant) >= DAY for each in (one, other) if not each.places)
    return replace(total, steady=True) if total is not None and total.zoned and days else total


def _days(moved: _Linear | None) -> _Linear | None:
    """What a date can be moved by, and still be a date. `d + 7` are days."""
    if moved is None or moved.places:
        return moved
    if moved.unit is None:
        return _Linear(constant=moved.constant * DAY, unit=1)
    return None if moved.constant % DAY else moved


def _moved(node: exp.Expr, sign: int, type_of: TypeOf) -> _Linear | None:
    """`date_add(d, 7)`, `dateadd(HOUR, 1, ts)`."""
    base, unit = _linear(node.this, type_of), _unit(node)
    amount = _whole(node.expression)
    if base is None or unit is None or amount is None or len(base.places) != 1:
        return None
    length = sign * amount * unit
    if base.dated != (isinstance(node, exp.TsOrDsAdd | exp.DateSub) and unit == DAY):
        return None  # a date plus hours is a timestamp, and a timestamp plus days, by date_add, a date
    return replace(
        base, constant=base.constant + length, steady=base.steady or (base.zoned and abs(amount) * unit >= DAY)
    )


def _difference(node: exp.Expr, type_of: TypeOf) -> _Linear | None:
    """`datediff(b.d, a.d)`, `timestampdiff(MINUTE, a.ts, b.ts)`."""
    ends = [_linear(_undated(end), type_of) for end in (node.this, node.expression)]
    unit = _unit(node)
    if unit is None or any(end is None or len(end.places) != 1 or end.constant for end in ends):
        return None
    one, other = ends
    assert one is not None and other is not None
    total = one.plus(other, -1)
    kinds = {type_of(column) for column in node.find_all(exp.Column)}
    if total is None or not kinds <= set(INSTANTS):
        return None
    exact = kinds == {"date"} and unit == DAY
    return replace(total, unit=unit, rounded=not exact, steady="timestamp" in kinds, zoned=False, dated=False)


def _undated(node: exp.Expr) -> exp.Expr:
    """sqlglot notes that datediff takes the date of a timestamp."""
    return node.this if isinstance(node, exp.TsOrDsToDate) else node


def _since_1970(node: exp.Expr, unit: int, type_of: TypeOf) -> _Linear | None:
    inner = scalars.unparenthesised(node)
    if not isinstance(inner, exp.Column) or type_of(inner) != "timestamp":
        return None
    return _Linear({(inner.table, inner.name): 1}, unit=unit, rounded=unit > 1)


def _unit(node: exp.Expr) -> int | None:
    unit = node.args.get("unit")
    return DAY if unit is None else UNITS.get(unit.name.lower())


def _whole(node: exp.Expr) -> int | None:
    match scalars.unparenthesised(node):
        case exp.Literal(this=text) if re.fullmatch(r"\d+", text):
            return int(text)
        case exp.Neg(this=exp.Literal(this=text)) if re.fullmatch(r"\d+", text):
            return -int(text)
        case _:
            return None
