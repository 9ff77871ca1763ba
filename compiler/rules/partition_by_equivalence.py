from __future__ import annotations

from sase.compiler.bound import EquivalenceTest
from sase.compiler.logical import Plan


def partition_by_equivalence(plan: Plan) -> Plan:
    """Partitions the stacks (PAIS) by the equivalence tests that all positive components share.

    Several tests make one composite key: what the paper avoids for the memory of so many stacks costs nothing where
    the partitions come out of a sort one after the other.

    May not touch a test that leaves a positive component out, `SEQ(A x, B y, C z) WHERE x.id = z.id`: an event of B
    belongs to every partition. Nor one in which an event has two keys, `SEQ(A x, A y) WHERE x.src = y.dst`.
    """
    partition = tuple(test for test in plan.query.equivalences if _covers(test, plan) and _one_key_an_event(test, plan))
    kept = tuple(test for test in plan.selection.equivalences if test not in partition)
    return plan.with_scan(partition=partition).with_selection(equivalences=kept)


def _covers(test: EquivalenceTest, plan: Plan) -> bool:
    return all(test.attribute(variable.name) is not None for variable in plan.query.positive)


def _one_key_an_event(test: EquivalenceTest, plan: Plan) -> bool:
    key: dict[str, str] = {}
    for name, attribute in test.positive + test.negated:
        for type_name in plan.query.variable(name).types:
            if key.setdefault(type_name, attribute) != attribute:
                return False
    return True
