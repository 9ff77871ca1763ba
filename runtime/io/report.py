"""What a run says: that it starts, a table of matches, and one line of numbers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache

CELL = 40
"""Longer values are cut."""


@cache
def starting() -> None:
    """Once, and to a terminal only, so that it is not silent while Spark starts."""
    if sys.stderr.isatty():
        print("starting Spark …", file=sys.stderr, flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str | None]], numeric: Sequence[bool]) -> str:
    """Columns side by side, numbers to the right. None is NULL, and no value can leave its line."""
    cells = [[_cell(name) for name in header]]
    cells += [["NULL" if value is None else _cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["─" * width for width in widths])
    return "".join(_line(row, widths, numeric) for row in cells)


def _line(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    columns = zip(row, widths, numeric, strict=True)
    return (
        "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in columns).rstrip() + "\n"
    )


def _cell(text: str) -> str:
    # Cut first: a value may be megabytes long.
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: CELL + 1])
    return printable if len(printable) <= CELL else printable[: CELL - 1] + "…"


def summary(read: int | None, relevant: int, matches: int, seconds: float) -> str:
    """`read` is None where Spark does not tell how many events it has looked at."""
    parts = [] if read is None else [f"events read {read:,}"]
    parts += [f"relevant {relevant:,}", f"matches {matches:,}", duration(seconds)]
    return " · ".join(parts)


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
