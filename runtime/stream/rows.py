"""Row patterns on a stream: rows in, matches and rows that came too late out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegralType, StructField, StructType, TimestampNTZType, TimestampType

from sase.runtime.errors import SaseRunError
from sase.runtime.events import quoted, ticks
from sase.runtime.operator.rows import Task
from sase.runtime.row_pattern import Condition, Measure, RowPattern, Shift
from sase.runtime.rows import OURS, RowOrder, doubts, output_of, spelled_neighbours, task_of, with_neighbours
from sase.runtime.rows import Options as RowOptions
from sase.runtime.stream.horizon import TIMELY
from sase.runtime.stream.rejected import counted, rejected_schema
from sase.runtime.stream.row_bucket import GateTask, RowStreamTask
from sase.runtime.stream.ssc import Stream, in_state, prepare
from sase.runtime.stream.watch import Columns, Options, refuse_other_watermark
from sase.runtime.stream.worker import EPOCH

__all__ = ["Options", "Stream", "follow_rows"]


def follow_rows(
    rows: DataFrame,
    pattern: RowPattern,
    order: RowOrder,
    values: Mapping[str, Measure],
    *,
    shown: str,
    state: str,
    options: Options,
    finish: Callable[[DataFrame], DataFrame],
    before: Mapping[str, Shift] | None = None,
    meets: Mapping[str, Condition] | None = None,
    context: int = 0,
    late: Sequence[str] | None = None,
    behind: int | None = None,
    symbols: str = "_sase_symbols",
    bootstrap: Callable[[], None] | None = None,
) -> Stream:
    """The matches of a stream of rows, in the order of their time: `rows.match_rows` on an open stretch of each key.

    `before` are columns with values of other rows, which the worker looks up, and `meets` what a row must meet beside
    its symbol bit, given these. `late` are the columns of a row that came too late, those that are remembered if it is
    not given; without any, nothing is told of such rows. `behind` says that the rows are matches of another clause, and
    how long after their time they may come. `state` names what the state of a checkpoint is made of.
    """
    for text in doubts(pattern, order, shown):
        logging.getLogger("sase").warning(text)
    before, meets = spelled_neighbours(rows, before or {}, meets or {})
    # What the worker adds has the types of what it comes from.
    typed = rows.withColumns({name: F.col(quoted(shift.column)) for name, shift in before.items()})
    told = task_of(typed, pattern, order, values, shown=shown, symbols=symbols, options=RowOptions())
    told = with_neighbours(told, before, meets)
    spelled = {name.lower(): name for name in rows.columns}
    if late is None:
        late = [name for name in told.names if not name.startswith(OURS)]
    task = in_stream(
        told,
        options,
        context=context,
        late=tuple(spelled[name.lower()] for name in late if name.lower() in spelled),
        behind=behind or 0,
    )
    time_kind = kind_of_time(rows, task.time)
    columns = Columns(task.time, symbols, "_sase_reason", "_sase_record", "_sase_clock", "_sase_bucket")
    carried = rows.select(*(F.col(quoted(name)) for name in dict.fromkeys([*task.names, *task.late])))
    if behind is None:
        watched = watched_by(carried, columns, time_kind, options)
    else:
        # They tell no time that their own rows did not tell, and are never late.
        timely = F.col(symbols).bitwiseOR(F.lit(TIMELY))
        watched = _tagged(carried, columns, time_kind).withColumn(symbols, timely)
    return found_in_state(watched, typed, task, columns, time_kind, state, options, finish, bootstrap)


def in_stream(told: Task, options: Options, **more: Any) -> RowStreamTask:
    """What a bucket is told, beside what the worker of a batch is."""
    return RowStreamTask(
        **{field.name: getattr(told, field.name) for field in fields(told) if field.name not in more},
        limit=options.max_window_events_per_key,
        **more,
    )


def found_in_state(
    watched: DataFrame,
    typed: DataFrame,
    task: RowStreamTask,
    columns: Columns,
    time_kind: str,
    state: str,
    options: Options,
    finish: Callable[[DataFrame], DataFrame],
    bootstrap: Callable[[], None] | None,
) -> Stream:
    """What the buckets find in rows under a watermark. `typed` has all columns that a worker looks at."""
    buckets = options.buckets if task.by else 1
    prepare(watched.sparkSession, buckets)
    packed = in_state(watched, task, columns, buckets, state, time_kind, bootstrap, task.late)
    names = output_of(typed, task)
    found = StructType([StructField(str(at), kind) for at, (_, kind) in enumerate(names)])

    def named(matches: DataFrame) -> DataFrame:
        more = matches.columns[len(names) :]
        return finish(matches.toDF(*(name for name, _ in names), *more).drop(names[-1][0]))

    def only_late() -> Stream:
        told = dict.fromkeys([*task.by, task.time, *task.late, columns.reason, columns.record])
        rows = watched.select(*(F.col(quoted(name)) for name in told))
        late = GateTask(task.by, task.time, task.late)
        packed = in_state(rows, late, columns, buckets, f"late {state}", time_kind, bootstrap, task.late)
        return Stream(counted(packed), found, rejected, named, None, buckets, time_kind, clock)

    rejected, clock = rejected_schema(watched.schema, task.late), watched.schema[task.time].dataType
    return Stream(counted(packed), found, rejected, named, task, buckets, time_kind, clock, only_late)


def kind_of_time(rows: DataFrame, time: str) -> str:
    kind = rows.schema[time].dataType
    if isinstance(kind, TimestampType | TimestampNTZType | DateType):
        return "timestamp"
    if isinstance(kind, IntegralType):
        return "integer"
    raise SaseRunError(
        f"a stream is followed in the order of time, and {time}, by which ORDER BY begins, is {kind.simpleString()}: "
        "it must be a timestamp, a date or a whole number"
    )


def _tagged(rows: DataFrame, columns: Columns, time_kind: str) -> DataFrame:
    """The rows, with the reason why one cannot take part, where it cannot."""
    time = ticks(rows, quoted(columns.time))
    why = F.when(time.isNull(), "without a time")
    if time_kind == "integer":
        why = why.when(~time.between(-EPOCH, EPOCH), f"time beyond ±{EPOCH}")
    return rows.withColumn(columns.reason, why).withColumn(columns.record, F.lit(None).cast("string"))


def watched_by(rows: DataFrame, columns: Columns, time_kind: str, options: Options) -> DataFrame:
    """The rows under a watermark."""
    tagged, time = _tagged(rows, columns, time_kind), ticks(rows, quoted(columns.time))
    moment = F.timestamp_micros(time) if time_kind == "timestamp" else F.timestamp_millis(time + EPOCH)
    there = F.when(F.col(columns.reason).isNull(), moment)
    clocked = tagged.withColumn(columns.clock, F.coalesce(there, F.timestamp_millis(F.lit(0))))
    if refuse_other_watermark([rows], columns.time, options):
        return clocked.drop(columns.clock)
    return clocked.withWatermark(columns.clock, options.delay(time_kind)).drop(columns.clock)
