"""The physical plan: columns, SQL texts and tables, with nothing left to decide but how to write them down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery, EquivalenceTest, Place, Predicate, Variable
from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.plan.logical import Negation, Plan
from sase.compiler.plan.rules.slice_by_time import needs_kernel
from sase.compiler.plan.separate import Comparison, Term, separate


@dataclass(frozen=True)
class Compare:
    left: str
    left_column: str
    op: str
    right: str
    right_column: str


@dataclass(frozen=True)
class Holds:
    variable: str
    column: str


Clause = tuple[Compare | Holds, ...]


@dataclass(frozen=True)
class NegatedState:
    variable: str
    after: str | None
    before: str | None
    where: tuple[Clause, ...]


@dataclass(frozen=True)
class Fill:
    """Which events may fill a state: Spark SQL conditions on the event's own columns, its type first."""

    variable: str
    parts: tuple[str, ...]

    @property
    def condition(self) -> str:
        return " AND ".join(self.parts)


@dataclass(frozen=True)
class Computed:
    """A column that Spark computes from one event before the shuffle."""

    name: str
    sql: str


@dataclass(frozen=True)
class Kernel:
    """Sequence scan and construction in the runtime: what it is told, and how its input is laid out."""

    positive: tuple[str, ...]
    negated: tuple[NegatedState, ...]
    where: tuple[Clause, ...]
    window_in_scan: bool
    window_in_construction: bool
    keys: tuple[str, ...]
    cross: tuple[str, ...]
    """Multi-PAIS: columns on which an event must agree with an instance of the previous stack to be pushed."""
    stacks: bool
    computed: tuple[Computed, ...]
    slice: int | None
    by_time_only: bool
    """The shuffle goes by time slices alone; keys then only order the events of a slice."""
    looks_ahead: bool
    """A trailing negation in the stacks: its events are needed by slices before their own."""


@dataclass(frozen=True)
class AntiJoin:
    """Negation on time buckets: one function of the job."""

    variable: str
    after: str | None
    before: str | None
    first: str
    last: str
    function: str
    fill: Fill
    columns: tuple[str, ...]
    conditions: tuple[str, ...]
    """Equalities and P-, over `variable.attribute`; the time interval is added by the template."""


@dataclass(frozen=True)
class Outside:
    """In a stream, a negated component that is not in the stacks: each match brings its events along, for Spark."""

    variable: str
    after: str | None
    before: str | None
    keyed: bool
    """Its events share the partition key."""
    function: str
    fill: Fill
    columns: tuple[str, ...]
    conditions: tuple[str, ...]
    """What an event must meet to forbid a match; none if being in the interval is enough."""


@dataclass(frozen=True)
class PhysicalPlan:
    query: BoundQuery
    types: Mapping[str, Mapping[str, str]]
    """The columns that are read and their types, by event type; a tie-breaker that nothing declares is left out."""
    fills: tuple[Fill, ...]
    kernel: Kernel | None
    emit: Mapping[str, tuple[str, ...]]
    window: bool
    selection: tuple[str, ...]
    anti_joins: tuple[AntiJoin, ...]
    output: tuple[tuple[str, str], ...] | None
    """RETURN's columns as (SQL, name); None for one struct a variable."""
    prefix: str
    """Starts the name of every column that is ours; no column of the user starts with it."""
    negation_first: bool
    bucket: int | None
    """Length of an anti-join's time buckets in ticks; None without a window."""
    partitions: int | None
    stream: bool = False
    outside: tuple[Outside, ...] = ()

    def own(self, name: str) -> str:
        return self.prefix + name

    @property
    def kernel_time(self) -> str:
        """The column by which the kernel knows the time: one of ours, in ticks, where Spark computes with it, too."""
        ours = self.stream or (self.kernel is not None and self.kernel.slice)
        return self.own("time") if ours else self.query.time


def physical_plan(plan: Plan, stream: bool = False) -> PhysicalPlan:
    return _Planner(plan, stream).plan_all()


class _Planner:
    def __init__(self, plan: Plan, stream: bool) -> None:
        self.plan = plan
        self.stream = stream
        self.query = plan.query
        self.prefix = _prefix(plan.query)
        self.computed: dict[str, Computed] = {}  # by variable and SQL
        self.not_null: dict[str, dict[str, None]] = {}  # by variable, the columns an event must have to take part
        self.carried: dict[str, set[str]] = {variable.name: set() for variable in plan.query.positive}

    def plan_all(self) -> PhysicalPlan:
        kernel = self.kernel() if needs_kernel(self.plan) or (self.stream and self.plan.negations) else None
        selection = self.selection()
        numbered = list(enumerate(self.plan.negations))
        anti_joins = () if self.stream else tuple(self.anti_join(negation, index) for index, negation in numbered)
        outside = tuple(self.outside(negation, index) for index, negation in numbered) if self.stream else ()
        output = self.output()
        if self.plan.window:
            self.carry((self.query.positive[0].name, self.query.time), (self.query.positive[-1].name, self.query.time))
        emit = self.emit()
        inside = [state.variable for state in kernel.negated] if kernel else []
        fills = tuple(
            self.fill(variable) for variable in (*self.query.positive, *(self.query.variable(name) for name in inside))
        ) + tuple(component.fill for component in outside)
        return PhysicalPlan(
            query=self.query,
            types=self.types(emit),
            fills=fills,
            kernel=kernel,
            emit=emit,
            window=self.plan.window,
            selection=selection,
            anti_joins=anti_joins,
            output=output,
            prefix=self.prefix,
            negation_first=self.plan.negation_first,
            bucket=self.plan.bucket,
            partitions=self.plan.strategy.partitions,
            stream=self.stream,
            outside=outside,
        )

    # ---- the kernel -----------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        construction = self.plan.construction
        where = [clause for predicate in construction.predicates for clause in self.clauses(predicate)]
        for test in construction.equivalences:
            for left, right in pairwise(test.positive):
                where.append((Compare(*left, "=", *right),))
        negated = tuple(self.negated_state(negation) for negation in construction.negations)
        for clause in where:
            self.require_values(clause, {variable.name for variable in self.query.positive})
        for state in negated:
            for clause in state.where:
                self.require_values(clause, {state.variable})
        tests = self.plan.scan.partition + self.plan.scan.cross
        columns = tuple(self.key(test, index) for index, test in enumerate(tests))
        keys, cross = columns[: len(self.plan.scan.partition)], columns[len(self.plan.scan.partition) :]
        return Kernel(
            positive=tuple(variable.name for variable in self.query.positive),
            negated=negated,
            where=tuple(where),
            window_in_scan=self.plan.scan.window,
            window_in_construction=construction.window,
            keys=keys,
            cross=cross,
            stacks=not construction.basic,
            computed=tuple(self.computed.values()),
            slice=self.plan.scan.slice,
            by_time_only=self.plan.strategy.parallel == "time",
            looks_ahead=any(state.before is None for state in negated),
        )

    def negated_state(self, negation: Negation) -> NegatedState:
        after, before = self.query.neighbours(negation.variable)
        where = [clause for predicate in negation.predicates for clause in self.clauses(predicate)]
        for test in negation.equivalences:
            if test not in self.plan.scan.partition:
                # The last positive is bound first, so the comparison is possible from the start.
                partner = test.positive[-1]
                where.append((Compare(negation.variable, str(test.attribute(negation.variable)), "=", *partner),))
        return NegatedState(negation.variable, after, before, tuple(where))

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

    def term(self, term: Term) -> str:
        """The column that holds a term: the attribute itself, or one that Spark computes where the state is filled."""
        if isinstance(term.value, exp.Column):
            return term.value.name
        sql = scalars.sql(scalars.without_variable(term.value))
        known = self.computed.get(f"{term.variable} {sql}")
        if known is None:
            count = sum(1 for key in self.computed if key.startswith(term.variable + " "))
            known = Computed(f"{self.prefix}{term.variable}_{count + 1}", self.where_filled(term.variable, sql))
            self.computed[f"{term.variable} {sql}"] = known
        return known.name

    def where_filled(self, variable: str, sql: str) -> str:
        """Only events that fill the state are asked, so an expression never fails on another type's events."""
        return f"CASE WHEN {scalars.column_sql(self.prefix + variable)} THEN {sql} END"

    def key(self, test: EquivalenceTest, index: int) -> str:
        places = test.positive + test.negated
        names = {attribute for _, attribute in places}
        # A lone positive variable need not agree with anything: without a value, no negated event forbids it.
        for variable, attribute in places if len(test.positive) > 1 else test.negated:
            self.not_null.setdefault(variable, {})[attribute] = None
        if len(names) == 1:
            return names.pop()
        name = f"{self.prefix}key_{index + 1}"
        inside = {negation.variable for negation in self.plan.construction.negations}
        if self.stream:
            inside |= {negation.variable for negation in self.plan.negations}
        cases = " ".join(
            f"WHEN {scalars.column_sql(self.prefix + variable)} THEN {scalars.column_sql(attribute)}"
            for variable, attribute in places
            if variable in inside or not self.query.variable(variable).negated
        )
        self.computed[f"key {index}"] = Computed(name, f"CASE {cases} END")
        return name

    def require_values(self, clause: Clause, variables: set[str]) -> None:
        """A comparison with NULL never holds, so an event that lacks the value of a lone comparison drops out early.

        Not so a positive event in a comparison with a negated one: without the value, nothing forbids it.
        """
        match clause:
            case (Compare() as only,):
                for variable, column in ((only.left, only.left_column), (only.right, only.right_column)):
                    if variable in variables and not column.startswith(self.prefix):
                        self.not_null.setdefault(variable, {})[column] = None

    def fill(self, variable: Variable) -> Fill:
        parts = [scalars.sql(_type_test(self.query.type, variable.types))]
        parts += [f"{scalars.column_sql(column)} IS NOT NULL" for column in self.not_null.get(variable.name, {})]
        parts += [
            _operand_sql(scalars.without_variable(predicate.condition))
            for predicate in self.plan.scan.simple.get(variable.name, ())
        ]
        return Fill(variable.name, tuple(parts))

    # ---- after the kernel -----------------------------------------------------------------------

    def carry(self, *places: Place) -> None:
        for variable, attribute in places:
            if variable in self.carried:
                self.carried[variable].add(attribute)

    def carry_columns(self, node: exp.Expr) -> None:
        self.carry(*((column.table, column.name) for column in scalars.columns(node)))

    def selection(self) -> tuple[str, ...]:
        conditions = []
        for test in self.plan.selection.equivalences:
            self.carry(*test.positive)
            conditions.append(_chain_sql(test.positive))
        for predicate in self.plan.selection.predicates:
            self.carry_columns(predicate.condition)
            conditions.append(str(predicate))
        return tuple(conditions)

    def anti_join(self, negation: Negation, index: int) -> AntiJoin:
        variable = self.query.variable(negation.variable)
        after, before = self.query.neighbours(variable.name)
        first, last = self.query.positive[0].name, self.query.positive[-1].name
        conditions, own = self.after_the_kernel(negation, negation.equivalences)
        own |= {self.query.time} | ({self.query.order} if self.query.order else set())
        for neighbour in (after, before, first, last):
            if neighbour is not None:
                self.carry((neighbour, self.query.time))
                if self.query.order:
                    self.carry((neighbour, self.query.order))
        return AntiJoin(
            variable=variable.name,
            after=after,
            before=before,
            first=first,
            last=last,
            function=_function(variable, index),
            fill=self.fill(variable),
            columns=_in_order(variable, own),
            conditions=tuple(conditions),
        )

    def after_the_kernel(self, negation: Negation, tests: Iterable[EquivalenceTest]) -> tuple[list[str], set[str]]:
        """The conditions on a negated component that Spark is left with, and its attributes in them."""
        name = negation.variable
        conditions, own = [], set[str]()
        for test in tests:
            partner, attribute = test.positive[0], str(test.attribute(name))
            self.carry(partner)
            own.add(attribute)
            self.not_null.setdefault(name, {})[attribute] = None
            conditions.append(_chain_sql((partner, (name, attribute))))
        for predicate in negation.predicates:
            self.carry_columns(predicate.condition)
            own |= {column.name for column in scalars.columns(predicate.condition) if column.table == name}
            conditions.append(_operand_sql(predicate.condition))
        return conditions, own

    def outside(self, negation: Negation, index: int) -> Outside:
        """The anti-join of a stream. The interval is the runtime's; only conditions on attributes are left."""
        variable = self.query.variable(negation.variable)
        partition = self.plan.scan.partition
        keyed = all(test.attribute(variable.name) is not None for test in partition)
        left = [test for test in negation.equivalences if not (keyed and test in partition)]
        conditions, own = self.after_the_kernel(negation, left)
        if conditions and not own:
            own.add(self.query.time)
        return Outside(
            variable.name,
            *self.query.neighbours(variable.name),
            keyed=keyed,
            function=_function(variable, index),
            fill=self.fill(variable),
            columns=_in_order(variable, own),
            conditions=tuple(conditions),
        )

    def output(self) -> tuple[tuple[str, str], ...] | None:
        if self.query.returns is None:
            for variable in self.query.positive:
                self.carry(*((variable.name, attribute.name) for attribute in variable.attributes.values()))
            return None
        for output in self.query.returns:
            self.carry_columns(output.value)
        columns = [(scalars.sql(output.value), output.name) for output in self.query.returns]
        if self.query.composite is not None:
            columns.insert(0, (scalars.sql(exp.Literal.string(self.query.composite)), self.query.type))
        return tuple(columns)

    def emit(self) -> dict[str, tuple[str, ...]]:
        if not self.plan.pruned:
            for variable in self.query.positive:
                self.carry(*((variable.name, attribute.name) for attribute in variable.attributes.values()))
        if not any(self.carried.values()):
            self.carry((self.query.positive[-1].name, self.query.time))  # RETURN of constants: a match is still a row
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
                read[name].add(attribute)
        kinds: dict[str, exp.DataType] = {}
        declared: dict[str, dict[str, None]] = {}
        for variable in self.query.variables:
            for known in variable.attributes.values():
                if known.name not in read[variable.name] or known.name == self.query.type:
                    continue
                kinds[known.name] = self.one_type(known.name, known.kind, kinds)
                for type_name in variable.types:
                    if type_name not in known.lacking:
                        declared.setdefault(type_name, {})[known.name] = None
        return {
            name: {
                column: scalars.type_sql(kinds[column]) for column in declared[name] if kinds[column] != scalars.UNKNOWN
            }
            for name in sorted(declared)
        }

    def one_type(self, name: str, kind: exp.DataType, kinds: dict[str, exp.DataType]) -> exp.DataType:
        """Events of all types travel in one table, so a column has one type in all of them."""
        merged = scalars.wider(kinds.get(name, kind), kind)
        if merged is None:
            raise SaseError(
                [
                    Diagnostic(
                        f"{name} is {scalars.a_type(kinds[name])} in one event type of the pattern and "
                        f"{scalars.a_type(kind)} in another",
                        Span(0, len(self.query.text)),
                        "rename it in one of the tables, or RETURN only what you need",
                    )
                ],
                self.query.text,
                self.query.filename,
            )
        return merged


def _function(variable: Variable, index: int) -> str:
    safe = re.sub(r"\W", "_", variable.name, flags=re.ASCII)
    return f"without_{safe}" if safe == variable.name else f"without_{index + 1}"


def _prefix(query: BoundQuery) -> str:
    names = [variable.name for variable in query.variables]
    names += [attribute.name for variable in query.variables for attribute in variable.attributes.values()]
    prefix = "_"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def _type_test(column: str, types: Iterable[str]) -> exp.Expr:
    tested = exp.Column(this=exp.Identifier(this=column, quoted=True))
    values: list[exp.Expr] = [exp.Literal.string(name) for name in types]
    return exp.EQ(this=tested, expression=values[0]) if len(values) == 1 else exp.In(this=tested, expressions=values)


def _operand_sql(node: exp.Expr) -> str:
    text = scalars.sql(node)
    return f"({text})" if isinstance(node, exp.Or) else text


def _chain_sql(places: Iterable[Place]) -> str:
    columns = [
        exp.Column(this=exp.Identifier(this=attribute, quoted=True), table=exp.Identifier(this=variable, quoted=True))
        for variable, attribute in places
    ]
    return " AND ".join(
        scalars.sql(exp.EQ(this=left.copy(), expression=right.copy())) for left, right in pairwise(columns)
    )


def _in_order(variable: Variable, names: set[str]) -> tuple[str, ...]:
    return tuple(attribute.name for attribute in variable.attributes.values() if attribute.name in names)
