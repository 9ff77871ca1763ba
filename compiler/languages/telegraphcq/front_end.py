"""TelegraphCQ as a front end."""

from __future__ import annotations

from functools import partial

from sase.compiler.core.names import Parameter
from sase.compiler.languages.front_end import Parsed, Result
from sase.compiler.languages.sase.front_end import first_places
from sase.compiler.languages.sase.syntax import Name
from sase.compiler.languages.telegraphcq.binder import bind
from sase.compiler.languages.telegraphcq.parser import parse
from sase.compiler.languages.telegraphcq.syntax import Expression, Join, Operator, Query


def read(text: str, filename: str) -> Parsed:
    query = parse(text, filename)
    defined = {each.name.text.lower(): each.stream for each in query.defined}
    streams = (defined.get(alias.stream.text.lower(), alias.stream) for alias in query.aliases)
    into = query.into
    return Parsed(
        text,
        filename,
        None,
        first_places(streams),
        False,
        _parameters(query),
        partial(bind, query),
        Result(into.text, into.span, query.returns is not None) if into else None,
        query.event.span,
    )


def _parameters(query: Query) -> frozenset[str]:
    expressions = [item.expression for item in query.returns.items] if query.returns else []
    expressions += [each for each in (query.where, *(each.where for each in query.defined)) if each is not None]
    values = {node.this.name for expression in expressions for node in expression.find_all(Parameter)}
    return frozenset(values | set(_named_windows(query.event)))


def _named_windows(event: Expression | Join) -> list[str]:
    match event:
        case Join(windows=windows):
            return [each.text for each in windows if isinstance(each, Name)]
        case Operator(left=left, right=right, window=window):
            own = [window.text] if isinstance(window, Name) else []
            return own + _named_windows(left) + _named_windows(right)
        case _:
            return []
