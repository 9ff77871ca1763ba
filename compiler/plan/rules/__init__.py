"""The rules, in the order in which they are applied. Every one of them can be switched off by name."""

from __future__ import annotations

from collections.abc import Callable

from sase.compiler.plan.logical import Plan
from sase.compiler.plan.rules.filter_in_construction import filter_in_construction
from sase.compiler.plan.rules.leave_in_place import leave_in_place
from sase.compiler.plan.rules.negation_in_stacks import negation_in_stacks
from sase.compiler.plan.rules.partition_by_equivalence import partition_by_equivalence
from sase.compiler.plan.rules.prune_columns import prune_columns
from sase.compiler.plan.rules.push_simple_predicates import push_simple_predicates
from sase.compiler.plan.rules.slice_by_time import slice_by_time
from sase.compiler.plan.rules.window_in_construction import window_in_construction
from sase.compiler.plan.rules.window_in_scan import window_in_scan

Rule = Callable[[Plan], Plan]

RULES: tuple[Rule, ...] = (
    push_simple_predicates,
    partition_by_equivalence,
    filter_in_construction,
    window_in_scan,
    window_in_construction,
    negation_in_stacks,  # after the partition is chosen: the negated events must share its key
    slice_by_time,  # after all that decides whether there is a key and whether the window prunes
    leave_in_place,
    prune_columns,
)
NAMES = tuple(rule.__name__ for rule in RULES)


def optimise(plan: Plan, disable: frozenset[str] = frozenset()) -> Plan:
    for rule in RULES:
        if rule.__name__ not in disable:
            plan = rule(plan)
    return plan
