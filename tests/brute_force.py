"""The judge: what a query means, computed the slow and obvious way.

Every combination of events is tried and every rule of the semantics is one small function, named in its words: the
branches of a pattern, all assignments of events to the variables of one, and what could be added to each. It shares
nothing with the compiler but the parser. The query is taken to be valid: finding errors is the compiler's work.

Truth has three values: True, False and None, which is SQL's unknown. A condition selects only where it is True.

Integers are as wide as their types. What does not fit wraps around, or with ANSI is an `Overflow`: then a query has no
answer, where a match depends on it, and need not have one, where it only might (see `verdict`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from ctypes import c_float
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from itertools import combinations, pairwise, product
from typing import Any, NamedTuple

from sqlglot import exp

from sase.compiler.core.aggregates import CountAll
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.durations import parse as parse_duration
from sase.compiler.core.errors import Span
from sase.compiler.core.names import Parameter
from sase.compiler.languages.sase import syntax
from sase.compiler.languages.sase.parser import parse
from sase.compiler.languages.sase.syntax import Duration, Equivalence, Name, Query

Truth = bool | None


class Overflow(ArithmeticError):
    """An integer does not fit into its type, and Spark would fail."""


def evaluate(
    query_text: str, catalog: Catalog, events: list[dict[str, Any]], ansi: bool = True
) -> list[dict[str, Any]]:
    """The bag of results, one dict per match. An event is a dict from column to value, None where it is NULL."""
    query = parse(query_text)
    stream = taking_part(events, catalog)
    pattern = Pattern(query, catalog, ansi, longest=len(stream))
    found = matches_of(pattern, query, stream)
    if query.returns is not None and query.returns.aggregates:
        return grouped(pattern, query.returns, found)
    return [result(pattern, query, match) for match in found]


class Match(NamedTuple):
    branch: Branch
    bound: dict[str, Event]
    collected: dict[str, list[Event]]


def matches_of(pattern: Pattern, query: Query, stream: list[Event]) -> list[Match]:
    return matches(pattern, stream) if pattern.strategy == ANY_MATCH else matches_of_runs(pattern, query, stream)


def matches(pattern: Pattern, stream: list[Event]) -> list[Match]:
    """Each assignment of events to variables once, whatever branches give it; by each way of OR ALL, once."""
    found: dict[tuple[frozenset[tuple[str, int]], tuple[int, ...]], Match] = {}
    for branch in pattern.branches:
        for bound in assignments(pattern, branch.positive, stream, {}):
            assignment = frozenset((name, id(event)) for name, event in bound.items()), branch.ways
            if assignment not in found and fits(pattern, branch.before, bound, branch.clauses):
                match = Match(branch, bound, collected(pattern, branch, bound, stream))
                if is_match(pattern, match, stream):
                    found[assignment] = match
    chosen = list(found.values())
    return consumed(pattern, chosen) if pattern.exclusive else selected(pattern, chosen)


def assignments(
    pattern: Pattern, names: tuple[str, ...], stream: list[Event], bound: dict[str, Event]
) -> Iterator[dict[str, Event]]:
    """Every way to add these variables, each with an event of its own."""
    if not names:
        yield bound
        return
    for event in of_types(stream, pattern.component(names[0])):
        if all(event is not other for other in bound.values()):
            yield from assignments(pattern, names[1:], stream, {**bound, names[0]: event})


def fits(pattern: Pattern, order: Order, bound: dict[str, Event], clauses: tuple[Clauses, ...] = ()) -> bool:
    """Are all in their order, and in one window; and those of a part that has a window in that one?"""
    windows = [(frozenset(bound), pattern.within)]
    windows += [(each.names, window(each.within, pattern.catalog)) for each in clauses]
    return all(before(bound[a], bound[b]) for a, b in order if a in bound and b in bound) and all(
        within is None or latest - earliest < within
        for names, within in windows
        if (times := [event.time for name, event in bound.items() if name in names])
        for latest, earliest in [(max(times), min(times))]
    )


def is_match(pattern: Pattern, match: Match, stream: list[Event]) -> bool:
    return all_hold(
        *(partial(pattern.holds, part, match.bound, match.collected) for part in pattern.parts_of(match.branch)),
        *(
            partial(nothing_can_be_added, pattern, match.branch.before, group, match.bound, stream)
            for group in match.branch.groups
            if not group.collects
        ),
    )


def nothing_can_be_added(
    pattern: Pattern, around: Order, group: Group, bound: dict[str, Event], stream: list[Event]
) -> bool:
    order = around | group.before
    added = assignments(pattern, group.names, stream, bound)
    ways = [with_it for with_it in added if fits(pattern, order, with_it, group.clauses)]
    return all_hold(*(partial(cannot_be_added, pattern, order, group, way, stream) for way in ways))


def cannot_be_added(
    pattern: Pattern, order: Order, group: Group, with_it: dict[str, Event], stream: list[Event]
) -> bool:
    return not all_hold(
        *(partial(pattern.holds, part, with_it, {}) for part in pattern.parts_of(group)),
        *(partial(nothing_can_be_added, pattern, order, inner, with_it, stream) for inner in group.groups),
    )


def collected(pattern: Pattern, branch: Branch, bound: dict[str, Event], stream: list[Event]) -> dict[str, list[Event]]:
    """By variable of ALL, the events that could be added, in the order of time."""
    found = {}
    for group in branch.groups:
        if group.collects:
            (name,) = group.names
            added = assignments(pattern, (name,), stream, bound)
            ways = [way for way in added if fits(pattern, branch.before, way, group.clauses)]
            events = [way[name] for way in ways if not cannot_be_added(pattern, branch.before, group, way, stream)]
            found[name] = sorted(events, key=place)
    return found


# ---- runs ---------------------------------------------------------------------------------------

ANY_MATCH, NEXT_MATCH = "skip till any match", "skip till next match"
STRICT = "strict contiguity"


@dataclass(frozen=True)
class Step:
    """A component of a run: how many events it takes, and what may not lie just before it."""

    name: str
    least: int
    most: float
    negated: tuple[str, ...]


def steps(pattern: syntax.Pattern, names: dict[Span, str]) -> list[Step]:
    found: list[Step] = []
    forbidden: list[str] = []
    for part in flattened(pattern):
        if isinstance(part, syntax.Not):
            (component,) = syntax.components(part)
            forbidden.append(names[component.span])
        else:
            assert isinstance(part, syntax.Component)
            least, most = part.repeated or (0 if part.optional else 1, 1)
            found.append(Step(names[part.span], least, math.inf if most is None else most, tuple(forbidden)))
            forbidden = []
    return found


def matches_of_runs(pattern: Pattern, query: Query, stream: list[Event]) -> list[Match]:
    """Each event begins one run, or under PAST LAST ROW each behind the match before. These are the matches among which
    selection and consumption choose."""
    found = []
    for events in partitions(pattern, query, stream):
        free = 0
        for start in range(len(events)):
            match = run(pattern, events[start:]) if start >= free else None
            if match is not None:
                found.append(match)
                if query.after_match is not None and query.after_match.text == "past last row":
                    free = events.index(last_event(match)) + 1
    return consumed(pattern, found) if pattern.exclusive else selected(pattern, found)


def partitions(pattern: Pattern, query: Query, stream: list[Event]) -> list[list[Event]]:
    """The events that agree on `[k]`, if all components declare it, or on what equalities say of all of them; of strict
    contiguity, all events. In order.

    An event without a value is in no partition. A lone event need not agree with anything."""
    tied = [c for c in pattern.components if c.name in pattern.positive or pattern.strategy == NEXT_MATCH]
    everywhere = {
        name.lower()
        for name in declared(tied[0].types[0], pattern.catalog)
        if all(name in declared(kind, pattern.catalog) for component in tied for kind in component.types)
    }
    several = len(tied) > 1 or pattern.repeated
    keys = sorted(name for name in everywhere if several and pattern.strategy != STRICT and ties(pattern, tied, name))
    groups: dict[tuple[Any, ...], list[Event]] = {}
    if pattern.strategy == NEXT_MATCH:  # events of other types are passed over
        stream = [event for event in stream if any(event.type in each.types for each in pattern.components)]
    for event in sorted(stream, key=place):
        key = tuple(event.attributes.get(name) for name in keys)
        if None not in key:
            groups.setdefault(key, []).append(event)
    for events in groups.values():
        assert all(before(one, other) for one, other in pairwise(events)), "nothing says which of them is next"
    return list(groups.values())


def ties(pattern: Pattern, tied: list[Component], attribute: str) -> bool:
    """Does `[k]` say that all of these agree on it, or do equalities that are known with each event: of single ones,
    and of a loop with a single one before it?"""
    if any(isinstance(part, Equivalence) and part.this.name.lower() == attribute for part in pattern.parts):
        return True
    names = [component.name for component in pattern.components]
    sure = {step.name for step in pattern.steps if (step.least, step.most) == (1, 1)}
    sure |= {name for name in names if name not in pattern.positive}
    groups = [{component.name} for component in tied]
    for part in pattern.parts:
        match part:
            case exp.EQ(this=exp.Column() as left, expression=exp.Column() as right):
                one, other = sorted((pattern.owner(left), pattern.owner(right)), key=names.index)
                same = left.name.lower() == right.name.lower() == attribute
                if same and one in sure and (other in sure or other in pattern.positive):
                    joined = set().union(*(group for group in groups if group & {one, other}))
                    groups = [group for group in groups if not group & {one, other}] + [joined]
    return len(groups) == 1 < len(tied)


Taken = list[tuple[int, "Event"]]
"""The events of a run, each with the number of its component."""


def run(pattern: Pattern, events: list[Event]) -> Match | None:
    """From the first of these events. An event that a component further on can take is taken there: whatever can be
    left behind is, and the first event that can close the match closes it. One that is open when its window ends has
    timed out."""
    taken: Taken = []
    between: list[Event] = []
    for event in events:
        if taken and pattern.within is not None and event.time - taken[0][1].time >= pattern.within:
            break
        step = next((step for step in ways_on(pattern, taken) if can_take(pattern, taken, step, event, between)), None)
        if step is not None:
            taken, between = [*taken, (step, event)], []
            if is_complete(pattern, taken):
                return None if pattern.timed_out else _match_of(pattern, taken)
        elif not taken or pattern.strategy != NEXT_MATCH:
            return None
        else:
            between.append(event)
    return _match_of(pattern, taken) if taken and pattern.timed_out else None


def _match_of(pattern: Pattern, taken: Taken) -> Match:
    return Match(Branch(tuple(bound_by(pattern, taken))), bound_by(pattern, taken), {})


def ways_on(pattern: Pattern, taken: Taken) -> list[int]:
    """The components that may take the next event, the furthest first."""
    here = taken[-1][0] if taken else -1
    count = sum(step == here for step, _ in taken)
    ways = [here] if taken and count < pattern.steps[here].most else []
    if not taken or count >= pattern.steps[here].least:
        for step in range(here + 1, len(pattern.steps)):
            ways.insert(0, step)
            if pattern.steps[step].least > 0:
                break
    return ways


def can_take(pattern: Pattern, taken: Taken, step: int, event: Event, between: list[Event]) -> bool:
    """Does it meet all that can be known of it, and was there nothing that may not lie before it?"""
    if event.type not in pattern.component(pattern.steps[step].name).types:
        return False
    bound = bound_by(pattern, [*taken, (step, event)])
    here = taken[-1][0] if taken else -1
    forbidden = [name for each in pattern.steps[here + 1 : step + 1] for name in each.negated]
    return known_parts_hold(pattern, bound, step) and not any(
        is_forbidden(pattern, name, other, bound) for name in forbidden for other in between
    )


def is_complete(pattern: Pattern, taken: Taken) -> bool:
    """Are all components there, and does what is known of the last loop hold?"""
    here = taken[-1][0]
    count = sum(step == here for step, _ in taken)
    enough = count >= pattern.steps[here].least and all(step.least == 0 for step in pattern.steps[here + 1 :])
    return enough and known_parts_hold(pattern, bound_by(pattern, taken), len(pattern.steps))


def bound_by(pattern: Pattern, taken: Taken) -> dict[str, Event]:
    bound = {}
    for number, step in enumerate(pattern.steps):
        events = [event for at, event in taken if at == number]
        for index, event in enumerate(events):
            bound[element(step.name, index) if step.name in pattern.repeated else step.name] = event
    return bound


def known_parts_hold(pattern: Pattern, bound: dict[str, Event], step: int) -> bool:
    """The parts of P+ that speak of components up to this one; of a whole loop, once it is left."""
    names = [each.name for each in pattern.steps]

    def is_known(part: exp.Expr) -> bool:
        return isinstance(part, Equivalence) or all(
            pattern.owner(column) in names[:step]
            or (pattern.owner(column) in names[: step + 1] and not pattern.is_whole(column))
            for column in part.find_all(exp.Column)
        )

    return all_hold(*(partial(pattern.holds, part, bound, {}) for part in pattern.parts if is_known(part)))


def is_forbidden(pattern: Pattern, name: str, event: Event, bound: dict[str, Event]) -> bool:
    if event.type not in pattern.component(name).types:
        return False
    parts = [part for part in pattern.parts if isinstance(part, Equivalence) or name in pattern.mentioned(part)]
    return all_hold(*(partial(pattern.holds, part, {**bound, name: event}, {}) for part in parts))


# ---- selection and consumption ------------------------------------------------------------------


def last_event(match: Match) -> Event:
    return max(match.bound.values(), key=place)


def selected(pattern: Pattern, matches: list[Match]) -> list[Match]:
    """Among those with the same last event, by each mode from left to right; ties are all kept."""
    chosen = []
    for last in {id(last_event(match)): last_event(match) for match in matches}.values():
        rest = [match for match in matches if last_event(match) is last]
        for name, mode in pattern.modes.items():
            best = (min if mode == "first" else max)(place(match.bound[name]) for match in rest)
            rest = [match for match in rest if place(match.bound[name]) == best]
        chosen += rest
    return chosen


def consumed(pattern: Pattern, matches: list[Match]) -> list[Match]:
    """Moment by moment: those that use only unused events, then selection; what is reported is used up after it."""
    used: set[int] = set()
    chosen = []
    for moment in sorted({place(last_event(match)) for match in matches}):
        now = [match for match in matches if place(last_event(match)) == moment]
        now = selected(pattern, [match for match in now if used.isdisjoint(map(id, match.bound.values()))])
        used |= {id(event) for match in now for event in match.bound.values()}
        chosen += now
    return chosen


def all_hold(*conditions: Callable[[], Truth]) -> bool:
    """Are all of them true? An overflow is an answer only where none of the others is one."""
    failed: Overflow | None = None
    for condition in conditions:
        try:
            if condition() is not True:
                return False
        except Overflow as overflow:
            failed = overflow
    if failed is not None:
        raise failed
    return True


class Verdict(NamedTuple):
    matches: list[dict[str, Any]] | None
    """None: there is no answer, since whether something is a match ends in an overflow."""
    may_fail: bool
    """Some expression overflows on some events. A plan that looks at them fails, and another one need not."""


def verdict(query_text: str, catalog: Catalog, events: list[dict[str, Any]], ansi: bool) -> Verdict:
    try:
        matches = evaluate(query_text, catalog, events, ansi)
    except Overflow:
        return Verdict(None, True)
    return Verdict(matches, overflows(Pattern(parse(query_text), catalog, ansi), taking_part(events, catalog)))


def overflows(pattern: Pattern, stream: list[Event]) -> bool:
    """Does any part of WHERE overflow on any events?"""
    of = {component.name: of_types(stream, component) for component in pattern.components}
    nodes = [node for part in pattern.parts if not isinstance(part, Equivalence) for node in part.find_all(exp.Expr)]
    for node in nodes:
        if pattern.number_type(node) not in BITS:
            continue
        names = sorted({pattern.owner(column) for column in node.find_all(exp.Column)})
        for chosen in product(*(of[name] for name in names)):
            try:
                pattern.value(node, Bound(dict(zip(names, chosen, strict=True)), {}))
            except Overflow:
                return True
    return False


# ---- events -------------------------------------------------------------------------------------


class Event:
    """A row, seen through what its type declares: `attributes` has a key exactly for each declared attribute."""

    def __init__(self, row: dict[str, Any], catalog: Catalog) -> None:
        cells = {column.lower(): value for column, value in row.items()}
        self.type = cells.get(catalog.type.lower())
        self.time = cells.get(catalog.time.lower())
        self.order = cells.get(catalog.order.lower()) if catalog.order else None
        self.attributes = {name.lower(): cells.get(name.lower()) for name in declared(self.type, catalog)}


def declared(type_name: str | None, catalog: Catalog) -> list[str]:
    """The attributes of a type, as the catalog spells them: the time, the type and the tie-breaker are in every one."""
    assert catalog.types is not None
    implied = [name for name in (catalog.time, catalog.type, catalog.order) if name is not None]
    lowered = {name.lower() for name in implied}
    own = catalog.types.get(type_name, {}) if type_name is not None else {}
    return implied + [name for name in own if name.lower() not in lowered]


def takes_part(event: Event, catalog: Catalog) -> bool:
    return event.time is not None and event.type is not None and (catalog.order is None or event.order is not None)


def taking_part(rows: list[dict[str, Any]], catalog: Catalog) -> list[Event]:
    return [event for event in (Event(row, catalog) for row in rows) if takes_part(event, catalog)]


def before(a: Event, b: Event) -> bool:
    """Strictly smaller in (time, tie-breaker); without a tie-breaker, events at one time are simultaneous."""
    if a.time != b.time or a.order is None:
        return bool(a.time < b.time)
    return bool(a.order < b.order)


def place(event: Event) -> tuple[Any, Any]:
    return (event.time, 0 if event.order is None else event.order)


def field(node: exp.Dot | exp.Bracket, inside: Any) -> Any:
    """A member of a struct, a value of a map or an element of an array, counted from 0; NULL where it is not there."""
    if isinstance(node, exp.Dot):
        return None if inside is None else {k.lower(): v for k, v in inside.items()}[node.expression.name.lower()]
    (index,) = node.expressions
    if isinstance(inside, list):
        return inside[int(index.this)] if int(index.this) < len(inside) else None
    return None if inside is None else inside.get(index.this if index.is_string else int(index.this))


def walked(path: exp.Expr, attribute: Any) -> Any:
    """The field that a path leads to, from the attribute that it starts at."""
    return attribute if isinstance(path, exp.Identifier) else field(path, walked(path.this, attribute))


# ---- the pattern --------------------------------------------------------------------------------

Order = frozenset[tuple[str, str]]
"""Which event is before which."""


@dataclass(frozen=True)
class Component:
    name: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class Clauses:
    """What stands behind a part of the pattern: conditions and a window, of the variables in it."""

    names: frozenset[str]
    parts: tuple[exp.Expr, ...]
    within: Duration | Name | None


@dataclass(frozen=True)
class Group:
    """What may not be added to a match, or is collected."""

    names: tuple[str, ...]
    groups: tuple[Group, ...]
    before: Order = frozenset()
    """Inside of it: another group may have the same variables in another order."""
    collects: bool = False
    clauses: tuple[Clauses, ...] = ()

    @property
    def inside(self) -> frozenset[str]:
        return frozenset(self.names) | of_groups(self.groups)

    def under(self, clauses: Clauses) -> Group:
        inner = tuple(group.under(clauses) for group in self.groups)
        return replace(self, groups=inner, clauses=(*self.clauses, clauses))


@dataclass(frozen=True)
class Branch:
    positive: tuple[str, ...]
    before: Order = frozenset()
    """Of all variables: those of groups, too, beside what is outside of them."""
    groups: tuple[Group, ...] = ()
    clauses: tuple[Clauses, ...] = ()
    ways: tuple[int, ...] = ()
    """By which part of each OR ALL it came."""

    @property
    def inside(self) -> frozenset[str]:
        return frozenset(self.positive) | of_groups(self.groups)

    def under(self, node: syntax.Bounded) -> Branch:
        parts = [of_each(part) for part in conjuncts(node.where)] if node.where is not None else []
        for part in parts:
            if isinstance(part, Equivalence):
                part.meta["names"] = self.inside
        clauses = Clauses(self.inside, tuple(parts), node.within)
        inner = tuple(group.under(clauses) for group in self.groups)
        return replace(self, groups=inner, clauses=(*self.clauses, clauses))


def of_groups(groups: tuple[Group, ...]) -> frozenset[str]:
    return frozenset(name for group in groups for name in group.inside)


def branches(pattern: syntax.Pattern, names: dict[Span, str], longest: int) -> list[Branch]:
    """The disjunctive normal form: OR is a union, AND and SEQ take one branch of each operand. A loop without an upper
    bound takes `longest` events at most, as there are no more."""
    match pattern:
        case syntax.Component(repeated=None):
            one = Branch((names[pattern.span],))
            return [Branch(()), one] if pattern.optional else [one]
        case syntax.Component():
            least, bound = pattern.repeated
            most = longest if bound is None else bound
            events = [Branch((element(names[pattern.span], index),)) for index in range(most)]
            return [in_sequence(events[:count]) for count in range(least, most + 1)]
        case syntax.All():
            return [Branch((), groups=(Group((names[pattern.component.span],), (), collects=True),))]
        case syntax.Or():
            return [
                replace(branch, ways=(*branch.ways, at)) if pattern.every else branch
                for at, part in enumerate(pattern.parts)
                for branch in branches(part.pattern, names, longest)
            ]
        case syntax.Bounded():
            return [branch.under(pattern) for branch in branches(pattern.pattern, names, longest)]
        case syntax.And():
            return [
                together(chosen)
                for chosen in product(*(branches(part.pattern, names, longest) for part in pattern.parts))
            ]
        case syntax.Seq():
            every = product(*(branches(part.pattern, names, longest) for part in pattern.parts))
            return [in_sequence(list(chosen)) for chosen in every]
        case syntax.Some():
            subsets = combinations([part.pattern for part in pattern.parts], pattern.least)
            every = [product(*(branches(part, names, longest) for part in subset)) for subset in subsets]
            return [together(chosen) for choices in every for chosen in choices]
        case syntax.Not():
            ways = [negated(branch) for branch in branches(pattern.pattern, names, longest)]
            return [together(chosen) for chosen in product(*ways)]
    raise NotImplementedError(pattern)


def together(parts: Iterable[Branch]) -> Branch:
    parts = list(parts)
    return Branch(
        tuple(dict.fromkeys(name for part in parts for name in part.positive)),
        frozenset(pair for part in parts for pair in part.before),
        tuple(dict.fromkeys(group for part in parts for group in part.groups)),
        tuple(clauses for part in parts for clauses in part.clauses),
        tuple(way for part in parts for way in part.ways),
    )


def in_sequence(parts: list[Branch]) -> Branch:
    """Every event of one is before every event of a later one; groups are not ordered among each other."""
    whole = together(parts)
    order = {
        (one, other)
        for earlier, later in combinations(parts, 2)
        for one, other in product(earlier.inside, later.inside)
        if one in earlier.positive or other in later.positive
    }
    return replace(whole, before=whole.before | order)


def negated(branch: Branch) -> list[Branch]:
    """It may not be there; or, if it says itself what may not be there, one of that must be."""
    if branch.positive:
        return [Branch((), groups=(Group(branch.positive, branch.groups, branch.before, clauses=branch.clauses),))]
    return [Branch(group.names, branch.before | group.before, group.groups, group.clauses) for group in branch.groups]


def stuck(pattern: syntax.Seq) -> list[syntax.Seq]:
    """Timed out at step k: `SEQ(p1, …, pk, !pk+1)`. A negated component before the next event belongs to its step."""
    parts = list(flattened(pattern))
    steps = [index for index, part in enumerate(parts) if isinstance(part, syntax.Component)]
    patterns = []
    for here, following in pairwise(steps):
        step = syntax.Seq(tuple(map(syntax.Part, parts[here + 1 : following + 1])), pattern.span)
        kept = [*parts[: here + 1], syntax.Not(step, pattern.span)]
        patterns.append(syntax.Seq(tuple(map(syntax.Part, kept)), pattern.span))
    return patterns


def flattened(pattern: syntax.Pattern) -> Iterator[syntax.Pattern]:
    """What stands one after the other, whatever it is nested in."""
    match pattern:
        case syntax.Seq(parts=parts) | syntax.And(parts=[_] as parts) | syntax.Or(parts=[_] as parts):
            for part in parts:
                yield from flattened(part.pattern)
        case syntax.Some(parts=[part]):
            yield from flattened(part.pattern)
        case syntax.Not(pattern=syntax.Not(pattern=inner)):
            yield from flattened(inner)
        case _:
            yield pattern


def element(name: str, index: int) -> str:
    return f"{name}[{index}]"


def variable(name: str) -> str:
    """As the text has it: an element is of a repeated one."""
    return name.partition("[")[0]


def place_in_loop(column: exp.Column) -> syntax.PlaceInLoop | None:
    """What stands in the brackets behind it, if that is `[i-1]` or `[..i-1]`."""
    match column.parent:
        case exp.Bracket(expressions=[syntax.PlaceInLoop() as found]):
            return found
    return None


def is_up_to(column: exp.Column) -> bool:
    found = place_in_loop(column)
    return found is not None and bool(found.args["up_to"])


def of_each(part: exp.Expr) -> exp.Expr:
    """`b[i].v` is `b.v`."""

    def visit(node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Dot(this=exp.Bracket(this=exp.Column() as column, expressions=[syntax.PlaceInLoop() as found])):
                if not found.args["up_to"] and found.args["back"] == 0:
                    return exp.Column(this=node.expression.copy(), table=column.this.copy())
        return node

    return part.transform(visit, copy=True)


def of_types(stream: list[Event], component: Component) -> list[Event]:
    """ANY is one event of either type."""
    return [event for event in stream if event.type in component.types]


class LeftOut:
    """What a comparison is that speaks of a variable that is not bound: AND, OR and NOT go on without it."""


LEFT_OUT = LeftOut()


class Pattern:
    """The clauses of a query, with names and parameters looked up."""

    def __init__(self, query: Query, catalog: Catalog, ansi: bool, longest: int = 0) -> None:
        self.catalog = catalog
        self.ansi = ansi
        names = named(query)
        listed = list(syntax.components(query.pattern))
        self.components = list(dict.fromkeys(component_of(part, names[part.span], catalog) for part in listed))
        self.repeated = {names[part.span] for part in listed if part.repeated}
        self.timed_out = query.timed_out is not None
        patterns = [query.pattern]
        self.strategy = query.strategy.text if query.strategy else ANY_MATCH
        if self.timed_out and self.strategy == ANY_MATCH:
            assert isinstance(query.pattern, syntax.Seq)
            patterns = [*stuck(query.pattern)]
        self.steps = steps(query.pattern, names) if self.strategy != ANY_MATCH else []
        self.optional = {names[part.span] for part in listed if part.repeated and part.repeated[0] == 0}
        self.optional |= self.repeated if self.timed_out else set()
        longest = longest if self.strategy == ANY_MATCH else 1
        self.branches = [branch for pattern in patterns for branch in branches(pattern, names, longest)]
        self.positive = {variable(name) for branch in self.branches for name in branch.positive}
        self.positive |= {step.name for step in self.steps}
        if self.timed_out and self.steps and self.steps[-1].name not in self.repeated:
            self.positive.remove(self.steps[-1].name)  # a run that has its event is not stuck
        self.collects = {
            name for branch in self.branches for group in branch.groups if group.collects for name in group.names
        }
        self.modes = modes(query.pattern, names)
        self.exclusive = query.consume is not None and query.consume.text.upper() == "EXCLUSIVE"
        self.within = window(query.within, catalog)
        self.parts = [of_each(part) for part in conjuncts(query.where)] if query.where is not None else []

    def component(self, name: str) -> Component:
        return next(component for component in self.components if component.name == variable(name))

    # -- which part of WHERE speaks of what

    def parts_of(self, owner: Branch | Group) -> list[exp.Expr]:
        """P+, the parts that speak of no group of the branch, or the P- of a group: they speak of it, and of nothing
        inside it.

        An equivalence test is in all of them: its meaning depends on the events that are bound.
        """
        inside = {variable(name) for name in of_groups(owner.groups)}
        mine = {variable(name) for name in owner.names} if isinstance(owner, Group) else None
        return [
            part
            for part in (*self.parts, *(part for clauses in owner.clauses for part in clauses.parts))
            if isinstance(part, Equivalence)
            or ((mine is None or not mine.isdisjoint(self.mentioned(part))) and inside.isdisjoint(self.mentioned(part)))
        ]

    def mentioned(self, part: exp.Expr) -> set[str]:
        """Its variables; what is collected is mentioned where single events of it are."""
        return {
            self.owner(column)
            for column in part.find_all(exp.Column)
            if not (self.is_folded(column) and self.owner(column) in self.collects)
        }

    def is_folded(self, column: exp.Column) -> bool:
        """Does it stand for all events of a variable, as in `sum(t.v)`, `count(t)` and `a[0].v`?"""
        if is_moment(column):
            return False
        if column.table:
            several = self.repeated | self.collects
            return (
                isinstance(column.parent, exp.Anonymous)
                and column.parent.this.lower() in FOLDS
                and self.owner(column) in several
            )
        return column.name in self.repeated | self.collects

    def is_whole(self, column: exp.Column) -> bool:
        """Does it stand for what is only known of a whole loop, and not for what came before in it?"""
        return self.is_folded(column) and place_in_loop(column) is None

    def owner(self, column: exp.Column) -> str:
        """The variable that a name belongs to; a bare one is the only component's, or the only positive one's."""
        if column.table or is_moment(column):
            name = column.table or column.name
            return next(c.name for c in self.components if c.name.lower() == name.lower())
        if column.name in self.repeated | self.collects:
            return column.name
        if len(self.components) == 1:
            return self.components[0].name
        (only,) = (c for c in self.components if c.name in self.positive and self.may_declare(c, column.name))
        return only.name

    def may_declare(self, component: Component, attribute: str) -> bool:
        return attribute.lower() in {
            name.lower() for type_name in component.types for name in declared(type_name, self.catalog)
        }

    # -- conditions

    def holds(self, part: exp.Expr, bound: dict[str, Event], collected: dict[str, list[Event]]) -> bool:
        """Is it true, of each event of a repeated variable, or is nothing of it left?"""
        events: dict[str, list[Event]] = {**collected, **{name: [] for name in self.optional}}
        for name, event in bound.items():
            events.setdefault(variable(name), []).append(event)
        single = {self.owner(column) for column in part.find_all(exp.Column) if not self.is_whole(column)}
        repeated = sorted(single & self.repeated & set(events))
        others = {name: event for name, event in bound.items() if variable(name) == name}
        return all_hold(
            *(
                partial(self.is_true, part, {**others, **dict(zip(repeated, chosen, strict=True))}, events)
                for chosen in product(*(events[name] for name in repeated))
            )
        )

    def is_true(self, part: exp.Expr, bound: dict[str, Event], events: dict[str, list[Event]]) -> bool:
        truth = self.truth(part, Bound(bound, events))
        return truth is True or truth is LEFT_OUT

    def truth(self, condition: exp.Expr, bound: Bound) -> Truth | LeftOut:
        """AND, OR and NOT over atoms; an atom is true when it speaks of an attribute that the event's type lacks."""
        match condition:
            case exp.Paren():
                return self.truth(condition.this, bound)
            case exp.And() | exp.Or():
                left = self.truth(condition.this, bound)
                if left is isinstance(condition, exp.Or):
                    return left
                right = self.truth(condition.expression, bound)
                sides = [side for side in (left, right) if not isinstance(side, LeftOut)]
                return (all_of if isinstance(condition, exp.And) else any_of)(*sides) if sides else LEFT_OUT
            case exp.Not() if not condition.meta.get("comparison"):  # NOT IN, NOT LIKE, … are one comparison
                inner = self.truth(condition.this, bound)
                return inner if isinstance(inner, LeftOut) else opposite(inner)
            case Equivalence():
                return self.agree(condition, bound)
            case atom:
                if any(not self.is_bound(column, bound) for column in atom.find_all(exp.Column)):
                    return LEFT_OUT
                return True if self.speaks_of_missing(atom, bound) else self.value(atom, bound)

    def is_bound(self, column: exp.Column, bound: Bound) -> bool:
        if isinstance(column.parent, exp.Bracket) and self.is_folded(column):
            return bool(self.chosen(column, bound))
        return self.owner(column) in (bound.several if self.is_folded(column) else bound)

    def speaks_of_missing(self, atom: exp.Expr, bound: Bound) -> bool:
        return any(
            name.lower() not in event.attributes
            for column in atom.find_all(exp.Column)
            if not is_moment(column)
            for event, name in self.single_events(column, bound)
        )

    def single_events(self, column: exp.Column, bound: Bound) -> list[tuple[Event, str]]:
        """The event and the attribute that a column is of, if that is one event: also `a[0].v`."""
        if not self.is_folded(column):
            return [(bound[self.owner(column)], column.name)]
        if isinstance(column.parent, exp.Bracket) and not is_up_to(column):
            return [(self.chosen(column, bound)[-1], column.parent.parent.expression.name)]
        return []

    def chosen(self, column: exp.Column, bound: Bound) -> list[Event]:
        """The events that the brackets behind a variable choose: `b[0]`, `b[-1]`, `b[i-1]` and `b[..i-1]`."""
        events = bound.several.get(self.owner(column), [])
        assert isinstance(column.parent, exp.Bracket)
        (index,) = column.parent.expressions
        match index:
            case syntax.PlaceInLoop():
                at_hand = bound.get(self.owner(column))
                before = [at for at, event in enumerate(events) if event is at_hand]
                return events[: before[0]] if before else []
            case exp.Neg():
                return events[: len(events) + 1 - int(index.this.this)]
            case _:
                number = int(index.this)
                return events[: number + 1] if number < len(events) else []

    def agree(self, test: Equivalence, bound: Bound) -> Truth:
        """`[id]`: every two events that declare it are equal in it. `[id='1']`: and each of them is '1'."""
        attribute = test.attribute.name.lower()
        declaring = [
            walked(test.this, event.attributes[attribute])
            for name, events in bound.several.items()
            if name in {variable(each) for each in test.meta.get("names", bound.several)}
            if name not in self.collects or name in bound
            for event in ([bound[name]] if name in self.collects else events)
            if attribute in event.attributes
        ]
        tests = [equal(a, b) for a, b in combinations(declaring, 2)]
        if test.args.get("value") is not None:
            wanted = self.value(test.args["value"], bound)
            tests += [equal(value, wanted) for value in declaring]
        return all_of(*tests)

    # -- values

    def value(self, node: exp.Expr, bound: Bound) -> Any:
        """A scalar, as Spark SQL computes it; what an event's type lacks is NULL here."""

        def of(child: exp.Expr) -> Any:
            return self.value(child, bound)

        match node:
            case exp.Column():
                return bound[self.owner(node)].attributes.get(node.name.lower())
            case exp.Dot(this=exp.Bracket(this=exp.Column() as column)) if self.is_folded(column):
                events = self.chosen(column, bound)
                return events[-1].attributes.get(node.expression.name.lower()) if events else None
            case exp.Dot() | exp.Bracket():
                return field(node, of(node.this))
            case exp.Literal():
                return node.this if node.is_string else number(node.this)
            case exp.Boolean():
                return node.this
            case exp.Null():
                return None
            case Parameter():
                return self.catalog.parameters[node.this.name]
            case exp.Interval():
                return duration(((node.this.name, node.unit.name),))
            case exp.Paren():
                return of(node.this)
            case exp.And():
                return all_of(of(node.this), of(node.expression))
            case exp.Or():
                return any_of(of(node.this), of(node.expression))
            case exp.Not():
                return opposite(of(node.this))
            case exp.Is():
                return of(node.this) is None
            case exp.In():
                subject, *options = self.in_one_type(node.this, *node.expressions, bound=bound)
                return any_of(*(equal(subject, option) for option in options))
            case exp.Between():
                low, subject = self.in_one_type(node.args["low"], node.this, bound=bound)
                above = compare(low, subject, lambda order: order <= 0)
                subject, high = self.in_one_type(node.this, node.args["high"], bound=bound)
                return all_of(above, compare(subject, high, lambda order: order <= 0))
            case exp.Like():
                return like(of(node.this), of(node.expression))
            case exp.ILike():
                sides = (of(node.this), of(node.expression))
                return like(*(None if side is None else side.lower() for side in sides))
            case exp.RegexpLike():
                text, form = of(node.this), of(node.expression)
                return None if text is None or form is None else re.search(form, text) is not None
            case exp.Case():
                return self.case(node, bound)
            case exp.Cast():
                return cast(of(node.this), node.to.sql("spark").lower())
            case exp.Anonymous(expressions=[exp.Dot(this=exp.Bracket(this=exp.Column() as column))]) if is_up_to(
                column
            ):
                name = node.expressions[0].expression.name.lower()
                return FOLDS[node.this.lower()]([event.attributes.get(name) for event in self.chosen(column, bound)])
            case exp.Anonymous(expressions=[exp.Column() as column]) if self.is_folded(column):
                return self.fold(node.this.lower(), column, bound)
            case exp.Anonymous(expressions=[exp.Column() as one, exp.Column() as other]) if is_moment(one):
                first, second = bound[self.owner(one)], bound[self.owner(other)]
                return before(first, second) if node.this.lower() == "before" else second.time - first.time
            case exp.Anonymous():
                result = FUNCTIONS[node.this.lower()](*(of(argument) for argument in node.expressions))
                return self.fitting(result, node)
            case exp.Neg():
                operand = of(node.this)
                return None if operand is None else self.fitting(-operand, node)
            case exp.Binary() if type(node) in COMPARISONS:
                return compare(*self.in_one_type(node.this, node.expression, bound=bound), COMPARISONS[type(node)])
            case exp.Binary():
                result = arithmetic(ARITHMETIC[type(node)], of(node.this), of(node.expression))
                return self.fitting(result, node)
        raise NotImplementedError(repr(node))

    def fold(self, function: str, column: exp.Column, bound: Bound) -> Any:
        """One value of several events: NULL is skipped, but in `collect`; nothing makes NULL, but a count of 0."""
        events = bound.several.get(self.owner(column))
        if events is None:
            return None
        if not column.table:
            return len(events)
        values = [event.attributes.get(column.name.lower()) for event in events]
        return FOLDS[function](values)

    def case(self, node: exp.Case, bound: Bound) -> Any:
        for branch in node.args["ifs"]:
            if node.this is None:
                holds = self.value(branch.this, bound)
            else:
                holds = equal(*self.in_one_type(node.this, branch.this, bound=bound))
            if holds is True:
                return self.value(branch.args["true"], bound)
        default = node.args.get("default")
        return None if default is None else self.value(default, bound)

    # -- types of numbers

    def number_type(self, node: exp.Expr) -> str | None:
        """The type that Spark gives a number, one of NUMBER_TYPES; None if it is none, or a NULL."""
        match node:
            case exp.Column():
                component = self.component(self.owner(node))
                assert self.catalog.types is not None
                types = [self.catalog.types[name] for name in component.types]
                kinds = [kind for each in types for name, kind in each.items() if name.lower() == node.name.lower()]
                return widest([kind.split("(")[0] for kind in kinds])
            case exp.Literal() if not node.is_string:
                return type_of_number(number(node.this))
            case exp.Neg(this=exp.Literal() as literal) if not literal.is_string:
                return type_of_number(-number(literal.this))
            case Parameter():
                return type_of_number(self.catalog.parameters[node.this.name])
            case exp.Paren() | exp.Neg():
                return self.number_type(node.this)
            case exp.Cast():
                return widest([node.to.sql("spark").lower().split("(")[0]])
            case exp.IntDiv():
                return "bigint"
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
                return widest([self.number_type(node.this), self.number_type(node.expression)], self.ansi)
            case exp.Case():
                results = [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")]
                return widest([self.number_type(result) for result in results if result is not None], self.ansi)
            case exp.Anonymous(expressions=[exp.Dot(this=exp.Bracket(this=exp.Column() as column)) as inside]) if (
                is_up_to(column)
            ):
                kind = self.number_type(inside)
                folded = {"sum": "bigint" if kind in BITS else kind, "avg": "double", "count": "int"}
                return folded.get(node.this.lower(), kind)
            case exp.Anonymous(expressions=[exp.Column() as column]) if self.is_folded(column):
                kind = self.number_type(column) if column.table else None
                folded = {"sum": "bigint" if kind in BITS else kind, "avg": "double", "count": "int"}
                return folded.get(node.this.lower(), kind)
            case exp.Dot(this=exp.Bracket(this=exp.Column() as column)) if self.is_folded(column):
                return self.number_type(exp.column(node.expression.name, table=column.name))
            case exp.Anonymous(expressions=[exp.Column() as one, exp.Column()]) if is_moment(one):
                return "bigint"
            case exp.Anonymous():
                arguments = [self.number_type(argument) for argument in node.expressions]
                return "int" if node.this.lower() == "length" else widest(arguments, self.ansi)
        return None

    def in_one_type(self, *nodes: exp.Expr, bound: Bound) -> list[Any]:
        """Values that are compared, in the type in which Spark does it: floats beside other numbers lose digits."""
        kind = widest([self.number_type(node) for node in nodes], self.ansi)
        return [rounded(self.value(node, bound), kind) for node in nodes]

    def fitting(self, value: Any, node: exp.Expr) -> Any:
        """A number in the width of its type."""
        kind = self.number_type(node)
        bits = BITS.get(kind or "")
        if bits is None or not isinstance(value, int):
            return rounded(value, kind)
        if self.ansi and not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise Overflow(f"{value} in {bits} bits")
        return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def is_moment(column: exp.Column) -> bool:
    """Is it a variable in `before(x, y)` or `elapsed(x, y)`?"""
    call = column.parent
    return isinstance(call, exp.Anonymous) and call.this.lower() in ("before", "elapsed")


def named(query: Query) -> dict[Span, str]:
    """By place. Without a variable it is called by its type: `SHELF-READING` is `shelf_reading`, then
    `shelf_reading_2`."""
    listed = list(syntax.components(query.pattern))
    taken: dict[str, str] = {}
    for component in listed:
        if component.variable:
            taken.setdefault(component.variable.text.lower(), component.variable.text)
    names = {}
    for component in listed:
        if component.variable:
            name = taken[component.variable.text.lower()]
        else:
            stem = name = re.sub(r"[\W_]+", "_", component.types[0].text.lower()) if component.types else "event"
            number = 1
            while name in taken:
                number += 1
                name = f"{stem}_{number}"
            taken[name] = name
        names[component.span] = name
    return names


def component_of(component: syntax.Component, name: str, catalog: Catalog) -> Component:
    assert catalog.types is not None
    types = tuple(catalog.types) if component.every else tuple(part.text for part in component.types)
    return Component(name, types)


def modes(pattern: syntax.Pattern, names: dict[Span, str]) -> dict[str, str]:
    """`first` and `last`, from left to right."""
    found: dict[str, str] = {}
    match pattern:
        case syntax.Bounded():
            found |= modes(pattern.pattern, names)
        case syntax.Seq() | syntax.And() | syntax.Or() | syntax.Some():
            for part in pattern.parts:
                if part.mode is not None:
                    found[names[part.pattern.span]] = part.mode.text
                found |= modes(part.pattern, names)
    return found


class Bound(dict[str, Event]):
    """The event of each variable, and the events of each, several of a repeated or collected one."""

    def __init__(self, single: dict[str, Event], several: dict[str, list[Event]]) -> None:
        super().__init__(single)
        self.several = several


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The parts that AND joins; NOT (a OR b) is NOT a AND NOT b."""
    match condition:
        case exp.Paren():
            yield from conjuncts(condition.this)
        case exp.And():
            yield from conjuncts(condition.this)
            yield from conjuncts(condition.expression)
        case exp.Not(this=exp.Paren(this=exp.Or() as either)):
            yield from conjuncts(exp.Not(this=exp.Paren(this=either.this.copy())))
            yield from conjuncts(exp.Not(this=exp.Paren(this=either.expression.copy())))
        case _:
            yield condition


# ---- results ------------------------------------------------------------------------------------


def result(pattern: Pattern, query: Query, match: Match) -> dict[str, Any]:
    events: dict[str, list[Event]] = {**match.collected, **{name: [] for name in pattern.optional}}
    for name, event in match.bound.items():
        events.setdefault(variable(name), []).append(event)
    if query.returns is None:
        columns = {
            component.name: column(pattern, component, events.get(component.name))
            for component in pattern.components
            if component.name in pattern.positive | pattern.collects
        }
        reached = {"reached": len(set(map(variable, match.bound)))} if pattern.timed_out else {}
        return {**columns, **reached, **times(pattern, match)}
    row = {}
    if query.returns.composite is not None:
        row[pattern.catalog.type] = query.returns.composite.text
    single = {name: found[0] for name, found in events.items() if name not in pattern.collects | pattern.repeated}
    for item in query.returns.items:
        name = item.alias.text if item.alias else item.expression.name
        unbound = any(
            pattern.owner(column) not in events and not pattern.is_folded(column)
            for column in item.expression.find_all(exp.Column)
        )
        row[name] = None if unbound else pattern.value(item.expression, Bound(single, events))
    return row


def grouped(pattern: Pattern, returns: syntax.Return, found: list[Match]) -> list[dict[str, Any]]:
    """A row for each group that has a match; without GROUP BY one row, whatever there is."""
    by = returns.group_by or ()
    groups: dict[tuple[Any, ...], list[Match]] = {} if by else {(): []}
    for match in found:
        single = {name: event for name, event in match.bound.items() if variable(name) == name}
        key = tuple(pattern.value(value, Bound(single, {})) for value in by)
        groups.setdefault(key, []).append(match)
    return [
        {
            item.alias.text if item.alias else item.expression.name: aggregate(pattern, item.expression, matches)
            for item in returns.items
        }
        for matches in groups.values()
    ]


def aggregate(pattern: Pattern, node: exp.Expr, matches: list[Match]) -> Any:
    """Of all events that a variable has in all matches of a group; what is no aggregate is the same in all of them."""
    match node:
        case CountAll():
            return len(matches)
        case exp.Cast():
            return cast(aggregate(pattern, node.this, matches), node.to.sql("spark").lower())
        case exp.Anonymous(expressions=[exp.Column() as column]):
            name = column.table or column.name
            events = [event for match in matches for at, event in match.bound.items() if variable(at) == name]
            if not column.table:
                return len(events)
            return FOLDS[node.this.lower()]([event.attributes.get(column.name.lower()) for event in events])
        case _:
            return pattern.value(node, Bound(dict(matches[0].bound), {}))


def column(pattern: Pattern, component: Component, events: list[Event] | None) -> Any:
    """A struct, or several; NULL where nothing is bound."""
    if events is None:
        return None
    structs = [struct(pattern, component, event) for event in events]
    return structs if component.name in pattern.repeated | pattern.collects else structs[0]


def struct(pattern: Pattern, component: Component, event: Event) -> dict[str, Any]:
    """The attributes of all the component's types; None where the event's own type lacks one."""
    names = [name for type_name in component.types for name in declared(type_name, pattern.catalog)]
    return {name: event.attributes.get(name.lower()) for name in names}


def times(pattern: Pattern, match: Match) -> dict[str, Any]:
    """Of the earliest positive event, and of the latest one; with an open group, of the end of the window."""
    first = min(match.bound.values(), key=place)
    last = max(match.bound.values(), key=place)
    if pattern.within is None:
        ends = [end(pattern, match, group) for group in match.branch.groups]
        return {"started_at": first.time, "detected_at": max([last.time, *ends])}
    is_open = pattern.timed_out or any(
        any_is_open(pattern, match.branch, match.branch.before, group) for group in match.branch.groups
    )
    return {"started_at": first.time, "detected_at": end_of_window(first, pattern.within) if is_open else last.time}


class NotTold(Exception):
    """When a match is certain, this judge does not tell of groups of several events that only bounds end."""


def end(pattern: Pattern, match: Match, group: Group) -> int:
    """When no event can be added any more, as far as times can tell: the first moment at which no event would fit.

    Also between two ticks, where no event has its time: less than one tick behind another is over a tick behind it.
    """
    if not any_is_open(pattern, match.branch, match.branch.before, group):
        return min(event.time for event in match.bound.values())
    if len(group.names) > 1 or group.groups:
        raise NotTold
    (name,) = group.names
    parts = [part for part in pattern.parts_of(group) if any(map(is_moment, part.find_all(exp.Column)))]
    times = [event.time for event in match.bound.values()]

    def could_be(time: float) -> bool:
        event = Event({}, pattern.catalog)
        event.time, event.order = time, 0 if pattern.catalog.order else None
        added = {**match.bound, name: event}
        return fits(pattern, match.branch.before | group.before, added, group.clauses) and all(
            pattern.holds(part, added, {}) for part in parts
        )

    moments = (half / 2 for half in range(2 * (min(times) - HORIZON), 2 * (max(times) + HORIZON)))
    return math.floor(max(filter(could_be, moments), default=-1)) + 1


HORIZON = 50


def any_is_open(pattern: Pattern, branch: Branch, around: Order, group: Group) -> bool:
    order = around | group.before | said(pattern, group)
    return any(not is_closed(branch, order, name) for name in group.names) or any(
        any_is_open(pattern, branch, order, inner) for inner in group.groups
    )


def said(pattern: Pattern, group: Group) -> Order:
    """The order that `before(x, y)` in WHERE gives the events of the group."""
    calls = (call for part in pattern.parts_of(group) for call in part.find_all(exp.Anonymous))
    orders = (call.expressions for call in calls if call.this.lower() == "before" and is_moment(call.expressions[0]))
    return frozenset((pattern.owner(one), pattern.owner(other)) for one, other in orders)


def is_closed(branch: Branch, order: Order, name: str) -> bool:
    """Is there a positive event after it?"""
    later, reached = {name}, set[str]()
    while later - reached:
        reached |= later
        later = {other for one, other in order if one in reached}
    return not (reached - {name}).isdisjoint(branch.positive)


def end_of_window(first: Event, within: Any) -> Any:
    """A date and whole days are a date; a date and hours are a timestamp."""
    if isinstance(within, timedelta) and within % timedelta(days=1):
        return alike(first.time, datetime.min) + within
    return first.time + within


# ---- windows ------------------------------------------------------------------------------------

UNITS = {
    "ms": timedelta(milliseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "sec": timedelta(seconds=1),
    "second": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "minute": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "hr": timedelta(hours=1),
    "hour": timedelta(hours=1),
    "d": timedelta(days=1),
    "day": timedelta(days=1),
    "w": timedelta(weeks=1),
    "week": timedelta(weeks=1),
}


def window(within: Duration | Name | None, catalog: Catalog) -> Any:
    if isinstance(within, Name):
        parts = parse_duration(str(catalog.parameters[within.text]))
    else:
        parts = within.parts if within else None
    return None if parts is None else duration(parts)


def duration(parts: tuple[tuple[str, str | None], ...]) -> int | timedelta:
    """A number with a unit is a span of time; a bare one is in the units of an integer time column."""
    if len(parts) == 1 and parts[0][1] is None:
        return int(parts[0][0])
    spans = []
    for amount, unit in parts:
        assert unit is not None
        word = unit.lower()
        spans.append(float(amount) * (UNITS[word] if word in UNITS else UNITS[word.removesuffix("s")]))
    return sum(spans, timedelta())


# ---- three-valued logic -------------------------------------------------------------------------


def all_of(*truths: Truth) -> Truth:
    if False in truths:
        return False
    return None if None in truths else True


def any_of(*truths: Truth) -> Truth:
    if True in truths:
        return True
    return None if None in truths else False


def opposite(truth: Truth) -> Truth:
    return None if truth is None else not truth


# ---- comparisons --------------------------------------------------------------------------------

COMPARISONS: dict[type[exp.Expr], Callable[[int], bool]] = {
    exp.EQ: lambda order: order == 0,
    exp.NEQ: lambda order: order != 0,
    exp.LT: lambda order: order < 0,
    exp.LTE: lambda order: order <= 0,
    exp.GT: lambda order: order > 0,
    exp.GTE: lambda order: order >= 0,
}


def compare(a: Any, b: Any, test: Callable[[int], bool]) -> Truth:
    """NULL compares to nothing; NaN equals itself and is greater than any number; -0.0 equals 0.0."""
    if a is None or b is None:
        return None
    a, b = rank(alike(a, b)), rank(alike(b, a))
    return test((a > b) - (a < b))


def equal(a: Any, b: Any) -> Truth:
    return compare(a, b, COMPARISONS[exp.EQ])


def alike(value: Any, other: Any) -> Any:
    """`value` in the type in which Spark compares it to `other`."""
    match value, other:
        case str(), bool():
            return value.strip().lower() in ("true", "t", "yes", "y", "1")
        case str(), int():
            return int(value)
        case str(), float() | Decimal():
            return float(value)
        case Decimal(), str() | float():
            return float(value)
        case str(), datetime():
            return datetime.fromisoformat(value)
        case str(), date():
            return date.fromisoformat(value)
        case datetime(), _:
            return value
        case date(), datetime():
            return datetime.combine(value, time())
    return value


def rank(value: Any) -> tuple[bool, Any]:
    not_a_number = isinstance(value, float) and math.isnan(value)
    return (not_a_number, 0.0 if not_a_number else value)


def like(text: str | None, form: str | None) -> Truth:
    """% is any text, _ one character, and a backslash takes the next character as it is."""
    if text is None or form is None:
        return None
    pieces = re.findall(r"\\.|.", form, flags=re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return re.fullmatch("".join(wild.get(p, re.escape(p[-1])) for p in pieces), text, flags=re.DOTALL) is not None


# ---- scalars ------------------------------------------------------------------------------------


def number(text: str) -> int | float | Decimal:
    if text.isdigit():
        return int(text)
    return float(text) if "e" in text.lower() else Decimal(text)


NUMBER_TYPES = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def type_of_number(value: Any) -> str | None:
    match value:
        case bool() | str():
            return None
        case int():
            return "int" if -(2**31) <= value < 2**31 else "bigint" if -(2**63) <= value < 2**63 else "decimal"
        case float():
            return "double"
        case _:
            return "decimal"


def widest(kinds: list[str | None], ansi: bool = True) -> str | None:
    """The type in which Spark brings numbers together: with ANSI, a float and something else is a double."""
    known = {kind for kind in kinds if kind in NUMBER_TYPES}
    if "float" in known and len(known) > 1 and (ansi or "decimal" in known):
        return "double"
    return max(known, key=NUMBER_TYPES.index, default=None)


def rounded(value: Any, kind: str | None) -> Any:
    if kind not in ("float", "double") or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    return c_float(value).value if kind == "float" else float(value)


def remainder(a: Any, b: Any) -> Any:
    """With the sign of the dividend."""
    return math.fmod(a, b) if isinstance(a, float) else int(math.copysign(1, a)) * (abs(a) % abs(b))


ARITHMETIC: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: float(a) / float(b),
    exp.Mod: remainder,
    exp.IntDiv: lambda a, b: int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b)),
}


def arithmetic(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """NULL if an operand is; a decimal beside a double becomes one."""
    if a is None or b is None:
        return None
    if isinstance(a, float) or isinstance(b, float):
        return operation(float(a), float(b))
    return operation(a, b)


def cast(value: Any, kind: str) -> Any:
    if value is None:
        return None
    match kind:
        case "int" | "bigint":
            return int(value)
        case "double":
            return float(value)
        case "string":
            return str(value)
        case "date":
            return date.fromisoformat(value) if isinstance(value, str) else value.date()
        case "timestamp":
            return alike(value, datetime.min)
    raise NotImplementedError(kind)


def null_if_any_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: None if None in arguments else function(*arguments)


def without_nulls(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def folded(values: list[Any]) -> Any:
        known = [value for value in values if value is not None]
        return function(known) if known else None

    return folded


FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "count": lambda values: sum(value is not None for value in values),
    "sum": without_nulls(lambda values: sum(sorted(values, key=rank))),
    "avg": without_nulls(lambda values: float(sum(sorted(values, key=rank))) / len(values)),
    "min": without_nulls(lambda values: min(values, key=rank)),
    "max": without_nulls(lambda values: max(values, key=rank)),
    "collect": lambda values: values,
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": null_if_any_is(abs),
    "upper": null_if_any_is(str.upper),
    "lower": null_if_any_is(str.lower),
    "length": null_if_any_is(len),
    "coalesce": lambda *arguments: next((value for value in arguments if value is not None), None),
}
