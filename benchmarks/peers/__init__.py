"""The engines that a query is measured on, by name.

A peer prepares a query on a file of events; what it returns can be run again and again. Preparing (starting an engine,
compiling, reading a schema) is not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.data import Source
from benchmarks.shape import Shape

if TYPE_CHECKING:
    from benchmarks.bench import Bench


@dataclass(frozen=True)
class Verbatim:
    """A query outside of the paper's template: for sase, and for peers to which it is spelled out.

    `sql` is the same for Spark, on a view `events`, and `duckdb` for DuckDB. A funnel has no text, but a length.
    `types` and `columns` are what any evaluation has to read, and `key` what it shuffles by.
    """

    text: str
    sql: str = ""
    types: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    duckdb: str = ""
    within: int = 0


@dataclass(frozen=True)
class Task:
    source: Source
    query: Shape | Verbatim
    options: Mapping[str, Any]
    """How sase is to evaluate it: keywords of `sase.compile`."""

    @property
    def shape(self) -> Shape:
        if not isinstance(self.query, Shape):
            raise Unavailable("this peer takes queries of the paper's template only")
        return self.query

    @property
    def reads(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """The relevant types, the columns that any evaluation must look at, and the key; empty if there is none."""
        if isinstance(self.query, Shape):
            return self.query.types, self.query.columns, self.query.equivalence
        return self.query.types, self.query.columns, self.query.key


@dataclass(frozen=True)
class Taken:
    seconds: float
    rows: int | None
    """Matches, if they were to be counted."""


class Run(Protocol):
    def __call__(self, limit: float, *, count: bool) -> Taken: ...


class Unavailable(Exception):
    """The peer, or a strategy of it, does not exist here. The message says what is missing."""


class OverLimit(Exception):
    """The run was given up when its time was over."""


@dataclass(frozen=True)
class Peer:
    prepare: Callable[[Bench, Task], Run]
    rows: str = "matches"
    """What its rows are. The matches of all peers must be as many; other rows are only reported."""


def peers() -> dict[str, Peer]:
    from benchmarks.peers import apply_in_pandas, duckdb_join, engine, flink, floor, sase_job, spark_join

    return {
        "sase": Peer(sase_job.prepare),
        "sase_uncounted": Peer(sase_job.prepare_uncounted),
        "engine": Peer(engine.prepare, rows="sequences"),
        "floor": Peer(floor.prepare, rows="events"),
        "identity": Peer(floor.prepare_identity, rows="events"),
        "unsorted": Peer(floor.prepare_unsorted, rows="events"),
        "spark_join_naive": Peer(spark_join.prepare_naive),
        "spark_join_bucketed": Peer(spark_join.prepare_bucketed),
        "spark_sql": Peer(spark_join.prepare_verbatim),
        "sase_funnel": Peer(sase_job.prepare_funnel),
        "duckdb": Peer(duckdb_join.prepare_naive),
        "duckdb_sql": Peer(duckdb_join.prepare_verbatim),
        "duckdb_bucketed": Peer(duckdb_join.prepare_bucketed),
        "flink": Peer(flink.prepare),
        "flink_loop": Peer(flink.prepare, rows="matches of Flink's own"),  # a loop may pass over an event that ends it
        "apply_in_pandas": Peer(apply_in_pandas.prepare),
    }
