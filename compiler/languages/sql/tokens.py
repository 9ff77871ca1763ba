"""Tokens of a statement: their places, and what stands between parentheses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from sase.compiler.core.errors import Diagnostic, OptionError, Span, did_you_mean

Tokens = Sequence[Token]

_QUOTED = {TokenType.STRING, TokenType.IDENTIFIER, TokenType.NATIONAL_STRING, TokenType.RAW_STRING}
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


def dialect_of(name: str) -> Dialect:
    try:
        return Dialect.get_or_raise(name)
    except ValueError:
        clue = did_you_mean(name, (each for each in Dialect.classes if each), "there are")
        raise OptionError(f"there is no dialect {name!r}: {clue}") from None


def tokenize(text: str, dialect: Dialect) -> list[Token]:
    """TokenError becomes a Diagnostic by `wrong_token`."""
    return list(dialect.tokenize(text))


def looks_like_sql(text: str, dialect: str = "spark") -> bool:
    """Whether a text is SQL, and not a query of another language of ours: those begin with FROM or EVENT."""
    try:
        first = next(iter(tokenize(text, dialect_of(dialect))), None)
    except TokenError:
        return False
    return first is not None and first.text.upper() in ("SELECT", "WITH", "(", "VALUES", "TABLE")


def wrong_token(error: TokenError, text: str) -> Diagnostic:
    """sqlglot says only what stands around: something that is opened and never closed, more often than not."""
    return Diagnostic(
        "this text cannot be read to its end",
        Span(max(len(text.rstrip()) - 1, 0), len(text.rstrip())),
        "a quote or a comment may be open: check what is opened last",
    )


def span(tokens: Tokens) -> Span:
    return Span(tokens[0].start, tokens[-1].end + 1)


def says(tokens: Tokens, at: int, words: str) -> int:
    """How many tokens from `at` on say these words; 0 if they do not. sqlglot makes one token of ORDER BY."""
    wanted, place = words.split(), at
    while wanted:
        if place >= len(tokens) or tokens[place].token_type in _QUOTED:
            return 0
        spoken = tokens[place].text.upper().split()
        if not spoken or spoken != wanted[: len(spoken)]:
            return 0
        wanted = wanted[len(spoken) :]
        place += 1
    return place - at


def closing(tokens: Tokens, opening: int) -> int | None:
    """The token that closes the parenthesis at `opening`. Only parentheses count: a row pattern has {- and -}, too."""
    depth = 0
    for at in range(opening, len(tokens)):
        kind = tokens[at].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth == 0:
            return at
    return None


def opening(tokens: Tokens, closing: int) -> int | None:
    depth = 0
    for at in range(closing, -1, -1):
        kind = tokens[at].token_type
        depth += (kind == TokenType.R_PAREN) - (kind == TokenType.L_PAREN)
        if depth == 0:
            return at
    return None


def outermost(tokens: Tokens) -> Iterator[int]:
    """The tokens that stand between no parentheses, brackets or braces."""
    depth = 0
    for at, token in enumerate(tokens):
        if token.token_type in _CLOSING:
            depth -= 1
        if depth == 0:
            yield at
        if token.token_type in _OPENING:
            depth += 1


def split(tokens: Tokens, separator: TokenType = TokenType.COMMA) -> list[Tokens]:
    """The parts between commas."""
    cuts = [at for at in outermost(tokens) if tokens[at].token_type == separator]
    return [tokens[begin + 1 : end] for begin, end in zip([-1, *cuts], [*cuts, len(tokens)], strict=True)]


def misread(error: ParseError, text: str, default: Span) -> Diagnostic:
    """What sqlglot did not understand, with its place."""
    found = error.errors[0] if error.errors else {}
    line, column, highlight = found.get("line"), found.get("col"), found.get("highlight") or ""
    place = default
    if line and column and highlight:
        # The column is that of the token's last character, in its line.
        before = sum(len(each) + 1 for each in text.split("\n")[: line - 1])
        end = before + column
        if text[max(end - len(highlight), 0) : end] == highlight:
            place = Span(end - len(highlight), end)
    said = str(found.get("description") or "this is not SQL").rstrip(".")
    plain = {"Invalid expression / Unexpected token": "this is not expected here"}
    message = plain.get(said, "something is missing here" if said.startswith(("Required", "Expected")) else said)
    return Diagnostic(message[0].lower() + message[1:], place)


def name_of(token: Token) -> str | None:
    """An identifier as SQL's standard has it: in upper case, unless it is quoted. None if it is none."""
    if token.token_type == TokenType.IDENTIFIER:
        return token.text
    if token.token_type == TokenType.STRING or not (token.text[:1].isalpha() or token.text[:1] == "_"):
        return None
    return token.text.upper()
