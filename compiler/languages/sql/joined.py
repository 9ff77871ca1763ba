"""A statement whose self-joins are replaced: every SELECT that is a pattern gets a view of its matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlglot
from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.ctes import drop_unused, visible
from sase.compiler.core.dataclass import dataclass
from sase.compiler.languages.sql.aliases import LeftAlone, Tables
from sase.compiler.languages.sql.self_joins import is_candidate, self_join
from sase.compiler.languages.sql.statement import unused

UNKNOWN = "nothing is known of its tables here: give them with --table NAME=PATH, or ask in a session that has them"


@dataclass(frozen=True)
class JoinView:
    """The matches of a SELECT's pattern, under a name that the SELECT has in its FROM."""

    name: str
    marker: str
    reads: Mapping[str, exp.Query]
    query: BoundQuery
    steady: bool


@dataclass(frozen=True)
class Left:
    """A SELECT that runs as it stands, and why."""

    select: str
    reason: str


@dataclass(frozen=True)
class Joins:
    query: exp.Query
    views: tuple[JoinView, ...]
    left: tuple[Left, ...]


Worth = Callable[[BoundQuery], str | None]
"""Why a pattern is not worth its while; None if it is."""


def joins_of(query: exp.Query) -> bool:
    """Whether there may be something to replace, so that it pays to look at the tables."""
    return any(map(is_candidate, query.find_all(exp.Select)))


def replace_joins(query: exp.Query, filename: str, tables: Tables | None, taken: int, worth: Worth) -> Joins:
    """Of a statement in any dialect; `taken` is the number of views that it has."""
    if not joins_of(query):
        return Joins(query, (), ())
    text = scalars.sql(query)
    ours = sqlglot.parse_one(text, dialect="spark")
    assert isinstance(ours, exp.Query)
    marker = unused(text, "sase_join")
    found: list[JoinView] = []
    left: list[Left] = []
    inside_first = sorted(ours.find_all(exp.Select, bfs=False), key=lambda select: -select.depth)
    selects = [select for select in inside_first if is_candidate(select)]
    for select in selects:
        name = f"{marker}_{len(found)}"
        title = "matches" if len(selects) == 1 and not taken else f"matches_{taken + len(found) + 1}"
        try:
            if tables is None:
                raise LeftAlone(UNKNOWN)
            join = self_join(select, name, filename, tables, visible)
            if reason := worth(join.query):
                raise LeftAlone(reason)
        except LeftAlone as reason:
            left.append(Left(scalars.sql(select), str(reason)))
            continue
        found.append(JoinView(title, name, join.reads, join.query, join.steady))
        for clause in {*select.args, *join.rest.args}:
            select.set(clause, join.rest.args.get(clause))
    if not found:
        return Joins(query, (), tuple(left))
    drop_unused(ours)
    return Joins(ours, tuple(found), tuple(left))
