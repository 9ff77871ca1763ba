"""Random queries × random streams for hypothesis: small, valid, and full of what goes wrong.

Ties, NULLs, attributes that a type lacks, NaN, negation in every place, predicates of every form. Everything shrinks
towards one plain component, no WHERE and no events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from hypothesis import assume
from hypothesis import strategies as st

from sase.compiler.core.bound import Derived, Earliest
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import SaseError
from sase.compiler.languages.sase.front_end import read


class Case(NamedTuple):
    query: str
    catalog: Catalog
    events: list[dict[str, Any]]


TYPES = ("A", "B", "RECORD", "D-E")
MIDNIGHT = datetime(2024, 1, 1)

# Few values, so that events agree, tie and collide; the first is what an example shrinks to.
ATTRIBUTES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "id": ("bigint", (1, 2, None)),
    "n": ("int", (0, 1, 2, 3, -1, None)),
    "site": ("string", ("x", "y", None)),
    "v": ("double", (0.0, 1.0, 1.5, -0.0, float("nan"), None)),
    "s": ("string", ("a", "ab", "A", "b_", "", None)),
    "ok": ("boolean", (True, False, None)),
    "price": ("decimal(10,2)", (Decimal("1.00"), Decimal("1.50"), Decimal("-2.25"), None)),
    "day": ("date", (date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3), None)),
    "seen": ("timestamp", (MIDNIGHT, MIDNIGHT + timedelta(minutes=1), MIDNIGHT + timedelta(days=1), None)),
    # As our own columns are called.
    "_states": ("bigint", (1, 2, None)),
    "_x1_1": ("int", (0, 1, None)),
}
# Parts of the names of our own columns, for variables; RECORD without a variable is one more.
OUR_NAMES = ("key", "states", "time", "reason", "clock", "slice", "bucket", "`end`", "since", "code", "x_1", "_key_1")
# The time column at a tick, and the word for ticks in WITHIN.
TIMES: dict[str, Callable[[int], Any]] = {
    "bigint": lambda tick: tick - 3,
    "timestamp": lambda tick: MIDNIGHT + timedelta(minutes=tick),
    "date": lambda tick: date(2024, 1, 1) + timedelta(days=tick),
    "int": lambda tick: tick,
}
UNITS = {"bigint": "", "timestamp": "minutes", "date": "days", "int": ""}
LAST_TICK = 12
# Values of the tie-breaker.
PLACES: dict[str, tuple[Any, ...]] = {"int": (0, 1, 2), "string": ("a", "b", "c")}


@dataclass(frozen=True)
class Column:
    name: str
    text: str
    kind: str


@dataclass(frozen=True)
class Component:
    text: str
    types: tuple[str, ...]
    negated: bool
    columns: tuple[Column, ...]

    def column(self, attribute: str) -> Column | None:
        return next((column for column in self.columns if column.name == attribute), None)


def cases(windowed: bool = False) -> st.SearchStrategy[Case]:
    """With `windowed`, every query has WITHIN, as a stream demands."""
    return _case(windowed)


@st.composite
def _case(draw: st.DrawFn, windowed: bool) -> Case:
    schema = draw(_catalog())
    pattern = draw(_pattern(schema))
    clauses = [f"EVENT {_event_clause(pattern)}"]
    if parts := draw(st.lists(_part(pattern), max_size=3)):
        clauses.append("WHERE " + " AND ".join(parts))
    if windowed or pattern[0].negated or pattern[-1].negated or draw(st.booleans()):
        unit = UNITS[kind_of_time(schema)]
        window = f"{draw(st.sampled_from(range(LAST_TICK + 1, 0, -1)))} {unit}".strip()
        if draw(st.sampled_from([False, False, True])):
            schema = replace(schema, parameters={**schema.parameters, "T": window if unit else int(window)})
            window = "T"
        clauses.append(f"WITHIN {window}")
    if draw(st.sampled_from([False, False, False, True])):
        clauses.append(f"RETURN {draw(_returns(pattern))}")
    return Case("\n".join(clauses), schema, draw(_events(schema, pattern)))


# ---- nested patterns ----------------------------------------------------------------------------

MOST_LEAVES = 4
"""All assignments are tried."""


def nested_cases(windowed: bool = False) -> st.SearchStrategy[Case]:
    """AND, OR, NOT, SEQ, ANY(m, …), ALL and repetition inside each other, `first` and `last`, CONSUME and TIMED OUT;
    parts with clauses of their own, `before` and `elapsed`, OR ALL."""
    return _nested_case(windowed)


@st.composite
def _nested_case(draw: st.DrawFn, windowed: bool) -> Case:
    schema = draw(_catalog())
    assert schema.types is not None
    kinds = {name: {**declared, "ts": "bigint"} for name, declared in schema.types.items()}
    schema = replace(schema, types=kinds)
    for _ in range(ATTEMPTS):
        leaves: list[Leaf] = []
        query = draw(_nested_query(schema, leaves, windowed))
        if _has_meaning(query, schema):
            components = [leaf.component for leaf in leaves]
            return Case(query, schema, draw(_events(schema, components, most=draw(st.sampled_from([0, 4, 6, 7])))))
    assume(False)
    raise AssertionError


ATTEMPTS = 6
"""One query in two has no meaning: a group without a window, a branch without an event, a part about two groups."""


def _has_meaning(query: str, schema: Catalog) -> bool:
    try:
        bound = read(query, "query").bind(schema)
    except SaseError:
        return False
    # The judge does not tell when several events can no longer be added, where nothing but bounds says so.
    return bound.within is not None or not any(
        isinstance(branch.instant, Derived | Earliest)
        and any(len(each.variables) > 1 or each.groups for each in branch.groups)
        for branch in bound.branches
    )


@st.composite
def _nested_query(draw: st.DrawFn, schema: Catalog, leaves: list[Leaf], windowed: bool) -> str:
    pattern = draw(_nested(schema, leaves, depth=3))
    clauses = [f"EVENT {pattern}"]
    if parts := draw(st.lists(_nested_part(leaves), max_size=3)):
        clauses.append("WHERE " + " AND ".join(parts))
    if windowed or draw(st.sampled_from([True, True, True, False])):
        clauses.append(f"WITHIN {draw(st.sampled_from(range(LAST_TICK // 2, 0, -1)))}")
        if pattern.startswith("SEQ") and draw(st.sampled_from([False] * 5 + [True])):
            clauses[-1] += " TIMED OUT"
    if draw(st.sampled_from([False] * 5 + [True])):
        clauses.append("CONSUME EXCLUSIVE")
    return "\n".join(clauses)


@dataclass(frozen=True)
class Leaf:
    component: Component
    variable: str
    several: bool
    """Collected or repeated."""


@st.composite
def _nested(draw: st.DrawFn, schema: Catalog, leaves: list[Leaf], depth: int, negated: bool = False) -> str:
    left = MOST_LEAVES - len(leaves)
    kinds = ["leaf"] if depth < 3 else []
    if depth > 0 and left > 0:
        kinds += ["SEQ", "SEQ", "SEQ", "AND", "AND", "AND", "OR", "OR", "OR ALL"] if left > 1 else ["SEQ"]
        kinds += ["NOT", "!"] if depth < 3 else ["NOT NOT"]
        kinds += ["ANY"] if left > 2 else []
    if depth < 3:
        kinds += ["repeated"] + (["ALL"] if not negated else [])
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "leaf" | "ALL" | "repeated":
            return draw(_leaf(schema, leaves, kind, negated))
        case "NOT" | "!" | "NOT NOT":
            return f"{kind} {draw(_nested(schema, leaves, depth - 1, True))}"
    parts: list[str] = []
    for _ in range(draw(st.sampled_from([2, 2, 3]))):
        if len(leaves) >= MOST_LEAVES and parts:
            break
        before = len(leaves)
        part = draw(_nested(schema, leaves, depth - 1, negated))
        if kind == "SEQ" and " " in part and len(leaves) == before + 1 and part == leaves[-1].component.text:
            part = draw(st.sampled_from(["", "", "", "", "first ", "last "])) + part
        if kind.startswith("OR") and parts and draw(st.sampled_from([False, False, True])):
            used = draw(st.permutations([leaf.component.text for leaf in leaves[:before] if not leaf.several]))[:2]
            part = f"{draw(st.sampled_from(['AND', 'SEQ']))}({', '.join([*used, part])})" if used else part
        if not part.startswith(("first ", "last ")) and draw(st.sampled_from([False] * 4 + [True])):
            part += draw(_clauses(leaves, leaves[before:]))
        parts.append(part)
    head = "ANY(" + str(draw(st.sampled_from(range(1, len(parts) + 1)))) + ", " if kind == "ANY" else f"{kind}("
    return head + ", ".join(parts) + ")"


@st.composite
def _clauses(draw: st.DrawFn, leaves: list[Leaf], own: list[Leaf]) -> str:
    """Of a part of the pattern: they speak of its variables, and may speak of others."""
    text = ""
    if own and draw(st.booleans()):
        others = draw(st.lists(st.sampled_from(leaves), max_size=1))
        text += f" WHERE {draw(_nested_part([*own, *others]))}"
    if not text or draw(st.booleans()):
        text += f" WITHIN {draw(st.sampled_from(range(LAST_TICK // 2, 0, -1)))}"
    return text


@st.composite
def _times(draw: st.DrawFn, leaves: list[Leaf]) -> str:
    one, other = draw(st.permutations([leaf.variable for leaf in leaves]))[:2]
    if draw(st.booleans()):
        return f"before({one}, {other})"
    ticks = draw(st.sampled_from(range(1, LAST_TICK // 2)))
    return f"elapsed({one}, {other}) " + draw(
        st.sampled_from([f"< {ticks}", f"< {ticks}", f"> {ticks - 1}", f"> -{ticks}"])
    )


@st.composite
def _leaf(draw: st.DrawFn, schema: Catalog, leaves: list[Leaf], kind: str, negated: bool) -> str:
    types = draw(st.sampled_from([1, 1, 1, 2]).flatmap(_some_types))
    variable = f"x{len(leaves)}"
    name = types[0] if len(types) == 1 else f"ANY({', '.join(types)})"
    if kind == "repeated":
        name += draw(st.sampled_from(["{2}", "{1,2}", "{1,3}"] + ([] if negated else ["{0,1}"])))
    text = f"{name} {variable}"
    component = Component(text, types, negated, _columns(schema, f"{variable}.", types))
    leaves.append(Leaf(component, variable, kind != "leaf"))
    return f"ALL({text})" if kind == "ALL" else text


@st.composite
def _nested_part(draw: st.DrawFn, leaves: list[Leaf]) -> str:
    components = [leaf.component for leaf in leaves]
    some = draw(st.lists(st.sampled_from(components), min_size=1, max_size=2, unique=True))
    forms = [_condition(some, subject=None, depth=draw(st.sampled_from([0, 0, 1])))] * 2
    if len({leaf.variable for leaf in leaves}) > 1:
        forms += [_times([*{leaf.variable: leaf for leaf in leaves}.values()])] * 3
    if shared := [name for name in ATTRIBUTES if any(component.column(name) for component in components)]:
        forms += [_equivalence(shared)]
    for leaf in leaves:
        if leaf.several:
            size = st.sampled_from([0, 1, 2])
            forms.append(size.map(lambda least, name=leaf.variable: f"count({name}) > {least}"))
            for column in leaf.component.columns:
                if column.kind in ("int", "bigint"):
                    fold = st.sampled_from(["sum", "min", "max", "avg", "count"])
                    forms.append(fold.map(lambda name, text=column.text: f"{name}({text}) >= 1"))
                    inside = f"{leaf.variable}[1].{column.name} >= 1 OR {leaf.variable}[0].{column.name} > 0"
                    forms.append(st.just(f"({inside})"))
                    if "{" in leaf.component.text:
                        pair = f"{leaf.variable}[i].{column.name} >= {leaf.variable}[i-1].{column.name}"
                        forms.append(st.just(f"({pair} OR {leaf.variable}[-1].{column.name} > 0)"))
    return draw(st.one_of(forms))


# ---- catalog and events -------------------------------------------------------------------------


@st.composite
def _catalog(draw: st.DrawFn) -> Catalog:
    """Types that declare some of a few attributes: most of them have the first one, to agree on."""
    used = draw(st.lists(st.sampled_from(list(ATTRIBUTES)), unique=True, min_size=1, max_size=4))
    common = {"ts": draw(st.sampled_from(["bigint", "bigint", "bigint", "timestamp", "date", "int"]))}
    order = draw(st.sampled_from([None, "seq"]))
    if order:
        common[order] = draw(st.sampled_from(list(PLACES)))
    types = {}
    for name in TYPES:
        declared = [attribute for attribute in used if draw(st.sampled_from([True, True, True, False]))]
        types[name] = {**common, **{attribute: ATTRIBUTES[attribute][0] for attribute in declared}}
    return Catalog(order=order, types=types, parameters={"one": 1, "x": "x"})


def kind_of_time(schema: Catalog) -> str:
    assert schema.types is not None
    return next(iter(schema.types.values()))[schema.time]


@st.composite
def _events(draw: st.DrawFn, schema: Catalog, pattern: list[Component], most: int = 10) -> list[dict[str, Any]]:
    """Rows of one table, in no order: a row has a value in every column, its type's own or not."""
    assert schema.types is not None
    columns = {name: kind for attributes in schema.types.values() for name, kind in attributes.items()}
    at = TIMES[kind_of_time(schema)]
    named = [name for component in pattern for name in component.types * (1 if component.negated else 3)]
    values: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from([*named * 2, *TYPES, "UNKNOWN", None]),
        "ts": st.sampled_from([*map(at, range(LAST_TICK + 1)), None]),
    }
    for name in columns:
        if name == "seq":
            values[name] = st.sampled_from([*PLACES[columns[name]] * 2, None])
        elif name != "ts":
            usual = ATTRIBUTES[name][1]
            values[name] = st.sampled_from([*usual[:2] * 2, *usual])
    least = draw(st.sampled_from([0, 6, 8, 10]))
    events = draw(st.lists(st.fixed_dictionaries(values), min_size=min(least, most), max_size=most))
    if draw(st.sampled_from([False, True, True, True])):  # else most streams would hold no match at all
        for place, component in enumerate(part for part in pattern if not part.negated):
            fit = {"type": st.sampled_from(component.types), "ts": st.just(at(2 * place + 2))}
            events.append(draw(st.fixed_dictionaries({**values, **fit})))
    return draw(st.permutations(events))


# ---- EVENT --------------------------------------------------------------------------------------


@st.composite
def _pattern(draw: st.DrawFn, schema: Catalog) -> list[Component]:
    positives = draw(st.sampled_from([1, 2, 2, 3, 3, 4]))
    negated = draw(st.sampled_from([0, 0, 1, 1, 2, 3]))
    places = draw(st.permutations([False] * positives + [True] * negated))
    ours = draw(st.sampled_from([(), (), OUR_NAMES]).flatmap(st.permutations))
    unnamed: list[str] = []
    pattern = []
    for place, is_negated in enumerate(places):
        types = draw(st.sampled_from([1, 1, 1, 2, 3]).flatmap(_some_types))
        variable = ours[place] if ours else f"x{place}"
        text = f"{types[0]} {variable}"
        if len(types) > 1:
            text = f"ANY({', '.join(types)}) {variable}"
        elif draw(st.sampled_from([False, False, False, True])):
            stem = types[0].lower().replace("-", "_")
            unnamed.append(stem)
            variable = stem if unnamed.count(stem) == 1 else f"{stem}_{unnamed.count(stem)}"
            text = types[0]
        bare = len(places) == 1 and draw(st.booleans())
        pattern.append(Component(text, types, is_negated, _columns(schema, "" if bare else f"{variable}.", types)))
    return pattern


def _some_types(count: int) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(TYPES), unique=True, min_size=count, max_size=count).map(tuple)


def _columns(schema: Catalog, qualifier: str, types: tuple[str, ...]) -> tuple[Column, ...]:
    """What any of the types declares; the type column comes last, it is the least telling."""
    assert schema.types is not None
    kinds = {name: kind for type_name in types for name, kind in schema.types[type_name].items()}
    return tuple(Column(name, qualifier + name, kind) for name, kind in {**kinds, "type": "string"}.items())


def _event_clause(pattern: list[Component]) -> str:
    texts = [f"!({component.text})" if component.negated else component.text for component in pattern]
    return texts[0] if len(texts) == 1 else f"SEQ({', '.join(texts)})"


# ---- WHERE --------------------------------------------------------------------------------------


@st.composite
def _part(draw: st.DrawFn, pattern: list[Component]) -> str:
    """One part of the conjunction: about positive variables alone, or about one negated variable and any of them."""
    positive = [component for component in pattern if not component.negated]
    negated = [component for component in pattern if component.negated]
    subject = draw(st.sampled_from([None, *negated]))
    scope = [component for component in pattern if not component.negated or component is subject]
    condition = _condition(scope, subject, depth=draw(st.sampled_from([0, 0, 1, 2])))
    forms = [condition, condition, st.sampled_from(["TRUE", "{one} = '1'", "NOT FALSE", "1 > 2"])]
    if attributes := [name for name in ATTRIBUTES if any(component.column(name) for component in scope)]:
        forms += [_chain(attributes, scope)] * 2
    if shared := [name for name in attributes if any(component.column(name) for component in positive)]:
        forms += [_equivalence(shared)] * 2
        if not negated:  # of negated components it can speak only where AND joins it
            forms += [
                st.tuples(_equivalence(shared), condition).map(lambda sides: f"({sides[0]} OR {sides[1]})"),
                _equivalence(shared).map(lambda test: f"NOT {test}"),
            ]
    return draw(st.one_of(forms))


@st.composite
def _equivalence(draw: st.DrawFn, attributes: list[str]) -> str:
    """`[id]`, `[id, site]`, `[id='1']`"""
    tests = []
    for attribute in draw(st.lists(st.sampled_from(attributes), unique=True, min_size=1, max_size=2)):
        kind, values = ATTRIBUTES[attribute]
        valued = draw(st.sampled_from([False, False, True])) and kind not in ("date", "timestamp", "double")
        value = _literal(draw(st.sampled_from(values[:2])))
        if kind == "bigint" and draw(st.booleans()):
            value = f"'{value}'"
        tests.append(f"{attribute}={value}" if valued else attribute)
    return f"[{', '.join(tests)}]"


@st.composite
def _chain(draw: st.DrawFn, attributes: list[str], scope: list[Component]) -> str:
    """An equivalence test spelled out, in a chain or as a star around its first member."""
    attribute = draw(st.sampled_from(attributes))
    members = [column.text for component in scope if (column := component.column(attribute))]
    members = draw(st.permutations(members))
    if len(members) == 1:
        return f"{members[0]} IS NOT NULL"
    if draw(st.booleans()):
        return " AND ".join(f"{members[0]} = {other}" for other in members[1:])
    return " = ".join(members)


def _condition(scope: list[Component], subject: Component | None, depth: int) -> st.SearchStrategy[str]:
    """AND, OR and NOT over comparisons; each speaks of the negated subject, where there is one."""
    atom = _atom(scope, subject)
    if depth == 0:
        return atom
    inner = _condition(scope, subject, depth - 1)
    return st.one_of(
        st.tuples(inner, atom).map(lambda sides: f"({sides[0]} OR {sides[1]})"),
        inner.map(lambda condition: f"NOT ({condition})"),
        st.tuples(inner, atom).map(lambda sides: f"({sides[0]} AND {sides[1]} OR {sides[0]})"),
    )


@st.composite
def _atom(draw: st.DrawFn, scope: list[Component], subject: Component | None) -> str:
    """A comparison of a column, of the subject if there is one, with a value or with a column of another component."""
    component = subject or draw(st.sampled_from(scope))
    telling = [column for column in component.columns if column.name in ATTRIBUTES]
    column = draw(st.sampled_from(telling * 3 + list(component.columns)))
    near = [other for other in component.columns if _comparable(column.kind, other.kind)]
    far = [other for part in scope if part is not component for other in part.columns]
    other = draw(st.sampled_from([other for other in far if _comparable(column.kind, other.kind)] * 3 + near)).text
    operator = draw(st.sampled_from(["=", "<", "<=", ">", ">=", "!="]))
    negation = draw(st.sampled_from(["", "NOT "]))
    literal = draw(_literals(column))
    low = draw(_literals(column))
    wildcard = draw(st.sampled_from(["a%", "_", "%b%", "%", r"_\_"]))
    c = column.text
    forms = [
        *[f"{c} {operator} {other}"] * 4,
        *[f"{c} {operator} {literal}"] * 2,
        f"{other} {operator} {c}",
        f"{c} IS {negation}NULL",
        f"{c} {negation}IN ({literal}, {low})",
        f"{c} {negation}IN ({literal}, {other}, NULL)",
        f"{c} {negation}BETWEEN {low} AND {other}",
        f"coalesce({c}, {literal}) {operator} {other}",
    ]
    match column.kind:
        case "bigint" | "int" | "double" | "decimal(10,2)":
            forms += [
                f"{c} + {other} {operator} 2",
                f"{c} - {other} {operator} 1",
                f"{other} - {c} {operator} 1",
                f"{c} - 1 {operator} {other} * 2",
                f"abs({c} - {other}) {operator} 1",
                f"{c} * {other} {operator} {literal}",
                f"-{c} {operator} {other}",
                f"CASE WHEN {c} {operator} 1 THEN 1 ELSE 0 END = {other}",
                f"{c} {operator} '1'",
                f"{c} {operator} {{one}}",
            ]
        case "string":
            forms += [
                f"{c} {negation}LIKE '{wildcard}'",
                f"upper({c}) {operator} {other}",
                f"length({c}) {operator} length({other})",
                f"lower({c}) = {{x}}",
            ]
        case "boolean":
            forms += [
                c,
                f"NOT {c}",
                f"{c} = {other}",
                f"({c} OR {c} IS NULL)",
                f"CASE WHEN {c} THEN {c} ELSE {other} END",
            ]
        case "date" | "timestamp":
            unit = "DAY" if column.kind == "date" else "MINUTE"
            forms += [
                f"{c} + INTERVAL '1' {unit} {operator} {other}",
                f"{c} - {other} {operator} INTERVAL '1' {unit}",
                f"{c} {operator} '2024-01-02'",
            ]
    if column.kind in ("bigint", "int"):
        forms += [f"{c} % 2 = 1", f"{c} DIV 2 {operator} {other}"]
    return draw(st.sampled_from(forms))


NUMBERS = ("bigint", "int", "double", "decimal(10,2)")


def _comparable(kind: str, other: str) -> bool:
    return kind == other or (kind in NUMBERS and other in NUMBERS)


@st.composite
def _literals(draw: st.DrawFn, column: Column) -> str:
    """A value that the column may have, or one beside it."""
    values: Sequence[Any]
    if column.name in ATTRIBUTES:
        values = [value for value in ATTRIBUTES[column.name][1] if value == value is not None]  # NaN has no literal
    elif column.name == "type":
        values = TYPES
    elif column.name == "seq":
        values = PLACES[column.kind]
    else:
        values = [TIMES[column.kind](tick) for tick in range(LAST_TICK + 1)]
    return _literal(draw(st.sampled_from(values)))


def _literal(value: Any) -> str:
    match value:
        case bool():
            return str(value).upper()
        case str():
            return f"'{value}'"
        case datetime():
            return f"TIMESTAMP '{value}'"
        case date():
            return f"DATE '{value}'"
        case _:
            return f"{value}"


# ---- numbers that do not fit --------------------------------------------------------------------

# The ends of every type, and the first integers that a float and a double do not have.
NUMBERS_AT_THE_END: dict[str, tuple[str, tuple[Any, ...]]] = {
    "t": ("tinyint", (0, 1, -1, 60, 2**7 - 1, -(2**7), None)),
    "s": ("smallint", (0, 1, -2, 2**15 - 1, -(2**15), None)),
    "i": ("int", (0, 1, -2, 2**24 + 1, 2**30, 2**31 - 1, -(2**31), None)),
    "l": ("bigint", (0, 1, -2, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), None)),
    "f": ("float", (0.0, 1.5, 2.0**24, -(2.0**31), None)),
    "d": ("double", (0.0, 1.5, 2.0**53, 2.0**63, None)),
}
KINDS_AT_THE_END = {name: kind for name, (kind, _) in NUMBERS_AT_THE_END.items()}
WHOLE = ("t", "s", "i", "l")
CONSTANTS = (0, 2, -3, 100, 1000, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63))


@st.composite
def cases_at_the_end(draw: st.DrawFn) -> Case:
    """Sums and differences of two events, either one first, and comparisons across types of numbers."""
    schema = Catalog(types={name: {"ts": "bigint", "id": "bigint", **KINDS_AT_THE_END} for name in "ABC"})
    negated = draw(st.sampled_from(["", "", "!(C n)"]))
    components = ["A x", "B y"]
    if negated:
        components.insert(draw(st.sampled_from([0, 1, 2])), negated)
    variables = [("x", "y")] if not negated else [("x", "y"), ("x", "n"), ("y", "n")]
    parts = draw(st.lists(st.sampled_from(variables).flatmap(lambda pair: _sum_of_two(*pair)), min_size=1, max_size=2))
    if draw(st.booleans()):
        parts.insert(0, "[id]")
    query = f"EVENT SEQ({', '.join(components)})\nWHERE {' AND '.join(parts)}\nWITHIN 9"
    values: dict[str, st.SearchStrategy[Any]] = {"id": st.sampled_from([1, 1, 2])}
    values |= {name: st.sampled_from([*values, *values[:3]]) for name, (_, values) in NUMBERS_AT_THE_END.items()}
    events = [
        {"type": name, "ts": ts, **draw(st.fixed_dictionaries(values))}
        for ts, name in enumerate(("C", "A", "A", "C", "B", "B", "C"))
    ]
    return Case(query, schema, events)


@st.composite
def _sum_of_two(draw: st.DrawFn, one: str, other: str) -> str:
    one, other = draw(st.permutations([one, other]))
    a, c = (f"{one}.{name}" for name in draw(st.tuples(*[st.sampled_from(WHOLE)] * 2)))
    b, e = (f"{other}.{name}" for name in draw(st.tuples(*[st.sampled_from(WHOLE)] * 2)))
    u, v, w = (f"{variable}.{draw(st.sampled_from(list(NUMBERS_AT_THE_END)))}" for variable in (one, other, other))
    constant = draw(st.sampled_from(CONSTANTS))
    op = draw(st.sampled_from(["=", "<", "<=", ">", ">=", "!="]))
    forms = [
        *[f"{a} + {b} {op} {constant}", f"{a} - {b} {op} {constant}"] * 2,
        f"{constant} {op} {a} - {b}",
        f"{a} {op} {b} + {constant}",
        f"{a} + {b} - {c} {op} {constant}",
        f"{a} - {b} {op} {e} + {constant}",
        f"-({a} + {b}) {op} {c}",
        f"CAST({a} AS bigint) + {b} {op} {constant}",
        f"({a} + {b} {op} {constant} OR {c} = {e})",
        f"NOT ({a} - {b} {op} {constant} AND {c} <= {e})",
        f"{a} + {b} BETWEEN 0 AND {constant}",
        f"{u} {op} {v}",
        f"{u} IN ({v}, {w})",
        f"{u} BETWEEN {v} AND {w}",
    ]
    return draw(st.sampled_from(forms))


# ---- RETURN -------------------------------------------------------------------------------------


@st.composite
def _returns(draw: st.DrawFn, pattern: list[Component]) -> str:
    columns = [column for component in pattern if not component.negated for column in component.columns]
    first, *rest = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3))
    items = [first.text, *(f"{column.text} AS r{place}" for place, column in enumerate(rest))]
    numbers = [column.text for column in columns if column.kind in ("bigint", "int", "double")]
    if numbers:
        items.append(f"{draw(st.sampled_from(numbers))} + {draw(st.sampled_from(numbers))} AS total")
    if first.name == "type" or draw(st.booleans()):
        return ", ".join(items)
    return f"EVENT Alert({', '.join(items)})"
