"""What is wrong with a text that is no query, and what may have been meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from lark import Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from sase.compiler.core.errors import Diagnostic, Span, did_you_mean
from sase.compiler.languages.sase.tokens import extent, unquote

EXPECTED = {
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
}
"""What may be expected in and behind expressions, by terminal."""
_CLAUSES = ("FROM", "EVENT", "WHERE", "WITHIN", "RETURN", "INTO")
_WORDS = {**EXPECTED, "SEQ": "SEQ", "ANY": "ANY", **{clause: clause for clause in _CLAUSES[:-1]}}
"""INTO is left out: it may follow nearly everything, and who needs it knows."""


def syntax_error(error: UnexpectedInput, text: str) -> Diagnostic:
    return explained(error, text, _WORDS, _help)


def explained(
    error: UnexpectedInput,
    text: str,
    words: Mapping[str, str],
    help: Callable[[Token, list[str], str], str | None],
) -> Diagnostic:
    """An error of any language: `words` has what it may expect, by terminal."""
    if isinstance(error, UnexpectedCharacters):
        return _unexpected_character(text, cast(int, error.pos_in_stream))
    assert isinstance(error, UnexpectedToken)
    token = error.token
    parser: Any = error.interactive_parser
    accepted = {terminal.removeprefix("_") for terminal in (parser.accepts() if parser else error.expected)}
    if "RPAR" in accepted:  # a part of a pattern may have clauses of its own, and who needs them knows
        accepted -= {"WHERE", "WITHIN"}
    expected = [word for terminal, word in (*words.items(), ("$END", "the end of the query")) if terminal in accepted]
    if token.type == "$END":
        end = len(text.rstrip())
        return Diagnostic(_expected(expected, "the query ends"), Span(end, end + 1), help(token, expected, text))
    if text.startswith("/*", token.start_pos):
        return Diagnostic("this comment is never closed", Span(extent(token).start, extent(token).start + 2), "add */")
    return Diagnostic(_expected(expected, f"found {token}"), extent(token), help(token, expected, text))


def _expected(words: list[str], found: str) -> str:
    if not words:
        return f"{found.removeprefix('found ')} does not fit here"
    shown = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    return f"expected {shown}, but {found}"


def _help(token: Token, expected: list[str], text: str) -> str | None:
    before = text[: token.start_pos or 0].rstrip() if token.type != "$END" else text.rstrip()
    if habit := _habit(token, before, expected):
        return habit
    if "EVENT" in expected and _first_word(token) in ("SELECT", "WITH"):
        return _SQL
    if "EVENT" in expected:
        return "a query is [FROM stream] EVENT pattern [WHERE …] [WITHIN …] [CONSUME …] [RETURN …] [INTO name]"
    if token.type == "NAME":
        keywords = [word for word in expected if word.isupper() and word.isalpha()]
        near = did_you_mean(str(token), keywords)
        if near.startswith("did you mean"):
            return near
    if token.type in _CLAUSES or str(token).upper() in (*_CLAUSES, "CONSUME"):
        return "the clauses come in the order FROM, EVENT, WHERE, WITHIN, CONSUME, RETURN, INTO, each at most once"
    return None


_SQL = (
    "SQL has a file of its own, whose name ends in .sql, and one statement in it; it can read the results of other "
    "queries as tables. A query of TelegraphCQ has EVENT and an operator, FOLLOWS(a, b, '5 min')"
)
# What people write out of habit: the word that it stumbles over, or the one before.
_HABITS = {
    "SELECT": "there are no subqueries: give the values as a list, IN {name}, or join the matches in Spark",
    "ORDER": "matches come in no order: sort them in Spark, matches.orderBy(…)",
    "LIMIT": "take some of the matches in Spark, matches.limit(…)",
    "GROUP": "GROUP BY stands behind RETURN: RETURN x.id, count(*) AS n GROUP BY x.id",
    "HAVING": "group and filter the matches in Spark, matches.groupBy(…)",
    "DISTINCT": "drop equal matches in Spark, matches.distinct()",
    "OVER": "functions that look at other rows are for the matches, in Spark",
    "PARTITION": "[id] in WHERE makes all events of a match agree on id",
}


def _first_word(token: Token) -> str:
    """GROUP of GROUP BY."""
    return next(iter(str(token).upper().split()), "")


def _habit(token: Token, before: str, expected: list[str]) -> str | None:
    words = before.upper().split()
    last = words[-1].rpartition("(")[2] if words else ""
    if "EVENT" not in expected and (habit := _HABITS.get(_first_word(token)) or _HABITS.get(last)):
        return habit
    in_pattern = ")" in expected and "a comparison" not in expected and "a string" not in expected
    match str(token):
        case "*" if last == "RETURN":
            return "x.* has all attributes of x; without RETURN, a match has those of all events"
        case "+" | "*" | "?" if in_pattern:
            return "how many there are stands right behind the type: A+ a, A* a, A? a, A{2,4} a"
        case "?":
            return "a value that is given with the query is written {name}"
        case "=" | "-" if in_pattern:
            return "components are separated by commas, SEQ(A x, B y)"
        case _ if str(token).upper() == "AS" and "a name" in expected:
            return "the variable stands right behind the type, A x"
        case word if word.upper() in ("SKIP", "PARTITION", "STRICT", "AFTER") and "the end of the query" in expected:
            return (
                "strategies are SKIP TILL ANY MATCH, SKIP TILL NEXT MATCH, PARTITION CONTIGUITY and STRICT CONTIGUITY; "
                "behind one, AFTER MATCH SKIP PAST LAST ROW or TO NEXT ROW"
            )
        case _ if token.type == "STRING" and last == "WITHIN":
            return f"write it without quotes, WITHIN {unquote(str(token))}"
        case _ if str(token).upper() in ("EVENT", "FROM") and "the end of the query" in expected:
            return "another query of the file begins behind a semicolon"
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
