"""What the names in a cell stand for: events, a catalog, values of parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import OptionError, did_you_mean
from sase.events import Table, is_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def events(
    specs: Iterable[str], types: Collection[str], namespace: Mapping[str, Any], spark: SparkSession
) -> dict[str | None, Table]:
    """What --events names, by event type; None is a table of several types."""
    tables: dict[str | None, Table] = {}
    for spec in specs:
        event_type = next((name for name in sorted(types, key=len, reverse=True) if spec.startswith(f"{name}=")), None)
        name = spec if event_type is None else spec.removeprefix(f"{event_type}=")
        tables[event_type] = _table(name, namespace, spark)
    return tables


def _table(name: str, namespace: Mapping[str, Any], spark: SparkSession) -> Table:
    from sase.runtime.io.files import Files
    from sase.runtime.io.inputs import is_table

    if name in namespace:
        if not is_frame(namespace[name]):
            kind = type(namespace[name]).__name__
            raise OptionError(f"{name} is a {kind}, and --events takes a DataFrame, a table, a view or a path")
        return namespace[name]
    if is_table(spark, name) or Files(spark).matching(name):
        return name
    known = [*data_frames(namespace), *views(spark)]
    raise OptionError(
        f"there is no DataFrame, table, view or file {name!r}: "
        f"{did_you_mean(name, known, 'there are') or 'there are none'}"
    )


def views(spark: SparkSession) -> list[str]:
    """And tables."""
    return [row["tableName"] for row in spark.sql("SHOW TABLES").collect()]


def data_frames(namespace: Mapping[str, Any]) -> list[str]:
    """The variables that may be given to --events. Of IPython's own, which start with an underscore, none."""
    return [name for name, value in namespace.items() if is_frame(value) and not name.startswith("_")]


def catalog(name: str | None, namespace: Mapping[str, Any]) -> Catalog | None:
    """A variable that holds a catalog, or else a file."""
    if name is None:
        return None
    value = namespace.get(name)
    return value if isinstance(value, Catalog) else Catalog.load(name)


def parameters(wanted: Iterable[str], namespace: Mapping[str, Any]) -> dict[str, object]:
    """The values of the Python variables that the query names, and of no others."""
    return {name: _value(namespace[name]) for name in wanted if name in namespace}


def _value(value: Any) -> Any:
    """numpy's numbers are Python's, as far as a query is concerned."""
    import numpy

    return value.item() if isinstance(value, numpy.generic) else value
