"""Rows of one key in one partition."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from sase.runtime.io.plans import IN_PLACE, execution, nodes
from sase.runtime.session import KEEP_BUCKETS


def by_key(rows: DataFrame, *keys: str, partitions: int | None = None) -> DataFrame:
    """A shuffle that stays: `repartition` by the keys, and by the first of them twice more.

    Where rows are partitioned by the keys already, as those of a bucketed table or a join are, Spark leaves out a
    `repartition` by them alone. Then it may scan that table without its buckets, broadcast one side of that join, or
    split its largest partitions, as no operator of its own needs the partitions any more: but a worker does. Only in a
    session that scans buckets in any case, as those that sase starts do, a bucketed table is as the worker needs it.

    For a window function over the keys, the repeated one is as good as once, so it needs no shuffle of its own.
    """
    found = buckets(rows) if partitions is None else None
    if found:
        return rows.repartition(found, *keys)  # left out if they are buckets of these keys, and right if they are not
    count = () if partitions is None else (partitions,)
    return rows.repartition(*count, *keys, *2 * keys[:1])


def buckets(rows: DataFrame) -> int | None:
    """How many buckets there are, if rows are read from one table that has them, and Spark keeps to them."""
    if is_remote() or any(rows.sparkSession.conf.get(name, None) != value for name, value in KEEP_BUCKETS.items()):
        return None
    relation = None
    for node in nodes(execution(rows).analyzed()):
        if node.nodeName() not in IN_PLACE:
            return None
        relation = node if node.nodeName() == "LogicalRelation" else relation
    table = relation.catalogTable() if relation is not None else None
    if table is None or table.isEmpty() or table.get().bucketSpec().isEmpty():
        return None
    return int(table.get().bucketSpec().get().numBuckets())
