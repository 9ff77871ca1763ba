"""A funnel as a front end: steps → the bound query of `SEQ(p1, …, pn) WITHIN T`, one sequence per key.

Each step is a line of the text, and read by SASE's own parser: the lines before it are blanked out for that, so that
every place is one in the whole text. What a step's condition names without a variable is an attribute of its own event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, OptionError, SaseError, Span
from sase.compiler.core.spans import at, span_of
from sase.compiler.languages.front_end import Parsed
from sase.compiler.languages.sase.binder import bind
from sase.compiler.languages.sase.front_end import parsed
from sase.compiler.languages.sase.parser import parse
from sase.compiler.languages.sase.syntax import (
    Component,
    Equivalence,
    Name,
    Not,
    Part,
    Query,
    Return,
    ReturnItem,
    Seq,
)

FILENAME = "funnel"
Length = str | int | timedelta


@dataclass(frozen=True)
class Step:
    component: Component
    negated: bool
    where: exp.Expr | None
    span: Span

    @property
    def name(self) -> str:
        assert self.component.variable is not None
        return self.component.variable.text


@dataclass(frozen=True)
class Funnel:
    """What is asked: how far each key gets."""

    steps: tuple[str, ...]
    """The names of the steps, without those that may not be taken."""
    parsed: Parsed


def read(steps: Sequence[str], by: Sequence[str], within: Length | None = None, breakdown: str | None = None) -> Funnel:
    """`by` are the columns of the key, `breakdown` one that is kept of the first event."""
    text = _text(steps, within)
    queries = [_parsed(query, text) for query in _lines(text)]
    named = list(_named(queries))
    whole = queries[-1]
    if wrong := [*_wrong_steps(queries), *_wrong_order(named), *_wrong_names(named)]:
        raise SaseError(wrong, text, FILENAME)
    span = named[0].span.to(named[-1].span)
    parts = tuple(Part(Not(step.component, step.span) if step.negated else step.component) for step in named)
    query = replace(whole, text=text, pattern=Seq(parts, span), where=_where(named, by, span), span=span)
    taken = [step for step in named if not step.negated]

    def bound(catalog: Catalog, event: bool = False) -> BoundQuery:
        _check_columns(named, taken[0], by, breakdown, catalog, text)
        returns = Return(tuple(_columns(taken, by, breakdown, catalog)), None, span)
        try:
            found = bind(replace(query, returns=returns), catalog, event)
        except SaseError as error:
            raise SaseError(error.diagnostics, text, FILENAME) from None
        left = [part.span for part in found.predicates if not part.is_simple]
        if wrong := [_no_key(by, taken[0].span) if part == span else _not_of_its_event(part) for part in left]:
            raise SaseError(dict.fromkeys(wrong), text, FILENAME)
        return replace(found, furthest=True)

    return Funnel(tuple(step.name for step in taken), parsed(query, bound))


# ---- the text -----------------------------------------------------------------------------------


def _text(steps: Sequence[str], within: Length | None) -> str:
    if isinstance(steps, str) or len(steps) < 2:
        raise OptionError("a funnel has two steps or more: event types, or conditions such as 'CART WHERE amount > 3'")
    lines = [step if re.match(r"\s*EVENT\s", step, re.IGNORECASE) else f"EVENT {step}" for step in steps]
    match within:
        case timedelta():
            lines.append(f"WITHIN {within // timedelta(microseconds=1)} microseconds")
        case int() | str():
            lines.append(f"WITHIN {within}")
    return "\n".join(lines)


def _lines(text: str) -> Iterator[str]:
    """The text with all steps but one blanked out, for each step; the window belongs to the last one."""
    starts = [found.start() for found in re.finditer(r"^\s*EVENT\s", text, re.IGNORECASE | re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield re.sub(r"[^\n]", " ", text[:start]) + text[start:end]


def _parsed(line: str, text: str) -> Query:
    try:
        return parse(line, FILENAME)
    except SaseError as error:
        raise SaseError(error.diagnostics, text, FILENAME) from None


# ---- the steps ----------------------------------------------------------------------------------


def _wrong_steps(queries: Sequence[Query]) -> Iterator[Diagnostic]:
    help = "a step is an event type, ANY(A, B), or !A between two steps; and its own WHERE"
    for query in queries:
        match query.pattern:
            case Component(repeated=None, optional=False) | Not(pattern=Component(repeated=None, optional=False)):
                pass
            case _:
                yield Diagnostic("a step of a funnel is one event", query.span, help)
        if any((query.returns, query.consume, query.stream, query.timed_out, query.strategy, query.after_match)):
            yield Diagnostic("a step of a funnel has a condition, and nothing else", query.span, help)
        if query.within is not None and query is not queries[-1]:
            yield Diagnostic("the window is that of the whole funnel", query.span, "give it as within")


def _wrong_order(steps: Sequence[Step]) -> Iterator[Diagnostic]:
    for step in (steps[0], steps[-1]):
        if step.negated:
            yield Diagnostic(
                "what may not happen stands between two steps", step.span, "move it, or leave it out of the funnel"
            )
            return
    if sum(not step.negated for step in steps) < 2:
        yield Diagnostic("a funnel has two steps or more", steps[0].span)


def _named(queries: Iterable[Query]) -> Iterator[Step]:
    """Each step goes by its variable, or by its first type, in lower case."""
    known: set[str] = set()
    for query in queries:
        negated = isinstance(query.pattern, Not)
        inner = query.pattern.pattern if isinstance(query.pattern, Not) else query.pattern
        if not isinstance(inner, Component):
            inner = Component((), False, None, None, query.span)  # it is refused
        stem = inner.variable.text if inner.variable else _stem(inner)
        name, count = stem, 1
        while name.lower() in known:
            count += 1
            name = f"{stem}_{count}"
        known.add(name.lower())
        component = replace(inner, variable=Name(name, inner.variable.span if inner.variable else inner.span))
        where = None if query.where is None else _of_its_event(query.where, name)
        yield Step(component, negated, where, query.span)


def _stem(component: Component) -> str:
    first = component.types[0].text.lower() if component.types else ""
    return re.sub(r"\W+", "_", first).strip("_") or "event"


def _of_its_event(where: exp.Expr, name: str) -> exp.Expr:
    where = where.copy()
    for column in where.find_all(exp.Column):
        if not column.table:
            column.set("table", at(exp.Identifier(this=name, quoted=True), span_of(column)))
    return where


def _wrong_names(steps: Sequence[Step]) -> Iterator[Diagnostic]:
    for step in steps:
        for column in step.where.find_all(exp.Column) if step.where is not None else ():
            if column.table.lower() != step.name.lower():
                yield _not_of_its_event(span_of(column))


def _not_of_its_event(span: Span) -> Diagnostic:
    return Diagnostic(
        "a step's condition is about its own event",
        span,
        "compare attributes with values; a field of one needs the step's name, CART c WHERE c.props.page = 'x'",
    )


def _no_key(by: Sequence[str], span: Span) -> Diagnostic:
    """Equal keys must be equal in any way: -0.0 and 0.0 are not."""
    return Diagnostic(f"{' and '.join(by)} cannot tell keys apart: a key is no floating-point number", span)


def _where(steps: Sequence[Step], by: Sequence[str], span: Span) -> exp.Expr:
    keys = [at(Equivalence(this=at(exp.Identifier(this=name, quoted=True), span)), span) for name in by]
    return scalars.conjunction([*keys, *(step.where for step in steps if step.where is not None)])


# ---- the columns --------------------------------------------------------------------------------


def _check_columns(
    steps: Sequence[Step], first: Step, by: Sequence[str], breakdown: str | None, catalog: Catalog, text: str
) -> None:
    """Every event has the key; the first one, what the funnel is broken down by."""
    wrong = []
    for step in steps:
        for name in (*by, *([breakdown] if breakdown and step is first else [])):
            for event_type in step.component.types:
                declared = (catalog.types or {}).get(event_type.text)
                if declared is not None and name.lower() not in map(str.lower, (*declared, catalog.time)):
                    what = "is counted by it" if name in by else "is broken down by it"
                    wrong.append(
                        Diagnostic(
                            f"{event_type.text} declares no attribute {name}, and the funnel {what}", event_type.span
                        )
                    )
    if wrong:
        raise SaseError(wrong, text, FILENAME)


def _columns(steps: Sequence[Step], by: Sequence[str], breakdown: str | None, catalog: Catalog) -> Iterator[ReturnItem]:
    """The key, what it is broken down by, how far it got, and when it took each step."""
    first, *others = steps

    def of(step: Step, attribute: str) -> exp.Expr:
        table = at(exp.Identifier(this=step.name, quoted=True), step.span)
        name = at(exp.Identifier(this=attribute, quoted=True), step.span)
        return at(exp.Column(this=name, table=table), step.span)

    for name in dict.fromkeys((*by, *([breakdown] if breakdown else []))):
        yield ReturnItem(of(first, name), Name(name, first.span), first.span)
    reached = [
        at(exp.If(this=_is_there(of(step, catalog.time)), true=_number(number)), step.span)
        for number, step in reversed(list(enumerate(others, 2)))
    ]
    level = at(exp.Case(ifs=reached, default=_number(1)), first.span)
    yield ReturnItem(level, Name("level", first.span), first.span)
    for step in steps:
        yield ReturnItem(of(step, catalog.time), Name(f"{step.name}_at", step.span), step.span)


def _is_there(time: exp.Expr) -> exp.Expr:
    """Whether an event is bound: every event has a time."""
    return exp.Not(this=exp.Is(this=time, expression=exp.Null()))


def _number(number: int) -> exp.Expr:
    return exp.Literal.number(number)
