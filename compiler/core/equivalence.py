"""Finds the equivalence tests among the parts of WHERE, however they are spelled.

`[id]`, `x.id = y.id AND x.id = z.id` and `x.id = y.id = z.id` are the same test and give the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import EquivalenceTest, Place, Predicate, Variable
from sase.compiler.core.fields import Path, is_field


def equivalence_tests(
    parts: Sequence[Predicate], variables: Sequence[Variable]
) -> tuple[tuple[EquivalenceTest, ...], tuple[Predicate, ...]]:
    """The tests, and the predicates that remain.

    Equalities between positive variables are merged into classes, at most one attribute per variable. An equality with
    a negated variable joins it to the class of the positive one, but never merges two classes: in
    `x.id = y.id AND y.id = z.id` with y negated, x and z may differ.
    """
    positions = {variable.name: index for index, variable in enumerate(variables)}
    classes: dict[Place, dict[str, str]] = {}  # each place → the members of its class, variable → attribute
    rest: list[Predicate] = []
    for part in parts:
        places = _equality(part)
        if places is None or part.negated is not None or not _merge(classes, *places):
            rest.append(part)
    members: list[dict[str, str]] = []
    for group in classes.values():
        if group not in members:
            members.append(group)
    remaining: list[Predicate] = []
    joined: dict[int, dict[str, str]] = {}
    for part in rest:
        places = _equality(part) if part.negated is not None else None
        if places is None or not _join(members, joined, part.negated or "", *places):
            remaining.append(part)
    tests = [
        EquivalenceTest(
            positive=tuple(sorted(group.items(), key=lambda place: positions[place[0]])),
            negated=tuple(sorted(joined.get(index, {}).items(), key=lambda place: positions[place[0]])),
        )
        for index, group in enumerate(members)
    ]
    return tuple(tests), tuple(remaining)


def _equality(part: Predicate) -> tuple[Place, Place] | None:
    """`x.a = y.b` between two variables of one type that partitions exactly: -0.0 and NaN, at any depth, do not."""
    match part.condition:
        case exp.EQ(this=left, expression=right) if _is_place(left) and _is_place(right):
            kinds = (left.type or scalars.UNKNOWN, right.type or scalars.UNKNOWN)
            same = kinds[0] == kinds[1] or all(map(scalars.is_integer, kinds))
            if (
                len(part.variables) == 2
                and same
                and not any(map(scalars.holds_float, kinds))
                and kinds[0] != scalars.UNKNOWN
            ):
                return _place(left), _place(right)
    return None


def _is_place(side: exp.Expr) -> bool:
    return isinstance(side, exp.Column) or is_field(side)


def _place(side: exp.Expr) -> Place:
    (variable,) = scalars.variables(side)
    return variable, side.name if isinstance(side, exp.Column) else Path.of(side)


def _merge(classes: dict[Place, dict[str, str]], left: Place, right: Place) -> bool:
    one = classes.get(left) or dict([left])
    other = classes.get(right) or dict([right])
    if any(one.get(variable, attribute) != attribute for variable, attribute in other.items()):
        return False
    merged = one | other
    for place in merged.items():
        classes[place] = merged
    return True


def _join(
    members: list[dict[str, str]], joined: dict[int, dict[str, str]], negated: str, left: Place, right: Place
) -> bool:
    inner, outer = (left, right) if left[0] == negated else (right, left)
    index = next((index for index, group in enumerate(members) if group.get(outer[0]) == outer[1]), len(members))
    if index == len(members):
        members.append(dict([outer]))
    return joined.setdefault(index, {}).setdefault(negated, inner[1]) == inner[1]
