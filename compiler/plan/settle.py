"""Who chooses among candidates: the kernel, or a step behind what Spark decides on whole matches.

Instance selection and consumption choose among matches, and so does an OR that may find one match twice. So all that
makes a match is decided before: in the kernel, if all of it comes apart, which then chooses, too. Else it reports every
candidate, Spark decides, and a *deferred* choice follows. Where earlier results decide, the choice is theirs: behind
everything, in the fold that goes moment by moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sase.compiler.core.bound import Predicate
from sase.compiler.core.errors import Diagnostic, SaseError
from sase.compiler.plan.logical import BranchPlan, GroupPlan, Plan
from sase.compiler.plan.rules.filter_in_construction import filtered
from sase.compiler.plan.rules.negation_in_stacks import inside


def settled(plan: Plan, stream: bool) -> Plan:
    """What has been used up on a stream is part of its state, which Spark's decisions come behind. So there all is
    brought into the kernel, whatever rules are switched off, or it is an error."""
    query = plan.query
    if not plan.branches:
        return plan
    if query.reported:  # which then chooses, too: `Decide`
        return replace(plan, deferred=query.once and any(_may_repeat(each, plan) for each in plan.branches))
    if stream and query.consume == "exclusive":
        plan = plan.with_branches(_inside)
        if found := dict.fromkeys(_left(part) for each in plan.branches for part in _undecided(each)):
            raise SaseError(found, query.text, query.filename)
        return plan
    chooses = query.selection or query.consume == "exclusive"
    if chooses:
        return replace(plan, deferred=any(map(_is_undecided, plan.branches)))
    return replace(plan, deferred=query.once and any(_may_repeat(each, plan) for each in plan.branches))


def _inside(each: BranchPlan) -> BranchPlan:
    each = filtered(each, tests=True)
    return replace(each, groups=tuple(map(inside, each.groups)))


def _undecided(each: BranchPlan) -> Iterator[Predicate]:
    """The conditions that Spark decides, by which a candidate may fail."""
    yield from each.selection.predicates
    for group in each.groups:
        if group.group.fold == "none":
            yield from group.undecided


def _is_undecided(each: BranchPlan) -> bool:
    return bool(each.selection.equivalences) or any(True for _ in _undecided(each))


def _may_repeat(each: BranchPlan, plan: Plan) -> bool:
    """Whether another branch may find the same match where this one fails: what Spark decides of both alike, on the
    same events, fails in both."""
    alike = [other for other in plan.branches if {*other.branch.variables} == {*each.branch.variables}]
    if len(alike) == 1:
        return False
    common = [{*map(str, other.selection.predicates)} for other in alike]
    if any(part.is_folded or any(str(part) not in parts for parts in common) for part in each.selection.predicates):
        return True
    tests = each.selection.equivalences
    return any(other.selection.equivalences != tests for other in alike) or any(map(_forbids_late, each.groups))


def _forbids_late(each: GroupPlan) -> bool:
    return each.group.fold == "none" and bool(each.undecided)


def _left(part: Predicate) -> Diagnostic:
    why = "so that Spark decides it on whole matches, but on a stream CONSUME EXCLUSIVE chooses among matches before"
    if part.is_folded:
        return Diagnostic(f"this is about several events, {why}", part.span, "run the query on events at rest")
    return Diagnostic(
        f"this does not come apart into terms of single events, {why}",
        part.span,
        "compare a value of one event with a value of another, such as x.a < y.a + 5, or run it on events at rest",
    )
