"""Many answers in few Spark jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

SIZE = 8
"""How many answers share a job. Each of its tasks reads the plans of all of them, so more would take longer."""


def together(answers: Iterable[DataFrame]) -> Iterator[Row]:
    """The rows of all answers, which have the same columns."""
    waiting = iter(answers)
    while some := list(islice(waiting, SIZE)):
        yield from collected(reduce(DataFrame.union, some))


def collected(answers: DataFrame) -> list[Row]:
    """As planned: of so many shuffles, Spark would plan all that is left anew after each."""
    conf = answers.sparkSession.conf
    before = conf.get(_ADAPTIVE)
    conf.set(_ADAPTIVE, "false")
    try:
        return answers.collect()
    finally:
        conf.set(_ADAPTIVE, before)


_ADAPTIVE = "spark.sql.adaptive.enabled"


def rows_of(answers: Mapping[str, DataFrame]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each answer, whatever its columns, as JSON has their values."""
    as_json = F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row")
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in answers}
    for name, row in together(answer.select(F.lit(name).alias("name"), as_json) for name, answer in answers.items()):
        rows[name].append(json.loads(row))
    return rows
