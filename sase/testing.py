"""Tests of queries, written beside them: some events, and the matches among them.

    given    a1(id=1) b2(id=2) b3(id=1)
    matches  (a1, b3)

`a3` is an event of type A at time 3; `login@9:30(user=7)` is the form for any type, and for times of a clock.
A match names its events in the order of the pattern: `-` is a variable that is not bound, `{b2 b3}` one that stands for
several events, collected or repeated, and `(a1, b3)@6` a match that is certain at 6. Behind `matches` there may be
nothing: then there is none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from sase.compiler.composition import Composition, composed
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import CatalogError, OptionError, SaseError, did_you_mean
from sase.compiler.languages.front_end import Parsed
from sase.compiler.languages.registry import NAMES, read
from sase.compiler.languages.several import read_all
from sase.runtime.errors import SaseRunError, explained

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# ---- what is written ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Event:
    """As it is written. In `matches`, attributes need only tell it from others of its type and time."""

    name: str
    values: tuple[tuple[str, str | None], ...] = ()

    def __str__(self) -> str:
        values = (f"{name}={'NULL' if value is None else value}" for name, value in self.values)
        return f"{self.name}({', '.join(values)})" if self.values else self.name

    def is_meant_by(self, other: Event) -> bool:
        return self.name.lower() == other.name.lower() and set(other.values) <= set(self.values)


Seen = int | frozenset[int] | str | None
"""Of a match, the number of an event, or those of several, or None where a variable is unbound; the last one may be the
time at which it is certain, as it is written."""


@dataclass(frozen=True)
class Case:
    """A query, events by their numbers, and the matches that there should be, each as numbers of events."""

    place: str
    title: str
    query: Parsed
    given: tuple[Event, ...]
    matches: tuple[tuple[Seen, ...], ...]
    file: Composition | None = None
    """The queries of its file, if there are several: what others make can be given as events."""

    @property
    def timed(self) -> bool:
        return any(isinstance(match[-1], str) for match in self.matches if match)

    def named(self, match: Sequence[Seen]) -> str:
        *events, last = match
        if isinstance(last, str):
            return f"({', '.join(map(self._name, events))})@{last}"
        return f"({', '.join(map(self._name, match))})"

    def _name(self, seen: Seen) -> str:
        if seen is None:
            return "-"
        if isinstance(seen, frozenset):
            return "{" + " ".join(map(self._name, sorted(seen))) + "}"
        assert isinstance(seen, int)
        event = self.given[seen]
        alone = Event(event.name)
        return str(alone if sum(each.is_meant_by(alone) for each in self.given) == 1 else event)


def cases_in(text: str, name: str, language: str | None = None) -> list[Case]:
    """The tests in a file. In a query's own file they are comments that begin with `test`, and perhaps a title:
    `/* test: who buys is left alone`. In Markdown, they are blocks `events`, each behind a block of a language."""
    if name.endswith(".md"):
        return [
            _case(f"{name}:{behind.line}", "", read(query.text, f"{name}:{query.line}", query.kind), behind.text)
            for query, behind in pairwise(blocks(text))
            if query.kind in NAMES and behind.kind == "events"
        ]
    queries = read_all(text, name, language)
    file = composed(queries, text, name) if len(queries) > 1 else None
    found = re.finditer(r"/\*\s*test\b:?([^\n]*)\n(.*?)\*/", text, re.DOTALL)
    return [
        replace(
            _case(
                f"{name}:{text.count(chr(10), 0, each.start()) + 1}", each[1].strip(), _above(queries, each), each[2]
            ),
            file=file,
        )
        for each in found
    ]


def _above(queries: Sequence[Parsed], test: re.Match[str]) -> Parsed:
    """A test is of the query above it; what stands before all of them is of the first."""
    return next((query for query in reversed(queries) if query.span.start < test.start()), queries[0])


@dataclass(frozen=True)
class Block:
    """A fenced block of Markdown; `kind` is what stands behind the fence."""

    kind: str
    text: str
    line: int


def blocks(markdown: str) -> list[Block]:
    found = re.finditer(r"^```([^\n]*)\n(.*?)^```$", markdown, flags=re.MULTILINE | re.DOTALL)
    return [Block(each[1], each[2], markdown.count("\n", 0, each.start()) + 1) for each in found]


def _case(place: str, title: str, query: Parsed, text: str) -> Case:
    try:
        head, given, matches = _sections(text)
        if head.strip():
            raise OptionError(f"a test begins with `given`, and not with {head.split()[0]!r}")
        events = tuple(_events(given))
        expected = tuple(_matches(matches, events))
        case = Case(place, title, query, events, expected)
        if case.timed and not all(isinstance(match[-1], str) for match in expected):
            raise OptionError("the time of each match is said, or of none")
        return case
    except OptionError as error:
        raise OptionError(f"{place}: {error}") from None


def _sections(text: str) -> tuple[str, str, str]:
    parts = re.split(r"^\s*(given|matches)\b", text, flags=re.MULTILINE)
    match parts:
        case [head, "given", given, "matches", matches]:
            return head, given, matches
        case _:
            raise OptionError("a test has the word `given` with events, and then the word `matches` with matches")


def _number(event: Event, given: Sequence[Event]) -> int:
    match [number for number, each in enumerate(given) if each.is_meant_by(event)]:
        case [number]:
            return number
        case []:
            raise OptionError(f"{event} is not given: there are {', '.join(map(str, given)) or 'no events'}")
        case several:
            raise OptionError(f"{event} could be {' or '.join(str(given[number]) for number in several)}")


_TEXT = r"'(?:[^']|'')*'"
_VALUE = re.compile(rf"\s*([^\s(),=']+)\s*=\s*({_TEXT}|[^\s(),'][^(),']*)\s*(?:,|\Z)")
_EVENT = re.compile(rf"\s*([^\s(),=']+)(?:\(((?:{_TEXT}|[^()'])*)\))?")
_SEVERAL = re.compile(r"\s*\{([^{}]*)\}\s*(?:,|\Z)")
_UNBOUND = re.compile(r"\s*-\s*(?:,|\Z)")
_ONE = re.compile(_EVENT.pattern + r"\s*(?:,|\Z)")
_MATCH = re.compile(rf"\s*\(((?:(?:\{{[^{{}}]*\}}|{_EVENT.pattern})\s*,?\s*)*)\)(?:@([\d:.T-]+))?")


def _events(text: str) -> Iterator[Event]:
    for found in _each(_EVENT, text, "an event, such as a3 or login@9:30(user=7)"):
        yield Event(found[1], tuple(_values(found[2] or "")))


def _values(text: str) -> Iterator[tuple[str, str | None]]:
    for found in _each(_VALUE, text, "an attribute, such as id=7 or name='Smith, J.'"):
        value = found[2].strip()
        is_text = value.startswith("'")
        yield found[1], value[1:-1].replace("''", "'") if is_text else None if value.upper() == "NULL" else value


def _matches(text: str, given: Sequence[Event]) -> Iterator[tuple[Seen, ...]]:
    for found in _each(_MATCH, text, "a match, such as (a1, b3)"):
        time = found[found.re.groups]
        yield (*_seen(found[1], given), *([time] if time else []))


def _seen(text: str, given: Sequence[Event]) -> Iterator[Seen]:
    at, text = 0, text.rstrip()
    while at < len(text):
        if found := _UNBOUND.match(text, at):
            yield None
        elif found := _SEVERAL.match(text, at):
            yield frozenset(_number(event, given) for event in _events(found[1]))
        elif found := _ONE.match(text, at):
            yield _number(Event(found[1], tuple(_values(found[2] or ""))), given)
        else:
            raise OptionError(f"{text[at:].split()[0]!r} is not an event, such as a3")
        at = found.end()


def _each(pattern: re.Pattern[str], text: str, what: str) -> Iterator[re.Match[str]]:
    """What the pattern finds, one behind the other; there may be nothing else."""
    at, text = 0, text.rstrip()
    while at < len(text):
        found = pattern.match(text, at)
        if found is None:
            raise OptionError(f"{text[at:].split()[0]!r} is not {what}")
        yield found
        at = found.end()


# ---- what it means ------------------------------------------------------------------------------

Row = tuple[str, dict[str, str | None]]
"""An event's type as the catalog spells it, and its values by column, in lower case."""


def _rows(case: Case, catalog: Catalog) -> tuple[Catalog, list[Row]]:
    """The events, and a catalog that has their types. Times are written for people here, however the data has them."""
    catalog = replace(catalog, time_unit=None, time_format=None)
    if case.file is not None and catalog.types is not None:
        catalog = case.file.known(catalog)
    named = [_type_and_time(event) for event in case.given]
    if catalog.types is None:
        catalog = _guessed(case, named, catalog)
    assert catalog.types is not None
    rows = []
    for event, (name, time) in zip(case.given, named, strict=True):
        event_type = _spelled(name, catalog.types)
        if event_type is None:
            raise OptionError(f"there is no event type {name}: {did_you_mean(name, list(catalog.types), 'there are')}")
        declared = [*catalog.types[event_type], *([catalog.order] if catalog.order else [])]
        for attribute, _ in event.values:
            if _spelled(attribute, declared) is None:
                clue = did_you_mean(attribute, declared, "there are")
                raise OptionError(f"{event}: {event_type} declares no attribute {attribute}: {clue}")
        rows.append((event_type, {name.lower(): value for name, value in (*event.values, (catalog.time, time))}))
    return catalog, rows


def _type_and_time(event: Event) -> tuple[str, str]:
    """`login@9:30`; or `a3`, where the type does not end with a digit."""
    name, at, time = event.name.rpartition("@")
    if at:
        return name, time
    if found := re.fullmatch(r"(.*\D)(\d+)", event.name):
        return found[1], found[2]
    raise OptionError(f"{event.name} has no time: write {event.name}@9:30, or {event.name}@12 where time is an integer")


def _spelled(name: str, known: Iterable[str]) -> str | None:
    """As it is known, whatever its case, if there is one such name."""
    near = [each for each in known if each.lower() == name.lower()]
    return name if name in near else near[0] if len(near) == 1 else None


def _guessed(case: Case, named: Iterable[tuple[str, str]], catalog: Catalog) -> Catalog:
    """Each type has all attributes that are given, as in one table of several types."""
    types = dict.fromkeys([*case.query.types, *(_spelled(name, case.query.types) or name for name, _ in named)])
    values: dict[str, list[str]] = {catalog.time: [time for _, time in named]}
    for event in case.given:
        for attribute, value in event.values:
            values.setdefault(attribute, []).extend([] if value is None else [value])
    attributes = {name: _kind(found) for name, found in values.items()}
    return replace(catalog, types={name: attributes for name in types})


_KINDS = {
    "bigint": r"[-+]?\d+",
    "double": r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?",
    "boolean": r"true|false",
    "timestamp": r"\d+:\d\d(:\d\d(\.\d+)?)?|\d{4}-\d\d-\d\d([T ]\d.*)?",
}


def _kind(values: Collection[str]) -> str:
    """The Spark type of an attribute that no catalog declares."""
    fitting = (kind for kind, form in _KINDS.items() if all(re.fullmatch(form, value, re.I) for value in values))
    return next(fitting, "string") if values else "string"


# ---- running ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """`error` says why there are no matches to compare; else `missing` and `unexpected` are empty if all is well."""

    case: Case
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    error: str | None = None

    @property
    def passed(self) -> bool:
        return not (self.missing or self.unexpected or self.error)

    def __str__(self) -> str:
        title = f"{self.case.place}: {self.case.title}".removesuffix(": ")
        lines = [f"FAIL  {title}"]
        lines += [f"      {line}" for line in (self.error or "").splitlines()]
        lines += [f"      missing     {match}" for match in self.missing]
        lines += [f"      unexpected  {match}" for match in self.unexpected]
        return "\n".join(lines)


_TOGETHER = 8
"""How many queries share a Spark job. Each of its tasks reads the plans of all of them, so more would take longer."""


def outcomes(cases: Sequence[Case], catalog: Catalog, spark: SparkSession) -> list[Outcome]:
    """Runs the queries, several in a Spark job if nothing goes wrong: one each would take most of the time to start."""
    from pyspark.sql import DataFrame

    prepared: dict[int, DataFrame] = {}
    failed: dict[int, str] = {}
    found: dict[int, Counter[tuple[Seen, ...]]] = {number: Counter() for number in range(len(cases))}

    def collect(frames: Sequence[DataFrame]) -> None:
        for number, several, events, time in reduce(DataFrame.union, frames).collect():
            seen = (_as_seen(rows, many) for rows, many in zip(events, several, strict=True))
            found[number][*seen, *([time] if time else [])] += 1

    with _one_partition(spark):
        for number, case in enumerate(cases):
            try:
                prepared[number] = _matches_of(case, number, catalog, spark)
            except (OptionError, CatalogError, SaseError, SaseRunError) as error:
                failed[number] = str(error)
        waiting = iter(prepared)
        while some := list(islice(waiting, _TOGETHER)):
            try:
                with explained():
                    collect([prepared[number] for number in some])
            except SaseRunError:
                for number in some:
                    try:
                        with explained():
                            collect([prepared[number]])
                    except SaseRunError as error:
                        failed[number] = str(error)
    return [
        Outcome(case, error=failed[number]) if number in failed else _compared(case, found[number])
        for number, case in enumerate(cases)
    ]


def _as_seen(rows: list[int] | None, several: bool) -> Seen:
    return None if rows is None else frozenset(rows) if several else rows[0]


def _compared(case: Case, found: Counter[tuple[Seen, ...]]) -> Outcome:
    expected = Counter((*match[:-1], _time(match[-1])) if case.timed else match for match in case.matches)
    missing = tuple(case.named(match) for match in (expected - found).elements())
    return Outcome(case, missing, tuple(sorted(case.named(match) for match in (found - expected).elements())))


def _time(written: Seen) -> str:
    """As Spark shows it: an integer, or a time of the first day."""
    text = str(written)
    if text.isdigit():
        return text
    clock = re.fullmatch(r"(\d+):(\d\d)(:\d\d(?:\.\d+)?)?", text)
    return f"1970-01-01 {clock[1]:0>2}:{clock[2]}{clock[3] or ':00'}" if clock else text.replace("T", " ")


_ROW = "__sase_row"


def _matches_of(case: Case, number: int, catalog: Catalog, spark: SparkSession) -> DataFrame:
    """The number of the case; for each variable of a match, whether it stands for several events, and their numbers;
    and when it is certain, where the case says so."""
    from pyspark.sql import functions as F

    from sase.pictures import variants
    from sase.runtime.events import quoted

    catalog, rows = _rows(case, catalog)
    bound = case.query.bind(catalog)
    if bound.grouped is not None and bound.loops:
        raise OptionError(f"matches with {next(iter(bound.loops))} are counted and not built: there are none to test")
    asked = variants.numbered(replace(bound, grouped=None), _ROW)
    table = _table(catalog, rows, asked.time_kind, spark)
    if asked.is_sequence and not case.timed:
        columns = {f"row{at}": variants.column(asked, each.name, _ROW) for at, each in enumerate(asked.positive)}
        matches = variants.found(variants.returning(asked, columns), table)
        seen, several = [F.array(name) for name in columns], [False] * len(columns)
    else:
        names = asked.result_variables
        matches = variants.found(replace(asked, returns=None, composite=None, timed=False), table)
        loops = [name for name, loop in asked.loops.items() if not loop.single]
        several = [name in asked.arrays or name in asked.collected or name in loops for name in names]
        numbers = [F.col(f"{quoted(name)}.{_ROW}") for name in names]
        seen = [
            each if many else F.when(each.isNotNull(), F.array(each))
            for each, many in zip(numbers, several, strict=True)
        ]
    return matches.select(
        F.lit(number).alias("case"),
        F.array(*map(F.lit, several)).alias("several"),
        F.array(*seen).alias("events"),
        (F.col("detected_at").cast("string") if case.timed else F.lit(None).cast("string")).alias("time"),
    )


def _table(catalog: Catalog, rows: Sequence[Row], time_kind: str, spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as F

    from sase.runtime.events import quoted

    assert catalog.types is not None
    kinds = {
        catalog.time.lower(): "timestamp" if time_kind == "timestamp" else "bigint",
        catalog.type.lower(): "string",
    }
    kinds |= {catalog.order.lower(): "bigint"} if catalog.order else {}
    kinds |= {name.lower(): kind for declared in catalog.types.values() for name, kind in declared.items()}
    values = [{**row, catalog.type.lower(): event_type} for event_type, row in rows]
    texts = [(number, *(row.get(name) for name in kinds)) for number, row in enumerate(values)]
    schema = ", ".join([f"{_ROW} bigint", *(f"{quoted(name)} string" for name in kinds)])
    return spark.createDataFrame(texts, schema).select(
        _ROW, *(_value(F.col(quoted(name)), kind).alias(name) for name, kind in kinds.items())
    )


def _value(text: Column, kind: str) -> Column:
    """A value of a Spark type from its text: refused where Spark makes nothing of it. A clock is of the first day."""
    from pyspark.sql import functions as F

    if kind == "string":
        return text
    if kind.startswith(("array", "map", "struct")):
        value = F.from_json(text, kind)
    else:
        value = (
            F.regexp_replace(text, r"^(\d+:)", "1970-01-01 $1").try_cast(kind)
            if "time" in kind
            else text.try_cast(kind)
        )
    refusal = F.raise_error(F.concat(text, F.lit(f" is no {kind}")))
    return F.when(text.isNotNull() & value.isNull(), refusal).otherwise(value)


@contextmanager
def _one_partition(spark: SparkSession) -> Iterator[None]:
    """A few events are shuffled quickest to one place."""
    setting = "spark.sql.shuffle.partitions"
    before = str(spark.conf.get(setting))
    spark.conf.set(setting, "1")
    try:
        yield
    finally:
        spark.conf.set(setting, before)
