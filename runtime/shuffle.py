"""Rows of one key in one partition."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def by_key(rows: DataFrame, *keys: str, partitions: int | None = None) -> DataFrame:
    """A shuffle that stays: `repartition` by the keys, and by a constant.

    Where rows are partitioned by the keys already, as those of a bucketed table or a join are, Spark leaves out a
    `repartition` by them alone. Then it may scan that table without its buckets, broadcast one side of that join, or
    split its largest partitions, as no operator of its own needs the partitions any more: but a worker does.
    """
    count = () if partitions is None else (partitions,)
    return rows.repartition(*count, *keys, F.lit(0))
