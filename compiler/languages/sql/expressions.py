"""Scalar expressions of a clause: sqlglot's, with the functions of row patterns left as they are written.

Some dialects have a FIRST or a LAG of their own, and none knows `FINAL LAST(x)` inside an expression.
"""

from __future__ import annotations

from functools import cache
from typing import TypeVar, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.languages.sql.tokens import Tokens, misread, says, span

E = TypeVar("E", bound=exp.Expr)

STEPS = {"PREV": -1, "NEXT": 1, "LAG": -1, "LEAD": 1}
ENDS = {"FIRST": True, "LAST": False}
_OURS = {*STEPS, *ENDS, "CLASSIFIER", "MATCH_NUMBER"}
SEMANTICS = ("RUNNING", "FINAL")


@cache
def _parser(dialect: type[Dialect]) -> type[Parser]:
    base = dialect.parser_class
    tables = ("FUNCTIONS", "FUNCTION_PARSERS", "NO_PAREN_FUNCTION_PARSERS")
    kept = {
        table: {name: value for name, value in getattr(base, table).items() if name not in _OURS} for table in tables
    }
    return cast("type[Parser]", type("RowPatternParser", (base,), kept))


def parse_expression(
    tokens: Tokens,
    text: str,
    filename: str,
    dialect: Dialect,
    kind: type[E] = exp.Condition,  # type: ignore[assignment]
) -> E:
    """The expression that these tokens say; places are those of the whole text."""
    parser = _parser(type(dialect))(dialect=dialect)
    try:
        (found,) = parser.parse_into(kind, _with_semantics(tokens), text)
    except ParseError as error:
        raise SaseError([misread(error, text, span(tokens))], text, filename) from None
    except RecursionError:
        raise SaseError([Diagnostic("this is nested too deeply", span(tokens))], text, filename) from None
    if found is None:
        raise SaseError([Diagnostic("this is no expression", span(tokens))], text, filename)
    return cast(E, found)


def _with_semantics(tokens: Tokens) -> list[Token]:
    """`FINAL LAST(` becomes one function, whose name has both words."""
    out: list[Token] = []
    at = 0
    while at < len(tokens):
        word, behind = tokens[at], tokens[at + 1 : at + 3]
        semantics = any(says(tokens, at, each) for each in SEMANTICS)
        if semantics and len(behind) == 2 and behind[1].token_type == TokenType.L_PAREN:
            name = f"{word.text} {behind[0].text}".upper()
            out.append(Token(TokenType.VAR, name, word.line, word.col, word.start, behind[0].end))
            at += 2
        else:
            out.append(word)
            at += 1
    return out


def place(node: exp.Expr, default: Span) -> Span:
    """From the first to the last character that sqlglot knows the place of."""
    known = [each.meta for each in node.walk() if "start" in each.meta]
    if not known:
        return default
    return Span(min(each["start"] for each in known), max(each["end"] for each in known) + 1)
