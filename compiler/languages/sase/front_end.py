"""SASE as a front end."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.core.names import Parameter
from sase.compiler.languages.front_end import Bind, Parsed, Result
from sase.compiler.languages.sase.binder import bind
from sase.compiler.languages.sase.parser import parse
from sase.compiler.languages.sase.syntax import Name, Query, clauses, components


def read(text: str, filename: str) -> Parsed:
    query = parse(text, filename)
    return parsed(query, partial(bind, query))


def parsed(query: Query, bind: Bind) -> Parsed:
    named = list(components(query.pattern))
    types = first_places(name for component in named for name in component.types)
    every = any(component.every for component in named)
    parameters = _parameters(query)
    return Parsed(query.text, query.filename, query.stream, types, every, parameters, bind, _result(query), query.span)


def first_places(names: Iterable[Name]) -> dict[str, Span]:
    found: dict[str, Span] = {}
    for name in names:
        found.setdefault(name.text, name.span)
    return found


def _result(query: Query) -> Result | None:
    composite = query.returns.composite if query.returns else None
    if composite is not None and query.into is not None:
        found = Diagnostic(
            f"these events have a type already, {composite.text}", query.into.span, "leave INTO out, or RETURN EVENT"
        )
        raise SaseError([found], query.text, query.filename)
    name = composite or query.into
    return Result(name.text, name.span, query.returns is not None) if name else None


def _parameters(query: Query) -> frozenset[str]:
    inner = list(clauses(query.pattern))
    windows = {each.text for each in (query.within, *(part.within for part in inner)) if isinstance(each, Name)}
    expressions = [item.expression for item in query.returns.items] if query.returns else []
    expressions += query.returns.group_by or () if query.returns else ()
    expressions += [each for each in (query.where, *(part.where for part in inner)) if each is not None]
    values = {node.this.name for expression in expressions for node in expression.find_all(Parameter)}
    return frozenset(windows | values)
