"""Experiment 4 and what the paper calls "other experiments": further predicates, windows, negations.

The paper gives no figures of these, only what they showed.
"""

from __future__ import annotations

from benchmarks.data import Stream
from benchmarks.experiments.experiment import EVENTS, LIMIT, ROUNDS, Experiment
from benchmarks.measure import Contender, Race, Scale
from benchmarks.shape import Shape

SIMPLE = "e1.attr4 < 500"
INEQUALITY = "e1.attr3 < e2.attr3"
PUSH, FILTER = "push_simple_predicates", "filter_in_construction"


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    return (_predicates(scale), _windows(scale), _negations(scale))


def _comparison(name: str, title: str, paper: str, contenders: tuple[Contender, ...], scale: Scale) -> Experiment:
    race = Race(name, contenders, scale.rounds(ROUNDS), scale.limit(LIMIT))
    labels = tuple(contender.label for contender in contenders if contender.peer == contenders[0].peer)
    return Experiment(name=name, title=title, paper=paper, axis="", points=((0, race),), compare=labels)


def _predicates(scale: Scale) -> Experiment:
    stream = Stream(scale.events(EVENTS), v1=100)
    simple, both = Shape(where=(SIMPLE,)), Shape(where=(SIMPLE, INEQUALITY))
    return _comparison(
        "experiment-4",
        "Experiment 4: more predicates",
        "Pushing simple predicates down always helps. Once equivalence tests and simple predicates are pushed down, "
        "evaluating other parameterised predicates in Selection costs little.",
        (
            Contender("[attr1] alone", "sase", stream, Shape()),
            Contender("simple predicate, before the scan", "sase", stream, simple),
            Contender("simple predicate, in Selection", "sase", stream, simple, {"disable": (PUSH, FILTER)}),
            Contender("and an inequality, in construction", "sase", stream, both),
            Contender("and an inequality, in Selection", "sase", stream, both, {"disable": (FILTER,)}),
        ),
        scale,
    )


def _windows(scale: Scale) -> Experiment:
    """Without a window in scan or construction there are no time slices, so none of the four has them."""
    stream, shape = Stream(scale.events(EVENTS), v1=1_000), Shape()
    scan, construction = "window_in_scan", "window_in_construction"
    variants: dict[str, tuple[str, ...]] = {
        "in scan and construction": (),
        "in the scan": (construction,),
        "in the construction": (scan,),
        "in neither": (scan, construction),
    }
    return _comparison(
        "experiment-windows",
        "Other experiments: windows",
        "Pushing windows down to both sequence scan and sequence construction reduces intermediate results.",
        tuple(
            Contender(f"{label}, {name}", peer, stream, shape, {"disable": off, "slice": "off"})
            for peer, name in (("engine", "engine"), ("sase", "job"))
            for label, off in variants.items()
        ),
        scale,
    )


def _negations(scale: Scale) -> Experiment:
    stream = Stream(scale.events(EVENTS), v1=100)
    ways = {"in the stacks": {"negation": "stack"}, "by anti-join": {"negation": "anti-join"}}
    return _comparison(
        "experiment-negations",
        "Other experiments: negations",
        "Negation costs little where intermediate results are few and more otherwise, which suggests pushing it down "
        "into sequence scan and construction.",
        (
            Contender("none", "sase", stream, Shape()),
            *(
                Contender(f"{count}, {label}", "sase", stream, Shape(negations=places), options)
                for count, places in (("one", (2,)), ("two", (1, 2)))
                for label, options in ways.items()
            ),
        ),
        scale,
    )
