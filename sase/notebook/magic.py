"""The cell magic itself: from a cell to a DataFrame, and what is shown below."""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import clear_output, display

from sase.api import Query, compile
from sase.arguments import is_sql
from sase.compiler.composition import read_text
from sase.compiler.core.errors import CatalogError, Diagnostic, OptionError, SaseError, Span
from sase.compiler.languages.registry import NAMES
from sase.notebook import names
from sase.notebook.work import Interrupted, Progress, StopButton, at_work
from sase.queries import Queries
from sase.runtime.errors import SaseRunError, explained
from sase.runtime.events import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sase.events import Frames
    from sase.runtime.io.tally import Tally
    from sase.statement import Statement

T = TypeVar("T")


@magics_class
class SaseMagics(Magics):
    @magic_arguments()
    @argument("name", nargs="?", default="matches", help="the result's variable, and temporary view (default: matches)")
    @argument(
        "--events",
        metavar="[TYPE=]EVENTS",
        action="append",
        default=[],
        help="a DataFrame in a variable, a table or view, or a path; TYPE=EVENTS where an event type has a table of "
        "its own (default: what the query's FROM names)",
    )
    @argument("--catalog", help="a TOML file, or a sase.Catalog in a variable (default: the columns of the events)")
    @argument(
        "--count",
        action="store_true",
        help="find and count all matches, and show the first by started_at, or by what RETURN lists",
    )
    @argument(
        "--language", metavar="NAME", help=f"one of {', '.join(NAMES)} (default: by the first words of the query)"
    )
    @argument("--dialect", metavar="NAME", help="of SQL: trino, snowflake, oracle, … (default: spark)")
    @argument("--explain", action="store_true", help="draw the pattern and the plan; run nothing")
    @argument("--analyze", action="store_true", help="run, and draw how much got through each step of the plan")
    @argument("--job", action="store_true", help="show the generated PySpark job; run nothing")
    @argument("--stream", action="store_true", help="follow streaming events; NAME_stream is the running stream")
    @argument(
        "--max-delay",
        metavar="DURATION",
        help='with --stream: how late an event may come, as "10 minutes" (default: not at all)',
    )
    @cell_magic
    def sase(self, line: str, cell: str) -> None:
        """Find all matches of an event pattern, as a DataFrame.

        The cell holds a query, here of the SASE language:

            %%sase shoplifters --events readings
            EVENT SEQ(SHELF-READING x, !(COUNTER-READING y), EXIT-READING z)
            WHERE [id] WITHIN 12 hours

        or a statement of SQL with MATCH_RECOGNIZE, over DataFrames in variables, tables and views.

        The matches are bound to the name (a lazy DataFrame) and registered as a temporary view of that name; the first
        of them are shown below. {name} in a query is the value of the Python variable of that name: it is bound as a
        value, whatever it holds, and never read as part of the query.
        """
        shell = cast(InteractiveShell, self.shell)
        screen = Screen(live=hasattr(shell, "kernel"))
        with readable(line, cell), screen, StopButton() as button:
            arguments = _arguments(self.sase, line)
            with explained():
                run(arguments, cell, shell.user_ns, screen, button)


def run(arguments: Namespace, text: str, namespace: dict[str, Any], screen: Screen, button: StopButton) -> None:
    from sase.runtime.session import session

    started = time.perf_counter()
    spark = session("sase")
    button.hold()

    def work(label: str, action: Callable[[], T], cancel: Callable[[], None] | None = None) -> T:
        return at_work(spark, label, action, screen.progress, button, cancel)

    if arguments.language is None and is_sql(text, ""):
        run_sql(arguments, text, namespace, screen, work, started)
        return
    if arguments.dialect is not None:
        raise OptionError("--dialect is for SQL, and this is none")
    query, events = work("getting ready", lambda: prepare(arguments, text, namespace, spark))
    with query.explained():
        if isinstance(query, Queries):
            find_all(arguments, query, events, namespace, screen, work)
        elif arguments.stream:
            follow(arguments, query, events, namespace, screen, work)
        else:
            find(arguments, query, events, namespace, screen, work, started)


def find(
    arguments: Namespace,
    query: Query,
    events: Frames,
    namespace: dict[str, Any],
    screen: Screen,
    work: Callable[..., Any],
    started: float,
) -> None:
    """Binds the DataFrame of matches, and shows the first of them, or what was asked for in their place."""
    matches, tally = query.watched(query.tables(events))
    matches.createOrReplaceTempView(arguments.name)
    namespace[arguments.name] = matches
    if arguments.explain or arguments.analyze:
        from sase import pictures

        stages = work("analyzing", lambda: query.stages(events)) if arguments.analyze else None
        screen.show(pictures.nfa(query), pictures.plan(query, stages))
        if stages is not None:
            screen.show(pictures.stages(stages))
    if arguments.job:
        from sase.notebook.source import Source

        screen.show(Source(query.job))
    if arguments.explain or arguments.analyze or arguments.job:
        tally.warn()  # of what a later cell will run
        return
    from sase.notebook.preview import Preview, counted_rows, first_rows

    count = None
    if arguments.count:
        shown, count = work("finding all matches", lambda: counted_rows(matches))
    else:
        shown = work("looking for matches", lambda: first_rows(matches))
    # A kernel comes after a shuffle, so all events were read. Without one, reading may end with the last row shown.
    every = (
        not shown.more or count is not None or query.compiled.physical.kernel is not None or query.compiled.query.runs
    )
    notes = work("looking at the events", lambda: told(tally)) if every else []
    screen.show(Preview(arguments.name, shown, count, time.perf_counter() - started, notes))


def find_all(
    arguments: Namespace,
    queries: Queries,
    events: Frames,
    namespace: dict[str, Any],
    screen: Screen,
    work: Callable[..., Any],
) -> None:
    """Binds the results of several queries by name, and shows the first rows of each."""
    from sase.notebook.preview import Preview, counted_rows, first_rows
    from sase.notebook.source import Source

    if arguments.stream:
        raise OptionError("--stream is for one query: in Python, sase.compile(text).run(events) has a stream for each")
    results, tally = queries.watched(queries.tables(events))
    namespace[arguments.name] = results
    for name, matches in results.items():
        matches.createOrReplaceTempView(quoted(name))
    if arguments.explain:
        screen.show(Source(queries.explain(), plain=True))
    if arguments.analyze:
        screen.show(Source(work("analyzing", lambda: queries.analyze(events)), plain=True))
    if arguments.job:
        screen.show(Source(queries.job))
    if arguments.explain or arguments.analyze or arguments.job:
        tally.warn()
        return
    for name, matches in results.items():
        started, count = time.perf_counter(), None
        if arguments.count:
            shown, count = work(f"finding all {name}", lambda matches=matches: counted_rows(matches))
        else:
            shown = work(f"looking for {name}", lambda matches=matches: first_rows(matches))
        screen.show(Preview(name, shown, count, time.perf_counter() - started, []))


def run_sql(
    arguments: Namespace,
    text: str,
    namespace: dict[str, Any],
    screen: Screen,
    work: Callable[..., Any],
    started: float,
) -> None:
    """Binds the rows of a statement, and shows the first of them."""
    from sase.events import is_frame
    from sase.notebook.preview import Preview, counted_rows, first_rows
    from sase.notebook.source import Source
    from sase.statement import compile_sql

    for option in ("events", "catalog"):
        if getattr(arguments, option):
            raise OptionError(f"--{option.replace('_', '-')} is not for SQL")
    dialect, filename = arguments.dialect or "spark", f"{arguments.name}.sql"
    names = compile_sql(text, dialect, joins="never", filename=filename).compiled.statement.tables
    tables = {name: namespace[name] for name in names if is_frame(namespace.get(name))}
    _refuse_with_stream(arguments)

    def ready() -> tuple[Statement, DataFrame]:
        statement = compile_sql(text, dialect, tables=tables, filename=filename)
        return statement, statement.run(tables, **_delay(arguments))

    statement, rows = work("getting ready", ready)
    if rows.isStreaming != arguments.stream:
        raise OptionError(_STREAMS if rows.isStreaming else _STREAMS_NOT)
    if arguments.stream:
        start(arguments.name, rows, namespace, screen, work)
        return
    rows.createOrReplaceTempView(arguments.name)
    namespace[arguments.name] = rows
    if arguments.explain or arguments.analyze:
        from sase.pictures.rows import row_automata

        screen.show(*row_automata(statement), Source(statement.explain(), plain=True))
    if arguments.analyze:
        screen.show(Source(work("analyzing", statement.analyze), plain=True))
    if arguments.job:
        screen.show(Source(statement.job))
    if arguments.explain or arguments.analyze or arguments.job:
        return
    count, ordered = None, statement.compiled.statement.ordered
    if arguments.count and not ordered:
        shown, count = work("finding all rows", lambda: counted_rows(rows))
    else:
        shown = work("looking for rows", lambda: first_rows(rows, ordered=ordered))
    if arguments.count and count is None:
        count = work("counting the rows", rows.count) if shown.more else len(shown.rows)
    screen.show(Preview(arguments.name, shown, count, time.perf_counter() - started, [], "row", "rows"))


def told(tally: Tally) -> list[str]:
    """What could not take part, and types that no event has; once all events have been read."""
    counts = tally.counts()
    return [*([f"rejected: {counts.rejected}"] if counts.rejected else []), *tally.unseen_types(counts)]


def follow(
    arguments: Namespace,
    query: Query,
    events: Frames,
    namespace: dict[str, Any],
    screen: Screen,
    work: Callable[..., Any],
) -> None:
    start(arguments.name, query.run(events, **_delay(arguments)), namespace, screen, work)


def _delay(arguments: Namespace) -> dict[str, Any]:
    return {} if arguments.max_delay is None else {"max_delay": arguments.max_delay}


def start(name: str, matches: DataFrame, namespace: dict[str, Any], screen: Screen, work: Callable[..., Any]) -> None:
    """Binds the streaming DataFrame of matches, and starts it into a table in memory, of the same name."""
    from sase.notebook import stream

    spark = matches.sparkSession

    def begin() -> None:
        running = stream.start(matches, name)
        namespace.update({name: matches, f"{name}_stream": running})
        stream.settle(running)

    work("waiting for the first events", begin, lambda: stream.end(name, spark))
    screen.show(work("looking", lambda: stream.so_far(name, spark)))


def prepare(
    arguments: Namespace, text: str, namespace: Mapping[str, Any], spark: SparkSession
) -> tuple[Query | Queries, Frames]:
    """The query of a cell, or its queries, and the events."""
    from pyspark.sql import DataFrame

    parsed = read_text(text, f"{arguments.name}.sase", arguments.language)
    specs = arguments.events or ([parsed.stream] if parsed.stream else [])
    _refuse_with_stream(arguments)
    if not specs:
        raise OptionError(
            "there are no events: add --events NAME, of a DataFrame, a table or a file, or FROM NAME to the query"
        )
    given = names.events(specs, parsed.types, namespace, spark)
    streaming = [isinstance(table, DataFrame) and table.isStreaming for table in given.values()]
    if arguments.stream and not all(streaming):
        raise OptionError(_STREAMS_NOT)
    if any(streaming) and not arguments.stream:
        raise OptionError(_STREAMS)
    query = compile(
        parsed,
        names.catalog(arguments.catalog, namespace),
        events=given,
        parameters=names.parameters(parsed.parameters, namespace),
    )
    return query, query.tables(given)


_STREAMS = "these events are a stream: add --stream"
_STREAMS_NOT = "--stream needs events of spark.readStream, and these do not stream: leave it out"


def _refuse_with_stream(arguments: Namespace) -> None:
    if arguments.max_delay is not None and not arguments.stream:
        raise OptionError("--max-delay goes with --stream: events at rest are all there")
    looks = arguments.explain or arguments.analyze or arguments.count or arguments.job
    if arguments.stream and looks:
        raise OptionError("--stream goes on and on: --explain, --analyze, --count and --job are for events at rest")


# ---- what is shown ------------------------------------------------------------------------------


class Screen:
    """The output of a cell. In a notebook, progress is shown and then gives way to the first result."""

    def __init__(self, live: bool) -> None:
        self._live = live
        self._handle: Any = None

    def progress(self, now: Progress) -> None:
        if self._live:
            self._put(now)

    def show(self, *results: object) -> None:
        for result in results:
            self._put(result)
            self._handle = None

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        """Where no result has come, the bar of what was given up is taken away."""
        if self._handle is not None:
            clear_output()

    def _put(self, content: object) -> None:
        if self._handle is not None:
            self._handle.update(content)
        elif self._live:
            self._handle = display(content, display_id=True)
        else:
            display(content)


@contextmanager
def readable(line: str, cell: str) -> Iterator[None]:
    """An error that a user can mend shows its message and no traceback. Places are those of the cell."""
    try:
        yield
    except SaseError as error:
        head = f"%%sase {line}\n"
        moved = SaseError([_moved(found, len(head)) for found in error.diagnostics], head + cell, "cell")
        raise _plain(moved) from None
    except (CatalogError, OptionError, SaseRunError) as error:
        raise _plain(error) from None
    except KeyboardInterrupt as error:
        raise error if isinstance(error, Interrupted) else Interrupted() from None


def _moved(found: Diagnostic, by: int) -> Diagnostic:
    return replace(found, span=Span(found.span.start + by, found.span.end + by))


def _plain(error: Exception) -> Exception:
    match error:
        case SaseError():
            lines = str(error).splitlines()
        case SaseRunError():
            lines = error.report.splitlines()
        case _:
            lines = f"error: {error}".splitlines()
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]  # what IPython shows in place of a trace
    return error


def _arguments(magic: Callable[..., None], line: str) -> Namespace:
    try:
        arguments: Namespace = parse_argstring(magic, line)
    except ValueError as error:  # of shlex: a quote that is not closed
        raise UsageError(f"{error} in {shlex.quote(line)}") from None
    for option, value in vars(arguments).items():
        setattr(arguments, option, [*map(_unquoted, value)] if isinstance(value, list) else _unquoted(value))
    if not arguments.name.isidentifier():
        raise UsageError(f"the result's name is a Python variable, and {arguments.name!r} cannot be one")
    return arguments


def _unquoted(value: Any) -> Any:
    """IPython splits the line of a magic at blanks outside quotes, and leaves the quotes."""
    quoted = isinstance(value, str) and len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
