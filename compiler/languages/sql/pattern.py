"""PATTERN ( … ) → the tree of a row pattern."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.core.rows import Anchor, Concat, Either, Empty, Exclude, Node, Permute, Repeat, Symbol

LARGEST = 1_000_000


@cache
def _lark() -> Lark:
    grammar = files("sase.compiler.languages.sql").joinpath("pattern.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse_pattern(text: str, begin: int, end: int, filename: str) -> Node:
    """The pattern in text[begin:end]; spans are those of the whole text."""
    try:
        tree = _lark().parse(text[begin:end])
    except UnexpectedInput as error:
        raise SaseError([_syntax_error(error, begin, end)], text, filename) from None
    except RecursionError:
        deep = Diagnostic("this pattern is nested too deeply", Span(begin, end))
        raise SaseError([deep], text, filename) from None
    builder = _Builder(begin)
    node = builder.node(tree.children[0])
    if builder.found:
        raise SaseError(builder.found, text, filename)
    return node


class _Builder:
    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.found: list[Diagnostic] = []

    def _span(self, item: Tree[Token] | Token) -> Span:
        if isinstance(item, Token):
            assert item.start_pos is not None and item.end_pos is not None
            return Span(self.offset + item.start_pos, self.offset + item.end_pos)
        if item.meta.empty:
            return Span(self.offset, self.offset)
        return Span(self.offset + item.meta.start_pos, self.offset + item.meta.end_pos)

    def node(self, tree: Tree[Token] | Token) -> Node:
        assert isinstance(tree, Tree)
        span, children = self._span(tree), tree.children
        match tree.data:
            case "alternatives":
                return self.node(children[0]) if len(children) == 1 else Either(self._nodes(children), span)
            case "sequence":
                return self.node(children[0]) if len(children) == 1 else Concat(self._nodes(children), span)
            case "factor":
                return self.node(children[0]) if len(children) == 1 else self._repeat(tree)
            case "group":
                return self.node(children[0])
            case "exclusion":
                return Exclude(self.node(children[0]), span)
            case "permute":
                return Permute(self._nodes(children), span)
            case "empty":
                return Empty(span)
            case "anchor":
                return Anchor("^" if children[0] == "^" else "$", span)
        assert tree.data == "variable"
        return Symbol(_variable(str(children[0])), span)

    def _nodes(self, children: list[Tree[Token] | Token]) -> tuple[Node, ...]:
        return tuple(map(self.node, children))

    def _repeat(self, tree: Tree[Token]) -> Repeat:
        part, quantifier = tree.children
        assert isinstance(quantifier, Tree)
        sign, *reluctant = quantifier.children
        span = self._span(quantifier)
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(str(sign), (0, None))
        if isinstance(sign, Tree):
            bounds = {str(each.data): int(str(each.children[0])) for each in sign.children if isinstance(each, Tree)}
            low = bounds.get("exactly", bounds.get("low", 0))
            high = bounds.get("exactly", bounds.get("high"))
            if high is not None and (high < low or high == 0):
                what = "takes no row at all" if high == 0 else "has an upper bound below its lower one"
                self.found.append(Diagnostic(f"this quantifier {what}", span))
                low, high = 0, 1
            if max(low, high or 0) > LARGEST:
                self.found.append(Diagnostic(f"a bound may be {LARGEST:,} at most", span))
                low, high = 0, 1
        return Repeat(self.node(part), low, high, not reluctant, self._span(tree), span)


def _variable(text: str) -> str:
    """As SQL's standard has it: upper case, unless it is quoted."""
    close = {'"': '"', "`": "`", "[": "]"}.get(text[0])
    return text[1:-1].replace(close * 2, close) if close else text.upper()


def _syntax_error(error: UnexpectedInput, begin: int, end: int) -> Diagnostic:
    match error:
        case UnexpectedCharacters():
            at = begin + (error.pos_in_stream or 0)
            return Diagnostic("this has no meaning in a row pattern", Span(at, at + 1), _HELP)
        case UnexpectedToken() if error.token.type != "$END":
            assert error.token.start_pos is not None and error.token.end_pos is not None
            place = Span(begin + error.token.start_pos, begin + error.token.end_pos)
            if place.start == begin:
                return Diagnostic("a row pattern begins with a variable", place, _HELP)
            return Diagnostic("this is not expected here in a row pattern", place, _HELP)
        case _:
            return Diagnostic("the row pattern ends too early", Span(max(end - 1, begin), max(end, begin + 1)), _HELP)


_HELP = "a pattern is made of variables, | ( ) * + ? {2,3} ^ $ {- -} and PERMUTE(A, B)"
