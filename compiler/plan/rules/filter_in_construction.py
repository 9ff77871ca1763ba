from __future__ import annotations

from sase.compiler.plan.logical import Plan
from sase.compiler.plan.separate import is_exact, separate


def filter_in_construction(plan: Plan) -> Plan:
    """Checks parameterised predicates while a sequence is built (the paper's dynamic filtering).

    A sequence is built from its last event backwards, and each predicate is checked as soon as its variables are
    bound. May not touch a predicate that does not come apart into terms of single events, `abs(x.a - y.a) < 5`, nor
    a pattern of one positive component: nothing is constructed there. What comes apart, but not exactly, is checked in
    both places: a sum that may overflow, `x.a + y.a > 5`.
    """
    if len(plan.query.positive) == 1:
        return plan
    predicates = plan.selection.predicates
    apart = {predicate: clauses for predicate in predicates if (clauses := separate(predicate)) is not None}
    plan = plan.with_construction(predicates=tuple(apart)).with_selection(
        predicates=tuple(part for part in predicates if part not in apart or not is_exact(apart[part]))
    )
    if plan.strategy.equivalence_kind in ("selection", "multi-pais"):
        return plan  # both leave the tests themselves to selection
    return plan.with_construction(equivalences=plan.selection.equivalences).with_selection(equivalences=())
