"""A statement whose clauses have plans, and what is left of it: SQL over tables and views."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from sase.compiler.core.ctes import defined
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.scalars import sql
from sase.compiler.plan.choose import Choices
from sase.compiler.plan.physical import PhysicalPlan
from sase.compiler.plan.rows import RowPlan


@dataclass(frozen=True)
class PlannedView:
    """A clause of a statement, what it reads, and how it is computed."""

    name: str
    marker: str
    reads: exp.Query
    plan: RowPlan


@dataclass(frozen=True)
class PlannedRows:
    """Rows of tables that a clause reads beside matches: they go on as they are, unless they came too late."""

    name: str
    marker: str
    reads: exp.Query
    place: int
    """Of the column that is their time."""


@dataclass(frozen=True)
class Read:
    """What a clause reads of another one, under a name of its own, as it may read it more than once."""

    name: str
    marker: str
    view: PlannedView


@dataclass(frozen=True)
class Followed:
    """How a clause follows a stream: the one of the same place in the statement."""

    tables: tuple[str, ...]
    """The tables that are followed,"""
    inner: tuple[Read, ...] = ()
    """the clauses whose matches are,"""
    beside: tuple[PlannedRows, ...] = ()
    """and the rows of these tables that stand beside matches."""
    reads: exp.Query | None = None
    """What the clause reads, over the two."""
    behind: int = 0
    """How far behind the watermark it works, in ticks: so long after their time may these matches come."""
    late: tuple[str, ...] | None = None
    """The columns of a row that came too late; None for those that are remembered, and no column where another clause
    tells of the same rows."""

    @property
    def sources(self) -> tuple[Read | PlannedRows, ...]:
        return (*self.inner, *self.beside)


@dataclass(frozen=True)
class PlannedJoin:
    """A SELECT's FROM, JOIN and WHERE that became a pattern, what its events are read by, and how it is evaluated."""

    name: str
    marker: str
    reads: Mapping[str, exp.Query]
    """By event type."""
    choices: Choices
    physical: PhysicalPlan
    steady: bool
    """It is right only where the session's clocks never change."""
    own_seconds: float
    """What Spark's own join is expected to take."""


@dataclass(frozen=True)
class LeftAlone:
    """A SELECT that joins and runs as it stands, and why."""

    select: str
    reason: str


@dataclass(frozen=True)
class PlannedStatement:
    text: str
    filename: str
    query: exp.Query
    views: tuple[PlannedView, ...]
    joins: tuple[PlannedJoin, ...] = ()
    left: tuple[LeftAlone, ...] = ()
    followed: tuple[Followed, ...] = ()
    """On a stream, for each of the views."""
    tellers: tuple[PlannedView | PlannedRows, ...] = ()
    """Of what only other clauses read, that which tells of late rows."""

    @property
    def all_views(self) -> tuple[PlannedView | PlannedJoin, ...]:
        return (*self.views, *self.joins)

    @property
    def streams(self) -> tuple[str, ...]:
        """The tables that are followed."""
        return tuple(dict.fromkeys(table for each in self.followed for table in each.tables))

    @property
    def ordered(self) -> bool:
        """Whether the rows have an order that is asked for."""
        return bool(self.query.args.get("order"))

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it reads, as they are named, without views and common table expressions."""
        found: dict[str, None] = {}
        markers = {view.marker for view in self.all_views}
        events = (reads for join in self.joins for reads in join.reads.values())
        for tree in (*(view.reads for view in self.views), *events, self.query):
            for table in tree.find_all(exp.Table):
                inside = (not table.db and table.name in markers) or defined(table) is not None
                if table.name and not inside:
                    found[".".join(part.name for part in table.parts)] = None
        return tuple(found)


Named = PlannedView | PlannedJoin | PlannedRows | Read
"""What a query knows by a name of ours."""


def printed(query: exp.Query, views: Sequence[Named], pretty: bool = False) -> str:
    """The text for `spark.sql`, in which views are `{name}`. Braces of the user are doubled, if there are views."""
    text = sql(query, pretty=pretty)
    used = used_by(query, views)
    if used:
        text = text.replace("{", "{{").replace("}", "}}")
        for view in used:
            text = re.sub(rf"\b{view.marker}\b", f"{{{view.name}}}", text)
    return text


def used_by(query: exp.Query, views: Sequence[Named]) -> list[Named]:
    names = {table.name for table in query.find_all(exp.Table)}
    return [view for view in views if view.marker in names]
