"""Active instance stacks, drawn: what the scan has pushed so far, and what construction builds from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sase.compiler.core.errors import OptionError
from sase.compiler.plan.planner import physical_plan
from sase.pictures.diagram import CHAR, Diagram
from sase.pictures.picture import BLUE, GREY, INK, PALETTE, Chart, Picture

if TYPE_CHECKING:
    from sase.api import Query
    from sase.events import Events

EVENTS = 40


@dataclass(frozen=True)
class Instance:
    """An event on a stack. `rip` is the most recent instance of the previous stack, by position; None on the first."""

    event: int
    rip: int | None


@dataclass(frozen=True)
class Group:
    """The stacks of one value of the partition key; the empty name is for all events."""

    name: str
    stacks: tuple[tuple[Instance, ...], ...]


@dataclass(frozen=True)
class Arrival:
    name: str
    states: tuple[bool, ...]
    group: str


def stacks(query: Query, events: Events, after: int | None = None) -> Picture:
    """The stacks after the first `after` relevant events (default: all of them), as the scan of this plan leaves them
    but for what the window has pruned; where the last of them completes sequences, these are drawn, too.

    For small streams, to see how it works: it takes at most 40 events.
    """
    if not query.compiled.query.is_sequence or query.compiled.query.loops:
        raise OptionError("stacks are those of a sequence, and this pattern is none: explain shows how it is evaluated")
    arrivals = _arrivals(query, events)
    shown = arrivals[:after]
    names = [variable.name for variable in query.compiled.query.positive]
    heads = [f"{' | '.join(variable.types)} {variable.name}" for variable in query.compiled.query.positive]
    groups = list(_scan(shown, len(names)))
    built = list(_construct(shown, groups))
    title = f"The stacks after {shown[-1].name}" if shown else "The stacks before the first event"
    return Picture(title, _text(title, shown, heads, groups, built), lambda: _chart(title, shown, heads, groups, built))


# ---- the model ----------------------------------------------------------------------------------


def _arrivals(query: Query, events: Events) -> list[Arrival]:
    """The relevant events in their order, and which states each may fill."""
    from pyspark.sql import functions as F

    from sase.runtime.events import check, quoted

    query = _unpruned(query)
    bound, physical, job = query.compiled.query, query.compiled.physical, query.batch_job
    relevant = job.relevant_events(check(query.tables(events), job.SOURCE))
    keys = list(physical.kernel.keys) if physical.kernel else []
    states = F.col(quoted(physical.own("states")))
    fills = [states.bitwiseAND(F.lit(1 << at)).cast("boolean").alias(f"s{at}") for at in range(len(bound.positive))]
    group = F.concat_ws(", ", *(F.concat(F.lit(f"{key} "), F.col(quoted(key)).cast("string")) for key in keys))
    order = [quoted(name) for name in (bound.time, bound.order) if name]
    rows = (
        relevant.orderBy(*order)
        .select(F.col(quoted(bound.type)).alias("type"), F.col(quoted(bound.time)).cast("string").alias("at"), *fills,
                group.alias("group"))
        .limit(EVENTS + 1)
        .collect()
    )  # fmt: skip
    if len(rows) > EVENTS:
        raise OptionError(f"stacks are drawn for at most {EVENTS} events: filter the events first")
    return [
        Arrival(_name(row["type"], row["at"]), tuple(row[f"s{at}"] for at in range(len(fills))), row["group"])
        for row in rows
    ]


def _unpruned(query: Query) -> Query:
    """The same plan with all columns on the way: an event is drawn by its type, which RETURN need not read."""
    from sase.api import Query

    physical = physical_plan(replace(query.compiled.plan, pruned=False))
    return Query(replace(query.compiled, physical=physical))


def _name(event_type: str, at: str) -> str:
    """The paper's a1 where it fits, a longer name elsewhere."""
    return f"{event_type.lower()}{at}" if len(event_type) == 1 else f"{event_type} {at}"


def _scan(arrivals: Sequence[Arrival], states: int) -> Iterator[Group]:
    """Sequence scan: an event is pushed where it fits, if the stack before has an instance for it to follow."""
    for name in dict.fromkeys(arrival.group for arrival in arrivals):
        pushed: list[list[Instance]] = [[] for _ in range(states)]
        for number, arrival in enumerate(arrivals):
            if arrival.group != name:
                continue
            # From the last state down: an event never follows itself.
            for state in reversed(range(states)):
                if arrival.states[state] and (state == 0 or pushed[state - 1]):
                    rip = len(pushed[state - 1]) - 1 if state else None
                    pushed[state].append(Instance(number, rip))
        yield Group(name, tuple(tuple(stack) for stack in pushed))


def _construct(arrivals: Sequence[Arrival], groups: Sequence[Group]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Sequence construction for the last event: down the stacks, from the RIP and below, depth first. Positions."""
    for group in groups:
        last = group.stacks[-1]
        if last and last[-1].event == len(arrivals) - 1:
            yield from ((group.name, path) for path in _paths(group, len(group.stacks) - 1, len(last) - 1))


def _paths(group: Group, state: int, position: int) -> Iterator[tuple[int, ...]]:
    rip = group.stacks[state][position].rip
    if rip is None:
        yield (position,)
        return
    for below in reversed(range(rip + 1)):
        for path in _paths(group, state - 1, below):
            yield (*path, position)


# ---- its forms ----------------------------------------------------------------------------------


def _named(arrivals: Sequence[Arrival], group: Group, path: Sequence[int]) -> str:
    return " ".join(arrivals[group.stacks[state][at].event].name for state, at in enumerate(path))


def _text(
    title: str,
    arrivals: Sequence[Arrival],
    heads: Sequence[str],
    groups: Sequence[Group],
    built: Sequence[tuple[str, tuple[int, ...]]],
) -> str:
    lines = [title]
    for group in groups:
        lines += [f"  {group.name}"] if group.name else []
        for state, head in enumerate(heads):
            shown = [_instance(arrivals, group, state, instance) for instance in group.stacks[state]]
            lines.append(f"  {head:<{max(map(len, heads))}}  {'  '.join(shown)}".rstrip())
    by_name = {group.name: group for group in groups}
    lines += [f"  builds  {_named(arrivals, by_name[name], path)}" for name, path in built]
    return "\n".join(lines) + "\n"


def _instance(arrivals: Sequence[Arrival], group: Group, state: int, instance: Instance) -> str:
    name = arrivals[instance.event].name
    if instance.rip is None:
        return name
    return f"{arrivals[group.stacks[state - 1][instance.rip].event].name}←{name}"


def _chart(
    title: str,
    arrivals: Sequence[Arrival],
    heads: Sequence[str],
    groups: Sequence[Group],
    built: Sequence[tuple[str, tuple[int, ...]]],
) -> Chart:
    diagram, box, height, gap = Diagram(), 66.0, 24.0, 74.0
    widest = max([len(arrival.name) for arrival in arrivals] + [len(head) for head in heads] + [0])
    box = max(box, widest * CHAR + 14)
    diagram.text(0, 12, title, "name")
    y = 30.0
    for group in groups or [Group("", tuple(() for _ in heads))]:
        if group.name:
            diagram.text(0, y + 4, group.name, colour=GREY)
            y += 20
        tall = max((len(stack) for stack in group.stacks), default=0) or 1
        bottom = y + 22 + tall * (height + 6)
        used = {(state, at) for name, path in built if name == group.name for state, at in enumerate(path)}
        steps = {
            (state, path[state], path[state - 1])
            for name, path in built
            if name == group.name
            for state in range(1, len(path))
        }
        for state, head in enumerate(heads):
            x = 4 + state * (box + gap)
            diagram.text(x + box / 2, y + 8, head, "middle", GREY)
            diagram.line([(x, y + 20), (x, bottom), (x + box, bottom), (x + box, y + 20)])
            for at, instance in enumerate(group.stacks[state]):
                top = bottom - (at + 1) * (height + 4)
                newest = instance.event == len(arrivals) - 1
                colour = PALETTE[1] if newest else BLUE if (state, at) in used or not built else GREY
                diagram.box(x + 5, top, box - 10, height, colour)
                diagram.text(x + box / 2, top + height / 2, arrivals[instance.event].name, "middle", INK)
                if instance.rip is None:
                    continue
                for below in range(instance.rip + 1):
                    followed = (state, at, below) in steps
                    if below == instance.rip or followed:
                        end = bottom - (below + 1) * (height + 4) + height / 2
                        colour = PALETTE[1] if followed else GREY
                        start = (x + 5, top + height / 2)
                        head_at = (x - gap + 5, end)
                        diagram.line([start, head_at], colour, head=270)
        y = bottom + 16
    by_name = {group.name: group for group in groups}
    for name, path in built:
        diagram.text(4, y + 6, f"→ {_named(arrivals, by_name[name], path)}", colour=PALETTE[1])
        y += 18
    return diagram.chart()
