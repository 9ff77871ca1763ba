"""Where in the query something failed while it ran: Spark names an expression, and the job knows its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sase.runtime.errors import SaseRunError, explained


@dataclass(frozen=True)
class Place:
    """A part of the query that may fail on some events: as Spark SQL, and where the query has it."""

    sql: str
    where: str
    line: str
    carets: str


@contextmanager
def placed(places: Sequence[Place]) -> Iterator[None]:
    """As `explained`; and what fails in an expression of the query is shown there."""
    try:
        with explained():
            yield
    except SaseRunError as error:
        found = matching(error, [place.sql for place in places])
        if not found:
            raise
        what, help = said(error)
        place, *others = (places[at] for at in found)
        lines = [what, place.line, place.carets, *([f"  help: {help}"] if help else [])]
        for other in others:
            lines += [f"{other.where}: {OR_HERE}", other.line, other.carets]
        raise SaseRunError("\n".join(lines), where=place.where) from error


OR_HERE = "or here, where the query has the same"


def matching(error: SaseRunError, expressions: Sequence[str]) -> list[int]:
    """Those of the query's expressions that failed: more than one if they read alike. None, if it is none of them."""
    if error.fragment is None:
        return []
    wanted = _plain(error.fragment)
    exact = [at for at, sql in enumerate(expressions) if _plain(sql) == wanted]
    # Where an expression is about one event, the job has it without the variable.
    bare = _bare(error.fragment)
    return exact or [at for at, sql in enumerate(expressions) if _bare(sql) == bare]


def said(error: SaseRunError) -> tuple[str, str | None]:
    """What is wrong, which is Spark's first sentence; and what of the others names a function that does without."""
    what, *more = str(error).partition("\nin  ")[0].split(". ")
    return what, ". ".join(sentence for sentence in more if sentence.startswith("Use ")) or None


def _plain(sql: str) -> str:
    """Spark SQL as far as it matters here: the job may have other brackets and blanks than the query."""
    return re.sub(r"[\s`()]", "", sql).lower()


def _bare(sql: str) -> str:
    """The same without the names of variables and structs."""
    return _plain(re.sub(r"(?:`[^`]+`|[^\W\d]\w*)\.", "", sql))
