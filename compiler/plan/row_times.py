"""When the matches of a clause are there for another clause that reads them.

A clause on a stream goes by the time of its rows, and may not pass that of a row which is still to come. Of matches it
is known if that time is one of a row of the match. With a window, a match is decided when the watermark reaches the end
of the window of its first row, at the latest, and so do those before it; and no row of a match comes before its first.
So the match is there when the watermark has passed any of its rows by WITHIN. If all matches of a clause have the same
number of rows, each is decided with its last row: whatever began before has had as many rows by then.
"""

from __future__ import annotations

from sqlglot import exp

from sase.compiler.core.errors import Diagnostic
from sase.compiler.core.rows import (
    Address,
    Anchor,
    At,
    Concat,
    Either,
    Empty,
    Exclude,
    Node,
    Over,
    Permute,
    Repeat,
    Symbol,
)
from sase.compiler.core.scalars import unparenthesised
from sase.compiler.plan.automaton import ACCEPT
from sase.compiler.plan.row_columns import Origin
from sase.compiler.plan.rows import RowPlan, place


class Unfit(Exception):
    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def lag(time: exp.Column, origin: Origin, outer: RowPlan, plan: RowPlan) -> int:
    """How long after the time by which `outer` goes a match of the clause that it reads may come, in ticks. `origin` is
    the column of the match that is this time."""
    row = _row_of(plan, origin) if isinstance(origin, str) else None
    if row is None:
        raise Unfit(
            Diagnostic(
                "a clause on the matches of another goes by a time of their rows: else nobody knows when all have come",
                place(time, outer.clause.span),
                f"give the inner clause a measure such as  LAST({_time(plan)}) AS ended,  select it as it is (in a "
                "UNION ALL, at its place in each SELECT), and begin ORDER BY with it; or write the matches of one "
                "clause somewhere, and follow them with another",
            )
        )
    assert plan.worker is not None
    if any(shift.step > 0 for shift in plan.worker.shifts.values()):
        raise Unfit(
            Diagnostic(
                "with NEXT, the last rows of a key wait for others, however long that takes: no other clause can wait "
                "for its matches",
                plan.clause.span,
                "leave NEXT out, or write the matches of this clause somewhere, and follow them with another",
            )
        )
    if row == "last" and _is_fixed(plan.clause.pattern):
        return 0
    if plan.within is None:
        raise Unfit(
            Diagnostic(
                "nothing says how long a match of this clause may wait for its next rows, and another clause reads it",
                plan.clause.pattern.span,
                "write  WITHIN INTERVAL '10' MINUTE  behind PATTERN; or let all matches have the same number of rows, "
                f"and order the other clause by  LAST({_time(plan)})",
            )
        )
    return plan.within.length


def _time(plan: RowPlan) -> str:
    return plan.order[0].column if plan.order else "ts"


# ---- which row of a match it is the time of -----------------------------------------------------


def _row_of(plan: RowPlan, name: str) -> str | None:
    """Whether a column of the matches is the time of their last row, or of some row; None if it is another value."""
    time = _time(plan).lower()
    measures = [measure for measure in plan.clause.measures if measure.name.lower() == name.lower()]
    if not measures:
        return "some" if plan.shown != "one row" and name.lower() == time else None
    match unparenthesised(measures[0].expression):
        case At(this=exp.Column() as column, step=0) as at if _is(column, time):
            return "last" if _is_last(plan, at.address) else "some"
        case Over(this=exp.Column() as column, function="max" | "min") as over if _is(column, time):
            return "last" if over.function == "max" and _is_last(plan, over.address) else "some"
    return None


def _is(column: exp.Column, time: str) -> bool:
    return not column.table and column.name.lower() == time


def _is_last(plan: RowPlan, address: Address) -> bool:
    """Whether it is the last row of the match, whatever that was mapped to."""
    if address.first or address.offset or (plan.shown != "one row" and not address.final):
        return False
    found = plan.automaton
    ends = {found.symbols[at] for at, follow in enumerate(found.follow) if ACCEPT in follow}
    return address.variables is None or ends <= set(address.variables)


def _is_fixed(pattern: Node) -> bool:
    least, most = _lengths(pattern)
    return least == most


def _lengths(node: Node) -> tuple[int, int | None]:
    """How many rows a pattern takes at least, and at most."""
    match node:
        case Symbol():
            return 1, 1
        case Empty() | Anchor():
            return 0, 0
        case Exclude(part=part):
            return _lengths(part)
        case Repeat(part=part, low=low, high=high):
            least, most = _lengths(part)
            return low * least, None if high is None or most is None else high * most
        case Concat(parts=parts) | Permute(parts=parts) | Either(parts=parts):
            lengths = [_lengths(part) for part in parts]
            mosts = [most for _, most in lengths if most is not None]
            together = min if isinstance(node, Either) else sum
            most = None if len(mosts) < len(lengths) else (max(mosts) if isinstance(node, Either) else sum(mosts))
            return together(least for least, _ in lengths), most
