"""Operators → branches in the making. An expression gives a bag of results: events for some aliases, and an instant.

What an operator says is an order between the instants of its two sides, and a bound on their difference. The right side
of a negative operator becomes a group, in which aliases that the left side does not bind are quantified: each gets a
variable of its own there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count, product

from sase.compiler.core import pattern
from sase.compiler.core.bound import Apart, Before
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, Span
from sase.compiler.languages.telegraphcq.syntax import Event, Expression, Operator, events


@dataclass(frozen=True)
class Moment:
    """An instant: the place of a variable's event; or, derived, so many ticks behind its time, and no tie-breaker."""

    variable: str
    ticks: int = 0
    derived: bool = False


@dataclass(frozen=True)
class Relation:
    """What holds between variables: orders, differences of times, and pairs at one and the same place."""

    before: frozenset[Before] = frozenset()
    apart: tuple[Apart, ...] = ()
    tied: tuple[Before, ...] = ()

    def __and__(self, other: Relation) -> Relation:
        return Relation(
            self.before | other.before,
            tuple(dict.fromkeys(self.apart + other.apart)),
            tuple(dict.fromkeys(self.tied + other.tied)),
        )

    @property
    def pairs(self) -> Iterator[tuple[str, str]]:
        yield from self.before
        yield from ((each.earlier, each.later) for each in self.apart)
        yield from self.tied


@dataclass(frozen=True)
class Result:
    """Results of one form. `names` has the variables of the aliases that are bound; without a moment, the instant is
    that of the latest event."""

    names: Mapping[str, str]
    relation: Relation
    groups: tuple[Absent, ...]
    moment: Moment | None


@dataclass(frozen=True)
class Absent:
    """A group: results of one form that may not be there. Its aliases are compatible with those `around` it."""

    names: Mapping[str, str]
    around: Mapping[str, str]
    relation: Relation
    groups: tuple[Absent, ...]
    span: Span


class Lowering:
    """`ticks` has the window of each operator, by its place; `spelled` the aliases, by their names in lower case."""

    def __init__(self, expression: Expression, ticks: Mapping[Span, int], spelled: Mapping[str, str]) -> None:
        self.ticks = ticks
        self.spelled = spelled
        self.found: list[Diagnostic] = []
        self.free = set(spelled) - {event.alias.text.lower() for event in bound(expression)}
        self.copies: dict[tuple[Span, str], str] = {}
        self.results = self.lower(expression, spelled, final=True)

    def lower(self, expression: Expression, names: Mapping[str, str], final: bool = False) -> list[Result]:
        """`names` has the variables of aliases. Of a final result, nothing but the time of its instant is asked."""
        match expression:
            case Event(alias=alias):
                name = names[alias.text.lower()]
                return [Result({alias.text.lower(): name}, Relation(), (), Moment(name))]
            case Operator(kind="ANYONE"):
                sides = (expression.left, expression.right)
                return [result for side in sides for result in self.lower(side, names, final)]
            case Operator(kind="NOTFOLLOWS" | "NOTPRECEDES"):
                return [self.without(expression, result, names) for result in self.lower(expression.left, names)]
            case Operator(kind="PRECEDES"):
                sides = (expression.right, expression.left)
            case Operator():
                sides = (expression.left, expression.right)
        ticks = self.ticks[expression.span]
        together = product(self.lower(sides[0], names), self.lower(sides[1], names))
        related = self.both if expression.kind == "BOTH" else self.follows
        return [
            Result(
                {**one.names, **other.names}, one.relation & other.relation & relation, one.groups + other.groups, at
            )
            for one, other in together
            for relation, at in related(_moment(one), _moment(other), ticks, final)
        ]

    def follows(self, one: Moment, other: Moment, ticks: int, final: bool) -> Iterator[tuple[Relation, Moment | None]]:
        if (relation := _both(before(one, other), less(other, one, ticks))) is not None:
            yield relation, other

    def both(self, one: Moment, other: Moment, ticks: int, final: bool) -> Iterator[tuple[Relation, Moment | None]]:
        """Either is before the other, or they are simultaneous: three cases, as the later one's instant is asked."""
        if final and not one.derived and not other.derived:
            if (relation := _both(less(one, other, ticks), less(other, one, ticks))) is not None:
                yield relation, None
            return
        yield from self.follows(one, other, ticks, final)
        yield from self.follows(other, one, ticks, final)
        if (relation := simultaneous(one, other)) is not None:
            yield relation, other if one.derived else one

    def without(self, operator: Operator, result: Result, names: Mapping[str, str]) -> Result:
        moment, ticks = _moment(result), self.ticks[operator.span]
        inner = {alias: self.copy(operator, alias) for alias in _aliases(operator.right) if alias not in result.names}
        groups = []
        for other in self.lower(operator.right, {**names, **inner, **result.names}):
            own = {alias: name for alias, name in other.names.items() if alias not in result.names}
            earlier, later = (moment, _moment(other)) if operator.kind == "NOTFOLLOWS" else (_moment(other), moment)
            relation = _both(before(earlier, later), less(later, earlier, ticks))
            if relation is None:
                continue
            relation = relation & other.relation
            if not possible(result.relation & relation):
                continue
            if not own or any(set(own.values()).isdisjoint(pair) for pair in relation.pairs):
                self.found.append(
                    Diagnostic(
                        f"the right side of {operator.kind} compares events that its left side has bound",
                        operator.right.span,
                        "use an alias of its own for what must not be there",
                    )
                )
                continue
            groups.append(Absent(own, result.names, relation, other.groups, operator.right.span))
        at = Moment(moment.variable, moment.ticks + ticks, True) if operator.kind == "NOTFOLLOWS" else moment
        return Result(result.names, result.relation, result.groups + tuple(groups), at)

    @property
    def quantified(self) -> dict[str, str]:
        """The variables of groups, each with its alias, in lower case."""
        return {name: alias for (_, alias), name in self.copies.items()}

    def copy(self, operator: Operator, alias: str) -> str:
        """The variable of an alias that is quantified here: its own name, where nothing else has it."""
        key = (operator.span, alias)
        if key not in self.copies:
            taken = {name.lower() for name in self.copies.values()} | (set(self.spelled) - self.free)
            candidates = (self.spelled[alias] + (f"_{number}" if number > 1 else "") for number in count(1))
            self.copies[key] = next(name for name in candidates if name.lower() not in taken)
        return self.copies[key]


def bound(expression: Expression) -> Iterator[Event]:
    """The events that are not on the right side of a negative operator."""
    match expression:
        case Event():
            yield expression
        case Operator(kind="NOTFOLLOWS" | "NOTPRECEDES"):
            yield from bound(expression.left)
        case Operator():
            yield from bound(expression.left)
            yield from bound(expression.right)


def _aliases(expression: Expression) -> Iterable[str]:
    return dict.fromkeys(event.alias.text.lower() for event in events(expression))


def _moment(result: Result) -> Moment:
    assert result.moment is not None, "only a final result has none"
    return result.moment


# ---- two instants; None is impossible -----------------------------------------------------------


def less(one: Moment, other: Moment, ticks: int) -> Relation | None:
    """`one.time - other.time < ticks`."""
    bound = ticks + other.ticks - one.ticks
    if one.variable == other.variable:
        return Relation() if bound > 0 else None
    return Relation(apart=(Apart(other.variable, one.variable, bound),))


def before(one: Moment, other: Moment) -> Relation | None:
    if one.derived or other.derived:
        return less(one, other, 0)
    return None if one.variable == other.variable else Relation(before=frozenset({(one.variable, other.variable)}))


def simultaneous(one: Moment, other: Moment) -> Relation | None:
    relation = _both(less(one, other, 1), less(other, one, 1))
    if relation is None or one.derived or other.derived or one.variable == other.variable:
        return relation
    return relation & Relation(tied=((one.variable, other.variable),))


def _both(one: Relation | None, other: Relation | None) -> Relation | None:
    return None if one is None or other is None else one & other


# ---- relations as a whole -----------------------------------------------------------------------


def reduced(relation: Relation) -> Relation:
    """Without what follows from the rest: orders by two others, and bounds by an order or a shorter one. What is at one
    place with another event has its orders, too."""
    before = relation.before
    for _ in relation.tied:
        for one, other in (*relation.tied, *(pair[::-1] for pair in relation.tied)):
            moved = {(other if a == one else a, other if b == one else b) for a, b in before}
            before |= {(a, b) for a, b in moved if a != b}
    order = pattern.closure(before)
    return Relation(pattern.reduced(before, order), pattern.tightest(relation.apart, order), relation.tied)


def possible(relation: Relation, has_order: bool = True) -> bool:
    return pattern.is_possible(relation.before, relation.apart, has_order)


def renamed(relation: Relation, one: str, other: str) -> Relation:
    """With `other` in the place of `one`."""

    def name(each: str) -> str:
        return other if each == one else each

    return Relation(
        frozenset((name(first), name(second)) for first, second in relation.before),
        tuple(Apart(name(each.earlier), name(each.later), each.ticks) for each in relation.apart),
        tuple((name(first), name(second)) for first, second in relation.tied),
    )
