"""The parser that lark makes of `grammar.lark`. Making it takes longer than all else of a check, so it is kept."""

from __future__ import annotations

import io
import sys
from functools import cache
from hashlib import sha256
from importlib.resources import files

import lark
from lark import Lark

from sase import cache as kept


@cache
def parser_of(start: str = "start", *extensions: str) -> Lark:
    """A parser of this grammar; another language adds its own rules. Importing ours would rename all of them."""
    languages = files("sase.compiler.languages")
    paths = ("sase/grammar.lark", *extensions)
    grammar = "\n".join(languages.joinpath(path).read_text(encoding="utf-8") for path in paths)
    made_of = repr((grammar, start, lark.__version__, sys.version_info[:3]))
    name = f"grammar-{sha256(made_of.encode()).hexdigest()[:32]}"
    if (content := kept.read(name)) is not None:
        try:
            return Lark.load(io.BytesIO(content))
        except Exception:  # whatever a damaged file makes of lark: it is made anew
            pass
    made = Lark(grammar, parser="lalr", start=start, propagate_positions=True, maybe_placeholders=False)
    file = io.BytesIO()
    made.save(file)
    kept.write(name, file.getvalue())
    return made
