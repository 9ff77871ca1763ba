"""The physical plan of runs: what is read of the events, what travels, and what a match keeps."""

from __future__ import annotations

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.fields import attribute_of, of_event
from sase.compiler.plan.columns import Columns, in_order, where_some_fills
from sase.compiler.plan.logical import Plan
from sase.compiler.plan.physical import Ends, Fill, PhysicalPlan, Read, Result, Runs, Shuffle, Sort
from sase.compiler.plan.runs import RunPlanner

EVENT, TIME = "_sase_event", "_sase_time"


class RunColumns(Columns):
    def __init__(self, plan: Plan, stream: bool) -> None:
        super().__init__(plan, stream)
        self.carried = {variable.name: set() for variable in plan.query.positive}

    def plan_all(self) -> PhysicalPlan:
        query = self.query
        found = RunPlanner(query, EVENT, TIME).plan()
        result = self.result()
        emit = {variable.name: in_order(variable, self.carried[variable.name]) for variable in query.positive}
        types = {
            name: dict(columns) for name, columns in self.types(emit, query.predicates, query.equivalences).items()
        }
        fills = tuple(Fill(name, (sql,), (sql,)) for name, sql in found.wanted.items())
        present = [f"{of_event(key)} IS NOT NULL" for key in found.keys]
        if query.strategy == "skip till next match":
            relevant = [f"({' OR '.join(dict.fromkeys(found.wanted.values()))})", *present]
            where = where_some_fills(map(self.fill, query.variables))
        else:
            relevant, where = present, None
            asked = {attribute_of(key) for key in found.keys}
            for name, declared in query.others.items():
                types.setdefault(name, {column: kind for column, kind in declared.items() if column in asked})
        columns = tuple(dict.fromkeys(name for names in emit.values() for name in names))
        runs = Runs(
            pattern=found.rows,
            keys=found.rows.by,
            event=EVENT,
            columns=columns,
            relevant=" AND ".join(relevant) or None,
            values=found.values,
            arrays=frozenset(name for name, loop in query.loops.items() if not loop.single),
            first=found.first,
            last=found.last,
        )
        together = (
            Shuffle(found.rows.by, self.plan.strategy.partitions),
            Sort((*found.rows.by, TIME, *self.tie_breaker)),
        )
        return PhysicalPlan(
            query=query,
            stream=self.stream,
            steps=(Read(types, where), *fills, *together, runs, result),
            emit=emit,
            selected=(),
            roles=self.names.roles,
            flags=self.flags,
        )

    def result(self) -> Result:
        query = self.query
        columns: tuple[tuple[str, str], ...] | None = None
        for variable in query.positive:
            self.carry((variable.name, query.time))
        if query.returns is None:
            for variable in query.positive:
                self.carry(*((variable.name, attribute.name) for attribute in variable.attributes.values()))
        else:
            listed = [(scalars.sql(output.value), output.name) for output in query.returns]
            if query.composite is not None:
                listed.insert(0, (scalars.sql(exp.Literal.string(query.composite)), query.type))
            for output in query.returns:
                self.carry(*((column.table, attribute_of(column.name)) for column in scalars.columns(output.value)))
            columns = tuple(listed)
        names = tuple(variable.name for variable in query.positive)
        return Result(columns, names, Ends(names[0], names[-1], at_window_end=False))
