"""What queries mean that read the results of others: one after the other, by the judge; a result is an event.

Its time is that of the match when it is certain, its tie-breaker that of the latest event.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from brute_force import Pattern, matches_of, place, result, taking_part, times

from sase.compiler.core.catalog import Catalog
from sase.compiler.languages.sase.parser import parse

Events = list[dict[str, Any]]


def evaluate_all(queries: dict[str, str], catalog: Catalog, events: Events) -> dict[str, Events]:
    """The results of each query, as events. A query stands behind those that it reads."""
    found: dict[str, Events] = {}
    for name, text in queries.items():
        query = parse(text)
        stream = taking_part(events, catalog)
        pattern = Pattern(query, catalog, ansi=True, longest=len(stream))
        made = []
        for match in matches_of(pattern, query, stream):
            own = {catalog.type: name, catalog.time: times(pattern, match)["detected_at"]}
            if catalog.order:
                own[catalog.order] = max(match.bound.values(), key=place).order
            made.append({**result(pattern, query, match), **own})
        found[name] = made
        attributes = dict.fromkeys([key for event in made for key in event], "bigint") | {catalog.type: "string"}
        catalog = replace(catalog, types={**(catalog.types or {}), name: attributes})
        events = [*events, *made]
    return found
