"""What the names in a cell stand for: events, a catalog, values of parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def events(
    specs: Iterable[str], types: Collection[str], namespace: Mapping[str, Any], spark: SparkSession
) -> dict[str | None, DataFrame]:
    """The tables that --events names, by event type; None is a table of several types."""
    tables: dict[str | None, DataFrame] = {}
    for spec in specs:
        event_type = next((name for name in sorted(types, key=len, reverse=True) if spec.startswith(f"{name}=")), None)
        name = spec if event_type is None else spec.removeprefix(f"{event_type}=")
        tables[event_type] = _table(name, namespace, spark)
    return tables


def _table(name: str, namespace: Mapping[str, Any], spark: SparkSession) -> DataFrame:
    from pyspark.errors import ParseException

    if name in namespace:
        return _frame(name, namespace[name], spark)
    try:
        if spark.catalog.tableExists(name):
            return spark.table(name)
    except ParseException:  # no name of a table at all
        pass
    views = [table.name for table in spark.catalog.listTables()]
    known = [*data_frames(namespace), *views]
    raise OptionError(
        f"there is no DataFrame, table or view {name!r}: {did_you_mean(name, known, 'there are') or 'there are none'}"
    )


def _frame(name: str, value: Any, spark: SparkSession) -> DataFrame:
    import pandas
    from pyspark.sql import DataFrame

    match value:
        case DataFrame():
            return value
        case pandas.DataFrame():
            return spark.createDataFrame(value)
        case _:
            raise OptionError(f"{name} is a {type(value).__name__}, and --events takes a DataFrame, a table or a view")


def data_frames(namespace: Mapping[str, Any]) -> list[str]:
    """The variables that may be given to --events. Of IPython's own, which start with an underscore, none."""
    import pandas
    from pyspark.sql import DataFrame

    kinds = (DataFrame, pandas.DataFrame)
    return [name for name, value in namespace.items() if isinstance(value, kinds) and not name.startswith("_")]


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
