"""Where the grammar's tokens stand in the text, and what a string among them says."""

from __future__ import annotations

import re

from lark import Token, Tree

from sase.compiler.core.errors import Span

Node = Tree[Token]


def extent(part: Node | Token) -> Span:
    if isinstance(part, Token):
        assert part.start_pos is not None and part.end_pos is not None
        return Span(part.start_pos, part.end_pos)
    return Span(part.meta.start_pos, part.meta.end_pos)


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def unquote(token: str) -> str:
    """A string's value: Spark's backslash escapes, and a doubled straight quote for one."""
    quote, body = token[0], token[1:-1]
    if quote in "'\"":
        body = body.replace(quote * 2, "\\" + quote)
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), body, flags=re.DOTALL)
