"""Experiments 5 and 6: against a relational engine, by the length of the sequence and by the domain size.

The paper's rival was TelegraphCQ; ours are self-joins in Spark SQL on the same session, written naively (as the paper's
were: its temporal conditions are checked after the join) and bucketed by window.
"""

from __future__ import annotations

from benchmarks.data import Stream
from benchmarks.experiments.experiment import EVENTS, LIMIT, ROUNDS, Experiment
from benchmarks.measure import Contender, Race, Scale
from benchmarks.shape import Shape

ENGINES = {
    "sase, engine": "engine",
    "sase, job": "sase",
    "bucketed join": "spark_join_bucketed",
    "naive join": "spark_join_naive",
}


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    def race(name: str, shape: Shape, v1: int) -> Race:
        stream = Stream(scale.events(EVENTS), v1=v1, v2=20)
        contenders = tuple(Contender(label, peer, stream, shape) for label, peer in ENGINES.items())
        return Race(name, contenders, scale.rounds(ROUNDS), scale.limit(LIMIT))

    lengths = Experiment(
        name="experiment-5",
        title="Experiment 5: against self-joins, by the sequence length L",
        paper="Normalised by L = 2, SASE falls gracefully to 0.5 at L = 6. TelegraphCQ drops sharply from L = 2 to 3 "
        "and is below 0.01 from L = 5 on.",
        axis="L",
        points=tuple(
            (length, race(f"experiment-5-l-{length}", Shape(length=length), 100))
            for length in scale.grid((2, 3, 4, 5, 6))
        ),
        metric="normalised throughput",
        compare=("sase, job", "bucketed join", "naive join"),
    )
    domains = (
        Experiment(
            name=f"experiment-6-{len(tests)}",
            title=f"Experiment 6: against self-joins, by the domain size V1, {words}",
            paper=paper,
            axis="V1",
            points=tuple(
                (v1, race(f"experiment-6-{len(tests)}-v1-{v1}", Shape(equivalence=tests), v1))
                for v1 in scale.grid((10, 50, 100, 500, 1_000, 10_000))
            ),
            metric="normalised throughput",
            lightest="last",
            logarithmic=True,
            compare=("sase, job", "bucketed join", "naive join"),
        )
        for tests, words, paper in (
            (
                ("attr1",),
                "one equivalence test",
                "Normalised by V1 = 10,000, both fall as V1 shrinks to 10, TelegraphCQ much faster than SASE.",
            ),
            (
                ("attr1", "attr2"),
                "two equivalence tests (V2 = 20)",
                "With a second test, SASE gains much where V1 is small, TelegraphCQ little.",
            ),
        )
    )
    return (lengths, *domains)
