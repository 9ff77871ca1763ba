"""The page that `--html` writes: a query in pictures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sase.pictures.nfa import nfa
from sase.pictures.page import page
from sase.pictures.picture import Picture
from sase.pictures.plan import plan
from sase.pictures.stages import stages
from sase.pictures.timeline import timeline

if TYPE_CHECKING:
    from sase.analysis.stages import Stage
    from sase.api import Query
    from sase.events import Events


def report(query: Query, counted: Sequence[Stage] = (), events: Events | None = None) -> str:
    """The query, its pattern and its plan; with the stages of a run, what got through; with events, the matches."""
    bound = query.compiled.query
    parts: list[Picture | str] = [f"<pre>{escape(bound.text.strip())}</pre>"]
    if events is not None:
        from sase.notebook.preview import first_rows, html_table

        matches = query.run(events)
        shown = first_rows(matches)
        what = "groups" if bound.grouped else "matches"
        heading = f"The first {len(shown.rows)} {what}" if shown.more else what.title() if shown.rows else f"No {what}"
        parts += [] if bound.grouped else [timeline(matches)]
        parts += [f"<section><h2>{heading}</h2>{html_table(shown)}</section>"]
    if counted:
        parts.append(stages(counted))
    parts += [nfa(query), plan(query, counted)]
    return page(Path(bound.filename).stem, parts)
