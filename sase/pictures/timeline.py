"""Matches on a time axis: a lane per key, a mark per event, an arc from each event of a match to the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from sase.api import Query, origin_of
from sase.compiler.core.errors import OptionError
from sase.pictures.align import aligned, are_needles
from sase.pictures.diagram import CHAR
from sase.pictures.picture import BLUE, GREY, INK, PALETTE, RED, Chart, Picture
from sase.pictures.rows import row_timelines, statement_of
from sase.pictures.scene import Limits, Run, Scene, scene
from sase.pictures.timeline_text import describe, labels, text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sase.events import Events

LANES, EVENTS = 8, 400
AXES = ("auto", "time", "elapsed")


def timeline(
    matches: DataFrame,
    events: Events | None = None,
    *,
    query: Query | None = None,
    lanes: int = LANES,
    limit: int = EVENTS,
    axis: Literal["auto", "time", "elapsed"] = "auto",
) -> Picture:
    """Draws matches and the events around them.

    A DataFrame that `Query.run`, `sase.sql` or `%%sase` has made knows its query and its events. One that was derived
    from it, as by `where`, does not: give `query` and `events`, and only the matches that it still has are drawn. At
    most `lanes` keys and `limit` events are drawn, those with the earliest matches first; the picture says so where
    there are more.

    The axis is the time, with a lane per key; or, where matches are short and far between, the time that has elapsed
    since the first event of a match, with a lane per such beginning. `axis` chooses: "time", "elapsed", or "auto" for
    the one that can be read.
    """
    if (statement := statement_of(matches)) is not None:
        found = row_timelines(statement, lanes, limit)
        if len(found) != 1:
            raise OptionError(f"the statement has {len(found)} clauses: see sase.pictures.rows.row_timelines")
        return found[0]
    origin = origin_of(matches)
    query = query or (origin.query if origin else None)
    given = events if events is not None else (origin.events if origin else None)
    if query is None or given is None:
        raise OptionError(
            "these matches do not know where they come from: add the events, and query=… (as sase.compile gives it)"
        )
    if query.compiled.query.grouped is not None:
        raise OptionError("these are aggregates over matches: a timeline shows the matches of a query without them")
    if lanes < 1 or limit < 1:
        raise OptionError("a timeline has at least one lane and one event")
    if axis not in AXES:
        raise OptionError(f"the axis of a timeline is one of {', '.join(AXES)}, and not {axis!r}")
    shown = scene(query, given, None if origin else matches, Limits(lanes, limit))
    if shown.runs and (axis == "elapsed" or (axis == "auto" and are_needles(shown))):
        shown = aligned(shown, lanes)
    return Picture("Matches in time", text(shown), lambda: chart(shown), moves=True)


# ---- the room for it ----------------------------------------------------------------------------

WIDTH, PADDING, LABEL = 700, 24, 170
ABOVE, BELOW, BETWEEN = 48, 22, 10
"""The room for arcs above the line of a lane, for names below it, and from lane to lane, in pixels."""
CROSS = 18
"""How far above the line a cross stands, so that what forbids does not hide what comes next."""
ROW, ROWS = 12, 3
"""Names that would overprint go to further rows below the line."""


@dataclass(frozen=True)
class Layout:
    """Where the lanes lie, in pixels from the top."""

    lanes: int
    rows: int

    @property
    def below(self) -> int:
        return BELOW + ROW * (self.rows - 1)

    @property
    def height(self) -> int:
        return self.top(self.lanes) - BETWEEN

    def top(self, lane: int) -> int:
        return lane * (ABOVE + self.below + BETWEEN)

    def line(self, lane: int) -> int:
        return self.top(lane) + ABOVE

    def bottom(self, lane: int) -> int:
        return self.line(lane) + self.below


def _name_rows(shown: Scene, bound: Mapping[int, Sequence[str]]) -> dict[int, int]:
    """The row below the line for the name of each event: the first with room for it."""
    places = [event.at for event in shown.events]
    scale = (WIDTH - 2 * PADDING) / ((max(places) - min(places)) or 1)
    ends: defaultdict[tuple[int, int], float] = defaultdict(lambda: float("-inf"))
    rows: dict[int, int] = {}
    for number in sorted(bound, key=lambda number: shown.events[number].at):
        event, half = shown.events[number], CHAR * len(" ".join(bound[number])) / 2
        middle = event.at * scale
        free = [row for row in range(ROWS) if ends[event.lane, row] < middle - half]
        rows[number] = free[0] if free else ROWS - 1
        ends[event.lane, rows[number]] = middle + half + 2
    return rows


# ---- the chart ----------------------------------------------------------------------------------


def chart(shown: Scene) -> Chart:
    import altair as alt

    bound, _ = labels(shown)
    rows = _name_rows(shown, bound)
    layout = Layout(len(shown.lanes), max(rows.values(), default=0) + 1)
    marks = list(_marks(shown, layout))
    kind = "T" if shown.is_time else "Q"
    scale = alt.Scale(type="utc" if shown.is_time else "linear", nice=False, zero=False, padding=PADDING)
    axis = alt.Axis(
        title="since the first event" if shown.aligned else None,
        titleFontWeight="normal",
        grid=True,
        labelOverlap=True,
        labelFlush=False,
        labelBound=True,
        tickCount=6,
        labelExpr="datum.label" if not shown.is_time else _LENGTH if shown.aligned else _WHEN,
    )
    x = alt.X(f"x:{kind}", scale=scale, axis=axis)
    down = alt.Scale(domain=[layout.height, 0], nice=False, zero=False)
    y = alt.Y("y:Q", scale=down, axis=None)
    zoom = alt.selection_interval(name="zoom", bind="scales", encodings=["x"])
    over = alt.selection_point(name="over", on="pointerover", clear="pointerout", fields=["run"], empty=False)
    types = list(dict.fromkeys(mark["type"] for mark in marks))
    colour = alt.Color(
        "type:N",
        scale=alt.Scale(domain=types, range=[PALETTE[at % len(PALETTE)] for at in range(len(types))]),
        legend=alt.Legend(title=None, orient="top", symbolOpacity=1),
    )
    layers: list[Any] = list(_lanes(shown, layout, down))
    if shown.window is not None:
        layers.append(
            alt.Chart(_data(_bands(shown, shown.window, layout)))
            .mark_rect(color=BLUE, opacity=0.1, clip=True)
            .encode(x=x, x2="x2", y=y, y2="y2:Q")
        )
    for dashed, colour_of, runs in ((True, RED, shown.killed), (False, BLUE, shown.matches)):
        layers.append(
            alt.Chart(_data(_arcs(shown, runs, "killed" if dashed else "match", layout)))
            .mark_line(interpolate="monotone", clip=True, color=colour_of, strokeDash=[4, 3] if dashed else [1, 0])
            .encode(
                x=x,
                y=y,
                detail="arc:N",
                order="at:Q",
                strokeWidth=alt.condition(over, alt.value(3), alt.value(1.4)),
                opacity=alt.condition(over, alt.value(1), alt.value(0.75)),
                tooltip=[alt.Tooltip("what:N", title="no match" if dashed else "match")],
            )
        )
    layers[-1] = layers[-1].add_params(over)
    names = list(dict.fromkeys(name for event in shown.events for name, _ in event.values))
    tooltips = [alt.Tooltip("type:N"), alt.Tooltip("when:N", title="time"), alt.Tooltip("label:N", title="variable")]
    tooltips += [alt.Tooltip(f"value{at}:N", title=name) for at, name in enumerate(names)]
    points = alt.Chart(_data(marks)).encode(x=x, y=y, color=colour, tooltip=tooltips)
    crosses = alt.Chart(_data(mark for mark in marks if mark["forbids"]))
    above = alt.Y("above:Q", scale=down, axis=None)
    layers += [
        points.transform_filter("!datum.used")
        .mark_point(filled=False, size=55, opacity=0.65, clip=True)
        .add_params(zoom),
        points.transform_filter("datum.used").mark_point(filled=True, size=95, opacity=1, clip=True),
        crosses.mark_rule(color=RED, opacity=0.75, clip=True).encode(x=x, y=above, y2="y:Q"),
        crosses.mark_point(filled=True, size=110, opacity=1, shape="cross", angle=45, clip=True, color=RED).encode(
            x=x, y=above, tooltip=tooltips
        ),
        crosses.mark_text(dx=8, align="left", baseline="middle", fontSize=11, fontWeight="bold", color=RED, clip=True)
        .encode(x=x, y=above, text="forbids:N"),
        *(
            alt.Chart(_data(mark for number, mark in enumerate(marks) if rows.get(number) == row))
            .mark_text(dy=15 + ROW * row, fontSize=11, fontWeight="bold", color=INK, clip=True)
            .encode(x=x, y=y, text="bound:N")
            for row in range(layout.rows)
        ),
    ]  # fmt: skip
    title = alt.Title(" · ".join(shown.notes), fontSize=11, fontWeight="normal", anchor="start") if shown.notes else ""
    # Room for a name in the legend, and for the names beside the lanes: on a page, the legend has what they leave.
    longest = max((len(line) for name in _names(shown) for line in name), default=0)
    meta = {"column": 8 * max(map(len, types), default=0) + 30, "beside": min(8 * longest + 16, LABEL)}
    # The fonts of a browser may be wider than those that the still picture was measured with, by a pixel per letter.
    padding = {"left": 5 + min(longest, 25), "right": 5, "top": 5, "bottom": 5}
    return alt.layer(*layers).properties(width=WIDTH, height=layout.height, title=title, usermeta=meta, padding=padding)


def _lanes(shown: Scene, layout: Layout, down: Any) -> Iterator[Chart]:
    """A stripe and a line per lane, and beside them its name."""
    import altair as alt

    y = alt.Y("y:Q", scale=down, axis=None)
    stripes = alt.Chart(_data({"y": layout.top(lane), "y2": layout.bottom(lane)} for lane in range(len(shown.lanes))))
    yield stripes.mark_rect(color=GREY, opacity=0.08).encode(y=y, y2="y2:Q")
    lines = alt.Chart(_data({"y": layout.line(lane)} for lane in range(len(shown.lanes))))
    yield lines.mark_rule(color=GREY, opacity=0.5).encode(y=y)
    texts = []
    for lane, beside in enumerate(_names(shown)):
        first = layout.line(lane) - 7.5 * (len(beside) - 1)
        texts += [{"y": first + 15 * at, "label": line} for at, line in enumerate(beside)]
    # What zooms is clipped, if nothing is said: the names stand beside the plot.
    yield (
        alt.Chart(_data(texts))
        .mark_text(align="right", baseline="middle", color=INK, fontSize=12, limit=LABEL, clip=False)
        .encode(x=alt.value(-8), y=y, text="label:N")
    )


def _names(shown: Scene) -> list[list[str]]:
    """The key of each lane, and when it begins if lanes are aligned: the lines beside it."""
    starts = {shown.first(run).lane: shown.first(run).when for run in shown.runs} if shown.aligned else {}
    return [[line for line in (name, starts.get(lane, "")) if line] for lane, name in enumerate(shown.lanes)]


# The time of a tick, as far as it is not midnight or New Year; the first one tells its day, too.
_WHEN = """[utcFormat(datum.value, utcseconds(datum.value) ? '%H:%M:%S'
    : utchours(datum.value) || utcminutes(datum.value) ? '%H:%M'
    : utcdate(datum.value) > 1 || utcmonth(datum.value) ? '%a %d %b' : '%Y'),
    datum.index == 0 && (utchours(datum.value) || utcminutes(datum.value)) ? utcFormat(datum.value, '%a %d %b') : '']"""

# A length of time, as `duration` writes it: ticks of a time axis that begins at 0 are round.
_LENGTH = """(toNumber(datum.value) < 0 ? '−' : '') + (
    abs(datum.value) >= 864e5 ? floor(abs(datum.value) / 864e5) + ' d'
        + (abs(datum.value) % 864e5 ? ' ' + floor(abs(datum.value) % 864e5 / 36e5) + ' h' : '')
    : abs(datum.value) >= 36e5 ? floor(abs(datum.value) / 36e5) + ' h'
        + (abs(datum.value) % 36e5 ? ' ' + floor(abs(datum.value) % 36e5 / 6e4) + ' min' : '')
    : abs(datum.value) >= 6e4 ? floor(abs(datum.value) / 6e4) + ' min'
        + (abs(datum.value) % 6e4 ? ' ' + floor(abs(datum.value) % 6e4 / 1e3) + ' s' : '')
    : abs(datum.value) >= 1e3 ? abs(datum.value) / 1e3 + ' s' : abs(datum.value) ? abs(datum.value) + ' ms' : '0')"""


def _marks(shown: Scene, layout: Layout) -> Iterator[dict[str, Any]]:
    bound, forbids = labels(shown)
    names = {name: at for at, name in enumerate(dict.fromkeys(name for e in shown.events for name, _ in e.values))}
    for number, event in enumerate(shown.events):
        known = dict(event.values)
        values = {f"value{at}": known.get(name, "–") for name, at in names.items()}
        yield {
            "x": event.at,
            "y": layout.line(event.lane),
            "above": layout.line(event.lane) - CROSS,
            "type": event.type,
            "when": event.when,
            "label": " ".join([*bound.get(number, ()), *forbids.get(number, ())]),
            "bound": " ".join(bound.get(number, ())),
            "forbids": " ".join(forbids.get(number, ())),
            "used": number in bound,
            **values,
        }


def _bands(shown: Scene, length: float, layout: Layout) -> Iterator[dict[str, Any]]:
    """The window of each match and of each forbidden one, from its first event on; each band once."""
    last = max(event.at for event in shown.events)
    for lane, at in sorted({(shown.first(run).lane, shown.first(run).at) for run in shown.runs}):
        end = min(at + length, last) if shown.cut else at + length
        yield {"x": at, "x2": end, "y": layout.top(lane), "y2": layout.bottom(lane)}


def _arcs(shown: Scene, runs: Sequence[Run], kind: str, layout: Layout) -> Iterator[dict[str, Any]]:
    """Some points from each event to the next: higher, the longer it takes."""
    longest = max((shown.events[run.events[-1][1]].at - shown.first(run).at for run in shown.runs), default=0)
    for number, run in enumerate(runs):
        name = f"{kind} {number}"
        what = describe(shown, run)
        for (_, start), (_, end) in pairwise(run.events):
            left, right = shown.events[start], shown.events[end]
            height = (0.35 + 0.55 * (right.at - left.at) / (longest or 1)) * ABOVE
            for at, (along, up) in enumerate(_ARC):
                x = left.at + along * (right.at - left.at)
                y = layout.line(left.lane) + along * (layout.line(right.lane) - layout.line(left.lane)) - up * height
                yield {"x": x, "y": y, "arc": f"{name}:{start}", "run": name, "at": at, "what": what}


_ARC = ((0.0, 0.0), (0.12, 0.62), (0.3, 0.92), (0.5, 1.0), (0.7, 0.92), (0.88, 0.62), (1.0, 0.0))


def _data(values: Iterable[Mapping[str, Any]]) -> Any:
    import altair as alt

    return alt.InlineData(values=list(values))
