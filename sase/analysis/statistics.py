"""Statistics of events for the optimiser: what the compiler must know, measured by the runtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sase.api import Query, compile
from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.catalog import Catalog
from sase.compiler.plan.statistics import Statistics, predicate_key

if TYPE_CHECKING:
    from sase.analysis.collect import Condition
    from sase.events import Events


def statistics(
    events: Events,
    queries: Iterable[str | Query] = (),
    catalog: Catalog | None = None,
) -> Statistics:
    """Statistics of the events, in one Spark job: rates by type, distinct and frequent values, share of NULLs, and how
    selective the predicates of `queries` are. Give them to `compile`, or keep them with `save`."""
    from sase.analysis.collect import collect
    from sase.events import as_they_are
    from sase.runtime.events import timestamped

    catalog = catalog or Catalog()
    written = catalog.time_unit, catalog.time_format
    tables = [(name, timestamped(table, catalog.time, *written)) for name, table in as_they_are(events, catalog)]
    compiled = [query if isinstance(query, Query) else compile(query, catalog, events=tables) for query in queries]
    conditions = {each.key: each for query in compiled for each in _conditions(query.compiled.query)}
    content = collect(
        tables,
        time=catalog.time,
        type=catalog.type,
        conditions=list(conditions.values()),
        declared=catalog.types,
    )
    return Statistics.of(content)


def _conditions(query: BoundQuery) -> Iterator[Condition]:
    """The predicates that can be measured, but for those about so many events that a sample says nothing."""
    from sase.analysis.collect import Condition

    for predicate in query.predicates:
        columns = [(column.table, column.name) for column in scalars.columns(predicate.condition)]
        names = list(dict.fromkeys(table for table, _ in columns))
        if not 1 <= len(names) <= 3:
            continue
        condition = scalars.without_variable(predicate.condition) if len(names) == 1 else predicate.condition
        yield Condition(
            predicate_key(query, predicate),
            scalars.sql(condition),
            {name: query.variable(name).types for name in names},
            {name: list(dict.fromkeys(column for table, column in columns if table == name)) for name in names},
        )


def describe(statistics: Statistics) -> str:
    """The statistics as a table: the most frequent types first."""
    from sase.runtime.io.report import table

    rows = []
    for name, known in sorted(statistics.types.items(), key=lambda item: -item[1].events):
        share = known.events / statistics.events if statistics.events else 0.0
        rows.append([name, f"{known.events:,.0f}", f"{share:.1%}", "", "", "", ""])
        for column, values in known.columns.items():
            shares = [f"{values.distinct:,.0f}", f"{values.hottest:.1%}", f"{values.nulls:.1%}"]
            rows.append(["", "", "", column, *shares])
    header = ["type", "events", "share", "attribute", "distinct", "most frequent", "NULL"]
    text = table(header, rows, [False, True, True, False, True, True, True])
    measured = [f"{share:8.2%}  {key}" for key, share in statistics.predicates.items()]
    return text + ("\nSelectivity\n" + "\n".join(measured) + "\n" if measured else "")
