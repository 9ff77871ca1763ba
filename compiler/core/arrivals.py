"""Aggregates over all that has arrived: `avg*(y.speed)`, whatever the keys of the events.

As of the last event of a match, and so a column of that event, which is computed before any pattern is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import Arrival, Attribute, Output, Variable
from sase.compiler.core.errors import Diagnostic
from sase.compiler.core.scalars import Family, family
from sase.compiler.core.spans import at, span_of

KINDS = ("avg", "sum", "count", "min", "max")


class Arrivals(exp.Expression, exp.Condition):
    """`this` is what is aggregated, an attribute of a variable: of all events of its types that declare it."""

    arg_types = {"this": True, "kind": True}  # noqa: RUF012  (sqlglot's own convention)


class Lowering:
    """Replaces the aggregates of conditions and outputs by columns of the last event."""

    def __init__(self, variables: Iterable[Variable], last: str | None) -> None:
        self.variables = {variable.name: variable for variable in variables}
        self.last = last
        self.found: list[Diagnostic] = []
        self.arrivals: dict[str, Arrival] = {}

    def condition(self, node: exp.Expr) -> exp.Expr:
        return node.transform(self._visit, copy=True) if node.find(Arrivals) else node

    def output(self, output: Output) -> Output:
        return replace(output, value=self.condition(output.value))

    def known(self) -> list[Variable]:
        """The variables, the last one with the columns that are computed for it."""
        columns = {
            name.lower(): Attribute(name, scalars.data_type(each.result), (), computed=True)
            for name, each in self.arrivals.items()
        }
        return [
            replace(variable, attributes={**variable.attributes, **columns}) if variable.name == self.last else variable
            for variable in self.variables.values()
        ]

    def _visit(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, Arrivals):
            return node
        span = span_of(node)
        if self.last is None:
            return self._wrong(
                node, "is as of the last event, and here several may be the last", "use it in a sequence"
            )
        column = scalars.unparenthesised(node.this)
        if not isinstance(column, exp.Column):
            return self._wrong(node, "is of an attribute, and this is none", "write it as avg*(y.speed)")
        kind = column.type or scalars.UNKNOWN
        if family(kind) not in (Family.NUMBER, Family.ANY) and node.args["kind"] != "count":
            return self._wrong(node, f"is of numbers, and {scalars.sql(column)} is {scalars.a_type(kind)}", None)
        lacking = column.meta.get("lacking", ())
        types = tuple(name for name in self.variables[column.table].types if name not in lacking)
        name = f"{node.args['kind']}*({column.table}.{column.name})"
        result = _result(node.args["kind"], kind)
        self.arrivals[name] = Arrival(name, node.args["kind"], column.table, column.name, types, result)
        computed = exp.Column(
            this=exp.Identifier(this=name, quoted=True), table=exp.Identifier(this=self.last, quoted=True)
        )
        computed.type = scalars.data_type(result)
        return at(computed, span)

    def _wrong(self, node: Arrivals, what: str, help: str | None) -> exp.Expr:
        """Says so; a number stands in its place, so that nothing else is wrong with it."""
        self.found.append(Diagnostic(f"{node.args['kind']}* {what}", span_of(node), help))
        return at(exp.Literal.number(0), span_of(node))


def _result(kind: str, of: exp.DataType) -> str:
    """The Spark type: sums of integers must fit into 64 bits, and an average is a double."""
    match kind:
        case "count":
            return "bigint"
        case "avg":
            return "double"
        case _ if scalars.is_float(of):
            return "double"
        case "sum":
            return "bigint" if scalars.is_integer(of) else f"decimal(38,{_scale(of)})"
        case _:
            return scalars.type_sql(of)


def _scale(kind: exp.DataType) -> str:
    sizes = kind.expressions
    return str(sizes[1].this) if len(sizes) > 1 else "0"
