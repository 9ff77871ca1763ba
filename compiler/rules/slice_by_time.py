from __future__ import annotations

from sase.compiler.logical import Plan

SLICE_WITHOUT_KEY = 1
SLICE_WITH_KEY = 16
"""Length of a slice in windows. An event is copied to every slice that its window reaches, so it is shuffled
1 + 1/length times on average: twice without a key, where there is no other way to use a second core, and 6 % more
with one, where slices only serve to spread a hot key."""


def slice_by_time(plan: Plan) -> Plan:
    """Cuts the stream by time, so that a query without a key, or with a hot one, uses all cores.

    Each slice reports the matches whose last event it owns. May not touch a query without WITHIN (any two events
    can be in one match), nor one whose window does not prune (copies would build sequences that no slice owns).
    """
    within = plan.query.within
    if within is None or not (plan.scan.window and plan.construction.window) or not needs_kernel(plan):
        return plan
    if plan.strategy.parallel == "key" and plan.scan.partition:
        return plan
    return plan.with_scan(slice=within.ticks * (SLICE_WITH_KEY if plan.scan.partition else SLICE_WITHOUT_KEY))


def needs_kernel(plan: Plan) -> bool:
    """One positive component without negation in the stacks is a filter; there are no sequences to build."""
    return len(plan.query.positive) > 1 or bool(plan.construction.negations)
