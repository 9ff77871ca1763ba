"""Boxes, circles, arrows and text at places given in pixels, as layers of one chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sase.pictures.picture import GREY, INK, Chart

MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
CHAR = 6.7
"""Width of a character at the size of details, in pixels: wide enough for the fonts that browsers have."""


@dataclass
class Diagram:
    """Collects shapes. The chart is as large as the shapes need."""

    width: float = 0
    height: float = 0
    boxes: list[dict[str, Any]] = field(default_factory=list)
    bars: list[dict[str, Any]] = field(default_factory=list)
    circles: list[dict[str, Any]] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    heads: list[dict[str, Any]] = field(default_factory=list)
    texts: list[dict[str, Any]] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, colour: str = GREY) -> None:
        self.boxes.append({"x": x, "y": y, "x2": x + width, "y2": y + height, "colour": colour})
        self._reach(x + width, y + height)

    def bar(self, start: float, end: float, y: float, colour: str) -> None:
        """From the left to the right, y in the middle."""
        if end > start:
            self.bars.append({"x": start, "y": y - 5.5, "x2": end, "y2": y + 5.5, "colour": colour})
            self._reach(end, y + 5.5)

    def circle(self, x: float, y: float, radius: float, colour: str = INK) -> None:
        self.circles.append({"x": x, "y": y, "size": (2 * radius) ** 2, "colour": colour})
        self._reach(x + radius, y + radius)

    def line(self, points: Sequence[tuple[float, float]], colour: str = GREY, head: float | None = None) -> None:
        """`head` is the direction of an arrow head at the end, in degrees: 0 points up."""
        name = len(self.lines)
        self.lines += [{"x": x, "y": y, "line": name, "at": at, "colour": colour} for at, (x, y) in enumerate(points)]
        if head is not None:
            x, y = points[-1]
            self.heads.append({"x": x, "y": y, "angle": head, "colour": colour})
        for x, y in points:
            self._reach(x, y)

    def text(self, x: float, y: float, text: str, style: str = "detail", colour: str = INK) -> float:
        """Writes from (x, y) to the right, a number to the left, y in the middle of the line; returns where it ends."""
        self.texts.append({"x": x, "y": y, "text": text, "style": style, "colour": colour})
        end = x if style in ("middle", "number") else x + len(text) * CHAR * (1.05 if style == "name" else 1)
        self._reach(end, y + 8)
        return end

    def _reach(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x + 4), max(self.height, y + 4)

    def chart(self) -> Chart:
        import altair as alt

        x = alt.X("x:Q", scale=alt.Scale(domain=[0, self.width], nice=False), axis=None)
        y = alt.Y("y:Q", scale=alt.Scale(domain=[self.height, 0], nice=False), axis=None)
        colour = alt.Color("colour:N", scale=None, legend=None)
        layers = [
            alt.Chart(_data(self.lines))
            .mark_line(strokeWidth=1.4)
            .encode(x=x, y=y, detail="line:N", order="at:Q", color=colour),
            alt.Chart(_data(self.heads))
            .mark_point(shape="triangle-up", filled=True, size=60, opacity=1)
            .encode(x=x, y=y, angle=alt.Angle("angle:Q", scale=None), color=colour),
            alt.Chart(_data(self.boxes))
            .mark_rect(fillOpacity=0.13, strokeWidth=1.2, cornerRadius=5)
            .encode(x=x, y=y, x2="x2:Q", y2="y2:Q", fill=_raw("fill"), stroke=_raw("stroke")),
            alt.Chart(_data(self.bars))
            .mark_rect(opacity=0.85)
            .encode(x=x, y=y, x2="x2:Q", y2="y2:Q", fill=_raw("fill")),
            alt.Chart(_data(self.circles))
            .mark_point(filled=False, opacity=1, strokeWidth=1.5)
            .encode(x=x, y=y, size=alt.Size("size:Q", scale=None, legend=None), color=colour),
        ]
        for style, options in _STYLES.items():
            texts = [text for text in self.texts if text["style"] == style]
            mark = alt.Chart(_data(texts)).mark_text(baseline="middle", **options)
            layers.append(mark.encode(x=x, y=y, text="text:N", color=colour))
        return alt.layer(*layers).properties(width=self.width, height=self.height)


_STYLES: dict[str, dict[str, Any]] = {
    "name": {"align": "left", "fontSize": 13, "fontWeight": "bold"},
    "detail": {"align": "left", "fontSize": 11, "font": MONO},
    "number": {"align": "right", "fontSize": 11, "font": MONO},
    "note": {"align": "left", "fontSize": 11},
    "middle": {"align": "center", "fontSize": 12, "fontWeight": "bold"},
}


def _data(values: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.InlineData(values=values)


def _raw(channel: str) -> Any:
    import altair as alt

    return (alt.Fill if channel == "fill" else alt.Stroke)("colour:N", scale=None, legend=None)
