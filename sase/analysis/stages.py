"""Runs a job one step at a time and counts what gets through each, so that "why is there no match?" has an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sase.runtime import ssc
from sase.runtime.errors import SaseRunError
from sase.runtime.events import check
from sase.runtime.io.tally import Tally
from sase.runtime.kernels.sequences import Counters
from sase.runtime.pattern import Clause, Compare


@dataclass(frozen=True)
class Stage:
    """What is left after a step; `removed` says what the step took away, where it takes anything away."""

    step: str
    what: str
    left: int
    removed: int | None = None


class _Sum(AccumulatorParam[list[int]]):
    """The counters of all partitions added up."""

    def zero(self, value: list[int]) -> list[int]:
        return [0] * len(value)

    def addInPlace(self, value1: list[int], value2: list[int]) -> list[int]:
        return np.add(value1, value2).tolist()  # type: ignore[no-any-return]


Step = tuple[str, str, Callable[[DataFrame, DataFrame], DataFrame]]
"""A step after the sequences are built: its kind, what it demands, and the function of (matches, events)."""


def stages(
    job: ModuleType, events: Any, fills: Mapping[str, Sequence[str]], steps: Sequence[Step], spark: SparkSession
) -> list[Stage]:
    """The stages of a job, bottom-up. `fills` has the conditions of each variable on its own events, in their order."""
    if not hasattr(spark, "sparkContext"):
        raise SaseRunError(
            "analysing counts with Spark's accumulators, which Spark Connect has not: use a classic session"
        )
    tally = Tally()
    checked = check(events, job.SOURCE, tally)
    filters = _events(checked, fills)
    counts = tally.counts()
    bad = [Stage("events", words, counts.relevant, n) for words, n in counts.flawed.items() if n]
    relevant = job.relevant_events(checked)
    copied = []
    if hasattr(job, "time_slices"):
        relevant = job.time_slices(relevant)
        copied = [Stage("time slices", "events, with their copies", relevant.count())]
    matches, construction = _sequences(job, relevant, spark)
    first = [Stage("events", "of the query's types", counts.relevant), *bad]
    after = _after(matches, checked, steps)
    matches.unpersist()
    return [*first, *filters, *copied, *construction, *after]


def _events(checked: DataFrame, fills: Mapping[str, Sequence[str]]) -> list[Stage]:
    """One job counts how many events meet the conditions of each variable, one condition after the other."""
    metrics: list[Column] = []
    for conditions in fills.values():
        metrics += [F.count_if(F.expr(" AND ".join(conditions[: end + 1]))) for end in range(len(conditions))]
    counted = iter(checked.agg(*(metric.alias(f"_{at}") for at, metric in enumerate(metrics))).collect()[0])
    found = []
    for variable, conditions in fills.items():
        before: int | None = None
        for condition in conditions:
            left = int(next(counted))
            found.append(Stage(f"filter {variable}", condition, left, None if before is None else before - left))
            before = left
    return found


def _sequences(job: ModuleType, relevant: DataFrame, spark: SparkSession) -> tuple[DataFrame, list[Stage]]:
    pattern = getattr(job, "PATTERN", None)
    if pattern is None:
        matches = _cached(job.sequences(relevant), spark)
        return matches, [Stage("sequences", "events that are matches", matches.count())]
    total = spark.sparkContext.accumulator([0] * sum(map(len, Counters.of(pattern))), _Sum())
    ssc.counted = total.add
    try:
        matches = _cached(job.sequences(relevant), spark)
        sequences = matches.count()
    finally:
        ssc.counted = None
    counters = Counters.of(pattern, np.array(total.value))
    found = [
        Stage("scan", f"instances of {name}", int(count))
        for name, count in zip(pattern.positive, counters.pushed, strict=True)
    ]
    # Backwards, as sequences are built; the last variable's instances are the roots.
    for name, count in reversed(list(zip(pattern.positive[:-1], counters.visited[:-1], strict=True))):
        found.append(Stage("construction", f"candidates of {name}", int(count)))
    for clause, count in zip(pattern.where, counters.rejected, strict=True):
        found.append(Stage("construction", f"removed by {_clause(clause)}", 0, int(count)))
    for component, count in zip(pattern.negated, counters.killed, strict=True):
        found.append(Stage("construction", f"killed by {component.variable}", 0, int(count)))
    return matches, [*found, Stage("sequences", "sequences built", sequences)]


def _cached(matches: DataFrame, spark: SparkSession) -> DataFrame:
    """By default, Spark leaves the partitions of a cached plan as they are: 200 tasks, however few the events."""
    setting = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
    before = spark.conf.get(setting) or "false"
    spark.conf.set(setting, "true")
    try:
        return matches.cache()
    finally:
        spark.conf.set(setting, before)


def _clause(clause: Clause) -> str:
    return " or ".join(
        f"{atom.left}.{atom.left_column} {atom.op} {atom.right}.{atom.right_column}"
        if isinstance(atom, Compare)
        else f"{atom.variable}.{atom.column}"
        for atom in clause
    )


def _after(matches: DataFrame, checked: DataFrame, steps: Sequence[Step]) -> list[Stage]:
    found: list[Stage] = []
    left = matches.count()
    for kind, what, apply in steps:
        matches = apply(matches, checked)
        count = matches.count()
        found.append(Stage(kind, what, count, left - count))
        left = count
    return [*found, Stage("result", "matches", left)]


def table(counted: Sequence[Stage]) -> str:
    """The stages as text: what each step left, and what it took away."""
    lines, step = [], ""
    width = max(len(stage.what) for stage in counted)
    for stage in counted:
        left = "" if stage.what.startswith(("removed by ", "killed by ")) else f"{stage.left:,}"
        removed = "" if not stage.removed else f"-{stage.removed:,}"
        shown = stage.step if stage.step != step else ""
        lines.append(f"  {shown:<14} {stage.what:<{width}}  {left:>12}  {removed:>12}".rstrip())
        step = stage.step
    return "\n".join(lines) + "\n"
