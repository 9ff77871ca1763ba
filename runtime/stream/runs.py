"""Runs of events on a stream: skip till next match and contiguity, on the open stretch of each key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sase.runtime.events import quoted
from sase.runtime.row_pattern import Measure, RowPattern
from sase.runtime.rows import Options as RowOptions
from sase.runtime.rows import RowOrder, task_of
from sase.runtime.stream.row_bucket import Choice
from sase.runtime.stream.rows import found_in_state, in_stream
from sase.runtime.stream.ssc import Stream
from sase.runtime.stream.watch import Columns, Options


def follow_runs(
    events: DataFrame,
    pattern: RowPattern,
    order: RowOrder,
    values: Mapping[str, Measure],
    *,
    event: str,
    kept: Sequence[str],
    choice: Choice | None = None,
    shown: Sequence[str],
    columns: Columns,
    time_kind: str,
    state: str,
    options: Options,
    finish: Callable[[DataFrame], DataFrame],
    behind: int = 0,
    bootstrap: Callable[[], None] | None = None,
) -> Stream:
    """What is looked up in each match of a stream: `runs.find_runs` on the events that are not decided yet.

    `event` is the name of what a match keeps of an event, a struct of the columns `kept`: a bucket remembers these, and
    makes it of them; and it numbers them, where matches are chosen among. `shown` are the columns of an event that came
    too late. `behind` is how long after their time results of other queries may come.
    """
    events = events.drop(columns.clock)
    typed = events.withColumn(event, F.struct(*(F.col(quoted(name)) for name in kept)))
    if choice is not None:
        typed = typed.withColumn(choice.number, F.lit(0).cast("bigint"))
    told = task_of(
        typed, pattern, order, values, shown="one row", symbols=columns.states, options=RowOptions(), refuse_ties=True
    )
    made = {event} if choice is None else {event, choice.number}
    names = dict.fromkeys(name for name in (*told.names, *kept) if name not in made)
    task = in_stream(
        told,
        options,
        names=tuple(names),
        event=(event, tuple(kept)),
        late=tuple(shown),
        choice=choice,
        behind=behind,
    )
    return found_in_state(events, typed, task, columns, time_kind, state, options, finish, bootstrap)
