"""The compiler of SQL as one call: text → statement with views → plans of its clauses → job."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sase.compiler.emit.explain_sql import explain_sql
from sase.compiler.languages.sql.statement import read_statement
from sase.compiler.plan.row_stream import refuse_on_stream
from sase.compiler.plan.rows import row_plan
from sase.compiler.plan.statement import PlannedStatement, PlannedView


@dataclass(frozen=True)
class CompiledSql:
    statement: PlannedStatement
    version: str
    standalone: str | None
    stream: bool = False

    @cached_property
    def job(self) -> str:
        from sase.compiler.emit.sql import generate_sql  # and jinja2, of which a plan has no need

        return generate_sql(self.statement, self.version, self.standalone, self.stream)

    def explain(self) -> str:
        return explain_sql(self.statement)


def compile_statement(
    text: str, filename: str, dialect: str, *, version: str, standalone: str | None = None, stream: bool = False
) -> CompiledSql:
    read = read_statement(text, filename, dialect)
    views = tuple(
        PlannedView(view.name, view.marker, view.reads, row_plan(view.clause, text, filename, stream))
        for view in read.views
    )
    statement = PlannedStatement(text, filename, read.query, views)
    if stream:
        refuse_on_stream(statement)
    return CompiledSql(statement, version, standalone, stream)
