"""The plan: the paper's operators bottom-up, as in its Figure 1, with the counts of a run on the edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sase.compiler.emit.explain import operators
from sase.pictures.diagram import CHAR, Diagram
from sase.pictures.picture import GREY, PALETTE, RED, Chart, Picture

if TYPE_CHECKING:
    from sase.analysis.stages import Stage
    from sase.api import Query

SIGNS = {
    "Transformation": "TF",
    "Negation": "NG",
    "Selection": "σ",
    "Window": "WD",
    "Sequence construction": "SC←",
    "Sequence scan": "SS→",
    "Construction": "C←",
    "Scan": "S→",
    "Runs": "R→",
}
COLOURS = dict(zip(SIGNS, (GREY, RED, PALETTE[1], PALETTE[4], *(PALETTE[2], PALETTE[0]) * 2, PALETTE[2]), strict=True))


@dataclass(frozen=True)
class Operator:
    name: str
    details: tuple[str, ...]
    out: str
    """What left it in a run; empty if there was none."""


def plan(query: Query, stages: Sequence[Stage] | None = None) -> Picture:
    """The plan of a query; with the stages of `Query.stages`, also how much went along each edge."""
    boxes, read = _operators(query, stages or ())
    return Picture("The plan", _text(boxes, read), lambda: _chart(boxes, read))


def _operators(query: Query, stages: Sequence[Stage]) -> tuple[list[Operator], str]:
    """Top-down, as results leave; and what the lowest one reads."""
    read = _total(stages, "events", "event", "events") or "events"
    if query.compiled.plan.branches:
        return _in_any_order(query, stages), read
    after = iter([stage for stage in stages if stage.step in ("selection", "window", "anti-join")])
    done: dict[int, str] = {}
    listed = operators(query.compiled.plan, query.compiled.physical.stream)
    # The run goes bottom-up, and a selection of several conditions is several stages.
    for at in reversed(range(len(listed))):
        name, details = listed[at]
        match name:
            case "Sequence scan":
                pushed = [stage for stage in stages if stage.step == "scan"]
                done[at] = " · ".join(f"{stage.left:,} {stage.of}" for stage in pushed)
            case "Sequence construction":
                done[at] = _total(stages, "sequences", "sequence", "sequences")
            case "Selection":
                passed = [stage for _, stage in zip(details, after, strict=False)]
                done[at] = f"{passed[-1].left:,}" if passed else ""
            case "Window" | "Negation":
                stage = next(after, None)
                done[at] = f"{stage.left:,}" if stage else ""
            case _:
                done[at] = _total(stages, "result", "match", "matches")
    return [Operator(name, tuple(details), done[at]) for at, (name, details) in enumerate(listed)], read


def _in_any_order(query: Query, stages: Sequence[Stage]) -> list[Operator]:
    """What left each operator is what its last stage left; of the scan, what may fill each variable."""
    last = {stage.step: stage for stage in stages}
    fills = {stage.of: stage for stage in stages if stage.step in ("filter", "optional", "negated")}
    built = last.get("choice") or last.get("sequences")
    out = {
        "Transformation": _total(stages, "result", "match", "matches"),
        "Selection": f"{last['selection'].left:,}" if "selection" in last else "",
        "Negation": f"{last['negation'].left:,}" if "negation" in last else "",
        "Runs": "",
        "Construction": _total([built], built.step, "match", "matches") if built else "",
        "Scan": " · ".join(f"{stage.left:,} {stage.of}" for stage in fills.values()),
    }
    return [Operator(name, tuple(details), out[name]) for name, details in operators(query.compiled.plan)]


def _total(stages: Sequence[Stage], step: str, one: str, several: str) -> str:
    left = next((stage.left for stage in stages if stage.step == step), None)
    return "" if left is None else f"{left:,} {one if left == 1 else several}"


def _text(boxes: Sequence[Operator], read: str) -> str:
    lines = []
    for box in boxes:
        lines.append(f"      ↑ {box.out}".rstrip())
        lines.append(f"{SIGNS[box.name]:>4}  {box.name:<22} {box.details[0]}")
        lines += [f"{'':28} {detail}" for detail in box.details[1:]]
    return "\n".join([*lines, f"      ↑ {read}"]) + "\n"


def _chart(boxes: Sequence[Operator], read: str) -> Chart:
    diagram, y, x = Diagram(), 26.0, 8.0
    longest = max(len(detail) for box in boxes for detail in box.details)
    width = max(300.0, 190 + longest * CHAR + 12)
    middle = x + 90
    if boxes[0].out:
        diagram.text(middle + 10, 12, boxes[0].out)
    for at, box in enumerate(boxes):
        diagram.line([(middle, y), (middle, y - 17)], head=0)
        height = 14 + 17 * len(box.details)
        diagram.box(x, y, width, height, COLOURS[box.name])
        diagram.text(x + 10, y + height / 2 - (8 if height > 40 else 0), box.name, "name")
        if height > 40:
            diagram.text(x + 10, y + height / 2 + 9, SIGNS[box.name], colour=GREY)
        for line, detail in enumerate(box.details):
            bare = detail.lstrip()  # SVG drops leading spaces
            diagram.text(x + 190 + (len(detail) - len(bare)) * CHAR, y + 15.5 + 17 * line, bare)
        y += height + 28
        below = boxes[at + 1].out if at + 1 < len(boxes) else read
        diagram.text(middle + 10, y - 14, below)
    diagram.line([(middle, y - 2), (middle, y - 19)], head=0)
    return diagram.chart()
