"""The picture of a pattern that is no sequence: for each branch its events, and which of them comes before which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import atan2, degrees

from sase.compiler.core.bound import Before, BoundQuery, Branch, EquivalenceTest, Group, Loop, Variable
from sase.compiler.emit.words import group_text, part_text, test_text
from sase.pictures.diagram import CHAR, Diagram
from sase.pictures.picture import BLUE, GREY, INK, RED, Chart, Picture


@dataclass(frozen=True)
class Component:
    """An event of a match, and what is asked of it alone."""

    name: str
    event: str
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Added:
    """Events that could be added: none may be there, or all of them are collected."""

    event: str
    conditions: tuple[str, ...]
    collected: bool


@dataclass(frozen=True)
class Alternative:
    components: tuple[Component, ...]
    before: frozenset[Before]
    conditions: tuple[str, ...]
    """What is asked of several of its events together."""
    added: tuple[Added, ...]


def orders(query: BoundQuery) -> Picture:
    alternatives = [_alternative(query, branch) for branch in query.branches]
    return Picture("The pattern as orders of events", _text(alternatives), lambda: _chart(alternatives))


# ---- the model ----------------------------------------------------------------------------------


def _alternative(query: BoundQuery, branch: Branch) -> Alternative:
    together = [test_text(test, branch) for test in branch.equivalences if len(test.positive) > 1]
    together += [part_text(part, query) for part in branch.predicates if not part.is_simple]
    if query.within is not None and len(branch.variables) + len(branch.groups) > 1:
        together.append(f"within {query.within.text}")
    together += [f"the {mode} {name}" for name, mode in query.selection.items() if name in branch.variables]
    together += ["consumes its events"] if query.consume == "exclusive" else []
    return Alternative(
        tuple(
            Component(
                name,
                component(query.variable(name)),
                tuple(str(part) for part in branch.predicates if part.is_simple and part.variables == {name}),
            )
            for name in branch.variables
        ),
        branch.before,
        tuple(together),
        tuple(_added(query, branch, group) for group in branch.groups),
    )


def component(variable: Variable, loop: Loop | None = None) -> str:
    types = variable.types[0] if len(variable.types) == 1 else f"ANY({', '.join(variable.types)})"
    return f"{types}{loop or ''} {variable.name}"


def _added(query: BoundQuery, branch: Branch, group: Group) -> Added:
    text = group_text(group, lambda name: component(query.variable(name)))
    word = {"none": "no", "collect": "all", "weigh": "how likely is no"}[group.fold]
    return Added(f"{word} {text}", tuple(_asked(branch.equivalences, group)), group.fold != "none")


def _asked(tests: Iterable[EquivalenceTest], group: Group) -> Iterator[str]:
    yield from (str(test) for test in tests if any(test.attribute(name) is not None for name in group.variables))
    yield from map(str, group.predicates)
    for inner in group.groups:
        yield f"unless {group_text(inner)}"
        yield from (f"  {text}" for text in map(str, inner.predicates))


# ---- its forms ----------------------------------------------------------------------------------


def _text(alternatives: Sequence[Alternative]) -> str:
    """One component a line, with those that it comes after."""
    lines = []
    for at, each in enumerate(alternatives):
        several = len(alternatives) > 1
        lines.append("start" if not several else "either" if at == 0 else "or")
        width = max(len(step.event) for step in each.components)
        for step in each.components:
            earlier = [one for one, other in sorted(each.before) if other == step.name]
            after = f"  after {' and '.join(earlier)}" if earlier else ""
            lines += [f"  {step.event:<{width}}{after}".rstrip(), *(f"    {text}" for text in step.conditions)]
        lines += [f"  {text}" for text in each.conditions]
        lines += [f"  {text}" for text, _ in _lines(each.added)]
    return "\n".join([*lines, "match"]) + "\n"


def _lines(added: Iterable[Added]) -> Iterator[tuple[str, str]]:
    """With the colour of each."""
    for each in added:
        colour = BLUE if each.collected else RED
        yield f"{'∪' if each.collected else '✗'} {each.event}", colour
        yield from ((f"    {condition}", colour) for condition in each.conditions)


GAP, LINE, PAD, RADIUS = 26.0, 17.0, 10.0, 9.0
"""In pixels: between boxes, of a line of text, around the text of a box, of the circles at both ends."""


def _chart(alternatives: Sequence[Alternative]) -> Chart:
    """Time runs downwards: what must come later stands lower, and what stands side by side comes in any order."""
    diagram, top = Diagram(), 14.0
    for at, each in enumerate(alternatives):
        if len(alternatives) > 1:
            diagram.text(4, top, "either" if at == 0 else "or", "note", GREY)
            top += LINE
        top = _draw(diagram, each, top) + 1.5 * LINE
    return diagram.chart()


def _draw(diagram: Diagram, each: Alternative, top: float) -> float:
    rows = _rows(each)
    sizes = {step.name: _size(step) for step in each.components}
    widths = [sum(sizes[step.name][0] for step in row) + GAP * (len(row) - 1) for row in rows]
    middle = max(60.0, max(widths) / 2) + PAD
    diagram.circle(middle, top + RADIUS, RADIUS)
    diagram.text(middle + RADIUS + 8, top + RADIUS, "start", colour=GREY)
    y, places = top + 2 * RADIUS + GAP, dict[str, tuple[float, float, float]]()
    for row, width in zip(rows, widths, strict=True):
        x, height = middle - width / 2, max(sizes[step.name][1] for step in row)
        for step in row:
            wide, high = sizes[step.name]
            diagram.box(x, y, wide, high, GREY)
            diagram.text(x + PAD, y + 14, step.event, "name")
            for line, text in enumerate(step.conditions, 1):
                diagram.text(x + PAD, y + 14 + LINE * line, text)
            places[step.name] = (x + wide / 2, y, y + high)
            x += wide + GAP
        y += height + GAP + 8
    end = y + RADIUS
    for one, other in each.before:
        _arrow(diagram, (places[one][0], places[one][2]), (places[other][0], places[other][1]))
    for name, (x, above, below) in places.items():
        if not any(other == name for _, other in each.before):
            _arrow(diagram, (middle, top + 2 * RADIUS), (x, above))
        if not any(one == name for one, _ in each.before):
            _arrow(diagram, (x, below), (middle, end - RADIUS))
    diagram.circle(middle, end, RADIUS)
    diagram.circle(middle, end, RADIUS - 3.5)
    diagram.text(middle + RADIUS + 8, end, "match", "name")
    left, y = middle + RADIUS + 8, end
    for text, colour in [*((text, INK) for text in each.conditions), *_lines(each.added)]:
        y += LINE
        bare = text.lstrip()  # SVG drops leading spaces
        diagram.text(left + (len(text) - len(bare)) * CHAR, y, bare, colour=colour)
    return y + RADIUS


def _rows(each: Alternative) -> list[list[Component]]:
    """Those that come after nothing, those that come after these, and so on."""
    depth: dict[str, int] = {}

    def deep(name: str) -> int:
        if name not in depth:
            depth[name] = max((deep(one) + 1 for one, other in each.before if other == name), default=0)
        return depth[name]

    rows: list[list[Component]] = [[] for _ in range(1 + max(deep(step.name) for step in each.components))]
    for step in each.components:
        rows[depth[step.name]].append(step)
    return rows


def _size(step: Component) -> tuple[float, float]:
    longest = max([1.12 * len(step.event), *map(len, step.conditions)])
    return longest * CHAR + 2 * PAD, 28 + LINE * len(step.conditions)


def _arrow(diagram: Diagram, start: tuple[float, float], end: tuple[float, float]) -> None:
    diagram.line([start, (end[0], end[1] - 5)], head=180 - degrees(atan2(end[0] - start[0], end[1] - 5 - start[1])))
