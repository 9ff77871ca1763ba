"""The public verbs: compile a query, look at it, run it."""

from __future__ import annotations

import builtins
import linecache
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike, fspath
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import sase
from sase.compiler.compile import Compiled, CompiledFile, Options, compile_file, compile_query
from sase.compiler.composition import Composition, read_text
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import CatalogError, OptionError, did_you_mean
from sase.compiler.emit.quote import printable
from sase.compiler.languages.front_end import Parsed
from sase.compiler.plan.statistics import Statistics
from sase.compiler.plan.strategy import Strategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sase.analysis.stages import Stage
    from sase.events import Events, Frames
    from sase.jobs import BatchJob, StreamJob
    from sase.runtime.errors import SaseRunError
    from sase.runtime.io.tally import Tally
    from sase.runtime.stream.ssc import Stream
    from sase.runtime.stream.watch import Options as StreamOptions


class Query:
    """A compiled query. `job` is its source; `run` executes that very source."""

    def __init__(self, compiled: Compiled, for_stream: Callable[[], Compiled] | None = None) -> None:
        self.compiled = compiled
        self._for_stream = for_stream

    @property
    def job(self) -> str:
        return self.compiled.job

    def explain(self) -> str:
        return self.compiled.explain()

    def run(
        self, events: Events | None = None, *, max_window_events_per_key: int | None = None, **stream: Any
    ) -> DataFrame:
        """The matches, lazily.

        Events are a DataFrame of Spark or pandas, an Arrow table, a path, or the name of a table (default: what FROM
        names). A mapping gives each event type its own table; the key None is a shared one.

        Events without a time or a type cannot take part; once the first action is over, a warning on the logger
        `sase` says how many there were, or where in the query it has failed (`explained` makes that an exception).
        Where a window of a key holds more events than `max_window_events_per_key`, the run fails and names the key,
        rather than run out of memory. Streaming events give a streaming DataFrame; see `follow` for its options.
        """
        from sase.runtime.events import streaming

        tables = self.tables(events)
        if streaming(tables):
            return self.follow(tables, max_window_events_per_key=max_window_events_per_key, **stream).matches()
        if stream:
            raise OptionError(f"{', '.join(stream)}: these are options of a stream, and the events are none")

        matches, tally = self.watched(tables, max_window_events_per_key)
        tally.warn(self._tell)
        return matches

    def watched(self, tables: Frames, max_window_events_per_key: int | None = None) -> tuple[DataFrame, Tally]:
        """The matches of events at rest, lazily, and the tally of these events, for whoever tells of it."""
        from sase.outlook import warning
        from sase.runtime.events import check
        from sase.runtime.io.batches import bound_events
        from sase.runtime.io.tally import Tally
        from sase.runtime.ssc import Options

        if text := warning(self, lambda: tables):
            logging.getLogger("sase").warning(text)
        tally = Tally()
        checked = check(tables, self.batch_job.SOURCE, tally)
        bound_events(checked)
        options = Options(max_window_events_per_key)
        with self.explained():
            return remember(self.batch_job.find_matches(checked, options), self, tables), tally

    def explained(self) -> AbstractContextManager[None]:
        """What fails in Spark inside of it is said in short, and at its place in the query:

        with query.explained():
            matches.show()
        """
        from sase.places import placed

        return placed(self.compiled.query)

    def _tell(self, error: SaseRunError) -> None:
        """Logs where in the query an action has failed. Spark raises its own exception, for whoever has called it."""
        from sase.places import at_its_place

        if found := at_its_place(error, self.compiled.query):
            logging.getLogger("sase").error(found)

    def tables(self, events: Events | None = None) -> Frames:
        """The events as DataFrames, each with its event type, or None for several."""
        from sase.events import opened

        given = self.compiled.query.stream if events is None else events
        if given is None:
            raise OptionError("there are no events: give them to run(), or name them with FROM in the query")
        return opened(given, self.module.SOURCE)

    def follow(self, events: Events, **options: Any) -> Stream:
        """The query on a stream. `matches()` and `rejected()` are streaming DataFrames; `packed` is both in one, to be
        taken apart in `foreachBatch`. The logger `sase` says how many events were rejected.

        `max_delay` is how far behind the latest event another one may arrive ("10 minutes"; 0 if it is not given),
        `max_window_events_per_key` a limit that fails loudly, and `buckets` the number of states of keys.
        """
        from sase.runtime.stream.rejected import warn_of_rejected

        given = stream_options(options)
        with self.explained():
            stream = self.stream_job.follow(self.tables(events), given)
        warn_of_rejected(stream.packed.sparkSession)
        return stream

    @cached_property
    def streaming(self) -> Query:
        """The same query, compiled for a stream."""
        if self.compiled.physical.stream or self._for_stream is None:
            return self
        return Query(self._for_stream())

    def analyze(self, events: Events | None = None) -> str:
        """Runs the query and tells, step by step, how many events and sequences got through and what removed the
        rest. It reads the events several times: meant for "why is there no match?", not for production."""
        from sase.analysis.stages import table

        return table(self.stages(events))

    def stages(self, events: Events | None = None) -> list[Stage]:
        """What `analyze` tells, as data."""
        from sase.analysis.stages import stages

        with self.explained():
            return stages(self, self.tables(events))

    @cached_property
    def module(self) -> ModuleType:
        """The generated job as a module; tracebacks show its lines."""
        return job_module(self.job, self.compiled.query.filename)

    @property
    def batch_job(self) -> BatchJob:
        return cast("BatchJob", self.module)

    @property
    def stream_job(self) -> StreamJob:
        return cast("StreamJob", self.streaming.module)

    def __repr__(self) -> str:
        return f"<sase.Query\n{self.compiled.query.text.strip()}\n>"


def job_module(job: str, filename: str) -> ModuleType:
    name = f"<sase job {printable(filename)}>"
    module = ModuleType("sase_job")
    linecache.cache[name] = (len(job), None, job.splitlines(keepends=True), name)
    exec(builtins.compile(job, name, "exec"), module.__dict__)
    return module


def stream_options(options: Mapping[str, Any]) -> StreamOptions:
    from sase.runtime.stream.watch import Options as StreamOptions

    known = tuple(StreamOptions.__dataclass_fields__)
    for name in options:
        if name not in known:
            raise OptionError(f"there is no option {name!r}: {did_you_mean(name, known, 'options are')}")
    return StreamOptions(**options)


@dataclass(frozen=True)
class Origin:
    """Where a DataFrame of matches comes from."""

    query: Query
    events: Frames


def remember(matches: DataFrame, query: Query, events: Frames) -> DataFrame:
    """Notes on the DataFrame itself where it comes from; what Spark derives from it does not inherit the note."""
    matches._sase_origin = Origin(query, events)  # type: ignore[attr-defined]
    return matches


def origin_of(matches: DataFrame) -> Origin | None:
    return cast("Origin | None", vars(matches).get("_sase_origin"))


def compile(
    text: str | Parsed | Composition,
    catalog: Catalog | None = None,
    *,
    events: Events | None = None,
    parameters: Mapping[str, object] | None = None,
    statistics: Statistics | str | PathLike[str] | None = None,
    disable: Iterable[str] = (),
    standalone: bool = False,
    stream: bool = False,
    filename: str = "query.sase",
    language: str | None = None,
    **strategy: Any,
) -> Query:
    """Compiles a query: its text, or what a front end has read.

    A text of several queries, with semicolons between them, gives a `sase.queries.Queries` in the place of a `Query`:
    one job, whose `run` returns a mapping from the names of their results to DataFrames.

    Its first words tell which `language` it is in, unless one is given: `"sase"`, `"telegraphcq"` or `"vdms-pq"`.

    The catalog tells what the event types declare; without one, or with one that names only columns, the schema of
    `events` does, or that of what FROM names. `parameters` gives values to `{name}` and `WITHIN T`. `standalone` makes
    a job that carries the runtime inside, `stream` one for Structured Streaming. `statistics`, or the file that `sase
    statistics` made, let the optimiser choose by what the events are like; without them it goes by stated defaults.

    How a query is evaluated never changes its answer: `disable` switches rules off by name, and the fields of
    `sase.compiler.plan.strategy.Strategy` are keywords that force a choice: `negation="anti-join"`,
    `equivalence="pais:id"`, `slice="8 days"`, `partitions=64`.
    """
    parsed = read_text(text, filename, language) if isinstance(text, str) else text
    catalog = catalog or Catalog()
    if parameters:
        catalog = replace(catalog, parameters={**catalog.parameters, **parameters})
    if catalog.types is None:
        events = parsed.stream if events is None else events
        if events is None:
            raise CatalogError(
                "no event types are known: give a catalog with types, or the events to read the schema from"
            )
        catalog = with_schema(catalog, parsed, columns_of(events, catalog))
    if isinstance(statistics, str | PathLike):
        statistics = Statistics.load(fspath(statistics))
    options = Options(frozenset(disable), chosen(strategy), statistics)

    def given(stream: bool) -> dict[str, Any]:
        runtime = None
        if standalone:
            from sase.standalone import preamble

            runtime = preamble(stream)
        return {"version": sase.__version__, "standalone": runtime, "stream": stream}

    if isinstance(parsed, Composition):
        from sase.queries import Queries

        several = parsed

        def compiled_file(stream: bool) -> CompiledFile:
            return compile_file(several, catalog, options, **given(stream))

        # One query is what nearly everybody compiles, and its type is what editors and checkers should know.
        return cast("Query", Queries(compiled_file(stream), lambda: compiled_file(stream=True)))
    alone = parsed

    def compiled(stream: bool) -> Compiled:
        return compile_query(alone, catalog, options, **given(stream))

    return Query(compiled(stream), lambda: compiled(stream=True))


def chosen(strategy: Mapping[str, Any]) -> Strategy:
    known = tuple(Strategy.__dataclass_fields__)
    for name in strategy:
        if name not in known:
            raise OptionError(f"there is no option {name!r}: {did_you_mean(name, known, 'options are')}")
    return Strategy(**strategy)


def columns_of(events: Events, catalog: Catalog) -> dict[str | None, dict[str, str]]:
    """Column names and types, by event type; None stands for a table of all types."""
    from sase.events import as_they_are

    columns: dict[str | None, dict[str, str]] = {}
    for name, table in as_they_are(events, catalog):
        for field in table.schema.fields:
            columns.setdefault(name, {}).setdefault(field.name, field.dataType.simpleString())
    return columns


def with_schema(
    catalog: Catalog, parsed: Parsed | Composition, columns: Mapping[str | None, Mapping[str, str]]
) -> Catalog:
    """A catalog in which every event type of the query declares the columns of its table."""
    shared = columns.get(None, {})
    if parsed.every_type:
        raise CatalogError(
            "ANY(*) is an event of any type of the catalog, and there is no catalog: sase init EVENTS -o catalog.toml "
            "draws one up"
        )
    types = {name: dict(columns.get(name, shared)) for name in parsed.types if name in columns or shared}
    return replace(catalog, types={name: _without(catalog.type, declared) for name, declared in types.items()})


def _without(column: str, declared: dict[str, str]) -> dict[str, str]:
    return {name: kind for name, kind in declared.items() if name.lower() != column.lower()}
