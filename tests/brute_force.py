"""The judge: what a query means, computed the slow and obvious way.

Every combination of events is tried and every rule of the semantics is one small function, named in its words. It
shares nothing with the compiler but the parser. The query is taken to be valid: finding errors is the compiler's work.

Truth has three values: True, False and None, which is SQL's unknown. A condition selects only where it is True.

Integers are as wide as their types. What does not fit wraps around, or with ANSI is an `Overflow`: then a query has no
answer, where a match depends on it, and need not have one, where it only might (see `verdict`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from ctypes import c_float
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from itertools import combinations, pairwise, product
from typing import Any, NamedTuple

from sqlglot import exp

from sase.compiler.core.catalog import Catalog
from sase.compiler.core.durations import parse as parse_duration
from sase.compiler.core.names import Parameter
from sase.compiler.languages.sase.parser import parse
from sase.compiler.languages.sase.syntax import Duration, Equivalence, Name, Query

Truth = bool | None


class Overflow(ArithmeticError):
    """An integer does not fit into its type, and Spark would fail."""


def evaluate(
    query_text: str, catalog: Catalog, events: list[dict[str, Any]], ansi: bool = True
) -> list[dict[str, Any]]:
    """The bag of results, one dict per match. An event is a dict from column to value, None where it is NULL."""
    query = parse(query_text)
    pattern = Pattern(query, catalog, ansi)
    stream = taking_part(events, catalog)
    results = []
    for matched in product(*(of_types(stream, component) for component in pattern.positive)):
        bound = {component.variable: event for component, event in zip(pattern.positive, matched, strict=True)}
        if (
            all(before(a, b) for a, b in pairwise(matched))
            and (pattern.within is None or elapsed(matched[0], matched[-1]) < pattern.within)
            and all_hold(
                *(partial(pattern.truth, part, bound) for part in pattern.parts_of(None)),
                *(partial(nothing_violates, pattern, negated, stream, bound) for negated in pattern.negated),
            )
        ):
            results.append(result(pattern, query, bound))
    return results


def all_hold(*conditions: Callable[[], Truth]) -> bool:
    """Are all of them true? An overflow is an answer only where none of the others is one."""
    failed: Overflow | None = None
    for condition in conditions:
        try:
            if condition() is not True:
                return False
        except Overflow as overflow:
            failed = overflow
    if failed is not None:
        raise failed
    return True


class Verdict(NamedTuple):
    matches: list[dict[str, Any]] | None
    """None: there is no answer, since whether something is a match ends in an overflow."""
    may_fail: bool
    """Some expression overflows on some events. A plan that looks at them fails, and another one need not."""


def verdict(query_text: str, catalog: Catalog, events: list[dict[str, Any]], ansi: bool) -> Verdict:
    try:
        matches = evaluate(query_text, catalog, events, ansi)
    except Overflow:
        return Verdict(None, True)
    return Verdict(matches, overflows(Pattern(parse(query_text), catalog, ansi), taking_part(events, catalog)))


def overflows(pattern: Pattern, stream: list[Event]) -> bool:
    """Does any part of WHERE overflow on any events?"""
    of = {component.variable: of_types(stream, component) for component in pattern.components}
    nodes = [node for part in pattern.parts if not isinstance(part, Equivalence) for node in part.find_all(exp.Expr)]
    for node in nodes:
        if pattern.number_type(node) not in BITS:
            continue
        names = sorted({pattern.owner(column) for column in node.find_all(exp.Column)})
        for chosen in product(*(of[name] for name in names)):
            try:
                pattern.value(node, dict(zip(names, chosen, strict=True)))
            except Overflow:
                return True
    return False


# ---- events -------------------------------------------------------------------------------------


class Event:
    """A row, seen through what its type declares: `attributes` has a key exactly for each declared attribute."""

    def __init__(self, row: dict[str, Any], catalog: Catalog) -> None:
        cells = {column.lower(): value for column, value in row.items()}
        self.type = cells.get(catalog.type.lower())
        self.time = cells.get(catalog.time.lower())
        self.order = cells.get(catalog.order.lower()) if catalog.order else None
        self.attributes = {name.lower(): cells.get(name.lower()) for name in declared(self.type, catalog)}


def declared(type_name: str | None, catalog: Catalog) -> list[str]:
    """The attributes of a type, as the catalog spells them: the time, the type and the tie-breaker are in every one."""
    assert catalog.types is not None
    implied = [name for name in (catalog.time, catalog.type, catalog.order) if name is not None]
    lowered = {name.lower() for name in implied}
    own = catalog.types.get(type_name, {}) if type_name is not None else {}
    return implied + [name for name in own if name.lower() not in lowered]


def takes_part(event: Event, catalog: Catalog) -> bool:
    return event.time is not None and event.type is not None and (catalog.order is None or event.order is not None)


def taking_part(rows: list[dict[str, Any]], catalog: Catalog) -> list[Event]:
    return [event for event in (Event(row, catalog) for row in rows) if takes_part(event, catalog)]


def before(a: Event, b: Event) -> bool:
    """Strictly smaller in (time, tie-breaker); without a tie-breaker, events at one time are simultaneous."""
    if a.time != b.time or a.order is None:
        return bool(a.time < b.time)
    return bool(a.order < b.order)


def elapsed(a: Event, b: Event) -> Any:
    return b.time - a.time


def field(node: exp.Dot | exp.Bracket, inside: Any) -> Any:
    """A member of a struct, a value of a map or an element of an array, counted from 0; NULL where it is not there."""
    if isinstance(node, exp.Dot):
        return None if inside is None else {k.lower(): v for k, v in inside.items()}[node.expression.name.lower()]
    (index,) = node.expressions
    if isinstance(inside, list):
        return inside[int(index.this)] if int(index.this) < len(inside) else None
    return None if inside is None else inside.get(index.this if index.is_string else int(index.this))


def walked(path: exp.Expr, attribute: Any) -> Any:
    """The field that a path leads to, from the attribute that it starts at."""
    return attribute if isinstance(path, exp.Identifier) else field(path, walked(path.this, attribute))


# ---- the pattern --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Component:
    variable: str
    types: tuple[str, ...]
    negated: bool
    place: int


def of_types(stream: list[Event], component: Component) -> list[Event]:
    """ANY is one event of either type."""
    return [event for event in stream if event.type in component.types]


def nothing_violates(pattern: Pattern, negated: Component, stream: list[Event], bound: dict[str, Event]) -> bool:
    """Does no event of the negated component, satisfying its P-, stand where none may?"""
    placed = [event for event in of_types(stream, negated) if in_forbidden_place(pattern, negated, event, bound)]
    return all_hold(*(partial(fails_p_minus, pattern, negated, event, bound) for event in placed))


def in_forbidden_place(pattern: Pattern, negated: Component, event: Event, bound: dict[str, Event]) -> bool:
    positives = [bound[component.variable] for component in pattern.positive]
    first, last = positives[0], positives[-1]
    earlier = [bound[component.variable] for component in pattern.positive if component.place < negated.place]
    later = [bound[component.variable] for component in pattern.positive if component.place > negated.place]
    if earlier and later:
        return before(earlier[-1], event) and before(event, later[0])
    if later:
        return elapsed(event, last) < pattern.within and before(event, first)
    return before(last, event) and elapsed(first, event) < pattern.within


def fails_p_minus(pattern: Pattern, negated: Component, event: Event, bound: dict[str, Event]) -> bool:
    with_it = {**bound, negated.variable: event}
    return not all_hold(*(partial(pattern.truth, part, with_it) for part in pattern.parts_of(negated)))


class Pattern:
    """The clauses of a query, with names and parameters looked up."""

    def __init__(self, query: Query, catalog: Catalog, ansi: bool) -> None:
        self.catalog = catalog
        self.ansi = ansi
        self.components = named(query, catalog)
        self.positive = [component for component in self.components if not component.negated]
        self.negated = [component for component in self.components if component.negated]
        self.within = window(query.within, catalog)
        self.parts = list(conjuncts(query.where)) if query.where is not None else []

    # -- which part of WHERE speaks of what

    def parts_of(self, negated: Component | None) -> list[exp.Expr]:
        """P+, the parts about positive variables alone, or the P- of one negated component.

        An equivalence test is in all of them: its meaning depends on the events that are bound.
        """
        mine = {negated.variable} if negated else set()
        return [part for part in self.parts if isinstance(part, Equivalence) or self.negated_in(part) == mine]

    def negated_in(self, part: exp.Expr) -> set[str]:
        mentioned = {self.owner(column) for column in part.find_all(exp.Column)}
        return {component.variable for component in self.negated if component.variable in mentioned}

    def owner(self, column: exp.Column) -> str:
        """The variable that a name belongs to; a bare one is the only component's, or the only positive one's."""
        if column.table:
            return next(c.variable for c in self.components if c.variable.lower() == column.table.lower())
        if len(self.components) == 1:
            return self.components[0].variable
        (only,) = (component for component in self.positive if self.may_declare(component, column.name))
        return only.variable

    def may_declare(self, component: Component, attribute: str) -> bool:
        return attribute.lower() in {
            name.lower() for type_name in component.types for name in declared(type_name, self.catalog)
        }

    # -- conditions

    def truth(self, condition: exp.Expr, bound: dict[str, Event]) -> Truth:
        """AND, OR and NOT over atoms; an atom is true when it speaks of an attribute that the event's type lacks."""
        match condition:
            case exp.Paren():
                return self.truth(condition.this, bound)
            case exp.And():
                left = self.truth(condition.this, bound)
                return False if left is False else all_of(left, self.truth(condition.expression, bound))
            case exp.Or():
                left = self.truth(condition.this, bound)
                return True if left is True else any_of(left, self.truth(condition.expression, bound))
            case exp.Not() if not condition.meta.get("comparison"):  # NOT IN, NOT LIKE, … are one comparison
                return opposite(self.truth(condition.this, bound))
            case Equivalence():
                return self.agree(condition, bound)
            case atom:
                return True if self.speaks_of_missing(atom, bound) else self.value(atom, bound)

    def speaks_of_missing(self, atom: exp.Expr, bound: dict[str, Event]) -> bool:
        return any(
            column.name.lower() not in bound[self.owner(column)].attributes for column in atom.find_all(exp.Column)
        )

    def agree(self, test: Equivalence, bound: dict[str, Event]) -> Truth:
        """`[id]`: every two events that declare it are equal in it. `[id='1']`: and each of them is '1'."""
        attribute = test.attribute.name.lower()
        declaring = [
            walked(test.this, event.attributes[attribute]) for event in bound.values() if attribute in event.attributes
        ]
        tests = [equal(a, b) for a, b in combinations(declaring, 2)]
        if test.args.get("value") is not None:
            wanted = self.value(test.args["value"], bound)
            tests += [equal(value, wanted) for value in declaring]
        return all_of(*tests)

    # -- values

    def value(self, node: exp.Expr, bound: dict[str, Event]) -> Any:
        """A scalar, as Spark SQL computes it; what an event's type lacks is NULL here."""

        def of(child: exp.Expr) -> Any:
            return self.value(child, bound)

        match node:
            case exp.Column():
                return bound[self.owner(node)].attributes.get(node.name.lower())
            case exp.Dot() | exp.Bracket():
                return field(node, of(node.this))
            case exp.Literal():
                return node.this if node.is_string else number(node.this)
            case exp.Boolean():
                return node.this
            case exp.Null():
                return None
            case Parameter():
                return self.catalog.parameters[node.this.name]
            case exp.Interval():
                return duration(((node.this.name, node.unit.name),))
            case exp.Paren():
                return of(node.this)
            case exp.And():
                return all_of(of(node.this), of(node.expression))
            case exp.Or():
                return any_of(of(node.this), of(node.expression))
            case exp.Not():
                return opposite(of(node.this))
            case exp.Is():
                return of(node.this) is None
            case exp.In():
                subject, *options = self.in_one_type(node.this, *node.expressions, bound=bound)
                return any_of(*(equal(subject, option) for option in options))
            case exp.Between():
                low, subject = self.in_one_type(node.args["low"], node.this, bound=bound)
                above = compare(low, subject, lambda order: order <= 0)
                subject, high = self.in_one_type(node.this, node.args["high"], bound=bound)
                return all_of(above, compare(subject, high, lambda order: order <= 0))
            case exp.Like():
                return like(of(node.this), of(node.expression))
            case exp.ILike():
                sides = (of(node.this), of(node.expression))
                return like(*(None if side is None else side.lower() for side in sides))
            case exp.RegexpLike():
                text, form = of(node.this), of(node.expression)
                return None if text is None or form is None else re.search(form, text) is not None
            case exp.Case():
                return self.case(node, bound)
            case exp.Cast():
                return cast(of(node.this), node.to.sql("spark").lower())
            case exp.Anonymous():
                result = FUNCTIONS[node.this.lower()](*(of(argument) for argument in node.expressions))
                return self.fitting(result, node)
            case exp.Neg():
                operand = of(node.this)
                return None if operand is None else self.fitting(-operand, node)
            case exp.Binary() if type(node) in COMPARISONS:
                return compare(*self.in_one_type(node.this, node.expression, bound=bound), COMPARISONS[type(node)])
            case exp.Binary():
                result = arithmetic(ARITHMETIC[type(node)], of(node.this), of(node.expression))
                return self.fitting(result, node)
        raise NotImplementedError(repr(node))

    def case(self, node: exp.Case, bound: dict[str, Event]) -> Any:
        for branch in node.args["ifs"]:
            if node.this is None:
                holds = self.value(branch.this, bound)
            else:
                holds = equal(*self.in_one_type(node.this, branch.this, bound=bound))
            if holds is True:
                return self.value(branch.args["true"], bound)
        default = node.args.get("default")
        return None if default is None else self.value(default, bound)

    # -- types of numbers

    def number_type(self, node: exp.Expr) -> str | None:
        """The type that Spark gives a number, one of NUMBER_TYPES; None if it is none, or a NULL."""
        match node:
            case exp.Column():
                component = next(c for c in self.components if c.variable == self.owner(node))
                assert self.catalog.types is not None
                types = [self.catalog.types[name] for name in component.types]
                kinds = [kind for each in types for name, kind in each.items() if name.lower() == node.name.lower()]
                return widest([kind.split("(")[0] for kind in kinds])
            case exp.Literal() if not node.is_string:
                return type_of_number(number(node.this))
            case exp.Neg(this=exp.Literal() as literal) if not literal.is_string:
                return type_of_number(-number(literal.this))
            case Parameter():
                return type_of_number(self.catalog.parameters[node.this.name])
            case exp.Paren() | exp.Neg():
                return self.number_type(node.this)
            case exp.Cast():
                return widest([node.to.sql("spark").lower().split("(")[0]])
            case exp.IntDiv():
                return "bigint"
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
                return widest([self.number_type(node.this), self.number_type(node.expression)], self.ansi)
            case exp.Case():
                results = [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")]
                return widest([self.number_type(result) for result in results if result is not None], self.ansi)
            case exp.Anonymous():
                arguments = [self.number_type(argument) for argument in node.expressions]
                return "int" if node.this.lower() == "length" else widest(arguments, self.ansi)
        return None

    def in_one_type(self, *nodes: exp.Expr, bound: dict[str, Event]) -> list[Any]:
        """Values that are compared, in the type in which Spark does it: floats beside other numbers lose digits."""
        kind = widest([self.number_type(node) for node in nodes], self.ansi)
        return [rounded(self.value(node, bound), kind) for node in nodes]

    def fitting(self, value: Any, node: exp.Expr) -> Any:
        """A number in the width of its type."""
        kind = self.number_type(node)
        bits = BITS.get(kind or "")
        if bits is None or not isinstance(value, int):
            return rounded(value, kind)
        if self.ansi and not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise Overflow(f"{value} in {bits} bits")
        return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def named(query: Query, catalog: Catalog) -> list[Component]:
    """Without a variable it is called by its type: `SHELF-READING` is `shelf_reading`, the next `shelf_reading_2`."""
    assert catalog.types is not None
    taken = {component.variable.text.lower() for component in query.components if component.variable}
    result = []
    for place, component in enumerate(query.components):
        types = tuple(catalog.types) if component.every else tuple(name.text for name in component.types)
        if component.variable:
            variable = component.variable.text
        else:
            stem = variable = re.sub(r"[\W_]+", "_", types[0].lower())
            number = 1
            while variable in taken:
                number += 1
                variable = f"{stem}_{number}"
            taken.add(variable)
        result.append(Component(variable, types, component.negated, place))
    return result


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The parts that AND joins; NOT (a OR b) is NOT a AND NOT b."""
    match condition:
        case exp.Paren():
            yield from conjuncts(condition.this)
        case exp.And():
            yield from conjuncts(condition.this)
            yield from conjuncts(condition.expression)
        case exp.Not(this=exp.Paren(this=exp.Or() as either)):
            yield from conjuncts(exp.Not(this=exp.Paren(this=either.this.copy())))
            yield from conjuncts(exp.Not(this=exp.Paren(this=either.expression.copy())))
        case _:
            yield condition


# ---- results ------------------------------------------------------------------------------------


def result(pattern: Pattern, query: Query, bound: dict[str, Event]) -> dict[str, Any]:
    if query.returns is None:
        structs = {component.variable: struct(pattern, component, bound) for component in pattern.positive}
        return {**structs, **times(pattern, bound)}
    row = {}
    if query.returns.composite is not None:
        row[pattern.catalog.type] = query.returns.composite.text
    for item in query.returns.items:
        name = item.alias.text if item.alias else item.expression.name
        row[name] = pattern.value(item.expression, bound)
    return row


def struct(pattern: Pattern, component: Component, bound: dict[str, Event]) -> dict[str, Any]:
    """The attributes of all the component's types; None where the event's own type lacks one."""
    names = [name for type_name in component.types for name in declared(type_name, pattern.catalog)]
    return {name: bound[component.variable].attributes.get(name.lower()) for name in names}


def times(pattern: Pattern, bound: dict[str, Event]) -> dict[str, Any]:
    """Of the first positive event, and of the last one; under a trailing negation, of the end of the window."""
    first, last = bound[pattern.positive[0].variable], bound[pattern.positive[-1].variable]
    trailing = pattern.components[-1].negated
    return {"started_at": first.time, "detected_at": end_of_window(first, pattern.within) if trailing else last.time}


def end_of_window(first: Event, within: Any) -> Any:
    """A date and whole days are a date; a date and hours are a timestamp."""
    if isinstance(within, timedelta) and within % timedelta(days=1):
        return alike(first.time, datetime.min) + within
    return first.time + within


# ---- windows ------------------------------------------------------------------------------------

UNITS = {
    "ms": timedelta(milliseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "sec": timedelta(seconds=1),
    "second": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "minute": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "hr": timedelta(hours=1),
    "hour": timedelta(hours=1),
    "d": timedelta(days=1),
    "day": timedelta(days=1),
    "w": timedelta(weeks=1),
    "week": timedelta(weeks=1),
}


def window(within: Duration | Name | None, catalog: Catalog) -> Any:
    if isinstance(within, Name):
        parts = parse_duration(str(catalog.parameters[within.text]))
    else:
        parts = within.parts if within else None
    return None if parts is None else duration(parts)


def duration(parts: tuple[tuple[str, str | None], ...]) -> int | timedelta:
    """A number with a unit is a span of time; a bare one is in the units of an integer time column."""
    if len(parts) == 1 and parts[0][1] is None:
        return int(parts[0][0])
    spans = []
    for amount, unit in parts:
        assert unit is not None
        word = unit.lower()
        spans.append(float(amount) * (UNITS[word] if word in UNITS else UNITS[word.removesuffix("s")]))
    return sum(spans, timedelta())


# ---- three-valued logic -------------------------------------------------------------------------


def all_of(*truths: Truth) -> Truth:
    if False in truths:
        return False
    return None if None in truths else True


def any_of(*truths: Truth) -> Truth:
    if True in truths:
        return True
    return None if None in truths else False


def opposite(truth: Truth) -> Truth:
    return None if truth is None else not truth


# ---- comparisons --------------------------------------------------------------------------------

COMPARISONS: dict[type[exp.Expr], Callable[[int], bool]] = {
    exp.EQ: lambda order: order == 0,
    exp.NEQ: lambda order: order != 0,
    exp.LT: lambda order: order < 0,
    exp.LTE: lambda order: order <= 0,
    exp.GT: lambda order: order > 0,
    exp.GTE: lambda order: order >= 0,
}


def compare(a: Any, b: Any, test: Callable[[int], bool]) -> Truth:
    """NULL compares to nothing; NaN equals itself and is greater than any number; -0.0 equals 0.0."""
    if a is None or b is None:
        return None
    a, b = rank(alike(a, b)), rank(alike(b, a))
    return test((a > b) - (a < b))


def equal(a: Any, b: Any) -> Truth:
    return compare(a, b, COMPARISONS[exp.EQ])


def alike(value: Any, other: Any) -> Any:
    """`value` in the type in which Spark compares it to `other`."""
    match value, other:
        case str(), bool():
            return value.strip().lower() in ("true", "t", "yes", "y", "1")
        case str(), int():
            return int(value)
        case str(), float() | Decimal():
            return float(value)
        case Decimal(), str() | float():
            return float(value)
        case str(), datetime():
            return datetime.fromisoformat(value)
        case str(), date():
            return date.fromisoformat(value)
        case datetime(), _:
            return value
        case date(), datetime():
            return datetime.combine(value, time())
    return value


def rank(value: Any) -> tuple[bool, Any]:
    not_a_number = isinstance(value, float) and math.isnan(value)
    return (not_a_number, 0.0 if not_a_number else value)


def like(text: str | None, form: str | None) -> Truth:
    """% is any text, _ one character, and a backslash takes the next character as it is."""
    if text is None or form is None:
        return None
    pieces = re.findall(r"\\.|.", form, flags=re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return re.fullmatch("".join(wild.get(p, re.escape(p[-1])) for p in pieces), text, flags=re.DOTALL) is not None


# ---- scalars ------------------------------------------------------------------------------------


def number(text: str) -> int | float | Decimal:
    if text.isdigit():
        return int(text)
    return float(text) if "e" in text.lower() else Decimal(text)


NUMBER_TYPES = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def type_of_number(value: Any) -> str | None:
    match value:
        case bool() | str():
            return None
        case int():
            return "int" if -(2**31) <= value < 2**31 else "bigint" if -(2**63) <= value < 2**63 else "decimal"
        case float():
            return "double"
        case _:
            return "decimal"


def widest(kinds: list[str | None], ansi: bool = True) -> str | None:
    """The type in which Spark brings numbers together: with ANSI, a float and something else is a double."""
    known = {kind for kind in kinds if kind in NUMBER_TYPES}
    if "float" in known and len(known) > 1 and (ansi or "decimal" in known):
        return "double"
    return max(known, key=NUMBER_TYPES.index, default=None)


def rounded(value: Any, kind: str | None) -> Any:
    if kind not in ("float", "double") or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    return c_float(value).value if kind == "float" else float(value)


def remainder(a: Any, b: Any) -> Any:
    """With the sign of the dividend."""
    return math.fmod(a, b) if isinstance(a, float) else int(math.copysign(1, a)) * (abs(a) % abs(b))


ARITHMETIC: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: float(a) / float(b),
    exp.Mod: remainder,
    exp.IntDiv: lambda a, b: int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b)),
}


def arithmetic(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """NULL if an operand is; a decimal beside a double becomes one."""
    if a is None or b is None:
        return None
    if isinstance(a, float) or isinstance(b, float):
        return operation(float(a), float(b))
    return operation(a, b)


def cast(value: Any, kind: str) -> Any:
    if value is None:
        return None
    match kind:
        case "int" | "bigint":
            return int(value)
        case "double":
            return float(value)
        case "string":
            return str(value)
        case "date":
            return date.fromisoformat(value) if isinstance(value, str) else value.date()
        case "timestamp":
            return alike(value, datetime.min)
    raise NotImplementedError(kind)


def null_if_any_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: None if None in arguments else function(*arguments)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": null_if_any_is(abs),
    "upper": null_if_any_is(str.upper),
    "lower": null_if_any_is(str.lower),
    "length": null_if_any_is(len),
    "coalesce": lambda *arguments: next((value for value in arguments if value is not None), None),
}
