"""Keys spread over buckets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sase.runtime.events import quoted
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


def bucket_labels(buckets: int) -> list[int]:
    """Numbers of buckets that Spark's hash spreads evenly over as many partitions as there are buckets, or a part."""
    labels: dict[int, int] = {}
    for label in count():
        if len(labels) == buckets:
            break
        labels.setdefault(_murmur3(label) % buckets, label)
    return [labels[place] for place in range(buckets)]


def _murmur3(value: int) -> int:
    """Spark's hash of an int, by which it shuffles."""

    def turned(word: int, by: int) -> int:
        return (word << by | word >> (32 - by)) & 0xFFFFFFFF

    word = turned(value * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
    mixed = (turned(42 ^ word, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ mixed >> shift) * factor & 0xFFFFFFFF
    return mixed - (1 << 32) if mixed >> 31 else mixed
