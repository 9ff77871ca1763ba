"""Patterns → branches: AND, OR, NOT, SEQ and ALL, nested at will, become what the bound query is made of.

The rules are those of a disjunctive normal form, with one difference: a negated pattern is no negated atom but a group
of events that may not be there, or, under ALL, that are collected. A part may have clauses of its own: what they say of
times holds in the branches, or groups, that come from it, and what else they say is looked up by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import field, replace
from itertools import combinations, pairwise, product
from math import comb
from typing import TypeVar

from sase.compiler.core.bound import Apart, Before, Branch, Derived, Earliest, Fold, Group, Instant, Latest, Window
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, Span
from sase.compiler.core.orders import Order, order_of, shortest

MOST_BRANCHES = 64


@dataclass(frozen=True)
class Leaf:
    variable: str
    span: Span


@dataclass(frozen=True)
class Seq:
    parts: tuple[Pattern, ...]
    span: Span


@dataclass(frozen=True)
class And:
    parts: tuple[Pattern, ...]
    span: Span


@dataclass(frozen=True)
class Or:
    parts: tuple[Pattern, ...]
    span: Span
    every: bool = False
    """A match that several parts have is several matches."""


@dataclass(frozen=True)
class Some:
    """So many of the parts, in any order."""

    least: int
    parts: tuple[Pattern, ...]
    span: Span


@dataclass(frozen=True)
class Not:
    part: Pattern
    span: Span


@dataclass(frozen=True)
class All:
    leaf: Leaf
    span: Span


@dataclass(frozen=True)
class Bounded:
    """A part with clauses of its own: orders and bounds between its events, or with others; a window, in ticks, of all
    of its events; and the numbers of its conditions."""

    part: Pattern
    span: Span
    before: frozenset[Before] = frozenset()
    apart: tuple[Apart, ...] = ()
    within: int | None = None
    where: frozenset[int] = frozenset()


Pattern = Leaf | Seq | And | Or | Some | Not | All | Bounded


@dataclass(frozen=True)
class Added:
    """A group in the making: `before` has all of its order, also with what stands around it, and `apart` such bounds.
    `where` has the numbers of the conditions in whose scope it stands."""

    variables: tuple[str, ...]
    before: frozenset[Before]
    groups: tuple[Added, ...]
    fold: Fold
    span: Span = field(compare=False)
    apart: tuple[Apart, ...] = ()
    where: frozenset[int] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """With those of inner groups."""
        return frozenset(self.variables).union(*(group.names for group in self.groups))


@dataclass(frozen=True)
class Shape:
    """A branch in the making, without conditions and without the window of the query."""

    variables: tuple[str, ...] = ()
    before: frozenset[Before] = frozenset()
    groups: tuple[Added, ...] = ()
    apart: tuple[Apart, ...] = ()
    where: frozenset[int] = frozenset()
    ways: tuple[int, ...] = ()
    """Which part of each OR ALL it comes from: what comes by another way is another match."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.variables).union(*(group.names for group in self.groups))


Shapes = tuple[Shape, ...]


class TooManyBranches(Exception):
    def __init__(self, span: Span) -> None:
        super().__init__()
        self.span = span


def lower(pattern: Pattern) -> Shapes:
    """The branches of a pattern. Raises TooManyBranches, with the place of an alternative that multiplies them."""
    return tuple(_left_out(shape) for shape in _lower(pattern))


def _lower(pattern: Pattern) -> Shapes:
    match pattern:
        case Leaf():
            return (Shape((pattern.variable,)),)
        case All():
            return (Shape(groups=(Added((pattern.leaf.variable,), frozenset(), (), "collect", pattern.span),)),)
        case Or():
            parts = [_lower(part) for part in pattern.parts]
            if pattern.every:
                parts = [tuple(replace(each, ways=(*each.ways, at)) for each in part) for at, part in enumerate(parts)]
            return _distinct((shape for part in parts for shape in part), pattern)
        case And():
            return _every([_lower(part) for part in pattern.parts], pattern)
        case Seq():
            return _every([_lower(part) for part in pattern.parts], pattern, ordered=True)
        case Some():
            if comb(len(pattern.parts), pattern.least) > MOST_BRANCHES:
                raise TooManyBranches(pattern.span)
            chosen = combinations([_lower(part) for part in pattern.parts], pattern.least)
            return _distinct((shape for parts in chosen for shape in _every(parts, pattern)), pattern)
        case Not():
            return _every([_negated(shape, pattern.span) for shape in _lower(pattern.part)], pattern)
        case Bounded():
            return _distinct((_bounded(shape, pattern) for shape in _lower(pattern.part)), pattern)


def _distinct(shapes: Iterable[Shape], pattern: Pattern) -> Shapes:
    distinct = tuple(dict.fromkeys(shapes))
    if len(distinct) > MOST_BRANCHES:
        raise TooManyBranches(_alternative(pattern))
    return distinct


def _alternative(pattern: Pattern) -> Span:
    """The first OR, ANY or repetition inside, which is why there are so many branches."""
    waiting = [pattern]
    while waiting:
        match waiting.pop(0):
            case Or(span=span) | Some(span=span):
                return span
            case Seq(parts=parts) | And(parts=parts):
                waiting = [*parts, *waiting]
            case Not(part=part) | Bounded(part=part):
                waiting.insert(0, part)
    return pattern.span


def _every(parts: Sequence[Shapes], pattern: Pattern, ordered: bool = False) -> Shapes:
    """One shape of each part, in every combination."""
    together: Shapes = (Shape(),)
    for shapes in parts:
        together = _distinct((_beside(one, other, ordered) for one, other in product(together, shapes)), pattern)
    return together


def _beside(one: Shape, other: Shape, ordered: bool) -> Shape:
    """Both; where they are ordered, every event of one is before every event of the other. Groups stand each for
    itself: none is ordered relative to another."""
    between = frozenset(product(one.variables, other.variables)) if ordered else frozenset()
    earlier = tuple(_placed(group, (), other.variables) if ordered else group for group in one.groups)
    later = tuple(_placed(group, one.variables, ()) if ordered else group for group in other.groups)
    return Shape(
        tuple(dict.fromkeys(one.variables + other.variables)),
        one.before | other.before | between,
        tuple(dict.fromkeys(earlier + later)),
        tuple(dict.fromkeys(one.apart + other.apart)),
        one.where | other.where,
        one.ways + other.ways,
    )


def _placed(group: Added, after: tuple[str, ...], before: tuple[str, ...]) -> Added:
    """All of it, inner groups included."""
    return replace(
        group,
        before=group.before | frozenset(product(after, group.variables)) | frozenset(product(group.variables, before)),
        groups=tuple(_placed(inner, after, before) for inner in group.groups),
    )


def _negated(shape: Shape, span: Span) -> Shapes:
    """One group may not be there; of groups that may not be there themselves, one must be."""
    if shape.variables:
        group = Added(shape.variables, shape.before, shape.groups, "none", span, shape.apart, shape.where)
        return (Shape(groups=(group,)),)
    return tuple(Shape(group.variables, group.before, group.groups, group.apart, group.where) for group in shape.groups)


def _bounded(shape: Shape, clauses: Bounded) -> Shape:
    order = closure(shape.before)
    before, apart = _said(clauses, shape)
    return replace(
        shape,
        before=shape.before | before,
        apart=(*shape.apart, *apart, *_ends(shape.variables, (), order, clauses.within)),
        where=shape.where | clauses.where,
        groups=tuple(_bounded_group(group, shape.variables, order, clauses) for group in shape.groups),
    )


def _bounded_group(group: Added, around: tuple[str, ...], order: frozenset[Before], clauses: Bounded) -> Added:
    known = closure(order | group.before)
    before, apart = _said(clauses, group)
    everything = (*around, *group.variables)
    return replace(
        group,
        before=group.before | before,
        apart=(*group.apart, *apart, *_ends(group.variables, around, known, clauses.within)),
        where=group.where | clauses.where,
        groups=tuple(_bounded_group(inner, everything, known, clauses) for inner in group.groups),
    )


def _said(clauses: Bounded, scope: Shape | Added) -> tuple[frozenset[Before], tuple[Apart, ...]]:
    """What is said of events of this scope, and not of groups inside."""
    inner = frozenset[str]().union(*(group.names for group in scope.groups))

    def concerns(one: str, other: str) -> bool:
        pair = {one, other}
        return not pair.isdisjoint(scope.variables) and pair.isdisjoint(inner)

    return (
        frozenset(pair for pair in clauses.before if concerns(*pair)),
        tuple(each for each in clauses.apart if concerns(each.earlier, each.later)),
    )


S = TypeVar("S", Shape, Added)


def _left_out(scope: S, around: frozenset[str] = frozenset()) -> S:
    """Without orders and bounds that speak of what is not bound here."""
    known = around.union(scope.variables)
    return replace(
        scope,
        before=_among(scope.before, known),
        apart=tuple(each for each in scope.apart if {each.earlier, each.later} <= known),
        groups=tuple(_left_out(group, known) for group in scope.groups),
    )


def timed_out(sequence: Shape, span: Span) -> Shapes:
    """The branches of a chain that got stuck behind its first, second, … event: the next one could not be added.

    A negated component just before the next event is part of that step: with such an event, it is not reached.
    """
    names = sequence.variables
    stuck = []
    for count in range(1, len(names)):
        kept, following = names[:count], names[count]
        groups = []
        inner = []
        for group in sequence.groups:
            one = group.variables[0]
            if any((one, name) in group.before for name in kept):
                groups.append(_only(group, {*group.names, *kept}))
            elif (one, following) in group.before:
                inner.append(_only(group, {*group.names, *kept, following}))
        order = frozenset(product(kept, (following,)))
        groups.append(Added((following,), order, tuple(inner), "none", span))
        stuck.append(Shape(kept, _among(sequence.before, set(kept)), tuple(groups)))
    return tuple(stuck)


def _only(group: Added, names: set[str]) -> Added:
    return replace(
        group, before=_among(group.before, names), groups=tuple(_only(inner, names) for inner in group.groups)
    )


def _among(before: Iterable[Before], names: Set[str]) -> frozenset[Before]:
    return frozenset(pair for pair in before if names >= {*pair})


# ---- what is wrong with a pattern ---------------------------------------------------------------


def is_chain(shape: Shape) -> bool:
    """Whether all of its events, those of groups included, have their place between two positive ones."""
    order = closure(shape.before)
    return reduced(order, order) == frozenset(pairwise(shape.variables)) and all(
        (name, known) in around or (known, name) in around
        for group, around, _ in _nested(shape.groups, order)
        for name in group.variables
        for known in shape.variables
    )


def collected(shapes: Shapes) -> frozenset[str]:
    """The variables of ALL."""
    return frozenset(
        name for shape in shapes for group in shape.groups if group.fold == "collect" for name in group.variables
    )


def collects_nothing(pattern: Pattern, negated: bool = False) -> Iterator[Diagnostic]:
    """ALL under NOT: what is not there has nothing to collect."""
    match pattern:
        case All():
            if negated:
                yield Diagnostic(
                    "ALL has no meaning under NOT", pattern.span, "it never prevents a match: collect beside NOT"
                )
        case Not():
            yield from collects_nothing(pattern.part, True)
        case Bounded():
            yield from collects_nothing(pattern.part, negated)
        case Seq() | And() | Or() | Some():
            for part in pattern.parts:
                yield from collects_nothing(part, negated)


def wrong(shapes: Shapes, span: Span, needs_window: bool) -> Iterator[Diagnostic]:
    """`span` is that of the whole pattern."""
    empty = [shape for shape in shapes if not shape.variables]
    if empty:
        alone = len(shapes) == 1
        yield Diagnostic(
            "every component of this pattern is negated, so there is no event to report"
            if alone
            else "one branch of this pattern has no positive event, so there is no event to report",
            span if alone or not empty[0].groups else empty[0].groups[0].span,
            "add an event that must occur, such as SEQ(A x, !(B y))",
        )
        return
    if not needs_window:
        return
    reported: set[Span] = set()
    for shape in shapes:
        before = len(reported)
        for group, order, apart in _nested(shape.groups, shape.before, shape.apart):
            past, future = _open_sides(group, shape.variables, order, apart)
            if not (past or future) or group.span in reported:
                continue
            reported.add(group.span)
            what = "a collected component" if group.fold == "collect" else "a negated component"
            if past and future:
                message = f"{what} without order needs WITHIN: without a window, its past and future have no end"
            elif past:
                message = f"{what} that stands first needs WITHIN: without a window, its past has no end"
            else:
                message = f"{what} that stands last needs WITHIN: without a window, its future has no end"
            yield Diagnostic(message, group.span, "add a window, such as WITHIN 12 hours")
        if len(reported) == before and certain(shape, None) is None:
            (group, *_), _ = next(_late(shape, bounded=True))
            yield Diagnostic(
                "no single event of the match says when this can no longer change it",
                group.span,
                "bound the time between all of them: add a window, such as WITHIN 12 hours",
            )
            return


Nested = tuple[Added, frozenset[Before], tuple[Apart, ...]]


def _nested(groups: Iterable[Added], around: frozenset[Before], apart: tuple[Apart, ...] = ()) -> Iterator[Nested]:
    """All groups, inner ones, too, each with the whole order and the bounds that hold for it."""
    for group in groups:
        within = closure(around | group.before)
        bounds = apart + group.apart
        yield group, within, bounds
        yield from _nested(group.groups, within, bounds)


def _open_sides(
    group: Added, positive: tuple[str, ...], order: frozenset[Before], apart: tuple[Apart, ...] = ()
) -> tuple[bool, bool]:
    """Whether one of its events may be as early, or as late, as the window lets it: no order and no bound ties it to a
    positive one on that side."""
    tied = differences(order, apart).most.keys() if apart else {(other, one) for one, other in order}
    return (
        any(not any((name, known) in tied for known in positive) for name in group.variables),
        any(not any((known, name) in tied for known in positive) for name in group.variables),
    )


def differences(before: Iterable[Before], apart: Iterable[Apart], has_order: bool = True) -> Order:
    """All that follows from orders and bounds. With a tie-breaker, an event may be before another one of its time."""
    known = [(each.earlier, each.later, each.ticks) for each in apart]
    known += [(later, earlier, int(has_order)) for earlier, later in before]
    return order_of(list(dict.fromkeys(name for one, other, _ in known for name in (one, other))), known)


def is_possible(before: Iterable[Before], apart: Iterable[Apart], has_order: bool = True) -> bool:
    """Whether there can be events like that: no cycle of the order, and none of differences that is too short."""
    order = frozenset(before)
    return differences(order, apart, has_order).is_possible and all(one != other for one, other in closure(order))


def never_added(shape: Shape) -> Iterator[Added]:
    """Groups whose order contradicts itself."""
    return (group for group, order, _ in _nested(shape.groups, shape.before) if any(one == to for one, to in order))


# ---- the order, and the window ------------------------------------------------------------------


def finished(shape: Shape, within: Window | None) -> Branch:
    """With a window's differences and without orders that follow from others; conditions come later."""
    order = closure(shape.before)
    ticks = within.ticks if within else None
    return Branch(
        shape.variables,
        reduced(order, order),
        tightest((*_ends(shape.variables, (), order, ticks), *shape.apart), order),
        predicates=(),
        equivalences=(),
        groups=tuple(_finished(group, shape.variables, order, ticks) for group in shape.groups),
        instant=certain(shape, ticks) or Latest(),
    )


def _finished(group: Added, around: tuple[str, ...], order: frozenset[Before], within: int | None) -> Group:
    known = closure(order | group.before)
    return Group(
        group.variables,
        reduced(_about(known, group.variables), known),
        tightest((*_ends(group.variables, around, known, within), *group.apart), known),
        groups=tuple(_finished(inner, (*around, *group.variables), known, within) for inner in group.groups),
        fold=group.fold,
    )


def without_bounds(scope: S) -> S:
    """The order alone."""
    return replace(scope, apart=(), groups=tuple(without_bounds(group) for group in scope.groups))


def tightest(apart: Iterable[Apart], order: Set[Before] = frozenset()) -> tuple[Apart, ...]:
    """Of the bounds on one difference, the least; without those that an order makes true."""
    least: dict[Before, int] = {}
    for each in apart:
        pair = (each.earlier, each.later)
        least[pair] = min(each.ticks, least.get(pair, each.ticks))
    return tuple(
        Apart(one, other, ticks) for (one, other), ticks in least.items() if not (ticks > 0 and (other, one) in order)
    )


def certain(shape: Shape, within: int | None) -> Instant | None:
    """When no later event can change a match; None if no single event says so.

    A group that is open behind ends with the window. Without one, its bounds tell how long after which events it ends:
    that is when the match is certain, unless an event of the match may come still later.
    """
    late = list(_late(shape, bounded=within is None))
    if not late:
        return Latest()
    if within is not None:
        return Earliest(within)
    here = {(name, name): 0 for name in shape.variables}
    ends = dict.fromkeys(shape.variables, 0)
    for (_, order, apart), name in late:
        far = _furthest(order, apart)
        ends = {one: max(end, far[one, name] // PARTS + 1) for one, end in ends.items() if (one, name) in far}
    most = differences(shape.before, shape.apart).most | here
    ends = {one: end for one, end in ends.items() if all(most.get((one, v), end + 1) <= end for v in shape.variables)}
    for one, end in ends.items():
        if all((other, one) in most and most[other, one] <= later - end for other, later in ends.items()):
            return Derived(one, end)
    alike = len(ends) == len(shape.variables) and len({*ends.values()}) == 1
    return Earliest(next(iter(ends.values()))) if alike else None


def _late(shape: Shape, bounded: bool) -> Iterator[tuple[Nested, str]]:
    """The events of groups that may be later than all of the match's, by the order alone or by bounds, too."""
    for nested in _nested(shape.groups, shape.before, shape.apart):
        group, order, apart = nested
        earlier = order
        if bounded and apart:
            most = differences(order, apart).most
            earlier |= frozenset((name, one) for (one, name), ticks in most.items() if ticks < 0)
        for name in group.variables:
            if not any((name, one) in earlier for one in shape.variables):
                yield nested, name


PARTS = 1_000
"""Of a tick, more than there are events: by so many parts less does one end that ends before a moment."""


def _furthest(before: Iterable[Before], apart: Iterable[Apart]) -> dict[Before, int]:
    """How long after the first the second may be, in parts of ticks, as one writes it: `y.time < x.time + 5` and
    `z.time < y.time + 3` end 8 after x, although whole ticks end earlier. `y.time = x.time + 5` may be 5 after x."""
    least = {(each.earlier, each.later): each.ticks for each in tightest(apart)}
    lengths = {(later, earlier): 0 for earlier, later in before}
    for (one, other), ticks in least.items():
        equal = least.get((other, one)) == 2 - ticks
        length = (ticks - 1) * PARTS if equal else ticks * PARTS - 1
        lengths[one, other] = min(length, lengths.get((one, other), length))
    return shortest(list(dict.fromkeys(name for pair in lengths for name in pair)), lengths)


def _about(order: frozenset[Before], names: tuple[str, ...]) -> frozenset[Before]:
    return frozenset(pair for pair in order if not set(names).isdisjoint(pair))


def _ends(
    names: tuple[str, ...], around: tuple[str, ...], order: frozenset[Before], within: int | None
) -> Iterator[Apart]:
    """All of them are less than the window apart: it is enough to say so of each that may be first and each that may be
    last. Of `around` it has been said."""
    if within is None:
        return
    everything = (*around, *names)
    first = [name for name in everything if not any((other, name) in order for other in everything)]
    last = [name for name in everything if not any((name, other) in order for other in everything)]
    for one, other in product(first, last):
        if one != other and (one in names or other in names):
            yield Apart(one, other, within)


def closure(before: frozenset[Before]) -> frozenset[Before]:
    after: dict[str, set[str]] = {}
    for one, other in before:
        after.setdefault(one, set()).add(other)

    def reach(name: str, seen: set[str]) -> set[str]:
        for other in after.get(name, ()):
            if other not in seen:
                seen.add(other)
                reach(other, seen)
        return seen

    return frozenset((name, other) for name in after for other in reach(name, set()))


def reduced(before: frozenset[Before], order: frozenset[Before]) -> frozenset[Before]:
    """Without pairs that follow from two others of a complete order."""
    names = {name for pair in order for name in pair}
    return frozenset(
        (one, other)
        for one, other in before
        if not any((one, between) in order and (between, other) in order for between in names)
    )


# ---- which variables can meet -------------------------------------------------------------------


def scopes(shapes: Shapes) -> Iterator[frozenset[str]]:
    """The largest sets of variables that a condition may speak of: those of a branch and of a group in it, with the
    groups around that."""

    def inside(groups: Iterable[Added], around: frozenset[str]) -> Iterator[frozenset[str]]:
        for group in groups:
            known = around | frozenset(group.variables)
            yield known
            yield from inside(group.groups, known)

    for shape in shapes:
        yield frozenset(shape.variables)
        yield from inside(shape.groups, frozenset(shape.variables))


def scoped(groups: Iterable[Added]) -> Iterator[frozenset[int]]:
    """The conditions in whose scope groups stand: each group, and behind it those inside it."""
    for group in groups:
        yield group.where
        yield from scoped(group.groups)


def repeated(names: Sequence[str], least: int, span: Span) -> Pattern:
    """So many or more of these, one after the other."""
    leaves = tuple(Leaf(name, span) for name in names)
    counts = tuple(Seq(leaves[:count], span) for count in range(least, len(names) + 1))
    return counts[0] if len(counts) == 1 else Or(counts, span)


def optional(leaf: Leaf) -> Pattern:
    """One of these, or nothing."""
    return Or((leaf, Seq((), leaf.span)), leaf.span)


def twice(pattern: Pattern) -> Iterator[tuple[Leaf, Leaf]]:
    """Leaves with one variable that would meet in a branch: they stand in two parts of one SEQ, AND or ANY."""
    match pattern:
        case Seq() | And() | Some():
            seen: dict[str, Leaf] = {}
            for part in pattern.parts:
                yield from twice(part)
                leaves = list(_leaves(part))
                yield from ((seen[leaf.variable], leaf) for leaf in leaves if leaf.variable in seen)
                seen = {**{leaf.variable: leaf for leaf in leaves}, **seen}
        case Or():
            for part in pattern.parts:
                yield from twice(part)
        case Not() | Bounded():
            yield from twice(pattern.part)


def _leaves(pattern: Pattern) -> Iterator[Leaf]:
    match pattern:
        case Leaf():
            yield pattern
        case All():
            yield pattern.leaf
        case Not() | Bounded():
            yield from _leaves(pattern.part)
        case Seq() | And() | Or() | Some():
            for part in pattern.parts:
                yield from _leaves(part)
