"""Lengths of time: how they are written and spelled. In microseconds, Spark's own resolution."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from sase.compiler.core.errors import did_you_mean

Parts = tuple[tuple[str, str | None], ...]
"""`1 h 30 min`: amounts with their units. A bare amount stands alone and has the unit None."""

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND

_LENGTHS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
    "week": 7 * DAY,
}
_SHORT = {
    "microsecond": ("us", "micros"),
    "millisecond": ("ms", "msec", "millis"),
    "second": ("s", "sec", "secs"),
    "minute": ("m", "min", "mins"),
    "hour": ("h", "hr", "hrs"),
    "day": ("d",),
    "week": ("w", "wk", "wks"),
}
UNITS = {spelling: length for name, length in _LENGTHS.items() for spelling in (name, name + "s", *_SHORT[name])}
NAMES = tuple(name + "s" for name in _LENGTHS)
_CALENDAR_UNITS = {"month", "months", "quarter", "quarters", "year", "years"}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([^\W\d]+)?\s*")
_AMOUNT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,2})?", re.IGNORECASE | re.ASCII)


def parse(text: str) -> Parts | None:
    """`12 hours` or `10000`; None when the text is no length of time."""
    parts: list[tuple[str, str | None]] = []
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            return None
        parts.append((found[1], found[2]))
        at = found.end()
    alone = len(parts) == 1
    return tuple(parts) if parts and all(unit or alone for _, unit in parts) else None


def microseconds(amount: str, unit: str) -> Fraction:
    """The exact length; a fraction of a microsecond is the caller's to refuse. ValueError if it is no number."""
    if not _AMOUNT.fullmatch(amount):
        raise ValueError(amount)
    return Fraction(Decimal(amount)) * UNITS[unit.lower()]


def spelled(length: int) -> str:
    """`12 hours`, `1 day 30 minutes`: a length as people write it."""
    parts = []
    for name, size in (("day", DAY), ("hour", HOUR), ("minute", MINUTE), ("second", SECOND), ("microsecond", 1)):
        count, length = divmod(length, size)
        if count:
            parts.append(f"{count} {name}{'s' if count != 1 else ''}")
    return " ".join(parts) or "0 seconds"


def unknown_unit(unit: str) -> tuple[str, str]:
    """What is wrong with it, and what to do."""
    if unit.lower() in ("event", "events", "row", "rows"):
        return "a window is a length of time, and not a number of events", "write WITHIN 10 minutes, for one"
    if unit.lower() in _CALENDAR_UNITS:
        return f"a {unit.lower().removesuffix('s')} has no fixed length", "write the number of days or weeks"
    return f"{unit} is not a unit of time", did_you_mean(unit, NAMES, "units are")
