"""Where in a query something failed while it ran."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.core.spans import span_of
from sase.runtime.errors import SaseRunError


def placed(error: SaseRunError, query: BoundQuery) -> SaseError | SaseRunError:
    """The error with carets below the part of the query that it comes from; as it is, where that cannot be told."""
    span = _span(error.fragment, query) if error.fragment else None
    if span is None:
        return error
    # Spark's first sentence says what is wrong; one of the others may name a function that does without the error.
    what, *more = str(error).partition("\nin  ")[0].split(". ")
    helps = [sentence for sentence in more if sentence.startswith("Use ")]
    return SaseError([Diagnostic(what, span, ". ".join(helps) or None)], query.text, query.filename)


def _span(fragment: str, query: BoundQuery) -> Span | None:
    wanted = _plain(fragment)
    for root in _expressions(query):
        for node in root.walk():
            if wanted in (_plain(scalars.sql(node)), _plain(scalars.sql(scalars.without_variable(node)))):
                return span_of(node)
    called = re.search(rf"\b{re.escape(fragment)}\s*\(", query.text, re.IGNORECASE)
    return Span(called.start(), called.start() + len(fragment)) if called else None


def _expressions(query: BoundQuery) -> Iterator[exp.Expr]:
    yield from (predicate.condition for predicate in query.predicates)
    yield from (output.value for output in query.returns or ())


def _plain(sql: str) -> str:
    """Spark SQL as far as it matters here: the job may have other brackets and blanks than the query."""
    return re.sub(r"[\s`()]", "", sql).lower()
