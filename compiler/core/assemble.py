"""The end of every front end: variables, conditions and outputs become a bound query.

What is common to all languages is decided here: which part of WHERE speaks of what, what a missing attribute means,
which equalities are equivalence tests, and what no pattern may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sqlglot import exp

from sase.compiler.core import pattern, runs, scalars
from sase.compiler.core.aggregates import Aggregate
from sase.compiler.core.arrivals import Arrivals, Lowering, last_of, of_branch
from sase.compiler.core.bound import (
    AfterMatch,
    Apart,
    BoundQuery,
    Branch,
    Derived,
    Earliest,
    EventStrategy,
    Group,
    Grouping,
    Loop,
    Mode,
    Output,
    Predicate,
    TimeKind,
    Variable,
    Window,
)
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.durations import spelled
from sase.compiler.core.equivalence import Owned, equivalence_tests
from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.core.missing import Missing, atoms, left_out, with_escapes
from sase.compiler.core.pattern import Shapes
from sase.compiler.core.results import Ordering, Results
from sase.compiler.core.spans import span_of
from sase.compiler.core.weights import Weighing, is_asked

MOST_COMPONENTS = 60
"""State bits are the bits of one 64-bit integer."""


def assemble(
    text: str,
    filename: str,
    catalog: Catalog,
    *,
    stream: str | None,
    span: Span,
    time_kind: TimeKind,
    variables: Sequence[Variable],
    shapes: Shapes,
    where: Iterable[exp.Expr],
    within: Window | Diagnostic | None,
    returns: Sequence[Output] | None,
    composite: str | None,
    timed: bool,
    found: list[Diagnostic],
    missing: Missing = with_escapes,
    selection: Mapping[str, tuple[Mode, Span]] = MappingProxyType({}),
    exclusive: Span | None = None,
    arrays: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    empty: frozenset[str] = frozenset(),
    timed_out: Span | None = None,
    loops: Mapping[str, Loop] = MappingProxyType({}),
    strategy: tuple[EventStrategy, Span] | None = None,
    after: tuple[AfterMatch, Span] | None = None,
    grouped: Grouping | None = None,
    apart: tuple[Apart, ...] = (),
    inner: Sequence[tuple[int, exp.Expr]] = (),
    once: bool = True,
) -> BoundQuery:
    """`shapes` are the pattern's branches, `where` has the parts that AND joins, with their names resolved, and `inner`
    those of parts of the pattern, with the numbers by which shapes know them. `span` is the pattern's, `exclusive` that
    of the words that let a match use up its events. `apart` are bounds of every branch beside the window.

    `found` has what the language itself found wrong, and `within` may say why it is no window: all errors are reported
    together.
    """
    if len(variables) > MOST_COMPONENTS:
        found.append(Diagnostic(f"a pattern has at most {MOST_COMPONENTS} components", variables[MOST_COMPONENTS].span))
    found += pattern.wrong(shapes, span, needs_window=within is None)
    window = within if isinstance(within, Window) else None
    follows_runs = strategy is not None and strategy[0] != "skip till any match"
    if timed_out is not None:
        found += _wrong_time_out(shapes, timed_out, bool(selection or exclusive), bool(arrays))
        if not follows_runs:
            shapes = pattern.timed_out(shapes[0], timed_out)
    where, returns = list(where), None if returns is None else list(returns)
    expressions = [*where, *(output.value for output in returns or ())]
    if loops or strategy:
        found += _wrong_in_runs(expressions)
    if is_asked(expressions):
        weighing = Weighing(variables, shapes, catalog.time)
        shapes = weighing.shapes
        where = [weighing.condition(part) for part in where]
        returns = None if returns is None else [weighing.output(output) for output in returns]
        found += weighing.found
    ordering = Ordering(variables)
    where = ordering.apart(where)
    returns = None if returns is None else [ordering.output(output) for output in returns]
    last = dict.fromkeys(name for shape in shapes for name in last_of(shape))
    order = [catalog.order] if catalog.order else []
    arriving = Lowering(variables, [] if timed_out else [*last], [catalog.time, *order])
    where = [arriving.condition(part) for part in where]
    ordering.parts = [arriving.condition(part) for part in ordering.parts]
    returns = None if returns is None else [arriving.output(output) for output in returns]
    variables = arriving.known()
    found += arriving.found
    bare = [pattern.finished(shape, window) for shape in shapes]
    bare = [replace(branch, apart=pattern.tightest((*branch.apart, *apart))) for branch in bare]
    runs_on = loops if follows_runs else {}
    mixes = timed_out is not None and not follows_runs
    conditions = _Conditions(catalog.type, variables, missing, mixes=mixes, loops=runs_on)
    branches = conditions.of(list(where), inner, list(zip(bare, shapes, strict=True)))
    found += conditions.found
    decided = ordering.decided(branches, missing, catalog.type)
    found += [*ordering.wrong_pattern(branches, arrays, timed_out is not None)] or ordering.found
    positive = {name for branch in branches for name in branch.variables}
    bound = {name: tuple(each for each in elements if each in positive) for name, elements in arrays.items()}
    query = BoundQuery(
        text=text,
        filename=filename,
        span=span,
        stream=stream,
        time=catalog.time,
        type=catalog.type,
        order=catalog.order,
        time_kind=time_kind,
        variables=tuple(variables),
        branches=branches,
        within=window,
        returns=None if returns is None else tuple(returns),
        composite=composite,
        timed=timed,
        time_unit=catalog.time_unit,
        time_format=catalog.time_format,
        csv=catalog.csv,
        selection={name: mode for name, (mode, _) in selection.items()},
        consume="exclusive" if exclusive else "shared",
        arrays={name: elements for name, elements in bound.items() if elements},
        arrivals=tuple(arriving.arrivals.values()),
        reported=tuple(ordering.reported.values()),
        decided=decided,
        timed_out=timed_out is not None,
        empty=empty,
        loops=dict(loops),
        strategy=strategy[0] if strategy else "skip till any match",
        after=after[0] if after else "to next row",
        grouped=grouped,
        others=catalog.types or {} if strategy and strategy[0].endswith("contiguity") else {},
        once=once,
    )
    check_outputs(query, found)
    if grouped is not None and not found:
        found += wrong_grouping(query, grouped)
    if not found:
        found += runs.wrong(query, strategy, after)
    if not found:
        found += _wrong_selection(query, selection)
    if isinstance(within, Diagnostic):
        found.append(within)
    if found:
        raise SaseError(found, text, filename)
    return as_sequence(query)


# ---- the pattern --------------------------------------------------------------------------------


def as_sequence(query: BoundQuery) -> BoundQuery:
    """Where one length of time bounds all of a chain, that is its window, and the query has the plans of a sequence."""
    branch = query.branches[0]
    lengths = {each.ticks for part in (branch.apart, *(group.apart for group in branch.groups)) for each in part}
    aggregates = query.arrivals or query.reported  # theirs is the window of the text
    if len(query.branches) > 1 or len(lengths) != 1 or query.within is not None or aggregates:
        return query
    (ticks,) = lengths
    text = spelled(ticks) if query.time_kind == "timestamp" else str(ticks)
    if branch.instant == Derived(branch.variables[0], ticks):
        branch = replace(branch, instant=Earliest(ticks))
    sequence = replace(query, branches=(branch,), within=Window(ticks, text))
    return sequence if sequence.is_sequence else query


def _wrong_time_out(shapes: Shapes, span: Span, selects: bool, repeats: bool) -> Iterator[Diagnostic]:
    if selects:
        yield Diagnostic("TIMED OUT takes every sequence that got stuck", span, "leave out first, last and CONSUME")
    shape = shapes[0]
    if len(shapes) > 1 or len(shape.variables) < 2 or repeats or not pattern.is_chain(shape):
        yield Diagnostic(
            "TIMED OUT reports sequences that got stuck on their way, and this pattern has no steps",
            span,
            "it goes with SEQ of single events: SEQ(A a, B b, C c) WITHIN 10 minutes TIMED OUT",
        )
    elif any((shape.variables[-1], name) in group.before for group in shape.groups for name in group.variables):
        yield Diagnostic(
            "behind its last event, a sequence cannot get stuck",
            span,
            "leave out what stands last: a sequence that reaches its last event is not timed out",
        )


def _wrong_in_runs(expressions: Iterable[exp.Expr]) -> Iterator[Diagnostic]:
    for expression in expressions:
        for node in expression.find_all(Arrivals, Results, exp.Anonymous):
            if not isinstance(node, exp.Anonymous) or is_asked([node]):
                yield Diagnostic(
                    "this is known of matches of single events, and not of loops and runs",
                    span_of(node),
                    "leave out the strategy, and what is repeated without a bound",
                )
                return


def _wrong_selection(query: BoundQuery, selection: Mapping[str, tuple[Mode, Span]]) -> Iterator[Diagnostic]:
    """Selection goes by the event that completes a match, so there must be one, and by one of every match."""
    for name, (mode, span) in selection.items():
        if not all(name in branch.variables for branch in query.branches):
            yield Diagnostic(
                f"{mode} compares the events of {name}, and not every match has one",
                span,
                "it may not stand inside OR, NOT or ANY",
            )
    if selection and any(len(last_of(branch)) > 1 for branch in query.branches):
        yield Diagnostic(
            "first and last compare the matches that one event completes, and here several events may be the last",
            next(iter(selection.values()))[1],
            "let the pattern end with a single event: SEQ(first A a, B b)",
        )


# ---- WHERE --------------------------------------------------------------------------------------


class _Conditions:
    """P+ and P- of each branch. What one place in the text stands for, such as pairs of `[id]`, is reported once."""

    def __init__(
        self,
        type_column: str,
        variables: Sequence[Variable],
        missing: Missing,
        mixes: bool,
        loops: Mapping[str, Loop],
    ) -> None:
        self.type_column = type_column
        self.missing = missing
        self.order = [variable.name for variable in variables]
        self.mixes = mixes
        self.loops = loops
        """A part of P- may have comparisons that do not speak of its group: the language did not call it negated."""
        self.found: list[Diagnostic] = []
        self.wrong: set[Span] = set()

    def of(
        self,
        where: Sequence[exp.Expr],
        inner: Sequence[tuple[int, exp.Expr]],
        branches: Sequence[tuple[Branch, pattern.Shape]],
    ) -> tuple[Branch, ...]:
        parts: list[tuple[int | None, exp.Expr]] = []
        for number, part in (*((None, part) for part in where), *inner):
            condition = scalars.unparenthesised(part)
            if span_of(condition) not in self.wrong:
                mistakes: list[Diagnostic] = []
                scalars.check_condition(condition, mistakes)
                self.report(span_of(condition), mistakes)
                parts.append((number, condition))
        return tuple(self.conditioned(branch, shape, parts) for branch, shape in branches)

    def report(self, span: Span, mistakes: Iterable[Diagnostic]) -> None:
        listed = list(mistakes)
        if listed and span not in self.wrong:
            self.wrong.add(span)
            self.found += listed

    def conditioned(self, branch: Branch, shape: pattern.Shape, parts: Sequence[tuple[int | None, exp.Expr]]) -> Branch:
        """A part with a number concerns what stands in its scope, and any other part all of the branch."""
        groups = list(_numbered(branch.groups, frozenset(branch.variables)))
        scopes = [shape.where, *pattern.scoped(shape.groups)]
        plus: list[Predicate] = []
        minus: list[Owned] = []
        for number, part in parts:
            concerned, *concerns = [number is None or number in each for each in scopes]
            span = span_of(part)
            if span in self.wrong:
                continue
            added = {column.table for column in scalars.single_columns(part)} - set(branch.variables)
            added &= {name for group, _ in groups for name in group.variables}
            if not added and not concerned:
                continue
            if not added:
                collected = {name for group, _ in groups if group.fold != "none" for name in group.variables}
                remaining = left_out(part, {*branch.variables, *collected})
                if remaining is not None:
                    remaining = of_branch(remaining, branch)
                    plus.append(Predicate(self.missing(remaining, self.type_column), None, span))
                continue
            mine = [each for each, concerned in zip(groups, concerns, strict=True) if concerned]
            if mine:
                self.report(span, self.wrong_part(part, added, mine))
            for at, (group, scope) in enumerate(groups):
                first = next((name for name in group.variables if name in added), None)
                inside = (added.intersection(each.variables) for each, _ in _numbered(group.groups, scope))
                if first is None or not concerns[at] or any(inside):
                    continue
                remaining = left_out(part, scope)
                if remaining is not None:
                    remaining = of_branch(remaining, branch)
                    if number is None:  # else it stands behind what it is about
                        self.report(span, self.mixed(remaining, group, part))
                    minus.append(Owned(Predicate(self.missing(remaining, self.type_column), first, span), at))
        tests, plus_rest, minus_rest = equivalence_tests(
            plus, minus, [group.variables for group, _ in groups], self.order, self.loops
        )
        numbers = iter(range(len(groups)))
        return replace(
            branch,
            predicates=plus_rest,
            equivalences=tests,
            groups=tuple(_with_parts(group, numbers, minus_rest) for group in branch.groups),
        )

    def wrong_part(
        self, part: exp.Expr, added: set[str], groups: Sequence[tuple[Group, frozenset[str]]]
    ) -> Iterator[Diagnostic]:
        """A part of P- is about one group, and those around it."""
        names = [name for name in self.order if name in added]
        if not any(added <= scope for _, scope in groups):
            collected = any(group.fold == "collect" and added.intersection(group.variables) for group, _ in groups)
            kind = "negated or collected" if collected else "negated"
            yield Diagnostic(
                f"this part of WHERE speaks of {len(names)} {kind} components, {' and '.join(names)}",
                span_of(part),
                "each negated component stands for itself: a part may speak of one of them and of positive variables",
            )
        folds = list(part.find_all(scalars.Folded))
        if any(fold.this == "probability" for fold in folds):
            yield Diagnostic(
                f"this part of WHERE says which events {names[0]} stands for, and depends on probability()",
                span_of(part),
                "a probability is known of whole matches: compare it with positive variables",
            )
        elif any(fold.args.get("collected") for fold in folds):
            yield Diagnostic(
                f"this part of WHERE says which events {names[0]} stands for, and depends on what is collected",
                span_of(part),
                "what is collected is known of whole matches: compare it with positive variables",
            )

    def mixed(self, remaining: exp.Expr, group: Group, part: exp.Expr) -> Iterator[Diagnostic]:
        """In each of its comparisons, a part of P- speaks of its group."""
        if self.mixes:
            return
        for atom in atoms(remaining):
            spoken_of = scalars.variables(atom)
            if spoken_of and spoken_of.isdisjoint(group.variables):
                name = " and ".join(group.variables)
                kind = "collected" if group.fold == "collect" else "negated"
                yield Diagnostic(
                    f"this part of WHERE mixes conditions on positive variables and on the {kind} {name}",
                    span_of(part),
                    f"{scalars.sql(atom)} does not speak of {name}: only AND may join the two",
                )
                return


def _numbered(groups: Iterable[Group], around: frozenset[str]) -> Iterator[tuple[Group, frozenset[str]]]:
    """Groups, each with what its conditions may speak of, and behind it those inside it."""
    for group in groups:
        scope = around | frozenset(group.variables)
        yield group, scope
        yield from _numbered(group.groups, scope)


def _with_parts(group: Group, numbers: Iterator[int], owned: Sequence[Owned]) -> Group:
    number = next(numbers)
    return replace(
        group,
        predicates=tuple(part for part, owner in owned if owner == number),
        groups=tuple(_with_parts(inner, numbers, owned) for inner in group.groups),
    )


# ---- RETURN -------------------------------------------------------------------------------------


def check_outputs(query: BoundQuery, found: list[Diagnostic]) -> None:
    places = [query.time, query.order or query.time] if query.timed else []
    names = {query.type.lower()} if query.composite else set()
    found += _no_tie_breaker(query)
    wrong: set[Span] = set()  # x.* stands for many columns, and is reported once
    for output in query.returns or ():
        mistakes: list[Diagnostic] = []
        scalars.infer(output.value, mistakes)
        mistakes += [
            _no_event(column, query)
            for column in scalars.single_columns(output.value)
            if column.table not in query.bound
            or (
                column.table in query.loops
                and not query.loops[column.table].single
                and column.find_ancestor(Aggregate) is None
            )
        ]
        mistakes += [
            Diagnostic(
                "[i] is each event of a loop in turn, in a condition",
                span_of(fold),
                "return one value: first(b.v), last(b.v), b[0].v or collect(b.v)",
            )
            for fold in output.value.find_all(scalars.Folded)
            if fold.looks_back
        ]
        if output.name.lower() in names:
            example = f": {scalars.sql(output.value)} AS …" if isinstance(output.value, exp.Column) else ""
            mistakes.append(
                Diagnostic(
                    f"two columns of the result are named {output.name}",
                    output.span,
                    f"name one of them with AS{example}",
                )
            )
        names.add(output.name.lower())
        if output.name.lower() in map(str.lower, places):
            mistakes.append(
                Diagnostic(
                    f"an event of the type {query.composite} has its own {output.name}: that of the match, when it is "
                    "certain",
                    output.span,
                    "leave it out, or give it another name with AS",
                )
            )
        if mistakes and output.span not in wrong:
            wrong.add(output.span)
            found += mistakes


def wrong_grouping(query: BoundQuery, grouped: Grouping) -> Iterator[Diagnostic]:
    """What is neither an aggregate nor the same in all matches of a group; and what has no matches to count."""
    if query.composite is not None:
        yield Diagnostic(
            "an event is made of one match, and this counts them",
            grouped.span,
            f"let RETURN list attributes, so that {query.composite} is a table of matches, and group that in Spark; or "
            "give the query a file of its own, without INTO",
        )
    for output in query.returns or ():
        for aggregate in output.value.find_all(Aggregate):
            if aggregate.find_ancestor(Aggregate) is not None:
                yield Diagnostic(
                    "an aggregate of an aggregate has no meaning", span_of(aggregate), "aggregate the result in Spark"
                )
        known = output.value.copy().transform(lambda part: exp.Null() if part in grouped.by else part)
        for column in known.find_all(exp.Column):
            if column.find_ancestor(Aggregate) is None:
                text = f"{column.table}.{column.name}"
                yield Diagnostic(
                    f"{text} differs between the matches of a group",
                    output.span,
                    f"add it to GROUP BY, or aggregate it, such as min({text})",
                )
                break
    for value in grouped.by:
        if value.find(Aggregate) is not None:
            yield Diagnostic(
                "matches are grouped before they are counted", span_of(value), "filter the result in Spark"
            )
        for column in value.find_all(exp.Column):
            if column.table in query.loops:
                yield Diagnostic(
                    f"{column.table} is repeated: a match has several such events",
                    span_of(value),
                    "group by an attribute of a single event",
                )


def _no_tie_breaker(query: BoundQuery) -> Iterator[Diagnostic]:
    """An event with a derived time is simultaneous with all events of that time, and nothing that is sorted can be."""
    derived = any(isinstance(branch.instant, Earliest | Derived) for branch in query.branches)
    if query.timed and query.order is not None and derived:
        yield Diagnostic(
            f"these matches are certain at the end of a window, where no event gives {query.composite} a tie-breaker",
            query.span,
            f"events are ordered by {query.order}: leave the tie-breaker out, or let the pattern end with an event",
        )


def _no_event(column: exp.Column, query: BoundQuery) -> Diagnostic:
    """Why there is no single event to return an attribute of."""
    name, span = column.table, span_of(column)
    if name in query.arrays or name in query.loops:
        return Diagnostic(
            f"{name} is repeated: a match has several such events",
            span,
            f"say which one, {name}[0].{column.name}, or make one value of them, such as collect({name}.{column.name})",
        )
    if name in query.collected:
        return Diagnostic(
            f"{name} is collected: a match has any number of such events",
            span,
            f"make one value of them, such as count({name}) or collect({name}.{column.name})",
        )
    if query.timed_out:
        return Diagnostic(
            f"a sequence that reaches {name} is not timed out", span, "return attributes of earlier events"
        )
    return Diagnostic(
        f"{name} is negated: a match has no such event to return", span, "return attributes of positive variables"
    )
