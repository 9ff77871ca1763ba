"""Scalar expressions on sqlglot's nodes: what type they have, how they are written in Spark SQL.

Columns carry their type once the binder has resolved them. sqlglot knows the result types of Spark's functions;
operators are typed here, because a mismatch must point at its operands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from enum import Enum, auto

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from sase.compiler.core.errors import Diagnostic
from sase.compiler.core.spans import at, span_of


class Folded(exp.Expression, exp.Condition):
    """One value of several events: `count(t)`, `sum(t.v)`, of a variable that is collected or repeated.

    `this` is the function's name. A collected variable, or one of `BoundQuery.loops`, is an array, so `t.v` is one of
    values; of a repeated variable, `expressions` has the column of each event, and `times` their times, where some of
    them may be unbound; `optional` says that all of them may be, and are then no events.

    Of a loop, `element` is the value of the event at `index`, from the end where that is negative. In a condition that
    holds of each of its events, `previous` is the value of the event before, `b[i-1].v`, and with `earlier` only the
    events before are folded, `avg(b[..i-1].v)`.
    """

    arg_types = {  # noqa: RUF012
        "this": True,
        "expressions": True,
        **dict.fromkeys(("times", "collected", "index", "earlier", "optional"), False),
    }

    @property
    def looks_back(self) -> bool:
        """Whether it depends on which event of a loop is at hand."""
        return self.this == "previous" or bool(self.args.get("earlier"))


FOLDS = ("count", "sum", "avg", "min", "max", "collect", "first", "last")


class Family(Enum):
    """Types that compare with each other; a value of one family is never compared with one of another."""

    NUMBER = auto()
    STRING = auto()
    BOOLEAN = auto()
    DATETIME = auto()
    INTERVAL = auto()
    BINARY = auto()
    OTHER = auto()
    ANY = auto()  # NULL, or not known here: Spark decides


_LIKES: dict[type[exp.Expr], str] = {exp.Like: "LIKE", exp.ILike: "ILIKE", exp.RegexpLike: "RLIKE"}
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)

UNKNOWN = exp.DataType.build("unknown")
BOOLEAN = exp.DataType.build("boolean")
BIGINT = exp.DataType.build("bigint")
DOUBLE = exp.DataType.build("double")
INTERVAL = exp.DataType(this=exp.DataType.Type.INTERVAL)

_T = exp.DataType.Type
_INTEGERS = {_T.TINYINT, _T.SMALLINT, _T.INT, _T.BIGINT}
_FLOATS = {_T.FLOAT, _T.DOUBLE}
_DECIMALS = {_T.DECIMAL}
_STRINGS = {_T.TEXT, _T.VARCHAR, _T.CHAR, _T.NCHAR, _T.NVARCHAR}
_DATETIMES = {_T.DATE, _T.TIMESTAMP, _T.TIMESTAMPTZ, _T.TIMESTAMPLTZ, _T.TIMESTAMPNTZ, _T.DATETIME}
_FAMILIES = {
    **dict.fromkeys(_INTEGERS | _FLOATS | _DECIMALS, Family.NUMBER),
    **dict.fromkeys(_STRINGS, Family.STRING),
    **dict.fromkeys(_DATETIMES, Family.DATETIME),
    _T.BOOLEAN: Family.BOOLEAN,
    _T.INTERVAL: Family.INTERVAL,
    _T.BINARY: Family.BINARY,
    _T.VARBINARY: Family.BINARY,
    _T.NULL: Family.ANY,
    _T.UNKNOWN: Family.ANY,
}


def family(kind: exp.DataType) -> Family:
    return _FAMILIES.get(kind.this, Family.OTHER)


def is_integer(kind: exp.DataType) -> bool:
    return kind.this in _INTEGERS


def largest_integer(kind: exp.DataType) -> int:
    bits = {_T.TINYINT: 8, _T.SMALLINT: 16, _T.INT: 32, _T.BIGINT: 64}
    return int(2 ** (bits[kind.this] - 1)) - 1


def is_float(kind: exp.DataType) -> bool:
    return kind.this in _FLOATS


def holds_float(kind: exp.DataType) -> bool:
    """Whether it is a float, or has one inside a struct, an array or a map."""
    return any(map(is_float, kind.find_all(exp.DataType)))


def data_type(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="spark")


def is_string(kind: exp.DataType) -> bool:
    return kind.this in _STRINGS


def type_sql(kind: exp.DataType) -> str:
    """A type as a catalog writes it: bigint, timestamp, decimal(10,2)."""
    return "unknown" if kind.this == _T.UNKNOWN else kind.sql(dialect="spark").lower().replace(", ", ",")


def a_type(kind: exp.DataType) -> str:
    """`a bigint`, `an int`: for messages."""
    name = type_sql(kind)
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def columns(node: exp.Expr) -> Iterator[exp.Column]:
    return node.find_all(exp.Column)


def single_columns(node: exp.Expr) -> Iterator[exp.Column]:
    """Those of single events: of what is collected, only a condition on each of the events speaks."""
    return (
        column
        for column in columns(node)
        if not (isinstance(column.parent, Folded) and column.parent.args.get("collected"))
    )


def variables(node: exp.Expr) -> frozenset[str]:
    return frozenset(column.table for column in columns(node))


def unparenthesised(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a conjunction, in order; `NOT (a OR b)` is one, too."""
    inner = unparenthesised(node)
    if isinstance(inner, exp.And):
        yield from conjuncts(inner.left)
        yield from conjuncts(inner.right)
    elif isinstance(inner, exp.Not) and isinstance(unparenthesised(inner.this), exp.Or):
        disjunction = unparenthesised(inner.this)
        assert isinstance(disjunction, exp.Or)
        for side in (disjunction.left, disjunction.right):
            yield from conjuncts(at(exp.Not(this=_operand(side)), span_of(side)))
    else:
        yield inner


def _operand(node: exp.Expr) -> exp.Expr:
    """A copy that keeps its meaning as an operand of NOT, AND or OR."""
    copied = node.copy()
    return exp.Paren(this=copied) if isinstance(copied, exp.Connector | exp.Not) else copied


def conjunction(parts: list[exp.Expr]) -> exp.Expr:
    return _connect(exp.And, parts)


def disjunction(parts: list[exp.Expr]) -> exp.Expr:
    return _connect(exp.Or, parts)


def _connect(kind: type[exp.Connector], parts: list[exp.Expr]) -> exp.Expr:
    return balanced(kind, [_operand(part) for part in parts])


def balanced(kind: type[exp.Connector], operands: list[exp.Expr]) -> exp.Expr:
    """A chain of one connector as a flat tree, so that thousands of operands nest a dozen deep. It reads the same."""
    if len(operands) == 1:
        return operands[0]
    half = len(operands) // 2
    left, right = balanced(kind, operands[:half]), balanced(kind, operands[half:])
    joined = kind(this=left, expression=right)
    if "span" in left.meta and "span" in right.meta:
        at(joined, span_of(left).to(span_of(right)))
    return joined


# ---- types --------------------------------------------------------------------------------------

_FORBIDDEN_FUNCTIONS = {
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), "it runs Java code"),
    **dict.fromkeys(
        (
            *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
            *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
        ),
        "its value depends on more than the event, so the answer would depend on the plan",
    ),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value"),
        "it looks at other rows; a pattern names the events it speaks of",
    ),
}


def infer(node: exp.Expr, found: list[Diagnostic]) -> exp.DataType:
    """The type of a bound expression; mismatches are added to `found`, string literals take their partner's type."""
    match node:
        case exp.Column() | exp.Dot():
            return node.type or UNKNOWN
        case exp.Anonymous() if node.meta.get("field"):
            return node.type or UNKNOWN
        case exp.Literal():
            if node.is_string:
                return exp.DataType.build("string", dialect="spark")
            return _number_type(node.this)
        case exp.Boolean():
            return BOOLEAN
        case exp.Null():
            return exp.DataType.build("null")
        case exp.Paren():
            return infer(node.this, found)
        case exp.Cast():
            infer(node.this, found)
            return node.to
        case exp.Interval():
            return INTERVAL
        case exp.Neg(this=exp.Literal(is_string=False)):
            return _number_type(f"-{node.this.this}")  # for Spark, the sign is part of the number
        case exp.Neg():
            kind = infer(node.this, found)
            if family(kind) not in (Family.NUMBER, Family.INTERVAL, Family.ANY):
                found.append(Diagnostic(f"- needs a number, not {a_type(kind)}", span_of(node.this)))
            return kind
        case exp.Not():
            _condition(node.this, found)
            return BOOLEAN
        case exp.And() | exp.Or():
            _condition(node.left, found)
            _condition(node.right, found)
            return BOOLEAN
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            _comparable(node.left, node.right, found)
            _not_with_null(node, found)
            return BOOLEAN
        case exp.In():
            for value in node.expressions:
                _comparable(node.this, value, found)
            return BOOLEAN
        case exp.Between():
            _comparable(node.this, node.args["low"], found)
            _comparable(node.this, node.args["high"], found)
            return BOOLEAN
        case exp.Like() | exp.ILike() | exp.RegexpLike():
            for side in (node.this, node.expression):
                kind = infer(side, found)
                if family(kind) not in (Family.STRING, Family.ANY):
                    found.append(
                        Diagnostic(
                            f"{_LIKES[type(node)]} compares strings, and this is {a_type(kind)}",
                            span_of(side),
                            "CAST(… AS string) makes a string of it",
                        )
                    )
            return BOOLEAN
        case exp.Is():
            infer(node.this, found)
            return BOOLEAN
        case exp.Binary() if isinstance(node, _ARITHMETIC):
            return _chain(node, found)
        case exp.Case():
            return _case(node, found)
        case exp.Anonymous():
            return _function(node, found)
        case Folded():
            return _folded_type(node, found)
        case _:
            raise AssertionError(f"no type for {node!r}")


def _condition(node: exp.Expr, found: list[Diagnostic]) -> None:
    kind = infer(node, found)
    if family(kind) not in (Family.BOOLEAN, Family.ANY):
        found.append(
            Diagnostic(
                f"a condition is expected here, and this is {a_type(kind)}",
                span_of(node),
                "compare it with something",
            )
        )


def check_condition(node: exp.Expr, found: list[Diagnostic]) -> None:
    _condition(node, found)


def _number_type(text: str) -> exp.DataType:
    digits = text.removeprefix("-")
    if digits.isdecimal():
        number = int(text)
        kind = "int" if -(2**31) <= number < 2**31 else "bigint" if -(2**63) <= number < 2**63 else None
        return exp.DataType.build(kind or f"decimal({len(digits.lstrip('0'))},0)")
    if "e" in text.lower():
        return DOUBLE
    whole, _, fraction = digits.partition(".")
    return exp.DataType.build(f"decimal({max(len(whole.lstrip('0')) + len(fraction), 1)},{len(fraction)})")


def _comparable(left: exp.Expr, right: exp.Expr, found: list[Diagnostic]) -> None:
    left_type, right_type = infer(left, found), infer(right, found)
    families = {family(left_type), family(right_type)}
    if len(families) == 1 or Family.ANY in families:
        return
    for literal, other, kind in ((left, right, right_type), (right, left, left_type)):
        if isinstance(literal, exp.Literal) and literal.is_string:
            if _coerce(literal, kind):
                return
            if family(kind) in (Family.NUMBER, Family.DATETIME, Family.BOOLEAN):
                found.append(
                    Diagnostic(
                        f"{_shown(other)} is {a_type(kind)}, and {literal.this!r} is not",
                        span_of(literal),
                        f"compare it with {a_type(kind)}",
                    )
                )
                return
    advice = f"CAST(… AS {type_sql(left_type)}) converts"
    if Family.INTERVAL in families:
        advice = "an interval is compared with a length of time, such as 5 minutes"
    found.append(
        Diagnostic(
            f"{a_type(left_type)} cannot be compared with {a_type(right_type)}",
            span_of(left).to(span_of(right)),
            f"{_shown(left)} is {a_type(left_type)}, {_shown(right)} is {a_type(right_type)}; {advice}",
        )
    )


def _not_with_null(node: exp.Binary, found: list[Diagnostic]) -> None:
    for side, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(unparenthesised(side), exp.Null):
            test = "IS NOT NULL" if isinstance(node, exp.NEQ) else "IS NULL"
            found.append(
                Diagnostic(
                    "NULL compares to nothing: this is never true", span_of(side), f"write {_shown(other)} {test}"
                )
            )
            return


def _coerce(literal: exp.Literal, kind: exp.DataType) -> bool:
    """`'1'` compared with a number is the number 1, as the papers write it; dates and times likewise."""
    text = literal.this.strip()
    span = span_of(literal)
    match family(kind):
        case Family.NUMBER if re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", text, re.IGNORECASE):
            number: exp.Expr = at(exp.Literal.number(text.lstrip("+-")), span)
            literal.replace(at(exp.Neg(this=number), span) if text.startswith("-") else number)
        case Family.BOOLEAN if text.lower() in ("true", "false"):
            literal.replace(at(exp.Boolean(this=text.lower() == "true"), span))
        case Family.DATETIME if _is_datetime(text):
            literal.replace(at(exp.Cast(this=literal.copy(), to=kind.copy()), span))
        case _:
            return False
    return True


def _is_datetime(text: str) -> bool:
    for reader in (datetime.fromisoformat, date.fromisoformat):
        try:
            reader(text)
            return True
        except ValueError:
            continue
    return False


def _chain(node: exp.Binary, found: list[Diagnostic]) -> exp.DataType:
    """`a + b - c + …` nests to the left, as deep as it is long: from the inside out, without recursion."""
    spine = [node]
    while isinstance(spine[-1].left, _ARITHMETIC):
        spine.append(spine[-1].left)
    kind = infer(spine[-1].left, found)
    for operation in reversed(spine):
        kind = _arithmetic(operation, kind, infer(operation.right, found), found)
    return kind


def _arithmetic(node: exp.Binary, left: exp.DataType, right: exp.DataType, found: list[Diagnostic]) -> exp.DataType:
    families = (family(left), family(right))
    symbol = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "intdiv": "DIV"}[node.key]
    match families:
        case (Family.NUMBER, Family.NUMBER):
            if isinstance(node, exp.Div):
                return DOUBLE if not (left.this in _DECIMALS or right.this in _DECIMALS) else UNKNOWN
            if isinstance(node, exp.IntDiv):
                return BIGINT
            return comparison_type(left, right) or UNKNOWN
        case (Family.DATETIME, Family.DATETIME) if isinstance(node, exp.Sub):
            return INTERVAL
        case (Family.DATETIME, Family.INTERVAL) if isinstance(node, exp.Add | exp.Sub):
            return left if left.this != _T.DATE else UNKNOWN
        case (Family.INTERVAL, Family.DATETIME) if isinstance(node, exp.Add):
            return right if right.this != _T.DATE else UNKNOWN
        case (Family.INTERVAL, Family.INTERVAL) if isinstance(node, exp.Add | exp.Sub):
            return INTERVAL
        case (Family.INTERVAL, Family.NUMBER) if isinstance(node, exp.Mul | exp.Div):
            return INTERVAL
        case (Family.NUMBER, Family.INTERVAL) if isinstance(node, exp.Mul):
            return INTERVAL
        case _ if Family.ANY in families or Family.OTHER in families:
            return UNKNOWN
    help = "add an INTERVAL, such as 5 minutes" if Family.DATETIME in families else "arithmetic takes numbers"
    found.append(
        Diagnostic(
            f"{symbol} cannot take {a_type(left)} and {a_type(right)}",
            span_of(node.left).to(span_of(node.right)),
            help,
        )
    )
    return UNKNOWN


def comparison_type(left: exp.DataType, right: exp.DataType) -> exp.DataType | None:
    """The type in which Spark compares and adds up the two; None where only Spark knows.

    An integer and a float are doubles with ANSI and floats without.
    """
    mixed = {_T.FLOAT} < {left.this, right.this} and (is_integer(left) or is_integer(right))
    return None if mixed else wider(left, right)


def wider(left: exp.DataType, right: exp.DataType) -> exp.DataType | None:
    """The type both convert to without loss; None where Spark's own rules are needed."""
    if left == right:
        return left
    if is_integer(left) and is_integer(right):
        order = [_T.TINYINT, _T.SMALLINT, _T.INT, _T.BIGINT]
        return left if order.index(left.this) > order.index(right.this) else right
    if (is_float(left) or is_integer(left)) and (is_float(right) or is_integer(right)):
        return DOUBLE
    if family(left) == family(right) == Family.STRING:
        return exp.DataType.build("string", dialect="spark")
    return None


def _case(node: exp.Case, found: list[Diagnostic]) -> exp.DataType:
    kinds: list[exp.DataType] = []
    for branch in node.args["ifs"]:
        if node.this:
            _comparable(node.this, branch.this, found)
        else:
            _condition(branch.this, found)
        kinds.append(infer(branch.args["true"], found))
    if default := node.args.get("default"):
        kinds.append(infer(default, found))
    known = [kind for kind in kinds if kind.this != _T.NULL]
    return known[0] if known and all(kind == known[0] for kind in known) else UNKNOWN


def _function(node: exp.Anonymous, found: list[Diagnostic]) -> exp.DataType:
    kinds = [infer(argument, found) for argument in node.expressions]
    span = node.meta.get("name_span") or span_of(node)
    if reason := _FORBIDDEN_FUNCTIONS.get(node.name.lower()):
        found.append(
            Diagnostic(f"{node.name} is not allowed: {reason}", span, "use a function of the event's attributes")
        )
        return UNKNOWN
    # Typed as sqlglot's own node, over arguments of known types; printed as the user wrote it.
    arguments = [exp.cast(exp.Null(), kind.copy()) for kind in kinds]
    try:
        known = exp.func(node.name, *arguments, dialect="spark")
        kind = annotate_types(known, dialect="spark").type
    except (SqlglotError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return UNKNOWN
    if isinstance(known, exp.AggFunc):
        found.append(
            Diagnostic(
                f"{node.name} is an aggregate, and this is a single event",
                span,
                "fold what ALL(A a) collects, or what A{2,4} a repeats; or aggregate the matches in Spark",
            )
        )
    elif isinstance(known, exp.UDTF):
        found.append(Diagnostic(f"{node.name} makes rows, and a value is needed here", span))
    return _as_spark_has_it(node.name.lower(), kinds, kind or UNKNOWN)


def _folded_type(node: Folded, found: list[Diagnostic]) -> exp.DataType:
    kind = infer(node.expressions[0], found)
    match node.this:
        case "size" | "count":
            return exp.DataType.build("int")
        case "sum" | "avg" if family(kind) not in (Family.NUMBER, Family.ANY):
            found.append(Diagnostic(f"{node.this} needs numbers, not {a_type(kind)}", span_of(node)))
            return UNKNOWN
        case "sum":
            return _sum_type(kind)
        case "avg":
            return UNKNOWN if kind.this in _DECIMALS else DOUBLE
        case "collect":
            return exp.DataType.build(f"array<{type_sql(kind)}>", dialect="spark") if kind != UNKNOWN else UNKNOWN
        case _:
            return kind


def _sum_type(kind: exp.DataType) -> exp.DataType:
    if is_integer(kind):
        return BIGINT
    if kind.this in _DECIMALS:
        precision, scale = (int(size.name) for size in kind.expressions)
        return exp.DataType.build(f"decimal({min(precision + 10, 38)},{scale})")
    return DOUBLE


def _as_spark_has_it(name: str, kinds: list[exp.DataType], guess: exp.DataType) -> exp.DataType:
    """The type of a function's result, where sqlglot's guess is not that of Spark; UNKNOWN where Spark decides."""
    match name:
        case "coalesce" | "nvl" | "ifnull" | "greatest" | "least":
            return _together(kinds)
        case "if" if len(kinds) == 3:
            return _together(kinds[1:])
        case "mod":
            both = _together(kinds)
            return both if is_integer(both) or is_float(both) else UNKNOWN
        case "abs" | "negative":
            return kinds[0] if family(kinds[0]) == Family.NUMBER else UNKNOWN
        case "round":
            return kinds[0] if is_integer(kinds[0]) or is_float(kinds[0]) else UNKNOWN
        case "year" | "month" | "day" | "dayofmonth" | "weekofyear":
            return exp.DataType.build("int")
        case "reverse" | "left":
            return guess if is_string(kinds[0]) else UNKNOWN
        case "nullif":
            return kinds[0]
        case "shiftleft" | "shiftright" | "trunc":
            return UNKNOWN
        case _:
            return guess


def _together(kinds: list[exp.DataType]) -> exp.DataType:
    """The one type that Spark makes of several."""
    known = [kind for kind in kinds if kind.this != _T.NULL]
    result: exp.DataType | None = known[0] if known else UNKNOWN
    for kind in known[1:]:
        result = comparison_type(result, kind) if result is not None else None
    return UNKNOWN if result is None else result


def _shown(node: exp.Expr) -> str:
    text = sql(node)
    return text if len(text) <= 40 else text[:39] + "…"


# ---- Spark SQL ----------------------------------------------------------------------------------

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that start or join an expression; Spark takes the others as names as they are.
_KEYWORDS = frozenset(
    """
    ALL AND ANTI ANY AS BETWEEN CASE CAST CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DATE DISTINCT
    DIV ELSE END EXCEPT EXISTS EXTRACT FALSE FILTER FOR FROM FULL GROUP HAVING IN INNER INTERSECT INTERVAL INTO IS JOIN
    LATERAL LEFT LIKE MINUS NATURAL NOT NULL ON OR ORDER OUTER OVERLAY POSITION RIGHT RLIKE SELECT SEMI SESSION_USER
    SETMINUS SOME STRUCT SUBSTRING TABLE THEN TIMESTAMP TRIM TRUE UNION UNIQUE USER USING VALUES WHEN WHERE WITH
    """.split()  # noqa: SIM905
)


def is_plain_name(name: str) -> bool:
    """A name that Spark SQL takes without backquotes."""
    return bool(_PLAIN_NAME.fullmatch(name)) and name.upper() not in _KEYWORDS


def sql(node: exp.Expr, pretty: bool = False) -> str:
    """Spark SQL text; names and literals are quoted by sqlglot's generator, never by pasting."""
    copied = node.copy().transform(lambda part: _unfolded(part) if isinstance(part, Folded) else part, copy=False)
    for identifier in copied.find_all(exp.Identifier):
        identifier.set("quoted", not is_plain_name(identifier.this))
    text: str = copied.sql(dialect="spark", comments=False, normalize_functions=False, pretty=pretty)
    return text


def _unfolded(node: Folded) -> exp.Expr:
    """A fold in Spark's own functions: on an array of structs, `t.v` is the array of their values."""
    columns: list[exp.Expr] = [column.copy() for column in node.expressions]
    values = columns[0] if node.args.get("collected") else _call("array", *columns)
    if node.looks_back:  # to be read only: the kernel checks it
        (column,) = node.expressions
        back = "[i-1]" if node.this == "previous" else "[..i-1]"
        shown = exp.Var(this=f"{column_sql(column.table)}{back}.{column_sql(column.name)}")
        return shown if node.this == "previous" else _call(node.this, shown)
    if node.this == "element":
        index = int(node.args["index"])
        one = exp.Literal.number(abs(index) if index < 0 else index + 1)
        return _call("try_element_at", values, exp.Neg(this=one) if index < 0 else one)
    times = node.args.get("times")
    count = (
        _call("array_size", _call("array_compact", _call("array", *(time.copy() for time in times)))) if times else None
    )
    match node.this:
        case "size":
            return count or _call("array_size", values)
        case "count":
            return _call("array_size", _call("array_compact", values))
        case "sum":
            return _sum(values, columns[0].type or UNKNOWN)
        case "avg":
            number = _call("array_size", _call("array_compact", values.copy()))
            divisor = _call("nullif", number, exp.Literal.number(0))
            return exp.Paren(this=exp.Div(this=_sum(values, columns[0].type or UNKNOWN), expression=divisor))
        case "min" | "max":
            return _call(f"array_{node.this}", values)
        case "collect":
            return _call("slice", values, exp.Literal.number(1), count) if count else values
        case "first" | "last" if node.args.get("collected"):
            one = exp.Literal.number(1)
            return _call("try_element_at", values, one if node.this == "first" else exp.Neg(this=one))
        case "first":
            return columns[0]
        case "last":
            return _call("get", values, exp.Sub(this=count, expression=exp.Literal.number(1))) if count else columns[-1]
        case _:
            raise AssertionError(node.this)


def _sum(values: exp.Expr, kind: exp.DataType) -> exp.Expr:
    """NULL is skipped, and the sum of nothing is NULL. Simultaneous events come in no order, on which a sum of floating
    point numbers may not depend."""
    total = _sum_type(kind)
    ordered = values if is_integer(kind) or kind.this in _DECIMALS else _call("array_sort", values)
    so_far, value = (exp.to_identifier(name) for name in ("s", "v"))
    added = exp.Add(this=so_far.copy(), expression=value.copy())
    step = exp.cast(_call("coalesce", added, so_far.copy(), value.copy()), total.copy())
    start = exp.cast(exp.Null(), total.copy())
    return _call("aggregate", ordered, start, exp.Lambda(this=step, expressions=[so_far, value]))


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def without_variable(node: exp.Expr) -> exp.Expr:
    """The expression over the columns of an event rather than over `variable.attribute`."""

    def strip(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            return exp.Column(this=part.this.copy())
        return part

    return node.copy().transform(strip)


def column_sql(name: str) -> str:
    return sql(exp.to_identifier(name, quoted=True))
