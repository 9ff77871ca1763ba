"""Text → syntax tree. lark recognises, and this module builds the nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import TypeVar, cast

from lark import Lark, Token, Tree, UnexpectedInput
from sqlglot import exp
from sqlglot.errors import ParseError

from sase.compiler.core import scalars
from sase.compiler.core.aggregates import CountAll
from sase.compiler.core.arrivals import Arrivals
from sase.compiler.core.durations import DAY, HOUR, MINUTE, SECOND, UNITS, microseconds, unknown_unit
from sase.compiler.core.errors import Diagnostic, SaseError
from sase.compiler.core.names import Parameter
from sase.compiler.core.results import Results
from sase.compiler.core.spans import at, span_of
from sase.compiler.core.windows import LONGEST, longest
from sase.compiler.languages.sase.grammar import parser_of
from sase.compiler.languages.sase.syntax import (
    All,
    And,
    Bounded,
    Component,
    Duration,
    Equivalence,
    Name,
    Not,
    Or,
    Part,
    Pattern,
    PlaceInLoop,
    Query,
    Return,
    ReturnItem,
    Seq,
    Some,
)
from sase.compiler.languages.sase.syntax_errors import syntax_error
from sase.compiler.languages.sase.tokens import Node, extent, unquote

Link = tuple[type[exp.Binary], exp.Expr, exp.Expr]


def parse(text: str, filename: str = "<query>") -> Query:
    builder = Builder()
    return parse_as(builder, builder.query, parser_of(), partial(syntax_error, text=text), text, filename)


Q = TypeVar("Q")


def parse_as(
    builder: Builder,
    build: Callable[[Node, str, str], Q],
    parser: Lark,
    explain: Callable[[UnexpectedInput], Diagnostic],
    text: str,
    filename: str,
) -> Q:
    """Reads a text in this language, or in one that has its expressions in common."""
    try:
        tree = parser.parse(text)
    except UnexpectedInput as error:
        raise SaseError([explain(error)], text, filename) from None
    deep = _nested_too_deeply(tree)
    if deep is not None:
        raise SaseError([deep], text, filename)
    query = build(tree, text, filename)
    if builder.found:
        raise SaseError(builder.found, text, filename)
    return query


# ---- building -----------------------------------------------------------------------------------

_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "==": exp.EQ,
    "!=": exp.NEQ,
    "<>": exp.NEQ,
    "≠": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    "≤": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "≥": exp.GTE,
}
_LIKES: dict[str, type[exp.Binary]] = {
    "LIKE": exp.Like,
    "ILIKE": exp.ILike,
    "RLIKE": exp.RegexpLike,
    "REGEXP": exp.RegexpLike,
}
_ARITHMETIC: dict[str, type[exp.Binary]] = {
    "+": exp.Add,
    "-": exp.Sub,
    "−": exp.Sub,
    "*": exp.Mul,
    "/": exp.Div,
    "%": exp.Mod,
    "DIV": exp.IntDiv,
}


def _trees(tree: Node) -> list[Node]:
    return [child for child in tree.children if isinstance(child, Tree)]


def _tokens(tree: Node) -> list[Token]:
    return [child for child in tree.children if isinstance(child, Token)]


def _child(tree: Node, rule: str) -> Node | None:
    return next((child for child in _trees(tree) if child.data == rule), None)


def _words(tree: Node, behind: int = 0) -> Name:
    """The words of a token, in lower case and one blank apart; without so many at the beginning."""
    return Name(" ".join(str(_tokens(tree)[0]).lower().split()[behind:]), extent(tree))


def _bare(tree: Node) -> Node:
    """What stands inside any number of parentheses."""
    while tree.data == "parenthesised":
        (tree,) = _trees(tree)
    return tree


class Builder:
    """Keeps what is wrong but not a matter of grammar, so that one run reports all of it."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []

    def query(self, tree: Node, text: str, filename: str) -> Query:
        stream = _child(tree, "from")
        pattern = _child(tree, "pattern")
        where = _child(tree, "where")
        within = _child(tree, "within")
        timed_out = _child(within, "timed_out") if within else None
        consume = _child(tree, "consume")
        strategy, after_match = _child(tree, "strategy"), _child(tree, "after_match")
        returns = _child(tree, "return")
        assert pattern is not None
        return Query(
            text=text,
            filename=filename,
            stream=".".join(self.name(part).text for part in _trees(stream)) if stream else None,
            pattern=self.pattern(cast(Node, pattern.children[0])),
            where=self.expression(cast(Node, where.children[0])) if where else None,
            within=self.window(within) if within else None,
            timed_out=extent(timed_out) if timed_out else None,
            consume=Name(str(consume.children[0]), extent(consume)) if consume else None,
            strategy=_words(strategy) if strategy else None,
            after_match=_words(after_match, behind=3) if after_match else None,
            returns=self.returns(returns) if returns else None,
            into=self.into(tree),
            span=extent(pattern),
        )

    def name(self, tree: Node) -> Name:
        token = _tokens(tree)[0]
        text = str(token)
        if text.startswith("`"):
            text = text[1:-1].replace("``", "`")
        if "\0" in text:
            self.found.append(Diagnostic("a name cannot hold a NUL character", extent(token)))
        return Name(text, extent(token))

    def pattern(self, tree: Node) -> Pattern:
        span = extent(tree)
        match tree.data:
            case "sequence":
                return Seq(self.parts(tree, selects=True), span)
            case "conjunction_of":
                return And(self.parts(tree), span)
            case "disjunction_of":
                return Or(self.parts(tree), span)
            case "union_of":
                return Or(self.parts(tree), span, every=True)
            case "bounded":
                return self.bounded(tree)
            case "some":
                return self.some(tree)
            case "all":
                collected = self.component(_trees(tree)[0])
                if collected.repeated or collected.optional:
                    self.found.append(
                        Diagnostic("ALL takes every event: it cannot count them, too", collected.span, "write ALL(A a)")
                    )
                return All(collected, span)
            case "negated":
                return Not(self.pattern(_trees(tree)[1]), span)
            case _:
                return self.component(tree)

    def parts(self, tree: Node, selects: bool = False) -> tuple[Part, ...]:
        return tuple(self.part(part, selects) for part in _trees(tree))

    def part(self, tree: Node, selects: bool) -> Part:
        (inner,) = _trees(tree)
        pattern = self.pattern(inner)
        if not _tokens(tree):
            return Part(pattern)
        (token,) = _tokens(tree)
        mode = Name(str(token).lower(), extent(token))
        if not selects:
            self.found.append(
                Diagnostic(f"{token} has no meaning here", mode.span, "it selects in SEQ: SEQ(first A a, B b)")
            )
        elif not isinstance(pattern, Component) or pattern.repeated or pattern.optional:
            self.found.append(
                Diagnostic(f"{token} selects a single event", mode.span, "write it before a type: SEQ(first A a, B b)")
            )
        return Part(pattern, mode)

    def bounded(self, tree: Node) -> Bounded:
        where, within = _child(tree, "where"), _child(tree, "within")
        if within is not None and (timed_out := _child(within, "timed_out")):
            self.found.append(
                Diagnostic(
                    "TIMED OUT is about whole sequences",
                    extent(timed_out),
                    "write it behind the window of the query: EVENT SEQ(A a, B b) WITHIN 10 minutes TIMED OUT",
                )
            )
        return Bounded(
            self.pattern(_trees(tree)[0]),
            self.expression(cast(Node, where.children[0])) if where else None,
            self.window(within) if within else None,
            extent(tree),
        )

    def some(self, tree: Node) -> Some:
        (token,) = _tokens(tree)
        some = Some(int(token), self.parts(tree), extent(tree))
        if not 1 <= some.least <= len(some.parts):
            self.found.append(
                Diagnostic(
                    f"ANY({token}, …) has {len(some.parts)} patterns to choose from",
                    extent(token),
                    "the number says how many of them a match has",
                )
            )
        return some

    def component(self, event: Node) -> Component:
        listed = _child(event, "any")
        types = [part for part in _trees(listed or event) if part.data == "type"]
        variable = _child(event, "variable")
        repetition = _child(event, "repetition")
        return Component(
            types=tuple(self.event_type(part) for part in types),
            every=not types,
            variable=self.name(cast(Node, variable.children[0])) if variable else None,
            repeated=self.repeated(repetition) if repetition else None,
            span=extent(event),
            optional=repetition is not None and _tokens(repetition)[0].type == "OPTIONAL",
        )

    def repeated(self, tree: Node) -> tuple[int, int | None] | None:
        least: int
        most: int | None
        match [token if token.type != "INTEGER" else int(token) for token in _tokens(tree)]:
            case [int(count)]:
                least, most = count, count
            case [int(least), _, int(most)]:
                pass
            case [int(least), _]:
                most = None
            case [Token("PLUS")]:
                return 1, None
            case [Token("STAR")]:
                return 0, None
            case _:
                return None
        if least > MOST_REPEATED or (most is not None and not max(least, 1) <= most <= MOST_REPEATED):
            self.found.append(
                Diagnostic(
                    f"an event is repeated up to {MOST_REPEATED} times, and the first number is the smaller one",
                    extent(tree),
                    "write A{3} a or A{2,4} a; A{3,} a, A+ a and A* a have no upper bound",
                )
            )
            return 1, 1
        return least, most

    def event_type(self, tree: Node) -> Name:
        parts = [
            self.name(part).text if isinstance(part, Tree) else str(part)
            for part in tree.children
            if isinstance(part, Tree) or part.type != "MINUS"
        ]
        return Name("-".join(parts), extent(tree))

    def window(self, tree: Node) -> Duration | Name:
        inner = _trees(tree)[0]
        span = extent(inner)
        match inner.data:
            case "window_parameter":
                first = inner.children[0]
                return Name(str(first), span) if isinstance(first, Token) else Name(self.name(first).text, span)
            case "interval_duration":
                unit = _tokens(inner)[-1]
                self.is_unit(Name(str(unit), extent(unit)))
                amount = inner.children[1]
                value = str(amount.children[0]) if isinstance(amount, Tree) else unquote(str(amount)).strip()
                return Duration(((value, str(unit)),), span)
            case _:
                parts: list[tuple[str, str | None]] = []
                sign = ""
                for part in inner.children:
                    if isinstance(part, Tree):
                        parts.append((sign + str(part.children[0]), None))
                    elif part.type == "MINUS":
                        sign = "-"
                    else:
                        self.is_unit(Name(str(part), extent(part)))
                        parts[-1] = (parts[-1][0], str(part))
                return Duration(tuple(parts), span)

    def is_unit(self, unit: Name) -> bool:
        if unit.text.lower() in UNITS:
            return True
        message, help = unknown_unit(unit.text)
        self.found.append(Diagnostic(message, unit.span, help))
        return False

    def returns(self, tree: Node) -> Return:
        """A composite event is `EVENT Alert(…)`, or a lone call with AS inside, which no function takes."""
        group_by = _child(tree, "group_by")
        arguments = [argument for argument in _trees(tree) if argument is not group_by]
        composite: Name | None = None
        only = arguments[0] if len(arguments) == 1 else None
        if only is not None and only.data == "argument" and len(only.children) == 1:
            (only,) = _trees(only)
        if only is not None and only.data in ("composite", "call"):
            called, *inside = _trees(only)
            name = self.name(called)
            if only.data == "composite" or any(len(argument.children) == 2 for argument in inside):
                composite, arguments = name, inside
            elif name.text.upper() not in exp.FUNCTION_BY_NAME:
                self.found.append(
                    Diagnostic(
                        f"{name.text}(…) could be an event of the type {name.text}, or the value of a function",
                        extent(only),
                        f"write RETURN EVENT {name.text}(…) for the event, "
                        f"or RETURN {name.text}(…) AS name for the value",
                    )
                )
        return Return(
            tuple(self.return_item(argument) for argument in arguments),
            composite,
            extent(tree),
            tuple(self.expression(part) for part in _trees(group_by)) if group_by else None,
        )

    def into(self, tree: Node) -> Name | None:
        into = _child(tree, "into")
        return self.name(_trees(into)[0]) if into else None

    def return_item(self, tree: Node) -> ReturnItem:
        parts = _trees(tree)
        if tree.data == "star":
            everything = exp.Column(this=exp.Star(), table=_identifier(self.name(parts[0])))
            return ReturnItem(at(everything, extent(tree)), None, extent(tree))
        alias = self.name(parts[1]) if len(parts) == 2 else None
        return ReturnItem(self.expression(parts[0]), alias, extent(tree))

    def expression(self, tree: Node) -> exp.Expr:
        return at(self._expression(tree), extent(tree))

    def _expression(self, tree: Node) -> exp.Expr:
        span = extent(tree)
        match tree.data:
            case "disjunction":
                return scalars.balanced(exp.Or, self.operands(tree))
            case "conjunction":
                return scalars.balanced(exp.And, self.operands(tree))
            case "not":
                operand = self.expression(_trees(tree)[0])
                if isinstance(operand, exp.Connector):  # a chain a = b = c, or [a, b]: one operand, several comparisons
                    operand = at(exp.Paren(this=operand), span)
                return exp.Not(this=operand)
            case "comparison":
                return self.comparison(tree)
            case "in":
                subject, *values = self.operands(tree)
                return self.negatable(tree, exp.In(this=subject, expressions=values))
            case "between":
                subject, low, high = self.operands(tree)
                return self.negatable(tree, exp.Between(this=subject, low=low, high=high))
            case "like":
                subject, form = self.operands(tree)
                return self.negatable(tree, _LIKES[_tokens(tree)[0].upper()](this=subject, expression=form))
            case "is_null":
                (subject,) = self.operands(tree)
                return self.negatable(tree, exp.Is(this=subject, expression=at(exp.Null(), span)))
            case "sum" | "product":
                return self.arithmetic(tree)
            case "signed":
                operand = self.expression(_trees(tree)[0])
                return exp.Neg(this=operand) if _tokens(tree)[0].type == "MINUS" else operand
            case "parenthesised":
                return exp.Paren(this=self.expression(_bare(tree)))
            case "equivalences":
                return scalars.balanced(exp.And, [self.equivalence(part) for part in _trees(tree)])
            case "attribute":
                variable, attribute, *steps = _trees(tree)
                table, column = _identifier(self.name(variable)), _identifier(self.name(attribute))
                start = at(exp.Column(this=column, table=table), extent(variable).to(extent(attribute)))
                return self.inside(start, steps)
            case "bare_attribute":
                attribute, *steps = _trees(tree)
                return self.inside(at(self.bare(self.name(attribute)), extent(attribute)), steps)
            case "call":
                return self.call(tree)
            case "count_all":
                return CountAll(this=_identifier(self.name(_trees(tree)[0])))
            case "arrivals":
                aggregate = str(_tokens(tree)[0]).removesuffix("*(").lower()
                return Arrivals(this=self.expression(_trees(tree)[0]), kind=aggregate)
            case "results":
                aggregate = str(_tokens(tree)[0]).removesuffix("+(").lower()
                return Results(this=self.expression(_trees(tree)[0]), kind=aggregate)
            case "cast":
                value, kind = _trees(tree)
                return exp.Cast(this=self.expression(value), to=self.data_type(kind))
            case "case":
                return self.case(tree)
            case "parameter":
                return Parameter(this=_identifier(self.name(_trees(tree)[0])))
            case _:
                return self.literal(tree)

    def bare(self, name: Name) -> exp.Expr:
        """A name alone: an attribute."""
        return exp.Column(this=_identifier(name))

    def operands(self, tree: Node) -> list[exp.Expr]:
        return [self.expression(part) for part in _trees(tree) if part.data != "not_word"]

    def negatable(self, tree: Node, predicate: exp.Expr) -> exp.Expr:
        """`a NOT IN (…)` is one comparison, unlike `NOT a IN (…)`: it matters where a type lacks the attribute."""
        if _child(tree, "not_word") is None:
            return predicate
        negated = exp.Not(this=at(predicate, extent(tree)))
        negated.meta["comparison"] = True
        return negated

    def comparison(self, tree: Node) -> exp.Expr:
        operators = [_COMPARISONS[str(token)] for token in _tokens(tree)]
        links: list[exp.Expr] = [
            at(operator(this=left.copy(), expression=right.copy()), span_of(left).to(span_of(right)))
            for operator, left, right in self.links(operators, self.operands(tree))
        ]
        return scalars.balanced(exp.And, links)

    def links(self, operators: list[type[exp.Binary]], operands: list[exp.Expr]) -> Iterable[Link]:
        """`a = b = c` is `a = b AND b = c`."""
        return [(operator, *pair) for operator, pair in zip(operators, pairwise(operands), strict=True)]

    def arithmetic(self, tree: Node) -> exp.Expr:
        operands = self.operands(tree)
        result = operands[0]
        for token, operand in zip(_tokens(tree), operands[1:], strict=True):
            span = result.meta["span"].to(operand.meta["span"])
            result = at(_ARITHMETIC[str(token).upper()](this=result, expression=operand), span)
        return result

    def inside(self, value: exp.Expr, steps: Iterable[Node]) -> exp.Expr:
        """A field of it, and one of that, and so on."""
        for step in steps:
            span = span_of(value).to(extent(step))
            if step.data == "field":
                value = at(exp.Dot(this=value, expression=_identifier(self.name(_trees(step)[0]))), span)
            else:
                tokens = _tokens(step)
                place = extent(tokens[0]).to(extent(tokens[-1]))
                value = at(exp.Bracket(this=value, expressions=[at(self.index(step), place)]), span)
        return value

    def index(self, tree: Node) -> exp.Expr:
        tokens = _tokens(tree)
        if tree.data == "place_in_loop":
            back = int(tokens[-1]) if tokens[-1].type == "INTEGER" else 0
            return PlaceInLoop(back=back, up_to=tokens[0].type == "RANGE")
        if tokens[-1].type == "STRING":
            return exp.Literal.string(unquote(str(tokens[-1])))
        number = exp.Literal.number(str(tokens[-1]))
        return number if len(tokens) == 1 else exp.Neg(this=number)

    def equivalence(self, tree: Node) -> exp.Expr:
        name, *rest = _trees(tree)
        steps = [part for part in rest if part.data in ("field", "index", "place_in_loop")]
        value = self.expression(rest[-1]) if len(rest) > len(steps) else None
        for token in _tokens(tree):
            if _COMPARISONS[str(token)] is not exp.EQ:
                self.found.append(
                    Diagnostic("an equivalence test takes = only", extent(token), "write [id='1'], or compare in WHERE")
                )
        return at(Equivalence(this=self.inside(_identifier(self.name(name)), steps), value=value), extent(tree))

    def call(self, tree: Node) -> exp.Expr:
        name, *arguments = _trees(tree)
        values = []
        for argument in arguments:
            value, *alias = _trees(argument)
            if alias:
                self.found.append(
                    Diagnostic(
                        "AS stands inside a function call",
                        extent(alias[0]),
                        "AS names a column of RETURN: put it behind the call, or return one composite event, "
                        "RETURN Alert(x.id AS item)",
                    )
                )
            values.append(self.expression(value))
        function = self.name(name)
        if not re.fullmatch(r"[A-Za-z_]\w*", function.text, re.ASCII):
            self.found.append(Diagnostic("a function's name has letters, digits and _ only", function.span))
        call = exp.Anonymous(this=function.text, expressions=values)
        call.meta["name_span"] = function.span
        return call

    def case(self, tree: Node) -> exp.Expr:
        ifs: list[exp.Expr] = []
        subject: exp.Expr | None = None
        default: exp.Expr | None = None
        for part in _trees(tree):
            if part.data == "when":
                condition, value = (self.expression(child) for child in _trees(part))
                ifs.append(at(exp.If(this=condition, true=value), extent(part)))
            elif not ifs:
                subject = self.expression(part)
            else:
                default = self.expression(part)
        return exp.Case(this=subject, ifs=ifs, default=default)

    def data_type(self, tree: Node) -> exp.DataType:
        name = self.name(_trees(tree)[0])
        sizes = ",".join(str(token) for token in _tokens(tree))
        try:
            return exp.DataType.build(f"{name.text}({sizes})" if sizes else name.text, dialect="spark")
        except (ParseError, ValueError):
            self.found.append(
                Diagnostic(f"{name.text} is not a type", name.span, "Spark SQL's type names, such as bigint")
            )
            return exp.DataType.build("string")

    def literal(self, tree: Node) -> exp.Expr:
        token = _tokens(tree)[-1] if _tokens(tree) else None
        match tree.data:
            case "integer" | "decimal":
                return exp.Literal.number(self.number(_tokens(tree)[0]))
            case "signed_number":
                sign, number = _tokens(tree)
                value = at(exp.Literal.number(self.number(number)), extent(number))
                return exp.Neg(this=value) if sign.type == "MINUS" else value
            case "string":
                return exp.Literal.string(unquote(str(token)))
            case "true" | "false":
                return exp.Boolean(this=tree.data == "true")
            case "null":
                return exp.Null()
            case "date" | "timestamp":
                value = at(exp.Literal.string(unquote(str(token))), extent(tree))
                return exp.Cast(this=value, to=exp.DataType.build(str(tree.data), dialect="spark"))
            case "interval":
                amount = _tokens(tree)[1]
                text = unquote(str(amount)).strip() if amount.type == "STRING" else str(amount)
                return self.interval(text, self.name(_trees(tree)[0]))
            case "duration_literal":
                number, unit = _tokens(tree)
                return self.interval(str(number), Name(str(unit), extent(unit)))
            case _:
                raise AssertionError(tree.data)

    def number(self, token: Token) -> str:
        """Spark's numbers have 38 digits at most; those with an exponent are doubles."""
        digits = sum(char.isdigit() for char in token)
        if digits > MOST_DIGITS and "e" not in token.lower():
            self.found.append(Diagnostic(f"a number has at most {MOST_DIGITS} digits", extent(token)))
            return "0"
        return str(token)

    def interval(self, amount: str, unit: Name) -> exp.Expr:
        """Any unit is written as seconds, which Spark reads exactly and with fractions."""
        if not self.is_unit(unit):
            return exp.Interval(this=exp.Literal.string("0"), unit=exp.Var(this="SECOND"))
        try:
            length = microseconds(amount, unit.text)
        except ValueError:
            self.found.append(
                Diagnostic(f"{amount!r} is not a number of {unit.text}", unit.span, "write INTERVAL '12' HOUR")
            )
            length = Fraction(0)
        if abs(length) > LONGEST["timestamp"]:
            self.found.append(
                Diagnostic("this length of time is too long", unit.span, f"the longest is {longest('timestamp')}")
            )
            length = Fraction(0)
        size, name = next((size, name) for size, name in _INTERVAL_UNITS if length % size == 0 or name == "SECOND")
        value = f"{length / size}" if length % size == 0 else f"{float(length / size):.6f}"
        return exp.Interval(this=at(exp.Literal.string(value), unit.span), unit=exp.Var(this=name))


_INTERVAL_UNITS = ((DAY, "DAY"), (HOUR, "HOUR"), (MINUTE, "MINUTE"), (SECOND, "SECOND"))


MOST_DIGITS = 38

MOST_REPEATED = 60
"""Each of them is a component of its own."""

MOST_LEVELS = 150
"""How deep the syntax tree of a query may be. What is built from it is walked by recursion, a few calls for each level;
a chain of one operator counts once, however long."""


def _nested_too_deeply(tree: Node) -> Diagnostic | None:
    waiting = [(tree, 0)]
    while waiting:
        node, level = waiting.pop()
        if level > MOST_LEVELS:
            return Diagnostic(
                "this is nested too deeply",
                extent(node),
                "use fewer parentheses or calls inside each other; a chain of AND, OR or + may be as long as you like",
            )
        deeper = level + 1
        if node.data in ("sum", "product"):  # a + b - c: where the operator changes, sqlglot goes one deeper
            deeper += sum(str(one) != str(other) for one, other in pairwise(_tokens(node)))
        waiting += [(_bare(child), deeper) for child in _trees(node)]
    return None


def _identifier(name: Name) -> exp.Identifier:
    return at(exp.Identifier(this=name.text, quoted=True), name.span)
