"""Which events a worker need not hand back, as what has arrived with them rules out every state.

Spark decides, as of every condition. What is written down here is what a worker can tell as well, and for sure: plain
comparisons of doubles. The rest of a condition is taken to hold, so more may be handed back than is needed, never less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.plan.physical import Tree
from sase.compiler.plan.separate import COMPARISONS

_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


def thinned(states: Iterable[Sequence[exp.Expr]], computed: frozenset[str]) -> Tree | None:
    """Holds for each event that may fill one of the states, given the conditions of each on a single event. None if it
    says nothing, or nothing of the columns that are `computed` where it is asked."""
    ways = []
    for conditions in states:
        asked = [part for part in conditions if any(column.name in computed for column in scalars.columns(part))]
        known = [tree for part in asked if (tree := _condition(part)) is not None]
        if not known:
            return None
        ways.append(("and", *known) if len(known) > 1 else known[0])
    unlike = list(dict.fromkeys(ways))
    return None if not unlike else unlike[0] if len(unlike) == 1 else ("or", *unlike)


def _condition(node: exp.Expr) -> Tree | None:
    node = scalars.unparenthesised(node)
    if isinstance(node, exp.And | exp.Or):
        parts = [_condition(part) for part in (node.this, node.expression)]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            return ("and" if isinstance(node, exp.And) else "or", *known)
        return known[0] if known and isinstance(node, exp.And) else None
    sign = COMPARISONS.get(type(node))
    return None if sign is None else _of_doubles(node, sign)


def _of_doubles(node: exp.Expr, sign: str) -> Tree | None:
    """Beside a double, Spark takes any number for one; other numbers have rules of their own."""
    if not any(_is_double(part) for part in (node.this, node.expression)):
        return None
    left, right = _number(node.this), _number(node.expression)
    return None if left is None or right is None else (sign, left, right)


def _number(node: exp.Expr) -> Tree | None:
    node = scalars.unparenthesised(node)
    if isinstance(node, exp.Literal) and not node.is_string:
        return ("number", float(node.this))
    if isinstance(node, exp.Column) and (_is_double(node) or scalars.is_integer(node.type or scalars.UNKNOWN)):
        return ("column", node.name)
    sign = _ARITHMETIC.get(type(node))
    return None if sign is None else _of_doubles(node, sign)


def _is_double(node: exp.Expr) -> bool:
    node = scalars.unparenthesised(node)
    if type(node) in _ARITHMETIC:
        return _is_double(node.this) or _is_double(node.expression)
    return isinstance(node, exp.Column) and node.type is not None and node.type.this == exp.DataType.Type.DOUBLE
