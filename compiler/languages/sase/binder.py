"""Syntax tree + catalog → bound query. Collects every error it can find before it gives up."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Literal

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import Attribute, BoundQuery, Output, Predicate, Variable, Window
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.durations import DAY, UNITS, microseconds, spelled
from sase.compiler.core.equivalence import equivalence_tests
from sase.compiler.core.errors import CatalogError, Diagnostic, SaseError, Span, did_you_mean
from sase.compiler.core.scalars import Family, family
from sase.compiler.core.spans import at, span_of
from sase.compiler.languages.sase.parser import parse_duration, unknown_unit
from sase.compiler.languages.sase.syntax import Component, Duration, Equivalence, Name, Parameter, Query

MOST_COMPONENTS = 60
"""State bits are the bits of one 64-bit integer."""


def bind(query: Query, catalog: Catalog) -> BoundQuery:
    return _Binder(query, catalog).bind()


class _Binder:
    def __init__(self, query: Query, catalog: Catalog) -> None:
        self.query = query
        self.catalog = catalog
        self.found: list[Diagnostic] = []
        self.variables: list[Variable] = []

    def bind(self) -> BoundQuery:
        self.bind_pattern()
        time_kind = self.time_kind()
        within = self.window(time_kind)
        parts = list(self.where_parts())
        returns = self.returns()
        if self.found:
            raise SaseError(self.found, self.query.text, self.query.filename)
        equivalences, predicates = equivalence_tests(parts, self.variables)
        return BoundQuery(
            text=self.query.text,
            filename=self.query.filename,
            stream=self.query.stream,
            time=self.catalog.time,
            type=self.catalog.type,
            order=self.catalog.order,
            time_kind=time_kind,
            variables=tuple(self.variables),
            predicates=predicates,
            equivalences=equivalences,
            within=within,
            returns=returns,
            composite=self.query.returns.composite.text
            if self.query.returns and self.query.returns.composite
            else None,
        )

    def error(self, message: str, span: Span, help: str | None = None) -> None:
        self.found.append(Diagnostic(message, span, help))

    # ---- EVENT ----------------------------------------------------------------------------------

    def bind_pattern(self) -> None:
        components = self.query.components
        taken: dict[str, Component] = {}
        for component in components:
            self.check_types(component)
            if component.variable is None:
                continue
            first = taken.setdefault(component.variable.text.lower(), component)
            if first is not component:
                self.error(
                    f"the variable {component.variable.text} is used twice",
                    component.variable.span,
                    f"{first.types[0].text} {first.variable.text if first.variable else ''} has it already",
                )
        for component in components:
            self.variables.append(self.bind_component(component, taken))
        if self.query.returns is None:
            for component, variable in zip(components, self.variables, strict=True):
                if variable.name.lower() in ("started_at", "detected_at"):
                    self.error(
                        f"{variable.name} is a column of the result",
                        component.variable.span if component.variable else component.span,
                        "choose another name for the variable",
                    )
        if all(component.negated for component in components):
            self.error(
                "every component of this pattern is negated, so there is no event to report",
                self.query.span,
                "add an event that must occur, such as SEQ(A x, !(B y))",
            )
        if len(components) > MOST_COMPONENTS:
            self.error(f"a pattern has at most {MOST_COMPONENTS} components", components[MOST_COMPONENTS].span)
        if self.query.within is None:
            for component, where in ((components[0], "first"), (components[-1], "last")):
                if component.negated and not all(part.negated for part in components):
                    self.error(
                        f"a negated component that stands {where} needs WITHIN: without a window, "
                        f"its {'past' if where == 'first' else 'future'} has no end",
                        component.span,
                        "add a window, such as WITHIN 12 hours",
                    )

    def check_types(self, component: Component) -> None:
        types = self.catalog.types
        seen: set[str] = set()
        for name in component.types:
            if types is not None and name.text not in types:
                self.error(
                    f"unknown event type {name.text}",
                    name.span,
                    did_you_mean(name.text, types, "the catalog has"),
                )
            elif name.text in seen:
                self.error(f"{name.text} stands twice in this ANY", name.span, "remove one of them")
            seen.add(name.text)

    def bind_component(self, component: Component, taken: dict[str, Component]) -> Variable:
        if component.variable is not None:
            name = component.variable.text
        else:
            stem = re.sub(r"\W+", "_", component.types[0].text.lower()).strip("_") or "event"
            name, count = stem, 1
            while name.lower() in taken:
                count += 1
                name = f"{stem}_{count}"
            taken[name.lower()] = component
        types = tuple(dict.fromkeys(part.text for part in component.types))
        return Variable(name, types, component.negated, self.attributes(component, types), component.span)

    def attributes(self, component: Component, types: tuple[str, ...]) -> Mapping[str, Attribute]:
        """Attributes by lower-case name, since names resolve as Spark's do."""
        schema = self.catalog.types or {}
        columns = {self.catalog.time, self.catalog.type} | ({self.catalog.order} if self.catalog.order else set())
        implicit = {column.lower() for column in columns}
        result: dict[str, Attribute] = {}
        kinds = {self.catalog.time: self.time_type(), self.catalog.type: exp.DataType.build("string", dialect="spark")}
        for column in (self.catalog.time, self.catalog.type, self.catalog.order):
            if column is not None:
                result[column.lower()] = Attribute(column, kinds.get(column) or self.declared_anywhere(column), ())
        for type_name in types:
            for attribute in schema.get(type_name, {}):
                if attribute.lower() in implicit:
                    continue
                kind = self.catalog.data_type(type_name, attribute)
                known = result.get(attribute.lower())
                if known is not None and (merged := scalars.wider(known.kind, kind)) is None:
                    self.error(
                        f"{attribute} is {scalars.a_type(known.kind)} in one of these types "
                        f"and {scalars.a_type(kind)} in {type_name}",
                        component.span,
                        "one variable's attribute has one type: use two patterns, or change the catalog",
                    )
                elif known is not None and merged is not None:
                    kind = merged
                lacking = tuple(
                    other for other in types if attribute.lower() not in map(str.lower, schema.get(other, {}))
                )
                result[attribute.lower()] = Attribute(known.name if known else attribute, kind, lacking)
        return result

    # ---- WITHIN ---------------------------------------------------------------------------------

    def declared_anywhere(self, column: str) -> exp.DataType:
        for type_name, attributes in (self.catalog.types or {}).items():
            for attribute in attributes:
                if attribute.lower() == column.lower():
                    return self.catalog.data_type(type_name, attribute)
        return scalars.UNKNOWN

    def time_type(self) -> exp.DataType:
        """As declared; where no type declares it, the window's units tell a timestamp from an integer."""
        declared = self.declared_anywhere(self.catalog.time)
        if declared is not scalars.UNKNOWN:
            return declared
        window = self.window_value()
        bare = isinstance(window, Duration) and all(unit is None for _, unit in window.parts)
        return scalars.BIGINT if bare else exp.DataType.build("timestamp", dialect="spark")

    def time_kind(self) -> Literal["timestamp", "integer"]:
        kind = self.time_type()
        if scalars.is_integer(kind):
            return "integer"
        if family(kind) is Family.DATETIME:
            return "timestamp"
        raise CatalogError(
            f"the time column {self.catalog.time} is {scalars.a_type(kind)}: "
            "it must be a timestamp, a date or an integer"
        )

    def window_value(self) -> Duration | Name | None:
        """WITHIN's duration, with a parameter replaced by its value; a Name has none."""
        within = self.query.within
        if not isinstance(within, Name):
            return within
        value = self.parameter(within.text)
        match value:
            case bool():
                return within
            case int():
                return Duration(((str(value), None),), within.span)
            case timedelta():
                return Duration(((str(value // timedelta(microseconds=1)), "microseconds"),), within.span)
            case str() if parsed := parse_duration(value):
                return Duration(parsed.parts, within.span)
            case _:
                return within

    def window(self, time_kind: Literal["timestamp", "integer"]) -> Window | None:
        value = self.window_value()
        match value:
            case None:
                return None
            case Name():
                given = self.parameter(value.text)
                self.error(
                    f"{value.text} has no value"
                    if given is None
                    else f"{value.text} is {given!r}, not a length of time",
                    value.span,
                    f"give it one: --param {value.text}='12 hours', or [parameters] in the catalog",
                )
                return None
            case Duration() if time_kind == "integer":
                return self.integer_window(value)
            case Duration():
                return self.time_window(value)

    def integer_window(self, value: Duration) -> Window | None:
        if any(unit is not None for _, unit in value.parts):
            self.error(
                f"the time column {self.catalog.time} is an integer and has no units",
                value.span,
                "write the bare length in its units, such as WITHIN 10000",
            )
            return None
        amount = value.parts[0][0]
        if not re.fullmatch(r"-?\d+", amount):
            self.error(
                "a window on an integer time column is a whole number",
                value.span,
                f"write WITHIN {round(float(amount))}",
            )
            return None
        return self.positive_window(Window(int(amount), amount), value.span)

    def time_window(self, value: Duration) -> Window | None:
        total = 0
        for amount, unit in value.parts:
            if unit is None:
                self.error(
                    f"a window on {self.catalog.time} needs a unit: it is a timestamp or a date",
                    value.span,
                    f"write WITHIN {amount} seconds, minutes, hours, days or weeks",
                )
                return None
            if unit.lower() not in UNITS:
                text = self.query.text[value.span.start : value.span.end]
                start = value.span.start + max(text.rfind(unit), 0)
                self.error(*unknown_unit(Name(unit, Span(start, start + len(unit)))))
                return None
            try:
                length = microseconds(amount, unit)
            except ValueError:
                self.error(f"{amount!r} is not a number of {unit}", value.span, "write INTERVAL '12' HOUR")
                return None
            if length.denominator != 1:
                self.error("a window is a whole number of microseconds", value.span)
                return None
            total += int(length)
        return self.positive_window(Window(total, spelled(total)), value.span)

    def positive_window(self, window: Window, span: Span) -> Window | None:
        if window.ticks <= 0:
            self.error(
                "a window must be longer than zero",
                span,
                "c.time - a.time < window is strict, so a window of zero holds nothing",
            )
            return None
        return window

    # ---- names ----------------------------------------------------------------------------------

    def parameter(self, name: str) -> object:
        return self.catalog.parameters.get(name)

    def resolve(self, node: exp.Expr) -> exp.Expr:
        """Columns get their variable, their declared spelling and their type; parameters become literals."""

        def visit(part: exp.Expr) -> exp.Expr:
            match part:
                case exp.Column():
                    return self.column(part)
                case Parameter():
                    return self.parameter_literal(part)
                case _:
                    return part

        return node.transform(visit, copy=True)

    def column(self, node: exp.Column) -> exp.Expr:
        name, span = node.name, span_of(node)
        variable = self.variable_of(node)
        if variable is None:
            return node
        attribute = variable.attributes.get(name.lower())
        if attribute is None:
            if self.catalog.types is not None:
                self.unknown_attribute(variable, node)
                return node
            attribute = Attribute(name, scalars.UNKNOWN, ())
        bound = at(
            exp.Column(
                this=exp.Identifier(this=attribute.name, quoted=True),
                table=exp.Identifier(this=variable.name, quoted=True),
            ),
            span,
        )
        bound.type = attribute.kind.copy()
        if attribute.lacking:
            bound.meta["lacking"] = attribute.lacking
        return bound

    def variable_of(self, node: exp.Column) -> Variable | None:
        name, span = node.name, span_of(node)
        if node.table:
            for variable in self.variables:
                if variable.name.lower() == node.table.lower():
                    return variable
            named = [variable.name for variable in self.variables if node.table in variable.types]
            self.error(
                f"unknown variable {node.table}",
                span_of(node.args["table"]),
                f"{node.table} is an event type; its variable is {named[0]}"
                if named
                else did_you_mean(node.table, (variable.name for variable in self.variables), "the pattern has"),
            )
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

    def unknown_attribute(self, variable: Variable, node: exp.Column) -> None:
        types = " or ".join(variable.types)
        known = (attribute.name for attribute in variable.attributes.values())
        self.error(
            f"{types} {variable.name} declares no attribute {node.name}",
            span_of(node.this) if node.table else span_of(node),
            did_you_mean(node.name, known, "declared are"),
        )

    def parameter_literal(self, node: Parameter) -> exp.Expr:
        name, span = node.this.name, span_of(node)
        if name not in self.catalog.parameters:
            self.error(
                f"the parameter {name} has no value",
                span,
                did_you_mean(name, self.catalog.parameters, "given are")
                or f"give it one: --param {name}=…, or [parameters] in the catalog",
            )
            return at(exp.Null(), span)
        literal = _literal(self.catalog.parameters[name])
        if literal is None:
            kind = type(self.catalog.parameters[name]).__name__
            self.error(
                f"the parameter {name} is a {kind}", span, "a number, a text, a boolean, a date or a time is needed"
            )
            return at(exp.Null(), span)
        for part in literal.walk():
            at(part, span)
        return literal

    # ---- WHERE ----------------------------------------------------------------------------------

    def where_parts(self) -> Iterator[Predicate]:
        if self.query.where is None:
            return
        for part in scalars.conjuncts(self.query.where):
            before = len(self.found)
            for expanded in self.expand(part):
                if len(self.found) > before:
                    break  # the other pairs of an equivalence test would say the same
                condition = self.resolve(expanded)
                if len(self.found) == before:
                    scalars.check_condition(condition, self.found)
                if len(self.found) == before:
                    predicate = self.predicate(_unwrapped(condition))
                    if predicate is not None:
                        yield predicate

    def expand(self, part: exp.Expr) -> list[exp.Expr]:
        """`[id]` at the top is one equality a pair of components; deeper down, only over positive components."""
        if isinstance(part, Equivalence):
            return self.equalities(part)
        tests = list(part.find_all(Equivalence))
        if not tests:
            return [part]
        expanded = part.copy()
        for test in list(expanded.find_all(Equivalence)):
            name = test.this.name
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
        name, span = test.this.name, span_of(test)
        declaring = [
            variable for variable in self.variables if self.catalog.types is None or name.lower() in variable.attributes
        ]
        if not declaring:
            known = {attribute.name for variable in self.variables for attribute in variable.attributes.values()}
            self.error(f"no event type of the pattern declares {name}", span, did_you_mean(name, known, "declared are"))
            return []

        def of(variable: Variable) -> exp.Expr:
            column = exp.Column(
                this=at(exp.Identifier(this=name, quoted=True), span),
                table=at(exp.Identifier(this=variable.name, quoted=True), span),
            )
            return at(column, span)

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

    def predicate(self, condition: exp.Expr) -> Predicate | None:
        negated_names = {variable.name for variable in self.variables if variable.negated}
        negated = sorted(scalars.variables(condition) & negated_names)
        if len(negated) > 1:
            self.error(
                f"this part of WHERE speaks of {len(negated)} negated components, {' and '.join(negated)}",
                span_of(condition),
                "each negated component stands for itself: a part may speak of one of them and of positive variables",
            )
            return None
        if negated:
            for atom in _atoms(condition):
                others = scalars.variables(atom)
                if others and negated[0] not in others:
                    self.error(
                        f"this part of WHERE mixes conditions on positive variables and on the negated {negated[0]}",
                        span_of(condition),
                        f"{scalars.sql(atom)} does not speak of {negated[0]}: only AND may join the two",
                    )
                    return None
        return Predicate(_guarded(condition, self.catalog.type), negated[0] if negated else None, span_of(condition))

    # ---- RETURN ---------------------------------------------------------------------------------

    def returns(self) -> tuple[Output, ...] | None:
        if self.query.returns is None:
            return None
        outputs: list[Output] = []
        names: dict[str, Span] = {}
        if self.query.returns.composite is not None:
            names[self.catalog.type.lower()] = self.query.returns.composite.span
        if not self.query.returns.items:
            self.error(
                "a composite event needs attributes",
                self.query.returns.span,
                "write RETURN Alert(x.id, z.ts AS left_at)",
            )
        for item in self.query.returns.items:
            if any(item.expression.find_all(Equivalence)):
                self.error("an equivalence test has no value to return", item.span, "return an attribute, such as x.id")
                continue
            before = len(self.found)
            value = self.resolve(item.expression)
            if len(self.found) == before:
                scalars.infer(value, self.found)
            name = self.output_name(item.alias, value, item.span)
            for column in scalars.columns(value):
                variable = next((known for known in self.variables if known.name == column.table), None)
                if variable is not None and variable.negated:
                    self.error(
                        f"{variable.name} is negated: a match has no such event to return",
                        span_of(column),
                        "return attributes of positive variables",
                    )
            if name is None:
                continue
            if name.lower() in names:
                self.error(f"two columns of the result are named {name}", item.span, "name one of them with AS")
            names[name.lower()] = item.span
            outputs.append(Output(name, value))
        return tuple(outputs)

    def output_name(self, alias: Name | None, value: exp.Expr, span: Span) -> str | None:
        if alias is not None:
            return alias.text
        if isinstance(value, exp.Column):
            return value.name
        self.error("this column of the result has no name", span, "add one with AS, such as z.ts - x.ts AS took")
        return None


def _unwrapped(condition: exp.Expr) -> exp.Expr:
    return scalars.unparenthesised(condition)


def _atoms(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The comparisons of a condition: what AND, OR and NOT connect."""
    match condition:
        case exp.And() | exp.Or():
            yield from _atoms(condition.left)
            yield from _atoms(condition.right)
        case exp.Not() if not condition.meta.get("comparison"):
            yield from _atoms(condition.this)
        case exp.Paren():
            yield from _atoms(condition.this)
        case _:
            yield condition


def _guarded(condition: exp.Expr, type_column: str) -> exp.Expr:
    """A comparison on an attribute that the event's type does not declare is true: say so in SQL.

    `x.shelf_id = z.shelf_id` with `ANY(COUNTER-READING, SHELF-READING) z` becomes
    `(z.type = 'COUNTER-READING' OR x.shelf_id = z.shelf_id)`.
    """
    guarded = condition.copy()
    for atom in list(_atoms(guarded)):
        escapes: dict[str, exp.Expr] = {}
        for column in scalars.columns(atom):
            lacking = column.meta.get("lacking")
            if lacking and column.table not in escapes:
                escapes[column.table] = _type_is(column, lacking, type_column)
            elif lacking:
                merged = dict.fromkeys((*escapes[column.table].meta["types"], *lacking))
                escapes[column.table] = _type_is(column, tuple(merged), type_column)
        if not escapes:
            continue
        span = span_of(atom)
        wrapped = at(exp.Paren(this=at(scalars.disjunction([*escapes.values(), atom]), span)), span)
        if atom is guarded:
            return scalars.unparenthesised(wrapped)
        atom.replace(wrapped)
    return guarded


def _type_is(column: exp.Column, types: tuple[str, ...], type_column: str) -> exp.Expr:
    span = span_of(column)
    tested = at(exp.Column(this=exp.Identifier(this=type_column, quoted=True), table=column.args["table"].copy()), span)
    tested.type = exp.DataType.build("string", dialect="spark")
    values: list[exp.Expr] = [at(exp.Literal.string(name), span) for name in types]
    test: exp.Expr = (
        exp.EQ(this=tested, expression=values[0]) if len(values) == 1 else exp.In(this=tested, expressions=values)
    )
    test.meta["types"] = types
    return at(test, span)


def _literal(value: object) -> exp.Expr | None:
    """A Python value as a literal; None when it has no such form."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int() | Decimal() if value < 0:
            return exp.Neg(this=exp.Literal.number(str(-value)))
        case int():
            return exp.Literal.number(str(value))
        case Decimal() if value.is_finite():
            return exp.Literal.number(f"{value:f}")
        case float():
            text = (
                repr(value) if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
            )
            return exp.cast(exp.Literal.string(text), "double", dialect="spark")
        case str():
            return exp.Literal.string(value)
        case datetime():
            kind = "timestamp" if value.tzinfo else "timestamp_ntz"
            return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), kind, dialect="spark")
        case date():
            return exp.cast(exp.Literal.string(value.isoformat()), "date", dialect="spark")
        case timedelta():
            length = value // timedelta(microseconds=1)
            amount, unit = (f"{length // DAY}", "DAY") if length % DAY == 0 else (f"{length / 1_000_000:.6f}", "SECOND")
            return exp.Interval(this=exp.Literal.string(amount), unit=exp.Var(this=unit))
        case _:
            return None
