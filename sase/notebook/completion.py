"""Tab in a `%%sase` cell: options and names of tables on its first line; event types, attributes, variables and
Python variables in the query."""

from __future__ import annotations

import re
import string
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.interactiveshell import InteractiveShell

from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import CatalogError, OptionError
from sase.events import as_they_are
from sase.notebook import names
from sase.runtime.errors import SaseRunError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPTIONS = ("--events", "--catalog", "--count", "--explain", "--analyze", "--job", "--stream", "--max-delay")
STRATEGIES = ("SKIP TILL ANY MATCH", "SKIP TILL NEXT MATCH", "PARTITION CONTIGUITY", "STRICT CONTIGUITY")
AFTER = ("AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO NEXT ROW")
CLAUSES = ("EVENT", "PATTERN", "WHERE", "WITHIN", "TIMED OUT", "CONSUME EXCLUSIVE", "RETURN", "INTO", "FROM", "SELECT")
KEYWORDS = (*CLAUSES, *STRATEGIES)
OPERATORS = ("SEQ(", "AND(", "OR(", "OR ALL(", "ANY(", "ALL(", "NOT", "first", "last")
SELECTING = ("SELECT", "INTO", "FROM", "PARTITION BY", "EVENT", "WHERE", "WITH")
"""The clauses of TelegraphCQ."""
FOLLOWING = ("FOLLOWS(", "PRECEDES(", "NOTFOLLOWS(", "NOTPRECEDES(", "ANYONE(", "BOTH(")
CONNECTIVES = ("AND", "OR", "NOT", "BETWEEN", "LIKE", "IN")
TIMES = ("before(", "elapsed(")
"""They take variables, and stand in SASE's WHERE."""
SAMPLE = 10_000
"""Events that are read to find their types, where no catalog tells them."""
PATIENCE = 3.0
"""Seconds that a Tab waits for that sample; it goes on in the background, for the next Tab."""

IDENTIFIER = "sase"


def matcher(shell: InteractiveShell) -> Callable[[CompletionContext], SimpleMatcherResult]:
    samples = Samples()

    @context_matcher(identifier=IDENTIFIER, priority=50)
    def complete(context: CompletionContext) -> SimpleMatcherResult:
        lines = context.full_text.split("\n")
        before = "\n".join([*lines[: context.cursor_line], lines[context.cursor_line][: context.cursor_position]])
        if not re.match(r"\s*%%sase(\s|$)", before):
            return {"completions": []}
        first, newline, query = before.lstrip().removeprefix("%%sase").partition("\n")
        whole = context.full_text.lstrip().partition("\n")[2]
        if newline:
            known = samples.known(first, whole, shell.user_ns)
            fragment, found = in_query(query, whole, known, shell.user_ns)
        else:
            fragment, found = in_line(first, shell.user_ns)
        fitting = [name for name in dict.fromkeys(found) if name.lower().startswith(fragment.lower())]
        return {
            "completions": [SimpleCompletion(name, type="sase") for name in fitting],
            "matched_fragment": fragment,
            "suppress": True,
        }

    return complete  # type: ignore[no-any-return]


def in_line(line: str, namespace: Mapping[str, Any]) -> tuple[str, Iterable[str]]:
    """What may stand at the end of the magic's own line: the fragment that is there, and the names that fit."""
    words = line.split(" ")
    fragment, previous = words[-1], next((word for word in reversed(words[:-1]) if word), "")
    match previous:
        case "--events":
            return fragment.rpartition("=")[2], [*names.data_frames(namespace), *_views()]
        case "--catalog":
            catalogs = [name for name, value in namespace.items() if isinstance(value, Catalog)]
            return fragment, [*catalogs, *_files(fragment)]
        case _:
            return fragment, [option for option in OPTIONS if option not in words[:-1] or option == "--events"]


def _views() -> list[str]:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    return names.views(spark) if spark else []


def _files(fragment: str) -> list[str]:
    folder = Path(fragment if fragment.endswith("/") else Path(fragment).parent)
    if not folder.is_dir():
        return []
    return [f"{path}/" if path.is_dir() else str(path) for path in sorted(folder.iterdir()) if _is_catalog(path)]


def _is_catalog(path: Path) -> bool:
    return path.suffix == ".toml" or (path.is_dir() and not path.name.startswith("."))


@dataclass(frozen=True)
class Known:
    """Event types and the attributes of each; `shared` are those of a table of several types."""

    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shared: tuple[str, ...] = ()

    def attributes(self, types: Iterable[str]) -> Iterator[str]:
        for name in types:
            yield from self.types.get(name, self.shared)

    @property
    def all_attributes(self) -> Iterator[str]:
        yield from self.attributes(self.types)
        yield from self.shared


# `TYPE x`, `ANY(A, B) x`, `x:TYPE` or `x:ANY(A, B)`, as far as needed to know which types a variable has.
_TYPES = r"(?:ANY\s*\(([^()]*)\)|([\w-]+))"
_COMPONENT = re.compile(rf"(\w+)\s*:\s*{_TYPES}|{_TYPES}(?:\{{[^{{}}]*\}}|[+*?])?\s+(\w+)", re.IGNORECASE)
_PREFIX = re.compile(r"\b(?:NOT|FIRST|LAST)\s+(?=[\w-]+(?:\{[^{}]*\}|[+*?])?\s+\w|ANY\s*\()", re.IGNORECASE)
_CLAUSE = re.compile(r"\b(EVENT|PATTERN|WHERE|WITHIN|CONSUME|RETURN|FROM)\b", re.IGNORECASE)
_WORD = string.ascii_letters + string.digits + "_"


def in_query(before: str, whole: str, known: Known, namespace: Mapping[str, Any]) -> tuple[str, Iterable[str]]:
    """What may stand at the cursor: the fragment that is there, and the names that fit.

    A query that is being written is rarely a query yet, so this looks at the text near the cursor and does not parse.
    """
    before, whole = _alone(before, whole)
    if re.match(r"\s*(?:SELECT|WITH)\b", whole, re.IGNORECASE):
        return in_selecting_query(before, whole, known)
    pattern = re.search(
        r"\b(?:EVENT|PATTERN)\b(.*?)(?:\b(?:WHERE|WITHIN|SKIP|CONSUME|RETURN)\b|\Z)", whole, re.IGNORECASE | re.DOTALL
    )
    variables = {
        found[1] or found[6]: [name.strip() for name in (found[2] or found[3] or found[4] or found[5]).split(",")]
        for found in _COMPONENT.finditer(_PREFIX.sub("", pattern[1]) if pattern else "")
    }
    if moment := re.search(r"\b(?:before|elapsed)\([\w\s,]*?(\w*)$", before, re.IGNORECASE):
        return moment[1], variables
    if of := re.search(r"(\w+)\.(\w*)$", before):
        types = variables.get(of[1])
        return of[2], known.attributes(types) if types else known.all_attributes
    if parameter := re.search(r"\{\s*(\w*)$", before):
        return parameter[1], _values(namespace)
    if test := re.search(r"\[[^\]]*?(\w*)$", before):
        return test[1], known.all_attributes
    word = before[len(before.rstrip(_WORD)) :]
    clauses = _CLAUSE.findall(before.removesuffix(word))
    keywords = (*KEYWORDS, *AFTER) if re.search(r"\b(?:NEXT\s+MATCH|CONTIGUITY)\b", before, re.IGNORECASE) else KEYWORDS
    match clauses[-1].upper() if clauses else "":
        case "EVENT" | "PATTERN":
            hyphenated = before[len(before.rstrip(_WORD + "-")) :]
            return hyphenated, [*known.types, *OPERATORS, *keywords]
        case "FROM":
            return word, [*names.data_frames(namespace), *_views(), *KEYWORDS]
        case "":
            return word, KEYWORDS
        case _:
            return word, [*(f"{name}." for name in variables), *known.all_attributes, *CONNECTIVES, *TIMES, *keywords]


_SOURCES = re.compile(r"\bFROM\b(.*?)(?:\b(?:PARTITION|EVENT|WHERE)\b|\Z)", re.IGNORECASE | re.DOTALL)


def in_selecting_query(before: str, whole: str, known: Known) -> tuple[str, Iterable[str]]:
    """The same in TelegraphCQ, where FROM has the streams, each with its aliases."""
    aliases: dict[str, str] = {}
    for source in (source for sources in _SOURCES.findall(whole) for source in sources.split(",")):
        stream, *names = re.sub(r"\[[^\]]*\]?", " ", source).split() or [""]
        aliases |= dict.fromkeys(names or [stream], stream)
    if of := re.search(r"(\w+)\.(\w*)$", before):
        stream = aliases.get(of[1], "")
        return of[2], known.attributes([stream]) if stream in known.types else known.all_attributes
    word = before[len(before.rstrip(_WORD)) :]
    clauses = re.findall(r"\b(SELECT|FROM|PARTITION|EVENT|WHERE)\b", before.removesuffix(word), re.IGNORECASE)
    match clauses[-1].upper() if clauses else "":
        case "FROM":
            return word, [*known.types, *SELECTING]
        case "PARTITION":
            return word, [*known.all_attributes, *SELECTING]
        case "EVENT":
            return word, [*FOLLOWING, *aliases, *SELECTING]
        case "":
            return word, SELECTING
        case _:
            return word, [*(f"{name}." for name in aliases if name), *CONNECTIVES, *SELECTING]


def _alone(before: str, whole: str) -> tuple[str, str]:
    """The query at the cursor, where there are several."""
    begin = before.rfind(";") + 1
    end = whole.find(";", len(before))
    return before[begin:], whole[begin : end if end >= 0 else len(whole)]


def _values(namespace: Mapping[str, Any]) -> list[str]:
    """Variables that may be values of a parameter."""
    from datetime import date, timedelta
    from decimal import Decimal

    kinds = (bool, int, float, str, Decimal, date, timedelta)
    return [name for name, value in namespace.items() if isinstance(value, kinds) and not name.startswith("_")]


class Samples:
    """What is known of the events that a cell names. Types that no catalog tells are looked up in the data, once."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, object], list[str]] = {}

    def known(self, line: str, query: str, namespace: Mapping[str, Any]) -> Known:
        options: dict[str, str] = dict(re.findall(r"(--events|--catalog)[\s=]+(\S+)", line))
        if "--catalog" in options:
            with suppress(CatalogError):
                catalog = names.catalog(options["--catalog"], namespace)
                if catalog is not None and catalog.types is not None:
                    return Known({name: tuple(attributes) for name, attributes in catalog.types.items()})
        stream = re.search(r"\bFROM\s+([\w.]+)", query, re.IGNORECASE)
        name = options.get("--events", stream[1] if stream else "").rpartition("=")[2]
        frame = _frame(name, namespace)
        if frame is None:
            return Known()
        shared = tuple(column for column in frame.columns if column != "type")
        types = self._types_of((name, id(namespace.get(name))), frame)
        return Known({name: shared for name in types}, shared)

    def _types_of(self, key: tuple[str, object], frame: DataFrame) -> list[str]:
        if key not in self._types and "type" in frame.columns:
            self._types[key] = []

            def look() -> None:
                rows = frame.select("type").limit(SAMPLE).distinct().collect()
                self._types[key] = sorted(row[0] for row in rows if row[0] is not None)

            thread = threading.Thread(target=look, name="sase-completion", daemon=True)
            thread.start()
            thread.join(PATIENCE)
        return self._types.get(key, [])


def _frame(name: str, namespace: Mapping[str, Any]) -> DataFrame | None:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None or not name:
        return None
    with suppress(OptionError, SaseRunError):
        ((_, frame),) = as_they_are(names.events([name], [], namespace, spark))
        return frame
    return None
