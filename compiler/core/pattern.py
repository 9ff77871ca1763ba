"""Patterns → branches: AND, OR, NOT, SEQ and ALL, nested at will, become what the bound query is made of.

The rules are those of a disjunctive normal form, with one difference: a negated pattern is no negated atom but a group
of events that may not be there, or, under ALL, that are collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, product
from math import comb

from sase.compiler.core.bound import Apart, Before, Branch, Earliest, Fold, Group, Latest, Window
from sase.compiler.core.errors import Diagnostic, Span

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


Pattern = Leaf | Seq | And | Or | Some | Not | All


@dataclass(frozen=True)
class Added:
    """A group in the making: `before` has all of its order, also with what stands around it."""

    variables: tuple[str, ...]
    before: frozenset[Before]
    groups: tuple[Added, ...]
    fold: Fold
    span: Span = field(compare=False)

    @property
    def names(self) -> frozenset[str]:
        """With those of inner groups."""
        return frozenset(self.variables).union(*(group.names for group in self.groups))


@dataclass(frozen=True)
class Shape:
    """A branch in the making, without conditions and without a window."""

    variables: tuple[str, ...] = ()
    before: frozenset[Before] = frozenset()
    groups: tuple[Added, ...] = ()

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
    match pattern:
        case Leaf():
            return (Shape((pattern.variable,)),)
        case All():
            return (Shape(groups=(Added((pattern.leaf.variable,), frozenset(), (), "collect", pattern.span),)),)
        case Or():
            return _distinct((shape for part in pattern.parts for shape in lower(part)), pattern)
        case And():
            return _every([lower(part) for part in pattern.parts], pattern)
        case Seq():
            return _every([lower(part) for part in pattern.parts], pattern, ordered=True)
        case Some():
            if comb(len(pattern.parts), pattern.least) > MOST_BRANCHES:
                raise TooManyBranches(pattern.span)
            chosen = combinations([lower(part) for part in pattern.parts], pattern.least)
            return _distinct((shape for parts in chosen for shape in _every(parts, pattern)), pattern)
        case Not():
            return _every([_negated(shape, pattern.span) for shape in lower(pattern.part)], pattern)


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
            case Not(part=part):
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
        return (Shape(groups=(Added(shape.variables, shape.before, shape.groups, "none", span),)),)
    return tuple(Shape(group.variables, group.before, group.groups) for group in shape.groups)


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


def _among(before: Iterable[Before], names: set[str]) -> frozenset[Before]:
    return frozenset(pair for pair in before if names.issuperset(pair))


# ---- what is wrong with a pattern ---------------------------------------------------------------


def is_chain(shape: Shape) -> bool:
    """Whether all of its events, those of groups included, have their place between two positive ones."""
    order = _closure(shape.before)
    return _reduced(order, order) == frozenset(pairwise(shape.variables)) and all(
        (name, known) in around or (known, name) in around
        for group, around in _nested(shape.groups, order)
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
        for group, within in _nested(shape.groups, shape.before):
            past, future = _open_sides(group, shape.variables, within)
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


def _nested(groups: Iterable[Added], around: frozenset[Before]) -> Iterator[tuple[Added, frozenset[Before]]]:
    """All groups, inner ones, too, each with the whole order that holds for it."""
    for group in groups:
        within = _closure(around | group.before)
        yield group, within
        yield from _nested(group.groups, within)


def _open_sides(group: Added, positive: tuple[str, ...], order: frozenset[Before]) -> tuple[bool, bool]:
    """Whether one of its events may be as early, or as late, as the window lets it."""
    return (
        any(not any((known, name) in order for known in positive) for name in group.variables),
        any(not any((name, known) in order for known in positive) for name in group.variables),
    )


# ---- the order, and the window ------------------------------------------------------------------


def finished(shape: Shape, within: Window | None) -> Branch:
    """With a window's differences and without orders that follow from others; conditions come later."""
    order = _closure(shape.before)
    closed = all(not _open_sides(group, shape.variables, known)[1] for group, known in _nested(shape.groups, order))
    return Branch(
        shape.variables,
        _reduced(order, order),
        tuple(_ends(shape.variables, (), order, within)),
        predicates=(),
        equivalences=(),
        groups=tuple(_finished(group, shape.variables, order, within) for group in shape.groups),
        instant=Latest() if closed or within is None else Earliest(within.ticks),
    )


def _finished(group: Added, around: tuple[str, ...], order: frozenset[Before], within: Window | None) -> Group:
    known = _closure(order | group.before)
    return Group(
        group.variables,
        _reduced(_about(known, group.variables), known),
        tuple(_ends(group.variables, around, known, within)),
        groups=tuple(_finished(inner, (*around, *group.variables), known, within) for inner in group.groups),
        fold=group.fold,
    )


def _about(order: frozenset[Before], names: tuple[str, ...]) -> frozenset[Before]:
    return frozenset(pair for pair in order if not set(names).isdisjoint(pair))


def _ends(
    names: tuple[str, ...], around: tuple[str, ...], order: frozenset[Before], within: Window | None
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
            yield Apart(one, other, within.ticks)


def _closure(before: frozenset[Before]) -> frozenset[Before]:
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


def _reduced(before: frozenset[Before], order: frozenset[Before]) -> frozenset[Before]:
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
        case Not():
            yield from twice(pattern.part)


def _leaves(pattern: Pattern) -> Iterator[Leaf]:
    match pattern:
        case Leaf():
            yield pattern
        case All():
            yield pattern.leaf
        case Not():
            yield from _leaves(pattern.part)
        case Seq() | And() | Or() | Some():
            for part in pattern.parts:
                yield from _leaves(part)
