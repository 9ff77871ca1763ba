from __future__ import annotations

from dataclasses import replace

from sase.compiler.plan.logical import Plan


def prune_columns(plan: Plan) -> Plan:
    """Carries only the columns that a later step or the result reads."""
    return replace(plan, pruned=True)
