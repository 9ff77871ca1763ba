"""Keys spread over buckets."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sase.runtime.events import quoted
from sase.runtime.kernels.murmur import bucket_labels
from sase.runtime.stream.horizon import COPY, TIMELY
from sase.runtime.stream.watch import Columns


def in_buckets(events: DataFrame, by: Sequence[str], columns: Columns, buckets: int, everywhere: int = 0) -> DataFrame:
    """A bucket for each event. One with a state bit of `everywhere`, which any key may have to look at, is copied to
    all of them."""
    labels = F.array(*map(F.lit, bucket_labels(buckets)))
    number = F.pmod(F.hash(*(F.col(quoted(name)) for name in by)), F.lit(buckets)) if buckets > 1 else F.lit(0)
    own = F.element_at(labels, number + 1)
    bucket, states = columns.bucket, F.col(columns.states)
    placed = events.withColumn(bucket, own)
    if everywhere and buckets > 1:
        copied = (states.bitwiseAND(F.lit(everywhere)) != 0) & F.col(columns.reason).isNull()
        kept: Column = states.bitwiseAND(F.lit(everywhere | TIMELY)).bitwiseOR(F.lit(COPY))
        placed = events.withColumn(bucket, F.explode(F.when(copied, labels).otherwise(F.array(own)))).withColumn(
            columns.states, F.when(F.col(bucket) == own, states).otherwise(kept)
        )
    names = events.columns
    return placed.select(*(F.col(quoted(name)) for name in names), bucket).toDF(*map(str, range(len(names) + 1)))
