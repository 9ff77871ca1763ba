"""Aggregates over matches: whether they can be had without building a match, and what the kernel adds up for them.

Of a sequence whose events are told by their own attributes and by the key, all matches together are a product of small
matrices. Where conditions compare events, matches are built, and Spark groups them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.aggregates import Aggregate
from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, SaseError
from sase.compiler.core.scalars import Family
from sase.compiler.plan.logical import Plan
from sase.compiler.plan.physical import Grouped, Running, Total


def why_enumerated(plan: Plan) -> str | None:
    """Why matches must be built to be counted; None if not."""
    return next(_reasons(plan), None)


def _reasons(plan: Plan) -> Iterator[str]:
    query = plan.query
    assert query.grouped is not None
    if query.runs:
        yield f"{query.strategy} finds matches one by one"
        return
    if not query.is_sequence or query.arrivals:
        yield "the pattern is no sequence of events"
        return
    if query.reported:
        yield f"{query.reported[0].name} depends on earlier matches"
    if len(query.positive) == 1 and not query.negated and not query.loops:
        yield "each event is a match"
    for part in (*plan.selection.predicates, *plan.construction.predicates):
        yield f"{part} compares events"
    for test in (*plan.selection.equivalences, *plan.construction.equivalences, *plan.scan.cross):
        yield f"{test} is no part of the key"
    if plan.window or (query.within and not plan.scan.window and plan.has_interval):
        yield "the window is checked on whole matches"
    for negation in plan.negations:
        yield f"{negation.variable} is looked for after the matches are built"
    for negation in plan.construction.negations:
        if negation.predicates:
            yield f"{negation.predicates[0]} compares events"
        if any(test not in plan.scan.partition for test in negation.equivalences):
            yield f"{negation.variable} has another key"
        for name in query.neighbours(negation.variable):
            if name is not None and name in query.loops and query.loops[name].least == 0:
                yield f"{name}, beside the negated {negation.variable}, may be left out"
    if query.trailing:
        yield f"{query.trailing[0].name} stands last: it is known at the end of the window"
    for key in query.grouped.by:
        if _key(plan, key) is None:
            yield f"{scalars.sql(key)} is no part of the key"
    for aggregate in aggregates(query):
        value = aggregate.value
        if value is None:
            continue
        if len(scalars.variables(value)) != 1:
            yield f"{scalars.sql(aggregate)} is not about one event"
        elif aggregate.this in ("sum", "avg") and not _is_number(_kind(value)):
            yield f"{scalars.sql(value)} is neither a whole number nor a double"
        elif aggregate.this in ("min", "max") and scalars.family(_kind(value)) not in _ORDERED:
            yield f"the order of {scalars.sql(value)} is known to Spark alone"


_ORDERED = frozenset({Family.NUMBER, Family.STRING, Family.BOOLEAN, Family.DATETIME, Family.BINARY})


def aggregates(query: BoundQuery) -> Iterator[Aggregate]:
    for output in query.returns or ():
        yield from output.value.find_all(Aggregate)


def _kind(value: exp.Expr) -> exp.DataType:
    return scalars.infer(value, [])


def _is_number(kind: exp.DataType) -> bool:
    return scalars.is_integer(kind) or kind.this in (exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT)


def _key(plan: Plan, value: exp.Expr) -> int | None:
    """Which part of the partition key it is."""
    for number, test in enumerate(plan.scan.partition):
        if isinstance(value, exp.Column) and test.attribute(value.table) == value.name:
            return number
    return None


def refuse_to_enumerate(plan: Plan, stream: bool) -> None:
    """A loop that stays whole can be counted, and nothing else. On a stream totals go on, and Spark does not help."""
    query = plan.query
    if query.grouped is not None and stream and why_enumerated(plan) and (unknown := [*_unknown_so_far(query)]):
        raise SaseError(unknown, query.text, query.filename)
    if query.grouped is not None and query.loops and not query.runs and (why := why_enumerated(plan)):
        name = next(iter(query.loops))
        found = Diagnostic(
            f"matches with {name} cannot be counted without building them: {why}",
            query.grouped.span,
            "what is asked of events may concern each by itself, and the key: [id] in WHERE",
        )
        raise SaseError([found], query.text, query.filename)


def _unknown_so_far(query: BoundQuery) -> Iterator[Diagnostic]:
    """Why totals of matches cannot go on."""
    assert query.grouped is not None
    known = "on a stream, totals so far are added up match by match, and"
    for aggregate in aggregates(query):
        value = aggregate.value
        if value is None:
            continue
        if aggregate.this in ("min", "max") and scalars.family(_kind(value)) not in _ORDERED:
            why = f"{known} the order of {scalars.sql(value)} is known to Spark alone"
            yield Diagnostic(why, query.grouped.span, "ask for a number, a string or a time in there")
        elif aggregate.this == "avg" and (digits := _decimal(value)) is not None:
            precision, scale = digits
            if 38 - (min(precision + 10, 38) - scale) < scale + 4:
                why = f"{known} the average of decimal({precision},{scale}) does not fit into 38 digits"
                help = f"make it a double, avg(CAST({scalars.sql(value)} AS double))"
                yield Diagnostic(why, query.grouped.span, help)


# ---- what is added up ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    """What the kernel adds up, which columns of the key it shows, and what the result makes of that."""

    totals: tuple[Total, ...]
    shown: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]


def counted(plan: Plan, keys: Sequence[str], column: Callable[[str, exp.Expr], str], name: str) -> Counted:
    """`column` tells where the value of an event of a variable stands; totals are called `name` and a number."""
    query, totals = plan.query, list[Total]()

    def total(kind: str, value: exp.Expr | None, real: bool) -> exp.Expr:
        variable = None if value is None else next(iter(scalars.variables(value)))
        place = None if variable is None or value is None else column(variable, value)
        known = next((each for each in totals if (each.kind, each.column, each.real) == (kind, place, real)), None)
        if known is None or known.variable != variable:
            known = Total(f"{name}_{len(totals) + 1}", kind, variable, place, real)
            totals.append(known)
        return _own(known.name)

    def made(aggregate: Aggregate) -> exp.Expr:
        value = aggregate.value
        match aggregate.this:
            case "count":
                return total("count", value, aggregate.real)
            case "sum":  # of nothing, it is NULL
                assert value is not None
                real = aggregate.real or not scalars.is_integer(_kind(value))
                some = exp.GT(this=total("count", value, True), expression=exp.Literal.number(0))
                return exp.Case(ifs=[exp.If(this=some, true=total("sum", value, real))])
            case "avg":
                parts = [total("sum", value, True), total("count", value, True)]
                return exp.Anonymous(this="try_divide", expressions=parts)
            case kind:
                return total(kind, value, False)

    by = {value: _own(keys[number]) for value in _by(query) if (number := _key(plan, value)) is not None}
    columns = _columns(query, by, made)
    if not totals:
        total("count", None, True)  # that there is a match at all
    return Counted(tuple(totals), tuple(dict.fromkeys(key.name for key in by.values())), columns)


def grouped_by_spark(query: BoundQuery, group: str, name: str, why: str | None) -> tuple[Grouped, Columns]:
    """For matches that are built: groups and totals are called so, with numbers."""
    by = {value: f"{group}_{number}" for number, value in enumerate(_by(query), 1)}
    totals: dict[str, str] = {}

    def made(aggregate: Aggregate) -> exp.Expr:
        return _own(totals.setdefault(_in_spark(query, aggregate), f"{name}_{len(totals) + 1}"))

    columns = _columns(query, {value: _own(column) for value, column in by.items()}, made)
    if not totals:
        totals["count(*)"] = f"{name}_1"
    pairs = tuple((scalars.sql(value), column) for value, column in by.items())
    return Grouped(pairs, tuple(totals.items()), why), columns


def running_totals(query: BoundQuery, group: str, name: str, why: str | None) -> tuple[Grouped, Columns]:
    """For matches of a stream: groups and totals are called so, with numbers. What batch makes of all matches is made
    of what each of them adds."""
    by = {value: f"{group}_{number}" for number, value in enumerate(_by(query), 1)}
    found: list[Running] = []

    def total(kind: str, sql: str, real: bool = False) -> exp.Expr:
        known = next((each for each in found if (each.kind, each.sql, each.real) == (kind, sql, real)), None)
        if known is None:
            known = Running(sql, f"{name}_{len(found) + 1}", kind, real)
            found.append(known)
        return _own(known.name)

    def count(sql: str, real: bool = False) -> exp.Expr:
        return total("count", f"CAST({sql} AS {'double' if real else 'bigint'})", real)

    def made(aggregate: Aggregate) -> exp.Expr:
        value, real = aggregate.value, aggregate.real
        if value is None:
            return count("1", real)
        some = _some(query, value)
        number = f"size({some})" if some else f"{_operand(value)} IS NOT NULL"
        if aggregate.this == "count":
            return count(number, real)
        if aggregate.this in ("min", "max"):
            return total(aggregate.this, f"array_{aggregate.this}({some})" if some else scalars.sql(value))
        digits = _decimal(value)
        kind = "bigint" if aggregate.this == "sum" and scalars.is_integer(_kind(value)) else "double"
        if digits is not None:
            kind = f"decimal({min(digits[0] + 10, 38)},{digits[1]})"
        if real and aggregate.this == "sum":
            kind = "double"
        each = f"aggregate({some}, CAST(0 AS {kind}), (t, e) -> CAST(t + e AS {kind}))" if some else scalars.sql(value)
        added = total("sum", f"coalesce(CAST({each} AS {kind}), 0)", kind == "double")
        if aggregate.this == "sum":  # of nothing, it is NULL
            there = exp.GT(this=count(number), expression=exp.Literal.number(0))
            return exp.Case(ifs=[exp.If(this=there, true=added)])
        average: exp.Expr = exp.Anonymous(this="try_divide", expressions=[added, count(number)])
        if digits is not None:
            average = exp.cast(average, f"decimal({min(digits[0] + 4, 38)},{digits[1] + 4})", dialect="spark")
        return exp.cast(average, "double", dialect="spark") if real else average

    columns = _columns(query, {value: _own(column) for value, column in by.items()}, made)
    if not found:
        count("1")  # that there is a match at all
    pairs = tuple((scalars.sql(value), column) for value, column in by.items())
    return Grouped(pairs, (), why, tuple(found)), columns


def _decimal(value: exp.Expr) -> tuple[int, int] | None:
    """How many digits a decimal has, and how many of them behind the point."""
    kind = _kind(value)
    if kind.this != exp.DataType.Type.DECIMAL:
        return None
    digits = [int(each.name) for each in kind.expressions]
    return (digits[0], digits[1] if len(digits) > 1 else 0) if digits else (10, 0)


def _operand(value: exp.Expr) -> str:
    return scalars.sql(value if isinstance(value, exp.Column) else exp.Paren(this=value.copy()))


def _some(query: BoundQuery, value: exp.Expr) -> str | None:
    """What a loop has is an array: its values that are there. None where a match has one value."""
    loops = [name for name in scalars.variables(value) if name in query.loops]
    if not loops or query.loops[loops[0]].single:
        return None

    def of_one(part: exp.Expr) -> exp.Expr:
        return exp.Dot(this=exp.to_identifier("e"), expression=part.this) if isinstance(part, exp.Column) else part

    bare = scalars.without_variable(value).transform(of_one)
    return f"filter(transform({scalars.column_sql(loops[0])}, e -> {scalars.sql(bare)}), e -> e IS NOT NULL)"


def _in_spark(query: BoundQuery, aggregate: Aggregate) -> str:
    """As Spark aggregates matches. What a loop has is aggregated in each match first."""
    value = aggregate.value
    some = _some(query, value) if value is not None else None
    if some is None:
        return scalars.sql(aggregate)
    count = f"coalesce(sum(CAST(size({some}) AS bigint)), 0)"
    match aggregate.this:
        case "count":
            return f"CAST({count} AS double)" if aggregate.real else count
        case "sum" | "avg":
            of = scalars.infer(aggregate, [])
            kind = "double" if aggregate.this == "avg" or of == scalars.UNKNOWN else scalars.type_sql(of)
            added = f"aggregate({some}, CAST(0 AS {kind}), (t, e) -> CAST(t + e AS {kind}))"
            total = f"sum(IF(size({some}) > 0, {added}, NULL))"
            return f"try_divide({total}, {count})" if aggregate.this == "avg" else total
        case kind:
            return f"{kind}(array_{kind}({some}))"


Columns = tuple[tuple[str, str], ...]


def _by(query: BoundQuery) -> tuple[exp.Expr, ...]:
    return query.grouped.by if query.grouped is not None else ()


def _own(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _columns(query: BoundQuery, by: Mapping[exp.Expr, exp.Expr], made: Callable[[Aggregate], exp.Expr]) -> Columns:
    def visit(part: exp.Expr) -> exp.Expr:
        if isinstance(part, Aggregate):
            return made(part)
        return by[part].copy() if part in by else part

    return tuple((scalars.sql(output.value.copy().transform(visit)), output.name) for output in query.returns or ())
