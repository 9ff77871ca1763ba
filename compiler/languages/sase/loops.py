"""Loops in the text: `B+ b`, `b[-1].v`, `b[i].v > b[i-1].v`, and where they may stand.

Under skip till any match, a component with an upper bound is written out: a variable for each of its events, a branch
for each number of them. Where that has no end, and in runs, a loop stays whole: one variable for all of its events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import AfterMatch, EventStrategy
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, Span
from sase.compiler.core.missing import left_out
from sase.compiler.core.spans import at, span_of
from sase.compiler.languages.sase.syntax import (
    And,
    Bounded,
    Component,
    Not,
    Or,
    Pattern,
    PlaceInLoop,
    Query,
    Seq,
    Some,
    components,
)


def stay_whole(query: Query) -> bool:
    """Whether the loops of a query are not written out."""
    listed = list(components(query.pattern))
    unbounded = any(component.repeated and component.repeated[1] is None for component in listed)
    aggregates = query.returns is not None and query.returns.aggregates
    return unbounded or aggregates or (query.strategy is not None and query.strategy.text != "skip till any match")


def strategy(query: Query) -> tuple[EventStrategy, Span] | None:
    named = {name: name for name in get_args(EventStrategy)}
    return (named[query.strategy.text], query.strategy.span) if query.strategy else None


def after(query: Query) -> tuple[AfterMatch, Span] | None:
    named = {name: name for name in get_args(AfterMatch)}
    return (named[query.after_match.text], query.after_match.span) if query.after_match else None


def misplaced(pattern: Pattern, negated: bool = False) -> Iterator[Diagnostic]:
    """What may be left out, or has no upper bound, under NOT."""
    match pattern:
        case Component():
            least, most = pattern.repeated or (int(not pattern.optional), 1)
            if negated and (least == 0 or most is None):
                yield Diagnostic(
                    "NOT forbids events, and this is also met by none"
                    if least == 0
                    else "NOT forbids a single one: any number of them begins with one",
                    pattern.span,
                    "write !(A a), or !(A{3} a) for three of them",
                )
        case Not():
            yield from misplaced(pattern.pattern, True)
        case Bounded():
            yield from misplaced(pattern.pattern, negated)
        case Seq() | And() | Or() | Some():
            for part in pattern.parts:
                yield from misplaced(part.pattern, negated)


# ---- events of a loop ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """`b[0]`, `b[-1]`, `b[i-1]` (in the loop, one back), `b[..i-1]`."""

    name: str
    index: int
    in_loop: bool
    up_to: bool
    span: Span


def place(node: exp.Bracket, several: Mapping[str, str]) -> Place | None:
    """Which of the events of a variable is meant; None if these are brackets of something else."""
    events, (index,) = node.this, node.expressions
    if not isinstance(events, exp.Column) or events.table or events.name.lower() not in several:
        return None
    name, span = several[events.name.lower()], span_of(index)
    match index:
        case PlaceInLoop():
            return Place(name, index.args["back"], True, index.args["up_to"], span)
        case exp.Neg():
            return Place(name, -int(index.this.this), False, False, span)
        case exp.Literal(is_string=False):
            return Place(name, int(index.this), False, False, span)
    return None


def places_left(node: exp.Expr) -> Iterator[Diagnostic]:
    """Brackets that only the events of a loop have, behind something else."""
    for bracket in node.find_all(exp.Bracket):
        match bracket.expressions:
            case [PlaceInLoop() | exp.Neg() as index]:
                yield Diagnostic(
                    "these brackets count the events of a loop, and this is none",
                    span_of(index),
                    "elements of an array are counted from 0, x.tags[0]; b[i], b[i-1] and b[-1] are events of B+ b",
                )
                bracket.set("expressions", [at(exp.Literal.number(0), span_of(index))])


def of_one(condition: exp.Expr, element: Mapping[str, str], before: Mapping[str, tuple[str, ...]]) -> exp.Expr | None:
    """A condition on repeated variables, for one event of each, in which what looks back sees those before it.

    For the first event, what looks back is left out; None where nothing remains."""

    def column(of: exp.Column, event: str) -> exp.Column:
        copied = of.copy()
        copied.set("table", exp.Identifier(this=event, quoted=True))
        return copied

    whole = exp.Paren(this=condition.copy())
    for fold in list(whole.find_all(scalars.Folded)):
        (value, *_) = fold.expressions
        if not fold.looks_back or value.table not in element:
            continue
        columns = [column(value, event) for event in before[value.table]]
        if not columns:
            fold.replace(at(column(value, _NOTHING), span_of(fold)))
        elif fold.this == "previous":
            fold.replace(at(columns[-1], span_of(fold)))
        else:
            fold.replace(at(scalars.Folded(this=fold.this, expressions=columns), span_of(fold)))
    for single in list(scalars.columns(whole)):
        if single.table in element:
            single.set("table", exp.Identifier(this=element[single.table], quoted=True))
    inner: exp.Expr = whole.this
    inner.pop()
    names = scalars.variables(inner)
    return left_out(inner, names - {_NOTHING}) if _NOTHING in names else inner


_NOTHING = "\0"
"""In place of a variable: an event that is not there. No name of a query has this character."""


def agrees(value: exp.Expr) -> exp.Expr:
    """`[id]` among the events of one loop: each agrees with the one before."""
    span = span_of(value)
    before = scalars.Folded(this="previous", expressions=[value.copy()], collected=True)
    return at(exp.EQ(this=value, expression=at(before, span)), span)
