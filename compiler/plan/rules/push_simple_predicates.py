from __future__ import annotations

from dataclasses import replace

from sase.compiler.core.bound import Predicate
from sase.compiler.plan.logical import Plan


def push_simple_predicates(plan: Plan) -> Plan:
    """Tests an event's own attributes before the event enters a stack, rather than on finished sequences.

    `WHERE x1.attr3 = '1'`: events that fail it are never shuffled. The same for a negated component's own predicates.
    """
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
