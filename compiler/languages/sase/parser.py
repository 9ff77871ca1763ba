"""Text → syntax tree. lark recognises, this module builds the nodes and words the syntax errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, cast

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from sqlglot import exp
from sqlglot.errors import ParseError

from sase.compiler.core import scalars
from sase.compiler.core.durations import DAY, HOUR, MINUTE, SECOND, UNITS, microseconds, unknown_unit
from sase.compiler.core.errors import Diagnostic, SaseError, Span, did_you_mean
from sase.compiler.core.names import Parameter
from sase.compiler.core.spans import at, span_of
from sase.compiler.core.windows import LONGEST, longest
from sase.compiler.languages.sase.syntax import (
    Component,
    Duration,
    Equivalence,
    Name,
    Query,
    Return,
    ReturnItem,
)

Node = Tree[Token]


def parse(text: str, filename: str = "<query>") -> Query:
    try:
        tree = _lark().parse(text)
    except UnexpectedInput as error:
        raise SaseError([_syntax_error(error, text)], text, filename) from None
    deep = _nested_too_deeply(tree)
    if deep is not None:
        raise SaseError([deep], text, filename)
    builder = _Builder()
    query = builder.query(tree, text, filename)
    if builder.found:
        raise SaseError(builder.found, text, filename)
    return query


@cache
def _lark() -> Lark:
    grammar = files("sase.compiler.languages.sase").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


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


def _span(part: Node | Token) -> Span:
    if isinstance(part, Token):
        assert part.start_pos is not None and part.end_pos is not None
        return Span(part.start_pos, part.end_pos)
    return Span(part.meta.start_pos, part.meta.end_pos)


def _trees(tree: Node) -> list[Node]:
    return [child for child in tree.children if isinstance(child, Tree)]


def _tokens(tree: Node) -> list[Token]:
    return [child for child in tree.children if isinstance(child, Token)]


def _child(tree: Node, rule: str) -> Node | None:
    return next((child for child in _trees(tree) if child.data == rule), None)


def _bare(tree: Node) -> Node:
    """What stands inside any number of parentheses."""
    while tree.data == "parenthesised":
        (tree,) = _trees(tree)
    return tree


def _components(pattern: Node) -> list[Node]:
    (inner,) = _trees(pattern)
    return [inner] if inner.data == "component" else _trees(inner)


class _Builder:
    """Keeps what is wrong but not a matter of grammar, so that one run reports all of it."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []

    def query(self, tree: Node, text: str, filename: str) -> Query:
        stream = _child(tree, "from")
        pattern = _child(tree, "pattern")
        where = _child(tree, "where")
        within = _child(tree, "within")
        returns = _child(tree, "return")
        assert pattern is not None
        return Query(
            text=text,
            filename=filename,
            stream=".".join(self.name(part).text for part in _trees(stream)) if stream else None,
            components=tuple(self.component(part) for part in _components(pattern)),
            where=self.expression(cast(Node, where.children[0])) if where else None,
            within=self.window(within) if within else None,
            returns=self.returns(returns) if returns else None,
            span=_span(pattern),
        )

    def name(self, tree: Node) -> Name:
        token = _tokens(tree)[0]
        text = str(token)
        if text.startswith("`"):
            text = text[1:-1].replace("``", "`")
        if "\0" in text:
            self.found.append(Diagnostic("a name cannot hold a NUL character", _span(token)))
        return Name(text, _span(token))

    def component(self, tree: Node) -> Component:
        event = _child(tree, "event")
        assert event is not None
        listed = _child(event, "any")
        types = [part for part in _trees(listed or event) if part.data == "type"]
        variable = _child(event, "variable")
        return Component(
            types=tuple(self.event_type(part) for part in types),
            variable=self.name(cast(Node, variable.children[0])) if variable else None,
            negated=_child(tree, "negation") is not None,
            span=_span(tree),
        )

    def event_type(self, tree: Node) -> Name:
        parts = [
            self.name(part).text if isinstance(part, Tree) else str(part)
            for part in tree.children
            if isinstance(part, Tree) or part.type != "MINUS"
        ]
        return Name("-".join(parts), _span(tree))

    def window(self, tree: Node) -> Duration | Name:
        (inner,) = _trees(tree)
        span = _span(inner)
        match inner.data:
            case "window_parameter":
                first = inner.children[0]
                return Name(str(first), span) if isinstance(first, Token) else Name(self.name(first).text, span)
            case "interval_duration":
                unit = _tokens(inner)[-1]
                self.is_unit(Name(str(unit), _span(unit)))
                amount = inner.children[1]
                value = str(amount.children[0]) if isinstance(amount, Tree) else _unquote(str(amount)).strip()
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
                        self.is_unit(Name(str(part), _span(part)))
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
        arguments = _trees(tree)
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
                        _span(only),
                        f"write RETURN EVENT {name.text}(…) for the event, "
                        f"or RETURN {name.text}(…) AS name for the value",
                    )
                )
        return Return(tuple(self.return_item(argument) for argument in arguments), composite, _span(tree))

    def return_item(self, tree: Node) -> ReturnItem:
        parts = _trees(tree)
        if tree.data == "star":
            everything = exp.Column(this=exp.Star(), table=_identifier(self.name(parts[0])))
            return ReturnItem(at(everything, _span(tree)), None, _span(tree))
        alias = self.name(parts[1]) if len(parts) == 2 else None
        return ReturnItem(self.expression(parts[0]), alias, _span(tree))

    def expression(self, tree: Node) -> exp.Expr:
        return at(self._expression(tree), _span(tree))

    def _expression(self, tree: Node) -> exp.Expr:
        span = _span(tree)
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
                start = at(exp.Column(this=column, table=table), _span(variable).to(_span(attribute)))
                return self.inside(start, steps)
            case "bare_attribute":
                attribute, *steps = _trees(tree)
                start = at(exp.Column(this=_identifier(self.name(attribute))), _span(attribute))
                return self.inside(start, steps)
            case "call":
                return self.call(tree)
            case "cast":
                value, kind = _trees(tree)
                return exp.Cast(this=self.expression(value), to=self.data_type(kind))
            case "case":
                return self.case(tree)
            case "parameter":
                return Parameter(this=_identifier(self.name(_trees(tree)[0])))
            case _:
                return self.literal(tree)

    def operands(self, tree: Node) -> list[exp.Expr]:
        return [self.expression(part) for part in _trees(tree) if part.data != "not_word"]

    def negatable(self, tree: Node, predicate: exp.Expr) -> exp.Expr:
        """`a NOT IN (…)` is one comparison, unlike `NOT a IN (…)`: it matters where a type lacks the attribute."""
        if _child(tree, "not_word") is None:
            return predicate
        negated = exp.Not(this=at(predicate, _span(tree)))
        negated.meta["comparison"] = True
        return negated

    def comparison(self, tree: Node) -> exp.Expr:
        """`a = b = c` is `a = b AND b = c`."""
        operands = self.operands(tree)
        operators = [_COMPARISONS[str(token)] for token in _tokens(tree)]
        links: list[exp.Expr] = [
            at(operator(this=left.copy(), expression=right.copy()), span_of(left).to(span_of(right)))
            for operator, (left, right) in zip(operators, pairwise(operands), strict=True)
        ]
        return scalars.balanced(exp.And, links)

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
            span = span_of(value).to(_span(step))
            if step.data == "field":
                value = at(exp.Dot(this=value, expression=_identifier(self.name(_trees(step)[0]))), span)
            else:
                (token,) = _tokens(step)
                literal = exp.Literal.string(_unquote(str(token))) if token.type == "STRING" else None
                index = at(literal or exp.Literal.number(str(token)), _span(token))
                value = at(exp.Bracket(this=value, expressions=[index]), span)
        return value

    def equivalence(self, tree: Node) -> exp.Expr:
        name, *rest = _trees(tree)
        steps = [part for part in rest if part.data in ("field", "index")]
        value = self.expression(rest[-1]) if len(rest) > len(steps) else None
        for token in _tokens(tree):
            if _COMPARISONS[str(token)] is not exp.EQ:
                self.found.append(
                    Diagnostic("an equivalence test takes = only", _span(token), "write [id='1'], or compare in WHERE")
                )
        return at(Equivalence(this=self.inside(_identifier(self.name(name)), steps), value=value), _span(tree))

    def call(self, tree: Node) -> exp.Expr:
        name, *arguments = _trees(tree)
        values = []
        for argument in arguments:
            value, *alias = _trees(argument)
            if alias:
                self.found.append(
                    Diagnostic(
                        "AS stands inside a function call",
                        _span(alias[0]),
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
                ifs.append(at(exp.If(this=condition, true=value), _span(part)))
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
                value = at(exp.Literal.number(self.number(number)), _span(number))
                return exp.Neg(this=value) if sign.type == "MINUS" else value
            case "string":
                return exp.Literal.string(_unquote(str(token)))
            case "true" | "false":
                return exp.Boolean(this=tree.data == "true")
            case "null":
                return exp.Null()
            case "date" | "timestamp":
                value = at(exp.Literal.string(_unquote(str(token))), _span(tree))
                return exp.Cast(this=value, to=exp.DataType.build(str(tree.data), dialect="spark"))
            case "interval":
                amount = _tokens(tree)[1]
                text = _unquote(str(amount)).strip() if amount.type == "STRING" else str(amount)
                return self.interval(text, self.name(_trees(tree)[0]))
            case "duration_literal":
                number, unit = _tokens(tree)
                return self.interval(str(number), Name(str(unit), _span(unit)))
            case _:
                raise AssertionError(tree.data)

    def number(self, token: Token) -> str:
        """Spark's numbers have 38 digits at most; those with an exponent are doubles."""
        digits = sum(char.isdigit() for char in token)
        if digits > MOST_DIGITS and "e" not in token.lower():
            self.found.append(Diagnostic(f"a number has at most {MOST_DIGITS} digits", _span(token)))
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
                _span(node),
                "use fewer parentheses or calls inside each other; a chain of AND, OR or + may be as long as you like",
            )
        deeper = level + 1
        if node.data in ("sum", "product"):  # a + b - c: where the operator changes, sqlglot goes one deeper
            deeper += sum(str(one) != str(other) for one, other in pairwise(_tokens(node)))
        waiting += [(_bare(child), deeper) for child in _trees(node)]
    return None


def _identifier(name: Name) -> exp.Identifier:
    return at(exp.Identifier(this=name.text, quoted=True), name.span)


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _unquote(token: str) -> str:
    """A string's value: Spark's backslash escapes, and a doubled straight quote for one."""
    quote, body = token[0], token[1:-1]
    if quote in "'\"":
        body = body.replace(quote * 2, "\\" + quote)
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), body, flags=re.DOTALL)


# ---- syntax errors ------------------------------------------------------------------------------

_CLAUSES = ("FROM", "EVENT", "WHERE", "WITHIN", "RETURN")
_WORDS = {
    "NAME": "a name",
    "INTEGER": "a number",
    "STRING": "a string",
    "COMPARISON": "a comparison",
    "COMMA": "a comma",
    "RPAR": ")",
    "LPAR": "(",
    "RSQB": "]",
    "RBRACE": "}",
    "DOT": ".",
    "AND": "AND",
    "OR": "OR",
    "AS": "AS",
    "WHEN": "WHEN",
    "THEN": "THEN",
    "END": "END",
    "NULL": "NULL",
    "SEQ": "SEQ",
    "ANY": "ANY",
    **{clause: clause for clause in _CLAUSES},
    "$END": "the end of the query",
}


def _syntax_error(error: UnexpectedInput, text: str) -> Diagnostic:
    if isinstance(error, UnexpectedCharacters):
        return _unexpected_character(text, cast(int, error.pos_in_stream))
    assert isinstance(error, UnexpectedToken)
    token = error.token
    parser: Any = error.interactive_parser
    accepted = {terminal.removeprefix("_") for terminal in (parser.accepts() if parser else error.expected)}
    expected = [word for terminal, word in _WORDS.items() if terminal in accepted]
    if token.type == "$END":
        end = len(text.rstrip())
        return Diagnostic(
            _expected(expected, "the query ends"), Span(end, end + 1), _syntax_help(token, expected, text)
        )
    if text.startswith("/*", token.start_pos):
        return Diagnostic("this comment is never closed", Span(_span(token).start, _span(token).start + 2), "add */")
    return Diagnostic(_expected(expected, f"found {token}"), _span(token), _syntax_help(token, expected, text))


def _expected(words: list[str], found: str) -> str:
    if not words:
        return f"{found.removeprefix('found ')} does not fit here"
    shown = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    return f"expected {shown}, but {found}"


def _syntax_help(token: Token, expected: list[str], text: str) -> str | None:
    before = text[: token.start_pos or 0].rstrip() if token.type != "$END" else text.rstrip()
    if token == "(" and before.upper().endswith("SEQ"):
        return "SEQ takes event types, ANY(…) and ! of them; a sequence inside a sequence is not part of the language"
    if habit := _habit(token, before, expected):
        return habit
    if "EVENT" in expected:
        return "a query is [FROM stream] EVENT pattern [WHERE …] [WITHIN …] [RETURN …]"
    if token.type == "NAME":
        keywords = [word for word in expected if word.isupper() and word.isalpha()]
        near = did_you_mean(str(token), keywords)
        if near.startswith("did you mean"):
            return near
    if token.type in _CLAUSES or str(token).upper() in _CLAUSES:
        return "the clauses come in the order FROM, EVENT, WHERE, WITHIN, RETURN, each at most once"
    return None


# What people write out of habit: the word that it stumbles over, or the one before.
_HABITS = {
    "SELECT": "there are no subqueries: give the values as a list, IN {name}, or join the matches in Spark",
    "ORDER": "matches come in no order: sort them in Spark, matches.orderBy(…)",
    "LIMIT": "take some of the matches in Spark, matches.limit(…)",
    "GROUP": "group the matches in Spark, matches.groupBy(…)",
    "HAVING": "group and filter the matches in Spark, matches.groupBy(…)",
    "DISTINCT": "drop equal matches in Spark, matches.distinct()",
    "OVER": "functions that look at other rows are for the matches, in Spark",
    "PARTITION": "[id] in WHERE makes all events of a match agree on id",
}


def _habit(token: Token, before: str, expected: list[str]) -> str | None:
    words = before.upper().split()
    last = words[-1].rpartition("(")[2] if words else ""
    if "EVENT" not in expected and (habit := _HABITS.get(str(token).upper()) or _HABITS.get(last)):
        return habit
    in_pattern = ")" in expected and "a comparison" not in expected and "a string" not in expected
    match str(token):
        case "*" if before.upper().endswith("COUNT("):
            return "count the matches in Spark, matches.count()"
        case "*" if before.upper().endswith("ANY("):
            return "name the types, ANY(A, B)"
        case "*" if last == "RETURN":
            return "x.* has all attributes of x; without RETURN, a match has those of all events"
        case "+" | "*" | "?" | "{" if in_pattern:
            return "a component is one event: name each of them, SEQ(A a1, A a2)"
        case "=" | "-" if in_pattern:
            return "components are separated by commas, SEQ(A x, B y)"
        case _ if str(token).upper() == "AS" and "a name" in expected:
            return "the variable stands right behind the type, A x"
        case _ if token.type == "STRING" and last == "WITHIN":
            return f"write it without quotes, WITHIN {_unquote(str(token))}"
        case _ if str(token).upper() in ("EVENT", "FROM") and "the end of the query" in expected:
            return "there is one query at a time: put another one into a file of its own"
    return None


def _unexpected_character(text: str, position: int) -> Diagnostic:
    char = text[position]
    span = Span(position, position + 1)
    if char in "'\"‘’“”`":
        what = "name in backquotes" if char == "`" else "string"
        return Diagnostic(f"this {what} is never closed", span, f"add the closing {_CLOSING.get(char, char)}")
    help = "a value that is given with the query is written {name}" if char in ":$?@" else None
    return Diagnostic(f"{char!r} is not part of the language here", span, help)


_CLOSING = {"‘": "’", "“": "”"}
