from __future__ import annotations

from dataclasses import replace

from sase.compiler.core.errors import OptionError
from sase.compiler.plan.logical import Negation, Plan
from sase.compiler.plan.separate import is_exact, separate


def negation_in_stacks(plan: Plan) -> Plan:
    """Ships negated events to the kernel, which looks them up while it builds sequences (seed 004's neg_link).

    The events are read once then, where an anti-join reads them again. May not touch a negated component that does not
    share the partition key: its events would have to be in every partition. Nor one with a predicate that does not come
    apart, or not exactly.
    """
    if plan.strategy.negation == "anti-join":
        return plan
    reasons = {negation.variable: why_not_in_stacks(negation, plan) for negation in plan.negations}
    for variable, reason in reasons.items():
        if plan.strategy.negation == "stack" and reason:
            raise OptionError(f"negation=stack is not possible for {variable}: {reason}")
    inside = tuple(negation for negation in plan.negations if reasons[negation.variable] is None)
    outside = tuple(negation for negation in plan.negations if negation not in inside)
    return replace(plan, negations=outside).with_construction(negations=plan.construction.negations + inside)


def why_not_in_stacks(negation: Negation, plan: Plan) -> str | None:
    for test in plan.scan.partition:
        if test.attribute(negation.variable) is None:
            return f"{negation.variable} is not part of the partition key {test}"
    for predicate in negation.predicates:
        clauses = separate(predicate)
        if clauses is None:
            return f"{predicate} does not come apart into terms of single events"
        if not is_exact(clauses):
            return f"{predicate} may overflow, and is left to Spark"
    return None
