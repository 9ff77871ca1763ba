"""Experiments 1 and 2: sequences built from the NFA's run-time stack (Basic) or from active instance stacks (AIS).

As in the paper, the equivalence test is not evaluated but simulated by more event types, which gives its selectivity.
"""

from __future__ import annotations

from benchmarks.data import Stream
from benchmarks.experiments.experiment import LIMIT, ROUNDS, Experiment, strategies
from benchmarks.measure import Race, Scale
from benchmarks.shape import Shape

EVENTS = 2_000_000
STRATEGIES = {"AIS": {"construction": "ais"}, "Basic": {"construction": "basic"}}


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    def race(name: str, v1: int, window: int) -> Race:
        shape = Shape(length=3, window=window, equivalence=())
        stream = Stream(scale.events(EVENTS), v1=v1).simulated(shape.length)
        contenders = strategies(stream, shape, STRATEGIES, ("engine", "sase"))
        return Race(name, contenders, scale.rounds(ROUNDS), scale.limit(LIMIT))

    return (
        Experiment(
            name="experiment-1",
            title="Experiment 1: Basic and AIS, by the domain size V1",
            paper="AIS is 18 times as fast as Basic at V1 = 100. Both gain as V1 grows and fewer sequences are built, "
            "and they are close at 10,000, where less than one result comes from 10,000 events.",
            axis="V1",
            points=tuple(
                (v1, race(f"experiment-1-v1-{v1}", v1, 10_000)) for v1 in scale.grid((100, 500, 1_000, 5_000, 10_000))
            ),
            logarithmic=True,
            compare=("AIS, engine", "Basic, engine"),
        ),
        Experiment(
            name="experiment-2",
            title="Experiment 2: Basic and AIS, by the window W",
            paper="At V1 = 10,000, Basic loses throughput much faster than AIS as W grows from 10,000 to 100,000: its "
            "construction is linear in W, and its run-time stack grows with W.",
            axis="W (events)",
            points=tuple(
                (window, race(f"experiment-2-w-{window}", 10_000, window))
                for window in scale.grid((10_000, 20_000, 40_000, 60_000, 80_000, 100_000))
            ),
            compare=("AIS, engine", "Basic, engine"),
        ),
    )
