"""Several queries of one file, some of which read the results of others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from sase.api import Query, job_module, remember, stream_options
from sase.compiler.compile import CompiledFile
from sase.compiler.core.errors import OptionError
from sase.places import placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sase.analysis.stages import Stage
    from sase.events import Events, Frames
    from sase.jobs import BatchJobs, StreamJobs
    from sase.runtime.io.tally import Tally
    from sase.runtime.stream.ssc import Stream


class Queries:
    """The compiled queries of a file. `job` is the source of one job; `run` executes that very source.

    `queries["Alert"]` is the query whose results are named so. To it, the results of others are tables of events.
    """

    def __init__(self, compiled: CompiledFile, for_stream: Callable[[], CompiledFile] | None = None) -> None:
        self.compiled = compiled
        self._for_stream = for_stream

    @property
    def job(self) -> str:
        return self.compiled.job

    def explain(self) -> str:
        return self.compiled.explain()

    def spelled(self) -> str:
        """All queries in words of SASE; as they are, where it has none."""
        from sase.compiler.languages.sase.spelling import spelled_all

        return spelled_all({name: compiled.query for name, compiled in self.compiled.queries.items()})

    def __getitem__(self, name: str) -> Query:
        return self._queries[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the results, each behind those that it is made of."""
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    @cached_property
    def _queries(self) -> dict[str, Query]:
        return {name: Query(compiled) for name, compiled in self.compiled.queries.items()}

    def run(
        self, events: Events | None = None, *, max_window_events_per_key: int | None = None, **stream: Any
    ) -> dict[str, DataFrame]:
        """The results by name, lazily. Events and options are those of `Query.run`; streaming events give streaming
        DataFrames. What several of them need is found for each, unless it is cached: `results["Alert"].cache()`."""
        from sase.runtime.events import streaming

        tables = self.tables(events)
        if streaming(tables):
            followed = self.follow(tables, max_window_events_per_key=max_window_events_per_key, **stream)
            return {name: each.matches() for name, each in followed.items()}
        if stream:
            raise OptionError(f"{', '.join(stream)}: these are options of a stream, and the events are none")
        found, tally = self.watched(tables, max_window_events_per_key)
        tally.warn(lambda error: None)
        return found

    def watched(
        self, tables: Frames, max_window_events_per_key: int | None = None
    ) -> tuple[dict[str, DataFrame], Tally]:
        """The results of events at rest, lazily, and the tally of these events, for whoever tells of it."""
        from sase.outlook import warning
        from sase.runtime.events import check
        from sase.runtime.io.batches import bound_events
        from sase.runtime.io.tally import Tally
        from sase.runtime.ssc import Options

        for name, query in self._queries.items():
            if not self.reads(name) and (text := warning(query, lambda: tables)):
                logging.getLogger("sase").warning(f"{name}: {text}")
        tally = Tally()
        job = self.batch_jobs
        checked = check(tables, job.SOURCE, tally)
        bound_events(checked)
        with self.explained():
            found = job.find_all(checked, Options(max_window_events_per_key))
        for name, matches in found.items():
            remember(matches, self._queries[name], self._given(name, tables, found))
        return found, tally

    def reads(self, name: str) -> list[str]:
        return self.compiled.composition.reads(name)

    def _given(self, name: str, tables: Frames, found: dict[str, DataFrame]) -> Frames:
        """To a query, the results that it reads are tables."""
        return [*tables, *((each, found[each]) for each in self.reads(name))]

    def follow(self, events: Events, **options: Any) -> dict[str, Stream]:
        """The queries on a stream, by the names of their results; see `Query.follow`."""
        from sase.runtime.stream.rejected import warn_of_rejected

        job = self.stream_jobs
        with self.explained():
            streams = job.follow_all(self.tables(events), stream_options(options))
        for stream in streams.values():
            warn_of_rejected(stream.packed.sparkSession)
        return streams

    def analyze(self, events: Events | None = None) -> str:
        """What `Query.analyze` tells, of one query after the other."""
        from sase.analysis.stages import table

        return "\n".join(f"{name}\n{table(counted)}" for name, counted in self.stages(events).items())

    def stages(self, events: Events | None = None) -> dict[str, Sequence[Stage]]:
        """By the names of results, what `Query.stages` has."""
        from sase.analysis.stages import stages

        tables = self.tables(events)
        found, _ = self.watched(tables)
        with self.explained():
            return {name: stages(query, self._given(name, tables, found)) for name, query in self._queries.items()}

    def tables(self, events: Events | None = None) -> Frames:
        """The events as DataFrames, each with its event type, or None for several."""
        from sase.events import opened

        given = self.compiled.composition.stream if events is None else events
        if given is None:
            raise OptionError("there are no events: give them to run(), or name them with FROM in a query")
        return opened(given, self.module.SOURCE)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """As `Query.explained`, at its place in any of the queries."""
        with ExitStack() as stack:
            for compiled in self.compiled.queries.values():
                stack.enter_context(placed(compiled.query))
            yield

    @cached_property
    def streaming(self) -> Queries:
        """The same queries, compiled for a stream."""
        return self if self.compiled.stream or self._for_stream is None else Queries(self._for_stream())

    @cached_property
    def module(self) -> ModuleType:
        """The generated job as a module; tracebacks show its lines."""
        return job_module(self.job, self.compiled.composition.filename)

    @property
    def batch_jobs(self) -> BatchJobs:
        return cast("BatchJobs", self.module)

    @property
    def stream_jobs(self) -> StreamJobs:
        return cast("StreamJobs", self.streaming.module)

    def __repr__(self) -> str:
        return f"<sase.Queries {', '.join(self)}>"
