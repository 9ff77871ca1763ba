"""The totals of a bucket of groups: rows of what matches add in, the totals that they change out. They are kept for
ever, as running totals have no end. Nothing here knows of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sase.runtime.operator.totals import brought_together
from sase.runtime.pattern import Total
from sase.runtime.stream.bucket import Step
from sase.runtime.stream.horizon import FOREVER


@dataclass(frozen=True)
class GroupTask:
    """`shown` are the columns of a group, the others are totals. A total's column has what a match adds to it."""

    shown: tuple[str, ...]
    totals: tuple[Total, ...]
    once: bool = False
    """A group is told of when it has a match, and never again."""


class GroupBucket:
    def __init__(self, task: GroupTask) -> None:
        self.task = task

    def advance(self, state: pa.Table | None, arrived: pa.Table | None, watermark: int) -> Step:
        """One micro-batch. What matches of any time add counts at once: they were certain before."""
        told: Iterator[pa.RecordBatch] = iter(())
        if arrived is not None and arrived.num_rows:
            known = 0 if state is None else state.num_rows
            tables = [table.replace_schema_metadata() for table in (state, arrived) if table is not None]
            state, place = brought_together(self.task, pa.concat_tables(tables))
            new = np.setdiff1d(place[known:], place[:known]) if self.task.once else np.unique(place[known:])
            told = iter(state.take(pa.array(new)).combine_chunks().to_batches())
        return Step(None, told, state, None if state is None else FOREVER)
