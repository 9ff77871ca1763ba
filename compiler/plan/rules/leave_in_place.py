from __future__ import annotations

from sase.compiler.plan.logical import Plan
from sase.compiler.plan.reach import reach
from sase.compiler.plan.rules.slice_by_time import can_slice


def leave_in_place(plan: Plan) -> Plan:
    """Leaves events where they are read, as far as files turn out to be in the order of time: a part of such a file is
    a time slice that nobody has to make. What is near the ends of these parts, and all of other files, goes by key.

    May not touch what `slice_by_time` may not touch, nor a plan that is cut into slices, nor one without a key, since
    that has them. Nor a query that asks what has arrived, which is not known from the events near a border, nor one
    that asks how far a key gets.
    """
    query, far = plan.query, reach(plan.query.branches)
    asks_for_all = query.arrivals or query.furthest
    cut_otherwise = plan.scan.slice is not None or plan.strategy.parallel not in ("auto", "files")
    if far is None or asks_for_all or cut_otherwise or not plan.scan.partition or not can_slice(plan):
        return plan
    return plan.with_scan(stays=far)
