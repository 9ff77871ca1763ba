"""SQL with MATCH_RECOGNIZE: compile a statement, look at it, run it."""

from __future__ import annotations

import builtins
import linecache
from collections.abc import Mapping
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import sase
from sase.compiler.compile_sql import CompiledSql, compile_statement
from sase.compiler.core.errors import OptionError
from sase.compiler.emit.quote import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sase.events import Table
    from sase.runtime.rows import Options

DIALECT = "spark"


class Statement:
    """A compiled statement. `job` is its source; `run` executes that very source."""

    def __init__(self, compiled: CompiledSql) -> None:
        self.compiled = compiled

    @property
    def job(self) -> str:
        return self.compiled.job

    def explain(self) -> str:
        return self.compiled.explain()

    def run(self, tables: Mapping[str, Table] | None = None, *, options: Options | None = None) -> DataFrame:
        """The rows, lazily. Names in FROM are tables and views of the session; `tables` become temporary views of it:
        DataFrames of Spark or pandas, Arrow tables, or paths."""
        from sase.runtime.errors import explained
        from sase.runtime.session import session

        register(tables or {})
        with explained():
            rows: DataFrame = self.module.query(session(), options)
        return rows

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


def compile_sql(
    text: str, dialect: str = DIALECT, *, standalone: bool = False, filename: str = "query.sql"
) -> Statement:
    """Compiles a statement, in any dialect of sqlglot: `trino`, `snowflake`, `oracle`, `databricks`, `duckdb`, …

    `standalone` makes a job that carries the runtime inside.
    """
    carried = None
    if standalone:
        from sase.standalone import preamble

        carried = preamble()
    return Statement(compile_statement(text, filename, dialect, version=sase.__version__, standalone=carried))


def sql(text: str, dialect: str = DIALECT, tables: Mapping[str, Table] | None = None) -> DataFrame:
    """The rows of a statement with MATCH_RECOGNIZE, lazily. See `compile_sql` and `Statement.run`."""
    return compile_sql(text, dialect).run(tables)


def register(tables: Mapping[str, Any]) -> None:
    from sase.events import as_they_are

    for name, table in tables.items():
        if "." in name or not name:
            raise OptionError(
                f"a table of `tables` becomes a temporary view, which has a simple name, and not {name!r}"
            )
        ((_, frame),) = as_they_are(table)
        frame.createOrReplaceTempView(name)
