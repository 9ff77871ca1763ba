"""Takes a predicate apart into terms of single events, which Spark computes, and comparisons, which the kernel makes.

`x.amount + y.amount > 1000` becomes `x.amount > 1000 - y.amount`. What does not come apart stays with Spark, which
then evaluates it on whole matches.

A predicate means what Spark makes of it, and where a sum leaves its type, Spark fails (ANSI) or wraps around. Types
seldom rule that out, since int + int is an int, but values do: small ones add up to what fits. So a summand that is not
small gets a term with which the comparison holds, and Spark evaluates the predicate again on what is left. Such a
comparison is not *exact*: it holds wherever the predicate does or fails, and elsewhere too.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import product

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import Predicate
from sase.compiler.core.dataclass import dataclass
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
    exact: bool = True


@dataclass(frozen=True)
class Condition:
    """A boolean term."""

    term: Term


Atom = Comparison | Condition
Clause = tuple[Atom, ...]

MOST_CLAUSES = 64
"""Conjunctive normal form can explode; beyond this, Spark evaluates the predicate as it stands."""

MOST_SUMMANDS = 64
"""A longer sum is Spark's, too."""

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_NOT = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SPLIT = {"=": ("<=", ">=")}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def separate(predicate: Predicate) -> tuple[Clause, ...] | None:
    """The predicate as a conjunction of clauses, or None if it does not come apart."""
    if not predicate.variables or predicate.is_folded:
        return None
    return _clauses(predicate.condition, positive=True)


def split(predicates: Iterable[Predicate]) -> tuple[tuple[Predicate, ...], tuple[Predicate, ...]]:
    """Those that the kernel can check, and those that are left to Spark: some are both."""
    parts = tuple(predicates)
    clauses = {part: found for part in parts if (found := separate(part)) is not None}
    return tuple(clauses), tuple(part for part in parts if part not in clauses or not is_exact(clauses[part]))


def is_exact(clauses: tuple[Clause, ...]) -> bool:
    """Whether they hold exactly where the predicate does, so that nothing is left to Spark."""
    return all(atom.exact for clause in clauses for atom in clause if isinstance(atom, Comparison))


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
        case exp.In() if _is_uniform([node.this, *node.expressions]):
            equalities: list[exp.Expr] = [
                exp.EQ(this=node.this.copy(), expression=value.copy()) for value in node.expressions
            ]
            return _clauses(scalars.disjunction(equalities), positive)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            op = COMPARISONS[type(node)]
            return _comparison(node.left, op if positive else _NOT[op], node.right)
        case _:
            return None


def _either(left: tuple[Clause, ...], right: tuple[Clause, ...]) -> tuple[Clause, ...] | None:
    if len(left) * len(right) > MOST_CLAUSES:
        return None
    return tuple(one + other for one, other in product(left, right))


def _is_uniform(nodes: list[exp.Expr]) -> bool:
    """IN brings all of its values to one type before it compares any two: a single double makes doubles of them all."""
    kinds = [kind for kind in map(_type, nodes) if kind.this != exp.DataType.Type.NULL]
    same = all(kind == kinds[0] for kind in kinds) and kinds[0] != scalars.UNKNOWN
    return same or any(all(map(test, kinds)) for test in (scalars.is_integer, scalars.is_float, scalars.is_string))


def _comparison(left: exp.Expr, op: str, right: exp.Expr) -> tuple[Clause, ...] | None:
    if len(scalars.variables(left)) == 1 == len(scalars.variables(right)):
        kind = _common_type(left, right)
        return None if kind is None else ((Comparison(_term(left, kind), op, _term(right, kind)),),)
    return _linear(left, op, right)


def _type(node: exp.Expr) -> exp.DataType:
    return scalars.infer(node, [])


def _common_type(left: exp.Expr, right: exp.Expr) -> exp.DataType | None:
    """A type in which comparing bits is comparing values as Spark does; None leaves the comparison to Spark."""
    one, other = _type(left), _type(right)
    if family(one) in (Family.OTHER, Family.ANY, Family.INTERVAL):
        return None
    return scalars.comparison_type(one, other)


def _term(node: exp.Expr, kind: exp.DataType) -> Term:
    (variable,) = scalars.variables(node)
    value = scalars.unparenthesised(node)
    own = _type(value)
    same_bits = own == kind or family(own) == Family.STRING or (scalars.is_integer(own) and scalars.is_integer(kind))
    if not same_bits:
        value = exp.cast(value.copy(), kind)
    return Term(variable, value)


def _linear(left: exp.Expr, op: str, right: exp.Expr) -> tuple[Clause, ...] | None:
    """Moves the summands of one variable to one side each.

    Only for integers, whose sums are exact: with floating point, `x + y > 1` and `x > 1 - y` may differ.
    """
    if sum(1 for side in (left, right) for _ in side.find_all(exp.Add, exp.Sub)) > MOST_SUMMANDS:
        return None
    summands = _summands(left, 1) + _summands(right, -1)
    if not all(scalars.is_integer(_type(value)) for _, value in summands):
        return None
    names = sorted({name for _, value in summands for name in scalars.variables(value)})
    if len(names) != 2 or any(len(scalars.variables(value)) > 1 for _, value in summands):
        return None
    small = _small(left, right)
    if small is None:
        return None
    first = names[0]
    # The constants go with the second variable: `x.amount > 1000 - y.amount`.
    here = [(sign, value) for sign, value in summands if first in scalars.variables(value)]
    there = [(-sign, value) for sign, value in summands if first not in scalars.variables(value)]
    if all(sign < 0 for sign, _ in here):
        here, there = [(-sign, value) for sign, value in here], [(-sign, value) for sign, value in there]
        op = _MIRRORED[op]
    large = [value for _, value in summands if _magnitude(value) > small and not _is_number(value)]
    if not large:
        return ((Comparison(Term(first, _sum(here)), op, Term(names[1], _sum(there))),),)
    # What is compared with the end of all integers is smaller, or greater, and unequal, but never equal to it.
    clauses = []
    for each in _SPLIT.get(op, (op,)):
        end = -END if each in ("<", "<=") else END
        one, other = _guarded(here, large, small, end), _guarded(there, large, small, -end)
        clauses.append((Comparison(Term(first, one), each, Term(names[1], other), exact=False),))
    return tuple(clauses)


def _summands(node: exp.Expr, sign: int) -> list[tuple[int, exp.Expr]]:
    """What is added up, as large as possible: a part about one event is Spark's to compute, and to fail on."""
    node = scalars.unparenthesised(node)
    match node:
        case _ if len(scalars.variables(node)) < 2:
            return [(sign, node)]
        case exp.Add():
            return _summands(node.left, sign) + _summands(node.right, sign)
        case exp.Sub():
            return _summands(node.left, sign) + _summands(node.right, -sign)
        case exp.Neg():
            return _summands(node.this, -sign)
        case _:
            return [(sign, node)]


END = 2**63 - 1
_ROUND_NUMBERS: list[int] = [digit * 10**zeros for zeros in range(18, -1, -1) for digit in range(9, 0, -1)]


def _small(left: exp.Expr, right: exp.Expr) -> int | None:
    """The largest round number such that integers up to it, on both sides of 0, add up without leaving their types."""
    sums = [
        (scalars.largest_integer(_type(node)), [value for _, value in _summands(node, 1)])
        for side in (left, right)
        for node in side.find_all(exp.Add, exp.Sub, exp.Neg)
        if len(scalars.variables(node)) > 1
    ]
    # Once moved, all of them together must stay off the ends.
    sums.append((END - 1, [value for side in (left, right) for _, value in _summands(side, 1)]))
    for small in (2**63, *_ROUND_NUMBERS):
        if all(sum(_at_most(value, small) for value in values) <= most for most, values in sums):
            return small
    return None


def _at_most(value: exp.Expr, small: int) -> int:
    return _magnitude(value) if _is_number(value) else min(_magnitude(value), small)


def _magnitude(value: exp.Expr) -> int:
    """How far from 0 a value can be, by its type."""
    value = scalars.unparenthesised(value)
    kind = _type(value)
    if (number := _number(value)) is not None:
        return abs(number)
    if isinstance(value, exp.Cast) and scalars.is_integer(_type(value.this)):
        return min(_magnitude(value.this), scalars.largest_integer(kind) + 1)
    return scalars.largest_integer(kind) + 1


def _number(value: exp.Expr) -> int | None:
    match scalars.unparenthesised(value):
        case exp.Literal(this=text):
            return int(text)
        case exp.Neg(this=exp.Literal(this=text)):
            return -int(text)
        case _:
            return None


def _is_number(value: exp.Expr) -> bool:
    return _number(value) is not None


def _guarded(summands: list[tuple[int, exp.Expr]], large: list[exp.Expr], small: int, end: int) -> exp.Expr:
    """The sum, or `end` where a summand is not small."""
    guards: list[exp.Expr] = [
        exp.Not(this=exp.Between(this=_operand(value), low=_literal(-small), high=_literal(small)))
        for _, value in summands
        if value in large
    ]
    if not guards:
        return _sum(summands)
    guard = reduce(lambda one, other: exp.Or(this=one, expression=other), guards)
    return exp.Case(ifs=[exp.If(this=guard, true=_literal(end))], default=_sum(summands))


def _literal(number: int) -> exp.Expr:
    literal = exp.Literal.number(abs(number))
    return exp.Neg(this=literal) if number < 0 else literal


def _sum(summands: list[tuple[int, exp.Expr]]) -> exp.Expr:
    """Positive summands first, so that it reads as people write; 64 bits wide, in which they do not overflow."""
    ordered = sorted(summands, key=lambda summand: -summand[0])
    result: exp.Expr | None = None
    for sign, value in ordered:
        operand = _operand(value)
        if (len(ordered) > 1 or sign < 0) and not isinstance(value, exp.Literal) and _type(value) != scalars.BIGINT:
            operand = exp.cast(operand, "bigint")
        if result is None:
            result = operand if sign > 0 else exp.Neg(this=operand)
        else:
            result = (exp.Add if sign > 0 else exp.Sub)(this=result, expression=operand)
    assert result is not None
    return result


def _operand(value: exp.Expr) -> exp.Expr:
    return exp.Paren(this=value.copy()) if isinstance(value, exp.Binary) else value.copy()
