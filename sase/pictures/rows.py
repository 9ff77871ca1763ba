"""MATCH_RECOGNIZE in pictures: its pattern as an automaton, and its matches in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sase.compiler.core.errors import OptionError
from sase.compiler.emit.explain_sql import automaton_lines, condition_text
from sase.compiler.plan.automaton import ACCEPT
from sase.compiler.plan.rows import RowPlan
from sase.pictures.diagram import Diagram
from sase.pictures.page import page
from sase.pictures.picture import BLUE, GREY, Chart, Picture
from sase.pictures.scene import Event, Run, Scene

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sase.analysis.rows import Labelled
    from sase.statement import Statement

DRAWN = 24
"""Positions of a pattern that are drawn."""
NONE = "no match"


def row_automata(statement: Statement) -> list[Picture]:
    """The pattern of each clause: a state per variable, and arrows to those that may take the next row."""
    found = []
    for view in statement.with_windows.compiled.statement.views:  # where conditions stand as they are written
        plan = view.plan
        name = "" if view.name == "matches" else f" of {view.name}"
        found.append(Picture(f"The pattern{name} as an automaton", _text(plan), lambda plan=plan: _chart(plan)))  # type: ignore[misc]
    return found


# ---- the automaton ------------------------------------------------------------------------------


def _conditions(plan: RowPlan, variable: str) -> Iterator[str]:
    from sase.analysis.rows import parts_of

    yield from (part.text for part in parts_of(plan) if part.variable == variable and part.sql.lower() != "true")
    if variable in plan.running:
        yield condition_text(plan.running[variable])


def _text(plan: RowPlan) -> str:
    lines = list(automaton_lines(plan))
    for variable in dict.fromkeys(plan.automaton.symbols):
        lines += [f"{variable}: {text}" for text in _conditions(plan, variable)]
    return "\n".join(lines) + "\n"


def _chart(plan: RowPlan) -> Chart:
    """States from top to bottom. Arrows to the next state are straight; those that go further or back go round, further
    out the further they go: on the right if they go down, on the left if they go up."""
    found, diagram = plan.automaton, Diagram()
    states = found.symbols[:DRAWN]
    radius, step = 17.0, 74.0
    longest = min(len(states) + 1, 8)
    x, top = 40.0 + 14 * longest, 26.0
    beside = x + radius + 30 + 14 * longest

    def y(state: int) -> float:
        """0 is the start, and the one behind the last is the end."""
        return top + step * state

    end = len(states) + 1
    edges = [(0, each) for each in dict.fromkeys((*found.start, *found.first))]
    edges += [(at + 1, each) for at, targets in enumerate(found.follow[:DRAWN]) for each in targets]
    for here, target in edges:
        there = end if target == ACCEPT else target + 1
        if target != ACCEPT and target >= len(states):
            continue
        _arrow(diagram, x, y(here), y(there), radius, there - here)
    diagram.circle(x, y(0), 6, GREY)
    diagram.text(x + 30, y(0), "start", colour=GREY)
    for at, variable in enumerate(states):
        diagram.circle(x, y(at + 1), radius, BLUE if at in found.excluded else "currentColor")
        diagram.text(x, y(at + 1), str(at + 1), "middle")
        diagram.text(beside, y(at + 1) - 8, variable, "name")
        if variable not in states[:at]:
            for line, text in enumerate(_conditions(plan, variable)):
                diagram.text(beside, y(at + 1) + 9 + 15 * line, text)
    diagram.circle(x, y(end), radius)
    diagram.circle(x, y(end), radius - 4)
    diagram.text(beside, y(end), "match", "name")
    if len(found.symbols) > DRAWN:
        diagram.text(beside, y(end) + 20, f"{len(found.symbols) - DRAWN} more states are not drawn", "note", GREY)
    return diagram.chart()


def _arrow(diagram: Diagram, x: float, begin: float, end: float, radius: float, states: int) -> None:
    if states == 1:
        diagram.line([(x, begin + radius), (x, end - radius - 5)], head=180)
    elif states == 0:
        out = x - radius
        diagram.line([(out, begin - 6), (out - 16, begin - 10), (out - 16, begin + 10), (out - 4, begin + 6)], head=80)
    else:
        side = 1 if states > 1 else -1
        out = x + side * (radius + 8 + 14 * min(abs(states), 8))
        near = x + side * (radius + 4)
        shift = 6 * side
        points = [
            (x + side * radius, begin + shift),
            (out, begin + shift * 2),
            (out, end - shift * 2),
            (near, end - shift),
        ]
        diagram.line(points, head=270 if side > 0 else 90)


# ---- the timeline -------------------------------------------------------------------------------


def row_timelines(statement: Statement, lanes: int, limit: int) -> list[Picture]:
    """The rows of some partitions, those with matches first, and the matches among them."""
    from sase.analysis.rows import labelled
    from sase.pictures.timeline import chart
    from sase.pictures.timeline_text import text

    found = []
    for each in labelled(statement):
        shown = _scene(each, lanes, limit)
        name = "" if each.view.name == "matches" else f": {each.view.name}"
        draw = lambda shown=shown: chart(shown)  # noqa: E731
        found.append(Picture(f"Matches in time{name}", text(shown), draw, moves=True))
    return found


def _scene(found: Labelled, lanes: int, limit: int) -> Scene:
    from pyspark.sql import functions as F

    from sase.analysis.rows import LANE, ROW

    if not found.order.keys:
        raise OptionError("a timeline needs a time: the clause has no ORDER BY")
    matched = found.rows.groupBy(LANE).agg(F.max("_sase_number").alias("found"))
    chosen = [row[0] for row in matched.orderBy(F.desc_nulls_last("found"), LANE).limit(lanes + 1).collect()]
    notes = [f"the {lanes} partitions with the most matches"] if len(chosen) > lanes else []
    chosen = sorted(chosen[:lanes])
    rows = found.rows.where(F.col(LANE).isin(chosen)).orderBy(LANE, ROW).limit(limit + 1).toArrow().to_pylist()
    if len(rows) > limit:
        rows = rows[:limit]
        notes.append(f"the first {limit:,} rows of these")
    time = found.order.keys[0].column
    return scene_of(rows, chosen, time, found, tuple(notes))


def scene_of(
    rows: Sequence[Mapping[str, Any]], lanes: list[str], time: str, found: Labelled, notes: tuple[str, ...]
) -> Scene:
    from sase.analysis.rows import LANE, ROW

    events: list[Event] = []
    numbers: dict[tuple[str, int], int] = {}
    runs: dict[tuple[str, int], list[tuple[str, int]]] = {}
    names: dict[tuple[str, int], str] = {}  # the variable of a row in the first of its matches
    for row in rows:
        if row["_sase_variable"] is not None:
            names.setdefault((row[LANE], row[ROW]), row["_sase_variable"])
    for row in rows:
        place = (row[LANE], row[ROW])
        if place not in numbers:
            numbers[place] = len(events)
            values = tuple(
                (name, str(value)) for name, value in row.items() if not name.lstrip("_").startswith("sase_")
            )
            kind = names.get(place, NONE)
            events.append(Event(lanes.index(row[LANE]), _at(row[time]), _when(row[time]), kind, values))
        if row["_sase_variable"] is not None:
            runs.setdefault((row[LANE], row["_sase_number"]), []).append((row["_sase_variable"], numbers[place]))
    is_time = any(isinstance(row[time], date) for row in rows)
    within = found.view.plan.within
    window = None if within is None else within.length / 1000 if is_time else float(within.length)
    matches = tuple(Run(tuple(run)) for run in runs.values())
    return Scene(tuple(lane or "all rows" for lane in lanes), tuple(events), matches, (), window, is_time, notes)


def _at(value: Any) -> float:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).timestamp() * 1000
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp() * 1000
    if isinstance(value, int | float | Decimal):
        return float(value)
    raise OptionError(f"a timeline needs a time or a number, and ORDER BY begins with {type(value).__name__}")


def _when(value: Any) -> str:
    return str(value.replace(tzinfo=None))[:23] if isinstance(value, datetime) else str(value)


# ---- the page -----------------------------------------------------------------------------------


def row_report(statement: Statement, matches: bool = False) -> str:
    """The statement and its patterns; with matches, their rows and where they lie in time."""
    planned = statement.compiled.statement
    parts: list[Picture | str] = [f"<pre>{escape(planned.text.strip())}</pre>"]
    if matches:
        from sase.notebook.preview import first_rows, html_table
        from sase.pictures.timeline import EVENTS, LANES

        shown = first_rows(statement.run(), ordered=planned.ordered)
        heading = f"The first {len(shown.rows)} rows" if shown.more else "Rows" if shown.rows else "No rows"
        parts += row_timelines(statement, LANES, EVENTS)
        parts.append(f"<section><h2>{heading}</h2>{html_table(shown)}</section>")
    parts += row_automata(statement)
    parts.append(f"<section><h2>The plan</h2><pre>{escape(statement.explain())}</pre></section>")
    return page(Path(planned.filename).stem, parts)


def statement_of(rows: DataFrame) -> Statement | None:
    """The statement that a DataFrame comes from, if `sase.sql` has made it."""
    found: Statement | None = vars(rows).get("_sase_statement")
    return found
