"""Branches and groups in words, for plans and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sase.compiler.core.bound import Before, BoundQuery, Branch, EquivalenceTest, Group, Predicate


def order_text(variables: Sequence[str], before: Iterable[Before], called: Callable[[str], str] = str) -> str:
    """`a → b → d, a → c → d`: the chains that make up an order; events without one stand for themselves."""
    pairs = sorted(before, key=lambda pair: (variables.index(pair[0]), variables.index(pair[1])))
    chains = []
    while pairs:
        chain = list(pairs.pop(0))
        while step := next((pair for pair in pairs if pair[0] == chain[-1]), None):
            chain.append(step[1])
            pairs.remove(step)
        while step := next((pair for pair in pairs if pair[1] == chain[0]), None):
            chain.insert(0, step[0])
            pairs.remove(step)
        chains.append(chain)
    alone = [[name] for name in variables if not any(name in chain for chain in chains)]
    ordered = sorted(chains + alone, key=lambda chain: variables.index(chain[0]))
    return ", ".join(" → ".join(map(called, chain)) for chain in ordered)


def branch_text(branch: Branch) -> str:
    any_order = " in any order" if not branch.before and len(branch.variables) > 1 else ""
    return order_text(branch.variables, branch.before) + any_order


def group_text(group: Group, called: Callable[[str], str] = str) -> str:
    """`c between a and d`, `b → c after a`; `called` says how its own variables are called."""
    own = [pair for pair in group.before if {*pair} <= {*group.variables}]
    after = sorted({one for one, other in group.before if one not in group.variables and other in group.variables})
    before = sorted({other for one, other in group.before if one in group.variables and other not in group.variables})
    place = ""
    if after and before:
        place = f" between {' and '.join([*after, *before])}" if len(after) == len(before) == 1 else ""
        place = place or f" after {' and '.join(after)} and before {' and '.join(before)}"
    elif after or before:
        place = f" after {' and '.join(after)}" if after else f" before {' and '.join(before)}"
    return order_text(group.variables, own, called) + place


def part_text(part: Predicate, query: BoundQuery) -> str:
    """A condition; one about several events as it is written, and not in the functions that Spark has for it."""
    return " ".join(query.text[part.span.start : part.span.end].split()) if part.is_folded else str(part)


def test_text(test: EquivalenceTest, branch: Branch) -> str:
    """`[id]` of all variables; else those that it is about, `a.id = b.id`."""
    if {name for name, _ in test.positive} == {*branch.variables}:
        return str(test)
    return " = ".join(f"{name}.{attribute}" for name, attribute in test.positive)
