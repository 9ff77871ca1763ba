"""Sequence scan and construction (SSC) over a Spark partition: Arrow batches of events in, batches of matches out.

by_key(relevant, "id").mapInArrow(scan_and_construct(..., code="id"), schema)
by_key(relevant, "id").sortWithinPartitions("id", "ts", "seq").mapInArrow(scan_and_construct(...), schema)
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from sase.runtime.errors import SaseRunError
from sase.runtime.executors import from_package
from sase.runtime.operator.arrivals import Arriving
from sase.runtime.operator.construction import construction
from sase.runtime.operator.matcher import Task
from sase.runtime.pattern import WORKER, Combination, Furthest, Pattern, Totals, match_column, variable_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

Groups = Mapping[str, Mapping[str, Sequence[str]]]
"""By the name of a group, the columns that its bindings keep of the event of each of its variables."""

CANDIDATE = "branch int, events array<bigint>, places array<bigint>"
"""What a match is as a candidate, for `choose`: its branch, and the numbers of its events and of their places."""


@dataclass(frozen=True)
class Options:
    """What a run may ask for beside the matches.

    `max_window_events_per_key` lets it fail, rather than a worker run out of memory, where a window of a key holds more
    events. `counted` is told the kernel's `Counters` at the end of every partition: the `add` of a Spark accumulator,
    for one.
    """

    max_window_events_per_key: int | None = None
    counted: Callable[[list[int]], None] | None = None

    def __post_init__(self) -> None:
        check_limit(self.max_window_events_per_key)


def check_limit(events: int | None) -> None:
    if events is not None and events < 1:
        raise SaseRunError("a window has at least 1 event of a key")


def check_pattern(
    pattern: Pattern | Combination,
    emit: Mapping[str, Sequence[str]],
    groups: Groups = MappingProxyType({}),
    candidates: str | None = None,
) -> None:
    """ValueError where it is not one that the kernel can run, or has no such variables."""
    construction(pattern)
    if isinstance(pattern, Totals):
        return
    bound = pattern.positive + (pattern.collected if isinstance(pattern, Combination) else ())
    if unknown := set(emit) - set(bound):
        raise ValueError(f"emit names {sorted(unknown)}, which are no positive components")
    if not emit or not all(emit.values()):
        raise ValueError("emit must name a variable, and a column for every variable")
    bindings = pattern.bindings if isinstance(pattern, Combination) else {}
    if {name: tuple(events) for name, events in groups.items()} != bindings:
        raise ValueError(f"groups must name {bindings}")
    if (candidates is not None) != (isinstance(pattern, Combination) and pattern.deferred):
        raise ValueError("a deferred combination, and no other, reports candidates")


def scan_and_construct(
    pattern: Pattern | Combination,
    *,
    by: Sequence[str],
    time: str,
    order: str | None,
    states: str,
    emit: Mapping[str, Sequence[str]] = MappingProxyType({}),
    started: str | None = None,
    detected: str | None = None,
    groups: Groups | None = None,
    candidates: str | None = None,
    cross: Sequence[str] = (),
    columns: Sequence[str] = (),
    code: str | None = None,
    arriving: Arriving | None = None,
    options: Options | None = None,
    bootstrap: Callable[[], None] | None = None,
    batch_rows: int = 65_536,
    chunk_rows: int = 262_144,
) -> Worker:
    """A function for `mapInArrow` that finds the matches of `pattern` in a partition sorted by (by, time, order).

    With `code`, the partition comes in any order, and is sorted in the worker: it names a column of integers that are
    equal where the `by` columns are. They need not differ where those do, but if that were common, it would be slow.

    `time` is a time or an integer, `states` the state bits of each event. Events with equal `by` columns form a group,
    and a match stays in its group. It has a column for each variable and column of `emit` (see `match_schema`). That of
    a `Combination` also has the ticks of its earliest event and of its instant, as `started` and `detected`, where they
    are named; the bindings of `groups`; and, of a deferred one, the `candidates` for `choose`. The window is enforced
    if a `Pattern` asks for it in the scan or in the construction, and otherwise left to the caller.
    With `cross` columns (Multi-PAIS), an event that agrees on them with no instance of the previous stack is not
    pushed; matches that disagree on them are still the caller's to remove. `columns` are the names of the input's
    columns, where it comes under other names: `mapInArrow` takes no column whose name has a dot or a backquote.
    Where a partition has all events of its time slices, events are told first what is `arriving`.

    The result is pickled by value and holds no object of this package, so a worker can load it in any case and explain
    what it misses. It calls `bootstrap` first, which may bring the package along.
    """
    check_pattern(pattern, emit, groups or {}, candidates)
    if batch_rows < 1 or chunk_rows < 1:
        raise ValueError("batch_rows and chunk_rows must be at least 1")
    emitted = tuple((variable, tuple(columns)) for variable, columns in emit.items())
    jit = os.environ.get("SASE_JIT") != "0"
    options = options or Options()
    task = pickle.dumps(
        Task(
            pattern=pattern,
            by=tuple(by),
            time=time,
            order=order,
            states=states,
            emit=emitted,
            batch_rows=batch_rows,
            chunk_rows=chunk_rows,
            jit=jit,
            cross=tuple(cross),
            names=tuple(columns),
            started=started,
            detected=detected,
            groups=as_tuples(groups),
            candidates=candidates,
            code=code,
            limit=options.max_window_events_per_key,
            arriving=arriving,
        )
    )
    tell, load = options.counted, from_package("sase.runtime.operator.partition", "run", bootstrap)

    def worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        run = load()
        yield from run(pickle.loads(task), batches, tell)

    worker.__name__ = WORKER
    return worker


def as_tuples(groups: Groups | None) -> tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...]:
    return tuple(
        (name, tuple((v, tuple(kept)) for v, kept in events.items())) for name, events in (groups or {}).items()
    )


def choose(
    matches: DataFrame, pattern: Combination, candidates: str, bootstrap: Callable[[], None] | None = None
) -> DataFrame:
    """Of candidates that Spark has found to be matches, those that a deferred combination reports.

    Between the worker that makes them and this one there may be filters, but nothing that moves or orders rows.
    """
    names, task = matches.columns, pickle.dumps((pattern, matches.columns.index(candidates)))
    load = from_package("sase.runtime.operator.choice", "choose", bootstrap)

    def worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        chosen = load()
        deferred, at = pickle.loads(task)
        yield from chosen(deferred, at, batches)

    numbered = matches.toDF(*map(str, range(len(names))))  # mapInArrow does not take every name
    return numbered.mapInArrow(worker, numbered.schema).toDF(*names).drop(candidates)


def match_schema(
    schema: StructType,
    emit: Mapping[str, Sequence[str]],
    pattern: Pattern | Combination | None = None,
    *,
    started: str | None = None,
    detected: str | None = None,
    groups: Groups | None = None,
    candidates: str | None = None,
) -> StructType:
    """The schema of the matches as they come from the worker, given that of the events: a column `x.id` for x's id.

    A variable that a match may leave unbound is one column, a struct or NULL; one that is collected, an array of them.
    """
    from pyspark.sql.types import ArrayType, DoubleType, LongType, StructField, StructType

    fields: list[StructField] = []
    if isinstance(pattern, Totals):
        fields = [StructField(name, schema[name].dataType) for name in pattern.shown]
        for total in pattern.totals:
            like = schema[str(total.column)].dataType if total.kind in ("min", "max") else None
            fields.append(StructField(total.name, like or (DoubleType() if total.real else LongType())))
        return StructType(fields)
    for variable, columns in emit.items():
        struct = _struct(schema, columns)
        match shape(variable, pattern):
            case "struct":
                fields += [StructField(match_column(variable, field.name), field.dataType) for field in struct]
            case "optional":
                fields.append(StructField(variable_column(variable), struct))
            case "array":
                fields.append(StructField(variable_column(variable), ArrayType(struct)))
    return StructType([*fields, *more_fields(schema, started, detected, groups, candidates)])


def _struct(schema: StructType, columns: Sequence[str]) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(column, schema[column].dataType) for column in columns])


def more_fields(
    schema: StructType, started: str | None, detected: str | None, groups: Groups | None, candidates: str | None
) -> Iterator[StructField]:
    """What a match has besides its events, given the schema of these."""
    from pyspark.sql.types import ArrayType, LongType, StructField, StructType

    for name, events in (groups or {}).items():
        structs = [StructField(v, _struct(schema, kept)) for v, kept in events.items()]
        binding = StructType([*structs, StructField(name, ArrayType(LongType()))])
        yield StructField(name, ArrayType(binding))
    yield from (StructField(name, LongType()) for name in (started, detected) if name is not None)
    if candidates is not None:
        yield StructField(candidates, StructType.fromDDL(CANDIDATE))


def structs(
    emit: Mapping[str, Sequence[str]],
    pattern: Pattern | Combination | None = None,
    *,
    started: str | None = None,
    detected: str | None = None,
    groups: Groups | None = None,
    candidates: str | None = None,
) -> list[str]:
    """In SQL, the matches with one struct per variable.

    Made by Spark, which leaves out what later steps take apart again: a third of the time of a query with many matches.
    """
    from sase.runtime.events import quoted

    if isinstance(pattern, Totals):
        return [quoted(name) for name in (*pattern.shown, *(total.name for total in pattern.totals))]

    def value(variable: str, columns: Sequence[str]) -> str:
        if shape(variable, pattern) != "struct":
            return quoted(variable_column(variable))
        fields = ", ".join(f"{quoted(match_column(variable, column))} AS {quoted(column)}" for column in columns)
        return f"struct({fields})"

    named = [f"{value(variable, columns)} AS {quoted(variable)}" for variable, columns in emit.items()]
    return named + [quoted(name) for name in (*(groups or ()), started, detected, candidates) if name is not None]


def shape(variable: str, pattern: Pattern | Combination | None) -> Literal["struct", "optional", "array"]:
    """What a match has of a variable: an event, an event or NULL, or an array of events."""
    match pattern:
        case Combination() if variable in pattern.collected:
            return "array"
        case Combination() | Furthest() if variable in pattern.optional:
            return "optional"
        case _:
            return "struct"
