"""sase as a user runs it: the compiled query on a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sase
from benchmarks.peers import Run, Task, Unavailable, Verbatim
from benchmarks.peers.spark import into_noop
from sase.compiler.core.errors import OptionError

if TYPE_CHECKING:
    from benchmarks.bench import Bench


def prepare(bench: Bench, task: Task) -> Run:
    query, events = compiled(task), bench.events(task.source)
    return into_noop(bench.spark, lambda: query.run(events))


def prepare_uncounted(bench: Bench, task: Task) -> Run:
    """The generated job's own function, which leaves out events without a type or time but does not count them."""
    query, events = compiled(task), bench.events(task.source)
    return into_noop(bench.spark, lambda: query.module.find_matches(events))


def prepare_funnel(bench: Bench, task: Task) -> Run:
    events, query = bench.events(task.source), task.query
    if not isinstance(query, Verbatim) or not query.within:
        raise Unavailable("this is no funnel")
    catalog = sase.Catalog(types=task.source.schema)
    return into_noop(
        bench.spark,
        lambda: sase.funnel(events, query.types, by=query.key, within=query.within, catalog=catalog).levels,
    )


def compiled(task: Task, **more: Any) -> sase.Query:
    options = {**task.options, **more}
    try:
        return sase.compile(task.query.text, sase.Catalog(types=task.source.schema), **options)
    except OptionError as error:
        raise Unavailable(f"this sase refuses {options}: {error}") from error
