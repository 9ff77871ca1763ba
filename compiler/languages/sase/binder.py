"""Syntax tree + catalog → bound query. Collects every error it can find before it gives up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, product

from sqlglot import exp

from sase.compiler.core import pattern, scalars
from sase.compiler.core.aggregates import FUNCTIONS, Aggregate, CountAll
from sase.compiler.core.arrivals import Arrivals
from sase.compiler.core.assemble import assemble
from sase.compiler.core.bound import (
    Apart,
    Before,
    BoundQuery,
    Grouping,
    Loop,
    Mode,
    Output,
    TimeKind,
    Variable,
    Window,
)
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, SaseError, Span, did_you_mean
from sase.compiler.core.missing import Missing, with_escapes
from sase.compiler.core.names import resolve
from sase.compiler.core.results import Results
from sase.compiler.core.schema import attributes, time_kind, time_type
from sase.compiler.core.spans import at, span_of
from sase.compiler.core.weights import is_asked
from sase.compiler.core.windows import window
from sase.compiler.languages.lengths import given
from sase.compiler.languages.outputs import outputs
from sase.compiler.languages.sase import loops, times
from sase.compiler.languages.sase.syntax import (
    All,
    And,
    Bounded,
    Component,
    Duration,
    Equivalence,
    Name,
    Not,
    Or,
    Part,
    Pattern,
    Query,
    Seq,
    Some,
    alternatives,
    clauses,
    components,
)


def _spans(node: Pattern) -> Iterator[tuple[Span, Span]]:
    """The place of each component, and that with its `!` or ALL."""
    match node:
        case Component():
            yield node.span, node.span
        case Not(pattern=Component(span=inner)) | All(component=Component(span=inner)):
            yield inner, node.span
        case Not() | Bounded():
            yield from _spans(node.pattern)
        case Seq() | And() | Or() | Some():
            for part in node.parts:
                yield from _spans(part.pattern)


def _around(node: Pattern, part: Bounded) -> Iterator[Component]:
    """What the clauses of a part may speak of outside of it: events that a match has, or those that must not be there
    together with the part."""
    if node is part:
        return
    match node:
        case Component():
            yield node
        case Not() | Bounded():
            if isinstance(node, Bounded) or any(each is part for each in clauses(node.pattern)):
                yield from _around(node.pattern, part)
        case Seq() | And() | Or() | Some():
            for operand in node.parts:
                yield from _around(operand.pattern, part)


@dataclass(frozen=True)
class _Scope:
    """A part of the pattern with clauses of its own: its variables, and those outside that they may speak of."""

    own: frozenset[str]
    around: frozenset[str]


def _single(event: str, attribute: exp.Expr, collected: bool, span: Span) -> exp.Column:
    """An attribute of the variable of a single event, which need not be a name of the text."""
    column = exp.Column(this=attribute.copy(), table=at(exp.Identifier(this=event, quoted=True), span))
    at(column.this, span)
    if not collected:
        column.meta["single"] = True
    return at(column, span)


def _bottom_up(node: exp.Expr, visit: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """What stands inside comes first."""
    for part in list(node.iter_expressions()):
        changed = _bottom_up(part, visit)
        if changed is not part:
            part.replace(changed)
    return visit(node)


_OF_MATCHES = (Arrivals, Results, exp.Anonymous)


def _joined(said: list[times.Said]) -> tuple[frozenset[Before], tuple[Apart, ...]]:
    return frozenset(pair for each in said for pair in each.before), tuple(one for each in said for one in each.apart)


def _kind(component: Component) -> object:
    return component.every, {name.text for name in component.types}, component.repeated, component.optional


def bind(query: Query, catalog: Catalog, event: bool = False, *, missing: Missing = with_escapes) -> BoundQuery:
    return _Binder(query, catalog, missing).bind(event)


class _Binder:
    def __init__(self, query: Query, catalog: Catalog, missing: Missing) -> None:
        self.query = query
        self.catalog = catalog
        self.missing = missing
        self.found: list[Diagnostic] = []
        self.variables: list[Variable] = []
        """By the names of the text: a repeated one is one of them."""
        self.elements: dict[str, tuple[str, ...]] = {}
        """Of a repeated variable, those of its single events."""
        self.optional: set[str] = set()
        """Repeated variables of which there may be none."""
        self.loops: dict[str, Loop] = {}
        """Repeated variables that are not written out like that."""
        self.selection: dict[str, tuple[Mode, Span]] = {}
        self.shapes: pattern.Shapes = ()
        self.scopes: list[frozenset[str]] = []
        """Variables that can be compared with each other."""
        self.collected: frozenset[str] = frozenset()
        self.unknown_types: set[str] = set()
        self.scope: _Scope | None = None
        """Where the condition stands that is read; None behind the pattern."""
        self.where: list[exp.Expr] = []
        """The parts of WHERE that are conditions on values."""
        self.inner: list[tuple[exp.Expr, _Scope]] = []
        """Those of clauses inside the pattern, by number."""
        self.said: list[times.Said] = []
        """What WHERE, and clauses inside the pattern, say of times."""
        self.lasting: TimeKind = "integer"

    def bind(self, event: bool) -> BoundQuery:
        length = self.window_length(self.query.within)
        time = time_type(self.catalog, self.has_bare_length())
        kind = self.lasting = time_kind(self.catalog, time)
        self.bind_pattern(time)
        returns, into, consume = self.query.returns, self.query.into, self.query.consume
        exclusive = consume.span if consume and consume.text.upper() == "EXCLUSIVE" else None
        self.check_doubles(exclusive is not None)
        composite = (returns.composite or into) if returns else None
        return assemble(
            self.query.text,
            self.query.filename,
            self.catalog,
            stream=self.query.stream,
            span=self.query.span,
            time_kind=kind,
            variables=list(self.single_variables()),
            shapes=self.shapes,
            where=[condition for part in self.where for condition in self.conditions(part)],
            inner=list(self.inner_conditions()),
            within=self.window(length, kind),
            returns=None if returns is None else list(self.outputs()),
            composite=composite.text if composite else None,
            timed=composite is not None and (event or composite is into),
            found=self.found,
            missing=self.missing,
            selection=self.selection,
            exclusive=exclusive,
            once=self.once,
            arrays=self.elements,
            empty=frozenset(self.optional),
            timed_out=self.query.timed_out,
            loops=self.loops,
            strategy=loops.strategy(self.query),
            after=loops.after(self.query),
            grouped=self.grouping(),
        )

    def error(self, message: str, span: Span, help: str | None = None) -> None:
        self.found.append(Diagnostic(message, span, help))

    def has_bare_length(self) -> bool:
        """Whether a length of time has no unit, so that time is a number."""
        scopes: list[Query | Bounded] = [self.query, *clauses(self.query.pattern)]
        lengths = [self.window_length(each.within) for each in scopes]
        return any(
            isinstance(each, Duration) and all(unit is None for _, unit in each.parts) for each in lengths
        ) or any(any(times.bare(each.where)) for each in scopes if each.where is not None)

    # ---- EVENT ----------------------------------------------------------------------------------

    def bind_pattern(self, time: exp.DataType) -> None:
        listed = list(components(self.query.pattern))
        whole = loops.stay_whole(self.query)
        taken: dict[str, Component] = {}
        for component in listed:
            self.check_types(component)
            if component.variable is not None:
                self.check_variable(component, component.variable, taken)
        names = {component.span: self.name_of(component, taken) for component in listed}
        spans = dict(_spans(self.query.pattern))
        for component in listed:
            name = names[component.span]
            if any(variable.name == name for variable in self.variables):
                continue
            named = self.catalog.types or () if component.every else (part.text for part in component.types)
            types = tuple(dict.fromkeys(named))
            declared = attributes(types, self.catalog, time, component.span, self.found)
            self.variables.append(Variable(name, types, False, declared, spans[component.span]))
            if (component.repeated or component.optional) and whole:
                self.loops[name] = Loop(*(component.repeated or (0, 1)), single=component.optional)
            elif component.repeated:
                most = component.repeated[1]
                assert most is not None
                self.elements[name] = self.element_names(name, most, taken)
                if component.repeated[0] == 0:
                    self.optional.add(name)
        self.found += loops.misplaced(self.query.pattern)
        self.lower(names)

    def lower(self, names: dict[Span, str]) -> None:
        """The pattern's branches, and with them which variables are negated, and which can meet."""

        def of(node: Pattern) -> pattern.Pattern:
            match node:
                case Component():
                    name = names[node.span]
                    leaf = pattern.Leaf(name, node.span)
                    if name in self.loops:
                        return leaf
                    if node.repeated:
                        return pattern.repeated(self.elements[name][: node.repeated[1]], node.repeated[0], node.span)
                    return pattern.optional(leaf) if node.optional else leaf
                case Seq():
                    return pattern.Seq(parts(node.parts), node.span)
                case And():
                    return pattern.And(parts(node.parts), node.span)
                case Or():
                    return pattern.Or(parts(node.parts), node.span, node.every)
                case Some():
                    return pattern.Some(node.least, parts(node.parts), node.span)
                case Not():
                    return pattern.Not(of(node.pattern), node.span)
                case All():
                    return pattern.All(pattern.Leaf(names[node.component.span], node.component.span), node.span)
                case Bounded():
                    return self.bounded(node, of(node.pattern), names)

        def parts(operands: tuple[Part, ...]) -> tuple[pattern.Pattern, ...]:
            for part in operands:
                if part.mode is not None and isinstance(part.pattern, Component):
                    mode: Mode = "first" if part.mode.text == "first" else "last"
                    self.selection[names[part.pattern.span]] = (mode, part.mode.span)
            return tuple(of(part.pattern) for part in operands)

        whole = of(self.query.pattern)
        self.check_shared(whole)
        self.where, said = self.sorted_parts(self.query.where, None)
        if said:
            whole = pattern.Bounded(whole, self.query.span, *_joined(said))
        try:
            self.shapes = pattern.lower(whole)
        except pattern.TooManyBranches as error:
            self.error(
                f"with all its alternatives, this pattern has more than {pattern.MOST_BRANCHES} branches",
                error.span,
                "they multiply: make several queries of it, or use ANY(A, B) x for one event of several types",
            )
            raise SaseError(self.found, self.query.text, self.query.filename) from None
        self.found += pattern.collects_nothing(whole)
        self.collected = pattern.collected(self.shapes)
        self.scopes = list(pattern.scopes(self.shapes))
        self.check_said()
        positive = {name for shape in self.shapes for name in shape.variables}
        self.variables = [
            replace(variable, negated=positive.isdisjoint(self.events_of(variable.name))) for variable in self.variables
        ]

    def bounded(self, node: Bounded, part: pattern.Pattern, names: dict[Span, str]) -> pattern.Pattern:
        def events(components: Iterator[Component]) -> frozenset[str]:
            return frozenset(event for each in components for event in self.events_of(names[each.span]))

        own = events(components(node.pattern))
        scope = _Scope(own, events(_around(self.query.pattern, node)) - own)
        conditions, said = self.sorted_parts(node.where, scope)
        numbers = range(len(self.inner), len(self.inner) + len(conditions))
        self.inner += [(condition, scope) for condition in conditions]
        length = self.window(self.window_length(node.within), self.lasting)
        if isinstance(length, Diagnostic):
            self.found.append(length)
        ticks = length.ticks if isinstance(length, Window) else None
        return pattern.Bounded(part, node.span, *_joined(said), ticks, frozenset(numbers))

    def sorted_parts(self, where: exp.Expr | None, scope: _Scope | None) -> tuple[list[exp.Expr], list[times.Said]]:
        """The parts of a WHERE that are conditions on values, and those that say where events lie in time."""
        reader = self.reader
        conditions: list[exp.Expr] = []
        said: list[times.Said] = []
        for part in scalars.conjuncts(where) if where is not None else ():
            before = len(self.found)
            known = reader.said(part)
            if known is None and len(self.found) == before:
                conditions.append(part)
            elif known is not None and len(self.found) == before:
                if scope is not None:
                    self.check_scope({*known.variables}, known.span, scope)
                said += self.of_events(known)
        self.said += said
        return conditions, said

    @property
    def reader(self) -> times.Reader:
        names = {variable.name.lower(): variable.name for variable in self.variables}
        return times.Reader(names, self.catalog.time, self.lasting, self.catalog.parameters, self.found)

    def of_events(self, said: times.Said) -> Iterator[times.Said]:
        """The same of each event of a repeated variable."""
        one, other = said.variables
        for pair in product(self.events_of(one), self.events_of(other)):
            name = dict(zip((one, other), pair, strict=True))
            yield times.Said(
                tuple((name[earlier], name[later]) for earlier, later in said.before),
                tuple(Apart(name[each.earlier], name[each.later], each.ticks) for each in said.apart),
                pair,
                said.span,
            )

    def check_scope(self, names: set[str], span: Span, scope: _Scope) -> None:
        """Clauses inside a pattern are about the part that they stand behind."""
        events = {name: {*self.events_of(name)} for name in names}
        if not any(each & scope.own for each in events.values()):
            self.error(
                "this does not speak of the part of the pattern that it stands behind",
                span,
                "write it behind the whole pattern, or behind the part whose events it is about",
            )
        for name, each in sorted(events.items()):
            if not each <= scope.own | scope.around:
                self.error(
                    f"{name} is negated or collected elsewhere in the pattern, and cannot be compared with here",
                    span,
                    f"say it behind the part that has {name}",
                )

    def check_said(self) -> None:
        """What is said of times is said of events that can be compared, and without a contradiction. Branches in which
        no events can lie like that are left out."""
        for each in self.said:
            if not any(set(each.variables) <= scope for scope in self.scopes):
                one, other = each.variables
                self.error(
                    f"nothing has both {one} and {other}",
                    each.span,
                    "they stand in different alternatives, or each is negated for itself",
                )
        places = [*(each.span for each in self.said), *(each.span for each in clauses(self.query.pattern))]
        if not places:
            return
        has_order = self.catalog.order is not None
        possible = tuple(each for each in self.shapes if pattern.is_possible(each.before, each.apart, has_order))
        never = [group.span for shape in self.shapes for group in pattern.never_added(shape)]
        if not possible or never:
            self.error(
                "no events can lie like that",
                (never or places)[0],
                "the orders and lengths of time that are asked for contradict each other",
            )
        self.shapes = possible or self.shapes
        if self.runs or self.loops:
            self.error(
                "clauses inside the pattern, before() and elapsed() are for all combinations of single events",
                places[0],
                "leave them out, or TIMED OUT, the strategy, and what is repeated without a bound",
            )

    @property
    def runs(self) -> bool:
        """Whether a match is a run, or a sequence on its way: it goes from event to event."""
        strategy = self.query.strategy
        return self.query.timed_out is not None or (strategy is not None and strategy.text != "skip till any match")

    @property
    def once(self) -> bool:
        return not any(shape.ways for shape in self.shapes)

    def check_doubles(self, exclusive: bool) -> None:
        """With OR ALL, every branch counts for itself: no two of them may be there for a match that OR finds once."""
        unions = [node for node in alternatives(self.query.pattern) if node.every]
        if self.once:
            return
        if self.selection or exclusive or self.runs or any(part.find(Results) for part in self.where):
            self.error(
                "OR ALL keeps doubles, and this query chooses among its matches",
                unions[0].span,
                "write OR, or leave out first, last, CONSUME EXCLUSIVE, the strategy and aggregates over results",
            )
        for one, other in combinations(self.shapes, 2):
            alike = one.ways == other.ways and {*one.variables} == {*other.variables}
            if alike and pattern.is_possible(one.before | other.before, one.apart + other.apart):
                once = [node.span for node in alternatives(self.query.pattern) if not node.every]
                self.error(
                    "OR ALL keeps doubles of the whole pattern, and this alternative would have some, too",
                    (once or [self.query.span])[0],
                    "write OR ALL here, too, or let its parts bind different variables",
                )
                return

    def check_shared(self, whole: pattern.Pattern) -> None:
        """A variable may stand in several branches, for the same events."""
        twice = {second.span for _, second in pattern.twice(whole)}
        firsts: dict[str, Component] = {}
        for component in components(self.query.pattern):
            if component.variable is None:
                continue
            name, span = component.variable.text, component.variable.span
            first = firsts.setdefault(name.lower(), component)
            has_it = f"{self.query.text[first.span.start : first.span.end]} has it already"
            if component.span in twice:
                self.error(f"the variable {name} is used twice", span, has_it)
            elif _kind(first) != _kind(component):
                self.error(f"the variable {name} stands for different events", span, f"{has_it}: use another name")

    def events_of(self, name: str) -> tuple[str, ...]:
        """The variables of single events: itself, or the elements of a repeated one."""
        return self.elements.get(name, (name,))

    def single_variables(self) -> Iterator[Variable]:
        for variable in self.variables:
            for name in self.events_of(variable.name):
                yield replace(variable, name=name)

    def meet(self, one: str, other: str) -> bool:
        return any(one in scope and other in scope for scope in self.scopes)

    def element_names(self, name: str, count: int, taken: dict[str, Component]) -> tuple[str, ...]:
        names: list[str] = []
        number = 0
        while len(names) < count:
            number += 1
            if f"{name}_{number}".lower() not in taken:
                names.append(f"{name}_{number}")
        return tuple(names)

    def check_types(self, component: Component) -> None:
        types = self.catalog.types
        seen: set[str] = set()
        for name in component.types:
            if types is not None and name.text not in types:
                if name.text not in self.unknown_types:
                    self.error(
                        f"unknown event type {name.text}",
                        name.span,
                        did_you_mean(name.text, types, "the catalog has"),
                    )
                self.unknown_types.add(name.text)
            elif name.text in seen:
                self.error(f"{name.text} stands twice in this ANY", name.span, "remove one of them")
            seen.add(name.text)

    def check_variable(self, component: Component, variable: Name, taken: dict[str, Component]) -> None:
        taken.setdefault(variable.text.lower(), component)
        columns = ("started_at", "detected_at", *(("reached",) if self.query.timed_out else ()))
        if self.query.returns is None and variable.text.lower() in columns:
            self.error(
                f"{variable.text} is a column of the result", variable.span, "choose another name for the variable"
            )

    def name_of(self, component: Component, taken: dict[str, Component]) -> str:
        """As it is spelled where it stands first."""
        if component.variable is None:
            return self.default_name(component, taken)
        first = taken[component.variable.text.lower()].variable
        assert first is not None
        return first.text

    def default_name(self, component: Component, taken: dict[str, Component]) -> str:
        """That of its type: `SHELF-READING` is `shelf_reading`, and the next one `shelf_reading_2`."""
        stem = "" if component.every else re.sub(r"\W+", "_", component.types[0].text.lower()).strip("_")
        stem = stem or "event"
        name, count = stem, 1
        while name.lower() in taken:
            count += 1
            name = f"{stem}_{count}"
        taken[name.lower()] = component
        return name

    # ---- WITHIN ---------------------------------------------------------------------------------

    def window_length(self, within: Duration | Name | None) -> Duration | Name | None:
        return None if within is None else given(within, self.catalog.parameters)

    def window(self, length: Duration | Name | None, kind: TimeKind) -> Window | Diagnostic | None:
        match length:
            case None:
                return None
            case Duration():
                return window(length.parts, length.span, self.catalog.time, kind)
            case Name():
                given = self.catalog.parameters.get(length.text)
                missing = f"{length.text} has no value"
                return Diagnostic(
                    missing if given is None else f"{length.text} is {given!r}, not a length of time",
                    length.span,
                    f"give it one: --param {length.text}='12 hours', or [parameters] in the catalog",
                )

    # ---- names ----------------------------------------------------------------------------------

    def resolve(self, node: exp.Expr) -> exp.Expr | None:
        """None where a name has no meaning. What one place in the text stands for, as in `[id]`, is reported once."""
        before = len(self.found)
        found: list[Diagnostic] = []
        folded = self.folded(node, found)
        bound = node if found else resolve(folded, self.variable_of, self.catalog, found)
        self.found += {mistake.span: mistake for mistake in reversed(found)}.values()
        return bound if len(self.found) == before else None

    def folded(self, node: exp.Expr, found: list[Diagnostic]) -> exp.Expr:
        """`sum(t.v)`, `count(t)`, `a[0].v`, `a[i-1].v`, where the variable stands for several events."""
        arrays = [name for name, loop in self.loops.items() if not loop.single]
        several = {name.lower(): name for name in (*self.collected, *self.elements, *arrays)}

        def visit(part: exp.Expr) -> exp.Expr:
            match part:
                case exp.Anonymous(expressions=[exp.Column() as column]) if part.name.lower() in scalars.FOLDS:
                    if column.table.lower() in several:
                        return self.fold(part, several[column.table.lower()], column.this, found)
                    if not column.table and column.name.lower() in several and part.name.lower() == "count":
                        return self.fold(part, several[column.name.lower()], None, found)
                case exp.Anonymous(expressions=[exp.Dot(this=exp.Bracket() as events) as inside]):
                    place = loops.place(events, several)
                    if place is not None and place.up_to and part.name.lower() in scalars.FOLDS:
                        return self.earlier(part, place, inside, found)
                case exp.Dot(this=exp.Bracket() as events):
                    place = loops.place(events, several)
                    if place is not None and place.name not in self.collected:
                        return self.element(part, place, found)
            return part

        changed = node.transform(visit, copy=True)
        found += loops.places_left(changed)
        return changed

    def fold(self, call: exp.Anonymous, name: str, value: exp.Expr | None, found: list[Diagnostic]) -> exp.Expr:
        """`value` is the attribute that is folded; None counts events."""
        span, function = span_of(call), call.name.lower()
        attribute = value if value is not None else exp.Identifier(this=self.catalog.time, quoted=True)
        events = self.events_of(name)
        if name in self.collected and function in ("first", "last"):
            found.append(
                Diagnostic(
                    f"several events of {name} may be {function} at one time",
                    span,
                    f"SEQ({function} A a, …) selects an event; min and max of collected values are known",
                )
            )
        always = all(set(events) <= set(shape.variables) for shape in self.shapes)
        folded = scalars.Folded(
            this="size" if value is None else function,
            expressions=[_single(event, attribute, name not in self.elements, span) for event in events],
            collected=name not in self.elements,
            optional=name in self.optional,
        )
        if not always and name in self.elements:
            time = exp.Identifier(this=self.catalog.time, quoted=True)
            folded.set("times", [_single(event, time, False, span) for event in events])
        return at(folded, span)

    def earlier(
        self, call: exp.Anonymous, place: loops.Place, inside: exp.Dot, found: list[Diagnostic]
    ) -> scalars.Folded:
        """`avg(b[..i-1].v)`: of the events before the one at hand."""
        if place.index != 1:
            found.append(Diagnostic("what came before is [..i-1]", place.span, f"write {place.name}[..i-1]"))
        value = _single(place.name, inside.expression, True, span_of(call))
        function = call.name.lower()
        return at(scalars.Folded(this=function, expressions=[value], collected=True, earlier=True), span_of(call))

    def element(self, node: exp.Dot, place: loops.Place, found: list[Diagnostic]) -> exp.Expr:
        """`a[0].v` is of the first event, `a[-1].v` of the last; `a[i].v` of each, and `a[i-1].v` of the one before."""
        span = span_of(node)
        whole = _single(place.name, node.expression, True, span)
        if place.up_to:
            found.append(
                Diagnostic(
                    f"{place.name}[..i-1] stands for several events",
                    place.span,
                    f"make one value of them, such as avg({place.name}[..i-1].{node.expression.name})",
                )
            )
        if place.in_loop:
            if place.index > 1:
                found.append(Diagnostic("neighbours are [i] and [i-1]", place.span, f"write {place.name}[i-1]"))
            if place.index == 0:
                return whole
            return at(scalars.Folded(this="previous", expressions=[whole], collected=True), span)
        if place.name in self.loops:
            return at(scalars.Folded(this="element", expressions=[whole], collected=True, index=place.index), span)
        events = self.elements[place.name]
        if place.index < 0:
            last = at(exp.Anonymous(this="last", expressions=[whole]), span)
            if place.index < -1:
                found.append(Diagnostic("[-1] is the last event", place.span, "count the others from the first, [0]"))
            return self.fold(last, place.name, node.expression, found)
        if place.index >= len(events):
            found.append(
                Diagnostic(f"there are at most {len(events)} of these events", place.span, "the first one is [0]")
            )
            return whole
        return _single(events[place.index], node.expression, False, span)

    def variable_of(self, node: exp.Column) -> Variable | None:
        name, span = node.name, span_of(node)
        if node.meta.get("single") and node.table not in self.loops:
            return next(variable for variable in self.single_variables() if variable.name == node.table)
        if node.table:
            for variable in self.variables:
                if variable.name.lower() == node.table.lower():
                    return variable
            named = [variable.name for variable in self.variables if node.table in variable.types]
            having = [variable.name for variable in self.variables if node.table.lower() in variable.attributes]
            if named:
                help = f"{node.table} is an event type; its variable is {named[0]}"
            elif having:
                help = f"{node.table} is an attribute: write {having[0]}.{node.table}.{name}"
            else:
                help = did_you_mean(node.table, (variable.name for variable in self.variables), "the pattern has")
            self.error(f"unknown variable {node.table}", span_of(node.args["table"]), help)
            return None
        namesake = next((known for known in self.variables if known.name.lower() == name.lower()), None)
        if namesake is not None and not any(name.lower() in known.attributes for known in self.variables):
            attribute = next(iter(namesake.attributes.values())).name
            self.error(f"{name} is a variable, and a value is needed here", span, f"write {name}.{attribute}, for one")
            return None
        if len(self.variables) == 1:
            return self.variables[0]
        declaring = [variable for variable in self.variables if name.lower() in variable.attributes]
        declaring = [variable for variable in declaring if self.is_own(variable)] or declaring
        positive = [variable for variable in declaring if not variable.negated]
        candidates = positive or declaring
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            choices = " or ".join(f"{variable.name}.{name}" for variable in candidates)
            self.error(f"{name} could be of several variables", span, f"write {choices}, or [{name}] for all of them")
            return None
        known = {attribute.name for variable in self.variables for attribute in variable.attributes.values()}
        self.error(f"no event type of the pattern declares {name}", span, did_you_mean(name, known, "declared are"))
        return None

    # ---- WHERE ----------------------------------------------------------------------------------

    def conditions(self, part: exp.Expr) -> Iterator[exp.Expr]:
        for expanded in self.expand(part):
            condition = self.resolve(expanded)
            if condition is None:
                break  # the other pairs of an equivalence test would say the same
            yield from self.of_each(condition)

    def inner_conditions(self) -> Iterator[tuple[int, exp.Expr]]:
        """Those of clauses inside the pattern."""
        for number, (part, scope) in enumerate(self.inner):
            self.scope = scope
            if any(not isinstance(node, exp.Anonymous) or is_asked([node]) for node in part.find_all(*_OF_MATCHES)):
                self.error(
                    "this is known of whole matches, and a WHERE inside the pattern is about a part of them",
                    span_of(part),
                    "write it behind the whole pattern",
                )
                continue
            for condition in self.conditions(part):
                self.check_scope({*scalars.variables(condition)}, span_of(part), scope)
                yield number, condition
        self.scope = None

    def is_own(self, variable: Variable) -> bool:
        return self.scope is None or not self.scope.own.isdisjoint(self.events_of(variable.name))

    def of_each(self, condition: exp.Expr) -> Iterator[exp.Expr]:
        """A condition on a repeated variable holds of each of its events; one that looks back, of all but the first."""
        repeated = sorted(scalars.variables(condition) & set(self.elements))
        for chosen in product(*(self.elements[name] for name in repeated)):
            element = dict(zip(repeated, chosen, strict=True))
            before = {name: self.elements[name][: self.elements[name].index(one)] for name, one in element.items()}
            written = loops.of_one(condition, element, before) if repeated else condition
            if written is not None:
                yield written

    def expand(self, part: exp.Expr) -> list[exp.Expr]:
        """`[id]` at the top is one equality per pair of components; deeper down, only over positive components."""
        if isinstance(part, Equivalence):
            return self.equalities(part)
        tests = list(part.find_all(Equivalence))
        if not tests:
            return [part]
        expanded = part.copy()
        for test in list(expanded.find_all(Equivalence)):
            name = test.attribute.name
            own = filter(self.is_own, self.variables)
            if any(variable.negated and name.lower() in variable.attributes for variable in own):
                self.error(
                    f"[{name}] speaks of negated components, too, and cannot stand under OR or NOT",
                    span_of(test),
                    "write the comparison of the positive variables in full",
                )
                return []
            equalities = self.equalities(test)
            if not equalities or len(self.shapes) > 1:  # of a lone event it is true, whatever a branch leaves out
                equalities.append(exp.Boolean(this=True))
            joined = scalars.conjunction(equalities)
            test.replace(at(exp.Paren(this=joined), span_of(test)))
        return [expanded]

    def equalities(self, test: Equivalence) -> list[exp.Expr]:
        name, span = test.attribute.name, span_of(test)
        declaring = [
            variable
            for variable in self.variables
            if self.is_own(variable) and (self.catalog.types is None or name.lower() in variable.attributes)
        ]
        if not declaring and any(variable.name.lower() == name.lower() for variable in self.variables):
            attribute = test.this.expression.name if isinstance(test.this, exp.Dot) else self.catalog.time
            self.error(
                f"{name} is a variable, and [ ] is about all of them",
                span,
                f"[{attribute}] compares {attribute} between all events of a match that have it",
            )
            return []
        if not declaring:
            known = {attribute.name for variable in self.variables for attribute in variable.attributes.values()}
            self.error(f"no event type of the pattern declares {name}", span, did_you_mean(name, known, "declared are"))
            return []

        def of(event: str) -> exp.Expr:
            return test.of(_single(event, exp.Identifier(this=name, quoted=True), False, span))

        events = [event for variable in declaring for event in self.events_of(variable.name)]
        value = test.args.get("value")
        if value is not None:
            # Equal to one value, so equal to each other: no pairs are needed.
            return [at(exp.EQ(this=of(event), expression=value.copy()), span) for event in events]
        plain = isinstance(test.this, exp.Identifier)
        agree = [loops.agrees(of(name)) for name in events if name in self.loops and plain]
        pairs = [
            (left, right)
            for index, left in enumerate(events)
            for right in events[index + 1 :]
            if self.meet(left, right)
        ]
        if not pairs and len(declaring) > 1 and all(variable.negated for variable in declaring):
            self.error(
                f"only negated components declare {name}, and two of them cannot be compared with each other",
                span,
                "compare each with a positive variable",
            )
            return []
        tests = [*agree, *(at(exp.EQ(this=of(left), expression=of(right)), span) for left, right in pairs)]
        for equality in tests:
            equality.meta["test"] = True  # of all events that there are, whatever is left out
        return tests

    # ---- RETURN ---------------------------------------------------------------------------------

    def outputs(self) -> Iterator[Output]:
        returns = self.query.returns
        assert returns is not None
        if not returns.items:
            self.error("a composite event needs attributes", returns.span, "write RETURN Alert(x.id, z.ts AS left_at)")
        items = []
        for item in returns.items:
            if any(item.expression.find_all(Equivalence)):
                self.error("an equivalence test has no value to return", item.span, "return an attribute, such as x.id")
            else:
                before = len(self.found)
                self.reader.misplaced(item.expression)
                items += [item] if len(self.found) == before else []
        if returns.aggregates:
            items = [replace(item, expression=self.aggregated(item.expression)) for item in items]
        own = self.query.into is not None
        return outputs(items, self.resolve, self.variable_of, self.catalog, self.found, own_place=own)

    def grouping(self) -> Grouping | None:
        returns = self.query.returns
        if returns is None or not returns.aggregates:
            return None
        values = [self.resolve(self.aggregated(value)) for value in returns.group_by or ()]
        return Grouping(tuple(value for value in values if value is not None), returns.span)

    def aggregated(self, node: exp.Expr) -> exp.Expr:
        """With its aggregates. A count or a sum that is cast to a double is computed as one."""
        names = {variable.name.lower(): variable.name for variable in self.variables}

        def visit(part: exp.Expr) -> exp.Expr:
            match part:
                case CountAll():
                    if part.name.lower() != "count":
                        self.error(f"{part.name}(*) has no meaning", span_of(part), "count(*) is the number of matches")
                    return at(Aggregate(this="count"), span_of(part))
                case exp.Anonymous(expressions=[value]) if part.name.lower() in FUNCTIONS:
                    variable = isinstance(value, exp.Column) and not value.table and value.name.lower() in names
                    if variable and part.name.lower() == "count":  # each event has a time
                        time = exp.Identifier(this=self.catalog.time, quoted=True)
                        value = _single(names[value.name.lower()], time, True, span_of(value))
                    return at(Aggregate(this=part.name.lower(), expression=value), span_of(part))
                case exp.Cast(this=Aggregate(this="count" | "sum") as whole) if (
                    part.to.this == exp.DataType.Type.DOUBLE
                ):
                    return at(Aggregate(this=whole.this, expression=whole.value, real=True), span_of(part))
            return part

        return _bottom_up(node.copy(), visit)
