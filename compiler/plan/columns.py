"""What the columns of a job are, whatever the pattern: terms, state bits, what is read and what a match keeps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.arrivals import last_of
from sase.compiler.core.bound import Attribute, BoundQuery, EquivalenceTest, Place, Predicate, Variable
from sase.compiler.core.errors import Diagnostic, SaseError
from sase.compiler.core.fields import attribute_of, of_event, of_variable
from sase.compiler.plan.counting import grouped_by_spark, running_totals, why_enumerated
from sase.compiler.plan.logical import Plan
from sase.compiler.plan.names import Names
from sase.compiler.plan.order import tree
from sase.compiler.plan.physical import (
    Arrive,
    Buckets,
    Clause,
    Combination,
    Compare,
    Computed,
    Decide,
    Fill,
    Holds,
    Kernel,
    Moment,
    Read,
    Release,
    Remember,
    Result,
    Shuffle,
    Slices,
    Sort,
    Step,
)
from sase.compiler.plan.separate import Comparison, Term, separate
from sase.compiler.plan.telling import left_over
from sase.compiler.plan.thinning import thinned


class Columns:
    """Each step asks for the columns that it needs, so what is read and carried is known at the end."""

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
        self.carried: dict[str, set[str]] = {}  # by variable, the columns that a match keeps of its event
        self.added: dict[str, dict[str, None]] = {}  # by variable, columns of ours that it keeps, too

    # ---- an event -------------------------------------------------------------------------------

    @property
    def tells(self) -> bool:
        """Whether what has arrived is found out where the kernel is."""
        return bool(self.query.arrivals) and (self.stream or self.plan.strategy.arrivals == "slices")

    @property
    def tie_breaker(self) -> tuple[str, ...]:
        return () if self.query.order is None else (self.query.order,)

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

    def fill(self, variable: Variable) -> Fill:
        of_type = scalars.sql(type_test(self.query.type, variable.types))
        present = [f"{of_event(attribute)} IS NOT NULL" for attribute in self.not_null.get(variable.name, {})]
        simple = {
            operand_sql(scalars.without_variable(predicate.condition)): _is_plain(predicate.condition)
            for predicate in self.plan.scan.simple.get(variable.name, ())
        }
        plain = [sql for sql, is_plain in simple.items() if is_plain]
        return Fill(variable.name, (of_type, *present, *simple), (of_type, *plain))

    def arrive(self, fills: Sequence[Fill]) -> Iterator[Arrive]:
        """What has arrived, for the states that are filled behind it."""
        if self.query.arrivals:
            computed = [each for each in self.query.variables if any(a.computed for a in each.attributes.values())]
            types = tuple(dict.fromkeys(name for each in computed for name in each.types))
            counted = (name for each in self.query.arrivals for name in each.types)
            takes_part = type_test(self.query.type, dict.fromkeys((*types, *counted)))
            filled = (self.query.variable(fill.variable) for fill in fills)
            states = (
                [part.condition for part in self.plan.scan.simple.get(variable.name, ())]
                for variable in filled
                if not set(types).isdisjoint(variable.types)
            )
            names = frozenset(each.name for each in self.query.arrivals)
            thin = None if self.stream else left_over(self.query) if self.tells else thinned(states, names)
            yield Arrive(self.query.arrivals, types, scalars.sql(takes_part), thin, self.tells)

    # ---- a match --------------------------------------------------------------------------------

    def carry(self, *places: Place) -> None:
        for variable, attribute in places:
            for name in self.single(variable):
                if name in self.carried:
                    self.carried[name].add(attribute_of(attribute))

    def single(self, variable: str) -> tuple[str, ...]:
        """The variables of single events that it stands for: `A{2,4} a` has four."""
        return self.query.arrays.get(variable, (variable,))

    def carry_columns(self, node: exp.Expr) -> None:
        self.carry(*((column.table, column.name) for column in scalars.columns(node)))

    def grouped(self, result: Result) -> Result:
        """Of matches that are built, groups and aggregates are Spark's; on a stream they are running totals."""
        if self.query.grouped is None:
            return result
        for value in self.query.grouped.by:
            self.carry_columns(value)
        why = why_enumerated(self.plan)
        group, total = self.names.roles["group"], self.names.roles["total"]
        added_up = running_totals if self.stream else grouped_by_spark
        grouped, columns = added_up(self.query, group, total, why)
        return replace(result, columns=columns, grouped=grouped)

    def decide(self) -> Iterator[Decide]:
        """What depends on earlier results, behind all else; each event has a number there, and terms of its own."""
        query = self.query
        if not query.reported:
            return
        last = tuple(dict.fromkeys(name for branch in query.branches for name in last_of(branch)))
        self.carry(*((name, column) for name in last for column in (query.time, *self.tie_breaker)))

        def column(term: Term) -> str:
            name = self.term(term)
            if isinstance(term.value, exp.Column):
                self.carry((term.variable, name))
            else:
                self.added.setdefault(term.variable, {})[name] = None
            return name

        where = tuple(tree(part.condition, last[0], column) for part in query.decided)
        row = self.names.fresh("row")
        self.keys.append(Computed(row, "uuid()" if self.stream else "monotonically_increasing_id()"))
        for each in query.reported:
            self.carry((each.variable, each.attribute), (each.variable, query.time))
            self.added.setdefault(each.variable, {})[row] = None
        among: tuple[str, ...] = ()
        if query.selection or query.consume == "exclusive":
            among = tuple(dict.fromkeys(name for branch in query.branches for name in branch.variables))
            for name in among:
                self.carry(*((name, column) for column in (query.time, *self.tie_breaker)))
                self.added.setdefault(name, {})[row] = None
        yield Decide(query.reported, tuple(map(str, query.decided)), where, last, row, among)

    def with_added(self, emit: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """What a match keeps of its events, and columns of ours that decide about it."""
        return {name: (*columns, *self.added.get(name, ())) for name, columns in emit.items()}

    def check_stream(self, after: Sequence[object]) -> None:
        """In a stream, results are decided where matches are found: nothing may be left to Spark."""
        if self.stream and self.query.reported and after:
            spans = [part.span for part in self.query.decided] or [self.query.span]
            found = Diagnostic(
                "on a stream, this is decided where matches are found, and Spark has yet to decide about them",
                spans[0],
                "leave out conditions that do not come apart into terms of single events, such as abs(x.a - y.a) < 5",
            )
            raise SaseError([found], self.query.text, self.query.filename)

    # ---- a result -------------------------------------------------------------------------------

    def returned(self) -> tuple[tuple[str, str], ...] | None:
        """What RETURN lists, as (SQL, name), behind the type of a composite event."""
        query = self.query
        if query.returns is None:
            return None
        for output in query.returns:
            self.carry_columns(output.value)
        named = [(scalars.sql(exp.Literal.string(query.composite)), query.type)] if query.composite is not None else []
        return (*named, *((scalars.sql(output.value), output.name) for output in query.returns))

    def moment(self, variables: list[str]) -> Moment | None:
        """The place of the latest of these events is that of the result."""
        query = self.query
        if not query.timed:
            return None
        kind = query.variable(variables[0]).attributes[query.time.lower()].kind
        narrow = query.time_kind == "integer" and kind.this != exp.DataType.Type.BIGINT
        order = None
        if query.order is not None:
            here = (query.time, query.order)
            self.carry(*((name, column) for name in variables for column in here))
            event, (time, tie_breaker) = [*map(self.latest, variables)], map(scalars.column_sql, here)
            places = ", ".join(f"struct({name}.{time}, {name}.{tie_breaker})" for name in event)
            latest = f"array_max(array({places}))" if len(event) > 1 else event[0]
            order = (f"{latest}.{tie_breaker}", query.order)
        return Moment(query.time, kind.sql("spark").lower() if narrow else None, order)

    def latest(self, variable: str) -> str:
        """Its event, or the last one of a loop."""
        loop, name = self.query.loops.get(variable), scalars.column_sql(variable)
        return name if loop is None or loop.single else f"element_at({name}, -1)"

    # ---- bringing events together ---------------------------------------------------------------

    def together(self, kernel: Kernel | Combination, travelling: set[str], slices: Slices | None) -> Iterator[Step]:
        """The steps that bring the events of a match to one place, in order."""
        keys = kernel.keys
        if self.stream:
            yield Release()
            # All results are decided in one place.
            yield Buckets(() if self.query.reported else keys, self.plan.strategy.scan)
            yield Remember(tuple(sorted(travelling | {self.names.roles["states"]})))
            yield Sort((*keys, kernel.time, *self.tie_breaker))
            return
        by = keys if slices is None else (*keys, self.names.roles["slice"])
        if slices is not None:
            yield slices
        # By time alone, keys only order the events of a slice.
        shuffled = by[len(keys) :] if self.plan.strategy.parallel == "time" else by
        stays, strategy = self.plan.scan.stays, self.plan.strategy
        read = stays is not None and strategy.sort == "worker" and strategy.scan != "spark"
        yield Shuffle(shuffled, strategy.partitions if shuffled else 1, stays, read)
        sorted_by = (*by, kernel.time, *self.tie_breaker)
        if self.plan.strategy.sort != "worker":
            yield Sort(sorted_by)
        elif len(by) == 1 and (slices is not None or self.is_integer(by[0])):
            yield Sort(sorted_by, by[0])
        else:
            yield Sort(sorted_by, self.names.roles["code"], by)

    def is_integer(self, key: str) -> bool:
        """Whether a key is an attribute that is an integer in every event type."""
        kinds = [
            attribute.kind
            for variable in self.query.variables
            for attribute in variable.attributes.values()
            if attribute.name == key
        ]
        return bool(kinds) and all(scalars.is_integer(kind) for kind in kinds)

    def travelling(self, kernel: Kernel | Combination, emit: Mapping[str, tuple[str, ...]]) -> set[str]:
        """The columns that events take along: emitted, compared, tie-breaker and keys."""
        emitted = {column for columns in emit.values() for column in columns}
        for step in self.arrive(()) if self.tells else ():
            emitted |= {arrival.attribute for arrival in step.arrivals}
            emitted |= set() if step.all_alike else {self.query.type}
        return emitted | kernel.terms | {*kernel.keys, *kernel.cross, kernel.time, *self.tie_breaker}

    def selected(self, read: Read, travelling: set[str]) -> tuple[str, ...]:
        """Those of them that are the event's own, in the source's order."""
        if self.stream:  # an event that comes too late must be known by its type and time
            travelling = travelling | {self.query.type, self.query.time}
        in_order = dict.fromkeys([self.query.time, self.query.type])
        for columns in read.types.values():
            in_order.update(dict.fromkeys(columns))
        in_order.update(dict.fromkeys(self.tie_breaker))  # which no type needs to declare
        in_order.update(dict.fromkeys(arrival.name for arrival in self.query.arrivals))
        return tuple(column for column in in_order if column in travelling)

    # ---- the source -----------------------------------------------------------------------------

    def types(
        self,
        emit: Mapping[str, tuple[str, ...]],
        predicates: Iterable[Predicate],
        equivalences: Iterable[EquivalenceTest],
    ) -> dict[str, dict[str, str]]:
        """The columns that the job reads of each type: those it carries, compares, tests or partitions by."""
        read: dict[str, set[str]] = {
            variable.name: set(emit.get(variable.name, ())) for variable in self.query.variables
        }
        for variable in self.query.variables:
            read[variable.name] |= {self.query.time, self.query.type} | (
                {self.query.order} if self.query.order else set()
            )
        for predicate in predicates:
            for column in scalars.columns(predicate.condition):
                for name in self.single(column.table):
                    read[name].add(column.name)
        for arrival in self.query.arrivals:
            read[arrival.variable].add(arrival.attribute)
        for test in equivalences:
            for name, attribute in test.positive + test.negated:
                read[name].add(attribute_of(attribute))
        kinds: dict[str, exp.DataType] = {}
        declared: dict[str, dict[str, None]] = {}
        for variable in self.query.variables:
            for known in variable.attributes.values():
                if known.name not in read[variable.name] or known.name == self.query.type or known.computed:
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


def function_name(verb: str, variable: Variable, index: int) -> str:
    return function_of(verb, variable.name, index + 1)


def function_of(verb: str, name: str, number: int) -> str:
    """`without_c`; the number where the name cannot be part of a function's."""
    is_plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    return f"{verb}_{name if is_plain else number}"


def _users_names(query: BoundQuery) -> Iterator[str]:
    for variable in query.variables:
        yield variable.name
        yield from (attribute.name for attribute in variable.attributes.values())
    yield from query.arrays


def type_test(column: str, types: Iterable[str]) -> exp.Expr:
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


def where_some_fills(fills: Iterable[Fill]) -> str | None:
    """One of the states is filled, as far as plain conditions tell; None if they tell no more than the types do."""
    ways = {frozenset(fill.plain): fill.plain for fill in fills}
    needed = [plain for parts, plain in ways.items() if not any(other < parts for other in ways)]
    if all(len(plain) == 1 for plain in needed):
        return None
    if len(needed) == 1:
        return " AND ".join(needed[0])
    return " OR ".join(f"({' AND '.join(plain)})" if len(plain) > 1 else plain[0] for plain in needed)


def operand_sql(node: exp.Expr) -> str:
    text = scalars.sql(node)
    return f"({text})" if isinstance(node, exp.Or) else text


def chain_sql(places: Iterable[Place]) -> str:
    columns = [of_variable(variable, attribute) for variable, attribute in places]
    return " AND ".join(
        scalars.sql(exp.EQ(this=left.copy(), expression=right.copy())) for left, right in pairwise(columns)
    )


def declared(variable: Variable) -> Iterator[Attribute]:
    """The attributes of its events, without what is computed for them."""
    return (attribute for attribute in variable.attributes.values() if not attribute.computed)


def in_order(variable: Variable, names: set[str]) -> tuple[str, ...]:
    return tuple(attribute.name for attribute in variable.attributes.values() if attribute.name in names)
