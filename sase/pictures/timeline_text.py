"""A scene in words: its lanes as lines of letters, its matches with their times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sase.pictures.scene import Event, Run, Scene

COLUMNS = 60
LINES = 8
"""Matches that are listed per lane."""


def text(shown: Scene) -> str:
    if not shown.events:
        return "no events\n"
    lines = [f"({note})" for note in shown.notes]
    first, last = (pick(event.at for event in shown.events) for pick in (min, max))
    bound, forbids = labels(shown)
    signs = _signs({name for names in (*bound.values(), *forbids.values()) for name in names})
    width = max(map(len, shown.lanes))
    for lane, name in enumerate(shown.lanes):
        axis = ["─"] * COLUMNS
        for number, event in enumerate(shown.events):
            if event.lane == lane:
                place = round((event.at - first) / ((last - first) or 1) * (COLUMNS - 1))
                names = [*bound.get(number, ()), *forbids.get(number, ())]
                sign = signs[names[0]] if names else "·"
                axis[place] = sign if axis[place] in "─·" else axis[place] if sign == "·" else "+"
        lines.append(f"{name:<{width}}  {''.join(axis)}".rstrip())
        runs = [describe(shown, run) for run in shown.runs if shown.first(run).lane == lane]
        more = [f"… {len(runs) - LINES} more"] if len(runs) > LINES else []
        lines += [f"{'':<{width}}  {line}" for line in (*runs[:LINES], *more)]
    if shown.aligned:
        ends = f"{elapsed(shown, first)} … {elapsed(shown, last)} since the first event"
    else:
        ends = " … ".join(pick(shown.events, key=lambda event: event.at).when for pick in (min, max))
    return "\n".join([*lines, f"{'':<{width}}  {ends}"]) + "\n"


def _signs(variables: Iterable[str]) -> dict[str, str]:
    """One character per variable: its first, its last, or a number, whichever tells them apart."""
    names = sorted(variables)
    for letters in ([name[0] for name in names], [name[-1] for name in names]):
        if len(set(letters)) == len(names):
            return dict(zip(names, letters, strict=True))
    return {name: str(at)[-1] for at, name in enumerate(names, 1)}


def labels(shown: Scene) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """For each event the variables that it is bound to, in a match or in what would be one; and those as which it
    forbids something."""
    bound: defaultdict[int, dict[str, None]] = defaultdict(dict)
    forbids: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for run in shown.runs:
        for name, number in (*run.events, *run.collected):
            bound[number][name] = None
        for name, number in run.killers:
            forbids[number][name] = None
    return {at: [*names] for at, names in bound.items()}, {at: [*names] for at, names in forbids.items()}


def describe(shown: Scene, run: Run) -> str:
    """`match x 07:30:08 → z 09:41:13 (2 h 11 min)`, or what forbids it."""
    first = shown.first(run)

    def when(number: int) -> str:
        event = shown.events[number]
        if not shown.aligned:
            return _clock(shown, event)
        return f"{'+' if event.at > 0 else ''}{elapsed(shown, event.at)}"

    (start, _), *others = run.events
    steps = " → ".join([f"{start} {_clock(shown, first)}", *(f"{name} {when(number)}" for name, number in others)])
    if others and shown.is_time and not shown.aligned:
        steps += f" ({duration(shown.events[others[-1][1]].at - first.at)})"
    brought = ", ".join(f"{name} {when(number)}" for name, number in run.collected)
    steps += f", with {brought}" if brought else ""
    forbid = ", ".join(f"{name} {when(number)}" for name, number in run.killers)
    return f"no match {steps}, for {forbid}" if forbid else f"match {steps}"


def _clock(shown: Scene, event: Event) -> str:
    """The time of day where all events are of one day."""
    days = {each.when[:10] for each in shown.events}
    return event.when[11:] if shown.is_time and len(days) == 1 and len(event.when) > 11 else event.when


def elapsed(shown: Scene, length: float) -> str:
    return duration(length) if shown.is_time else f"{length:,}"


def duration(milliseconds: float) -> str:
    """`2 h 11 min`: the two largest units that say something."""
    sign, rest = "−" if milliseconds < 0 else "", abs(milliseconds)
    if rest < 1000:
        return f"{sign}{rest:g} ms" if rest else "0"
    if rest < 10_000:
        return f"{sign}{rest / 1000:.3g} s"
    parts: list[tuple[int, str]] = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        count, rest = divmod(rest, size)
        parts += [(int(count), unit)] if count or parts else []
    return sign + " ".join(f"{count} {unit}" for count, unit in parts[:2] if count)
