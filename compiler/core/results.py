"""Aggregates over what is in results: `avg+(y.speed)`, in VDMS-PQ `avg(y.speed)`.

Over the distinct events that are bound to the variable in results whose last event is before that of the candidate, and
less than a window old. So candidates are decided moment by moment, in the order of their last events, behind all else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.arrivals import result_type
from sase.compiler.core.bound import Branch, Derived, Earliest, Output, Predicate, Reported, Variable
from sase.compiler.core.errors import Diagnostic, Span
from sase.compiler.core.missing import Missing
from sase.compiler.core.scalars import Family, family
from sase.compiler.core.spans import at, span_of


class Results(exp.Expression, exp.Condition):
    """`this` is what is aggregated, an attribute of a variable: of its events in results."""

    arg_types = {"this": True, "kind": True}  # noqa: RUF012  (sqlglot's own convention)


class Ordering:
    """Takes the parts of WHERE out that depend on earlier results, and names the aggregates of RETURN."""

    def __init__(self, variables: Iterable[Variable]) -> None:
        self.variables = {variable.name: variable for variable in variables}
        self.found: list[Diagnostic] = []
        self.reported: dict[str, Reported] = {}
        self.span: Span | None = None
        """Of the first aggregate."""
        self.parts: list[exp.Expr] = []

    def apart(self, where: Iterable[exp.Expr]) -> list[exp.Expr]:
        """The parts that are decided without them."""
        rest = []
        for part in where:
            if part.find(Results):
                self.parts.append(part.transform(self._visit, copy=True))
            else:
                rest.append(part)
        return rest

    def output(self, output: Output) -> Output:
        if not output.value.find(Results):
            return output
        return replace(output, value=output.value.transform(self._visit, copy=True))

    def _visit(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, Results):
            return node
        span, kind = span_of(node), node.args["kind"]
        self.span = self.span or span
        column = scalars.unparenthesised(node.this)
        if not isinstance(column, exp.Column):
            return self._wrong(node, f"{kind} of results is of an attribute, and this is none", None)
        of = column.type or scalars.UNKNOWN
        if family(of) not in (Family.NUMBER, Family.ANY) and kind != "count":
            return self._wrong(node, f"{kind} is of numbers, and {scalars.sql(column)} is {scalars.a_type(of)}", None)
        name = f"{kind}+({column.table}.{column.name})"
        result = result_type(kind, of)
        self.reported[name] = Reported(name, kind, column.table, column.name, result)
        told = scalars.Told(this=name)
        told.type = scalars.data_type(result)
        return at(told, span)

    def _wrong(self, node: Results, what: str, help: str | None) -> exp.Expr:
        """Says so; a number stands in its place, so that nothing else is wrong with it."""
        self.found.append(Diagnostic(what, span_of(node), help))
        return at(exp.Literal.number(0), span_of(node))

    # ---- what it cannot be used with ------------------------------------------------------------

    def decided(self, branches: Sequence[Branch], missing: Missing, type_column: str) -> tuple[Predicate, ...]:
        """The parts, checked."""
        predicates = []
        for part in self.parts:
            condition = scalars.unparenthesised(part)
            mistakes: list[Diagnostic] = []
            scalars.check_condition(condition, mistakes)
            self.found += mistakes or [*_wrong_part(condition, branches)]
            predicates.append(Predicate(missing(condition, type_column), None, span_of(part)))
        return tuple(predicates)

    def wrong_pattern(
        self, branches: Sequence[Branch], arrays: Mapping[str, Sequence[str]], stuck: bool
    ) -> Iterator[Diagnostic]:
        """`arrays` has the variables of single events that a repeated one stands for."""
        if self.span is None:
            return
        if stuck:
            yield Diagnostic(
                "this is over earlier results, and what has timed out is certain only at the end of its window",
                self.span,
                "leave TIMED OUT out",
            )
        elif any(isinstance(branch.instant, Earliest | Derived) for branch in branches):
            yield Diagnostic(
                "this is over earlier results, and these are certain only at the end of their window",
                self.span,
                "leave out what no event closes: a component that stands last under NOT or ALL, or NOT beside AND",
            )
        bound = {name for branch in branches for name in branch.variables}
        asked = [each.variable for each in self.reported.values()]
        for name, elements in arrays.items():
            if not set(asked).isdisjoint(elements):
                yield Diagnostic(
                    f"{name} is several events, and this is over the one that a result has of a variable",
                    self.span,
                    "write them out: SEQ(A a1, A a2, …)",
                )
        for variable in asked:
            if variable not in bound and not stuck:
                yield Diagnostic(f"no result has an event of {variable}", self.span, "aggregate a positive component")


def _wrong_part(condition: exp.Expr, branches: Sequence[Branch]) -> Iterator[Diagnostic]:
    for name in sorted(scalars.variables(condition)):
        if not all(name in branch.variables for branch in branches):
            yield Diagnostic(
                f"this part of WHERE depends on earlier results, and not every match has an event of {name}",
                span_of(condition),
                "it may speak of positive variables that stand outside of OR",
            )
            return
    unknown = _unknown(condition)
    if unknown is not None:
        yield Diagnostic(
            "a part of WHERE that depends on earlier results is decided one by one, and this cannot be computed there",
            span_of(unknown),
            "comparisons, AND, OR, NOT, IS NULL, + - * / and coalesce can, and any expression of a single event",
        )


def _unknown(node: exp.Expr) -> exp.Expr | None:
    """The first part that no worker knows to compute, and that is not of a single event, either."""
    if isinstance(node, scalars.Told | exp.Null) or not (node.find(scalars.Told) or len(scalars.variables(node)) > 1):
        return None
    if not is_operation(node):
        return node
    children = (child for child in node.iter_expressions())
    return next((found for child in children if (found := _unknown(child)) is not None), None)


def is_operation(node: exp.Expr) -> bool:
    """What a worker knows to compute."""
    match node:
        case exp.Anonymous():
            return str(node.name).lower() == "coalesce"
        case exp.And() | exp.Or() | exp.Not() | exp.Paren() | exp.Is() | exp.Neg():
            return True
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return True
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return True
    return False
