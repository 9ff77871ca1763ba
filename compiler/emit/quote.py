"""Text of the user in a Python file, in the two ways it may get there: as a literal, or as a comment.

Both escape whatever could end them.
"""

from __future__ import annotations

from collections.abc import Sequence

from sase.compiler.core.dataclass import dataclass

LINE = 120


def literal(value: object) -> str:
    """A Python literal, strings in double quotes where that needs no escape."""
    match value:
        case str():
            text = repr(value)
            return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in value else text
        case tuple():
            return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
        case list():
            return f"[{', '.join(map(literal, value))}]"
        case dict():
            return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
        case _:
            return repr(value)


def wrapped(value: object, indent: int) -> str:
    """A literal over several lines where one would be too long; `indent` is that of the line it starts on."""
    flat = literal(value)
    if indent + len(flat) <= LINE - 20 or not isinstance(value, dict | list):
        return flat
    inner, outer = " " * (indent + 4), " " * indent
    if isinstance(value, dict):
        return (
            "{\n" + "".join(f"{inner}{literal(key)}: {literal(item)},\n" for key, item in value.items()) + outer + "}"
        )
    return "[\n" + "".join(f"{inner}{literal(item)},\n" for item in value) + outer + "]"


@dataclass(frozen=True)
class Call:
    """A call or a tuple with its arguments, which are finished Python or calls themselves."""

    head: str
    """What stands before the arguments: `Branch(`, `where=(`, or `(` alone."""
    arguments: Sequence[str | Call]

    def __str__(self) -> str:
        is_tuple = self.head == "(" or self.head.endswith("=(")
        comma = "," if is_tuple and len(self.arguments) == 1 else ""
        return f"{self.head}{', '.join(map(str, self.arguments))}{comma})"


def written(value: str | Call, indent: int) -> list[str]:
    """Over as many lines as it needs, an argument a line."""
    flat = str(value)
    if isinstance(value, str) or indent + len(flat) <= LINE - 20:
        return [" " * indent + flat]
    lines = [" " * indent + value.head]
    for argument in value.arguments:
        inner = written(argument, indent + 4)
        lines += [*inner[:-1], inner[-1] + ","]
    return [*lines, " " * indent + ")"]


def comment_lines(text: str) -> list[str]:
    """The text as comment lines without the leading `#`; no character in them can end the line."""
    lines = text.expandtabs(4).split("\n")
    return [("     " + printable(line.rstrip())).rstrip() for line in lines]


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
