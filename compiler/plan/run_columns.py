"""The physical plan of runs: what is read of the events, what travels, and what a match keeps."""

from __future__ import annotations

from sase.compiler.core import scalars
from sase.compiler.core.errors import Diagnostic, SaseError
from sase.compiler.core.fields import attribute_of, of_event
from sase.compiler.plan.automaton import Automaton
from sase.compiler.plan.columns import Columns, in_order, type_test, where_some_fills
from sase.compiler.plan.logical import Plan
from sase.compiler.plan.physical import (
    Buckets,
    Choose,
    Ends,
    Fill,
    PhysicalPlan,
    Read,
    Release,
    Remember,
    Result,
    Runs,
    Shuffle,
    Sort,
    Step,
)
from sase.compiler.plan.runs import RunPlanner

EVENT, TIME, NUMBER = "_sase_event", "_sase_time", "_sase_place"


class RunColumns(Columns):
    def __init__(self, plan: Plan, stream: bool) -> None:
        super().__init__(plan, stream)
        self.carried = {variable.name: set() for variable in plan.query.positive}

    def plan_all(self) -> PhysicalPlan:
        query = self.query
        found = RunPlanner(query, EVENT, TIME, NUMBER).plan()
        if self.stream and query.within is None:
            self.refuse_endless(found.rows.automaton)
        result = self.result()
        emit = {variable.name: in_order(variable, self.carried[variable.name]) for variable in query.positive}
        types = {
            name: dict(columns) for name, columns in self.types(emit, query.predicates, query.equivalences).items()
        }
        fills = tuple(Fill(name, parts, parts) for name, parts in found.wanted.items())
        present = [f"{of_event(key)} IS NOT NULL" for key in found.keys]
        if query.strategy == "skip till next match":
            ways = dict.fromkeys(fill.condition for fill in fills)
            relevant = [f"({' OR '.join(ways)})", *present]
            where = where_some_fills(map(self.fill, query.variables))
        else:
            relevant, where = present, None
            asked = {attribute_of(key) for key in found.keys}
            for name, declared in query.others.items():
                types.setdefault(name, {column: kind for column, kind in declared.items() if column in asked})
            if self.stream:  # where all events come this far, and tell what time it is
                relevant = [scalars.sql(type_test(query.type, types)), *present]
        columns = tuple(dict.fromkeys(name for names in emit.values() for name in names))
        runs = Runs(
            pattern=found.rows,
            keys=found.rows.by,
            event=EVENT,
            columns=columns,
            relevant=" AND ".join(relevant) or None,
            values=found.values,
            symbols=found.symbols,
            arrays=frozenset(name for name, loop in query.loops.items() if not loop.single),
            first=found.first,
            last=found.last,
            number=NUMBER,
            chosen=found.chosen,
        )
        choose = [Choose(False, tuple(query.selection.items()), query.consume == "exclusive")] if found.chosen else []
        by = found.rows.by
        together: list[Step] = [Shuffle(by, self.plan.strategy.partitions if by else 1)]
        if self.stream:
            remembered = {TIME, *found.rows.by, *self.tie_breaker, *columns, *runs.asked}
            together = [Release(), Buckets(found.rows.by), Remember(tuple(sorted(remembered)))]
        together.append(Sort((*found.rows.by, TIME, *self.tie_breaker)))
        return PhysicalPlan(
            query=query,
            stream=self.stream,
            steps=(Read(types, where), *fills, *together, runs, *choose, result),
            emit=emit,
            selected=(),
            roles=self.names.roles,
            flags=self.flags,
        )

    def refuse_endless(self, automaton: Automaton) -> None:
        """A stream must be able to forget: without a window, a run is over after so many events, or never."""
        if not automaton.is_endless:
            return
        query = self.query
        loops = [name for name, loop in query.loops.items() if loop.most is None]
        if query.strategy == "skip till next match" or not loops:
            found = Diagnostic(
                f"a stream needs WITHIN: without a window, {query.strategy} may wait for its next event for ever",
                query.span,
                "add a window, such as WITHIN 12 hours",
            )
        else:
            variable = query.variable(loops[0])
            kind = " or ".join(variable.types)
            found = Diagnostic(
                "a stream needs WITHIN, or an upper bound: this loop may go on for ever, and the state with it",
                variable.span,
                f"add a window, such as WITHIN 12 hours, or a bound, {kind}{{1,100}} {variable.name}",
            )
        raise SaseError([found], query.text, query.filename)

    def result(self) -> Result:
        query = self.query
        for variable in query.positive:
            self.carry((variable.name, query.time))
            if query.returns is None:
                self.carry(*((variable.name, attribute.name) for attribute in variable.attributes.values()))
        names = tuple(variable.name for variable in query.positive)
        times = Ends(names[0], names[-1], at_window_end=query.timed_out)
        moment = self.moment([names[-1]])
        if not query.timed_out:
            return self.grouped(Result(self.returned(), names, times, moment=moment))
        shown = query.result_variables
        return self.grouped(Result(self.returned(), shown, times, moment=moment, reached=shown))
