"""`before(x, y)` and `elapsed(x, y) < 5 minutes` in WHERE: where events lie in time, relative to each other.

They are no conditions on values but part of the pattern: an order, and a bound on a difference of times. The difference
is that of moments, whatever a clock on the wall says: `y.ts - x.ts` of Spark counts the hours of local time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import Apart, Before, TimeKind
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, Span, did_you_mean
from sase.compiler.core.names import Parameter
from sase.compiler.core.spans import span_of
from sase.compiler.core.windows import LONGEST, longest, ticks_of, window
from sase.compiler.languages.lengths import given
from sase.compiler.languages.sase.syntax import Duration, Name

BEFORE, ELAPSED = "before", "elapsed"


@dataclass(frozen=True)
class Said:
    """What a part of WHERE says of the times of two variables."""

    before: tuple[Before, ...]
    apart: tuple[Apart, ...]
    variables: tuple[str, str]
    span: Span


@dataclass(frozen=True)
class Reader:
    """`names` has the variables, by their names in lower case; lengths of time are of the time column."""

    names: Mapping[str, str]
    column: str
    kind: TimeKind
    parameters: Mapping[str, object]
    found: list[Diagnostic]

    def said(self, part: exp.Expr) -> Said | None:
        """None for a condition on values. What is wrong is noted, and says nothing."""
        node = scalars.unparenthesised(part)
        span = span_of(part)
        match node:
            case exp.Anonymous() if self.is_call(node) and node.name.lower() == BEFORE:
                one, other = self.variables(node)
                return Said(((one, other),), (), (one, other), span)
            case exp.Between() if self.is_elapsed(node.this) and not node.args.get("symmetric"):
                one, other = self.variables(node.this)
                low, high = self.ticks(node.args["low"]), self.ticks(node.args["high"])
                return Said((), (Apart(one, other, high + 1), Apart(other, one, 1 - low)), (one, other), span)
            case exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.EQ():
                if self.is_elapsed(node.left):
                    one, other = self.variables(scalars.unparenthesised(node.left))
                    bounds = _bounds(type(node), one, other, self.ticks(node.right))
                    return Said((), tuple(bounds), (one, other), span)
                if self.is_elapsed(node.right):
                    one, other = self.variables(scalars.unparenthesised(node.right))
                    bounds = _bounds(_TURNED[type(node)], one, other, self.ticks(node.left))
                    return Said((), tuple(bounds), (one, other), span)
        self.misplaced(part)
        return None

    def misplaced(self, node: exp.Expr) -> None:
        for call in node.find_all(exp.Anonymous):
            if self.is_call(call):
                self.found.append(
                    Diagnostic(
                        f"{call.name.lower()}() is part of the pattern, and this makes a value of it",
                        span_of(call),
                        "AND joins before(x, y), and elapsed(x, y) < 5 with <, <=, >, >=, = or BETWEEN, to other "
                        "conditions; alternatives stand in the pattern: OR(p WHERE …, q WHERE …)",
                    )
                )

    def is_elapsed(self, node: exp.Expr) -> bool:
        node = scalars.unparenthesised(node)
        return isinstance(node, exp.Anonymous) and node.name.lower() == ELAPSED and self.is_call(node)

    def is_call(self, node: exp.Anonymous) -> bool:
        """Whether one of the two functions is asked of variables; of values, it is one of Spark's."""
        return is_call(node) and any(each.name.lower() in self.names for each in node.expressions)

    def variables(self, call: exp.Expr) -> tuple[str, str]:
        for each in call.expressions:
            if each.name.lower() not in self.names:
                help = did_you_mean(each.name, self.names.values(), "the pattern has")
                self.found.append(Diagnostic(f"unknown variable {each.name}", span_of(each), help))
        one, other = (self.names.get(each.name.lower(), each.name) for each in call.expressions)
        if one == other:
            message = f"{one} is one event: it cannot be compared with itself"
            self.found.append(Diagnostic(message, span_of(call), "compare the times of two variables"))
        return one, other

    def ticks(self, node: exp.Expr) -> int:
        """A length of time; 0, and a word on it, if it is none."""
        inner = scalars.unparenthesised(node)
        sign = 1
        if isinstance(inner, exp.Neg):
            sign, inner = -1, scalars.unparenthesised(inner.this)
        length: int | None = None
        match inner:
            case Parameter():
                value = given(Name(inner.this.name, span_of(inner)), self.parameters)
                if isinstance(value, Duration):
                    known = window(value.parts, value.span, self.column, self.kind)
                    if isinstance(known, Diagnostic):
                        self.found.append(known)
                        return 0
                    length = known.ticks
            case exp.Literal(is_string=False) if self.kind == "integer" and inner.this.isdecimal():
                length = int(inner.this)
            case exp.Interval() if self.kind == "timestamp":
                length = ticks_of(inner)
        if length is None:
            unit = "a whole number" if self.kind == "integer" else "a length of time with a unit"
            example = "5" if self.kind == "integer" else "5 minutes"
            self.found.append(
                Diagnostic(
                    f"the time between two events is compared with {unit}",
                    span_of(node),
                    f"write elapsed(x, y) < {example}",
                )
            )
            return 0
        if length > LONGEST[self.kind]:
            message = "this length of time is too long"
            self.found.append(Diagnostic(message, span_of(node), f"the longest is {longest(self.kind)}"))
            return 0
        return sign * length


def is_call(node: exp.Anonymous) -> bool:
    return (
        node.name.lower() in (BEFORE, ELAPSED)
        and len(node.expressions) == 2
        and all(isinstance(each, exp.Column) and not each.table for each in node.expressions)
    )


def bare(where: exp.Expr) -> Iterator[exp.Literal]:
    """Lengths of time without a unit."""
    for call in where.find_all(exp.Anonymous):
        parent = call.parent
        if is_call(call) and isinstance(parent, exp.Predicate):
            yield from (each for each in parent.iter_expressions() if isinstance(each, exp.Literal))


def _bounds(comparison: type[exp.Expr], one: str, other: str, ticks: int) -> Iterator[Apart]:
    """Of `elapsed(one, other) < ticks`, and so on. Ticks are whole: `<= 5` is `< 6`."""
    if comparison in (exp.LT, exp.LTE, exp.EQ):
        yield Apart(one, other, ticks + (comparison is not exp.LT))
    if comparison in (exp.GT, exp.GTE, exp.EQ):
        yield Apart(other, one, (comparison is not exp.GT) - ticks)


_TURNED: Mapping[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}
