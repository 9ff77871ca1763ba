"""SASE as a front end."""

from __future__ import annotations

from functools import partial

from sase.compiler.core.names import Parameter
from sase.compiler.languages.front_end import Parsed
from sase.compiler.languages.sase.binder import bind
from sase.compiler.languages.sase.parser import parse
from sase.compiler.languages.sase.syntax import Name, Query


def read(text: str, filename: str) -> Parsed:
    query = parse(text, filename)
    types = dict.fromkeys(name.text for component in query.components for name in component.types)
    every = any(component.every for component in query.components)
    return Parsed(text, filename, query.stream, tuple(types), every, _parameters(query), partial(bind, query))


def _parameters(query: Query) -> frozenset[str]:
    window = {query.within.text} if isinstance(query.within, Name) else set()
    expressions = [item.expression for item in query.returns.items] if query.returns else []
    if query.where is not None:
        expressions.append(query.where)
    values = {node.this.name for expression in expressions for node in expression.find_all(Parameter)}
    return frozenset(window | values)
