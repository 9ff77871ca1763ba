"""Takes a predicate apart into terms of single events, which Spark computes, and comparisons, which the kernel makes.

`x.amount + y.amount > 1000` becomes `x.amount > 1000 - y.amount`. What does not come apart stays with Spark, which
then evaluates it on whole matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import Predicate
from sase.compiler.core.scalars import Family, family


@dataclass(frozen=True)
class Term:
    """An expression over the attributes of one variable."""

    variable: str
    value: exp.Expr


@dataclass(frozen=True)
class Comparison:
    left: Term
    op: str
    right: Term


@dataclass(frozen=True)
class Condition:
    """A boolean term."""

    term: Term


Atom = Comparison | Condition
Clause = tuple[Atom, ...]

MOST_CLAUSES = 64
"""Conjunctive normal form can explode; beyond this, Spark evaluates the predicate as it stands."""

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_NOT = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def separate(predicate: Predicate) -> tuple[Clause, ...] | None:
    """The predicate as a conjunction of clauses, or None if it does not come apart."""
    return _clauses(predicate.condition, positive=True) if predicate.variables else None


def _clauses(node: exp.Expr, positive: bool) -> tuple[Clause, ...] | None:
    """`positive` is False under an odd number of NOTs. SQL's three values obey De Morgan, and NOT a < b is a >= b."""
    node = scalars.unparenthesised(node)
    names = scalars.variables(node)
    if len(names) == 1:
        value = node if positive else exp.Not(this=exp.Paren(this=node.copy()))
        return ((Condition(Term(next(iter(names)), value)),),)
    match node:
        case exp.Not():
            return _clauses(node.this, not positive)
        case exp.And() | exp.Or():
            left, right = _clauses(node.left, positive), _clauses(node.right, positive)
            if left is None or right is None:
                return None
            return left + right if isinstance(node, exp.And) is positive else _either(left, right)
        case exp.Between():
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            return _clauses(exp.And(this=low, expression=high), positive)
        case exp.In():
            equalities: list[exp.Expr] = [
                exp.EQ(this=node.this.copy(), expression=value.copy()) for value in node.expressions
            ]
            return _clauses(scalars.disjunction(equalities), positive)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            comparison = _comparison(node)
            if comparison is None:
                return None
            return ((comparison if positive else Comparison(comparison.left, _NOT[comparison.op], comparison.right),),)
        case _:
            return None


def _either(left: tuple[Clause, ...], right: tuple[Clause, ...]) -> tuple[Clause, ...] | None:
    if len(left) * len(right) > MOST_CLAUSES:
        return None
    return tuple(one + other for one, other in product(left, right))


def _comparison(node: exp.Binary) -> Comparison | None:
    op = _OPERATORS[type(node)]
    left, right = node.left, node.right
    if len(scalars.variables(left)) == 1 == len(scalars.variables(right)):
        kind = _common_type(left, right)
        return None if kind is None else _ordered(_term(left, kind), op, _term(right, kind))
    return _linear(left, op, right)


def _ordered(left: Term, op: str, right: Term) -> Comparison | None:
    if left.variable == right.variable:
        return None
    return Comparison(left, op, right)


def _type(node: exp.Expr) -> exp.DataType:
    return scalars.infer(node, [])


def _common_type(left: exp.Expr, right: exp.Expr) -> exp.DataType | None:
    """A type in which comparing bits is comparing values as Spark does; None leaves the comparison to Spark."""
    one, other = _type(left), _type(right)
    if family(one) in (Family.OTHER, Family.ANY, Family.INTERVAL):
        return None
    return scalars.wider(one, other)


def _term(node: exp.Expr, kind: exp.DataType) -> Term:
    (variable,) = scalars.variables(node)
    value = scalars.unparenthesised(node)
    own = _type(value)
    same_bits = own == kind or family(own) == Family.STRING or (scalars.is_integer(own) and scalars.is_integer(kind))
    if not same_bits:
        value = exp.cast(value.copy(), kind)
    return Term(variable, value)


def _linear(left: exp.Expr, op: str, right: exp.Expr) -> Comparison | None:
    """Moves the summands of one variable to one side each.

    Only for integers, whose sums are exact: with floating point, `x + y > 1` and `x > 1 - y` may differ.
    """
    summands = _summands(left, 1) + _summands(right, -1)
    if not all(scalars.is_integer(_type(value)) for _, value in summands):
        return None
    names = sorted({name for _, value in summands for name in scalars.variables(value)})
    if len(names) != 2 or any(len(scalars.variables(value)) > 1 for _, value in summands):
        return None
    first = names[0]
    # The constants go with the second variable: `x.amount > 1000 - y.amount`.
    here = [(sign, value) for sign, value in summands if first in scalars.variables(value)]
    there = [(-sign, value) for sign, value in summands if first not in scalars.variables(value)]
    if all(sign < 0 for sign, _ in here):
        here, there = [(-sign, value) for sign, value in here], [(-sign, value) for sign, value in there]
        op = _MIRRORED[op]
    return Comparison(Term(first, _sum(here)), op, Term(names[1], _sum(there)))


def _summands(node: exp.Expr, sign: int) -> list[tuple[int, exp.Expr]]:
    node = scalars.unparenthesised(node)
    match node:
        case exp.Add():
            return _summands(node.left, sign) + _summands(node.right, sign)
        case exp.Sub():
            return _summands(node.left, sign) + _summands(node.right, -sign)
        case exp.Neg():
            return _summands(node.this, -sign)
        case _:
            return [(sign, node)]


def _sum(summands: list[tuple[int, exp.Expr]]) -> exp.Expr:
    """Positive summands first, so that it reads as people write; 64 bits wide, so that it cannot overflow sooner."""
    ordered = sorted(summands, key=lambda summand: -summand[0])
    result: exp.Expr | None = None
    for sign, value in ordered:
        operand = value.copy()
        if isinstance(operand, exp.Binary):
            operand = exp.Paren(this=operand)
        if len(ordered) > 1 and not isinstance(value, exp.Literal) and _type(value) != scalars.BIGINT:
            operand = exp.cast(operand, "bigint")
        if result is None:
            result = operand if sign > 0 else exp.Neg(this=operand)
        else:
            result = (exp.Add if sign > 0 else exp.Sub)(this=result, expression=operand)
    assert result is not None
    return result
