"""Syntax tree + catalog → bound query. Collects every error it can find before it gives up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

from sqlglot import exp

from sase.compiler.core import durations, scalars
from sase.compiler.core.assemble import assemble
from sase.compiler.core.bound import BoundQuery, Output, TimeKind, Variable, Window
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import Diagnostic, Span, did_you_mean
from sase.compiler.core.names import resolve
from sase.compiler.core.schema import attributes, time_kind, time_type
from sase.compiler.core.spans import at, span_of
from sase.compiler.core.windows import window
from sase.compiler.languages.sase.syntax import Component, Duration, Equivalence, Name, Query


def bind(query: Query, catalog: Catalog) -> BoundQuery:
    return _Binder(query, catalog).bind()


class _Binder:
    def __init__(self, query: Query, catalog: Catalog) -> None:
        self.query = query
        self.catalog = catalog
        self.found: list[Diagnostic] = []
        self.variables: list[Variable] = []
        self.unknown_types: set[str] = set()

    def bind(self) -> BoundQuery:
        length = self.window_length()
        bare = isinstance(length, Duration) and all(unit is None for _, unit in length.parts)
        time = time_type(self.catalog, bare)
        kind = time_kind(self.catalog, time)
        self.bind_pattern(time)
        returns = self.query.returns
        return assemble(
            self.query.text,
            self.query.filename,
            self.catalog,
            stream=self.query.stream,
            span=self.query.span,
            time_kind=kind,
            variables=self.variables,
            where=list(self.conditions()),
            within=self.window(length, kind),
            returns=None if returns is None else list(self.outputs()),
            composite=returns.composite.text if returns and returns.composite else None,
            found=self.found,
        )

    def error(self, message: str, span: Span, help: str | None = None) -> None:
        self.found.append(Diagnostic(message, span, help))

    # ---- EVENT ----------------------------------------------------------------------------------

    def bind_pattern(self, time: exp.DataType) -> None:
        taken: dict[str, Component] = {}
        for component in self.query.components:
            self.check_types(component)
            if component.variable is not None:
                self.check_variable(component, component.variable, taken)
        for component in self.query.components:
            name = component.variable.text if component.variable else self.default_name(component, taken)
            named = self.catalog.types or () if component.every else (part.text for part in component.types)
            types = tuple(dict.fromkeys(named))
            declared = attributes(types, self.catalog, time, component.span, self.found)
            self.variables.append(Variable(name, types, component.negated, declared, component.span))

    def check_types(self, component: Component) -> None:
        types = self.catalog.types
        seen: set[str] = set()
        for name in component.types:
            if types is not None and name.text not in types:
                if name.text not in self.unknown_types:
                    self.error(
                        f"unknown event type {name.text}",
                        name.span,
                        did_you_mean(name.text, types, "the catalog has"),
                    )
                self.unknown_types.add(name.text)
            elif name.text in seen:
                self.error(f"{name.text} stands twice in this ANY", name.span, "remove one of them")
            seen.add(name.text)

    def check_variable(self, component: Component, variable: Name, taken: dict[str, Component]) -> None:
        first = taken.setdefault(variable.text.lower(), component)
        if first is not component:
            self.error(
                f"the variable {variable.text} is used twice",
                variable.span,
                f"{self.query.text[first.span.start : first.span.end]} has it already",
            )
        if self.query.returns is None and variable.text.lower() in ("started_at", "detected_at"):
            self.error(
                f"{variable.text} is a column of the result", variable.span, "choose another name for the variable"
            )

    def default_name(self, component: Component, taken: dict[str, Component]) -> str:
        """That of its type: `SHELF-READING` is `shelf_reading`, and the next one `shelf_reading_2`."""
        stem = "" if component.every else re.sub(r"\W+", "_", component.types[0].text.lower()).strip("_")
        stem = stem or "event"
        name, count = stem, 1
        while name.lower() in taken:
            count += 1
            name = f"{stem}_{count}"
        taken[name.lower()] = component
        return name

    # ---- WITHIN ---------------------------------------------------------------------------------

    def window_length(self) -> Duration | Name | None:
        """WITHIN's duration, with a parameter replaced by its value; a Name has none."""
        within = self.query.within
        if not isinstance(within, Name):
            return within
        value = self.catalog.parameters.get(within.text)
        match value:
            case bool():
                return within
            case int():
                return Duration(((str(value), None),), within.span)
            case timedelta():
                return Duration(((str(value // timedelta(microseconds=1)), "microseconds"),), within.span)
            case str() if parts := durations.parse(value):
                return Duration(parts, within.span)
            case _:
                return within

    def window(self, length: Duration | Name | None, kind: TimeKind) -> Window | Diagnostic | None:
        match length:
            case None:
                return None
            case Duration():
                return window(length.parts, length.span, self.catalog.time, kind)
            case Name():
                given = self.catalog.parameters.get(length.text)
                missing = f"{length.text} has no value"
                return Diagnostic(
                    missing if given is None else f"{length.text} is {given!r}, not a length of time",
                    length.span,
                    f"give it one: --param {length.text}='12 hours', or [parameters] in the catalog",
                )

    # ---- names ----------------------------------------------------------------------------------

    def resolve(self, node: exp.Expr) -> exp.Expr | None:
        """None where a name has no meaning. What one place in the text stands for, as in `[id]`, is reported once."""
        before = len(self.found)
        found: list[Diagnostic] = []
        bound = resolve(node, self.variable_of, self.catalog, found)
        self.found += {mistake.span: mistake for mistake in reversed(found)}.values()
        return bound if len(self.found) == before else None

    def variable_of(self, node: exp.Column) -> Variable | None:
        name, span = node.name, span_of(node)
        if node.table:
            for variable in self.variables:
                if variable.name.lower() == node.table.lower():
                    return variable
            named = [variable.name for variable in self.variables if node.table in variable.types]
            having = [variable.name for variable in self.variables if node.table.lower() in variable.attributes]
            if named:
                help = f"{node.table} is an event type; its variable is {named[0]}"
            elif having:
                help = f"{node.table} is an attribute: write {having[0]}.{node.table}.{name}"
            else:
                help = did_you_mean(node.table, (variable.name for variable in self.variables), "the pattern has")
            self.error(f"unknown variable {node.table}", span_of(node.args["table"]), help)
            return None
        namesake = next((known for known in self.variables if known.name.lower() == name.lower()), None)
        if namesake is not None and not any(name.lower() in known.attributes for known in self.variables):
            attribute = next(iter(namesake.attributes.values())).name
            self.error(f"{name} is a variable, and a value is needed here", span, f"write {name}.{attribute}, for one")
            return None
        if len(self.variables) == 1:
            return self.variables[0]
        declaring = [variable for variable in self.variables if name.lower() in variable.attributes]
        positive = [variable for variable in declaring if not variable.negated]
        candidates = positive or declaring
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            choices = " or ".join(f"{variable.name}.{name}" for variable in candidates)
            self.error(f"{name} could be of several variables", span, f"write {choices}, or [{name}] for all of them")
            return None
        known = {attribute.name for variable in self.variables for attribute in variable.attributes.values()}
        self.error(f"no event type of the pattern declares {name}", span, did_you_mean(name, known, "declared are"))
        return None

    # ---- WHERE ----------------------------------------------------------------------------------

    def conditions(self) -> Iterator[exp.Expr]:
        if self.query.where is None:
            return
        for part in scalars.conjuncts(self.query.where):
            for expanded in self.expand(part):
                condition = self.resolve(expanded)
                if condition is None:
                    break  # the other pairs of an equivalence test would say the same
                yield condition

    def expand(self, part: exp.Expr) -> list[exp.Expr]:
        """`[id]` at the top is one equality per pair of components; deeper down, only over positive components."""
        if isinstance(part, Equivalence):
            return self.equalities(part)
        tests = list(part.find_all(Equivalence))
        if not tests:
            return [part]
        expanded = part.copy()
        for test in list(expanded.find_all(Equivalence)):
            name = test.attribute.name
            if any(variable.negated and name.lower() in variable.attributes for variable in self.variables):
                self.error(
                    f"[{name}] speaks of negated components, too, and cannot stand under OR or NOT",
                    span_of(test),
                    "write the comparison of the positive variables in full",
                )
                return []
            equalities = self.equalities(test)
            joined = scalars.conjunction(equalities) if equalities else exp.Boolean(this=True)
            test.replace(at(exp.Paren(this=joined), span_of(test)))
        return [expanded]

    def equalities(self, test: Equivalence) -> list[exp.Expr]:
        name, span = test.attribute.name, span_of(test)
        declaring = [
            variable for variable in self.variables if self.catalog.types is None or name.lower() in variable.attributes
        ]
        if not declaring and any(variable.name.lower() == name.lower() for variable in self.variables):
            attribute = test.this.expression.name if isinstance(test.this, exp.Dot) else self.catalog.time
            self.error(
                f"{name} is a variable, and [ ] is about all of them",
                span,
                f"[{attribute}] compares {attribute} between all events of a match that have it",
            )
            return []
        if not declaring:
            known = {attribute.name for variable in self.variables for attribute in variable.attributes.values()}
            self.error(f"no event type of the pattern declares {name}", span, did_you_mean(name, known, "declared are"))
            return []

        def of(variable: Variable) -> exp.Expr:
            column = exp.Column(
                this=at(exp.Identifier(this=name, quoted=True), span),
                table=at(exp.Identifier(this=variable.name, quoted=True), span),
            )
            return test.of(at(column, span))

        value = test.args.get("value")
        if value is not None:
            # Equal to one value, so equal to each other: no pairs are needed.
            return [at(exp.EQ(this=of(variable), expression=value.copy()), span) for variable in declaring]
        if len(declaring) > 1 and all(variable.negated for variable in declaring):
            self.error(
                f"only negated components declare {name}, and two of them cannot be compared with each other",
                span,
                "compare each with a positive variable",
            )
            return []
        return [
            at(exp.EQ(this=of(left), expression=of(right)), span)
            for index, left in enumerate(declaring)
            for right in declaring[index + 1 :]
            if not (left.negated and right.negated)
        ]

    # ---- RETURN ---------------------------------------------------------------------------------

    def outputs(self) -> Iterator[Output]:
        returns = self.query.returns
        assert returns is not None
        if not returns.items:
            self.error("a composite event needs attributes", returns.span, "write RETURN Alert(x.id, z.ts AS left_at)")
        for item in returns.items:
            if any(item.expression.find_all(Equivalence)):
                self.error("an equivalence test has no value to return", item.span, "return an attribute, such as x.id")
                continue
            if isinstance(item.expression.this, exp.Star):
                yield from self.everything(item.expression, item.span)
                continue
            value = self.resolve(item.expression)
            if value is None:
                continue
            if item.alias is not None:
                yield Output(item.alias.text, value, item.span)
            elif isinstance(value, exp.Column):
                yield Output(value.name, value, item.span)
            elif isinstance(value, exp.Dot):
                yield Output(value.expression.name, value, item.span)
            else:
                self.error(
                    "this column of the result has no name", item.span, "add one with AS, such as z.ts - x.ts AS took"
                )

    def everything(self, node: exp.Expr, span: Span) -> Iterator[Output]:
        """`x.*`: the attributes of a variable, as the catalog lists them."""
        assert isinstance(node, exp.Column)
        variable = self.variable_of(node)
        if variable is None:
            return
        if self.catalog.types is None:
            self.error(f"nothing is known of the attributes of {variable.name}", span, "give a catalog")
        for attribute in variable.attributes.values():
            name = at(exp.Identifier(this=attribute.name, quoted=True), span)
            value = self.resolve(at(exp.Column(this=name, table=node.args["table"].copy()), span))
            if value is not None:
                yield Output(attribute.name, value, span)
