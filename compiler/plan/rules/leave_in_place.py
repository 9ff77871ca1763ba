from __future__ import annotations

from sase.compiler.plan.logical import Plan
from sase.compiler.plan.reach import reach
from sase.compiler.plan.rules.slice_by_time import can_slice


def leave_in_place(plan: Plan) -> Plan:
    """Leaves events where they are read, as far as files turn out to be in the order of time: a part of such a file is
    a time slice that nobody has to make. What is near the ends of these parts, and all of other files, goes by key.

    May not touch what `slice_by_time` may not touch, nor a plan that is cut into slices, nor one without a key, since
    that has them: but for slices in which the kernel is told what has arrived, as a part of a file has all of it, too.
    Told before, it would not be known near a border. Nor may it touch a query that asks how far a key gets.
    """
    far, told = reach(plan.query.branches), plan.strategy.arrivals == "slices"
    by_key = plan.scan.partition and plan.scan.slice is None and plan.strategy.parallel in ("auto", "files")
    if far is None or plan.query.furthest or not (told if plan.query.arrivals else by_key) or not can_slice(plan):
        return plan
    return plan.with_scan(stays=far)
