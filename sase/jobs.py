"""What a generated job offers to those who load it as a module: `Query.batch_job` and `Query.stream_job`.

The steps between sequences and results have functions, too, where a query needs them: the physical plan names them.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sase.runtime.composed import Keep
    from sase.runtime.events import Events, Source
    from sase.runtime.ssc import Options
    from sase.runtime.stream.job import Tables
    from sase.runtime.stream.ssc import Stream
    from sase.runtime.stream.watch import Columns
    from sase.runtime.stream.watch import Options as StreamOptions


class Job(Protocol):
    """What batch and stream have in common."""

    @property
    def SOURCE(self) -> Source:
        """Where the events have what the query reads."""

    def relevant_events(self, events: DataFrame) -> DataFrame:
        """Of checked events, those that may fill a state, and the columns that are read later."""

    def transform(self, matches: DataFrame) -> DataFrame:
        """Results, of sequences that are matches."""


class BatchJob(Job, Protocol):
    @property
    def sequences(self) -> Callable[..., DataFrame]:
        """Relevant events → sequences, one struct per variable. Where there is a kernel, it takes `Options`, too."""

    def find_matches(self, events: Events, options: Options | None = None) -> DataFrame:
        """Events → results, lazily."""


class BatchJobs(Protocol):
    """Several queries."""

    @property
    def SOURCE(self) -> Source:
        """Where the events have what the queries read."""

    def find_all(self, events: Events, options: Options | None = None, keep: Keep = ...) -> dict[str, DataFrame]:
        """Events → results by name, lazily. What several queries read goes through `keep`."""


class StreamJobs(Protocol):
    @property
    def SOURCE(self) -> Source:
        """Where the events have what the queries read."""

    @property
    def STATES(self) -> dict[str, str]:
        """By the names of results, what the state of a checkpoint is made of."""

    def follow_all(self, events: Events, options: StreamOptions) -> dict[str, Stream]:
        """Streaming events → streams of results, by name."""

    def read(self, spark: SparkSession, arguments: Namespace) -> Tables:
        """The stream that the command line names."""


class StreamJob(Job, Protocol):
    @property
    def OURS(self) -> Columns:
        """The names of our columns."""

    @property
    def sequences(self) -> Callable[..., Stream]:
        """Watched, relevant events → sequences. Where there is a kernel, it takes `Options`, too."""

    def finish(self, matches: DataFrame) -> DataFrame:
        """Sequences → results."""

    def follow(self, events: Events, options: StreamOptions) -> Stream:
        """Streaming events → a stream of results and of rejected events."""

    def read(self, spark: SparkSession, arguments: Namespace) -> Tables:
        """The stream that the command line names."""
