"""Runs of events, for skip till next match and contiguity: the kernel of row patterns, on events in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from sase.runtime.errors import SaseRunError
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
