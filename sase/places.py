"""Where in a query something failed while it ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.errors import Diagnostic, SaseError
from sase.compiler.emit.places import places
from sase.runtime.errors import SaseRunError, explained
from sase.runtime.places import OR_HERE, matching, said


@contextmanager
def placed(query: BoundQuery) -> Iterator[None]:
    """Spark's exceptions as short messages; those of an expression of the query with carets below it."""
    try:
        with explained():
            yield
    except SaseRunError as error:
        if found := at_its_place(error, query):
            raise found from error
        raise


def at_its_place(error: SaseRunError, query: BoundQuery) -> SaseError | None:
    known = places(query)
    spans = [known[at][1] for at in matching(error, [sql for sql, _ in known])]
    if not spans:
        return None
    what, help = said(error)
    found = [Diagnostic(what, spans[0], help), *(Diagnostic(OR_HERE, span) for span in spans[1:])]
    return SaseError(found, query.text, query.filename)
