from __future__ import annotations

from sase.compiler.plan.logical import Plan
from sase.compiler.plan.reach import reach


def slice_by_time(plan: Plan) -> Plan:
    """Cuts the stream by time, so that a query without a key, or with a hot one, uses all cores.

    Each slice reports the matches whose last event it owns, and events are copied to every slice that their window
    reaches. How long a slice is, if any, is a matter of cost: `choose`. May not touch a query without WITHIN (any two
    events can be in one match), nor one whose window does not prune (copies would build sequences that no slice owns).
    Nor a loop: its last event may also be one before the last.
    Nor CONSUME EXCLUSIVE: whether an event is used up is known where all of its matches are.
    """
    return (
        plan.with_scan(slice=plan.strategy.slice, stays=None)
        if isinstance(plan.strategy.slice, int) and can_slice(plan)
        else plan
    )


def can_slice(plan: Plan) -> bool:
    if plan.branches:
        return reach(plan.query.branches) is not None and plan.query.consume == "shared"
    if plan.query.loops:
        return False
    return plan.query.within is not None and plan.scan.window and plan.construction.window and plan.needs_kernel
