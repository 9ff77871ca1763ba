"""Events in whatever form somebody has them: DataFrames of Spark or pandas, Arrow tables, paths, names of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import OptionError
from sase.runtime.errors import SaseRunError, explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sase.runtime.events import Csv, Source
    from sase.runtime.io.formats import Input

    Frames: TypeAlias = list[tuple[str | None, DataFrame]]
    Read: TypeAlias = Callable[[SparkSession, Input], DataFrame]

Table: TypeAlias = Any
"""A DataFrame of Spark or pandas, an Arrow table, a path, or the name of a table. (pandas and Arrow have no types.)"""
Events: TypeAlias = Table | Mapping[str | None, Table] | Sequence[tuple[str | None, Table]]
"""One table with a type column; or tables by event type, where None stands for a table of several types."""


def opened(events: Events, source: Source) -> Frames:
    """The tables of a query. Text is read as the query's types declare."""
    from sase.runtime.events import shared_types
    from sase.runtime.io.inputs import read_events

    pairs = _pairs(events)
    shared = shared_types([name for name, _ in pairs], source)

    def read(spark: SparkSession, each: Input) -> DataFrame:
        types = shared if each.type is None else (each.type,)
        ((_, frame),) = read_events(spark, [each], replace(source, types={name: source.types[name] for name in types}))
        return frame

    wanted = [(name, table) for name, table in pairs if name in source.types or (name is None and shared)]
    return [(name, _frame(name, table, read, source.csv)) for name, table in wanted]


def as_they_are(events: Events, catalog: Catalog | None = None) -> Frames:
    """The tables with the columns and types that the data itself has."""
    from sase.runtime.io.inputs import inferred

    csv = csv_of(catalog or Catalog())
    return [(name, _frame(name, table, inferred, csv)) for name, table in _pairs(events)]


def csv_of(catalog: Catalog) -> Csv:
    """How the runtime is told what the catalog says of CSV."""
    from sase.runtime.events import Csv

    return Csv(**asdict(catalog.csv))


def is_frame(value: object) -> bool:
    """Whether this is a table by itself, and not the name of one."""
    import pandas
    import pyarrow
    from pyspark.sql import DataFrame

    return isinstance(value, DataFrame | pandas.DataFrame | pyarrow.Table)


def _pairs(events: Events) -> list[tuple[str | None, Table]]:
    if isinstance(events, Mapping):
        return list(events.items())
    if isinstance(events, Sequence) and not isinstance(events, str):
        return list(events)
    return [(None, events)]


def _frame(event_type: str | None, table: Table, read: Read, csv: Csv) -> DataFrame:
    import pandas
    import pyarrow
    from pyspark.sql import DataFrame

    from sase.runtime.io.inputs import find
    from sase.runtime.session import session

    match table:
        case DataFrame():
            return table
        case pandas.DataFrame():
            try:
                # By way of Arrow: Spark itself makes floats of nullable integers, and NaN of what is missing.
                return session().createDataFrame(pyarrow.Table.from_pandas(table, preserve_index=False))
            except pyarrow.ArrowException as error:
                raise SaseRunError(f"a column of this pandas DataFrame is of no type of Spark: {error}") from None
        case pyarrow.Table():
            return session().createDataFrame(table)
        case str() | PathLike():
            with explained():
                spark = session()
                return read(spark, find(spark, event_type, fspath(table), csv=csv))
        case _:
            raise OptionError(
                f"events are a DataFrame of Spark or pandas, an Arrow table, a path or the name of a table, and not a "
                f"{type(table).__name__}"
            )
