"""What a comparison means that speaks of something that is not there.

Missing is not NULL: a comparison on an attribute that the event's type does not declare is true in SASE, and left out
in VDMS-PQ; the two differ only under OR and NOT. A comparison on a variable that a branch does not bind is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.spans import at, span_of

Missing = Callable[[exp.Expr, str], exp.Expr]
"""A rule as plain SQL: from a condition and the name of the column that has an event's type."""

_Absent = tuple[frozenset[tuple[str, frozenset[str]]], ...]
"""When nothing of a condition remains: in any of some cases, in each of which some variables are of some types."""


def atoms(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The comparisons of a condition: what AND, OR and NOT connect."""
    match condition:
        case exp.And() | exp.Or():
            yield from atoms(condition.left)
            yield from atoms(condition.right)
        case exp.Not() if not condition.meta.get("comparison"):
            yield from atoms(condition.this)
        case exp.Paren():
            yield from atoms(condition.this)
        case _:
            yield condition


def left_out(condition: exp.Expr, scope: Collection[str]) -> exp.Expr | None:
    """Without comparisons on variables that are not in scope; None where nothing remains, and so it holds.

    Of a repeated variable, those of its events are folded that are bound.
    """
    match condition:
        case exp.And() | exp.Or():
            left, right = left_out(condition.left, scope), left_out(condition.right, scope)
            if left is condition.left and right is condition.right:
                return condition
            if left is None or right is None:
                return right if left is None else left
            return at(type(condition)(this=left.copy(), expression=right.copy()), span_of(condition))
        case exp.Not() | exp.Paren() if not condition.meta.get("comparison"):
            inner = left_out(condition.this, scope)
            if inner is None or inner is condition.this:
                return None if inner is None else condition
            return at(type(condition)(this=inner.copy()), span_of(condition))
        case _:
            return _bound_atom(condition, scope)


def _bound_atom(atom: exp.Expr, scope: Collection[str]) -> exp.Expr | None:
    if scalars.variables(atom).issubset(scope) and not any(fold.args.get("times") for fold in _folds(atom)):
        return atom
    atom = atom.copy()
    for fold in _folds(atom):
        bound = [column for column in fold.expressions if column.table in scope]
        if not bound and fold.args.get("optional"):
            fold.replace(at(_of_nothing(fold), span_of(fold)))
            continue
        if not bound:
            return None
        fold.set("times", None)
        fold.set("expressions", bound)
    return atom if scalars.variables(atom).issubset(scope) else None


def _of_nothing(fold: scalars.Folded) -> exp.Expr:
    """A loop that may be left out has no events then: none are counted, and anything else is NULL."""
    return exp.Literal.number(0) if fold.this in ("size", "count") else exp.Null()


def _folds(atom: exp.Expr) -> list[scalars.Folded]:
    return list(atom.find_all(scalars.Folded))


def with_escapes(condition: exp.Expr, type_column: str) -> exp.Expr:
    """A comparison on what is missing is true.

    `x.shelf_id = z.shelf_id` with `ANY(COUNTER-READING, SHELF-READING) z` becomes
    `(z.type = 'COUNTER-READING' OR x.shelf_id = z.shelf_id)`.
    """
    escaped = condition.copy()
    for atom in list(atoms(escaped)):
        lacking = _lacking(atom)
        if not lacking:
            continue
        span = span_of(atom)
        escapes = [at(_type_is(variable, types, type_column), span) for variable, types in lacking.items()]
        wrapped = at(exp.Paren(this=at(scalars.disjunction([*escapes, atom]), span)), span)
        if atom is escaped:
            return scalars.unparenthesised(wrapped)
        atom.replace(wrapped)
    return escaped


def _lacking(atom: exp.Expr) -> dict[str, list[str]]:
    """By variable, the types that lack an attribute of the comparison."""
    lacking: dict[str, dict[str, None]] = {}
    for column in scalars.columns(atom):
        if (types := column.meta.get("lacking")) and not isinstance(column.parent, scalars.Folded):
            lacking.setdefault(column.table, {}).update(dict.fromkeys(types))
    return {variable: list(types) for variable, types in lacking.items()}


def without_missing(condition: exp.Expr, type_column: str) -> exp.Expr:
    """A comparison on what is missing is left out: AND and OR go on without it, NOT of it is left out, and a condition
    of which nothing remains holds.

    `y.speed > 90 OR y.code = 7` with `y:ANY(STATUS, DTC)`, each of which declares one of the two, becomes
    `(NOT y.type = 'DTC' AND y.speed > 90) OR (NOT y.type = 'STATUS' AND y.code = 7)`.
    """
    value, absent = _remaining(condition.copy(), type_column)
    return scalars.unparenthesised(_guarded(value, absent, exp.And, type_column))


def _remaining(condition: exp.Expr, type_column: str) -> tuple[exp.Expr, _Absent]:
    """What it means where something of it remains, and when nothing does. There, AND is true and OR is false."""
    match condition:
        case exp.And() | exp.Or():
            kind = type(condition)
            operands: list[exp.Expr] = []
            cases: list[_Absent] = []
            for operand in (condition.left, condition.right):
                value, absent = _remaining(operand, type_column)
                alike = isinstance(scalars.unparenthesised(operand), kind)
                operands.append(value if alike else _guarded(value, absent, kind, type_column))
                cases.append(absent)
            return at(scalars.balanced(kind, operands), span_of(condition)), _both(*cases)
        case exp.Not() if not condition.meta.get("comparison"):
            value, absent = _remaining(condition.this, type_column)
            return at(exp.Not(this=at(exp.Paren(this=value), span_of(condition))), span_of(condition)), absent
        case exp.Paren():
            value, absent = _remaining(condition.this, type_column)
            return at(exp.Paren(this=value), span_of(condition)), absent
        case _:
            lacking = _lacking(condition)
            return condition, tuple(frozenset({(name, frozenset(types))}) for name, types in lacking.items())


def _guarded(value: exp.Expr, absent: _Absent, kind: type[exp.Connector], type_column: str) -> exp.Expr:
    """True under AND, and false under OR, where nothing of it remains."""
    if not absent:
        return value
    span = span_of(value)
    tests = [
        scalars.conjunction([_type_is(variable, sorted(types), type_column) for variable, types in sorted(case)])
        for case in absent
    ]
    for test in tests:
        at(test, span)
    if kind is exp.And:
        return at(exp.Paren(this=at(scalars.disjunction([*tests, value]), span)), span)
    present = [at(exp.Not(this=at(exp.Paren(this=test), span)), span) for test in tests]
    return at(exp.Paren(this=at(scalars.conjunction([*present, value]), span)), span)


def _both(one: _Absent, other: _Absent) -> _Absent:
    """A variable has one type, so cases that ask for two of them are none."""
    joined = list[frozenset[tuple[str, frozenset[str]]]]()
    for first in one:
        for second in other:
            types: dict[str, frozenset[str]] = dict(first)
            for variable, some in second:
                types[variable] = types.get(variable, some) & some
            if all(types.values()):
                joined.append(frozenset(types.items()))
    return tuple(case for case in dict.fromkeys(joined) if not any(wider < case for wider in joined))


def _type_is(variable: str, types: Iterable[str], type_column: str) -> exp.Expr:
    tested = exp.Column(
        this=exp.Identifier(this=type_column, quoted=True), table=exp.Identifier(this=variable, quoted=True)
    )
    tested.type = exp.DataType.build("string", dialect="spark")
    values: list[exp.Expr] = [exp.Literal.string(name) for name in types]
    return exp.EQ(this=tested, expression=values[0]) if len(values) == 1 else exp.In(this=tested, expressions=values)
