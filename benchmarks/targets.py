"""The project's targets: ratios to reach against other ways to get the same matches, on 2 cores.

Most are about 2 M events. The `large` ones are about 20 M and 50 M, where fixed costs no longer hide the rest.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from benchmarks.data import Stream
from benchmarks.measure import Contender, Cores, Measurement, Race, Result, Scale, WorkerMemory
from benchmarks.shape import Shape

EVENTS = 2_000_000
ROUNDS = 7
LIMIT = 90.0
LONG = 250.0
"""Seconds: fifty, and a hundred times what sase takes for the queries here, with room."""

OURS = ("sase", "sase_uncounted", "floor", "identity")
JOINS = ("spark_join_bucketed", "spark_join_naive")
PEERS = (*OURS, "duckdb", "duckdb_bucketed", "flink", *JOINS)


@dataclass(frozen=True)
class Value:
    """`least` says that the true value is larger: a rival was stopped at the time limit."""

    number: float
    least: bool = False


@dataclass(frozen=True)
class Target:
    against: str
    case: str
    bound: float
    kind: Literal["at most", "at least"]
    unit: str
    measurement: str
    value: Callable[[Result], Value | None]
    bound_by: str = ""
    without: Callable[[Result], Value | None] = lambda _: None
    """The value if sase took no longer than what bounds it."""

    def reached(self, value: Value) -> bool | None:
        """None where a rival was stopped too early to tell."""
        if self.kind == "at most":
            return None if value.least else value.number <= self.bound
        if value.number >= self.bound:
            return True
        return None if value.least else False


def measurements(scale: Scale) -> tuple[Measurement, ...]:
    events, rounds, limit = scale.events(EVENTS), scale.rounds(ROUNDS), scale.limit(LIMIT)
    long = scale.limit(LONG)

    def race(
        name: str, stream: Stream, shape: Shape, peers: tuple[str, ...], rounds: int = rounds, limit: float = limit
    ) -> Race:
        return Race(f"targets-{name}", tuple(Contender(peer, peer, stream, shape) for peer in peers), rounds, limit)

    def memory(name: str, v1: int) -> WorkerMemory:
        contender = Contender("sase", "sase", Stream(scale.events(10_000_000), v1=v1), Shape())
        return WorkerMemory(f"targets-memory-{name}", contender, limit)

    v100, v10000 = Stream(events, v1=100), Stream(events, v1=10_000)
    negation = Shape(negations=(2,))
    lengths = tuple(
        Contender(f"{label}L = {length}", peer, v100, Shape(length=length))
        for label, peer in (("", "sase"), ("floor, ", "floor"))
        for length in (2, 6)
    )
    sizes = tuple(
        Contender(label, "sase", Stream(scale.events(number), v1=100), Shape())
        for label, number in (("1 M", 1_000_000), ("10 M", 10_000_000))
    )
    return (
        race("v1-100", v100, Shape(), PEERS),
        race("v1-10000", v10000, Shape(), (*OURS, "flink", "spark_join_naive")),
        race("v1-100-negation", v100, negation, (*OURS, "spark_join_bucketed")),
        race("v1-10000-negation", v10000, negation, OURS),
        race("length-4", v100, Shape(length=4), ("sase", "floor", "duckdb_bucketed", "duckdb"), limit=long),
        race("length-5", v100, Shape(length=5), ("sase", "floor", *JOINS), limit=long),
        race("window-1000", v100, replace(negation, window=1_000), ("sase", "floor", "spark_join_bucketed")),
        race("window-20000", v100, replace(negation, window=20_000), ("sase", "floor", "spark_join_bucketed")),
        race("keys-200000", Stream(events, v1=200_000), Shape(), ("sase", "floor", "apply_in_pandas")),
        Race("targets-length", lengths, rounds, limit),
        Race("targets-events", sizes, rounds, limit),
        race("small", Stream(1_000, v1=100), Shape(), ("sase", "sase_uncounted", "identity"), scale.rounds(25)),
        memory("events", 100),
        memory("matches", 25),  # ten matches an event, see `Shape.selectivity`
        *_large(scale),
    )


def _large(scale: Scale) -> Iterator[Measurement]:
    """`Spark's sort` is the same job with sort=spark and parallel=key: what it was before a worker sorted its partition
    and events stayed where they are read. `Spark's shuffle` is the one without the other."""
    limit, rounds = scale.limit(LONG), scale.rounds(LARGE_ROUNDS)
    some, all_relevant, most = scale.events(10_000_000), scale.events(20_000_000), scale.events(50_000_000)

    def both(stream: Stream, shape: Shape) -> tuple[Contender, ...]:
        return (
            Contender("sase", "sase", stream, shape),
            Contender("Spark's sort", "sase", stream, shape, {"sort": "spark", "parallel": "key"}),
        )

    def shuffled(stream: Stream, shape: Shape) -> Contender:
        return Contender("Spark's shuffle", "sase", stream, shape, {"parallel": "key"})

    for case, (v1, shape) in LARGE.items():
        stream = Stream(all_relevant, v1=v1, types=len(shape.types))
        joins = ("spark_join_bucketed",) if shape.negations and v1 > 100 else ()
        others = tuple(Contender(peer, peer, stream, shape) for peer in ("unsorted", *joins))
        yield Race(f"targets-large-{case}", (*both(stream, shape), shuffled(stream, shape), *others), rounds, limit)
    mixed, shape = Stream(all_relevant, v1=10_000, types=4, mixed=True), Shape(negations=(2,))
    unsorted = Contender("unsorted", "unsorted", mixed, shape)
    yield Race("targets-large-mixed", (*both(mixed, shape), shuffled(mixed, shape), unsorted), rounds, limit)
    keyed, longer = Stream(all_relevant, v1=100), Stream(all_relevant, v1=10_000, types=5)
    rivals = {4: (keyed, "duckdb_bucketed"), 5: (longer, "spark_join_bucketed")}
    for length, (stream, rival) in rivals.items():
        contenders = tuple(Contender(peer, peer, stream, Shape(length=length)) for peer in ("sase", rival))
        yield Race(f"targets-large-length-{length}", contenders, rounds, limit)
    skewed = Stream(all_relevant, v1=10_000, types=4, skew=1.0)
    keys = (
        Contender("uniform", "sase", replace(skewed, skew=0.0), Shape()),
        Contender("skewed", "sase", skewed, Shape(window=28)),  # as many matches: few keys have nearly all of them
    )
    yield Race("targets-large-skew", keys, rounds, limit)
    sparse = Stream(most, v1=10_000)
    joined = Contender("spark_join_bucketed", "spark_join_bucketed", sparse, Shape())
    yield Race("targets-large-sparse", (*both(sparse, Shape()), joined), rounds, limit)
    sizes = tuple(
        Contender(label, "sase", Stream(number, v1=10_000, types=4), Shape(negations=(2,)))
        for label, number in (("10 M", some), ("50 M", most))
    )
    yield Race("targets-large-events", sizes, rounds, limit)
    for v1 in (100, 10_000):
        stream = Stream(some, v1=v1)
        contenders = tuple(Contender(peer, peer, stream, Shape()) for peer in ("sase", "flink"))
        yield Race(f"targets-large-flink-{v1}", contenders, scale.rounds(5), limit)
    alone = Contender("sase", "sase", Stream(all_relevant, v1=10_000, types=4), Shape(negations=(2,)))
    yield Cores("targets-large-cores", alone, scale.rounds(5), limit)
    crowded = Contender("sase", "sase", Stream(most, v1=2, types=4), Shape(window=100, negations=(2,)))
    yield WorkerMemory("targets-memory-crowded", crowded, limit)
    mixed = replace(crowded, source=replace(crowded.source, mixed=True))
    yield WorkerMemory("targets-memory-mixed", mixed, limit)


LARGE_ROUNDS = 2
LARGE = {
    "v1-100": (100, Shape(window=300)),
    "v1-10000": (10_000, Shape()),
    "v1-100-negation": (100, Shape(window=300, negations=(2,))),
    "v1-10000-negation": (10_000, Shape(negations=(2,))),
}
NO_ORDER = "20 M, all relevant, in no order of time"


CONFIGURATIONS = {
    "V1 = 100": "v1-100",
    "V1 = 10,000": "v1-10000",
    "V1 = 100, one negation": "v1-100-negation",
    "V1 = 10,000, one negation": "v1-10000-negation",
}


def targets() -> tuple[Target, ...]:
    floor, identity = "scan + shuffle + sort (floor)", "floor + identity mapInArrow"
    bucketed, naive = "Spark SQL self-join, bucketed", "Spark SQL self-join, naive"
    plain = {case: name for case, name in CONFIGURATIONS.items() if "negation" not in case}
    memory = "memory of a Python worker"
    return (
        *(_time(floor, case, 2.0, f"targets-{name}", "sase", "floor") for case, name in CONFIGURATIONS.items()),
        *(_time(identity, case, 1.15, f"targets-{name}", "sase", "identity") for case, name in CONFIGURATIONS.items()),
        *(_faster(naive, f"L = 3, {case}", 20, f"targets-{name}", "spark_join_naive") for case, name in plain.items()),
        _faster(naive, "L = 5, V1 = 100", 100, "targets-length-5", "spark_join_naive"),
        _faster(bucketed, "L = 3, W = 1,000, one negation", 2.5, "targets-window-1000", "spark_join_bucketed"),
        _faster(bucketed, "L = 3, W = 20,000, one negation", 10, "targets-window-20000", "spark_join_bucketed"),
        _faster(bucketed, "L = 5, V1 = 100", 20, "targets-length-5", "spark_join_bucketed"),
        _faster("DuckDB self-join", "L = 3, V1 = 100", 1, "targets-v1-100", "duckdb"),
        _faster("DuckDB self-join", "L = 4, V1 = 100", 100, "targets-length-4", "duckdb"),
        *(_faster("Flink CEP", case, 50, f"targets-{name}", "flink") for case, name in plain.items()),
        _faster("applyInPandas per key", "200,000 keys", 50, "targets-keys-200000", "apply_in_pandas"),
        _ratio("throughput, L = 6 over L = 2", "V1 = 100", 0.8, "targets-length", "L = 2", "L = 6"),
        _time("10× the events", "10 M over 1 M", 11.0, "targets-events", "10 M", "1 M"),
        _memory(memory, "10 M events, V1 = 100", "targets-memory-events"),
        _memory(memory, "10 M events, 100 M matches", "targets-memory-matches"),
        _time("identity job, small query", "1,000 events", 1.3, "targets-small", "sase", "identity"),
        *(
            _faster("the same, sorted by Spark", _case(case), 1.8, f"targets-large-{case}", "Spark's sort")
            for case in LARGE
        ),
        *(
            _time("scan + shuffle + identity, no sort", _case(case), 1.25, f"targets-large-{case}", "sase", "unsorted")
            for case in LARGE
        ),
        _faster("the same, sorted by Spark", NO_ORDER, 1.8, "targets-large-mixed", "Spark's sort"),
        _time("scan + shuffle + identity, no sort", NO_ORDER, 1.25, "targets-large-mixed", "sase", "unsorted"),
        _faster("the same, sorted by Spark", "50 M, 3 of 20 types", 1.4, "targets-large-sparse", "Spark's sort"),
        _faster(bucketed, _case("v1-10000-negation"), 3, "targets-large-v1-10000-negation", "spark_join_bucketed"),
        _faster(bucketed, "50 M, 3 of 20 types", 2, "targets-large-sparse", "spark_join_bucketed"),
        *(
            target
            for name, case in (("shop", "the shop"), ("shop-mixed", "the shop, in no order of time"))
            for target in (
                _faster("the same by a bucketed join", f"{case}: 5 M, UUIDs", 2, f"patterns-{name}", "spark_sql"),
                _time("scan + shuffle + identity, no sort", case, 1.3, f"patterns-{name}", "sase", "unsorted"),
            )
        ),
        _faster("DuckDB self-join, bucketed", "20 M, L = 4, V1 = 100", 1, "targets-large-length-4", "duckdb_bucketed"),
        _faster(bucketed, "20 M, all relevant, L = 5", 5, "targets-large-length-5", "spark_join_bucketed"),
        _time("Zipf-distributed keys", "20 M, skew 1 over uniform", 1.5, "targets-large-skew", "skewed", "uniform"),
        _time("5× the events", "50 M over 10 M, all relevant", 5.5, "targets-large-events", "50 M", "10 M"),
        *(
            _faster("Flink CEP", f"10 M, 3 of 20 types, V1 = {v1:,}", bound, f"targets-large-flink-{v1}", "flink")
            for v1, bound in ((100, 35), (10_000, 12))
        ),
        _ratio("2 cores over 1", "20 M, all relevant, one negation", 1.7, "targets-large-cores", "1 core", "2 cores"),
        _memory(memory, "50 M events, one key has half", "targets-memory-crowded"),
        _memory(memory, "50 M events in no order of time, one key has half", "targets-memory-mixed"),
    )


def _case(name: str) -> str:
    v1, shape = LARGE[name]
    return f"20 M, all relevant, V1 = {v1:,}{', one negation' if shape.negations else ''}"


def _time(against: str, case: str, bound: float, measurement: str, label: str, base: str) -> Target:
    value, uncounted = _quotient(label, base), _quotient("sase_uncounted", base)
    return Target(
        against, case, bound, "at most", "× its time", measurement, value, "bad events not counted", uncounted
    )


def _faster(against: str, case: str, bound: float, measurement: str, rival: str) -> Target:
    value, floor = _quotient(rival, "sase"), _quotient(rival, "floor")
    return Target(against, case, bound, "at least", "× faster", measurement, value, "the floor", floor)


def _ratio(against: str, case: str, bound: float, measurement: str, label: str, base: str) -> Target:
    value, floor = _quotient(label, base), _quotient(f"floor, {label}", f"floor, {base}")
    return Target(against, case, bound, "at least", "", measurement, value, "the floor", floor)


def _memory(against: str, case: str, measurement: str) -> Target:
    def peak(result: Result) -> Value | None:
        megabytes = [entry.get("peak_mb") for entry in result["contenders"].values()]
        return Value(megabytes[0]) if megabytes and megabytes[0] is not None else None

    return Target(against, case, 1024, "at most", " MB", measurement, peak)


def _quotient(label: str, base: str) -> Callable[[Result], Value | None]:
    return lambda result: quotient(result, label, base)


def quotient(result: Result, label: str, base: str) -> Value | None:
    """The time of one contender over that of another."""
    entry, other = result["contenders"].get(label), result["contenders"].get(base)
    if not entry or not other or other["status"] != "done":
        return None
    if entry["status"] == "over limit":
        return Value(result["limit"] / statistics.median(other["seconds"]), least=True)
    return Value(times(entry, other)) if entry["status"] == "done" else None


def times(entry: Mapping[str, list[float]], other: Mapping[str, list[float]]) -> float:
    """The median over the rounds, where both ran in each: what disturbs a round disturbs both of its times."""
    ours, theirs = entry["seconds"], other["seconds"]
    if len(ours) == len(theirs):
        return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return statistics.median(ours) / statistics.median(theirs)
