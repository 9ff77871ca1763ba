from __future__ import annotations

from dataclasses import replace

from sase.compiler.core.bound import BoundQuery, EquivalenceTest
from sase.compiler.core.errors import OptionError
from sase.compiler.plan.keys import keys
from sase.compiler.plan.logical import BranchPlan, Plan


def partition_by_equivalence(plan: Plan) -> Plan:
    """Partitions the stacks (PAIS) by equivalence tests that all positive components share.

    By default all such tests make one composite key: what the paper avoids for the memory of so many stacks costs
    nothing where the partitions come out of a sort one after the other. The paper's ways partition by one test. The
    others are left to construction (dynamic filtering), or filter transitions in the scan (Multi-PAIS).

    May not touch a test that leaves a positive component out, `SEQ(A x, B y, C z) WHERE x.id = z.id`: an event of B
    belongs to every partition. Nor one in which an event has two keys, `SEQ(A x, A y) WHERE x.src = y.dst`. Where a
    pattern is no sequence, a key is a test of every branch, and of its groups: `AND(A x, B y, NOT C n) WHERE x.id =
    y.id` has none.
    """
    usable = partitioning(plan.query)
    kind = plan.strategy.equivalence_kind
    partition = {"selection": (), "pais": _one(usable, plan), "multi-pais": _one(usable, plan)}.get(kind, usable)
    if plan.branches:
        return plan.with_scan(partition=partition).with_branches(lambda branch: _without(branch, partition))
    cross = tuple(test for test in usable if test not in partition) if kind == "multi-pais" else ()
    kept = tuple(test for test in plan.selection.equivalences if test not in partition)
    return plan.with_scan(partition=partition, cross=cross).with_selection(equivalences=kept)


def partitioning(query: BoundQuery) -> tuple[EquivalenceTest, ...]:
    """The tests that may partition the stacks."""
    if not query.is_sequence:
        return keys(query)
    return tuple(test for test in query.equivalences if _covers(test, query) and _one_key_per_event(test, query))


def _without(branch: BranchPlan, partition: tuple[EquivalenceTest, ...]) -> BranchPlan:
    """The branch without what events of one key agree on."""
    kept = tuple(
        test
        for test in branch.selection.equivalences
        if not any({*test.positive} <= {*key.positive, *key.negated} for key in partition)
    )
    return replace(branch, selection=replace(branch.selection, equivalences=kept))


def _one(usable: tuple[EquivalenceTest, ...], plan: Plan) -> tuple[EquivalenceTest, ...]:
    """The test that partitions: the one asked for, or the first."""
    attribute = plan.strategy.equivalence_attribute
    if attribute is None:
        return usable[:1]
    chosen = tuple(test for test in usable if attribute in (name for _, name in test.positive))
    if not chosen:
        known = ", ".join(map(str, usable)) or "none"
        raise OptionError(f"{attribute} is not an equivalence test that can partition this query; there is {known}")
    return chosen[:1]


def _covers(test: EquivalenceTest, query: BoundQuery) -> bool:
    return all(test.attribute(variable.name) is not None for variable in query.positive)


def _one_key_per_event(test: EquivalenceTest, query: BoundQuery) -> bool:
    key: dict[str, str] = {}
    for name, attribute in test.positive + test.negated:
        for type_name in query.variable(name).types:
            if key.setdefault(type_name, attribute) != attribute:
                return False
    return True
