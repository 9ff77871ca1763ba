"""Runs of events, for skip till next match and contiguity: the kernel of row patterns, on events in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from sase.runtime.errors import SaseRunError
from sase.runtime.executors import from_package
from sase.runtime.row_pattern import Measure, RowPattern
from sase.runtime.rows import Options as RowOptions
from sase.runtime.rows import RowOrder, match_rows
from sase.runtime.ssc import Options


def find_runs(
    events: DataFrame,
    pattern: RowPattern,
    order: RowOrder,
    values: Mapping[str, Measure],
    *,
    symbols: str,
    options: Options | None = None,
    bootstrap: Callable[[], None] | None = None,
) -> DataFrame:
    """What is looked up in each match. Events that come at one time have no order, so nothing says which of them is
    next: they are an error, and not left to chance."""
    if options is not None and options.max_window_events_per_key is not None:
        raise SaseRunError("a run holds no window of events: leave max_window_events_per_key out")
    return match_rows(
        events,
        pattern,
        order,
        values,
        shown="one row",
        options=RowOptions(warn=lambda text: None),  # what is doubtful in SQL is said in its words
        symbols=symbols,
        bootstrap=bootstrap,
        refuse_ties=True,
    )


def choose_runs(
    matches: DataFrame,
    *,
    numbers: str,
    modes: Mapping[str, str],
    exclusive: bool = False,
    bootstrap: Callable[[], None] | None = None,
) -> DataFrame:
    """`first` and `last` among the matches that one event completes, and what is used up.

    `numbers` is the column of all events of a match, by numbers that rise through a partition; `modes` are columns of
    single events. Matches lie where they were found.
    """
    names = matches.columns
    at, load = names.index(numbers), from_package("sase.runtime.operator.choice", "choose_runs", bootstrap)
    by_place = [(names.index(name), mode) for name, mode in modes.items()]

    def worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chosen = load()
        yield from chosen(at, by_place, exclusive, batches)

    # Columns have numbers on their way: mapInArrow does not take every name.
    schema = StructType([StructField(str(place), field.dataType) for place, field in enumerate(matches.schema)])
    return matches.toDF(*map(str, range(len(names)))).mapInArrow(worker, schema).toDF(*names)
