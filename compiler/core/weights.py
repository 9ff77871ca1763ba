"""Uncertain events: `probability()` of a match, where a column `prob` says how likely each event is.

With it, a negated component whose events are uncertain does not forbid a match but weighs it: the match is as likely as
all its events together with none of those that could be added. Events are taken to be independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import Output, Variable
from sase.compiler.core.errors import Diagnostic
from sase.compiler.core.pattern import Added, Shape, Shapes
from sase.compiler.core.scalars import Family, family
from sase.compiler.core.spans import at, span_of

COLUMN = "prob"
FUNCTION = "probability"


def is_asked(nodes: Iterable[exp.Expr]) -> bool:
    return any(_is_call(part) for node in nodes for part in node.find_all(exp.Anonymous))


class Weighing:
    """Replaces `probability()` by the product, and makes groups of what is negated that are weighed."""

    def __init__(self, variables: Iterable[Variable], shapes: Shapes, time: str) -> None:
        self.variables = {variable.name: variable for variable in variables}
        self.time = time
        self.found: list[Diagnostic] = [
            mistake for variable in self.variables.values() for mistake in _wrong_column(variable)
        ]
        self.shapes = tuple(self.weighed(shape) for shape in shapes)
        self.found += _either_way(self.shapes)

    def weighed(self, shape: Shape) -> Shape:
        groups = tuple(map(self.group, shape.groups))
        weighed = [group for group in groups if group.fold == "weigh"]
        self.found += [
            Diagnostic(
                "an event could be added here and as another negated component, and would be weighed twice",
                other.span,
                "make one component of them, with ANY and OR",
            )
            for one, other in combinations(weighed, 2)
            if self.share_types(one, other) and not _apart(one, other)
        ]
        return replace(shape, groups=groups)

    def group(self, group: Added) -> Added:
        if group.fold != "none" or not any(self.is_uncertain(name) for name in group.names):
            return group
        if len(group.names) > 1:
            self.found.append(
                Diagnostic(
                    f"{FUNCTION}() weighs single events, and this negates several together",
                    group.span,
                    "negate each of them alone",
                )
            )
        return replace(group, fold="weigh")

    def is_uncertain(self, name: str) -> bool:
        return COLUMN in self.variables[name].attributes

    def share_types(self, one: Added, other: Added) -> bool:
        types = [{kind for name in group.names for kind in self.variables[name].types} for group in (one, other)]
        return not types[0].isdisjoint(types[1])

    def condition(self, node: exp.Expr) -> exp.Expr:
        return node.transform(self._visit, copy=True) if is_asked([node]) else node

    def output(self, output: Output) -> Output:
        return replace(output, value=self.condition(output.value))

    def _visit(self, node: exp.Expr) -> exp.Expr:
        if not _is_call(node):
            return node
        span = span_of(node)
        positive = dict.fromkeys(name for shape in self.shapes for name in shape.variables)
        groups = (group for shape in self.shapes for group in shape.groups if group.fold == "weigh")
        weighed = dict.fromkeys(name for group in groups for name in group.variables if name not in positive)
        columns, times = [], []
        for name in (*positive, *weighed):
            if self.is_uncertain(name):
                column = _column(name, self.variables[name], COLUMN)
                time = _column(name, self.variables[name], self.time.lower())
                column.meta["weighed"] = time.meta["weighed"] = name in weighed
                columns.append(column)
                times.append(time)
        if not columns:
            self.found.append(
                Diagnostic(
                    f"no event of this pattern declares {COLUMN}, so that every match is certain",
                    span,
                    f"{FUNCTION}() is the product of a column {COLUMN}, a number between 0 and 1",
                )
            )
            return at(exp.Literal.number(1), span)
        always = all(set(shape.variables) >= set(positive) for shape in self.shapes)
        folded = scalars.Folded(this=FUNCTION, expressions=columns)
        if not always or len(self.shapes) > 1:
            folded.set("times", times)
        return at(folded, span)


def _is_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and not node.expressions and node.name.lower() == FUNCTION


def _wrong_column(variable: Variable) -> Iterator[Diagnostic]:
    known = variable.attributes.get(COLUMN)
    if known is None:
        return
    if family(known.kind) not in (Family.NUMBER, Family.ANY):
        yield Diagnostic(
            f"{COLUMN} is {scalars.a_type(known.kind)}, and a probability is a number", variable.span, None
        )
    if known.lacking:
        yield Diagnostic(
            f"some of these events are uncertain, and {' and '.join(known.lacking)} declares no {COLUMN}",
            variable.span,
            "give all types of a component the column, or none",
        )


def _either_way(shapes: Shapes) -> Iterator[Diagnostic]:
    """The same events in the same variables are one match, by whichever alternative. It is there unless all of these
    fail, and that is no product any more."""
    for one, other in combinations(shapes, 2):
        weighed = [group for shape in (one, other) for group in shape.groups if group.fold == "weigh"]
        if weighed and set(one.variables) == set(other.variables):
            yield Diagnostic(
                "two alternatives of OR have the same events here, so that a match may be there by either, and what "
                "weighs one of them does not weigh the match",
                weighed[0].span,
                "give the alternatives variables of their own: each is then a match with its own probability",
            )
            return


def _apart(one: Added, other: Added) -> bool:
    """Whether an event of the match is between them."""
    orders: list[Mapping[str, set[str]]] = []
    for group in (one, other):
        (name,) = group.variables[:1]
        orders.append(
            {
                "before": {earlier for earlier, later in group.before if later == name},
                "after": {later for earlier, later in group.before if earlier == name},
            }
        )
    first, second = orders
    return bool(first["after"] & second["before"] or second["after"] & first["before"])


def _column(variable: str, of: Variable, name: str) -> exp.Column:
    known = of.attributes[name]
    column = exp.Column(
        this=exp.Identifier(this=known.name, quoted=True), table=exp.Identifier(this=variable, quoted=True)
    )
    column.type = known.kind
    return column
