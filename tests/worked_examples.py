"""The examples of the languages, read from Markdown: a query, events, and exactly its matches."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sase.compiler.core.catalog import Catalog
from sase.testing import blocks

FOLDER = Path(__file__).parent / "examples"

Match = tuple[tuple[str, ...], str | None]
"""The labels of its events, `-` where a variable is unbound, `{…}` for several, and its time where it is told."""


@dataclass(frozen=True)
class Example:
    name: str
    query: str
    given: dict[str, dict[str, Any]]
    """The events by label: `a3'(id=1)` is labelled `a3'`."""
    matches: Counter[Match]
    catalog: Catalog
    settings: dict[str, str] = field(default_factory=dict)


def examples(name: str) -> list[Example]:
    found = blocks((FOLDER / f"{name}.md").read_text(encoding="utf-8"))
    return [_example(block.kind.split()[1], block.text) for block in found if block.kind.startswith("example")]


_WORDS = ("types", "parameters", "missing", "select", "consume", "given", "matches")


def _example(name: str, text: str) -> Example:
    query, *parts = re.split(rf"^({'|'.join(_WORDS)})\b", text, flags=re.MULTILINE)
    sections = {word: " ".join(content.split()) for word, content in zip(parts[::2], parts[1::2], strict=True)}
    labels = re.findall(r"([a-z]+[\d.]+'*)(?:\(([^)]*)\))?", sections["given"])
    given = {label: _event(label, values) for label, values in labels}
    assert len(given) == len(labels), f"{name}: labels must differ"
    matches = Counter(
        (tuple(label.strip() for label in found[0].split(",")), found[1] or None)
        for found in re.findall(r"\(([^)]*)\)(?:@(\d+))?", sections["matches"])
    )
    parameters = {key: int(value) for key, value in _pairs(sections.get("parameters", ""))}
    catalog = Catalog(
        order="n" if any(row["n"] for row in given.values()) else None,
        types={
            kind: {"ts": "bigint", **{attribute: "bigint" for attribute in attributes}}
            for kind, attributes in _types(sections.get("types", ""), query, given).items()
        },
        parameters=parameters,
    )
    return Example(name, query.strip(), given, matches, catalog, sections)


def _event(label: str, values: str) -> dict[str, Any]:
    kind, time, order = re.fullmatch(r"([a-z]+)(\d+)(?:\.(\d+))?'*", label).groups()  # type: ignore[union-attr]
    attributes = {key: None if value == "NULL" else int(value) for key, value in _pairs(values)}
    return {"type": kind.upper(), "ts": int(time), "n": int(order or 0), **attributes}


def _pairs(text: str) -> list[tuple[str, str]]:
    return re.findall(r"(\w+)=(\w+)", text)


def _types(declared: str, query: str, given: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    types = {kind: re.findall(r"\w+", attributes) for kind, attributes in re.findall(r"(\w+)\(([^)]*)\)", declared)}
    for row in given.values():
        shown = [name for name in row if name not in ("type", "ts", "n")]
        if row["type"] not in types or not declared:
            types[row["type"]] = list(dict.fromkeys([*types.get(row["type"], []), *shown]))
    plain = {"A": ["id", "v"], "B": ["id", "v"], "C": ["id", "v"], "D": ["id"]}
    for kind in re.findall(r"\b[A-Z]+\b", query):
        if kind in plain:
            types[kind] = plain[kind]
        elif kind in _NAMED:
            types.setdefault(kind, _NAMED[kind])
    return types


_NAMED = {"CHECKOUT": ["book_id"]}
"""What a query names and its example does not show."""
