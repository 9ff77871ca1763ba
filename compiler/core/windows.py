"""WITHIN on a time column: a length of time in its ticks."""

from __future__ import annotations

from sase.compiler.core.bound import TimeKind, Window
from sase.compiler.core.durations import UNITS, Parts, microseconds, spelled, unknown_unit
from sase.compiler.core.errors import Diagnostic, Span


def window(length: Parts, span: Span, column: str, kind: TimeKind) -> Window | Diagnostic:
    """The window, or what is wrong with it."""
    if kind == "integer":
        return _integer_window(length, span, column)
    total = 0
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
            ticks = microseconds(amount, unit)
        except ValueError:
            return Diagnostic(f"{amount!r} is not a number of {unit}", span, "write INTERVAL '12' HOUR")
        if ticks.denominator != 1:
            return Diagnostic("a window is a whole number of microseconds", span)
        total += int(ticks)
    return _positive(Window(total, spelled(total)), span)


def _integer_window(length: Parts, span: Span, column: str) -> Window | Diagnostic:
    ((amount, unit), *more) = length
    if unit is not None or more:
        return Diagnostic(
            f"the time column {column} is an integer and has no units",
            span,
            "write the bare length in its units, such as WITHIN 10000",
        )
    ticks = microseconds(amount, "microsecond")
    if ticks.denominator != 1:
        return Diagnostic("a window on an integer time column is a whole number", span, f"write WITHIN {round(ticks)}")
    return _positive(Window(int(ticks), str(int(ticks))), span)


def _positive(window: Window, span: Span) -> Window | Diagnostic:
    if window.ticks <= 0:
        return Diagnostic(
            "a window must be longer than zero",
            span,
            "c.time - a.time < window is strict, so a window of zero holds nothing",
        )
    return window
