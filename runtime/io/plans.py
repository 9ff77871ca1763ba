"""What Spark knows of a DataFrame before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

IN_PLACE = {"Project", "Filter", "SubqueryAlias", "View", "CollectMetrics", "LogicalRelation"}
"""The nodes of a plan that leave rows where a table has them."""


def execution(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution()


def nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from nodes(children.apply(number))


def elements(sequence: Any) -> list[Any]:
    """Of one of Scala's."""
    return [sequence.apply(at) for at in range(sequence.size())]


def knows_files(frame: DataFrame) -> bool:
    """Whether Spark can say of each row in which file it is, in a hidden column `_metadata`. (Asked for in vain, it
    would log an error. A node that makes rows anew says that it has what is hidden in those that it reads.)"""
    plan = execution(frame).analyzed()
    if any(node.nodeName() not in {*IN_PLACE, "StreamingRelation"} for node in nodes(plan)):
        return False
    hidden = plan.metadataOutput()
    kinds = {column.name(): column.dataType().catalogString() for column in map(hidden.apply, range(hidden.size()))}
    return "file_size:bigint" in kinds.get("_metadata", "")


def size(frame: DataFrame) -> int:
    """In bytes, as Spark takes it to be: of files, what they take on disk."""
    return int(str(execution(frame).optimizedPlan().stats().sizeInBytes()))
