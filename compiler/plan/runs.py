"""Skip till next match and contiguity → a row pattern: what each position asks of an event, and of those before it.

A part of WHERE is tested as soon as all that it speaks of is known: with the last of its events, or, if it speaks of a
whole loop, with the event that leaves the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import combinations

from sqlglot import exp

from sase.compiler.core import rows, scalars
from sase.compiler.core.bound import BoundQuery, Loop, Predicate
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.core.fields import Path, is_field, of_variable
from sase.compiler.core.missing import left_out
from sase.compiler.core.rows import Address, At, Measure, OrderKey, Over, RowClause, Skip
from sase.compiler.core.spans import at, span_of
from sase.compiler.plan.columns import operand_sql, type_test
from sase.compiler.plan.rows import RowPlan, plan_of
from sase.compiler.plan.run_states import Forbid, Guard, RunStates, Step, Symbol, Take, TooManyPositions

MOST_SYMBOLS = 60
"""They are the bits of one 64-bit integer."""

_NOTHING = "\0"


@dataclass(frozen=True)
class RunPlan:
    rows: RowPlan
    keys: tuple[str, ...]
    """The attributes that partition, or fields of them."""
    wanted: dict[str, tuple[str, ...]]
    """For each component, negated ones included, what an event must be to stand for it, by its own columns."""
    symbols: dict[str, tuple[str, ...]]
    """For each component, the variables of the row pattern that are its events."""
    values: dict[str, str]
    """For each variable of the pattern, the column of matches that has its event, or events,"""
    first: str
    """and those that have the first and the last event."""
    last: str
    chosen: tuple[str, ...]
    """Where matches are chosen among: the columns that have the numbers of all events of a match, and of those by which
    it is selected."""


class RunPlanner:
    """`event` is the name of a column that holds all that a match keeps of an event, `time` of one with its time, and
    `number` of one that tells events apart."""

    def __init__(self, query: BoundQuery, event: str, time: str, number: str) -> None:
        self.query, self.event, self.time, self.number = query, event, time, number
        (self.branch,) = query.branches
        self.names = self.branch.variables
        self.found: list[Diagnostic] = []
        self.symbols: dict[Symbol, str] = {}
        self.parts = [*self.branch.predicates, *self.equalities()]
        for part in self.parts:
            self.found += self.unfit(part)

    def plan(self) -> RunPlan:
        query, length = self.query, len(self.names)
        closing = [part for part in self.parts if self.ready(part) == length]
        steps = []
        for name in self.names:
            loop = self.loop(name)
            steps.append(Step(name, loop.least, loop.most, closes=bool(closing) and name == self.names[-1]))
        passes_over = query.strategy == "skip till next match"
        states = RunStates(steps, frozenset(self.negated), passes_over, self.same, query.timed_out)
        try:
            automaton = states.automaton(self.symbols)
        except TooManyPositions:
            self.refuse("this pattern has too many states", query.span, "use smaller numbers of events")
            raise SaseError(self.found, query.text, query.filename) from None
        if len(self.symbols) > MOST_SYMBOLS:
            self.refuse("this pattern has too many alternatives", query.span, "use fewer components that may be absent")
        define = {name: scalars.conjunction(self.definition(symbol)) for symbol, name in self.symbols.items()}
        event = _column(self.event)
        measures = [Measure(name, self.value(name)) for name in self.names]
        measures += [
            Measure("", At(this=event, address=Address(None, first=True, final=True), step=0)),
            Measure("", At(this=event.copy(), address=Address(None, final=True), step=0)),
        ]
        measures += [Measure("", each) for each in self.numbers()]
        clause = RowClause(
            by=tuple(scalars.without_variable(of_variable("", key)) for key in self.keys),
            order=tuple(OrderKey(_column(name), False, True) for name in (self.time, query.order) if name),
            measures=tuple(measures),
            shown="one row",
            skip=Skip("next row" if query.after == "to next row" else "past last row"),
            pattern=rows.Empty(query.span),
            within=rows.Window(query.within.ticks, query.time_kind == "timestamp", query.span)
            if query.within
            else None,
            define=define,
            text=query.text,
            span=query.span,
        )
        planned = replace(plan_of(clause, automaton, self.found), stuck=query.timed_out)
        if self.found:  # a condition may be asked for at several positions, and is wrong once
            raise SaseError(list(dict.fromkeys(self.found)), query.text, query.filename)
        wanted = {variable.name: tuple(map(operand_sql, self.local(variable.name))) for variable in query.variables}
        made = [each.sql for each in planned.measures]
        length = len(self.names)
        first, last, *chosen = made[length:]
        symbols = {name: self.labels(name) for name in self.names}
        shown = dict(zip(self.names, made[:length], strict=True))
        return RunPlan(planned, self.keys, wanted, symbols, shown, first, last, tuple(chosen))

    # ---- the pattern ----------------------------------------------------------------------------

    def loop(self, name: str) -> Loop:
        return self.query.loops.get(name, Loop(1, 1, single=True))

    @cached_property
    def negated(self) -> dict[int, list[str]]:
        """By the number of the component before it."""
        found: dict[int, list[str]] = {}
        for group in self.branch.groups:
            (name,) = group.variables
            before = [self.names.index(one) for one, later in group.before if later == name]
            found.setdefault(max(before), []).append(name)
        return found

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The attributes on which all events of a run agree; of strict contiguity, other events stand between them."""
        if self.query.strategy == "strict contiguity":
            return ()
        everywhere = set(self.names)
        if self.query.strategy == "skip till next match":
            everywhere |= {name for names in self.negated.values() for name in names}
        found = []
        for test in self.branch.equivalences:
            places = test.positive + test.negated
            attributes = {attribute for _, attribute in places}
            if everywhere <= {name for name, _ in places} and len(attributes) == 1:
                found.append(attributes.pop())
        return tuple(found)

    def equalities(self) -> Iterator[Predicate]:
        """Equivalence tests that do not partition, as conditions: of each two components, as any of them may be absent,
        and in a loop of each event and the one before."""
        for test in self.branch.equivalences:
            attributes = {attribute for _, attribute in test.positive}
            if len(attributes) == 1 and next(iter(attributes)) in self.keys:
                continue
            for (name, attribute), other in combinations(test.positive, 2):
                yield self.equal(self.latest(name, attribute), self.place(*other))
            for name, attribute in test.positive:
                if not self.loop(name).single and not isinstance(attribute, Path):
                    here = self.place(name, attribute)
                    yield self.equal(here, scalars.Folded(this="previous", expressions=[here.copy()], collected=True))

    def equal(self, left: exp.Expr, right: exp.Expr) -> Predicate:
        return Predicate(at(exp.EQ(this=left, expression=right), self.query.span), None, self.query.span)

    def latest(self, name: str, attribute: str) -> exp.Expr:
        """Of a component that is over: the last event of a loop stands for all, which agree."""
        column = self.place(name, attribute)
        if self.loop(name).single or isinstance(attribute, Path):
            return column
        return scalars.Folded(this="element", expressions=[column], collected=True, index=-1)

    def place(self, variable: str, attribute: str) -> exp.Expr:
        if isinstance(attribute, Path):
            field = of_variable(variable, attribute)
            field.meta["field"] = True
            return field
        known = self.query.variable(variable).attributes[attribute.lower()]
        column = exp.Column(
            this=exp.to_identifier(attribute, quoted=True), table=exp.to_identifier(variable, quoted=True)
        )
        column.type = known.kind.copy()
        return column

    # ---- what is known when ---------------------------------------------------------------------

    def ready(self, part: Predicate) -> int:
        """The number of the component whose event decides it; of a whole loop, that of the next one."""
        found = -1
        for column in scalars.columns(part.condition):
            fold = column.parent
            whole = isinstance(fold, scalars.Folded) and not fold.looks_back
            found = max(found, self.names.index(column.table) + int(whole))
        return found

    def unfit(self, part: Predicate) -> Iterator[Diagnostic]:
        """A value of each event of a loop, where another event is at hand."""
        ready = self.ready(part)
        for column in scalars.columns(part.condition):
            fold = column.parent
            if isinstance(fold, scalars.Folded) and not fold.looks_back:
                continue
            if self.names.index(column.table) != ready and not self.loop(column.table).single:
                yield Diagnostic(
                    f"this speaks of each event of {column.table} when {column.table} is over",
                    span_of(part.condition),
                    f"say which one is meant, last({column.table}.{column.name}), or compare with min or max of them",
                )
                return

    def decided(self, take: Take) -> list[Predicate]:
        """The parts that an event decides."""
        if take.after == take.step:
            name = self.names[take.step]
            return [part for part in self.parts if self.ready(part) == take.step and self.is_about(part, name)]
        return [part for part in self.parts if take.after < self.ready(part) <= take.step]

    def is_about(self, part: Predicate, name: str) -> bool:
        return any(
            column.table == name
            for column in scalars.columns(part.condition)
            if not (isinstance(column.parent, scalars.Folded) and not column.parent.looks_back)
        )

    def same(self, symbol: Symbol) -> Symbol:
        """The symbol by which the job knows all that ask for the same."""
        unfit = tuple(dict.fromkeys(self.first(guard) for guard in symbol.unfit if not self.apart(guard, symbol)))
        return Symbol(tuple(map(self.first, symbol.fits)), unfit, symbol.closing)

    def first(self, guard: Guard) -> Guard:
        if isinstance(guard, Forbid):
            return guard
        asked = self.asked(guard)
        others = (Take(after, guard.step) for after in range(-1, guard.step + 1))
        return next(other for other in others if self.asked(other) == asked)

    def asked(self, take: Take) -> list[tuple[int, frozenset[str]]]:
        """What an event must meet, beside its own conditions: the parts, each with what is left out of it."""
        name = self.names[take.step]
        return [
            (self.parts.index(part), self.skipped(part, take))
            for part in self.decided(take)
            if not part.is_simple or part.variables != {name}
        ]

    def skipped(self, part: Predicate, take: Take) -> frozenset[str]:
        """The components between the two, which are absent, as far as it speaks of single events of them."""
        between = self.names[take.after + 1 : take.step]
        return frozenset(column.table for column in scalars.single_columns(part.condition) if column.table in between)

    # ---- definitions ----------------------------------------------------------------------------

    def definition(self, symbol: Symbol) -> list[exp.Expr]:
        parts = [part for guard in symbol.fits for part in self.guard(guard)]
        parts += [self.unfits(guard) for guard in symbol.unfit if not self.apart(guard, symbol)]
        if symbol.closing:
            length = len(self.names)
            closing = [
                self.expression(part.condition, self.names[-1], closing=True)
                for part in self.parts
                if self.ready(part) == length
            ]
            parts += closing if symbol.closing == "holds" else [_not_true(scalars.conjunction(closing))]
        return parts or [at(At(this=exp.true(), address=Address(None), step=0), self.query.span)]

    def variable(self, guard: Guard) -> list[str]:
        return [self.names[guard.step]] if isinstance(guard, Take) else self.negated[guard.after]

    def apart(self, guard: Guard, symbol: Symbol) -> bool:
        """Whether the types of events say already that one cannot be both."""
        types = {
            kind for each in symbol.fits for name in self.variable(each) for kind in self.query.variable(name).types
        }
        others = {kind for name in self.variable(guard) for kind in self.query.variable(name).types}
        return bool(symbol.fits) and types.isdisjoint(others)

    def guard(self, guard: Guard) -> list[exp.Expr]:
        match guard:
            case Take(step=step):
                name = self.names[step]
                shared = [self.known(self.parts[number], guard) for number, _ in self.asked(guard)]
                return [_here(scalars.conjunction(self.local(name))), *(part for part in shared if part is not None)]
            case Forbid(after=after):
                ways = [self.forbids(name) for name in self.negated[after]]
                return [ways[0] if len(ways) == 1 else scalars.disjunction(ways)]

    def forbids(self, name: str) -> exp.Expr:
        (group,) = (group for group in self.branch.groups if group.variables == (name,))
        slot = next(slot for slot, names in self.negated.items() if name in names)
        parts: list[exp.Expr] = [_here(scalars.conjunction(self.local(name)))]
        for part in group.predicates:
            if part.variables == {name}:
                continue
            parts.append(self.looked_back(part, name, slot))
        for test in self.branch.equivalences:
            attribute = test.attribute(name)
            if attribute is None or attribute in self.keys:
                continue
            earlier = [place for place in test.positive if self.names.index(place[0]) <= slot] or test.positive[:1]
            for place in earlier:
                parts.append(self.looked_back(self.equal(self.place(name, attribute), self.latest(*place)), name, slot))
        return scalars.conjunction(parts)

    def looked_back(self, part: Predicate, name: str, slot: int) -> exp.Expr:
        later = [other for other in part.variables if other != name and self.names.index(other) > slot]
        each = [
            column
            for column in scalars.single_columns(part.condition)
            if column.table != name and not self.loop(column.table).single
        ]
        if later or each:
            self.refuse(
                f"whether {name} is forbidden must be known when it is there, and this depends on "
                + (f"{later[0]}, which comes later" if later else "a loop"),
                part.span,
                "compare it with single events before it",
            )
            return _here(exp.true())
        return self.expression(part.condition, name)

    def unfits(self, guard: Guard) -> exp.Expr:
        parts = self.guard(guard)
        here = [part.this for part in parts if isinstance(part, At)]
        rest = [part for part in parts if not isinstance(part, At)]
        ways: list[exp.Expr] = []
        if here:
            taken = scalars.conjunction(here)
            plain = isinstance(taken, exp.EQ | exp.In)  # the type, which is never NULL
            ways.append(_here(exp.Not(this=taken if plain else _is_true(taken))))
        ways += [_not_true(part) for part in rest]
        return ways[0] if len(ways) == 1 else scalars.disjunction(ways)

    def local(self, name: str) -> list[exp.Expr]:
        """What an event must be by itself to be of a variable."""
        variable = self.query.variable(name)
        parts = [type_test(self.query.type, variable.types)]
        own = [*self.branch.predicates, *(part for group in self.branch.groups for part in group.predicates)]
        parts += [
            scalars.without_variable(part.condition) for part in own if part.is_simple and part.variables == {name}
        ]
        return parts

    # ---- expressions ----------------------------------------------------------------------------

    def known(self, part: Predicate, take: Take) -> exp.Expr | None:
        """A part of WHERE at the event that decides it; None where nothing of it remains."""
        absent = self.skipped(part, take)
        condition = left_out(part.condition, part.variables - absent) if absent else part.condition
        if condition is None:
            return None
        return self.expression(condition, self.names[take.step])

    def expression(self, condition: exp.Expr, here: str, closing: bool = False) -> exp.Expr:
        marked, presence = self.marked(condition, here, closing)
        return self.with_presence(marked, list(presence.items()), here, closing)

    def marked(self, condition: exp.Expr, here: str, closing: bool) -> tuple[exp.Expr, dict[str, exp.Expr]]:
        """The condition, in which what may be absent has a variable of its own, each with the test that it is there."""
        presence: dict[str, exp.Expr] = {}
        whole = exp.Paren(this=condition.copy())
        for column in list(scalars.columns(whole)):
            name, fold = column.table, column.parent
            if isinstance(fold, scalars.Folded):
                if fold.looks_back:
                    least = 0
                elif fold.this == "element":
                    index = int(fold.args["index"])
                    least = index if index >= 0 else -index - 1
                else:
                    continue
            elif name != here and name in self.query.loops:
                least = 0
            else:
                continue
            mark = f"{name}{_NOTHING}{least}"
            column.set("table", exp.Identifier(this=mark, quoted=True))
            count = Over(function="count", address=self.address(name, closing))
            presence[mark] = exp.GT(this=count, expression=exp.Literal.number(least))
        return whole.this, presence

    def with_presence(
        self, condition: exp.Expr, optional: list[tuple[str, exp.Expr]], here: str, closing: bool
    ) -> exp.Expr:
        if not optional:
            return self.converted(condition, here, closing)
        (name, present), *others = optional
        without = left_out(condition, scalars.variables(condition) - {name})
        there = self.with_presence(condition, others, here, closing)
        if without is None:
            return scalars.disjunction([exp.Not(this=exp.Paren(this=present.copy())), there])
        return scalars.disjunction(
            [
                scalars.conjunction(
                    [exp.Not(this=exp.Paren(this=present.copy())), self.with_presence(without, others, here, closing)]
                ),
                scalars.conjunction([present.copy(), there]),
            ]
        )

    def address(self, name: str, closing: bool = False, first: bool = False, offset: int = 0) -> Address:
        """Of the rows of a variable before the row at hand; where a run is over, with that row."""
        return Address(self.labels(name), first=first, offset=offset, before=not closing)

    def labels(self, name: str) -> tuple[str, ...]:
        number = self.names.index(name)
        return tuple(label for symbol, label in self.symbols.items() if symbol.step == number)

    def converted(self, condition: exp.Expr, here: str, closing: bool) -> exp.Expr:
        def visit(part: exp.Expr) -> exp.Expr:
            match part:
                case scalars.Folded():
                    return self.fold(part, closing)
                case _ if is_field(part) or self.is_value(part):
                    (column, *_) = scalars.columns(part)
                    name = column.table.partition(_NOTHING)[0]
                    address = Address(None) if name == here else self.address(name, closing)
                    return _spanned(At(this=self.asked_of(name, part), address=address, step=0), part)
                case exp.Column():
                    name = part.table.partition(_NOTHING)[0]
                    value = (
                        at(exp.Column(this=part.this.copy()), span_of(part))
                        if "span" in part.meta
                        else _column(part.name)
                    )
                    address = Address(None) if name == here else self.address(name, closing)
                    return _spanned(At(this=value, address=address, step=0), part)
            return part

        return condition.copy().transform(visit, copy=False)

    def is_value(self, node: exp.Expr) -> bool:
        """Whether Spark computes it from one event, and it is more than an attribute."""
        if isinstance(node, exp.Column | exp.Connector | exp.Not | exp.Paren | exp.Predicate | At | Over):
            return False
        return len({column.table for column in scalars.columns(node)}) == 1 and not node.find(scalars.Folded)

    def asked_of(self, name: str, value: exp.Expr) -> exp.Expr:
        """Only events of the variable's types are asked for it, so that it never fails on others."""
        types = self.query.variable(name).types
        bare = scalars.without_variable(value)
        return exp.Case(ifs=[exp.If(this=type_test(self.query.type, types), true=bare)])

    def fold(self, node: scalars.Folded, closing: bool) -> exp.Expr:
        column = node.expressions[0]
        name, value = column.table.partition(_NOTHING)[0], _column(column.name)
        ahead = closing and not node.looks_back
        match node.this:
            case "size":
                found: exp.Expr = Over(function="count", address=self.address(name, ahead))
            case "count" | "sum" | "avg" | "min" | "max":
                found = Over(function=node.this, this=value, address=self.address(name, ahead))
            case "first":
                found = At(this=value, address=self.address(name, ahead, first=True), step=0)
            case "last" | "previous":
                found = At(this=value, address=self.address(name, ahead), step=0)
            case "element":
                index = int(node.args["index"])
                offset = index if index >= 0 else -index - 1
                found = At(this=value, address=self.address(name, ahead, first=index >= 0, offset=offset), step=0)
            case _:
                self.refuse("a run does not compare what is collected", span_of(node), "collect it in RETURN")
                found = exp.null()
        return _spanned(found, node)

    # ---- results --------------------------------------------------------------------------------

    def value(self, name: str) -> exp.Expr:
        address = replace(self.address(name), before=False, final=True)
        if self.loop(name).single:
            return At(this=_column(self.event), address=address, step=0)
        return Over(function="array_agg", this=_column(self.event), address=address)

    def numbers(self) -> Iterator[exp.Expr]:
        """What choosing among matches goes by. Of matches that do not overlap, an event completes one, and no other
        uses its events: there is nothing to choose."""
        query = self.query
        if query.after == "past last row" or (not query.selection and query.consume != "exclusive"):
            return
        every = tuple(label for name in self.names for label in self.labels(name))
        yield Over(function="array_agg", this=_column(self.number), address=Address(every, final=True))
        for name in query.selection:
            yield At(this=_column(self.number), address=Address(self.labels(name), final=True), step=0)

    def refuse(self, message: str, span: Span, help: str) -> None:
        self.found.append(Diagnostic(message, span, help))


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _here(value: exp.Expr) -> At:
    return At(this=value, address=Address(None), step=0)


def _is_true(condition: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.Paren(this=condition.copy()), expression=exp.true())


def _not_true(condition: exp.Expr) -> exp.Expr:
    return exp.Not(this=_is_true(condition))


def _spanned(node: exp.Expr, like: exp.Expr) -> exp.Expr:
    return at(node, like.meta["span"]) if "span" in like.meta else node
