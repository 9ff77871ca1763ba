"""The compiler of SQL as one call: text → statement with views → plans of its clauses and self-joins → job."""

from __future__ import annotations

from functools import cached_property

from sqlglot import exp

from sase.compiler.compile import Compiled, Options, compile_bound
from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import OptionError, SaseError
from sase.compiler.emit.explain_sql import explain_sql
from sase.compiler.languages.sql.aliases import Tables
from sase.compiler.languages.sql.joined import replace_joins
from sase.compiler.languages.sql.statement import read_statement
from sase.compiler.plan import own_join
from sase.compiler.plan.row_stream import on_stream
from sase.compiler.plan.rows import row_plan
from sase.compiler.plan.statement import LeftAlone, PlannedJoin, PlannedStatement, PlannedView
from sase.compiler.plan.statistics import Statistics
from sase.compiler.plan.strategy import Strategy

WORTH = 0.8
"""A join that stands as it is written runs so, unless a pattern promises to take less than this share of its time: the
estimates are not good enough for smaller differences."""


@dataclass(frozen=True)
class Joins:
    """What is known of the tables for the sake of self-joins, and whether they may be replaced at all."""

    tables: Tables | None = None
    statistics: Statistics | None = None
    always: bool = False
    """Whatever Spark's own join is expected to take."""


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
    text: str,
    filename: str,
    dialect: str,
    *,
    version: str,
    standalone: str | None = None,
    stream: bool = False,
    joins: Joins | None = None,
    sort: str = "auto",
) -> CompiledSql:
    """Without `joins`, self-joins are left alone and not spoken of. `sort` says who sorts rows, the worker or
    Spark."""
    read = read_statement(text, filename, dialect)
    views = tuple(
        PlannedView(view.name, view.marker, view.reads, row_plan(view.clause, text, filename, stream, sort))
        for view in read.views
    )
    if stream:
        statement = on_stream(PlannedStatement(text, filename, read.query, views))
    elif joins is None:
        statement = PlannedStatement(text, filename, read.query, views)
    else:
        statement = PlannedStatement(text, filename, *_joined(read.query, views, filename, joins, version, sort))
    return CompiledSql(statement, version, standalone, stream)


def _joined(
    query: exp.Query, views: tuple[PlannedView, ...], filename: str, joins: Joins, version: str, sort: str
) -> tuple[exp.Query, tuple[PlannedView, ...], tuple[PlannedJoin, ...], tuple[LeftAlone, ...]]:
    plans: dict[int, tuple[Compiled, float]] = {}

    def worth(bound: BoundQuery) -> str | None:
        try:
            options = Options(strategy=Strategy(sort=sort), statistics=joins.statistics)
            compiled = compile_bound(bound, options, version=version)
        except SaseError as error:
            return error.diagnostics[0].message
        except OptionError as error:
            return str(error)
        own = own_join.seconds(compiled.choices)
        plans[id(bound)] = (compiled, own)
        expected = compiled.choices.chosen.cost.seconds
        if joins.always or expected < WORTH * own:
            return None
        return f"a pattern is not expected to be much faster: {expected:.2g} s, and Spark's own join {own:.2g} s"

    found = replace_joins(query, filename, joins.tables, len(views), worth)
    planned = []
    for view in found.views:
        compiled, own = plans[id(view.query)]
        planned.append(
            PlannedJoin(view.name, view.marker, view.reads, compiled.choices, compiled.physical, view.steady, own)
        )
    left = tuple(LeftAlone(each.select, each.reason) for each in found.left)
    return found.query, views, tuple(planned), left
