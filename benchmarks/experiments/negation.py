"""The experiment of the letter that put negation into the stacks (Kim, Kwon and Kim, ETRI Journal 2009).

Its query Q1, on 10,000 to 70,000 events. The letter does not describe its data; ours is made up. It writes
`x.car_id = y.car_id = z.car_id`, which taken literally ties x and z only through the event that must not exist, and
means `[car_id]`: no vehicle is warned of another one's drive.
"""

from __future__ import annotations

from benchmarks.data import Telematics
from benchmarks.experiments.experiment import LIMIT, ROUNDS, Experiment
from benchmarks.measure import Contender, Race, Scale
from benchmarks.peers import Verbatim

Q1 = Verbatim(
    """EVENT SEQ(START x, !(START y), STATUS z)
WHERE [car_id] AND z.distance > 500
WITHIN 200 minutes
RETURN x.car_id, x.ts AS started, z.ts AS reported, z.distance"""
)


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    def race(events: int) -> Race:
        ways = {"in the stacks": "stack", "by anti-join": "anti-join"}
        contenders = tuple(
            Contender(label, "sase", Telematics(events), Q1, {"negation": way}) for label, way in ways.items()
        )
        return Race(f"negation-{events}", contenders, scale.rounds(ROUNDS), scale.limit(LIMIT))

    sizes = tuple(range(10_000, 70_001, 10_000))
    return (
        Experiment(
            name="negation",
            title="Negation in the stacks or outside of them, by the number of events",
            paper="(Kim, Kwon and Kim, 2009.) Time grows with the input. Negation in the stacks (neg_link) is about "
            "four times as fast as SASE with its relational index, and faster than SASE even without the time to fill "
            "that index.",
            axis="events",
            points=tuple((events, race(events)) for events in (sizes[:2] if scale.quick else sizes)),
            compare=("in the stacks", "by anti-join"),
        ),
    )
