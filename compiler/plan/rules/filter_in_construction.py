from __future__ import annotations

from dataclasses import replace

from sase.compiler.plan.logical import BranchPlan, Plan, Selection
from sase.compiler.plan.separate import split


def filter_in_construction(plan: Plan) -> Plan:
    """Checks parameterised predicates while a sequence is built (the paper's dynamic filtering).

    A sequence is built from its last event backwards, and each predicate is checked as soon as its variables are
    bound. May not touch a predicate that does not come apart into terms of single events, `abs(x.a - y.a) < 5`, nor
    a pattern of one positive component: nothing is constructed there. What comes apart, but not exactly, is checked in
    both places: a sum that may overflow, `x.a + y.a > 5`. Nor one about what is collected, `count(t) > 3`.
    """
    if plan.branches:
        return plan.with_branches(lambda branch: filtered(branch, plan.strategy.equivalence_kind != "selection"))
    if len(plan.query.positive) == 1:
        return plan
    inside, left = split(plan.selection.predicates)
    plan = plan.with_construction(predicates=inside).with_selection(predicates=left)
    if plan.strategy.equivalence_kind in ("selection", "multi-pais"):
        return plan  # both leave the tests themselves to selection
    return plan.with_construction(equivalences=plan.selection.equivalences).with_selection(equivalences=())


def filtered(each: BranchPlan, tests: bool) -> BranchPlan:
    """The branch with all in construction that can be there, and the equivalence tests if they are wanted there."""
    inside, left = split(each.selection.predicates)
    moved = each.selection.equivalences if tests else ()
    kept = () if tests else each.selection.equivalences
    construction = replace(
        each.construction,
        predicates=each.construction.predicates + inside,
        equivalences=each.construction.equivalences + moved,
    )
    return replace(each, construction=construction, selection=Selection(left, kept))
