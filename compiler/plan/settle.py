"""What Spark may not decide on whole matches is brought into the kernel, whatever rules are switched off."""

from __future__ import annotations

from dataclasses import replace

from sase.compiler.core.bound import Predicate
from sase.compiler.core.errors import Diagnostic, SaseError
from sase.compiler.plan.logical import BranchPlan, GroupPlan, Plan
from sase.compiler.plan.rules.filter_in_construction import filtered
from sase.compiler.plan.rules.negation_in_stacks import inside


def settled(plan: Plan) -> Plan:
    """Instance selection and consumption choose among matches, so all that makes a match is decided before. And Spark
    gets the events of a group one by one, with the match that they may forbid."""
    if not plan.branches:
        return plan
    query, found = plan.query, dict[Diagnostic, None]()
    chooses = bool(query.selection) or query.consume == "exclusive"
    kept = query.bound | query.collected

    def of_group(each: GroupPlan, why: str | None) -> GroupPlan:
        if len(each.group.variables) > 1 or each.groups:
            why = why or "but it is about a group of several events"
        if {*each.group.variables} & kept and each.group.fold == "none":
            why = why or "but another branch of OR has the event in its matches"
        nested = tuple(of_group(inner, "but it is about a group inside another") for inner in each.groups)
        each = replace(each, groups=nested)
        if why is not None and each.late:
            each = inside(each)
            found.update((_left(part, why), None) for part in each.late)
        return each

    def of_branch(each: BranchPlan) -> BranchPlan:
        if chooses:
            each = filtered(each, tests=True)
            found.update((_left(part, _CHOOSING), None) for part in each.selection.predicates)
        alike = [other for other in plan.branches if {*other.branch.variables} == {*each.branch.variables}]
        again = query.once and len(alike) > 1
        for part in each.selection.predicates if again else ():
            # On one match of several branches: only the first of them is reported, so it must fail in all of them.
            if any(str(part) not in map(str, other.selection.predicates) for other in alike):
                found[_left(part, _AGAIN)] = None
        why = _CHOOSING if chooses else _AGAIN if again else None
        return replace(each, groups=tuple(of_group(group, why) for group in each.groups))

    plan = plan.with_branches(of_branch)
    if found:
        raise SaseError(found, query.text, query.filename)
    return plan


_AGAIN = "but another branch of OR may find the same match"
_CHOOSING = "but first, last and CONSUME EXCLUSIVE choose among matches before"


def _left(part: Predicate, why: str) -> Diagnostic:
    if part.is_folded:
        return Diagnostic(f"this is about several events, so that Spark decides it on whole matches, {why}", part.span)
    return Diagnostic(
        f"this does not come apart into terms of single events, so that Spark decides it on whole matches, {why}",
        part.span,
        "compare a value of one event with a value of another, such as x.a < y.a + 5",
    )
