"""WITHIN on a time column: a length of time in its ticks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from sqlglot import exp

from sase.compiler.core.bound import TimeKind, Window
from sase.compiler.core.durations import DAY, SECOND, UNITS, Parts, microseconds, parse, spelled, unknown_unit
from sase.compiler.core.errors import Diagnostic, Span

LONGEST: Mapping[TimeKind, int] = {"timestamp": 10_000_000 * DAY, "integer": 10**18}
"""The longest window, time slice and bucket, in ticks. Times end at ±8 · 10^18 (`FURTHEST` in `runtime/events.py`), so
that a time and a window add up within 64 bits. Spark's intervals end below 10^18 microseconds."""


def window(length: Parts, span: Span, column: str, kind: TimeKind) -> Window | Diagnostic:
    """The window, or what is wrong with it."""
    if kind == "integer":
        return _integer_window(length, span, column)
    total = Fraction(0)
    for amount, unit in length:
        if unit is None:
            return Diagnostic(
                f"a window on {column} needs a unit: it is a timestamp or a date",
                span,
                f"write WITHIN {amount} seconds, minutes, hours, days or weeks",
            )
        if unit.lower() not in UNITS:
            message, help = unknown_unit(unit)
            return Diagnostic(message, span, help)
        try:
            total += microseconds(amount, unit)
        except ValueError:
            return Diagnostic(f"{amount!r} is not a number of {unit}", span, "write INTERVAL '12' HOUR")
    if total.denominator != 1:
        return Diagnostic("a window is a whole number of microseconds", span)
    return _wrong_length(total, span, kind) or Window(int(total), spelled(int(total)))


def _integer_window(length: Parts, span: Span, column: str) -> Window | Diagnostic:
    ((amount, unit), *more) = length
    if unit is not None or more:
        return Diagnostic(
            f"the time column {column} is an integer and has no units",
            span,
            "write the bare length in its units, such as WITHIN 10000",
        )
    not_whole = "a window on an integer time column is a whole number"
    try:
        ticks = microseconds(amount, "microsecond")
    except ValueError:
        return Diagnostic(not_whole, span, "write WITHIN 10000")
    if ticks.denominator != 1:
        return Diagnostic(not_whole, span, f"write WITHIN {round(ticks)}")
    return _wrong_length(ticks, span, "integer") or Window(int(ticks), str(int(ticks)))


def _wrong_length(ticks: Fraction, span: Span, kind: TimeKind) -> Diagnostic | None:
    if ticks <= 0:
        return Diagnostic(
            "a window must be longer than zero",
            span,
            "c.time - a.time < window is strict, so a window of zero holds nothing",
        )
    if ticks > LONGEST[kind]:
        return Diagnostic("this window is too long", span, f"the longest is {longest(kind)}")
    return None


def longest(kind: TimeKind) -> str:
    return spelled(LONGEST[kind]) if kind == "timestamp" else str(LONGEST[kind])


_CLOCK = re.compile(r"(-)?(?:(\d+) )?(\d+):(\d\d?)(?::(\d\d?(?:\.\d{1,6})?))?")


def ticks_of(node: exp.Interval) -> int | None:
    """Of a fixed length: months and years have none."""
    text = node.this.name if isinstance(node.this, exp.Literal) else None
    if text is None and isinstance(node.this, exp.Neg) and isinstance(node.this.this, exp.Literal):
        text = f"-{node.this.this.name}"
    unit = node.args.get("unit")
    if text is None:
        return None
    text = text.strip()
    if isinstance(unit, exp.IntervalSpan):
        found = _CLOCK.fullmatch(text)
        span = f"{unit.this.name} TO {unit.expression.name}".upper()
        if found is None or span not in ("DAY TO SECOND", "HOUR TO SECOND", "DAY TO MINUTE", "HOUR TO MINUTE"):
            return None
        days, hours, minutes, seconds = (Fraction(each or 0) for each in found.groups()[1:])
        total = ((days * 24 + hours) * 60 + minutes) * 60 * SECOND + seconds * SECOND
        return int(-total if found[1] else total)
    parts = [(text, unit.name)] if unit is not None else parse(text) or ()
    total = Fraction(0)
    for amount, name in parts:
        if name is None or name.lower() not in UNITS:
            return None
        try:
            total += microseconds(amount, name)
        except ValueError:
            return None
    return int(total) if parts and total.denominator == 1 else None
