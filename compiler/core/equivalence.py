"""Finds the equivalence tests among the parts of WHERE, however they are spelled.

`[id]`, `x.id = y.id AND x.id = z.id` and `x.id = y.id = z.id` are the same test and give the same plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import EquivalenceTest, Loop, Place, Predicate
from sase.compiler.core.fields import Path, is_field


class Owned(NamedTuple):
    """A part of P-, and the number of the group that it belongs to."""

    part: Predicate
    group: int


def equivalence_tests(
    parts: Iterable[Predicate],
    owned: Iterable[Owned],
    groups: Sequence[Sequence[str]],
    order: Sequence[str],
    loops: Mapping[str, Loop] = MappingProxyType({}),
) -> tuple[tuple[EquivalenceTest, ...], tuple[Predicate, ...], tuple[Owned, ...]]:
    """The tests of a branch, and the parts of P+ and P- that remain.

    Equalities between positive variables are merged into classes, at most one attribute per variable. An equality with
    a variable of a group joins it to the class of the positive one, but never merges two classes: in
    `x.id = y.id AND y.id = z.id` with y negated, x and z may differ. Equalities inside a group follow.

    `groups` has the variables of each group, by number; `order` all variables, as they are listed. Of runs, `loops` are
    those that take several events, or may take none: see `_ties`.
    """
    positions = {name: index for index, name in enumerate(order)}
    classes: dict[Place, dict[str, str]] = {}  # each place → the members of its class, variable → attribute
    rest: list[Predicate] = []
    for part in parts:
        places = _equality(part)
        if places is None or not _ties(part, places, positions, loops) or not _merge(classes, *places):
            rest.append(part)
    members: list[dict[str, str]] = []
    for group in classes.values():
        if group not in members:
            members.append(group)
    joined: dict[int, dict[str, str]] = {}
    inside = {name for group in groups for name in group}
    owned = list(owned)
    remaining = [
        each
        for each in owned
        if not (_is_everywhere(each, owned, groups) and _join(members, joined, each.part, inside))
    ]
    _join_inside(joined, remaining, groups)
    tests = [
        EquivalenceTest(
            positive=tuple(sorted(group.items(), key=lambda place: positions[place[0]])),
            negated=tuple(sorted(joined.get(index, {}).items(), key=lambda place: positions[place[0]])),
        )
        for index, group in enumerate(members)
    ]
    return tuple(tests), tuple(rest), tuple(remaining)


def _equality(part: Predicate) -> tuple[Place, Place] | None:
    """`x.a = y.b` between two variables of one type that partitions exactly: -0.0 and NaN, at any depth, do not.

    That all events of a loop agree, as `[a]` says, is a class of that one place.
    """
    match part.condition:
        case exp.EQ(this=exp.Column() as one, expression=scalars.Folded(this="previous", expressions=[before])):
            kind = one.type or scalars.UNKNOWN
            exact = kind != scalars.UNKNOWN and not scalars.holds_float(kind)
            return (_place(one), _place(one)) if one == before and exact and part.condition.meta.get("test") else None
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


def _ties(part: Predicate, places: tuple[Place, Place], order: Mapping[str, int], loops: Mapping[str, Loop]) -> bool:
    """Whether an equality is known with each event of a run that it speaks of: `[id]` is, and so is that of a loop with
    a single event before it. One with a later event is known too late, and where a loop is left out, it ties none."""
    if part.condition.meta.get("test"):
        return True
    for (one, _), (other, _) in (places, places[::-1]):
        if one in loops and (other in loops or order[other] > order[one]):
            return False
    return True


def _is_place(side: exp.Expr) -> bool:
    return (isinstance(side, exp.Column) and not side.meta.get("computed")) or is_field(side)


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


def _is_everywhere(each: Owned, owned: Iterable[Owned], groups: Sequence[Sequence[str]]) -> bool:
    """Whether all groups that have a variable of the part have the part: alternatives under one NOT share variables,
    and each may have conditions of its own."""
    having = {number for number, group in enumerate(groups) if not each.part.variables.isdisjoint(group)}
    return having <= {other.group for other in owned if other.part.condition == each.part.condition}


def _join(
    members: list[dict[str, str]], joined: dict[int, dict[str, str]], part: Predicate, inside: Collection[str]
) -> bool:
    """Whether the part ties a variable of a group to a positive one, of whose class it is a member now."""
    places = _equality(part)
    if places is None or all(variable in inside for variable, _ in places):
        return False
    inner, outer = places if places[0][0] in inside else (places[1], places[0])
    index = next((index for index, group in enumerate(members) if group.get(outer[0]) == outer[1]), len(members))
    if index == len(members):
        members.append(dict([outer]))
    return joined.setdefault(index, {}).setdefault(inner[0], inner[1]) == inner[1]


def _join_inside(joined: dict[int, dict[str, str]], remaining: list[Owned], groups: Sequence[Sequence[str]]) -> None:
    """Takes out equalities between variables of groups. What two members of a class say of each other is known. One
    that is tied to a member becomes one, too, if this group is its only one: in another one, nothing may tie it."""
    changed = True
    while changed:
        changed = False
        for each in list(remaining):
            places = _equality(each.part)
            if places is None:
                continue
            for known in joined.values():
                one, other = places if known.get(places[0][0]) == places[0][1] else (places[1], places[0])
                alone = [number for number, group in enumerate(groups) if other[0] in group] == [each.group]
                if known.get(one[0]) == one[1] and known.get(other[0], other[1] if alone else None) == other[1]:
                    known[other[0]] = other[1]
                    remaining.remove(each)
                    changed = True
                    break
