from __future__ import annotations

from dataclasses import replace

from sase.compiler.plan.logical import Plan


def window_in_construction(plan: Plan) -> Plan:
    """Stops going back in a stack at the first event outside the window, so that WD has nothing left to do.

    Where a pattern is no sequence, the window is among the bounds of every range of candidates already.
    """
    if plan.branches:
        return plan
    return replace(plan.with_construction(window=plan.has_interval), window=False)
