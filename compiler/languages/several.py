"""A file of several queries, with semicolons between them: each is read by itself, at its place in the text."""

from __future__ import annotations

import re
from itertools import pairwise

from sase.compiler.core.errors import SaseError
from sase.compiler.languages.front_end import Parsed
from sase.compiler.languages.registry import BLANK, read

_SKIPPED = (
    r"--[^\n]*",
    r"/\*.*?\*/",
    r"`[^`]*`",
    r"'(?:[^'\\]|\\.)*'",
    r'"(?:[^"\\]|\\.)*"',
    r"[‘’](?:[^’\\]|\\.)*’",
    r"[“”](?:[^”\\]|\\.)*”",
)
"""Comments, names and strings, as in the grammar: a semicolon inside of them separates nothing."""
_MARKS = re.compile("|".join((*_SKIPPED, "(;)")), re.DOTALL)


def read_all(text: str, filename: str, language: str | None = None) -> tuple[Parsed, ...]:
    """The queries of a file, each in the language that its first words tell unless one is given."""
    return tuple(_read(alone, text, filename, language) for alone in separated(text))


def _read(alone: str, text: str, filename: str, language: str | None) -> Parsed:
    """What is wrong is shown in the whole text: others may stand on the same line."""
    try:
        return read(alone, filename, language)
    except SaseError as error:
        raise SaseError(error.diagnostics, text, filename) from None


def separated(text: str) -> list[str]:
    """Each query as the only one in the text: the others are blanks, so that places stay what they are."""
    ends = [found.end() for found in _MARKS.finditer(text) if found[1]]
    cuts = [0, *(end for end in ends if not _is_blank(text[end:])), len(text)]
    return [_blanks(text[:start]) + text[start:end] + _blanks(text[end:]) for start, end in pairwise(cuts)]


def _is_blank(text: str) -> bool:
    found = BLANK.match(text)
    return found is not None and found.end() == len(text)


def _blanks(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
