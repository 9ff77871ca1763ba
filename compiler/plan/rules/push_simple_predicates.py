from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sase.compiler.core.bound import Predicate
from sase.compiler.plan.logical import BranchPlan, GroupPlan, Plan


def push_simple_predicates(plan: Plan) -> Plan:
    """Tests an event's own attributes before the event enters a stack, rather than on finished sequences.

    `WHERE x1.attr3 = '1'`: events that fail it are never shuffled. The same for a negated component's own predicates.

    May not touch a predicate that is asked of a variable in one branch and not in another, `OR(SEQ(A x, B y), A x)
    WHERE x.v > 3 OR y.v > 3`: an event has one state bit for all of them.
    """
    if plan.branches:
        return _of_branches(plan)
    simple: dict[str, tuple[Predicate, ...]] = {}

    def push(predicates: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
        for predicate in predicates:
            if predicate.is_simple:
                (variable,) = predicate.variables
                simple[variable] = (*simple.get(variable, ()), predicate)
        return tuple(predicate for predicate in predicates if not predicate.is_simple)

    plan = plan.with_selection(predicates=push(plan.selection.predicates))
    negations = tuple(replace(negation, predicates=push(negation.predicates)) for negation in plan.negations)
    return replace(plan, negations=negations).with_scan(simple=simple)


def _of_branches(plan: Plan) -> Plan:
    asked: dict[str, list[dict[str, Predicate]]] = {}  # by variable, one for each branch or group that has it
    for branch in plan.branches:
        for variable, predicates in _places(branch):
            own = {str(part): part for part in predicates if part.is_simple and part.variables == {variable}}
            asked.setdefault(variable, []).append(own)
    simple = {
        variable: {text: part for text, part in ways[0].items() if all(text in way for way in ways)}
        for variable, ways in asked.items()
    }

    def left(predicates: tuple[Predicate, ...], variables: tuple[str, ...]) -> tuple[Predicate, ...]:
        pushed = {text for variable in variables for text in simple[variable]}
        return tuple(part for part in predicates if not (part.is_simple and str(part) in pushed))

    def of_group(each: GroupPlan) -> GroupPlan:
        return replace(
            each, late=left(each.late, each.group.variables), groups=tuple(of_group(inner) for inner in each.groups)
        )

    def of_branch(each: BranchPlan) -> BranchPlan:
        predicates = left(each.selection.predicates, each.branch.variables)
        groups = tuple(of_group(group) for group in each.groups)
        return replace(each, selection=replace(each.selection, predicates=predicates), groups=groups)

    pushed = {variable: tuple(parts.values()) for variable, parts in simple.items() if parts}
    return plan.with_branches(of_branch).with_scan(simple=pushed)


def _places(each: BranchPlan | GroupPlan) -> Iterator[tuple[str, tuple[Predicate, ...]]]:
    """Where a variable stands, with the conditions there."""
    if isinstance(each, BranchPlan):
        yield from ((name, each.selection.predicates) for name in each.branch.variables)
    else:
        yield from ((name, each.late) for name in each.group.variables)
    for group in each.groups:
        yield from _places(group)
