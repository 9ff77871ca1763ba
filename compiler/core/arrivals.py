"""Aggregates over all that has arrived: `avg*(y.speed)`, whatever the keys of the events.

As of the last event of a match, and so a column of that event, which is computed before any pattern is looked for.
Where several events may be the last, all of them have the column, and the latest event of a match has the one that
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import Arrival, Attribute, BoundQuery, Branch, Group, Output, Predicate, Variable
from sase.compiler.core.errors import Diagnostic
from sase.compiler.core.pattern import Shape
from sase.compiler.core.scalars import Family, family
from sase.compiler.core.spans import at, span_of

KINDS = ("avg", "sum", "count", "min", "max")


class Arrivals(exp.Expression, exp.Condition):
    """`this` is what is aggregated, an attribute of a variable: of all events of its types that declare it."""

    arg_types = {"this": True, "kind": True}  # noqa: RUF012  (sqlglot's own convention)


class Lowering:
    """Replaces the aggregates of conditions and outputs by columns of the last event.

    `last` are the variables that may hold it, none if it is not known; `place` has the columns that order events.
    """

    def __init__(self, variables: Iterable[Variable], last: Sequence[str], place: Sequence[str]) -> None:
        self.variables = {variable.name: variable for variable in variables}
        self.last = last
        self.place = place
        self.found: list[Diagnostic] = []
        self.arrivals: dict[str, Arrival] = {}

    def condition(self, node: exp.Expr) -> exp.Expr:
        return node.transform(self._visit, copy=True) if node.find(Arrivals) else node

    def output(self, output: Output) -> Output:
        return replace(output, value=self.condition(output.value))

    def known(self) -> list[Variable]:
        """The variables, those that may be the last with the columns that are computed for them."""
        columns = {
            name.lower(): Attribute(name, scalars.data_type(each.result), (), computed=True)
            for name, each in self.arrivals.items()
        }
        return [
            replace(variable, attributes={**variable.attributes, **columns}) if variable.name in self.last else variable
            for variable in self.variables.values()
        ]

    def _visit(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, Arrivals):
            return node
        span = span_of(node)
        if not self.last:
            return self._wrong(node, "is as of the last event, to which a sequence that got stuck has not come", None)
        column = scalars.unparenthesised(node.this)
        if not isinstance(column, exp.Column):
            return self._wrong(node, "is of an attribute, and this is none", "write it as avg*(y.speed)")
        kind = column.type or scalars.UNKNOWN
        if family(kind) not in (Family.NUMBER, Family.ANY) and node.args["kind"] != "count":
            return self._wrong(node, f"is of numbers, and {scalars.sql(column)} is {scalars.a_type(kind)}", None)
        lacking = column.meta.get("lacking", ())
        types = tuple(name for name in self.variables[column.table].types if name not in lacking)
        name = f"{node.args['kind']}*({column.table}.{column.name})"
        result = result_type(node.args["kind"], kind)
        self.arrivals[name] = Arrival(name, node.args["kind"], column.table, column.name, types, result)
        if len(self.last) == 1:
            return at(_column(self.last[0], name, scalars.data_type(result)), span)
        columns = []
        for variable in self.last:
            known = self.variables[variable].attributes
            place = (known[each.lower()] for each in self.place if each.lower() in known)
            columns += [_column(variable, each.name, each.kind) for each in place]
            columns.append(_column(variable, name, scalars.data_type(result)))
        return at(scalars.Folded(this="latest", expressions=columns), span)

    def _wrong(self, node: Arrivals, what: str, help: str | None) -> exp.Expr:
        """Says so; a number stands in its place, so that nothing else is wrong with it."""
        self.found.append(Diagnostic(f"{node.args['kind']}* {what}", span_of(node), help))
        return at(exp.Literal.number(0), span_of(node))


def of_branch(condition: exp.Expr, branch: Branch) -> exp.Expr:
    """Only the last events of a branch are asked which of them is the latest; if there is one, it is a column of it."""
    if not any(fold.this == "latest" for fold in condition.find_all(scalars.Folded)):
        return condition
    last = last_of(branch)

    def visit(node: exp.Expr) -> exp.Expr:
        if not (isinstance(node, scalars.Folded) and node.this == "latest"):
            return node
        columns: list[exp.Column] = [column for column in node.expressions if column.table in last]
        if len(last) == 1:
            return at(columns[-1].copy(), span_of(node))
        return at(scalars.Folded(this="latest", expressions=[column.copy() for column in columns]), span_of(node))

    result: exp.Expr = condition.transform(visit, copy=True)
    return result


def last_of(branch: Branch | Shape) -> tuple[str, ...]:
    """The variables whose event may be the latest."""
    earlier = {one for one, _ in branch.before}
    return tuple(name for name in branch.variables if name not in earlier)


def on_whole_matches(query: BoundQuery) -> BoundQuery:
    """Of a stream: the columns are known when an event is released, so that nothing can be asked of them before."""
    names = {arrival.name for arrival in query.arrivals}

    def visit(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in names and not isinstance(node.parent, scalars.Folded):
            return at(scalars.Folded(this="latest", expressions=[node.copy()]), span_of(node))
        return node

    def late(parts: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
        return tuple(replace(part, condition=part.condition.transform(visit, copy=True)) for part in parts)

    def of_group(group: Group) -> Group:
        return replace(group, predicates=late(group.predicates), groups=tuple(map(of_group, group.groups)))

    branches = (
        replace(branch, predicates=late(branch.predicates), groups=tuple(map(of_group, branch.groups)))
        for branch in query.branches
    )
    return replace(query, branches=tuple(branches))


def _column(variable: str, name: str, kind: exp.DataType) -> exp.Column:
    column = exp.Column(this=exp.Identifier(this=name, quoted=True), table=exp.Identifier(this=variable, quoted=True))
    column.type = kind
    column.meta["computed"] = True
    return column


def result_type(kind: str, of: exp.DataType) -> str:
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
