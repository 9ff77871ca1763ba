"""Matches on a time axis: a lane per key, a mark per event, an arc from each event of a match to the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sase.api import Query, origin_of
from sase.compiler.core.errors import OptionError
from sase.pictures.picture import BLUE, GREY, INK, PALETTE, RED, Chart, Picture
from sase.pictures.scene import Event, Limits, Run, Scene, scene

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sase.events import Events

LANES, EVENTS = 8, 400


def timeline(
    matches: DataFrame,
    events: Events | None = None,
    *,
    query: Query | None = None,
    lanes: int = LANES,
    limit: int = EVENTS,
) -> Picture:
    """Draws matches and the events around them.

    A DataFrame that `Query.run` or `%%sase` has made knows its query and its events. One that was derived from it, as
    by `where`, does not: give `query` and `events`, and only the matches that it still has are drawn. At most `lanes`
    keys and `limit` events are drawn, those with the earliest matches first; the picture says so where there are more.
    """
    origin = origin_of(matches)
    query = query or (origin.query if origin else None)
    given = events if events is not None else (origin.events if origin else None)
    if query is None or given is None:
        raise OptionError(
            "these matches do not know where they come from: add the events, and query=… (as sase.compile gives it)"
        )
    if lanes < 1 or limit < 1:
        raise OptionError("a timeline has at least one lane and one event")
    shown = scene(query, given, None if origin else matches, Limits(lanes, limit))
    return Picture("Matches in time", _text(shown), lambda: _chart(shown), moves=True)


# ---- text ---------------------------------------------------------------------------------------

COLUMNS = 60
LINES = 8
"""Matches that are listed per lane."""


def _text(shown: Scene) -> str:
    if not shown.events:
        return "no events\n"
    lines = [f"({note})" for note in shown.notes]
    first, last = shown.events[0].at, max(event.at for event in shown.events)
    labels = _labels(shown)
    signs = _signs(labels.values())
    width = max(map(len, shown.lanes))
    for lane, name in enumerate(shown.lanes):
        axis = ["─"] * COLUMNS
        for number, event in enumerate(shown.events):
            if event.lane == lane:
                place = round((event.at - first) / ((last - first) or 1) * (COLUMNS - 1))
                sign = signs[labels[number].partition(" ")[0]] if number in labels else "·"
                axis[place] = sign if axis[place] in "─·" else axis[place] if sign == "·" else "+"
        lines.append(f"{name:<{width}}  {''.join(axis)}".rstrip())
        runs = [describe(shown, run) for run in _all(shown) if shown.events[run.events[0][1]].lane == lane]
        more = [f"… {len(runs) - LINES} more"] if len(runs) > LINES else []
        lines += [f"{'':<{width}}  {line}" for line in (*runs[:LINES], *more)]
    return "\n".join([*lines, f"{'':<{width}}  {shown.events[0].when} … {_latest(shown).when}"]) + "\n"


def _signs(labels: Iterable[str]) -> dict[str, str]:
    """One character per variable: its first, its last, or a number, whichever tells them apart."""
    names = sorted({name for label in labels for name in label.split()})
    for letters in ([name[0] for name in names], [name[-1] for name in names]):
        if len(set(letters)) == len(names):
            return dict(zip(names, letters, strict=True))
    return {name: str(at)[-1] for at, name in enumerate(names, 1)}


def _latest(shown: Scene) -> Event:
    return max(shown.events, key=lambda event: event.at)


def describe(shown: Scene, run: Run) -> str:
    """`match x 07:30:08 → z 09:41:13`, or what forbids it."""
    steps = " → ".join(f"{name} {_clock(shown, number)}" for name, number in run.events)
    forbid = ", ".join(f"{name} {_clock(shown, number)}" for name, number in run.killers)
    return f"no match {steps}, for {forbid}" if forbid else f"match {steps}"


def _clock(shown: Scene, number: int) -> str:
    """The time of day where all events are of one day."""
    days = {event.when[:10] for event in (shown.events[0], _latest(shown))}
    when = shown.events[number].when
    return when[11:] if shown.is_time and len(days) == 1 and len(when) > 11 else when


def _labels(shown: Scene) -> dict[int, str]:
    """The variables that each event is bound to in some match; for a negated one, where it forbids something."""
    bound: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for run in shown.matches:
        for name, number in run.events:
            bound[number][name] = None
    for run in shown.killed:
        for name, number in (*run.events, *run.killers):
            bound[number][name] = None
    return {number: " ".join(names) for number, names in bound.items()}


# ---- chart --------------------------------------------------------------------------------------

LANE = 74
"""Height of a lane, in pixels."""


def _chart(shown: Scene) -> Chart:
    import altair as alt

    kind = "T" if shown.is_time else "Q"
    scale = (
        alt.Scale(type="utc", nice=False, padding=24)
        if shown.is_time
        else alt.Scale(nice=False, zero=False, padding=24)
    )
    label = _WHEN if shown.is_time else "datum.label"
    axis = alt.Axis(title=None, grid=True, labelOverlap=True, labelFlush=False, tickCount=6, labelExpr=label)
    x = alt.X(f"x:{kind}", scale=scale, axis=axis)
    lanes = len(shown.lanes)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[lanes - 0.5, -0.85], nice=False, zero=False), axis=None)
    zoom = alt.selection_interval(name="zoom", bind="scales", encodings=["x"])
    over = alt.selection_point(name="over", on="pointerover", clear="pointerout", fields=["run"], empty=False)
    marks = list(_marks(shown))
    types = list(dict.fromkeys(mark["type"] for mark in marks))
    colour = alt.Color(
        "type:N",
        scale=alt.Scale(domain=types, range=[PALETTE[at % len(PALETTE)] for at in range(len(types))]),
        legend=alt.Legend(title=None, orient="top", symbolOpacity=1),
    )
    layers: list[Any] = [
        alt.Chart(_data({"x": None, "y": lane, "label": name} for lane, name in enumerate(shown.lanes)))
        .mark_rule(color=GREY, opacity=0.35)
        .encode(y=y)
    ]
    # What zooms is clipped, if nothing is said: the names stand beside the plot.
    layers.append(
        alt.Chart(_data({"y": lane, "label": name} for lane, name in enumerate(shown.lanes)))
        .mark_text(align="right", baseline="middle", color=INK, fontSize=12, limit=LABEL, clip=False)
        .encode(x=alt.value(-8), y=y, text="label:N")
    )
    if shown.window is not None:
        layers.append(
            alt.Chart(_data(_bands(shown, shown.window)))
            .mark_rect(color=BLUE, opacity=0.08, clip=True)
            .encode(x=x, x2="x2", y=y, y2="y2:Q")
        )
    for dashed, colour_of, runs in ((True, RED, shown.killed), (False, BLUE, shown.matches)):
        layers.append(
            alt.Chart(_data(_arcs(shown, runs, "killed" if dashed else "match")))
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
    layers += [
        points.transform_filter("!datum.used")
        .mark_point(filled=False, size=55, opacity=0.65, clip=True)
        .add_params(zoom),
        points.transform_filter("datum.used && !datum.kills").mark_point(filled=True, size=95, opacity=1, clip=True),
        points.transform_filter("datum.kills")
        .mark_point(filled=True, size=150, opacity=1, shape="cross", angle=45, clip=True)
        .encode(color=alt.value(RED)),
        # What forbids stands close before what it forbids: its name goes above.
        *(
            alt.Chart(_data(mark for mark in marks if mark["label"] and mark["kills"] is kills))
            .mark_text(dy=-15 if kills else 15, fontSize=11, fontWeight="bold", color=RED if kills else INK, clip=True)
            .encode(x=x, y=y, text="label:N")
            for kills in (False, True)
        ),
    ]
    title = alt.Title(" · ".join(shown.notes), fontSize=11, fontWeight="normal", anchor="start") if shown.notes else ""
    column = 8 * max(map(len, types), default=0) + 30  # room for a name in the legend, which is as wide as the page
    return alt.layer(*layers).properties(width=700, height=LANE * lanes, title=title, usermeta={"column": column})


LABEL = 170

# The time of a tick, as far as it is not midnight or New Year; the first one tells its day, too.
_WHEN = """[utcFormat(datum.value, utcseconds(datum.value) ? '%H:%M:%S'
    : utchours(datum.value) || utcminutes(datum.value) ? '%H:%M'
    : utcdate(datum.value) > 1 || utcmonth(datum.value) ? '%a %d %b' : '%Y'),
    datum.index == 0 && (utchours(datum.value) || utcminutes(datum.value)) ? utcFormat(datum.value, '%a %d %b') : '']"""


def _marks(shown: Scene) -> Iterator[dict[str, Any]]:
    labels = _labels(shown)
    kills = {number for run in shown.killed for _, number in run.killers}
    names = {name: at for at, name in enumerate(dict.fromkeys(name for e in shown.events for name, _ in e.values))}
    for number, event in enumerate(shown.events):
        known = dict(event.values)
        values = {f"value{at}": known.get(name, "–") for name, at in names.items()}
        yield {
            "x": event.at,
            "y": event.lane,
            "type": event.type,
            "when": event.when,
            "label": labels.get(number, ""),
            "used": number in labels,
            "kills": number in kills,
            **values,
        }


def _bands(shown: Scene, length: float) -> Iterator[dict[str, Any]]:
    """The window of each match and of each forbidden one, from its first event on; each band once."""
    starts = {(shown.events[run.events[0][1]].lane, shown.events[run.events[0][1]].at) for run in _all(shown)}
    for lane, at in sorted(starts):
        yield {"x": at, "x2": at + length, "y": lane - 0.72, "y2": lane + 0.32}


def _all(shown: Scene) -> Sequence[Run]:
    return (*shown.matches, *shown.killed)


def _arcs(shown: Scene, runs: Sequence[Run], kind: str) -> Iterator[dict[str, Any]]:
    """Five points from each event to the next: higher, the longer it takes."""
    longest = max(
        (shown.events[run.events[-1][1]].at - shown.events[run.events[0][1]].at for run in _all(shown)), default=0
    )
    for number, run in enumerate(runs):
        name = f"{kind} {number}"
        what = describe(shown, run)
        numbers = [number for _, number in run.events]
        if len(numbers) == 1:
            continue
        for start, end in pairwise(numbers):
            left, right = shown.events[start], shown.events[end]
            height = 0.25 + 0.4 * (right.at - left.at) / (longest or 1)
            for at, (along, up) in enumerate(_ARC):
                x = left.at + along * (right.at - left.at)
                y = left.lane + along * (right.lane - left.lane) - up * height
                yield {"x": x, "y": y, "arc": f"{name}:{start}", "run": name, "at": at, "what": what}


_ARC = ((0.0, 0.0), (0.12, 0.62), (0.3, 0.92), (0.5, 1.0), (0.7, 0.92), (0.88, 0.62), (1.0, 0.0))


def _data(values: Iterator[Mapping[str, Any]] | Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    return alt.InlineData(values=list(values))
