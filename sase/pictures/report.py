"""The page that `--html` writes: a query in pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    from pyspark.sql import DataFrame

    from sase.analysis.stages import Stage
    from sase.api import Query
    from sase.events import Events
    from sase.queries import Queries


def report(query: Query, counted: Sequence[Stage] = (), events: Events | None = None) -> str:
    """The query, its pattern and its plan; with the stages of a run, what got through; with events, the matches."""
    matches = None if events is None else query.run(events)
    return page(Path(query.compiled.query.filename).stem, [*_parts(query, counted, matches)])


def report_all(queries: Queries, counted: Mapping[str, Sequence[Stage]], events: Events | None = None) -> str:
    """The same of one query after the other, each under the name of its results."""
    found = {} if events is None else queries.run(events)
    parts: list[Picture | str] = []
    for name in queries:
        parts += [f"<h1>{escape(name)}</h1>", *_parts(queries[name], counted.get(name, ()), found.get(name))]
    return page(Path(queries.compiled.composition.filename).stem, parts)


def _parts(query: Query, counted: Sequence[Stage], matches: DataFrame | None) -> Iterator[Picture | str]:
    bound = query.compiled.query
    yield f"<pre>{escape(bound.own_text)}</pre>"
    if matches is not None:
        from sase.notebook.preview import first_rows, html_table

        shown = first_rows(matches)
        what = "groups" if bound.grouped else "matches"
        heading = f"The first {len(shown.rows)} {what}" if shown.more else what.title() if shown.rows else f"No {what}"
        if not bound.grouped:
            yield timeline(matches)
        yield f"<section><h2>{heading}</h2>{html_table(shown)}</section>"
    if counted:
        yield stages(counted)
    yield nfa(query)
    yield plan(query, counted)
