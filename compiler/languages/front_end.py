"""What a language is to the rest of the compiler: a function `(text, filename) → Parsed`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.catalog import Catalog


@dataclass(frozen=True)
class Parsed:
    """A query whose text has been read, and whose names wait for a catalog.

    The catalog may depend on the query: on the events that it names, and on the schema of those.
    """

    text: str
    filename: str
    stream: str | None
    """The events that it names, as in FROM."""
    types: tuple[str, ...]
    """The event types that it names, in order."""
    every_type: bool
    """Whether it also speaks of all that there are."""
    parameters: frozenset[str]
    """The values that it asks for."""
    bind: Callable[[Catalog], BoundQuery]
    """Looks the names up; raises all that is wrong."""
