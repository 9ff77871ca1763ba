"""Logical plan → physical plan: what each operator comes to in columns, SQL texts and tables, and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import Attribute, BoundQuery, EquivalenceTest, Place, Predicate, Variable
from sase.compiler.core.errors import Diagnostic, SaseError
from sase.compiler.core.fields import Path, attribute_of, of_event, of_variable
from sase.compiler.plan.logical import Negation, Plan
from sase.compiler.plan.names import Names
from sase.compiler.plan.physical import (
    AntiJoin,
    Buckets,
    Clause,
    Compare,
    Computed,
    Exclude,
    Fill,
    Holds,
    Interval,
    Kernel,
    LookUp,
    NegatedState,
    PhysicalPlan,
    Read,
    Release,
    Remember,
    Result,
    Select,
    Shuffle,
    Single,
    Slices,
    Sort,
    Step,
    Within,
)
from sase.compiler.plan.separate import Comparison, Term, separate


def physical_plan(plan: Plan, stream: bool = False) -> PhysicalPlan:
    return _Planner(plan, stream).plan_all()


class _Planner:
    def __init__(self, plan: Plan, stream: bool) -> None:
        self.plan = plan
        self.stream = stream
        self.query = plan.query
        self.names = Names(_users_names(plan.query))
        tests = plan.scan.partition + plan.scan.cross
        self.key_names = [self.names.fresh(f"key_{at + 1}") for at in range(len(tests))]
        self.flags = self.names.prefix_for(variable.name for variable in plan.query.variables)
        self.terms: dict[tuple[str, str], Computed] = {}  # by variable and SQL
        self.keys: list[Computed] = []
        self.not_null: dict[str, dict[str, None]] = {}  # by variable, the columns an event must have to take part
        self.carried: dict[str, set[str]] = {variable.name: set() for variable in plan.query.positive}

    def plan_all(self) -> PhysicalPlan:
        # Each asks for the columns that it needs, so what is read and carried is known at the end.
        kernel = self.kernel() if self.plan.needs_kernel or (self.stream and self.plan.negations) else None
        selection = [*self.window(), *self.selection()]
        pairs = [*self.looked_up()] if self.stream else []
        looked_up = [component for component, _ in pairs]
        negation = [*self.anti_joins()] if not self.stream else [test for _, test in pairs if test.conditions]
        result = self.result()
        emit = self.emit()
        inside = [self.query.variable(state.variable) for state in kernel.negated] if kernel else []
        fills = [*map(self.fill, (*self.query.positive, *inside)), *(component.fill for component in looked_up)]
        anti_joined = [join.fill for join in negation if isinstance(join, AntiJoin)]
        read = Read(self.types(emit), None if self.stream else _where([*fills, *anti_joined]))
        sequences: list[Step] = [Single()]
        if kernel is not None:
            gathered = self.on_a_stream(kernel, emit, looked_up) if self.stream else self.in_batch(kernel)
            sequences = [*self.terms.values(), *self.keys, *gathered, kernel, *looked_up]
        after = [*negation, *selection] if self.plan.negation_first else [*selection, *negation]
        return PhysicalPlan(
            query=self.query,
            stream=self.stream,
            steps=(read, *fills, *sequences, *after, result),
            emit=emit,
            selected=self.selected(read, kernel, emit, looked_up) if kernel else (),
            roles=self.names.roles,
            flags=self.flags,
        )

    # ---- bringing events together ---------------------------------------------------------------

    def in_batch(self, kernel: Kernel) -> Iterator[Step]:
        length, keys = self.plan.scan.slice, kernel.keys
        by = keys if length is None else (*keys, self.names.roles["slice"])
        if length is not None:
            yield Slices(length, any(state.interval.before is None for state in kernel.negated))
        # By time alone, keys only order the events of a slice.
        shuffled = by[len(keys) :] if self.plan.strategy.parallel == "time" else by
        yield Shuffle(shuffled, self.plan.strategy.partitions)
        yield Sort((*by, kernel.time, *self.tie_breaker))

    def on_a_stream(
        self, kernel: Kernel, emit: Mapping[str, tuple[str, ...]], looked_up: Iterable[LookUp]
    ) -> Iterator[Step]:
        yield Release()
        yield Buckets(kernel.keys)
        held = {column for columns in emit.values() for column in columns} | kernel.terms
        held |= {*kernel.keys, *kernel.cross, kernel.time, *self.tie_breaker, self.names.roles["states"]}
        held |= {column for component in looked_up for column in component.columns}
        yield Remember(tuple(sorted(held)))
        yield Sort((*kernel.keys, kernel.time, *self.tie_breaker))

    @property
    def tie_breaker(self) -> tuple[str, ...]:
        return () if self.query.order is None else (self.query.order,)

    def selected(
        self, read: Read, kernel: Kernel, emit: Mapping[str, tuple[str, ...]], looked_up: Iterable[LookUp]
    ) -> tuple[str, ...]:
        """The event's own columns that travel: emitted, compared, tie-breaker and keys, in the source's order."""
        wanted = {column for columns in emit.values() for column in columns} | kernel.terms
        wanted |= {*kernel.keys, *kernel.cross, kernel.time, *self.tie_breaker}
        wanted |= {column for component in looked_up for column in component.columns}
        if self.stream:  # an event that comes too late must be known by its type and time
            wanted |= {self.query.type, self.query.time}
        in_order = dict.fromkeys([self.query.time, self.query.type])
        for columns in read.types.values():
            in_order.update(dict.fromkeys(columns))
        return tuple(column for column in in_order if column in wanted)

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

    def clauses(self, predicate: Predicate) -> list[Clause]:
        separated = separate(predicate)
        assert separated is not None
        return [
            tuple(
                Compare(atom.left.variable, self.term(atom.left), atom.op, atom.right.variable, self.term(atom.right))
                if isinstance(atom, Comparison)
                else Holds(atom.term.variable, self.term(atom.term))
                for atom in clause
            )
            for clause in separated
        ]

    def equal(self, left: Place, right: Place) -> Compare:
        one, other = (self.term(Term(variable, of_variable(variable, name))) for variable, name in (left, right))
        return Compare(left[0], one, "=", right[0], other)

    def term(self, term: Term) -> str:
        """The column that holds a term: the attribute itself, or one that Spark computes where the state is filled."""
        if isinstance(term.value, exp.Column):
            return term.value.name
        sql = scalars.sql(scalars.without_variable(term.value))
        known = self.terms.get((term.variable, sql))
        if known is None:
            number = 1 + sum(variable == term.variable for variable, _ in self.terms)
            name = self.names.fresh(f"{term.variable}_{number}")
            known = Computed(name, f"CASE WHEN {self.flag(term.variable)} THEN {sql} END")
            self.terms[term.variable, sql] = known
        return known.name

    def flag(self, variable: str) -> str:
        """Whether an event may fill the variable. Only such events are asked for a term, so that an expression never
        fails on another type's events."""
        return scalars.column_sql(self.flags + variable)

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

    def fill(self, variable: Variable) -> Fill:
        type_test = scalars.sql(_type_test(self.query.type, variable.types))
        present = [f"{of_event(attribute)} IS NOT NULL" for attribute in self.not_null.get(variable.name, {})]
        simple = {
            _operand_sql(scalars.without_variable(predicate.condition)): _is_plain(predicate.condition)
            for predicate in self.plan.scan.simple.get(variable.name, ())
        }
        plain = [sql for sql, is_plain in simple.items() if is_plain]
        return Fill(variable.name, (type_test, *present, *simple), (type_test, *plain))

    # ---- after the kernel -----------------------------------------------------------------------

    def carry(self, *places: Place) -> None:
        for variable, attribute in places:
            if variable in self.carried:
                self.carried[variable].add(attribute_of(attribute))

    def carry_columns(self, node: exp.Expr) -> None:
        self.carry(*((column.table, column.name) for column in scalars.columns(node)))

    def window(self) -> Iterator[Within]:
        if self.plan.window:
            first, last = self.query.first.name, self.query.last.name
            self.carry((first, self.query.time), (last, self.query.time))
            yield Within(first, last)

    def selection(self) -> Iterator[Select]:
        conditions = []
        for test in self.plan.selection.equivalences:
            self.carry(*test.positive)
            conditions.append(_chain_sql(test.positive))
        for predicate in self.plan.selection.predicates:
            self.carry_columns(predicate.condition)
            conditions.append(str(predicate))
        if conditions:
            yield Select(tuple(conditions))

    def anti_joins(self) -> Iterator[AntiJoin]:
        for index, negation in enumerate(self.plan.negations):
            variable, interval = self.query.variable(negation.variable), self.interval(negation.variable)
            conditions, own = self.after_the_kernel(negation, negation.equivalences)
            own |= {self.query.time, *self.tie_breaker}
            for name in interval.variables:
                self.carry(*((name, column) for column in (self.query.time, *self.tie_breaker)))
            yield AntiJoin(
                variable=variable.name,
                interval=interval,
                function=_function(variable, index),
                fill=self.fill(variable),
                columns=_in_order(variable, own),
                conditions=tuple(conditions),
                bucket=self.plan.bucket,
            )

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
            columns, interval = _in_order(variable, own), self.interval(variable.name)
            looked_up = LookUp(variable.name, interval, keyed, self.fill(variable), columns)
            yield looked_up, Exclude(variable.name, _function(variable, index), tuple(conditions))

    def after_the_kernel(self, negation: Negation, tests: Iterable[EquivalenceTest]) -> tuple[list[str], set[str]]:
        """The conditions on a negated component that Spark is left with, and its attributes in them."""
        name = negation.variable
        conditions, own = [], set[str]()
        for test in tests:
            partner, attribute = test.positive[0], test.attribute(name)
            assert attribute is not None
            self.carry(partner)
            own.add(attribute_of(attribute))
            self.not_null.setdefault(name, {})[attribute] = None
            conditions.append(_chain_sql((partner, (name, attribute))))
        for predicate in negation.predicates:
            self.carry_columns(predicate.condition)
            own |= {column.name for column in scalars.columns(predicate.condition) if column.table == name}
            conditions.append(_operand_sql(predicate.condition))
        return conditions, own

    def result(self) -> Result:
        columns: list[tuple[str, str]] | None = None
        if self.query.returns is None:
            for variable in self.query.positive:
                self.carry(*((variable.name, attribute.name) for attribute in variable.attributes.values()))
        else:
            for output in self.query.returns:
                self.carry_columns(output.value)
            columns = [(scalars.sql(output.value), output.name) for output in self.query.returns]
            if self.query.composite is not None:
                columns.insert(0, (scalars.sql(exp.Literal.string(self.query.composite)), self.query.type))
        return Result(
            columns=None if columns is None else tuple(columns),
            variables=tuple(variable.name for variable in self.query.positive),
            first=self.query.first.name,
            last=self.query.last.name,
            at_window_end=bool(self.query.trailing),
        )

    def emit(self) -> dict[str, tuple[str, ...]]:
        if not self.plan.pruned:
            for variable in self.query.positive:
                self.carry(*((variable.name, attribute.name) for attribute in variable.attributes.values()))
        if not any(self.carried.values()):
            self.carry((self.query.last.name, self.query.time))  # RETURN of constants: a match is still a row
        return {
            variable.name: _in_order(variable, self.carried[variable.name])
            for variable in self.query.positive
            if self.carried[variable.name]
        }

    # ---- the source -----------------------------------------------------------------------------

    def types(self, emit: Mapping[str, tuple[str, ...]]) -> dict[str, dict[str, str]]:
        """The columns that the job reads of each type: those it carries, compares, tests or partitions by."""
        read: dict[str, set[str]] = {
            variable.name: set(emit.get(variable.name, ())) for variable in self.query.variables
        }
        for variable in self.query.variables:
            read[variable.name] |= {self.query.time, self.query.type} | (
                {self.query.order} if self.query.order else set()
            )
        for predicate in self.query.predicates:
            for column in scalars.columns(predicate.condition):
                read[column.table].add(column.name)
        for test in self.query.equivalences:
            for name, attribute in test.positive + test.negated:
                read[name].add(attribute_of(attribute))
        kinds: dict[str, exp.DataType] = {}
        declared: dict[str, dict[str, None]] = {}
        for variable in self.query.variables:
            for known in variable.attributes.values():
                if known.name not in read[variable.name] or known.name == self.query.type:
                    continue
                kinds[known.name] = self.one_type(variable, known, kinds.get(known.name, known.kind))
                for type_name in variable.types:
                    if type_name not in known.lacking:
                        declared.setdefault(type_name, {})[known.name] = None
        return {
            name: {
                column: scalars.type_sql(kinds[column]) for column in declared[name] if kinds[column] != scalars.UNKNOWN
            }
            for name in sorted(declared)
        }

    def one_type(self, variable: Variable, known: Attribute, before: exp.DataType) -> exp.DataType:
        """Events of all types travel in one table, so a column has one type in all of them."""
        merged = scalars.wider(before, known.kind)
        if merged is None:
            found = Diagnostic(
                f"{known.name} is {scalars.a_type(known.kind)} here, and {scalars.a_type(before)} in an event type "
                "further left",
                variable.span,
                "rename it in one of the tables, or RETURN only what you need",
            )
            raise SaseError([found], self.query.text, self.query.filename)
        return merged


def _function(variable: Variable, index: int) -> str:
    is_plain = re.fullmatch(r"[A-Za-z_]\w*", variable.name, re.ASCII)
    return f"without_{variable.name if is_plain else index + 1}"


def _users_names(query: BoundQuery) -> Iterator[str]:
    for variable in query.variables:
        yield variable.name
        yield from (attribute.name for attribute in variable.attributes.values())


def _type_test(column: str, types: Iterable[str]) -> exp.Expr:
    tested = exp.Column(this=exp.Identifier(this=column, quoted=True))
    values: list[exp.Expr] = [exp.Literal.string(name) for name in types]
    return exp.EQ(this=tested, expression=values[0]) if len(values) == 1 else exp.In(this=tested, expressions=values)


def _is_plain(node: exp.Expr) -> bool:
    """Made of comparisons between an attribute and a literal: what the statistics of a file can tell."""
    match node:
        case exp.Paren() | exp.Not():
            return _is_plain(node.this)
        case exp.And() | exp.Or():
            return _is_plain(node.left) and _is_plain(node.right)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            sides = {type(side) for side in (node.left, node.right)}
            return sides == {exp.Column, exp.Literal}
        case exp.In():
            return isinstance(node.this, exp.Column) and all(
                isinstance(value, exp.Literal) for value in node.expressions
            )
        case exp.Is():
            return isinstance(node.this, exp.Column)
    return False


def _where(fills: Iterable[Fill]) -> str | None:
    """One of the states is filled, as far as plain conditions tell; None if they tell no more than the types do."""
    ways = {frozenset(fill.plain): fill.plain for fill in fills}
    needed = [plain for parts, plain in ways.items() if not any(other < parts for other in ways)]
    if all(len(plain) == 1 for plain in needed):
        return None
    if len(needed) == 1:
        return " AND ".join(needed[0])
    return " OR ".join(f"({' AND '.join(plain)})" if len(plain) > 1 else plain[0] for plain in needed)


def _operand_sql(node: exp.Expr) -> str:
    text = scalars.sql(node)
    return f"({text})" if isinstance(node, exp.Or) else text


def _chain_sql(places: Iterable[Place]) -> str:
    columns = [of_variable(variable, attribute) for variable, attribute in places]
    return " AND ".join(
        scalars.sql(exp.EQ(this=left.copy(), expression=right.copy())) for left, right in pairwise(columns)
    )


def _in_order(variable: Variable, names: set[str]) -> tuple[str, ...]:
    return tuple(attribute.name for attribute in variable.attributes.values() if attribute.name in names)
