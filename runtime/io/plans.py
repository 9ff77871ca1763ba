"""What Spark knows of a DataFrame before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame


def execution(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution()


def nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from nodes(children.apply(number))


def size(frame: DataFrame) -> int:
    """In bytes, as Spark takes it to be: of files, what they take on disk."""
    return int(str(execution(frame).optimizedPlan().stats().sizeInBytes()))
