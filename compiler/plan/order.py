"""The parts of WHERE that depend on earlier results, as trees over terms of single events."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.results import is_operation
from sase.compiler.plan.physical import Tree
from sase.compiler.plan.separate import COMPARISONS, Term

_SIGNS: dict[type[exp.Expr], str] = {
    **COMPARISONS,
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.And: "and",
    exp.Or: "or",
    exp.Not: "not",
    exp.Neg: "negative",
    exp.Is: "is null",
}


def tree(node: exp.Expr, last: str, column: Callable[[Term], str]) -> Tree:
    """What a worker computes: signs over `told` aggregates and over columns of single events, which Spark computes.
    What is of no event is a column of the last one; `column` gives out the names."""
    node = scalars.unparenthesised(node)
    if isinstance(node, scalars.Told):
        return ("told", node.this)
    variables = scalars.variables(node)
    if not node.find(scalars.Told) and len(variables) < 2:
        variable = next(iter(variables), last)
        return ("term", variable, column(Term(variable, node)))
    assert is_operation(node), "what cannot be computed there has been refused"
    if isinstance(node, exp.Anonymous):
        return ("coalesce", *(tree(part, last, column) for part in node.expressions))
    parts = [node.this] if isinstance(node, exp.Not | exp.Neg | exp.Is) else [node.this, node.expression]
    return (_SIGNS[type(node)], *(tree(part, last, column) for part in parts))
