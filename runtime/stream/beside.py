"""Rows of tables that a clause reads beside the matches of others: they go on as they come, unless that is too late.

It is decided here which are late, since Spark takes no watermark behind a state, and what comes from one is never late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from sase.runtime.errors import SaseRunError
from sase.runtime.rows import OURS
from sase.runtime.stream.rejected import counted, rejected_schema
from sase.runtime.stream.row_bucket import GateTask
from sase.runtime.stream.rows import kind_of_time, watched_by
from sase.runtime.stream.ssc import Stream, in_state, prepare
from sase.runtime.stream.watch import Columns, Options


def in_time(rows: DataFrame, options: Options, *, place: int, bootstrap: Callable[[], None] | None = None) -> Stream:
    """The rows as `matches()`, in the order of their columns, of which the one at `place` is their time. Of those that
    came too late, `only_late` tells."""
    names = tuple(_apart(rows.columns))
    if ours := [name for name in names if name.lower().startswith(OURS)]:
        raise SaseRunError(f"column {ours[0]} has a name that is ours: rename it in a subquery")
    time = names[place]
    carried = rows.toDF(*names)
    time_kind, time_type = kind_of_time(carried, time), carried.schema[time].dataType
    columns = Columns(time, "", "_sase_reason", "_sase_record", "_sase_clock", "_sase_bucket")
    watched = watched_by(carried, columns, time_kind, options)
    found = StructType([StructField(str(at), field.dataType) for at, field in enumerate(rows.schema)])
    prepare(rows.sparkSession, options.buckets)

    def stream(late: tuple[str, ...], kept: tuple[str, ...], only_late: Callable[[], Stream] | None) -> Stream:
        task = GateTask((time,), time, late, kept)
        packed = in_state(watched, task, columns, options.buckets, "rows", time_kind, bootstrap, late)
        shown = rejected_schema(watched.schema, late)
        return Stream(counted(packed), found, shown, named, None, options.buckets, time_kind, time_type, only_late)

    def named(matches: DataFrame) -> DataFrame:
        return matches.toDF(*names)

    return stream((), names, lambda: stream(names, (), None))


def _apart(names: Sequence[str]) -> Iterator[str]:
    """The names, each once: a side of a UNION ALL may have one twice, as those of the first side count."""
    seen: set[str] = set()
    for at, name in enumerate(names):
        own = name
        while own.lower() in seen:
            own = f"{own}_{at}"
        seen.add(own.lower())
        yield own
