"""Units of time, in microseconds: Spark's own resolution."""

from __future__ import annotations

from fractions import Fraction

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
CALENDAR_UNITS = {"month", "months", "quarter", "quarters", "year", "years"}


def microseconds(amount: str, unit: str) -> Fraction:
    """The exact length; a fraction of a microsecond is the caller's to refuse."""
    return Fraction(amount) * UNITS[unit.lower()]


def spelled(length: int) -> str:
    """`12 hours`, `1 day 30 minutes`: a length as people write it."""
    parts = []
    for name, size in (("day", DAY), ("hour", HOUR), ("minute", MINUTE), ("second", SECOND), ("microsecond", 1)):
        count, length = divmod(length, size)
        if count:
            parts.append(f"{count} {name}{'s' if count != 1 else ''}")
    return " ".join(parts) or "0 seconds"
