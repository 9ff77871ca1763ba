"""Roadmaps (seed 003): in which blocks the events of a pattern are brought together.

A roadmap is a nesting of the pattern's variables, written `((a b)(c d))`. Inside a block, events that have no partner
are left out before anything else is done; and a walk along a roadmap that has bound one event of a block binds the
others before it leaves. The first is what a user can force, the second what `explain` compares.

The tree that a roadmap cuts up has the comparisons of two events as its edges. Where they make a graph, the most
selective ones span it, the others are checked on the way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from math import exp, prod

from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import OptionError

Roadmap = str | tuple["Roadmap", ...]
Edge = tuple[str, str]
Effort = tuple[float, float]
"""Of binding a variable next: the candidates that are looked at, and how many of them are left."""
Projected = Callable[[frozenset[str], str], float]
"""Of the events of a variable, how many are in a match of a block: π."""


def parsed(text: str, names: Iterable[str]) -> Roadmap:
    """`((a b)(c d))`; between names of one letter the blank may be left out."""
    known = set(names)
    stack: list[list[Roadmap]] = [[]]
    for token in re.findall(r"[()]|[^()\s]+", text):
        if token == "(":
            stack.append([])
        elif token == ")" and len(stack) > 1:
            block = stack.pop()
            stack[-1].append(tuple(block) if len(block) > 1 else block[0] if block else ())
        elif token == ")":
            raise _misspelt(text)
        else:
            stack[-1] += [token] if token in known or not known >= {*token} else [*token]
    if len(stack) != 1 or len(stack[0]) != 1:
        raise _misspelt(text)
    roadmap = stack[0][0]
    listed = [*variables(roadmap)]
    if sorted(listed) != sorted(known):
        raise OptionError(f"a roadmap has each of {', '.join(sorted(known))} once, and {text!r} has not")
    return roadmap


def _misspelt(text: str) -> OptionError:
    return OptionError(f"a roadmap is written ((a b)(c d)), and {text!r} is not")


def spelled(roadmap: Roadmap) -> str:
    if isinstance(roadmap, str):
        return roadmap
    parts = [spelled(each) for each in roadmap]
    text = parts[0]
    for part in parts[1:]:
        text += part if text.endswith(")") or part.startswith("(") else f" {part}"
    return f"({text})"


def variables(roadmap: Roadmap) -> Iterator[str]:
    if isinstance(roadmap, str):
        yield roadmap
    else:
        for each in roadmap:
            yield from variables(each)


def blocks(roadmap: Roadmap) -> Iterator[tuple[str, ...]]:
    """The variables of each block inside, the inner ones first."""
    for each in roadmap:
        if not isinstance(each, str):
            yield from blocks(each)
            yield tuple(variables(each))


def restricted(roadmap: Roadmap, names: Iterable[str]) -> Roadmap:
    """To the variables of one branch."""
    kept = set(names)
    if isinstance(roadmap, str):
        return roadmap
    inner = [restricted(each, kept) for each in roadmap if kept & {*variables(each)}]
    return inner[0] if len(inner) == 1 else tuple(inner)


# ---- what it costs ------------------------------------------------------------------------------


def searches(roadmap: Roadmap, edges: Iterable[Edge], projected: Projected) -> float:
    """Along each edge, the events on both sides look for their partners: those that are in a match of their block.

    `A + 2B + 2C + D` for (A B C D), `A + B + C + D + π_B(AB) + π_C(CD)` for ((A B)(C D)).
    """
    if isinstance(roadmap, str):
        return 0.0
    blocks = [frozenset(variables(each)) for each in roadmap]
    block_of = {name: block for block in blocks for name in block}
    edges = [*edges]
    total = sum(searches(each, edges, projected) for each in roadmap)
    for left, right in edges:
        if left in block_of and right in block_of and block_of[left] != block_of[right]:
            total += projected(block_of[left], left) + projected(block_of[right], right)
    return total


def best(names: Iterable[str], edges: Iterable[Edge], projected: Projected) -> Roadmap:
    """The roadmap with the fewest searches: of a subtree, the best of the edges at which it is cut in two, each side
    solved before (seed 003, Lemma 1)."""
    tree = tuple(edges)

    @cache
    def solved(block: frozenset[str]) -> tuple[float, str, Roadmap]:
        if len(block) == 1:
            (name,) = block
            return 0.0, name, name
        ways: list[Roadmap] = [(solved(one)[2], solved(other)[2]) for one, other in cuts(block, tree)]
        costs = [(searches(way, tree, projected), spelled(way), way) for way in ways]
        return min(costs, key=lambda each: each[:2])

    return solved(frozenset(names))[2]


def nestings(names: Iterable[str], edges: Iterable[Edge]) -> list[Roadmap]:
    """All ways to cut the tree in two, again and again: five for a chain of four."""
    block, tree = frozenset(names), tuple(edges)
    if len(block) == 1:
        return [*block]
    return [
        (left, right)
        for one, other in cuts(block, tree)
        for left in nestings(one, tree)
        for right in nestings(other, tree)
    ]


def cuts(block: frozenset[str], edges: Iterable[Edge]) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """For each edge inside, the two sides."""
    inside = [edge for edge in edges if {*edge} <= block]
    for cut in inside:
        side = {cut[0]}
        while more := {name for edge in inside if edge != cut and side & {*edge} for name in edge} - side:
            side |= more
        yield frozenset(side), block - side


def spanning(names: Iterable[str], weights: Mapping[Edge, float]) -> list[Edge]:
    """The edges of least weight that make a tree of all names, in the order of the names."""
    trees = {name: frozenset([name]) for name in names}
    chosen = []
    for left, right in sorted(weights, key=lambda edge: (weights[edge], edge)):
        if trees[left] != trees[right]:
            together = trees[left] | trees[right]
            trees |= dict.fromkeys(together, together)
            chosen.append((left, right))
    return chosen


@dataclass(frozen=True)
class Partners:
    """Estimates of π: an event is in a match of its block if it has a partner along each edge, which has its own."""

    events: Mapping[str, float]
    selectivity: Mapping[Edge, float]
    """For each edge, the share of the pairs inside a window that hold, times the share of the stream in a window."""

    def __call__(self, block: frozenset[str], name: str) -> float:
        return self.events[name] * self.share(block, name, None)

    def share(self, block: frozenset[str], name: str, parent: str | None) -> float:
        ways = [(edge, other) for edge in self.selectivity if name in edge for other in edge if other != name]
        return prod(
            1.0 - exp(-self.events[other] * self.share(block, other, name) * self.selectivity[edge])
            for edge, other in ways
            if other in block and other != parent
        )


# ---- what a walk makes of it --------------------------------------------------------------------


def binding_order(roadmap: Roadmap, latest: str, effort: Callable[[frozenset[str], str], Effort]) -> tuple[str, ...]:
    """From the block of the latest event outwards; a block that is entered is bound before it is left. Of several ways,
    the one with the least effort."""
    order: list[str] = []

    def bind(block: Roadmap, start: str) -> None:
        if isinstance(block, str):
            order.append(block)
            return
        inner = next(each for each in block if start in {*variables(each)})
        bind(inner, start)
        left = [each for each in block if each is not inner]
        while left:
            bound = frozenset(order)
            entries = [(effort(bound, name), at, name) for at, each in enumerate(left) for name in variables(each)]
            _, at, name = min(entries)
            bind(left.pop(at), name)

    bind(roadmap, latest)
    return tuple(order)
