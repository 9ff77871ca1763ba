from __future__ import annotations

from dataclasses import replace

from sase.compiler.core.bound import Predicate
from sase.compiler.core.errors import OptionError
from sase.compiler.plan.logical import GroupPlan, Negation, Plan
from sase.compiler.plan.separate import is_exact, separate, split


def negation_in_stacks(plan: Plan) -> Plan:
    """Ships negated events to the kernel, which looks them up while it builds sequences (seed 004's neg_link).

    The events are read once then, where an anti-join reads them again. May not touch a negated component that does not
    share the partition key: its events would have to be in every partition. Nor one with a predicate that does not come
    apart, or not exactly.

    Where a pattern is no sequence, the events of its groups are in the kernel in any case; what is left to Spark brings
    them along with each match.
    """
    if plan.branches:
        return plan.with_branches(lambda branch: replace(branch, groups=tuple(map(inside, branch.groups))))
    if plan.strategy.negation == "anti-join":
        return plan
    reasons = {negation.variable: why_not_in_stacks(negation, plan) for negation in plan.negations}
    for variable, reason in reasons.items():
        if plan.strategy.negation == "stack" and reason:
            raise OptionError(f"negation=stack is not possible for {variable}: {reason}")
    stacked = tuple(negation for negation in plan.negations if reasons[negation.variable] is None)
    outside = tuple(negation for negation in plan.negations if negation not in stacked)
    return replace(plan, negations=outside).with_construction(negations=plan.construction.negations + stacked)


def why_not_in_stacks(negation: Negation, plan: Plan) -> str | None:
    for test in plan.scan.partition:
        if test.attribute(negation.variable) is None:
            return f"{negation.variable} is not part of the partition key {test}"
    return next((reason for part in negation.predicates if (reason := why_not_in_kernel(part))), None)


def why_not_in_kernel(predicate: Predicate) -> str | None:
    clauses = separate(predicate)
    if clauses is None:
        return f"{predicate} does not come apart into terms of single events"
    return None if is_exact(clauses) else f"{predicate} may overflow, and is left to Spark"


def inside(each: GroupPlan) -> GroupPlan:
    """The group with all of its conditions in the kernel that come apart."""
    checked, left = split(each.late)
    return replace(each, groups=tuple(map(inside, each.groups)), predicates=each.predicates + checked, late=left)
