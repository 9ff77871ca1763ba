"""Queries that read the results of others: in which order, and what the events are that they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, SaseError, Span, did_you_mean
from sase.compiler.languages.front_end import Parsed, Result
from sase.compiler.languages.several import read_all


@dataclass(frozen=True)
class Composition:
    """The queries of a file by the names of their results, each behind those whose results it reads."""

    text: str
    filename: str
    queries: Mapping[str, Parsed]

    def reads(self, name: str) -> list[str]:
        """The results that a query reads."""
        return [each for each in self.queries[name].types if each in self.queries]

    @property
    def read_by_others(self) -> frozenset[str]:
        return frozenset(result for name in self.queries for result in self.reads(name))

    # What a single query tells of itself, so that a schema can be found for it.

    @property
    def stream(self) -> str | None:
        named = (each.stream for each in self.queries.values())
        return next((stream for stream in named if stream and stream not in self.queries), None)

    @property
    def types(self) -> Mapping[str, Span]:
        """The event types that are not made here."""
        named = {name: span for each in reversed([*self.queries.values()]) for name, span in each.types.items()}
        return {name: span for name, span in named.items() if name not in self.queries}

    @property
    def every_type(self) -> bool:
        return any(each.every_type for each in self.queries.values())

    @property
    def parameters(self) -> frozenset[str]:
        return frozenset[str]().union(*(each.parameters for each in self.queries.values()))

    def bind(self, catalog: Catalog) -> dict[str, BoundQuery]:
        """Raises what is wrong with any of them. What reads the results of a wrong query is not looked at."""
        bound, _ = self._bind(catalog)
        return bound

    def known(self, catalog: Catalog) -> Catalog:
        """The catalog, with the types that other queries read."""
        _, made = self._bind(catalog)
        return _with(catalog, {name: made[name] for name in self.read_by_others})

    def _bind(self, catalog: Catalog) -> tuple[dict[str, BoundQuery], dict[str, dict[str, str]]]:
        bound: dict[str, BoundQuery] = {}
        made: dict[str, dict[str, str]] = {}
        found = [*self._unknown_types(catalog)]
        wrong = {name for name, query in self.queries.items() if any(_lies_in(each, query) for each in found)}
        for name, query in self.queries.items():
            if wrong.intersection([name, *self.reads(name)]):
                wrong.add(name)
                continue
            try:
                bound[name] = query.bind(_with(catalog, {each: made[each] for each in self.reads(name)}), event=True)
                found += _simultaneous(bound[name], self.reads(name))
                made[name] = dict(self._attributes(bound[name], catalog)) if name in self.read_by_others else {}
            except SaseError as error:
                found += error.diagnostics
                wrong.add(name)
        if found:
            raise SaseError(found, self.text, self.filename)
        return bound, made

    def _unknown_types(self, catalog: Catalog) -> Iterator[Diagnostic]:
        if catalog.types is None:
            return
        for query in self.queries.values():
            assert query.result is not None
            if query.result.name in catalog.types:
                yield Diagnostic(
                    f"{query.result.name} is an event type of the catalog",
                    query.result.span,
                    "give the results of the query another name",
                )
            for name, span in query.types.items():
                if name not in catalog.types and name not in self.queries:
                    known = [*catalog.types, *self.queries]
                    yield Diagnostic(f"unknown event type {name}", span, did_you_mean(name, known, "there are"))

    def _attributes(self, query: BoundQuery, catalog: Catalog) -> Iterator[tuple[str, str]]:
        """What an event of its type declares, with the Spark types."""
        for column in (catalog.time, catalog.order):
            declared = [
                kind for types in (catalog.types or {}).values() for name, kind in types.items() if name == column
            ]
            if column is not None and declared:
                yield column, declared[0]
        found = []
        for output in query.returns or ():
            kind = scalars.infer(output.value, [])
            if catalog.types is not None and scalars.family(kind) in (scalars.Family.ANY, scalars.Family.INTERVAL):
                found.append(
                    Diagnostic(
                        f"nothing tells the type of {output.name}, and another query reads {query.composite}",
                        output.span,
                        "say it with CAST, such as CAST(… AS double)",
                    )
                )
            yield output.name, kind.sql("spark").lower()
        if found:
            raise SaseError(found, self.text, self.filename)


def read_text(text: str, filename: str, language: str | None = None) -> Parsed | Composition:
    """The query of a text, or its queries."""
    queries = read_all(text, filename, language)
    return queries[0] if len(queries) == 1 else composed(queries, text, filename)


def composed(queries: Sequence[Parsed], text: str, filename: str) -> Composition:
    """The queries of a file, in order. Raises what is wrong with how they go together."""
    named: dict[str, Parsed] = {}
    found = []
    for query in queries:
        if query.result is None:
            found.append(
                Diagnostic(
                    "the results of this query have no name, and a file of several queries has several results",
                    query.span,
                    "end it with INTO NAME, or write RETURN EVENT NAME(…); in TelegraphCQ, SELECT … INTO NAME FROM …",
                )
            )
        elif query.result.name.lower() in map(str.lower, named):
            found.append(
                Diagnostic(
                    f"the results of another query are named {query.result.name}, too",
                    query.result.span,
                    "every query of a file has its own name",
                )
            )
        else:
            named[query.result.name] = query
    if not found:
        found += [*_wrong_reads(named), *_several_streams(named)]
    if found:
        raise SaseError(found, text, filename)
    return Composition(text, filename, {name: named[name] for name in _in_order(named)})


def _simultaneous(query: BoundQuery, reads: Sequence[str]) -> Iterator[Diagnostic]:
    if query.runs and query.strategy != "skip till next match" and reads:
        yield Diagnostic(
            f"{query.strategy} asks which event is the next, and a result, {reads[0]}, is simultaneous with the event "
            "that completes it",
            query.span,
            "use SKIP TILL NEXT MATCH, which passes over that event",
        )


def _with(catalog: Catalog, made: Mapping[str, Mapping[str, str]]) -> Catalog:
    return catalog if catalog.types is None else replace(catalog, types={**catalog.types, **made})


def _lies_in(found: Diagnostic, query: Parsed) -> bool:
    return not query.text[found.span.start : found.span.end].isspace()


def _several_streams(named: Mapping[str, Parsed]) -> Iterator[Diagnostic]:
    first: str | None = None
    for query in named.values():
        if query.stream is None or query.stream in named:
            continue
        first = first or query.stream
        if query.stream != first:
            yield Diagnostic(
                f"this query is FROM {query.stream}, and another one FROM {first}",
                query.span,
                "the queries of a file read the same events: name them once, or with --events",
            )


def _wrong_reads(named: Mapping[str, Parsed]) -> Iterator[Diagnostic]:
    for query in named.values():
        for name, span in query.types.items():
            result: Result | None = named[name].result if name in named else None
            if result is None:
                continue
            if not result.has_attributes:
                yield Diagnostic(
                    f"the query that makes {name} does not say which attributes it has",
                    span,
                    f"add RETURN to it: RETURN x.id, y.amount INTO {name}",
                )
            if (way := _way(named, name, _name(query))) is not None:
                made = ", and that of ".join(way)
                yield Diagnostic(
                    f"{_name(query)} is made of {made}: a query cannot read what is made of its own results",
                    span,
                    "leave one of them out",
                )
                return


def _name(query: Parsed) -> str:
    assert query.result is not None
    return query.result.name


def _way(named: Mapping[str, Parsed], start: str, goal: str, seen: frozenset[str] = frozenset()) -> list[str] | None:
    """The results from one to another, of which each is made of the next."""
    if start == goal:
        return [goal]
    for name in named[start].types:
        if name in named and name not in seen and (rest := _way(named, name, goal, seen | {start})) is not None:
            return [start, *rest]
    return None


def _in_order(named: Mapping[str, Parsed]) -> Iterable[str]:
    """Each name behind those that it reads; else as in the text. There is no circle."""
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        for read in named[name].types:
            if read in named and read not in done:
                visit(read)
        done[name] = None

    for name in named:
        if name not in done:
            visit(name)
    return done
