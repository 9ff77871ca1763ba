"""Where what has arrived is found out: in the kernel's own worker, or before anything else.

In the worker, events are brought together by time slices, whatever their key, and an event is told there before the
kernel sees it: one shuffle, as of the query without such an aggregate. That needs a window to slice by, and a condition
that the worker can ask as well, or else the kernel would build what Spark has to throw away. Otherwise events are told
first, in slices of their own, and go on by key.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.errors import OptionError
from sase.compiler.core.windows import LONGEST
from sase.compiler.plan.physical import Tree
from sase.compiler.plan.statistics import Statistics
from sase.compiler.plan.strategy import Strategy
from sase.compiler.plan.thinning import thinned

A_SLICE = 16
"""Windows: what a window reaches back for is copied."""
ENOUGH = 16
"""Windows that the events have to last, where statistics say how long they do: else most of them would be copies."""
_NEEDED = {"slice_by_time", "window_in_scan", "window_in_construction"}


def told(
    query: BoundQuery, strategy: Strategy, disable: frozenset[str], statistics: Statistics | None = None
) -> Strategy:
    """The strategy, with the decision made: for a batch."""
    if not query.arrivals:
        if strategy.arrivals != "auto":
            raise OptionError(f"arrivals={strategy.arrivals} is for avg* and its like, and this query has none")
        return strategy
    why_not = _why_not_in_slices(query, strategy, disable)
    if strategy.arrivals == "slices" and why_not is not None:
        raise OptionError(f"arrivals=slices {why_not}")
    if strategy.arrivals == "before" or why_not is not None or query.within is None:
        return replace(strategy, arrivals="before")
    short = statistics is not None and statistics.span < ENOUGH * query.within.ticks
    if short and strategy.arrivals == "auto":
        return replace(strategy, arrivals="before")
    length = min(A_SLICE * query.within.ticks, LONGEST[query.time_kind])
    return replace(strategy, arrivals="slices", slice=length, parallel="time", sort="worker")


def _why_not_in_slices(query: BoundQuery, strategy: Strategy, disable: frozenset[str]) -> str | None:
    if query.within is None:
        return "needs WITHIN, as there is nothing to cut the stream by"
    if not query.is_sequence or query.negated or query.loops or len(query.positive) < 2:
        return "is for sequences of single events, without negation"
    if query.reported or query.furthest or query.one_per is not None:
        return "is for queries that report all their matches"
    if disable & _NEEDED:
        return f"needs the rules {', '.join(sorted(_NEEDED))}"
    if strategy.slice != "auto" or strategy.parallel not in ("auto", "time") or strategy.sort == "spark":
        return "slices and sorts in its own way: leave slice, parallel and sort out"
    names = frozenset(each.name for each in query.arrivals)
    for predicate in query.predicates:
        columns = list(scalars.columns(predicate.condition))
        if not any(column.name in names for column in columns):
            continue
        if {column.table for column in columns} != {query.last.name} or thinned([[predicate.condition]], names) is None:
            return f"needs conditions that compare doubles of the last event, and {predicate} is another"
    return None


def left_over(query: BoundQuery) -> Tree | None:
    """Holds for each last event that a match may have, as far as a worker can tell."""
    names = frozenset(each.name for each in query.arrivals)

    def plain(node: exp.Expr) -> exp.Expr:
        is_one = isinstance(node, scalars.Folded) and node.this == "latest" and len(node.expressions) == 1
        return node.expressions[0].copy() if is_one else node

    conditions = [predicate.condition.transform(plain, copy=True) for predicate in query.predicates]
    of_last = [each for each in conditions if {column.table for column in scalars.columns(each)} == {query.last.name}]
    return thinned([of_last], names)
