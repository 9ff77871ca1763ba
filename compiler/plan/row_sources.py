"""What a clause on a stream reads: tables, matches of other clauses, and rows of tables beside matches.

FROM and UNION ALL lead to the sources of a query. Each of the matches that they lead to is a stream of its own, also
where two of them are those of one clause: what a plan has in it twice, Spark computes once, without a watermark. A side
of a UNION ALL that leads to tables alone is taken out of the query: it is there that its rows get a watermark, and may
be late. Spark takes no watermark on rows that come from a state, as matches do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sase.compiler.core.ctes import defined, doubled, drop_unused, visible
from sase.compiler.core.scalars import sql
from sase.compiler.plan.row_columns import Origin, Output, Reader
from sase.compiler.plan.rows import RowPlan
from sase.compiler.plan.statement import PlannedRows, PlannedView, Read


def leading(query: exp.Expr) -> Iterator[tuple[exp.Expr, list[exp.Expr]]]:
    """What a query begins with, each SELECT of a UNION ALL: a table mostly, and the names that lead there."""
    match query:
        case exp.SetOperation():
            yield from leading(query.left)
            yield from leading(query.right)
        case exp.Subquery():
            yield from leading(query.this)
        case exp.Select() if (begin := query.args.get("from_")) is not None:
            yield from leading(begin.this)
        case exp.Table() if (cte := defined(query)) is not None:
            for source, way in leading(cte.this):
                yield source, [query, *way]
        case _:
            yield query, [query]


def full_name(table: exp.Expr) -> str:
    return ".".join(part.name for part in table.parts) if isinstance(table, exp.Table) else ""


@dataclass
class Sources:
    """Those of a query that leads to matches."""

    reads: exp.Query
    """The query over them, once they are taken `apart`."""
    views: dict[str, PlannedView]
    """By what stands for them."""
    marker: str
    """What no name in the query begins with."""
    found: list[Read | exp.Query] = field(default_factory=list)
    """Matches, and sides of a UNION ALL that lead to tables."""
    _bodies: dict[int, exp.Expr] = field(default_factory=dict)
    """Of common table expressions that were led to, as they were."""

    @classmethod
    def of(cls, view: PlannedView, views: Sequence[PlannedView]) -> Sources:
        found = cls(view.reads.copy(), {each.marker: each for each in views}, view.marker)
        found._find(found.reads)
        return found

    def times(self, name: str) -> tuple[Origin, ...]:
        """What a column of the query is in each of the sources."""
        outputs = {marker: _output(view.plan) for marker, view in self.views.items()}
        outputs |= {each.marker: outputs[each.view.marker] for each in self.found if isinstance(each, Read)}
        whole = frozenset(id(each) for each in self.found if not isinstance(each, Read))
        return Reader(outputs, whole).origins(self.reads, name) or (None,) * len(self.found)

    def apart(self, places: Sequence[Origin], taken: int) -> tuple[PlannedRows, ...]:
        """The rows beside matches, with the places of their times; `taken` are the numbers of others."""
        beside: list[PlannedRows] = []
        for side, place in zip(self.found, places, strict=True):
            if isinstance(side, Read):
                continue
            assert isinstance(place, int)
            number = taken + len(beside) + 1
            rows = PlannedRows(f"rows_{number}", f"{self.marker}_rows_{number}", _alone(side), place)
            side.replace(exp.select("*").from_(exp.Table(this=exp.to_identifier(rows.marker))))
            beside.append(rows)
        drop_unused(self.reads)
        return tuple(beside)

    def _find(self, query: exp.Expr) -> None:
        """In a query that leads to matches."""
        match query:
            case exp.SetOperation():
                for side in (query.left, query.right):
                    if self._of_matches(side):
                        self._find(side)
                    else:
                        self.found.append(side)
            case exp.Subquery():
                self._find(query.this)
            case exp.Select():
                self._find(query.args["from_"].this)
            case exp.Table() if (cte := defined(query)) is not None:
                if id(cte) in self._bodies:
                    body = self._bodies[id(cte)].copy()
                    cte = doubled(query, cte, body, self._unused(cte.alias))
                self._bodies[id(cte)] = cte.this.copy()
                self._find(cte.this)
            case exp.Table():
                self.found.append(self._read(query))

    def _read(self, table: exp.Table) -> Read:
        view = self.views[table.name]
        times = 1 + sum(isinstance(each, Read) and each.view is view for each in self.found)
        if times == 1:
            return Read(view.name, view.marker, view)
        again = Read(f"{view.name}_{times}", f"{view.marker}_{times}", view)
        table.set("this", exp.to_identifier(again.marker))
        return again

    def _of_matches(self, query: exp.Expr) -> bool:
        return any(isinstance(source, exp.Table) and source.name in self.views for source, _ in leading(query))

    def _unused(self, name: str) -> str:
        text, number = sql(self.reads).lower(), 2
        while f"{name}_{number}".lower() in text:
            number += 1
        return f"{name}_{number}"


def _output(plan: RowPlan) -> Output:
    """The columns of a clause's matches."""
    one = plan.shown == "one row"
    keys = [name for name in plan.by if name not in plan.computed] if one else plan.shown_keys
    return Output([*keys, *(measure.name for measure in plan.clause.measures)], all=one)


def _alone(side: exp.Query) -> exp.Query:
    """A side of a UNION ALL as a query of its own, with the common table expressions that it needs."""
    inside = side.unnest()
    query = inside.copy()
    assert isinstance(query, exp.Query)
    seen = visible(inside, query)
    query.set("with_", exp.With(expressions=seen) if seen else None)
    return query
