"""A scene whose matches are short against the time between them, with a lane for each beginning instead of each key."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from sase.pictures.scene import Event, Run, Scene

NEEDLE = 0.06
"""The share of the axis below which a match is a needle: its events are marks on top of each other."""
REACH = 3
"""A window that is longer than this many of the longest match is not drawn to its end."""


def are_needles(shown: Scene) -> bool:
    """Whether half of the matches, and of those that were forbidden, are too short for the axis that they share."""
    lengths = [length for length in (_extent(shown, run)[1] - _extent(shown, run)[0] for run in shown.runs) if length]
    places = [event.at for event in shown.events]
    return bool(lengths) and median(lengths) < NEEDLE * (max(places) - min(places))


def aligned(shown: Scene, lanes: int) -> Scene:
    """The scene with time since the beginning, in at most so many lanes: those with matches are preferred.

    What begins with one event shares a lane, with the other events of its key that lie in between. An event that lies
    in several of them is there several times.
    """
    beginnings: dict[int, list[tuple[bool, Run]]] = {}
    for forbidden, runs in ((False, shown.matches), (True, shown.killed)):
        for run in runs:
            beginnings.setdefault(run.events[0][1], []).append((forbidden, run))
    preferred = sorted(beginnings, key=lambda first: (all(forbidden for forbidden, _ in beginnings[first]), first))
    chosen = sorted(preferred[:lanes])
    reach = _reach(shown, [run for first in chosen for _, run in beginnings[first]])
    names: list[str] = []
    events: list[Event] = []
    found: dict[bool, list[Run]] = {False: [], True: []}
    for lane, first in enumerate(chosen):
        start = shown.events[first]
        names.append(shown.lanes[start.lane])
        members = {number for _, run in beginnings[first] for _, number in run.all}
        earliest = min(shown.events[number].at for number in members)
        place: dict[int, int] = {}
        for number, event in enumerate(shown.events):
            if number in members or (event.lane == start.lane and earliest <= event.at < start.at + reach):
                place[number] = len(events)
                events.append(replace(event, lane=lane, at=event.at - start.at))
        for forbidden, run in beginnings[first]:
            parts = (run.events, run.killers, run.collected)
            renumbered = (tuple((name, place[number]) for name, number in part) for part in parts)
            found[forbidden].append(Run(*renumbered))
    notes = [note for note in shown.notes if note]
    if len(chosen) < len(beginnings):
        notes.append(f"{len(chosen)} of {len(beginnings):,} beginnings")
    return replace(
        shown,
        lanes=tuple(names),
        events=tuple(events),
        matches=tuple(found[False]),
        killed=tuple(found[True]),
        notes=tuple(notes),
        aligned=True,
        cut=shown.window is not None and reach < shown.window,
    )


def _reach(shown: Scene, runs: list[Run]) -> float:
    """How far a lane goes: to the end of the window, if that leaves the matches their room."""
    longest = max(_extent(shown, run)[1] - shown.first(run).at for run in runs)
    full = shown.window is not None and (shown.window <= REACH * longest or not longest)
    return shown.window if full and shown.window is not None else 1.2 * longest


def _extent(shown: Scene, run: Run) -> tuple[float, float]:
    places = [shown.events[number].at for _, number in run.all]
    return min(places), max(places)
