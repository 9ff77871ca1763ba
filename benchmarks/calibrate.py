"""Measures the constants of the cost model and writes them to compiler/plan/calibration.json.

A plan's cost is linear in the constants. So each run of a plan gives one equation, and the constants are the
non-negative solution that fits the measured times best, in proportion: a tenth too much of a short run weighs as a
tenth too much of a long one. What the runs do not tell stays as it was.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np

import sase
from benchmarks.bench import Bench
from benchmarks.data import Stream, shares, type_name
from benchmarks.peers import Task
from benchmarks.peers.sase_job import prepare
from benchmarks.shape import Shape
from sase.compiler.plan.cost import cost
from sase.compiler.plan.estimate import Calibration, calibration
from sase.compiler.plan.statistics import ColumnStatistics, Statistics, TypeStatistics

PATH = Path(__file__).resolve().parent.parent / "compiler" / "plan" / "calibration.json"
NAMES = tuple(field.name for field in fields(Calibration))
ROUNDS = 3
LIMIT = 120.0


def known(stream: Stream, cores: int) -> Statistics:
    """What `sase statistics` would find, without a look."""
    columns = {"attr1": ColumnStatistics(stream.v1, 0.0, tuple(shares(stream.v1, stream.skew)[:16]))}
    columns |= {
        name: ColumnStatistics(domain)
        for name, domain in zip(("attr2", "attr3", "attr4", "attr5"), stream.domains[1:], strict=True)
    }
    each = TypeStatistics(stream.events / stream.types, columns)
    types = {type_name(number): each for number in range(1, stream.types + 1)}
    return Statistics(stream.events, stream.events, types, {}, cores)


def runs(events: int) -> Iterator[tuple[Stream, Shape, dict[str, object]]]:
    """Plans that differ in one quantity after the other: reading, moving, searching, building, joining."""
    few, some, many = Stream(1_000), Stream(events // 4, v1=1_000), Stream(events, v1=1_000)
    for stream in (few, some, many):
        for length in (2, 6):
            yield stream, Shape(length=length, window=100), {"parallel": "key"}
            yield stream, Shape(length=length, window=100, whole=True), {"parallel": "key"}
    for stream in (some, many):
        yield stream, Shape(length=6, window=100), {"parallel": "key", "sort": "spark"}
    for types in (4, 20):  # in no order of time, read by workers
        yield Stream(events, v1=1_000, types=types, mixed=True), Shape(length=3, window=100), {}
    yield many, Shape(length=3, window=100), {"slice": 100, "parallel": "both"}
    for equivalence in ("composite", "multi-pais:attr1"):
        shape = Shape(length=6, window=100, equivalence=("attr1", "attr2"))
        yield many, shape, {"equivalence": equivalence, "parallel": "key"}
    narrow = Stream(events // 4, v1=5, v2=10_000)
    for window in (4_000, 100_000, 400_000):  # edges that lead nowhere
        shape = Shape(length=3, window=window, equivalence=("attr1", "attr2"))
        yield narrow, shape, {"equivalence": "pais:attr1", "parallel": "key"}
    for window in (2_000, 10_000):  # sequences, of which selection leaves few
        yield narrow, Shape(length=2, window=window), {"parallel": "key"}
        shape = Shape(length=2, window=window, equivalence=("attr1", "attr2"))
        yield narrow, shape, {"equivalence": "pais:attr1", "disable": ("filter_in_construction",), "parallel": "key"}
    for negation in ("stack", "anti-join"):
        yield Stream(1_000, types=4), Shape(length=2, negations=(1,)), {"negation": negation, "parallel": "key"}
    dense = Stream(events, v1=10_000, types=4)
    for window in (1_000, 20_000):
        for negation in ("stack", "anti-join"):
            yield dense, Shape(length=2, window=window, negations=(1,)), {"negation": negation, "parallel": "key"}
    pairs = Stream(events // 8, v1=10, types=4)
    yield pairs, Shape(length=2, window=2_000, negations=(1,)), {"negation": "anti-join", "parallel": "key"}
    for bucket in (1_000, 80_000):
        shape = Shape(length=2, window=10_000, negations=(1,))
        yield dense, shape, {"negation": "anti-join", "parallel": "key", "bucket": bucket}


def calibrate(bench: Bench, say: Callable[[str], None], events: int = 2_000_000, path: Path = PATH) -> None:
    """The first round warms up; all plans take turns, so that what disturbs the machine disturbs all of them."""
    plans = list(runs(events))
    rows, prepared = [], []
    for stream, shape, options in plans:
        options = {"statistics": known(stream, bench.cores), **options}
        query = sase.compile(shape.text, sase.Catalog(types=stream.schema), **options)  # type: ignore[arg-type]
        statistic = query.compiled.choices.statistics
        rows.append([cost(query.compiled.plan, statistic, unit(name)).seconds for name in NAMES])
        prepared.append(prepare(bench, Task(stream, shape, options)))
    taken = []
    for number in range(ROUNDS + 1):
        taken.append([run(LIMIT, count=False).seconds for run in prepared])
        say(f"round {number}: {sum(taken[-1]):.1f} s")
    times = [statistics.median(each) for each in zip(*taken[1:], strict=True)]
    earlier = np.array([getattr(calibration(), name) for name in NAMES])
    found = fit(np.array(rows), np.array(times), earlier)
    for (stream, shape, options), row, seconds in zip(plans, rows, times, strict=True):
        say(
            f"measured {seconds:5.2f} s, fitted {float(np.dot(row, found)):5.2f} s: {stream.events:>9,} events, "
            f"L = {shape.length}, W = {shape.window:>7,}, {options}"
        )
    constants = {name: float(f"{value:.3g}") for name, value in zip(NAMES, found, strict=True)}
    path.write_text(json.dumps(constants, indent=1) + "\n")
    say(f"wrote {path.name}: {constants}")


def unit(name: str) -> Calibration:
    return Calibration(**{each: float(each == name) for each in NAMES})


WEIGHT, LEAST = 0.3, 0.1
"""What the earlier value of a constant weighs against one run, and how much of it remains in any case."""


def fit(rows: np.ndarray, times: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    """Some constants occur together in all of these runs, or hardly matter in any: those keep about the value that they
    had. The best fit would make one of them 0, and a plan that lives by it would be free."""
    from scipy.optimize import nnls

    equations = np.vstack([rows * earlier / times[:, None], WEIGHT * np.eye(len(earlier))])
    wanted = np.concatenate([np.ones(len(times)), np.full(len(earlier), WEIGHT)])
    more, _ = nnls(equations, wanted - LEAST * equations.sum(axis=1))
    return (LEAST + more) * earlier  # type: ignore[no-any-return]
