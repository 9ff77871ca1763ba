"""What a language is to the rest of the compiler: a function `(text, filename) → Parsed`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Span


class Bind(Protocol):
    def __call__(self, catalog: Catalog, event: bool = False) -> BoundQuery:
        """Looks the names up; raises all that is wrong. Results may be events, for other queries: they have a time."""


@dataclass(frozen=True)
class Result:
    """What the results of a query are called, `RETURN EVENT Alert(…)` or `INTO Alert`, and where it says so."""

    name: str
    span: Span
    has_attributes: bool
    """Whether it lists them. Without, a result is the events of its match."""


@dataclass(frozen=True)
class Parsed:
    """A query whose text has been read, and whose names wait for a catalog.

    The catalog may depend on the query: on the events that it names, and on the schema of those.
    """

    text: str
    filename: str
    stream: str | None
    """The events that it names, as in FROM."""
    types: Mapping[str, Span]
    """The event types that it names, in order, and where it does so first."""
    every_type: bool
    """Whether it also speaks of all that there are."""
    parameters: frozenset[str]
    """The values that it asks for."""
    bind: Bind
    result: Result | None
    span: Span
    """Of the pattern."""
