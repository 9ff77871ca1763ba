"""SASE as a front end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.names import Parameter
from sase.compiler.languages.front_end import Parsed
from sase.compiler.languages.sase.binder import bind
from sase.compiler.languages.sase.parser import parse
from sase.compiler.languages.sase.syntax import Name, Query, components


def read(text: str, filename: str) -> Parsed:
    query = parse(text, filename)
    return parsed(query, partial(bind, query))


def parsed(query: Query, bind: Callable[[Catalog], BoundQuery]) -> Parsed:
    named = list(components(query.pattern))
    types = dict.fromkeys(name.text for component in named for name in component.types)
    every = any(component.every for component in named)
    return Parsed(query.text, query.filename, query.stream, tuple(types), every, _parameters(query), bind)


def _parameters(query: Query) -> frozenset[str]:
    window = {query.within.text} if isinstance(query.within, Name) else set()
    expressions = [item.expression for item in query.returns.items] if query.returns else []
    expressions += query.returns.group_by or () if query.returns else ()
    if query.where is not None:
        expressions.append(query.where)
    values = {node.this.name for expression in expressions for node in expression.find_all(Parameter)}
    return frozenset(window | values)
