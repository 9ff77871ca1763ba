"""The parts of a MATCH_RECOGNIZE clause: tokens → sections, each with its place."""

from __future__ import annotations

from dataclasses import field

from sqlglot.tokenizer_core import TokenType

from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.core.rows import Node, Shown
from sase.compiler.languages.sql.pattern import parse_pattern
from sase.compiler.languages.sql.tokens import Tokens, closing, name_of, outermost, says, span, split


@dataclass(frozen=True)
class Named:
    """`tokens AS name`."""

    name: str
    place: Span
    tokens: Tokens


@dataclass(frozen=True)
class SkipTo:
    to: str
    variable: str | None
    place: Span


@dataclass
class Clause:
    """A clause as it was written; names have no meaning yet."""

    text: str
    filename: str
    tokens: Tokens
    by: list[Tokens] = field(default_factory=list)
    order: list[Tokens] = field(default_factory=list)
    measures: list[Named] = field(default_factory=list)
    shown: Shown = "one row"
    shown_at: Span | None = None
    skip: SkipTo | None = None
    pattern: Node | None = None
    within: Tokens | None = None
    subsets: list[tuple[str, Span, list[tuple[str, Span]]]] = field(default_factory=list)
    define: list[Named] = field(default_factory=list)


SECTIONS = (
    ("PARTITION BY",),
    ("ORDER BY",),
    ("MEASURES",),
    ("ONE ROW PER MATCH", "ALL ROWS PER MATCH"),
    ("AFTER MATCH SKIP",),
    ("INITIAL", "SEEK"),
    ("PATTERN",),
    ("WITHIN",),
    ("SUBSET",),
    ("DEFINE",),
)
"""In the order in which they may stand. Where a word may also be a column, what must follow it decides."""

_ORDER = ", ".join(name for names in SECTIONS for name in names if name not in ("INITIAL", "SEEK"))


def parse_clause(tokens: Tokens, text: str, filename: str) -> Clause:
    """What stands between the parentheses of MATCH_RECOGNIZE ( … )."""
    return _Reader(tokens, text, filename).clause()


class _Reader:
    def __init__(self, tokens: Tokens, text: str, filename: str) -> None:
        self.tokens, self.text, self.filename = tokens, text, filename

    def _fail(self, message: str, place: Span, help: str | None = None) -> SaseError:
        return SaseError([Diagnostic(message, place, help)], self.text, self.filename)

    def clause(self) -> Clause:
        tokens = self.tokens
        clause = Clause(self.text, self.filename, tokens)
        sections = self._sections()
        for name, head, body in sections:
            match name:
                case "PARTITION BY":
                    clause.by = self._items(name, head, body)
                case "ORDER BY":
                    clause.order = self._items(name, head, body)
                case "MEASURES":
                    clause.measures = [self._measure(item) for item in self._items(name, head, body)]
                case "ONE ROW PER MATCH" | "ALL ROWS PER MATCH":
                    clause.shown, clause.shown_at = self._shown(name, head, body), span([*head, *body])
                case "AFTER MATCH SKIP":
                    clause.skip = self._skip(head, body)
                case "INITIAL" | "SEEK":
                    why = "it looks for one match from a row of a window on, and a clause in FROM looks for all of them"
                    raise self._fail(f"{name} is not supported: {why}", span(head), "leave it out")
                case "PATTERN":
                    clause.pattern = self._pattern(head, body)
                case "WITHIN":
                    clause.within = self._body(name, head, body)
                case "SUBSET":
                    clause.subsets = [self._subset(item) for item in self._items(name, head, body)]
                case "DEFINE":
                    clause.define = [self._definition(item) for item in self._items(name, head, body)]
        if clause.pattern is None:
            at = span(tokens[-1:]) if tokens else Span(0, 1)
            raise self._fail("a MATCH_RECOGNIZE clause needs PATTERN ( … )", at, f"the parts are, in order: {_ORDER}")
        return clause

    def _sections(self) -> list[tuple[str, Tokens, Tokens]]:
        """Name, the words that say it, and what follows, up to the next section."""
        tokens, starts, least = self.tokens, list[tuple[int, int, str]](), 0
        for at in outermost(tokens):
            if starts and at < starts[-1][0] + starts[-1][1]:
                continue
            for place, names in enumerate(SECTIONS):
                name = next((name for name in names if self._begins(at, name)), None)
                if name is None:
                    continue
                if place < least:
                    seen = [each for _, _, each in starts]
                    what = f"there are two {name}" if name in seen else f"{name} stands too late"
                    raise self._fail(what, span(tokens[at : at + 1]), f"the parts are, in order: {_ORDER}")
                starts.append((at, says(tokens, at, name), name))
                least = place + 1
                break
        if tokens and (not starts or starts[0][0] > 0):
            what = "this is no part of a MATCH_RECOGNIZE clause"
            raise self._fail(what, span(tokens[:1]), f"the parts are, in order: {_ORDER}")
        ends = [at for at, _, _ in starts[1:]] + [len(tokens)]
        return [
            (name, tokens[at : at + length], tokens[at + length : end])
            for (at, length, name), end in zip(starts, ends, strict=True)
        ]

    def _begins(self, at: int, name: str) -> bool:
        tokens, length = self.tokens, says(self.tokens, at, name)
        if not length:
            return False
        behind = tokens[at + length : at + length + 2]
        kinds = [token.token_type for token in behind]
        match name:
            case "PATTERN":
                return kinds[:1] == [TokenType.L_PAREN]
            case "SUBSET":
                return kinds[1:] == [TokenType.EQ]
            case "DEFINE":
                return kinds[1:] == [TokenType.ALIAS]
            case "MEASURES" | "WITHIN" | "INITIAL" | "SEEK":
                before = tokens[at - 1].token_type if at else None
                inside = {TokenType.COMMA, TokenType.DOT, TokenType.ALIAS}
                grouped = name == "WITHIN" and says(tokens, at, "WITHIN GROUP")  # of an aggregate
                return not grouped and before not in inside and kinds[:1] not in ([TokenType.COMMA], [TokenType.DOT])
        return True

    def _body(self, name: str, head: Tokens, body: Tokens) -> Tokens:
        if not body:
            raise self._fail(f"nothing stands behind {name}", span(head))
        return body

    def _items(self, name: str, head: Tokens, body: Tokens) -> list[Tokens]:
        items = split(self._body(name, head, body))
        if not all(items):
            raise self._fail(f"{name} has a comma too many", span(body))
        return items

    def _measure(self, item: Tokens) -> Named:
        aliases = [at for at in outermost(item) if item[at].token_type == TokenType.ALIAS]
        if not aliases or aliases[-1] != len(item) - 2 or aliases[-1] == 0:
            raise self._fail("a measure needs a name", span(item), "write  expression AS name")
        token = item[-1]
        if name_of(token) is None:
            raise self._fail("this is no name", span(item[-1:]))
        return Named(token.text, span(item[-1:]), item[: aliases[-1]])

    def _definition(self, item: Tokens) -> Named:
        name = name_of(item[0])
        if name is None or len(item) < 3 or item[1].token_type != TokenType.ALIAS:
            raise self._fail("a definition names a variable and its condition", span(item), "write  NAME AS condition")
        return Named(name, span(item[:1]), item[2:])

    def _subset(self, item: Tokens) -> tuple[str, Span, list[tuple[str, Span]]]:
        name = name_of(item[0])
        shape = [token.token_type for token in item[1:3]] == [TokenType.EQ, TokenType.L_PAREN]
        members = split(item[3:-1])
        if name is None or not shape or item[-1].token_type != TokenType.R_PAREN:
            raise self._fail("a subset is a name for several variables", span(item), "write  NAME = (A, B)")
        if not all(len(each) == 1 and name_of(each[0]) for each in members):
            raise self._fail("a subset is made of variables", span(item), "write  NAME = (A, B)")
        return name, span(item[:1]), [(str(name_of(each[0])), span(each)) for each in members]

    def _shown(self, name: str, head: Tokens, body: Tokens) -> Shown:
        kinds: dict[str, Shown] = {"": "one row"}
        if name.startswith("ALL"):
            kinds = {
                "": "all rows",
                "SHOW EMPTY MATCHES": "all rows",
                "OMIT EMPTY MATCHES": "all rows but empty matches",
                "WITH UNMATCHED ROWS": "all rows and unmatched rows",
            }
        said = " ".join(token.text.upper() for token in body)
        if said not in kinds:
            choices = ", ".join(kind for kind in kinds if kind) or "nothing"
            raise self._fail(f"this does not follow {name}", span(body), f"what may follow is {choices}")
        return kinds[said]

    def _skip(self, head: Tokens, body: Tokens) -> SkipTo:
        place = span([*head, *body])
        for words, to in (("PAST LAST ROW", "past last row"), ("TO NEXT ROW", "next row")):
            if says(body, 0, words) == len(body) > 0:
                return SkipTo(to, None, place)
        for words, to in (("TO FIRST", "first"), ("TO LAST", "last"), ("TO", "last")):
            length = says(body, 0, words)
            if length and len(body) == length + 1 and (name := name_of(body[-1])):
                return SkipTo(to, name, span(body[-1:]))
        choices = "PAST LAST ROW, TO NEXT ROW, TO FIRST variable, TO LAST variable, TO variable"
        raise self._fail("AFTER MATCH SKIP goes nowhere", place, f"what may follow is {choices}")

    def _pattern(self, head: Tokens, body: Tokens) -> Node:
        close = closing(body, 0)
        if close is None or close != len(body) - 1:
            more = span(body if close is None else body[close + 1 :])
            raise self._fail("this does not belong to PATTERN ( … )", more, f"the parts are, in order: {_ORDER}")
        return parse_pattern(self.text, body[0].end + 1, body[-1].start, self.filename)
