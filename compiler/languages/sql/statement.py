"""A statement with MATCH_RECOGNIZE clauses: each is cut out by its tokens, and a view takes its place.

What is left is SQL, which sqlglot reads in the given dialect and prints for Spark. A clause reads a query of its own:
what stands before it in FROM, with the common table expressions that it sees. Both stay trees until they are printed,
so no text is pasted into text.

Another step that replaces a part of a statement by something that we compute does the same: it takes a `View` for it.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from sase.compiler.core.ctes import drop_unused, visible
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.core.rows import RowClause
from sase.compiler.languages.sql.binder import bind_clause
from sase.compiler.languages.sql.clause import parse_clause
from sase.compiler.languages.sql.tokens import (
    Tokens,
    closing,
    dialect_of,
    misread,
    opening,
    says,
    span,
    tokenize,
    wrong_token,
)


@dataclass(frozen=True)
class View:
    """The rows of a clause, under a name that the rest of the statement uses in its place."""

    name: str
    marker: str
    """What stands for it in the trees: a name that the statement has nowhere."""
    reads: exp.Query
    """What the clause looks at. It may use earlier views."""
    clause: RowClause


@dataclass(frozen=True)
class Statement:
    text: str
    filename: str
    dialect: str
    query: exp.Query
    """What is left, over tables and views."""
    views: tuple[View, ...]
    """In an order in which they can be computed."""


def read_statement(text: str, filename: str, dialect: str) -> Statement:
    """Raises all that is wrong with the text; whether tables and columns exist is Spark's to say."""
    reader = dialect_of(dialect)
    try:
        tokens = tokenize(text, reader)
    except TokenError as error:
        raise SaseError([wrong_token(error, text)], text, filename) from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    cuts = _cuts(tokens, text, filename)
    marker = unused(text, "sase_view")
    spliced = _spliced(tokens, cuts, marker)
    query = _parsed(spliced, text, filename, reader)
    found: list[Diagnostic] = []
    clauses: list[RowClause] = []
    for cut in cuts:
        try:
            parsed = parse_clause(tokens[cut.open + 1 : cut.close], text, filename)
            clauses.append(bind_clause(parsed, reader))
        except SaseError as error:
            found += error.diagnostics
    if found:
        raise SaseError(found, text, filename)
    views = []
    for index, clause in enumerate(clauses):
        name = "matches" if len(clauses) == 1 else f"matches_{index + 1}"
        view = f"{marker}_{index}"
        query, reads = _replaced(query, view)
        views.append(View(name, view, reads, clause))
    if views:
        drop_unused(query)
    return Statement(text, filename, dialect, query, tuple(views))


@dataclass(frozen=True)
class _Cut:
    """Token numbers: where the input of a clause begins, MATCH_RECOGNIZE itself, and its parentheses."""

    begin: int
    word: int
    open: int
    close: int


def _cuts(tokens: Tokens, text: str, filename: str) -> list[_Cut]:
    cuts: list[_Cut] = []
    for word in range(len(tokens)):
        if not says(tokens, word, "MATCH_RECOGNIZE") or (cuts and word < cuts[-1].close):
            continue
        close = None
        if word + 1 < len(tokens) and tokens[word + 1].token_type == TokenType.L_PAREN:
            close = closing(tokens, word + 1)
        begin = _input(tokens, word)
        if close is None or begin is None:
            what = "the parentheses behind MATCH_RECOGNIZE" if begin is not None else "the table before MATCH_RECOGNIZE"
            help = "write  FROM table MATCH_RECOGNIZE ( PARTITION BY … ORDER BY … PATTERN ( … ) DEFINE … )"
            raise SaseError(
                [
                    Diagnostic(
                        f"{what} is missing" if begin is None else f"{what} do not close",
                        span(tokens[word : word + 1]),
                        help,
                    )
                ],
                text,
                filename,
            )
        cuts.append(_Cut(begin, word, word + 1, close))
    return cuts


_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}


def _input(tokens: Tokens, word: int) -> int | None:
    """Where the table before MATCH_RECOGNIZE begins: a name, or a query in parentheses, perhaps with an alias."""
    at = word - 1
    if at < 0:
        return None
    if tokens[at].token_type != TokenType.R_PAREN:
        at = _before_alias(tokens, at)
    while at >= 0 and tokens[at].token_type == TokenType.R_PAREN:
        begin = opening(tokens, at)
        if begin is None:
            return None
        if begin == 0 or tokens[begin - 1].token_type not in _NAMES:
            at = begin
            break
        at = _before_alias(tokens, begin - 1)  # an alias with its columns,
        if at == begin - 1:  # or a function of tables
            break
    if at < 1 or tokens[at].token_type in (TokenType.FROM, TokenType.COMMA, TokenType.JOIN):
        return None
    while at >= 2 and tokens[at - 1].token_type == TokenType.DOT:
        at -= 2
    return at


def _before_alias(tokens: Tokens, at: int) -> int:
    """The end of what the name there is an alias of; itself, if it is none."""
    before = tokens[at - 1].token_type if at >= 1 else None
    if before == TokenType.ALIAS:
        return at - 2
    return at - 1 if before in _NAMES or before == TokenType.R_PAREN else at


def _spliced(tokens: Tokens, cuts: list[_Cut], marker: str) -> list[Token]:
    """`input MATCH_RECOGNIZE ( … )` becomes `(SELECT marker FROM input)`, which is found again by its column."""
    out: list[Token] = []
    begins: dict[int, list[int]] = {}
    for index, cut in enumerate(cuts):
        begins.setdefault(cut.begin, []).insert(0, index)
    at = 0
    words = {cut.word: cut for cut in cuts}
    while at < len(tokens):
        for index in begins.get(at, ()):
            out += [
                _made(tokens[at], kind, text)
                for kind, text in (
                    (TokenType.L_PAREN, "("),
                    (TokenType.SELECT, "SELECT"),
                    (TokenType.VAR, f"{marker}_{index}"),
                    (TokenType.FROM, "FROM"),
                )
            ]
        if at in words:
            out.append(_made(tokens[at], TokenType.R_PAREN, ")"))
            at = words[at].close + 1
            continue
        out.append(tokens[at])
        at += 1
    return out


def _made(place: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, place.line, place.col, place.start, place.end)


def _parsed(tokens: Tokens, text: str, filename: str, dialect: Dialect) -> exp.Query:
    whole = Span(0, max(len(text.rstrip()), 1))
    if not tokens:
        raise SaseError([Diagnostic("there is no statement", whole)], text, filename)
    try:
        found = [each for each in dialect.parser().parse(list(tokens), text) if each is not None]
    except ParseError as error:
        raise SaseError([misread(error, text, whole)], text, filename) from None
    except RecursionError:
        raise SaseError([Diagnostic("this statement is nested too deeply", whole)], text, filename) from None
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        what = "a query is one SELECT" if len(found) == 1 else "there are several statements"
        help = "give the SELECT alone: its rows are a DataFrame, to be written wherever you like"
        raise SaseError([Diagnostic(what, span(tokens[:1]), help)], text, filename)
    return found[0]


def _replaced(query: exp.Query, marker: str) -> tuple[exp.Query, exp.Query]:
    """The query with the marked subquery replaced by a table of that name, and what the subquery reads."""
    (select,) = (
        node for node in query.find_all(exp.Select) if len(node.expressions) == 1 and node.expressions[0].name == marker
    )
    subquery = select.parent
    assert isinstance(subquery, exp.Subquery), "it was spliced in between parentheses"
    reads = exp.select("*")
    for part in ("from_", "joins", "laterals"):
        if select.args.get(part):
            reads.set(
                part, [each.copy() for each in select.args[part]] if part != "from_" else select.args[part].copy()
            )
    seen = visible(select, reads)
    if seen:
        reads.set("with_", exp.With(expressions=seen))
    table = exp.Table(this=exp.to_identifier(marker))
    for name, value in list(subquery.args.items()):
        if name != "this" and value:
            table.set(name, value)
    subquery.replace(table)
    return query, reads


def unused(text: str, name: str) -> str:
    while name in text.lower():
        name += "_"
    return name
