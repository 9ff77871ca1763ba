"""What got through each step of a run: numbers that add up, and bars of what is left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from textwrap import shorten, wrap
from typing import TYPE_CHECKING

from sase.pictures.diagram import CHAR, Diagram
from sase.pictures.picture import BLUE, GREY, RED, Chart, Picture

if TYPE_CHECKING:
    from sase.analysis.stages import Stage


def stages(counted: Sequence[Stage]) -> Picture:
    """The stages of `Query.stages`: what is left, what a step took away, and both as a bar."""
    from sase.analysis.stages import table

    return Picture("What got through each step", table(counted), lambda: _chart(counted))


LINE, GAP, BAR = 18, 12, 96
"""The height of a line, the room between columns, and the length of a bar, in pixels."""
LONGEST, NOTE = 90, 62
"""Characters of a condition that are shown, and of a line of the conclusion."""


def _chart(counted: Sequence[Stage]) -> Chart:
    """Numbers stand to the left, and conditions, which may be long, to the right: on a narrow page it is their ends
    that are scrolled for. Bars are linear, and as long as what the count began with."""
    from sase.analysis.stages import conclusion, units

    diagram = Diagram()
    left = CHAR * max(len(f"{stage.left:,}") for stage in counted)
    removed = left + GAP + CHAR * max(len(f"−{stage.removed or 0:,}") for stage in counted)
    bar, what = removed + GAP, removed + GAP + BAR + GAP
    y, begun, unit = 10.0, 1, ""
    for of, group in groupby(counted, key=lambda stage: stage.of):
        diagram.text(0, y, of, "name")
        for stage in group:
            y += LINE
            if stage.removed is None:
                begun = max(stage.left, 1)
            diagram.text(left, y, f"{stage.left:,}", "number")
            if stage.removed:
                diagram.text(removed, y, f"−{stage.removed:,}", "number", RED)
            end = bar + BAR * stage.left / begun
            diagram.bar(bar, end, y, BLUE)
            diagram.bar(end, end + BAR * (stage.removed or 0) / begun, y, RED)
            after = diagram.text(what, y, shorten(stage.what, LONGEST, placeholder=" …"))
            if (stage.removed is None or stage.unit != unit) and stage.what != units(stage.unit, 2):
                diagram.text(after + CHAR, y, units(stage.unit, 2), colour=GREY)
            unit = stage.unit
        y += 1.4 * LINE
    for line in wrap(conclusion(counted), NOTE):
        diagram.text(0, y, line, "note")
        y += LINE
    diagram.text(0, y + 2, "a bar: what is left, of what its count began with; red: removed", "note", GREY)
    return diagram.chart()
