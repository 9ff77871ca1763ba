"""What is wrong with a query of runs, or with loops that are not written out.

A *run* is the match of its first event under skip till next match and contiguity: it goes from component to component,
and takes the first event that it can. So its pattern is a chain, and what stands in it, loops and negated components,
stands between two events.
"""

from __future__ import annotations

from collections.abc import Iterator

from sase.compiler.core import scalars
from sase.compiler.core.bound import AfterMatch, BoundQuery, EventStrategy
from sase.compiler.core.errors import Diagnostic, Span

RUNS = "a loop stands in SEQ: SEQ(A a, B+ b, C c)"


def wrong(
    query: BoundQuery,
    strategy: tuple[EventStrategy, Span] | None,
    after: tuple[AfterMatch, Span] | None,
) -> Iterator[Diagnostic]:
    if after is not None and not query.runs:
        yield Diagnostic(
            "all combinations are matches here, and none begins behind another",
            after[1],
            "it goes with SKIP TILL NEXT MATCH and contiguity; CONSUME EXCLUSIVE lets a match use up its events",
        )
    if not query.runs and not query.loops:
        return
    span = strategy[1] if query.runs and strategy else _first_loop(query)
    (branch, *others) = query.branches
    if others or not branch.is_chain:
        what = f"{query.strategy} goes" if query.runs else "a loop without an upper bound goes"
        yield Diagnostic(f"{what} from event to event, and this pattern has no such order", span, RUNS)
        return
    if query.timed_out and not query.runs:
        message = "TIMED OUT goes with SEQ of single events, and all combinations"
        yield Diagnostic(message, span, "leave one of the two out; explain --analyze tells how far runs get")
        return
    if query.timed_out:
        yield from _wrong_time_out(query, after)
    for group in branch.groups:
        if len(group.variables) > 1 or group.groups or group.fold != "none":
            yield Diagnostic(
                "ALL and NOT of several events look at all combinations, and not at runs"
                if query.runs
                else "ALL and NOT of several events do not go with a loop without an upper bound",
                query.variable(group.variables[0]).span,
                "forbid single events, SEQ(A a, !(B b), C c)",
            )
    if query.runs:
        yield from _wrong_run(query)
    elif query.grouped is None:
        yield from _enumerated(query)


def _wrong_time_out(query: BoundQuery, after: tuple[AfterMatch, Span] | None) -> Iterator[Diagnostic]:
    if query.after == "past last row" and after is not None:
        yield Diagnostic(
            "a run that got stuck ends with its window, and not with an event behind which another could begin",
            after[1],
            "leave it out: every run that got stuck is told of",
        )
    if query.composite is not None and query.order is not None:
        yield Diagnostic(
            "at the end of a window there is no event to give the result a tie-breaker",
            query.span,
            "leave out RETURN EVENT, or the tie-breaker",
        )
    last = query.branches[0].variables[-1]
    for output in query.returns or ():
        if last in scalars.variables(output.value) and last not in query.loops:
            yield Diagnostic(
                f"a run that reaches {last} is not timed out", output.span, "return attributes of earlier events"
            )


def _first_loop(query: BoundQuery) -> Span:
    return query.variable(next(iter(query.loops))).span


def _enumerated(query: BoundQuery) -> Iterator[Diagnostic]:
    """All combinations of a loop are exponentially many: nobody shall ask for them by accident."""
    for name, loop in query.loops.items():
        if loop.most is None:
            variable = query.variable(name)
            kind = " or ".join(variable.types)
            yield Diagnostic(
                f"every choice of {kind} events is a match here: 2^n of them for n events",
                variable.span,
                f"give it a bound, {kind}{{{loop.least},5}} {name}; or another strategy, SKIP TILL NEXT MATCH; "
                f"or collect all of them, ALL({kind} {name}); or count them, RETURN count(*) AS n",
            )
            return


def _wrong_run(query: BoundQuery) -> Iterator[Diagnostic]:
    (branch,) = query.branches
    for group in branch.groups:
        (name, *_) = group.variables
        if not any(later == name for _, later in group.before) or not any(one == name for one, _ in group.before):
            yield Diagnostic(
                f"{query.strategy} has no place for a negated component that stands first or last",
                query.variable(name).span,
                "put it between two others, or leave the strategy out",
            )
    optional = [name for name, loop in query.loops.items() if loop.least == 0]
    if all(name in optional for name in branch.variables):
        yield Diagnostic(
            "no event needs to be there, and so there is none to report",
            query.span,
            "let one component be there at least once, such as A+ a",
        )
    elif branch.variables[-1] in optional:
        variable = query.variable(branch.variables[-1])
        yield Diagnostic(
            "the match is over before this: it ends with the first event that can end it",
            variable.span,
            "let the pattern end with what must be there",
        )
