"""The ordered fold over matches: those that earlier results let through, moment by moment.

One core does it, whatever the key: the aggregates are over all results.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from sase.runtime.arrivals import number_type
from sase.runtime.executors import from_package
from sase.runtime.operator.results import Deciding

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def in_order_of_results(
    matches: DataFrame, deciding: Deciding, bootstrap: Callable[[], None] | None = None
) -> DataFrame:
    """The matches that are results, with a column for each aggregate."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    from sase.runtime.events import quoted, ticks

    names = list(matches.columns)

    def place(variable: str) -> list[Column]:
        order = [] if deciding.order is None else [F.col(f"{quoted(variable)}.{quoted(deciding.order)}")]
        return [ticks(matches, f"{quoted(variable)}.{quoted(deciding.time)}").alias("ticks"), *order]

    places = [F.struct(*place(variable)) for variable in deciding.last]
    numbered = matches.select(
        *(F.col(quoted(name)).alias(str(at)) for at, name in enumerate(names)),
        (F.greatest(*places) if len(places) > 1 else places[0]).alias("place"),
    )
    added = [StructField(each.name, number_type(each.result)) for each in deciding.counted]
    fields = [StructField(name, field.dataType) for name, field in zip(names, matches.schema.fields, strict=True)]
    schema = StructType([StructField(str(at), field.dataType) for at, field in enumerate([*fields, *added])])
    return (
        numbered.repartition(1)
        .sortWithinPartitions("place")
        .drop("place")
        .mapInArrow(_worker(pickle.dumps((deciding, names)), bootstrap), schema)
        .toDF(*(field.name for field in [*fields, *added]))
    )


def _worker(task: bytes, bootstrap: Callable[[], None] | None) -> Worker:
    load = from_package("sase.runtime.operator.results", "run", bootstrap)

    def worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        run = load()
        deciding, names = pickle.loads(task)
        for batch in run(deciding, batches, names):
            yield batch.rename_columns([str(at) for at in range(batch.num_columns)])

    return worker
