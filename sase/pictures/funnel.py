"""A conversion funnel: how many keys took each step, as a table and as bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sase.compiler.core.durations import spelled
from sase.pictures.diagram import CHAR, Diagram
from sase.pictures.picture import BLUE, GREY, Chart, Picture
from sase.runtime.io.report import table

if TYPE_CHECKING:
    from sase.conversion import Group, Step

LINE, GAP, BAR = 20, 14, 220
"""The height of a line, the room between columns, and the length of a bar, in pixels."""
HEADER = ("step", "keys", "of first", "of previous", "median time")


def funnel(groups: Sequence[Group], breakdown: str | None, timed: bool) -> Picture:
    """`timed`: lengths of time are microseconds, and not mere numbers."""
    header = (*([breakdown] if breakdown else []), *HEADER)
    rows = [(*([_value(group)] if breakdown else []), *_cells(step, timed)) for group in groups for step in group.steps]
    numeric = [name not in ("step", breakdown) for name in header]
    return Picture("Funnel", table(header, rows, numeric), lambda: _chart(groups, breakdown, timed))


def _value(group: Group) -> str | None:
    return None if group.value is None else str(group.value)


def _cells(step: Step, timed: bool) -> Iterator[str]:
    yield step.name
    yield f"{step.keys:,}"
    yield f"{step.of_first:.1%}"
    yield f"{step.of_previous:.1%}"
    yield "" if step.median is None else _length(step.median, timed)


def _length(ticks: float, timed: bool) -> str:
    """Two units are as much as anybody wants to know of a median."""
    if not timed:
        return f"{ticks:,.10g}"
    whole = round(ticks)
    if whole >= 1_000_000:
        whole = round(whole, -6)
    return " ".join(spelled(whole).split()[:4])


def _chart(groups: Sequence[Group], breakdown: str | None, timed: bool) -> Chart:
    """A bar is as long as the share of the first step's keys; what was lost since the step before is grey."""
    diagram = Diagram()
    steps = [step for group in groups for step in group.steps]
    bar = CHAR * max((len(step.name) for step in steps), default=0) + GAP
    keys = bar + BAR + GAP + CHAR * max((len(f"{step.keys:,}") for step in steps), default=0)
    share = keys + GAP + CHAR * len("100.0%")
    y = 10.0
    for group in groups:
        if breakdown:
            value = _value(group)
            diagram.text(0, y, f"{breakdown} {'NULL' if value is None else value}", "name")
            y += LINE
        before = 1.0
        for step in group.steps:
            diagram.text(0, y, step.name)
            end = bar + BAR * step.of_first
            diagram.bar(bar, end, y, BLUE)
            diagram.bar(end, bar + BAR * before, y, GREY)
            before = step.of_first
            diagram.text(keys, y, f"{step.keys:,}", "number")
            diagram.text(share, y, f"{step.of_first:.1%}", "number")
            if step.median is not None:
                diagram.text(share + GAP, y, f"after {_length(step.median, timed)}", colour=GREY)
            y += LINE
        y += 0.6 * LINE
    diagram.text(
        0, y, "a bar: the share of those that took the first step; grey: lost since the step before", "note", GREY
    )
    return diagram.chart()
