"""What of a query may fail on some events, and where the query has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.errors import Span
from sase.compiler.core.spans import span_of

LONGEST, MOST = 200, 50
"""Characters of an expression, and expressions, that are worth a place: a sum of many terms has as many sums inside."""


def places(query: BoundQuery, more: Iterable[exp.Expr] = ()) -> list[tuple[str, Span]]:
    """Spark SQL and its span, of the query's expressions and of those that are written in another way. A function that
    may not be there stands alone, too, as Spark then names nothing else."""
    found = (place for root in (*_expressions(query), *more) for node in root.walk() for place in _places(node))
    return list(islice(_unique(found), MOST))


def _unique(places: Iterable[tuple[str, Span]]) -> Iterator[tuple[str, Span]]:
    seen = set[tuple[str, Span]]()
    for place in places:
        if place not in seen:
            seen.add(place)
            yield place


def _expressions(query: BoundQuery) -> Iterator[exp.Expr]:
    yield from (predicate.condition for predicate in query.predicates)
    yield from (output.value for output in query.returns or ())


def _places(node: exp.Expr) -> Iterator[tuple[str, Span]]:
    if not isinstance(node, _FALLIBLE):
        return
    span = span_of(node)
    if span.end - span.start <= LONGEST and _may_fail(node):
        yield scalars.sql(node), span
    if isinstance(node, exp.Anonymous) and node.name.upper() not in exp.FUNCTION_BY_NAME:
        yield node.name, node.meta.get("name_span") or span


_FALLIBLE = (exp.Binary, exp.Neg, exp.Cast, exp.Anonymous)


def _may_fail(node: exp.Expr) -> bool:
    match node:
        case exp.Div() | exp.IntDiv() | exp.Mod() | exp.Anonymous():
            return True
        case exp.Cast():
            return not isinstance(node.this, exp.Literal) and not scalars.is_string(node.to)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Neg():
            kind = scalars.infer(node, [])  # what is no number, or a float, does not overflow
            return scalars.family(kind) in (scalars.Family.NUMBER, scalars.Family.ANY) and not scalars.is_float(kind)
        case exp.Predicate() if isinstance(node, exp.Binary):
            return any(_is_unknown(side) for side in (node.left, node.right))
    return False


def _is_unknown(node: exp.Expr) -> bool:
    """Whether Spark alone knows its type, and may have to convert what it is compared with."""
    return isinstance(node, exp.Anonymous) and scalars.family(scalars.infer(node, [])) is scalars.Family.ANY
