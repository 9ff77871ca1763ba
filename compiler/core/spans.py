"""The place in the query's text that a scalar expression carries."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from sase.compiler.core.errors import Span

E = TypeVar("E", bound=exp.Expr)


def span_of(node: exp.Expr) -> Span:
    span = node.meta.get("span")
    if span is None:
        parent = node.parent
        assert parent is not None, f"no span on {node!r}"
        return span_of(parent)
    assert isinstance(span, Span)
    return span


def at(node: E, span: Span) -> E:
    node.meta["span"] = span
    return node
