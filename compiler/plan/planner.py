"""Logical plan → physical plan: what each operator comes to in columns, SQL texts and tables, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import EquivalenceTest
from sase.compiler.core.fields import Path, attribute_of, of_event, of_variable
from sase.compiler.plan.columns import (
    Columns,
    chain_sql,
    declared,
    function_name,
    function_of,
    in_order,
    operand_sql,
    where_some_fills,
)
from sase.compiler.plan.counting import counted as counted_by_kernel
from sase.compiler.plan.counting import why_enumerated
from sase.compiler.plan.logical import Negation, Plan
from sase.compiler.plan.physical import (
    AntiJoin,
    Clause,
    Compare,
    Computed,
    Ends,
    Exclude,
    Forbidden,
    Grouped,
    Interval,
    Kernel,
    LookUp,
    NegatedState,
    PhysicalPlan,
    Read,
    Result,
    Select,
    Single,
    Slices,
    Step,
    Within,
)
from sase.compiler.plan.separate import Term


def physical_plan(plan: Plan, stream: bool = False) -> PhysicalPlan:
    if plan.query.runs:
        from sase.compiler.plan.run_columns import RunColumns  # and with it, all that row patterns need

        return RunColumns(plan, stream).plan_all()
    if not plan.query.is_sequence:
        from sase.compiler.plan.combination import CombinationPlanner

        return CombinationPlanner(plan, stream).plan_all()
    return _Planner(plan, stream).plan_all()


class _Planner(Columns):
    """Of a sequence."""

    def __init__(self, plan: Plan, stream: bool) -> None:
        super().__init__(plan, stream)
        self.carried = {variable.name: set() for variable in plan.query.positive}

    def plan_all(self) -> PhysicalPlan:
        waits = self.query.reported or (
            self.stream and (self.plan.negations or self.query.arrivals or self.query.grouped is not None)
        )
        kernel = self.kernel() if self.plan.needs_kernel or waits else None
        if kernel is not None and self.query.grouped is not None and why_enumerated(self.plan) is None:
            return self.counted(kernel)
        selection = [*self.window(), *self.selection()]
        pairs = [*self.looked_up()] if self.stream else []
        looked_up = [component for component, _ in pairs]
        negation = [*self.anti_joins()] if not self.stream else [test for _, test in pairs if test.told]
        decide = [*self.decide()]
        if kernel is not None and not (selection or negation or decide or kernel.cross):
            kernel = self.one_of_many(kernel)
        self.check_stream(selection)
        self.check_stream(negation)
        result = self.result()
        emit = self.with_added(self.emit())
        inside = [self.query.variable(state.variable) for state in kernel.negated] if kernel else []
        fills = [*map(self.fill, (*self.query.positive, *inside)), *(component.fill for component in looked_up)]
        anti_joined = [each.fill for join in negation if isinstance(join, AntiJoin) for each in join.components]
        types = self.types(emit, (*self.query.predicates, *self.query.decided), self.query.equivalences)
        some = None if self.stream or self.query.arrivals else where_some_fills([*fills, *anti_joined])
        read = Read(types, some)
        sequences: list[Step] = [Single()]
        travelling = set[str]()
        if kernel is not None:
            travelling = self.travelling(kernel, emit) | {name for each in looked_up for name in each.columns}
            sequences = [
                *self.terms.values(),
                *self.keys,
                *self.together(kernel, travelling, self.slices(kernel)),
                kernel,
                *looked_up,
            ]
        after = [*negation, *selection] if self.plan.negation_first else [*selection, *negation]
        return PhysicalPlan(
            query=self.query,
            stream=self.stream,
            steps=(read, *self.arrive(fills), *fills, *sequences, *after, *decide, result),
            emit=emit,
            selected=self.selected(read, travelling) if kernel else (),
            roles=self.names.roles,
            flags=self.flags,
        )

    def one_of_many(self, kernel: Kernel) -> Kernel:
        """Where the kernel decides everything, it may stop at the first match of those that give equal results."""
        name = self.query.one_per
        if name is None:
            return kernel
        shown = {column.name for output in self.query.returns or () for column in scalars.columns(output.value)}
        keys = {test.attribute(name) for test in self.plan.scan.partition}
        return replace(kernel, one_per=name, one_per_group=shown <= keys)

    def counted(self, kernel: Kernel) -> PhysicalPlan:
        """No match is built: the kernel adds up what all of them come to."""
        own: dict[str, set[str]] = {}

        def column(variable: str, value: exp.Expr) -> str:
            own.setdefault(variable, set()).update(each.name for each in scalars.columns(value))
            return self.term(Term(variable, value))

        counted = counted_by_kernel(self.plan, kernel.keys, column, self.names.roles["total"])
        loops = {name: (loop.least, loop.most) for name, loop in self.query.loops.items()}
        kernel = replace(kernel, totals=counted.totals, shown=counted.shown, loops=loops)
        read_of = {name: in_order(self.query.variable(name), columns) for name, columns in own.items()}
        inside = [self.query.variable(state.variable) for state in kernel.negated]
        fills = [*map(self.fill, (*self.query.positive, *inside))]
        types = self.types(read_of, self.query.predicates, self.query.equivalences)
        read = Read(types, None if self.stream else where_some_fills(fills))
        travelling = self.travelling(kernel, {})
        together = self.together(kernel, travelling, self.slices(kernel))
        by = tuple((scalars.column_sql(name), name) for name in counted.shown)
        result = replace(self.result(), columns=counted.columns, grouped=Grouped(by, (), None))
        return PhysicalPlan(
            query=self.query,
            stream=self.stream,
            steps=(read, *fills, *self.terms.values(), *self.keys, *together, kernel, result),
            emit={},
            selected=self.selected(read, travelling),
            roles=self.names.roles,
            flags=self.flags,
        )

    def slices(self, kernel: Kernel) -> Slices | None:
        length = self.plan.scan.slice
        if length is None:
            return None
        looks_ahead = any(state.interval.before is None for state in kernel.negated)
        return Slices(length, looks_ahead, by_span=self.tells)

    # ---- the kernel -----------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        construction = self.plan.construction
        where = [
            (str(predicate), clause) for predicate in construction.predicates for clause in self.clauses(predicate)
        ]
        for test in construction.equivalences:
            for left, right in pairwise(test.positive):
                where.append((f"{'.'.join(left)} = {'.'.join(right)}", (self.equal(left, right),)))
        negated = tuple(self.negated_state(negation) for negation in construction.negations)
        for _, clause in where:
            self.require_values(clause, {variable.name for variable in self.query.positive})
        for state in negated:
            for clause in state.where:
                self.require_values(clause, {state.variable})
        tests = self.plan.scan.partition + self.plan.scan.cross
        columns = tuple(map(self.key, tests, self.key_names))
        keys, cross = columns[: len(self.plan.scan.partition)], columns[len(self.plan.scan.partition) :]
        computes_with_time = self.stream or self.plan.scan.slice is not None
        return Kernel(
            positive=tuple(variable.name for variable in self.query.positive),
            negated=negated,
            where=tuple(clause for _, clause in where),
            conditions=tuple(condition for condition, _ in where),
            window_in_scan=self.plan.scan.window,
            window_in_construction=construction.window,
            keys=keys,
            cross=cross,
            stacks=not construction.basic,
            time=self.names.roles["time"] if computes_with_time else self.query.time,
            furthest=self.query.furthest,
        )

    def negated_state(self, negation: Negation) -> NegatedState:
        where = [clause for predicate in negation.predicates for clause in self.clauses(predicate)]
        for test in negation.equivalences:
            if test not in self.plan.scan.partition:
                # The last positive is bound first, so the comparison is possible from the start.
                partner = test.positive[-1]
                attribute = test.attribute(negation.variable)
                assert attribute is not None
                where.append((self.equal((negation.variable, attribute), partner),))
        return NegatedState(negation.variable, self.interval(negation.variable), tuple(where))

    def interval(self, negated: str) -> Interval:
        after, before = self.query.neighbours(negated)
        return Interval(
            after,
            before,
            since=self.query.last.name if after is None else None,
            until=self.query.first.name if before is None else None,
        )

    def key(self, test: EquivalenceTest, name: str) -> str:
        """The column of a test: the attribute itself, or one of ours where it goes by several names."""
        places = test.positive + test.negated
        names = {attribute for _, attribute in places}
        # A lone positive variable need not agree with anything: without a value, no negated event forbids it.
        for variable, attribute in places if len(test.positive) > 1 else test.negated:
            self.not_null.setdefault(variable, {})[attribute] = None
        if len(names) == 1 and not any(isinstance(name, Path) for name in names):
            return names.pop()
        inside = {negation.variable for negation in self.plan.construction.negations}
        if self.stream:
            inside |= {negation.variable for negation in self.plan.negations}
        cases = " ".join(
            f"WHEN {self.flag(variable)} THEN {of_event(attribute)}"
            for variable, attribute in places
            if variable in inside or not self.query.variable(variable).negated
        )
        self.keys.append(Computed(name, f"CASE {cases} END"))
        return name

    def require_values(self, clause: Clause, variables: set[str]) -> None:
        """A comparison with NULL never holds, so an event that lacks the value of a lone comparison drops out early.

        Not so a positive event in a comparison with a negated one: without the value, nothing forbids it.
        """
        match clause:
            case (Compare() as only,):
                for variable, column in ((only.left, only.left_column), (only.right, only.right_column)):
                    ours = any(column == term.name for term in self.terms.values())
                    if variable in variables and not ours:
                        self.not_null.setdefault(variable, {})[column] = None

    # ---- after the kernel -----------------------------------------------------------------------

    def window(self) -> Iterator[Within]:
        if self.plan.window:
            first, last = self.query.first.name, self.query.last.name
            self.carry((first, self.query.time), (last, self.query.time))
            yield Within(first, last)

    def selection(self) -> Iterator[Select]:
        conditions = []
        for test in self.plan.selection.equivalences:
            self.carry(*test.positive)
            conditions.append(chain_sql(test.positive))
        for predicate in self.plan.selection.predicates:
            self.carry_columns(predicate.condition)
            conditions.append(str(predicate))
        if conditions:
            yield Select(tuple(conditions))

    def anti_joins(self) -> Iterator[AntiJoin]:
        """Events are read once for all negated components for which one join will do."""
        alike: dict[tuple[object, ...], list[Negation]] = {}
        for negation in self.plan.negations:
            alike.setdefault(negation.alike, []).append(negation)
        for number, negations in enumerate(alike.values(), 1):
            components = [self.forbidden(negation, several=len(negations) > 1) for negation in negations]
            trailing = [each.interval.until for each in components if each.interval.until is not None]
            ends = [each.interval.before for each in components if each.interval.before is not None]
            yield AntiJoin(
                function=function_of("without", "_or_".join(each.variable for each in negations), number),
                components=tuple(components),
                common=tuple(self.common(negations)) if len(negations) > 1 else (),
                end=trailing[0] if trailing else max(ends, key=self.query.chain.variables.index),
                bucket=self.plan.bucket,
            )

    def forbidden(self, negation: Negation, several: bool) -> Forbidden:
        variable, interval = self.query.variable(negation.variable), self.interval(negation.variable)
        conditions, own = self.after_the_kernel(negation, negation.equivalences)
        if several:
            conditions = conditions[len(negation.equivalences) :]  # the tests are common to all
        own |= {self.query.time, *self.tie_breaker}
        for name in interval.variables:
            self.carry(*((name, column) for column in (self.query.time, *self.tie_breaker)))
        return Forbidden(variable.name, interval, self.fill(variable), in_order(variable, own), tuple(conditions))

    def common(self, negations: Sequence[Negation]) -> Iterator[str]:
        """An event has one value of an attribute, whichever of the components it is."""
        for test in negations[0].equivalences:
            values = []
            for negation in negations:
                attribute = test.attribute(negation.variable)
                assert attribute is not None
                values.append(scalars.sql(of_variable(negation.variable, attribute)))
            yield f"{scalars.sql(of_variable(*test.positive[0]))} = coalesce({', '.join(values)})"

    def looked_up(self) -> Iterator[tuple[LookUp, Exclude]]:
        """The anti-joins of a stream. The interval is the runtime's; only conditions on attributes are left."""
        partition = self.plan.scan.partition
        for index, negation in enumerate(self.plan.negations):
            variable = self.query.variable(negation.variable)
            keyed = all(test.attribute(variable.name) is not None for test in partition)
            left = [test for test in negation.equivalences if not (keyed and test in partition)]
            conditions, own = self.after_the_kernel(negation, left)
            if conditions and not own:
                own.add(self.query.time)
            columns, interval = in_order(variable, own), self.interval(variable.name)
            looked_up = LookUp(variable.name, interval, keyed, self.fill(variable), columns)
            name = scalars.column_sql(variable.name)
            forbidden = f"NOT exists({name}, {name} -> ({' AND '.join(conditions)}) IS TRUE)"
            function = function_name("without", variable, index)
            told = f" with {' and '.join(conditions)}" if conditions else ""
            yield looked_up, Exclude((variable.name,), function, told, forbidden)

    def after_the_kernel(self, negation: Negation, tests: Iterable[EquivalenceTest]) -> tuple[list[str], set[str]]:
        """The conditions on a negated component that Spark is left with, tests first, and its attributes in them."""
        name = negation.variable
        conditions, own = [], set[str]()
        for test in tests:
            partner, attribute = test.positive[0], test.attribute(name)
            assert attribute is not None
            self.carry(partner)
            own.add(attribute_of(attribute))
            self.not_null.setdefault(name, {})[attribute] = None
            conditions.append(chain_sql((partner, (name, attribute))))
        for predicate in negation.predicates:
            self.carry_columns(predicate.condition)
            own |= {column.name for column in scalars.columns(predicate.condition) if column.table == name}
            conditions.append(operand_sql(predicate.condition))
        return conditions, own

    def result(self) -> Result:
        first, last = self.query.first.name, self.query.last.name
        times = Ends(first, last, at_window_end=bool(self.query.trailing))
        if self.query.returns is None:
            for variable in self.query.positive:
                self.carry(*((variable.name, attribute.name) for attribute in declared(variable)))
        elif self.query.timed:
            self.carry((first if times.at_window_end else last, self.query.time))
        return self.grouped(
            Result(
                columns=self.returned(),
                variables=tuple(variable.name for variable in self.query.positive),
                times=times,
                moment=self.moment([last]),
            )
        )

    def emit(self) -> dict[str, tuple[str, ...]]:
        if not self.plan.pruned:
            for variable in self.query.positive:
                self.carry(*((variable.name, attribute.name) for attribute in declared(variable)))
        if not any(self.carried.values()):
            self.carry((self.query.last.name, self.query.time))  # RETURN of constants: a match is still a row
        return {
            variable.name: in_order(variable, self.carried[variable.name])
            for variable in self.query.positive
            if self.carried[variable.name]
        }
