from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.data import Source
from benchmarks.measure import Contender, Race
from benchmarks.peers import Verbatim
from benchmarks.shape import Shape

EVENTS = 200_000
"""Twenty of the paper's windows; enough for the self-joins to show, and for them to end."""
ROUNDS = 3
LIMIT = 120.0


@dataclass(frozen=True)
class Experiment:
    """A race a point of a curve. An experiment with one point compares its contenders and has no curve."""

    name: str
    title: str
    paper: str
    """What the paper saw, in words."""
    axis: str
    points: tuple[tuple[int, Race], ...]
    metric: Literal["throughput", "normalised throughput"] = "throughput"
    lightest: Literal["first", "last"] = "first"
    """The point that normalises the others."""
    logarithmic: bool = False
    compare: tuple[str, ...] = ()
    """Labels whose throughput is divided by that of the first of them, in the table."""


def strategies(
    source: Source, query: Shape | Verbatim, options: Mapping[str, Mapping[str, object]], peers: tuple[str, ...]
) -> tuple[Contender, ...]:
    """Each strategy on each of sase's two peers: the kernel alone, and the whole job."""
    names = {"engine": "engine", "sase": "job"}
    return tuple(
        Contender(f"{label}, {names[peer]}", peer, source, query, chosen)
        for peer in peers
        for label, chosen in options.items()
    )
