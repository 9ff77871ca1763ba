"""What PySpark offers for one function per key: `groupBy(key).applyInPandas`, with the joins of one key in pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.peers import Run, Task, Unavailable
from benchmarks.peers.spark import into_noop
from benchmarks.shape import Shape

if TYPE_CHECKING:
    from benchmarks.bench import Bench


def prepare(bench: Bench, task: Task) -> Run:
    shape, events = task.shape, bench.events(task.source)
    if not shape.equivalence:
        raise Unavailable("a query without an equivalence test has no key to group by")
    schema = ", ".join(f"{variable}_ts bigint" for variable, _ in shape.positives)

    def build() -> DataFrame:
        relevant = events.where(F.col("type").isin(*shape.types)).select(*shape.columns)
        return relevant.groupBy(*shape.equivalence).applyInPandas(lambda group: matches_of_key(shape, group), schema)

    return into_noop(bench.spark, build)


def matches_of_key(shape: Shape, group: pd.DataFrame) -> pd.DataFrame:
    """Extends partial matches by one event at a time. Most keys of a large domain lack a type and end at once."""
    columns = [f"{variable}_ts" for variable, _ in shape.positives]
    if not {name for _, name in shape.positives} <= set(group["type"]):
        return pd.DataFrame({column: pd.Series(dtype="int64") for column in columns})
    (first, name), *later = shape.positives
    matches = _events(group, name, first)
    for number, (variable, name) in enumerate(later, 1):
        before = columns[number - 1]
        matches = matches.merge(_events(group, name, variable), how="cross")
        matches = matches[
            (matches[f"{variable}_ts"] > matches[before])
            & (matches[f"{variable}_ts"] - matches[columns[0]] < shape.window)
        ]
    for condition in shape.where:
        matches = matches.query(condition.replace(".", "_"))
    for _, name, place in shape.negated:
        times = group.loc[group["type"] == name, "ts"].sort_values().to_numpy()
        after, before = matches[columns[place - 1]], matches[columns[place]]
        matches = matches[times.searchsorted(after, side="right") == times.searchsorted(before, side="left")]
    return matches[columns]


def _events(group: pd.DataFrame, name: str, variable: str) -> pd.DataFrame:
    return group[group["type"] == name].drop(columns="type").add_prefix(f"{variable}_")
