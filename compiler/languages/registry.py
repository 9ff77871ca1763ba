"""The languages of patterns that there are, and which of them a text is in."""

from __future__ import annotations

import re
from importlib import import_module

from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import OptionError, did_you_mean
from sase.compiler.languages.front_end import Parsed

_OPERATORS = r"(?:(?:NOT)?(?:FOLLOWS|PRECEDES)|ANYONE|BOTH)"
_SQL = r"(?:IN|IS|NOT|ON|ASC|DESC|WHERE|JOIN|LIKE|BETWEEN|GROUP|ORDER|LIMIT|USING|AND|OR)\b"
_EVENT = rf"\bFROM\b[^()]*?\bEVENT\s+(?!{_SQL})\w+\s*(?:\(|;|WHERE\b|\Z)"
"""One event, or an operator, however it is misspelled: FROM A a EVENT a, FROM A a, B b EVENT FOLOWS(. In SQL, `event`
may be a name."""


@dataclass(frozen=True)
class Language:
    name: str
    """As `--language` and `language=` take it."""
    begins: str
    """A regular expression for the first words of a query, and as many more as it takes to know."""
    folder: str


LANGUAGES = (
    Language(
        "telegraphcq",
        rf"(?:SELECT|WITH)\b.*?(?:\b{_OPERATORS}\s*\(|{_EVENT}|\[\s*RANGE\s+BY\b)",
        "telegraphcq",
    ),
    Language("vdms-pq", r"PATTERN\b", "vdms_pq"),
    Language("sase", "", "sase"),  # last: what begins like no other language is read as SASE, which says what is wrong
)
NAMES = tuple(language.name for language in LANGUAGES)

BLANK = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
"""What may stand in front of a query: the comments are those of every language."""


def recognised(text: str) -> Language:
    start = BLANK.match(text)
    assert start is not None, "it may be empty"
    return next(
        each for each in LANGUAGES if re.compile(each.begins, re.IGNORECASE | re.DOTALL).match(text, start.end())
    )


def read(text: str, filename: str, language: str | None = None) -> Parsed:
    """Reads a query, in the language that its first words tell unless one is given."""
    if language is not None and language not in NAMES:
        raise OptionError(f"there is no language {language!r}: {did_you_mean(language, NAMES, 'there are')}")
    chosen = next((each for each in LANGUAGES if each.name == language), None) or recognised(text)
    parsed = import_module(f"sase.compiler.languages.{chosen.folder}.front_end").read(text, filename)
    assert isinstance(parsed, Parsed)
    return parsed
