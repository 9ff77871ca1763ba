"""Experiment 3: where a second equivalence test is evaluated, by the domain size of the first."""

from __future__ import annotations

from benchmarks.data import Stream
from benchmarks.experiments.experiment import EVENTS, LIMIT, ROUNDS, Experiment, strategies
from benchmarks.measure import Contender, Race, Scale
from benchmarks.shape import Shape

STRATEGIES: dict[str, dict[str, object]] = {
    "Dynamic Filtering": {"equivalence": "pais:attr1"},
    "Multi-PAIS": {"equivalence": "multi-pais:attr1"},
    "Selection": {"equivalence": "pais:attr1", "disable": ("filter_in_construction",)},
    "composite key": {"equivalence": "composite"},
}
PAPER = {
    20: "For V1 up to 500, Dynamic Filtering is ahead by a wide margin, and Multi-PAIS is behind even Selection: it "
    "pays for filtering in the scan and still builds many superfluous sequences. From 500 on, all three are alike. "
    "(The composite key is ours: the paper leaves it out, for its memory.)",
    5: "The overhead of Multi-PAIS is larger than with V2 = 20, as the second test is less selective; the paper gives "
    "no figure.",
}


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    return (_initial(scale), *(_two_tests(scale, v2) for v2 in (20, 5)))


def _initial(scale: Scale) -> Experiment:
    shape, stream = Shape(), Stream(scale.events(EVENTS), v1=100)
    contenders = (
        Contender("PAIS", "sase", stream, shape, {"equivalence": "pais:attr1"}),
        Contender("Selection", "sase", stream, shape, {"equivalence": "selection"}),
    )
    race = Race("experiment-3-initial", contenders, scale.rounds(ROUNDS), scale.limit(LIMIT))
    return Experiment(
        name="experiment-3-initial",
        title="Before experiment 3: one equivalence test, in the scan or in Selection",
        paper="With the test in Selection, the run could not be completed: hundreds of millions of intermediate "
        "results. Pushing at least one equivalence test down is a must.",
        axis="",
        points=((100, race),),
        compare=("PAIS", "Selection"),
    )


def _two_tests(scale: Scale, v2: int) -> Experiment:
    shape = Shape(equivalence=("attr1", "attr2"))

    def race(v1: int) -> Race:
        stream = Stream(scale.events(EVENTS), v1=v1, v2=v2)
        contenders = strategies(stream, shape, STRATEGIES, ("engine", "sase"))
        return Race(f"experiment-3-v2-{v2}-v1-{v1}", contenders, scale.rounds(ROUNDS), scale.limit(LIMIT))

    return Experiment(
        name=f"experiment-3-v2-{v2}",
        title=f"Experiment 3: two equivalence tests, V2 = {v2}, by the domain size V1",
        paper=PAPER[v2],
        axis="V1",
        points=tuple((v1, race(v1)) for v1 in scale.grid((10, 50, 100, 500, 1_000, 10_000))),
        logarithmic=True,
        compare=("Dynamic Filtering, engine", "Multi-PAIS, engine", "Selection, engine", "composite key, engine"),
    )
