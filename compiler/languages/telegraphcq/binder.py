"""Syntax tree + catalog → bound query: results of operators become branches, with the conditions that concern each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, permutations

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.arrivals import Arrivals
from sase.compiler.core.assemble import MOST_COMPONENTS, as_sequence, check_outputs
from sase.compiler.core.bound import (
    Apart,
    BoundQuery,
    Branch,
    Derived,
    Group,
    Instant,
    Latest,
    Output,
    Predicate,
    TimeKind,
    Variable,
    Window,
)
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.equivalence import Owned, equivalence_tests
from sase.compiler.core.errors import Diagnostic, SaseError, Span, did_you_mean
from sase.compiler.core.missing import left_out
from sase.compiler.core.names import resolve
from sase.compiler.core.pattern import MOST_BRANCHES
from sase.compiler.core.results import Results
from sase.compiler.core.schema import attributes, time_kind, time_type
from sase.compiler.core.spans import at, span_of
from sase.compiler.core.weights import FUNCTION, is_asked
from sase.compiler.core.windows import window
from sase.compiler.languages.lengths import given
from sase.compiler.languages.outputs import outputs
from sase.compiler.languages.sase.syntax import Duration, Equivalence, Name
from sase.compiler.languages.telegraphcq.operators import (
    Absent,
    Lowering,
    Moment,
    Relation,
    Result,
    bound,
    possible,
    reduced,
    renamed,
)
from sase.compiler.languages.telegraphcq.syntax import Alias, Defined, Event, Expression, Join, Operator, Query, events


def bind(query: Query, catalog: Catalog, event: bool = False) -> BoundQuery:
    """INTO makes events of the results, whether or not another query asks for them."""
    return _Binder(query, catalog).bind()


_OF_SASE = "it is SASE's: sase explain --as sase shows many queries there, or let a query of SASE read INTO's results"


@dataclass(frozen=True)
class _Part:
    """A part of WHERE, and the aliases that it speaks of, in lower case."""

    condition: exp.Expr
    aliases: frozenset[str]

    @property
    def span(self) -> Span:
        return span_of(self.condition)


class _Binder:
    def __init__(self, query: Query, catalog: Catalog) -> None:
        self.query = query
        self.catalog = catalog
        self.found: list[Diagnostic] = []
        self.defined = {each.name.text.lower(): each for each in query.defined}
        lengths = [length for length in self.lengths() if isinstance(length, Duration)]
        bare = any(unit is None for length in lengths for _, unit in length.parts)
        self.time = time_type(catalog, bare)
        self.kind: TimeKind = time_kind(catalog, self.time)
        self.variables = {alias.name.text.lower(): self.variable(alias) for alias in self.distinct()}
        self.quantified: dict[str, str] = {}

    def bind(self) -> BoundQuery:
        results = self.results()
        self.stop()
        parts = [*self.defining(), *self.conditions()]
        returns, into = self.query.returns, self.query.into
        composite = into.text if into and returns else None
        listed = None if returns is None else tuple(self.outputs())
        self.stop()
        branches = tuple(self.branch(result, parts) for result in results) or (self.never(),)
        names = {alias: variable.name for alias, variable in self.variables.items()}
        taken = {name for branch in branches for name in _all_variables(branch)}
        variables = [replace(self.variables[alias], name=name) for alias, name in names.items() if name in taken]
        variables += [
            replace(self.variables[alias], name=name, negated=True)
            for name, alias in self.quantified.items()
            if name in taken and name not in names.values()
        ]
        bound_names = {name for branch in branches for name in branch.variables}
        query = BoundQuery(
            text=self.query.text,
            filename=self.query.filename,
            span=self.span,
            stream=None,
            time=self.catalog.time,
            type=self.catalog.type,
            order=self.catalog.order,
            time_kind=self.kind,
            variables=tuple(replace(each, negated=each.name not in bound_names) for each in variables),
            branches=branches,
            within=None,
            returns=listed,
            composite=composite,
            timed=composite is not None,
            time_unit=self.catalog.time_unit,
            time_format=self.catalog.time_format,
            once=False,
        )
        if len(variables) > MOST_COMPONENTS:
            self.error(f"a query has at most {MOST_COMPONENTS} events", self.span)
        check_outputs(query, self.found)
        self.stop()
        return as_sequence(query)

    @property
    def span(self) -> Span:
        return self.query.event.span

    def error(self, message: str, span: Span, help: str | None = None) -> None:
        self.found.append(Diagnostic(message, span, help))

    def stop(self) -> None:
        if self.found:
            raise SaseError(self.found, self.query.text, self.query.filename)

    # ---- FROM -----------------------------------------------------------------------------------

    def distinct(self) -> Iterator[Alias]:
        seen: set[str] = set()
        for alias in self.query.aliases:
            if alias.name.text.lower() in seen:
                self.error(f"the alias {alias.name.text} is used twice", alias.name.span, "give it another name")
            else:
                seen.add(alias.name.text.lower())
                yield alias

    def variable(self, alias: Alias) -> Variable:
        defined = self.defined.get(alias.stream.text.lower())
        stream = defined.stream if defined else alias.stream
        types = self.catalog.types
        chosen: tuple[str, ...] = (stream.text,)
        if types is not None and stream.text not in types:
            near = [name for name in types if name.lower() == stream.text.lower()]
            if defined is not None and not near:
                chosen = self.of_base(defined)
            elif len(near) == 1:
                chosen = (near[0],)
            else:
                known = [*types, *(each.name.text for each in self.query.defined)]
                self.error(
                    f"unknown stream {stream.text}", stream.span, did_you_mean(stream.text, known, "the catalog has")
                )
        declared = attributes(chosen, self.catalog, self.time, alias.name.span, self.found)
        return Variable(alias.name.text, chosen, False, declared, alias.name.span)

    def of_base(self, defined: Defined) -> tuple[str, ...]:
        """`SELECT * FROM base WHERE type = 1`: base has events of all types, and the condition says which."""
        assert self.catalog.types is not None
        for part in scalars.conjuncts(defined.where) if defined.where is not None else ():
            match part:
                case exp.EQ(this=exp.Column() as column, expression=exp.Literal() as value):
                    if column.name.lower() == self.catalog.type.lower() and value.this in self.catalog.types:
                        return (value.this,)
        return tuple(self.catalog.types)

    def defining(self) -> Iterator[_Part]:
        """What WITH says of a stream holds of each of its aliases."""
        for alias in self.query.aliases:
            defined = self.defined.get(alias.stream.text.lower())
            for part in scalars.conjuncts(defined.where) if defined and defined.where is not None else ():
                if self.is_type(part):
                    continue
                of_alias = part.copy()
                for column in of_alias.find_all(exp.Column):
                    if not column.table:
                        name = at(exp.Identifier(this=alias.name.text, quoted=True), span_of(column))
                        column.set("table", name)
                condition = self.resolve(of_alias)
                if condition is not None:
                    yield _Part(condition, frozenset({alias.name.text.lower()}))

    def is_type(self, part: exp.Expr) -> bool:
        """`type = 1`, which is told by the type of the events."""
        match part:
            case exp.EQ(this=exp.Column() as column, expression=exp.Literal() as value):
                types = self.catalog.types or {}
                return column.name.lower() == self.catalog.type.lower() and value.this in types
        return False

    # ---- windows --------------------------------------------------------------------------------

    def lengths(self) -> Iterator[Duration | Name]:
        """Each with a parameter replaced by its value; a Name has none."""
        for length in self.written():
            yield given(length, self.catalog.parameters)

    def written(self) -> Iterator[Duration | Name]:
        match self.query.event:
            case Join(windows=windows):
                yield from windows
            case expression:
                yield from (each.window for each in _operators(expression) if each.window is not None)

    def ticks(self, length: Duration | Name) -> int:
        length = given(length, self.catalog.parameters)
        if isinstance(length, Name):
            self.error(
                f"{length.text!r} is no length of time, and no parameter that has one",
                length.span,
                f"write '5 min', or give it a value: --param {length.text}='5 min'",
            )
            return 1
        found = window(length.parts, length.span, self.catalog.time, self.kind)
        if isinstance(found, Window):
            return found.ticks
        self.found.append(found)
        return 1

    # ---- EVENT ----------------------------------------------------------------------------------

    def results(self) -> list[Result]:
        expression = self.query.event
        names = {alias: variable.name for alias, variable in self.variables.items()}
        if isinstance(expression, Join):
            return self.joined(expression, names)
        self.check(expression)
        ticks = {each.span: self.ticks(each.window) for each in _operators(expression) if each.window is not None}
        self.stop()
        lowered = Lowering(expression, ticks, names)
        self.found += lowered.found
        self.quantified = lowered.quantified
        if len(lowered.results) > MOST_BRANCHES:
            self.error(
                f"with all its cases, this expression has more than {MOST_BRANCHES} forms of results",
                expression.span,
                "ANYONE has two, and BOTH inside another operator three: they multiply; make several queries of it",
            )
            self.stop()
        for result in lowered.results:
            variables = list(result.names.values())
            self.check_distinct(result.groups, result.relation, variables)
        return [result for result in lowered.results if self.is_possible(result)]

    def check(self, expression: Expression) -> None:
        for event in events(expression):
            if event.alias.text.lower() not in self.variables:
                listed = [variable.name for variable in self.variables.values()]
                self.error(
                    f"unknown alias {event.alias.text}",
                    event.span,
                    did_you_mean(event.alias.text, listed, "FROM has"),
                )
        for operator in _operators(expression):
            match operator:
                case Operator(kind=kind, left=Event(alias=one), right=Event(alias=other)) if kind != "ANYONE":
                    if one.text.lower() == other.text.lower():
                        self.error(
                            f"{one.text} is one event: it cannot be compared with itself",
                            operator.span,
                            f"give the stream two aliases: FROM {self.stream_of(one)} {one.text} {one.text}2",
                        )

    def stream_of(self, name: Name) -> str:
        return next(each.stream.text for each in self.query.aliases if each.name.text.lower() == name.text.lower())

    def joined(self, join: Join, names: Mapping[str, str]) -> list[Result]:
        """`FROM A[RANGE BY t], B[RANGE BY t] WHERE A.tcqtime < B.tcqtime`: all of it within one window."""
        lengths = [self.ticks(length) for length in join.windows]
        if len(set(lengths)) > 1:
            self.error("the streams of a join have one range", join.span, "give all of them the same RANGE BY")
        pairs = frozenset(
            (names[one], names[other])
            for part in self.where()
            if (order := self.order(part)) is not None
            for one, other in [order]
        )
        apart = [Apart(one, other, lengths[0]) for one, other in permutations(names.values(), 2)]
        return [Result(dict(names), Relation(pairs, tuple(apart)), (), None)]

    def where(self) -> Iterator[exp.Expr]:
        if self.query.where is not None:
            yield from scalars.conjuncts(self.query.where)

    def order(self, part: exp.Expr) -> tuple[str, str] | None:
        """`a.tcqtime < b.tcqtime` in a join: a is before b."""
        if not isinstance(self.query.event, Join):
            return None
        match part:
            case exp.LT(this=exp.Column() as one, expression=exp.Column() as other):
                pass
            case exp.GT(this=exp.Column() as other, expression=exp.Column() as one):
                pass
            case _:
                return None
        times = ("tcqtime", self.catalog.time.lower())
        aliases = one.table.lower(), other.table.lower()
        if one.name.lower() in times and other.name.lower() in times and self.variables.keys() >= set(aliases):
            return aliases
        return None

    def is_possible(self, result: Result) -> bool:
        return possible(result.relation, self.catalog.order is not None)

    def check_distinct(self, groups: Iterable[Absent], relation: Relation, around: list[str]) -> None:
        """One event is one variable's, groups included. What an operator does not compare its right side with could be
        the same event, though; where that can be, it has no form here."""
        for group in groups:
            whole = relation & group.relation
            mine = list(group.names.values())
            for alias, name in group.names.items():
                for other in around:
                    if other in group.around.values() or not self.shares_stream(alias, other):
                        continue
                    merged = renamed(whole, name, other)
                    if possible(merged, self.catalog.order is not None):
                        self.error(
                            f"what must not be there could be the very event of {other}, "
                            "which this operator does not compare it with",
                            group.span,
                            "bind it on the left side of the operator, too, or ask in two queries",
                        )
            self.check_distinct(group.groups, whole, [*around, *mine])

    def shares_stream(self, alias: str, name: str) -> bool:
        other = self.quantified.get(name, name.lower())
        return not set(self.variables[alias].types).isdisjoint(self.variables[other].types)

    # ---- names ----------------------------------------------------------------------------------

    def resolve(self, node: exp.Expr) -> exp.Expr | None:
        before = len(self.found)
        for test in node.find_all(Equivalence):
            self.error("[ ] is not part of this language", span_of(test), "write PARTITION BY, before EVENT")
        for asked in node.find_all(Arrivals, Results, exp.Anonymous):
            if not isinstance(asked, exp.Anonymous) or is_asked([asked]):
                what = f"{FUNCTION}()" if isinstance(asked, exp.Anonymous) else "an aggregate over other events"
                self.error(f"TelegraphCQ does not have {what}", span_of(asked), _OF_SASE)
        if len(self.found) > before:
            return None
        bound = resolve(node, self.variable_of, self.catalog, self.found)
        return bound if len(self.found) == before else None

    def variable_of(self, node: exp.Column) -> Variable | None:
        if node.table:
            variable = self.variables.get(node.table.lower())
            if variable is None:
                known = [each.name for each in self.variables.values()]
                help = did_you_mean(node.table, known, "FROM has")
                self.error(f"unknown alias {node.table}", span_of(node.args["table"]), help)
            return variable
        name = node.name
        declaring = [each for each in self.variables.values() if self.declares(each, name.lower())]
        if len(declaring) == 1:
            return declaring[0]
        if declaring:
            choices = " or ".join(f"{variable.name}.{name}" for variable in declaring)
            self.error(f"{name} could be of several aliases", span_of(node), f"write {choices}")
        else:
            known = [attribute.name for each in self.variables.values() for attribute in each.attributes.values()]
            self.error(f"no stream declares {name}", span_of(node), did_you_mean(name, known, "declared are"))
        return None

    # ---- SELECT ---------------------------------------------------------------------------------

    def outputs(self) -> Iterator[Output]:
        assert self.query.returns is not None
        items, own = self.query.returns.items, self.query.into is not None
        return outputs(items, self.resolve, self.variable_of, self.catalog, self.found, own_place=own)

    # ---- PARTITION BY, WHERE --------------------------------------------------------------------

    def conditions(self) -> Iterator[_Part]:
        for part in self.where():
            if self.order(part) is not None:
                continue
            condition = self.resolve(part)
            if condition is None:
                continue
            condition = scalars.unparenthesised(condition)
            scalars.check_condition(condition, self.found)
            yield _Part(condition, frozenset(name.lower() for name in scalars.variables(condition)))

    def branch(self, result: Result, parts: list[_Part]) -> Branch:
        names = result.names
        groups = list(_numbered(result.groups))
        plus = [*self.agreements(names, {}), *self.at_one_place(result.relation)]
        minus: list[Owned] = []
        for part in parts:
            owners = [(number, group) for number, group in enumerate(groups) if part.aliases & group.names.keys()]
            for number, group in owners:
                self.check_scope(part, group)
                scope = {**group.around, **group.names}
                minus += self.owned(part, scope, group, number)
            if part.aliases <= names.keys() or not owners:
                remaining = left_out(_for(part.condition, names, self.variables), set(names.values()))
                if remaining is not None:
                    plus.append(Predicate(remaining, None, part.span))
        for number, group in enumerate(groups):
            tied = [*self.agreements(group.names, group.around), *self.at_one_place(group.relation)]
            minus += [Owned(replace(each, negated=_first(group)), number) for each in tied]
        order = [variable.name for variable in self.variables.values()] + list(self.quantified)
        tests, rest, owned = equivalence_tests(
            plus, minus, [tuple(group.names.values()) for group in groups], list(dict.fromkeys(order))
        )
        numbers = iter(range(len(groups)))
        relation = reduced(result.relation)
        return Branch(
            tuple(name for name in dict.fromkeys(order) if name in names.values()),
            relation.before,
            relation.apart,
            rest,
            tests,
            tuple(dict.fromkeys(_group(group, numbers, owned) for group in result.groups)),
            _instant(result.moment),
        )

    def owned(self, part: _Part, scope: Mapping[str, str], group: Absent, number: int) -> Iterator[Owned]:
        remaining = left_out(_for(part.condition, scope, self.variables), set(scope.values()))
        if remaining is not None:
            yield Owned(Predicate(remaining, _first(group), part.span), number)

    def check_scope(self, part: _Part, group: Absent) -> None:
        outside = sorted(part.aliases - group.names.keys() - group.around.keys())
        bound_here = {event.alias.text.lower() for event in bound(self.expression)}
        if any(alias in bound_here for alias in outside):
            self.error(
                f"this part of WHERE says what must not be there, and speaks of {self.variables[outside[0]].name}, too",
                part.span,
                "a condition on what a negative operator forbids may speak of its two sides",
            )
            self.stop()

    @property
    def expression(self) -> Expression:
        assert not isinstance(self.query.event, Join)
        return self.query.event

    def agreements(self, names: Mapping[str, str], around: Mapping[str, str]) -> Iterator[Predicate]:
        """All of them agree on what PARTITION BY names, with each other and with those around them."""
        for attribute in self.query.partition:
            key = attribute.text.lower()
            if not any(self.declares(variable, key) for variable in self.variables.values()):
                known = [each.name for variable in self.variables.values() for each in variable.attributes.values()]
                self.error(
                    f"no stream declares {attribute.text}",
                    attribute.span,
                    did_you_mean(attribute.text, known, "declared are"),
                )
                self.stop()
            mine, others = (
                [(alias, name) for alias, name in part.items() if self.declares(self.variables[alias], key)]
                for part in (names, around)
            )
            pairs = [*combinations(mine, 2), *((other, each) for each in mine for other in others)]
            for (one, first), (other, second) in pairs:
                equal = self.equality(attribute.text, (one, first), (other, second), attribute.span)
                yield Predicate(equal, None, attribute.span)

    def declares(self, variable: Variable, key: str) -> bool:
        """Of an open catalog, every type may."""
        return key in variable.attributes or self.catalog.types is None

    def at_one_place(self, relation: Relation) -> Iterator[Predicate]:
        """Simultaneous events have the same tie-breaker, where there is one."""
        if self.catalog.order is None:
            return
        alias_of = {variable.name: alias for alias, variable in self.variables.items()} | self.quantified
        for one, other in relation.tied:
            equal = self.equality(self.catalog.order, (alias_of[one], one), (alias_of[other], other), self.span)
            yield Predicate(equal, None, self.span)

    def equality(self, attribute: str, one: tuple[str, str], other: tuple[str, str], span: Span) -> exp.Expr:
        sides = []
        for alias, name in (one, other):
            known = self.variables[alias].attributes.get(attribute.lower())
            column = exp.Column(
                this=exp.Identifier(this=known.name if known else attribute, quoted=True),
                table=exp.Identifier(this=name, quoted=True),
            )
            column.type = (known.kind if known else scalars.UNKNOWN).copy()
            sides.append(at(column, span))
        equal = at(exp.EQ(this=sides[0], expression=sides[1]), span)
        scalars.check_condition(equal, self.found)
        return equal

    def never(self) -> Branch:
        """An expression whose instants contradict each other has no result."""
        assert not isinstance(self.query.event, Join)
        name = self.variables[next(bound(self.query.event)).alias.text.lower()].name
        nothing = Predicate(at(exp.Boolean(this=False), self.span), None, self.span)
        return Branch((name,), frozenset(), (), (nothing,), (), (), Latest())


def _operators(expression: Expression) -> Iterator[Operator]:
    if isinstance(expression, Operator):
        yield expression
        yield from _operators(expression.left)
        yield from _operators(expression.right)


def _numbered(groups: Iterable[Absent]) -> Iterator[Absent]:
    for group in groups:
        yield group
        yield from _numbered(group.groups)


def _first(group: Absent) -> str:
    return next(iter(group.names.values()))


def _group(group: Absent, numbers: Iterator[int], owned: Iterable[Owned]) -> Group:
    number = next(numbers)
    relation = reduced(group.relation)
    return Group(
        tuple(group.names.values()),
        relation.before,
        relation.apart,
        tuple(part for part, owner in owned if owner == number),
        tuple(_group(inner, numbers, owned) for inner in group.groups),
    )


def _for(condition: exp.Expr, names: Mapping[str, str], variables: Mapping[str, Variable]) -> exp.Expr:
    """The condition with the variables that aliases have here."""
    spelled = {variable.name: alias for alias, variable in variables.items()}

    def visit(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and (name := names.get(spelled[node.table])) and name != node.table:
            node.set("table", exp.Identifier(this=name, quoted=True))
        return node

    return condition.transform(visit, copy=True)


def _instant(moment: Moment | None) -> Instant:
    """No event of a result is later than its instant, so the place of an event is that of the latest one."""
    return Derived(moment.variable, moment.ticks) if moment is not None and moment.derived else Latest()


def _all_variables(branch: Branch) -> Iterator[str]:
    yield from branch.variables
    waiting = list(branch.groups)
    while waiting:
        group = waiting.pop()
        yield from group.variables
        waiting += group.groups
