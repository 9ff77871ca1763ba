"""Text → syntax tree."""

from __future__ import annotations

import re
from functools import partial
from typing import cast

from lark import Token, Tree, UnexpectedInput

from sase.compiler.core import durations
from sase.compiler.core.errors import Diagnostic, Span, did_you_mean
from sase.compiler.languages.sase.grammar import parser_of
from sase.compiler.languages.sase.parser import Builder, parse_as
from sase.compiler.languages.sase.syntax import Duration, Name, Return
from sase.compiler.languages.sase.syntax_errors import EXPECTED, explained
from sase.compiler.languages.sase.tokens import Node, extent, unquote
from sase.compiler.languages.telegraphcq.syntax import Alias, Defined, Event, Expression, Join, Kind, Operator, Query


def parse(text: str, filename: str = "<query>") -> Query:
    builder, parser = _Builder(), parser_of("telegraphcq", "telegraphcq/grammar.lark")
    return parse_as(builder, builder.whole, parser, partial(_syntax_error, text=text), text, filename)


def _parts(tree: Node, rule: str) -> list[Node]:
    return [part for part in tree.children if isinstance(part, Tree) and part.data == rule]


class _Builder(Builder):
    def whole(self, tree: Node, text: str, filename: str) -> Query:
        (statement,) = _parts(tree, "statement")
        sources = _parts(statement, "source")
        aliases = [alias for source in sources for alias in self.aliases(source)]
        select = _parts(statement, "select")
        where = _parts(statement, "where")
        return Query(
            text=text,
            filename=filename,
            defined=tuple(self.defined(part) for with_ in _parts(tree, "with") for part in _parts(with_, "definition")),
            returns=self.selected(select[0]) if select else None,
            into=self.into(statement),
            aliases=tuple(aliases),
            partition=tuple(
                self.name(name) for part in _parts(statement, "partition") for name in _parts(part, "name")
            ),
            event=self.event(statement, sources, aliases),
            where=self.expression(cast(Node, where[0].children[0])) if where else None,
        )

    def defined(self, tree: Node) -> Defined:
        (name,), (stream,), where = _parts(tree, "name"), _parts(tree, "type"), _parts(tree, "where")
        condition = self.expression(cast(Node, where[0].children[0])) if where else None
        return Defined(self.name(name), self.event_type(stream), condition)

    def selected(self, tree: Node) -> Return | None:
        if isinstance(tree.children[0], Token):
            return None
        items = tuple(self.return_item(cast(Node, part)) for part in tree.children)
        return Return(items, None, extent(tree))

    def aliases(self, source: Node) -> list[Alias]:
        """A stream without an alias is its own."""
        stream = self.event_type(_parts(source, "type")[0])
        names = [self.name(cast(Node, part.children[0])) for part in _parts(source, "alias")]
        return [Alias(name, stream) for name in names or [stream]]

    def event(self, statement: Node, sources: list[Node], aliases: list[Alias]) -> Expression | Join:
        ranges = [part for source in sources for part in _parts(source, "range")]
        expressions = [*_parts(statement, "operator"), *_parts(statement, "alias")]
        span = extent(sources[0]).to(extent(sources[-1]))
        if expressions and not ranges:
            return self.side(expressions[0])
        if expressions or len(ranges) != len(sources) or len(aliases) != len(sources):
            self.found.append(
                Diagnostic(
                    "EVENT and an operator say what happens, or a join in which each stream has one alias and a range",
                    span,
                    "write EVENT FOLLOWS(a, b, '5 min'), or FROM A[RANGE BY '5 min'] a, B[RANGE BY '5 min'] b",
                )
            )
        windows = tuple(self.length(_parts(part, "length")[0]) for part in ranges)
        return Join(tuple(alias.name for alias in aliases), windows, span)

    def side(self, tree: Node) -> Expression:
        if tree.data == "alias":
            return Event(self.name(cast(Node, tree.children[0])), extent(tree))
        token, left, right, *lengths = tree.children
        assert isinstance(token, Token)
        kind = cast(Kind, str(token).upper())
        window = self.length(cast(Node, lengths[0])) if lengths else None
        if (window is None) != (kind == "ANYONE"):
            self.found.append(
                Diagnostic(
                    "ANYONE has no window: it takes the results of both sides"
                    if kind == "ANYONE"
                    else f"{kind} needs a window",
                    extent(cast(Node, lengths[0])) if lengths else extent(token),
                    "write ANYONE(a, b)" if kind == "ANYONE" else f"write {kind}(a, b, '5 min')",
                )
            )
        return Operator(kind, self.side(cast(Node, left)), self.side(cast(Node, right)), window, extent(tree))

    def length(self, tree: Node) -> Duration | Name:
        (inner,) = tree.children
        if isinstance(inner, Tree):
            return self.window(tree)
        text, span = unquote(str(inner)).strip(), extent(inner)
        if parts := durations.parse(text):
            return Duration(parts, span)
        return Name(text, span)  # ‘ws’ is a parameter


_CLAUSES = ("WITH", "SELECT", "FROM", "PARTITION", "EVENT", "WHERE")
_WORDS = {**EXPECTED, "OPERATOR": "an operator", "STAR": "*", **{clause: clause for clause in _CLAUSES}}


def _syntax_error(error: UnexpectedInput, text: str) -> Diagnostic:
    found = explained(error, text, _WORDS, _help)
    word = re.search(r"\w+\s*\Z", text[: found.span.start])
    if word and text.startswith("(", found.span.start) and not re.fullmatch(_RESERVED, word[0].strip(), re.IGNORECASE):
        # The grammar takes it for an alias, and stumbles over what is behind it.
        name = word[0].strip()
        span = Span(word.start(), word.start() + len(name))
        return Diagnostic(f"{name} is no operator", span, did_you_mean(name, _OPERATORS, "the operators are"))
    return found


_RESERVED = r"SELECT|FROM|WHERE|EVENT|BY|AND|OR|NOT|IN|AS|WITH|\d+"


_OPERATORS = ("FOLLOWS", "PRECEDES", "NOTFOLLOWS", "NOTPRECEDES", "ANYONE", "BOTH")


def _help(token: Token, expected: list[str], text: str) -> str | None:
    start = token.start_pos or 0
    if str(token).upper() in ("WITHIN", "RETURN"):
        return "every operator has its own window, and SELECT says what is returned"
    if text[start + len(token) :].lstrip().startswith("("):
        return did_you_mean(str(token), _OPERATORS, "the operators are")
    if str(token).upper() in _CLAUSES or "FROM" in expected:
        return (
            "a query is SELECT … [INTO name] FROM stream alias, … [PARTITION BY …] EVENT FOLLOWS(a, b, '5 min') "
            "[WHERE …]"
        )
    return None
