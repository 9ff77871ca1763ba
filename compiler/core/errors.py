"""Compile errors: where, what, why, what to do; one renderer for all of them."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

from sase.compiler.core.dataclass import dataclass


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` (exclusive) of the query text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        return Span(min(self.start, other.start), max(self.end, other.end))

    def __deepcopy__(self, memo: object) -> Span:
        return self  # nothing of it can change, and every node of an expression has one


@dataclass(frozen=True)
class Diagnostic:
    message: str
    span: Span
    help: str | None = None


class SaseError(Exception):
    """Something is wrong with a query or a catalog; every finding with its place in the text."""

    def __init__(self, diagnostics: Iterable[Diagnostic], text: str, filename: str) -> None:
        self.diagnostics = tuple(sorted(diagnostics, key=lambda found: (found.span.start, found.span.end)))
        self.text = text
        self.filename = filename
        super().__init__("\n\n".join(render(found, text, filename) for found in self.diagnostics))


class CatalogError(Exception):
    """A catalog that does not say what it must; it has no place in a query's text."""


class OptionError(ValueError):
    """An option that does not exist or cannot be honoured for this query."""


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both count from 1, as editors do."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def render(found: Diagnostic, text: str, filename: str) -> str:
    """`file:line:column: error: what`, the line, carets under the span, and the help."""
    where, *excerpt = pointed(found.span, text, filename)
    shown = [f"{where}: error: {found.message}", *excerpt]
    if found.help:
        shown.append(f"  help: {found.help}")
    return "\n".join(shown)


def pointed(span: Span, text: str, filename: str) -> tuple[str, str, str]:
    """`file:line:column`, the line, and carets under the span."""
    line_number, column = line_and_column(text, span.start)
    lines = text.split("\n")
    line = lines[line_number - 1].rstrip("\r")
    start = column - 1
    # A span over several lines is underlined up to the end of its first one.
    end = min(start + max(span.end - span.start, 1), max(len(line), start + 1))
    gutter = f"{line_number:>4} | "
    under = "".join("\t" if char == "\t" else " " * _width(char) for char in line[:start])
    carets = "^" * max(sum(_width(char) for char in line[start:end]), 1)
    return f"{filename}:{line_number}:{column}", gutter + line, " " * (len(gutter) - 2) + "| " + under + carets


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def did_you_mean(name: str, known: Iterable[str], what: str = "") -> str:
    """`did you mean …?` when a known name is near, otherwise the known names; `what` introduces them."""
    names = sorted(set(known))
    lowered = {candidate.lower(): candidate for candidate in names}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    listed = f"{what} {', '.join(names)}".strip() if names else ""
    if near:
        return f"did you mean {lowered[near[0]]}?"
    return listed
