"""SQL, with MATCH_RECOGNIZE and with self-joins: compile a statement, look at it, run it."""

from __future__ import annotations

import builtins
import linecache
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike, fspath
from types import ModuleType
from typing import TYPE_CHECKING, Any

import sase
from sase.compiler.compile_sql import CompiledSql, Joins, compile_statement
from sase.compiler.core.errors import OptionError, did_you_mean
from sase.compiler.emit.quote import printable
from sase.compiler.languages.sql.aliases import Tables
from sase.compiler.languages.sql.joined import joins_of
from sase.compiler.languages.sql.statement import read_statement
from sase.compiler.plan.statistics import Statistics
from sase.compiler.plan.strategy import Strategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sase.events import Table
    from sase.runtime.rows import Options
    from sase.runtime.stream.ssc import Stream
    from sase.runtime.stream.together import Together

DIALECT = "spark"


@dataclass(frozen=True)
class Verification:
    """What running a statement both ways has shown."""

    replaced: int
    """The number of joins that run as patterns."""
    rows: int
    own_rows: int
    same: bool

    def __str__(self) -> str:
        if self.same:
            joins = "one join" if self.replaced == 1 else f"{self.replaced} joins"
            return f"verified: the same {self.rows:,} rows with {joins} as a pattern and with Spark's own"
        counts = f"{self.rows:,} with patterns, {self.own_rows:,} with Spark's own joins"
        return f"the rows differ: {counts}{', of other values' if self.rows == self.own_rows else ''}"


class Statement:
    """A compiled statement. `job` is its source; `run` executes that very source."""

    def __init__(
        self,
        compiled: CompiledSql,
        for_stream: Callable[[], CompiledSql] | None = None,
        own: Callable[[], CompiledSql] | None = None,
        with_windows: Callable[[], CompiledSql] | None = None,
    ) -> None:
        """`own` makes the statement as Spark runs it by itself, but for MATCH_RECOGNIZE, and `with_windows` the one in
        which Spark sorts and decides all that is about single rows and their neighbours."""
        self.compiled = compiled
        self._for_stream = for_stream
        self._own = own
        self._with_windows = with_windows

    @property
    def job(self) -> str:
        return self.compiled.job

    def explain(self) -> str:
        return self.compiled.explain()

    def run(
        self, tables: Mapping[str, Table] | None = None, *, options: Options | None = None, **stream: Any
    ) -> DataFrame:
        """The rows, lazily. Names in FROM are tables and views of the session; `tables` become temporary views of it:
        DataFrames of Spark or pandas, Arrow tables, or paths. Where the clause reads a streaming DataFrame, the result
        is one, too: see `follow` for its options."""
        from sase.runtime.errors import explained
        from sase.runtime.session import session

        register(tables or {})
        if self._streams():
            return self.follow(**stream).matches()
        if stream:
            raise OptionError(f"{', '.join(stream)}: these are options of a stream, and the tables are none")
        with explained():
            rows: DataFrame = self.module.query(session(), options)
        rows._sase_statement = self  # type: ignore[attr-defined]  # for pictures; what is derived does not inherit it
        return rows

    def analyze(self, tables: Mapping[str, Table] | None = None) -> str:
        """Runs the clauses and tells how many rows meet each condition, how many are part of a match, and why others
        are not. It reads the tables several times: meant for "why is there no match?", not for production."""
        from sase.analysis.rows import told
        from sase.runtime.errors import explained

        if self.compiled.stream:
            raise OptionError("a stream does not end: analyse the statement on tables at rest")
        register(tables or {})
        with explained():
            return told(self)

    def _streams(self) -> bool:
        """Whether a table of the statement is a stream."""
        from sase.runtime.io.inputs import is_table
        from sase.runtime.session import session

        spark = session()
        return any(spark.table(name).isStreaming for name in self.compiled.statement.tables if is_table(spark, name))

    def follow(self, tables: Mapping[str, Table] | None = None, **options: Any) -> Stream | Together:
        """The statement on a stream: `matches()` and `rejected()` are streaming DataFrames; `packed` is both in one, to
        be taken apart in `foreachBatch`. The logger `sase` says how many rows were rejected.

        `max_delay` is how far behind the latest row another one may arrive ("10 minutes"; 0 if it is not given),
        `max_window_events_per_key` a limit that fails loudly, and `buckets` the number of states of keys.
        """
        from sase.runtime.errors import explained
        from sase.runtime.session import session
        from sase.runtime.stream.rejected import warn_of_rejected
        from sase.runtime.stream.watch import Options as StreamOptions

        known = tuple(StreamOptions.__dataclass_fields__)
        for name in options:
            if name not in known:
                raise OptionError(f"there is no option {name!r}: {did_you_mean(name, known, 'options are')}")
        register(tables or {})
        with explained():
            stream: Stream | Together = self.streaming.module.follow(session(), StreamOptions(**options))
        warn_of_rejected(stream.packed.sparkSession)
        return stream

    @cached_property
    def streaming(self) -> Statement:
        """The same statement, compiled for a stream."""
        if self.compiled.stream or self._for_stream is None:
            return self
        return Statement(self._for_stream())

    @cached_property
    def own(self) -> Statement:
        """The same statement with its joins left alone."""
        return self if self._own is None else Statement(self._own())

    @cached_property
    def with_windows(self) -> Statement:
        """The same statement, in which Spark gives the values of neighbours: where its conditions are counted."""
        return self if self._with_windows is None else Statement(self._with_windows())

    def verify(self, tables: Mapping[str, Table] | None = None) -> Verification:
        """Runs the statement both ways, with joins as patterns and with Spark's own, and compares the rows."""
        from sase.runtime.errors import explained
        from sase.runtime.sql import fingerprint

        ours, own = self.run(tables), self.own.run()
        with explained():
            one, other = fingerprint(ours), fingerprint(own)
        return Verification(len(self.compiled.statement.joins), one.rows, other.rows, one == other)

    @cached_property
    def module(self) -> ModuleType:
        """The generated job as a module; tracebacks show its lines."""
        name = f"<sase job {printable(self.compiled.statement.filename)}>"
        module = ModuleType("sase_job")
        linecache.cache[name] = (len(self.job), None, self.job.splitlines(keepends=True), name)
        exec(builtins.compile(self.job, name, "exec"), module.__dict__)
        return module

    def __repr__(self) -> str:
        return f"<sase.Statement\n{self.compiled.statement.text.strip()}\n>"


JOINS = ("auto", "always", "never")


def compile_sql(
    text: str,
    dialect: str = DIALECT,
    *,
    tables: Mapping[str, Table] | None = None,
    joins: str = "auto",
    statistics: Statistics | str | PathLike[str] | None = None,
    sort: str = "auto",
    standalone: bool = False,
    stream: bool = False,
    filename: str = "query.sql",
) -> Statement:
    """Compiles a statement, in any dialect of sqlglot: `trino`, `snowflake`, `oracle`, `databricks`, `duckdb`, …

    A join of rows in the order of time runs as a pattern, if the session knows its tables, or if they are given with
    `tables`, and if it is expected to be faster: `statistics`, or the file that `sase statistics` made, say more of
    them. `joins` may also be `"always"`, however fast it is expected to be, or `"never"`. `sort` says who sorts rows,
    the Python `"worker"` or `"spark"`. `standalone` makes a job that carries the runtime inside, `stream` one for
    Structured Streaming, which leaves joins alone.
    """
    if joins not in JOINS:
        raise OptionError(f"joins is one of {', '.join(JOINS)}, and not {joins!r}")
    if stream and sort != "auto":
        raise OptionError("sort: not for a stream, whose states are sorted by themselves")
    sort = Strategy(sort=sort).sort
    if isinstance(statistics, str | PathLike):
        statistics = Statistics.load(fspath(statistics))
    wanted = None
    if joins != "never" and not stream:
        known = _known_tables(tables) if may_join(text, filename, dialect) else None
        wanted = Joins(known, statistics, always=joins == "always")

    def compiled(stream: bool = False, joins: Joins | None = None, sort: str = sort) -> CompiledSql:
        carried = None
        if standalone:
            from sase.standalone import preamble

            carried = preamble(stream)
        return compile_statement(
            text, filename, dialect, version=sase.__version__, standalone=carried, stream=stream, joins=joins, sort=sort
        )

    return Statement(
        compiled(stream, wanted),
        partial(compiled, stream=True),
        compiled,
        partial(compiled, joins=wanted, sort="spark"),
    )


def sql(text: str, dialect: str = DIALECT, tables: Mapping[str, Table] | None = None, **stream: Any) -> DataFrame:
    """The rows of a statement, lazily: MATCH_RECOGNIZE and joins in the order of time run as patterns, and Spark runs
    the rest. See `compile_sql` and `Statement.run`."""
    from sase.runtime.session import session

    session()  # whose tables are looked at
    return compile_sql(text, dialect, tables=tables).run(tables, **stream)


def may_join(text: str, filename: str, dialect: str) -> bool:
    """Whether something in it may be a join in the order of time, so that the columns of its tables matter."""
    return joins_of(read_statement(text, filename, dialect).query)


def _known_tables(tables: Mapping[str, Any] | None) -> Tables | None:
    """Those of the session; None where there is none, and no tables are given that would need one."""
    if not tables and "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    if tables:
        register(tables)
    spark = SparkSession.getActiveSession()
    if spark is None:
        return None
    from sase.runtime.session import has_steady_clocks
    from sase.runtime.sql import columns_of

    return Tables(partial(columns_of, spark), has_steady_clocks(spark))


def register(tables: Mapping[str, Any]) -> None:
    from sase.events import as_they_are
    from sase.runtime.session import session

    session()
    for name, table in tables.items():
        if "." in name or not name:
            raise OptionError(
                f"a table of `tables` becomes a temporary view, which has a simple name, and not {name!r}"
            )
        ((_, frame),) = as_they_are(table)
        frame.createOrReplaceTempView(name)
