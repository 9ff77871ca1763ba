from __future__ import annotations

from sase.compiler.plan.logical import Plan


def slice_by_time(plan: Plan) -> Plan:
    """Cuts the stream by time, so that a query without a key, or with a hot one, uses all cores.

    Each slice reports the matches whose last event it owns, and events are copied to every slice that their window
    reaches. How long a slice is, if any, is a matter of cost: `choose`. May not touch a query without WITHIN (any two
    events can be in one match), nor one whose window does not prune (copies would build sequences that no slice owns).
    """
    return (
        plan.with_scan(slice=plan.strategy.slice) if isinstance(plan.strategy.slice, int) and can_slice(plan) else plan
    )


def can_slice(plan: Plan) -> bool:
    return plan.query.within is not None and plan.scan.window and plan.construction.window and plan.needs_kernel
