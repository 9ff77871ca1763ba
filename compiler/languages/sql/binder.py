"""A clause as it was written → what it means: variables found, and every value at its row."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from sase.compiler.core.durations import UNITS, microseconds, unknown_unit
from sase.compiler.core.errors import Diagnostic, SaseError, Span, did_you_mean
from sase.compiler.core.rows import (
    AGGREGATES,
    Address,
    At,
    Classifier,
    Exclude,
    MatchNumber,
    Measure,
    Node,
    OrderKey,
    Over,
    Repeat,
    RowClause,
    Skip,
    Symbol,
    Window,
    symbols,
)
from sase.compiler.core.windows import ticks_of
from sase.compiler.languages.sql.arrays import CLASSES, FORMULAS, LABELLED, TAKES, over_array
from sase.compiler.languages.sql.clause import Clause, Named
from sase.compiler.languages.sql.expressions import ENDS, SEMANTICS, STEPS, parse_expression, place
from sase.compiler.languages.sql.tokens import Tokens, span

_AGGREGATE_CLASSES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.Avg: "avg",
    exp.ArrayAgg: "array_agg",
}
_AGGREGATE_NAMES = {
    **{name.upper(): name for name in (*AGGREGATES, *FORMULAS)},
    "COLLECT_LIST": "array_agg",
    "EVERY": "bool_and",
    "LISTAGG": "string_agg",
    "SOME": "bool_or",
    "STDDEV_SAMP": "stddev",
    "VAR_SAMP": "variance",
}
_RANDOM = (exp.Rand, exp.Randn, exp.Uuid)
_RANDOM_NAMES = {
    "MONOTONICALLY_INCREASING_ID",
    "SHUFFLE",
    "RANDSTR",
    "UNIFORM",
    "SPARK_PARTITION_ID",
    "INPUT_FILE_NAME",
}


def bind_clause(clause: Clause, dialect: Dialect) -> RowClause:
    """Raises all that is wrong with the names of a clause."""
    return _Binder(clause, dialect).bound()


class _Binder:
    def __init__(self, clause: Clause, dialect: Dialect) -> None:
        assert clause.pattern is not None
        self.clause, self.dialect, self.pattern = clause, dialect, clause.pattern
        self.found: list[Diagnostic] = []
        self.variables = tuple(dict.fromkeys(symbol.variable for symbol in symbols(self.pattern)))
        self.unions: dict[str, tuple[str, ...]] = {name: (name,) for name in self.variables}

    def _error(self, message: str, at: Span, help: str | None = None) -> None:
        self.found.append(Diagnostic(message, at, help))

    def bound(self) -> RowClause:
        clause = self.clause
        self._subsets()
        one = clause.shown == "one row"
        by = tuple(self._key(item, "PARTITION BY") for item in clause.by)
        order = tuple(self._order(item) for item in clause.order)
        measures = self._measures(final=one)
        define = self._define()
        skip = self._skip()
        self._exclusions()
        within = self._within(order) if clause.within else None
        if self.found:
            raise SaseError(self.found, clause.text, clause.filename)
        at = span(clause.tokens)
        text = clause.text[at.start : at.end]
        return RowClause(by, order, measures, clause.shown, skip, self.pattern, within, define, text, at)

    # ---- names ----------------------------------------------------------------------------------

    def _subsets(self) -> None:
        for name, at, members in self.clause.subsets:
            if name in self.unions:
                self._error(f"{name} is a variable already", at, "give the subset another name")
                continue
            for member, where in members:
                if member not in self.variables:
                    self._error(f"PATTERN has no variable {member}", where, did_you_mean(member, self.variables))
            self.unions[name] = tuple(member for member, _ in members)

    def _skip(self) -> Skip:
        skip = self.clause.skip
        if skip is None:
            return Skip()
        if skip.variable is None:
            return Skip("next row" if skip.to == "next row" else "past last row")
        if skip.variable not in self.unions:
            self._error(
                f"PATTERN has no variable {skip.variable}", skip.place, did_you_mean(skip.variable, self.unions)
            )
            return Skip()
        return Skip("first" if skip.to == "first" else "last", self.unions[skip.variable])

    def _exclusions(self) -> None:
        if self.clause.shown != "all rows and unmatched rows":
            return
        for node in _nodes(self.pattern):
            if isinstance(node, Exclude):
                why = "ALL ROWS PER MATCH WITH UNMATCHED ROWS shows all rows, and {- -} takes some out"
                self._error(f"this is forbidden: {why}", node.span, "leave one of them out")

    # ---- keys -----------------------------------------------------------------------------------

    def _parsed(self, tokens: Tokens) -> exp.Expr:
        return parse_expression(tokens, self.clause.text, self.clause.filename, self.dialect)

    def _key(self, tokens: Tokens, section: str) -> exp.Expr:
        return self._own_columns(self._parsed(tokens), span(tokens), section)

    def _order(self, tokens: Tokens) -> OrderKey:
        clause = self.clause
        ordered = parse_expression(tokens, clause.text, clause.filename, self.dialect, exp.Ordered)
        key = self._own_columns(ordered.this, span(tokens), "ORDER BY")
        return OrderKey(key, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))

    def _own_columns(self, node: exp.Expr, at: Span, section: str) -> exp.Expr:
        """Columns of the input, without a table in front of them: there is only one."""
        self._refuse(node, at, section)
        for column in node.find_all(exp.Column):
            for part in ("table", "db", "catalog"):
                column.set(part, None)
        return node

    def _within(self, order: tuple[OrderKey, ...]) -> Window | None:
        tokens = self.clause.within
        assert tokens is not None
        at, node = span(tokens), self._parsed(tokens)
        if not order or order[0].descending:
            why = "the first key of ORDER BY must be a time or a number, ascending"
            self._error(f"WITHIN needs an order in time: {why}", at)
            return None
        length, unit = _length(node)
        if isinstance(length, str):
            self._error(length, at, unit)
            return None
        if length <= 0 or length.denominator != 1 or length >= 2**63:
            self._error("a window is longer than nothing, and a whole number of microseconds", at)
            return None
        return Window(int(length), bool(unit), at)

    # ---- expressions ----------------------------------------------------------------------------

    def _measures(self, final: bool) -> tuple[Measure, ...]:
        known: dict[str, Named] = {}
        measures = []
        for named in self.clause.measures:
            if named.name.lower() in known:
                self._error(f"there are two measures {named.name}", named.place, "give one of them another name")
            known[named.name.lower()] = named
            node = self._parsed(named.tokens)
            measures.append(Measure(named.name, self._bind(node, span(named.tokens), "MEASURES", final)))
        return tuple(measures)

    def _define(self) -> dict[str, exp.Expr]:
        define: dict[str, exp.Expr] = {}
        for named in self.clause.define:
            if named.name in define:
                self._error(f"{named.name} is defined twice", named.place)
            if named.name not in self.variables:
                clue = did_you_mean(named.name, self.variables, "it has")
                what = "a subset" if named.name in self.unions else "no variable of PATTERN"
                self._error(f"{named.name} is {what}", named.place, clue)
            node = self._parsed(named.tokens)
            define[named.name] = self._current(self._bind(node, span(named.tokens), "DEFINE", False), named.name)
        return define

    def _current(self, node: exp.Expr, variable: str) -> exp.Expr:
        """In the condition of a variable, the last row of it is the row at hand, which is mapped to it on trial."""

        def visit(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, At | Classifier):
                return part
            address = part.address
            own = address.variables is None or variable in address.variables
            if address.first or address.offset or not own or (isinstance(part, Classifier) and part.step):
                return part
            if isinstance(part, Classifier):
                return exp.Literal.string(variable)
            return At(this=part.this, address=Address(None), step=part.step)

        return node.transform(visit, copy=False)

    def _refuse(self, node: exp.Expr, at: Span, section: str) -> None:
        for part in node.walk(prune=lambda part: isinstance(part, exp.Query)):
            where = place(part, at)
            if isinstance(part, exp.Query):
                self._error(f"{section} takes no subquery", where, "join the other table in FROM, before the clause")
            elif isinstance(part, exp.Window):
                self._error(f"{section} takes no window function", where, "compute it in a subquery before the clause")
            elif isinstance(part, _RANDOM) or (isinstance(part, exp.Anonymous) and part.name.upper() in _RANDOM_NAMES):
                why = "it is another one each time it is asked for"
                self._error(f"{section} takes no value by chance: {why}", where)

    def _bind(self, node: exp.Expr, at: Span, section: str, final: bool) -> exp.Expr:
        before = len(self.found)
        self._refuse(node, at, section)
        if len(self.found) > before:
            return node
        return _Expression(self, at, section, final).bind(node)


class _Expression:
    """One expression of MEASURES or DEFINE. `final` is what holds where neither RUNNING nor FINAL is said."""

    def __init__(self, binder: _Binder, at: Span, section: str, final: bool) -> None:
        self.binder, self.at, self.section, self.final = binder, at, section, final

    def _error(self, message: str, node: exp.Expr, help: str | None = None) -> None:
        self.binder._error(message, place(node, self.at), help)

    def bind(self, node: exp.Expr) -> exp.Expr:
        node = self._filtered(node)
        call = _call(node)
        if call is not None:
            return self._call(*call, node)
        if isinstance(node, exp.Column):
            variables, row = self._of_row(node)
            return At(this=row, address=Address(variables, final=self.final), step=0)
        if isinstance(node, exp.AggFunc):
            known = ", ".join(sorted((*AGGREGATES, *FORMULAS)))
            self._error(f"the aggregates of a match are {known}", node, "collect the values with array_agg(…)")
            return node
        return _mapped(node, self.bind)

    def _filtered(self, node: exp.Expr) -> exp.Expr:
        """FILTER (WHERE …) takes the values of some rows: those of the others are NULL, and do not count."""
        if isinstance(node, exp.WithinGroup):
            self._error(
                "the values of a match come in the order of its rows", node, "sort array_agg(…) with sort_array"
            )
            return exp.Null()
        if not isinstance(node, exp.Filter):
            return node
        aggregate: exp.Expr = node.this.copy()
        slot = aggregate.expressions if isinstance(aggregate, exp.Anonymous) else [aggregate.this]
        value, distinct = _distinct(slot[0]) if slot else (exp.Star(), False)
        taken: exp.Expr = exp.Literal.number(1) if isinstance(value, exp.Star) else value.copy()
        taken = exp.If(this=node.expression.this.copy(), true=taken, false=exp.Null())
        argument = exp.Distinct(expressions=[taken]) if distinct else taken
        if isinstance(aggregate, exp.Anonymous):
            aggregate.set("expressions", [argument, *slot[1:]])
        else:
            aggregate.set("this", argument)
        return aggregate

    def _semantics(self, word: str | None, node: exp.Expr) -> bool:
        if word == "FINAL" and self.section == "DEFINE":
            self._error("DEFINE knows no FINAL: a match is not complete while its rows are tested", node)
        return self.final or word == "FINAL"  # with one row per match, what is running has come to its end

    def _call(self, name: str, word: str | None, arguments: list[exp.Expr], node: exp.Expr) -> exp.Expr:
        final = self._semantics(word, node)
        if name == "MATCH_NUMBER":
            self._count(name, arguments, 0, 0, node)
            return MatchNumber()
        if name == "MATCH_SEQUENCE_NUMBER":  # Snowflake's
            self._count(name, arguments, 0, 0, node)
            return Over(function="count", address=Address(None, final=final))
        if name == "CLASSIFIER":
            return Classifier(address=Address(self._classified(arguments, node), final=final))
        if name in ENDS:
            return self._end(name, final, arguments, node)
        if name in STEPS:
            return self._step(name, word, arguments, node)
        return self._aggregate(name, final, arguments, node)

    def _count(self, name: str, arguments: list[exp.Expr], low: int, high: int, node: exp.Expr) -> bool:
        if low <= len(arguments) <= high:
            return True
        counts = f"{low}" if low == high else f"{low} or {high}"
        self._error(f"{name} takes {counts} argument{'s' * (high != 1)}, and not {len(arguments)}", node)
        return False

    def _offset(self, name: str, arguments: list[exp.Expr], default: int) -> int:
        if len(arguments) < 2:
            return default
        literal = arguments[1]
        if isinstance(literal, exp.Literal) and not literal.is_string and literal.this.isdigit():
            return min(int(literal.this), 2**31)
        self._error(f"the offset of {name} is a number that is written down: 0, 1, 2, …", literal)
        return default

    def _classified(self, arguments: list[exp.Expr], node: exp.Expr) -> tuple[str, ...] | None:
        if not self._count("CLASSIFIER", arguments, 0, 1, node) or not arguments:
            return None
        named = arguments[0]
        if not isinstance(named, exp.Column) or named.table:
            self._error("CLASSIFIER takes a variable", named)
            return None
        return self._variables(_name(named.this), named)

    def _end(self, name: str, final: bool, arguments: list[exp.Expr], node: exp.Expr) -> exp.Expr:
        """FIRST or LAST."""
        if not self._count(name, arguments, 1, 2, node):
            return node
        inner, offset, first = arguments[0], self._offset(name, arguments, 0), ENDS[name]
        call = _call(inner)
        if call is not None and call[0] == "CLASSIFIER":
            variables = self._classified(call[2], inner)
            return Classifier(address=Address(variables, first, offset, final))
        if self._nests(inner, name):
            return node
        variables, row = self._of_row(inner)
        return At(this=row, address=Address(variables, first, offset, final), step=0)

    def _step(self, name: str, word: str | None, arguments: list[exp.Expr], node: exp.Expr) -> exp.Expr:
        """PREV or NEXT, perhaps of a FIRST or LAST."""
        if word is not None:
            self._error(f"{word} goes before FIRST, LAST or an aggregate, and not before {name}", node)
        if not self._count(name, arguments, 1, 2, node):
            return node
        inner, step = arguments[0], self._offset(name, arguments, 1) * STEPS[name]
        call = _call(inner)
        if call is not None and call[0] in ENDS:
            inside = self.bind(inner)
            if isinstance(inside, At):
                return At(this=inside.this, address=inside.address, step=step)
            return Classifier(address=inside.address, step=step) if isinstance(inside, Classifier) else node
        if call is not None and call[0] == "CLASSIFIER":
            return Classifier(address=Address(self._classified(call[2], inner), final=self.final), step=step)
        if self._nests(inner, name):
            return node
        variables, row = self._of_row(inner)
        return At(this=row, address=Address(variables, final=self.final), step=step)

    def _aggregate(self, name: str, final: bool, arguments: list[exp.Expr], node: exp.Expr) -> exp.Expr:
        least, most = TAKES.get(name, (1, 1))
        if not self._count(name.upper(), arguments, least, most, node):
            return node
        if name in FORMULAS:
            return self._over_array(name, final, arguments, node)
        inner, distinct = _distinct(arguments[0])
        if isinstance(inner, exp.Order):
            self._error(
                "the values of a match come in the order of its rows", node, "sort array_agg(…) with sort_array"
            )
            return node
        call = _call(inner)
        if call is not None and call[0] == "CLASSIFIER" and name in LABELLED:
            return self._of_labels(name, Address(self._classified(call[2], inner), final=final), distinct, node)
        if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
            variables = self._variables(_name(inner.args["table"]), inner) if inner.args.get("table") else None
            if name != "count" or distinct:
                self._error(f"{name} takes a value, and only COUNT takes *, without DISTINCT", node)
            return Over(function="count", address=Address(variables, final=final))
        if self._nests(inner, name.upper()):
            return node
        variables, row = self._of_row(inner)
        return Over(function=name, this=row, address=Address(variables, final=final), distinct=distinct)

    def _of_labels(self, name: str, address: Address, distinct: bool, node: exp.Expr) -> exp.Expr:
        """An aggregate of the variables of rows."""
        if name == "count" and not distinct:
            return Over(function="count", address=address)
        if self.section == "DEFINE":
            self._error("a condition looks at the variable of one row, and not of all", node)
            return node
        array: exp.Expr = Over(function="labels", address=address)
        if distinct:
            array = exp.Anonymous(this="array_distinct", expressions=[array])
        return over_array(LABELLED[name], array)

    def _over_array(self, name: str, final: bool, arguments: list[exp.Expr], node: exp.Expr) -> exp.Expr:
        """An aggregate that Spark computes of the values of a match, once they are found."""
        if self.section == "DEFINE":
            known = ", ".join(each for each in AGGREGATES if each != "array_agg")
            message = f"the aggregates of a condition are {known}"
            self._error(message, node, "select the matches by it: make it a measure, and ask for it in WHERE")
            return node
        inner, *others = arguments
        separator = None
        if name == "string_agg":
            separator = others[0] if others else None
            if separator is not None and not isinstance(separator, exp.Literal):
                self._error("the separator is a text that is written down", separator)
        elif others:
            pairs = (("by_it", others[0]), ("it", _distinct(inner)[0]))
            inner = exp.Struct(expressions=[exp.PropertyEQ(this=exp.to_identifier(k), expression=v) for k, v in pairs])
        array = self._aggregate("array_agg", final, [inner], node)
        return over_array(FORMULAS[name], array, separator)

    def _nests(self, inner: exp.Expr, name: str) -> bool:
        """Whether there is a function of row patterns in an expression that must be one of a single row."""
        for part in inner.walk():
            call = _call(part)
            if call is None and not isinstance(part, exp.AggFunc):
                continue
            inside = call[0].upper() if call else type(part).__name__.upper()
            help = f"write {inside}({name}(…))" if inside in STEPS and name in ENDS else None
            self._error(f"{name} takes an expression of one row, and not {inside}", part, help)
            return True
        return False

    def _of_row(self, node: exp.Expr) -> tuple[tuple[str, ...] | None, exp.Expr]:
        """The variable that all columns of an expression are of, and the expression over the columns of its row."""
        seen: dict[tuple[str, ...] | None, exp.Column] = {}

        def visit(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column):
                return part
            first, *rest = part.parts
            variables = None
            if rest:
                variables = self._variables(_name(first), first)
                first, *rest = rest
            seen.setdefault(variables, part)
            column: exp.Expr = exp.Column(this=first.copy())
            for field in rest:
                column = exp.Dot(this=column, expression=field.copy())
            return column

        row = node.copy().transform(visit)
        if len(seen) > 1:
            two = list(seen)[1]
            self._error("this expression is of one row, and its columns are of several variables", seen[two])
        return next(iter(seen), None), row

    def _variables(self, name: str, node: exp.Expr) -> tuple[str, ...] | None:
        unions = self.binder.unions
        if name in unions:
            return unions[name]
        self._error(f"PATTERN has no variable {name}", node, did_you_mean(name, unions, "it has"))
        return None


def _call(node: exp.Expr) -> tuple[str, str | None, list[exp.Expr]] | None:
    """A function of row patterns: its name, RUNNING or FINAL before it, and its arguments."""
    if type(node) in _AGGREGATE_CLASSES:
        return _AGGREGATE_CLASSES[type(node)], None, [node.this, *node.expressions]
    if type(node) in CLASSES:
        others = [node.args[key] for key in ("expression", "separator") if node.args.get(key) is not None]
        return CLASSES[type(node)], None, [node.this, *others]
    if not isinstance(node, exp.Anonymous):
        return None
    word, _, name = str(node.this).upper().rpartition(" ")
    if name in ENDS or name in STEPS or name in ("CLASSIFIER", "MATCH_NUMBER", "MATCH_SEQUENCE_NUMBER"):
        return name, word or None, node.expressions
    if word in SEMANTICS or (not word and name in _AGGREGATE_NAMES):
        return _AGGREGATE_NAMES.get(name, name), word or None, node.expressions
    return None


def _distinct(argument: exp.Expr) -> tuple[exp.Expr, bool]:
    """What an aggregate is of, and whether equal values count once. Of several values, none may be NULL."""
    if not isinstance(argument, exp.Distinct):
        return argument, False
    values = argument.expressions
    if len(values) == 1:
        return values[0], True
    missing = exp.or_(*(exp.Is(this=value.copy(), expression=exp.Null()) for value in values))
    together = exp.Anonymous(this="struct", expressions=values)
    return exp.If(this=missing, true=exp.Null(), false=together), True


def _name(identifier: exp.Expr) -> str:
    return identifier.name if identifier.args.get("quoted") else identifier.name.upper()


def _mapped(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The node with its children changed."""
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(key, change(value))
        elif isinstance(value, list):
            node.set(key, [change(each) if isinstance(each, exp.Expr) else each for each in value])
    return node


def _nodes(node: Node) -> list[Node]:
    match node:
        case Exclude(part=part) | Repeat(part=part):
            return [node, *_nodes(part)]
        case Symbol():
            return [node]
        case _:
            return [node, *(each for part in getattr(node, "parts", ()) for each in _nodes(part))]


def _length(node: exp.Expr) -> tuple[Fraction | str, str | None]:
    """A length in microseconds, or in units of a number; else what is wrong, and what to do."""
    help = "write  WITHIN INTERVAL '10' MINUTE  or, where ORDER BY has a number,  WITHIN 600"
    if isinstance(node, exp.Literal) and not node.is_string:
        return (Fraction(int(node.this)), "") if node.this.isdigit() else ("this is no whole number", help)
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return "a window is an interval or a number that is written down", help
    if (ticks := ticks_of(node)) is not None:
        return Fraction(ticks), "interval"
    unit = node.text("unit").lower() if node.args.get("unit") else ""
    if unit not in UNITS:
        return unknown_unit(unit) if unit else ("a window needs a unit", help)
    try:
        return microseconds(node.this.name, unit), "interval"
    except ValueError:
        return "this is no length of time", help
