"""What can partition the events of a pattern that is no sequence: a test of each branch, together one key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sase.compiler.core.bound import BoundQuery, Branch, EquivalenceTest, Group, Place
from sase.compiler.core.fields import Path


def keys(query: BoundQuery) -> tuple[EquivalenceTest, ...]:
    """Each as one test over all variables. What can be added to a match must share its key, so that it is there."""
    first = next((branch for branch in query.branches if _needed(branch)), None)
    if first is None:
        return ()
    found = (_key(query, test) for test in first.equivalences if _covers(test, first))
    return tuple(dict.fromkeys(key for key in found if key is not None))


def _key(query: BoundQuery, test: EquivalenceTest) -> EquivalenceTest | None:
    places: dict[str, str] = {}
    for branch in query.branches:
        if not _needed(branch):
            continue
        tests = (each for each in (test, *branch.equivalences) if _covers(each, branch))
        merged = (_merged(query, places, each.positive + each.negated) for each in tests)
        known = next((each for each in merged if each is not None), None)
        if known is None:
            return None
        places = known
    for branch in query.branches:
        for name in branch.variables:
            if name not in places and (attribute := _attribute(query, places, name)) is not None:
                places[name] = attribute
    ordered = [(variable.name, places[variable.name]) for variable in query.variables if variable.name in places]
    return EquivalenceTest(
        tuple(place for place in ordered if place[0] in query.bound),
        tuple(place for place in ordered if place[0] not in query.bound),
    )


def _needed(branch: Branch) -> set[str]:
    """The variables that must share a key: none, where one event alone is the match."""
    names = {*branch.variables, *(name for group in branch.groups for name in variables_of(group))}
    return names if len(names) > 1 else set()


def variables_of(group: Group) -> Iterator[str]:
    yield from group.variables
    for inner in group.groups:
        yield from variables_of(inner)


def _covers(test: EquivalenceTest, branch: Branch) -> bool:
    return all(test.attribute(name) is not None for name in _needed(branch))


def _merged(query: BoundQuery, places: dict[str, str], more: Iterable[Place]) -> dict[str, str] | None:
    """With more places; None if a variable, or an event of two of them, would have two keys."""
    merged = dict(places)
    for name, attribute in more:
        if merged.setdefault(name, attribute) != attribute:
            return None
    of_type: dict[str, str] = {}
    for name, attribute in merged.items():
        for kind in query.variable(name).types:
            if of_type.setdefault(kind, attribute) != attribute:
                return None
    return merged


def _attribute(query: BoundQuery, places: dict[str, str], name: str) -> str | None:
    """What a variable that is alone in its branches is partitioned by. Anything will do, as it meets nobody: the
    attribute that the others go by, if that is one and it has it, too."""
    attribute, *others = {*places.values()}
    known = query.variable(name).attributes.get(attribute.lower())
    if others or isinstance(attribute, Path) or known is None or known.lacking:
        return None
    same = all(query.variable(other).attributes[attribute.lower()].kind == known.kind for other in places)
    return attribute if same and _merged(query, places, [(name, attribute)]) is not None else None
