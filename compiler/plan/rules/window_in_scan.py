from __future__ import annotations

from sase.compiler.plan.logical import Plan


def window_in_scan(plan: Plan) -> Plan:
    """Prunes the stacks of events that have fallen out of the window; memory then holds one window of events.

    The window is still checked on sequences: an event may be in the window of a stack's top and outside its own.
    Where a pattern is no sequence, there are no stacks.
    """
    if plan.branches:
        return plan
    return plan.with_scan(window=plan.has_interval)
