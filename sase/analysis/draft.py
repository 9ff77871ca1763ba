"""A first catalog, drawn up from the events themselves: which columns hold time and type, and what each type has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, IntegralType, StringType, StructField, TimestampNTZType, TimestampType

from sase.compiler.core.catalog import AS_USUAL, Catalog
from sase.compiler.core.errors import CatalogError, OptionError
from sase.runtime.events import quoted

TIMES = ("ts", "time", "timestamp", "event_time", "eventtime", "event_ts", "datetime", "date", "at", "created_at")
TYPES = ("type", "event_type", "eventtype", "event", "event_name", "kind", "action", "name")
ORDERS = ("seq", "sequence", "sequence_number", "seq_no", "offset")
"""Names that columns have more often than not, the likeliest first."""

MOST_TYPES = 500
"""A column with more values than this is not a type."""


@dataclass(frozen=True)
class Draft:
    """A catalog, and how many events each of its types has."""

    catalog: Catalog
    events: Mapping[str, int]

    def toml(self, source: str) -> str:
        catalog = self.catalog
        lines = [
            f"# The event types of {_comment(source)}, as found in {_events(sum(self.events.values()))}.",
            f"time = {_time_entry(catalog)}",
            f"type = {_text(catalog.type)}",
            *([f"order = {_text(catalog.order)}"] if catalog.order else []),
        ]
        if catalog.csv != AS_USUAL:
            lines += ["", "[csv]", *(f"{key} = {_csv(value)}" for key, value in asdict(catalog.csv).items() if value)]
        for name, attributes in (catalog.types or {}).items():
            lines += ["", f"[types.{_key(name)}]  # {_events(self.events[name])}"]
            lines += [f"{_key(attribute)} = {_text(kind)}" for attribute, kind in attributes.items()]
        return "\n".join(lines) + "\n"


def draft(tables: Sequence[tuple[str | None, DataFrame]], wanted: Catalog, given: Iterable[str]) -> Draft:
    """`wanted` has the columns that somebody has `given` a name for; the others are guessed."""
    fields = [field for _, table in tables for field in table.schema]
    for role in ("time", "type", "order"):
        if role in given:
            _require(getattr(wanted, role), fields)
    catalog = wanted
    if "time" not in given:
        catalog = replace(catalog, time=_time(fields))
    if catalog.time_unit is None and catalog.time_format is None:
        catalog = replace(catalog, time_unit=_unit(tables, catalog.time))
    if "type" not in given and any(name is None for name, _ in tables):
        catalog = replace(
            catalog, type=_type([field for name, table in tables if name is None for field in table.schema])
        )
    if "order" not in given:
        catalog = replace(catalog, order=_named(ORDERS, fields, _is_integer))
    types: dict[str, dict[str, str]] = {}
    events: dict[str, int] = {}
    for name, table in tables:
        for event_type, (count, attributes) in _types(table, name, catalog).items():
            events[event_type] = events.get(event_type, 0) + count
            types[event_type] = {**attributes, **types.get(event_type, {})}
    if not types:
        raise OptionError("there are no events to find event types in")
    by_size = sorted(types, key=lambda name: (-events[name], name))
    return Draft(
        replace(catalog, types={name: types[name] for name in by_size}), {name: events[name] for name in by_size}
    )


# ---- which columns ------------------------------------------------------------------------------


def _is_time(kind: DataType) -> bool:
    return isinstance(kind, TimestampType | TimestampNTZType | DateType)


def _is_integer(kind: DataType) -> bool:
    return isinstance(kind, IntegralType)


def _is_string(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _named(names: Sequence[str], fields: Sequence[StructField], fits: Callable[[DataType], bool]) -> str | None:
    """The column with the likeliest of these names."""
    there = {field.name.lower(): field.name for field in reversed(fields) if fits(field.dataType)}
    return next((there[name] for name in names if name in there), None)


def _time(fields: Sequence[StructField]) -> str:
    times = list(dict.fromkeys(field.name for field in fields if _is_time(field.dataType)))
    found = _named(TIMES, fields, _is_time) or (times[0] if len(times) == 1 else None)
    found = found or (None if times else _named(TIMES, fields, _is_integer))
    if found is None:
        there = [f"{field.name} ({field.dataType.simpleString()})" for field in fields]
        raise OptionError(f"nothing tells which column is the time: add --time COLUMN, of {_listed(times or there)}")
    return found


EPOCH_1990, EPOCH_2100 = 631_152_000, 4_102_444_800
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _unit(tables: Iterable[tuple[str | None, DataFrame]], column: str) -> str | None:
    """What an integer time counts since 1970, where the latest of them is of these years, and of no others."""
    latest = 0
    for _, table in tables:
        kinds = {field.name.lower(): field.dataType for field in table.schema}
        if not _is_integer(kinds.get(column.lower(), StringType())):
            return None
        latest = max(latest, table.agg(F.max(quoted(column))).collect()[0][0] or 0)
    return next((unit for unit, ticks in UNITS.items() if EPOCH_1990 <= latest / ticks < EPOCH_2100), None)


def _type(fields: Sequence[StructField]) -> str:
    strings = list(dict.fromkeys(field.name for field in fields if _is_string(field.dataType)))
    found = _named(TYPES, fields, _is_string) or (strings[0] if len(strings) == 1 else None)
    if found is None:
        clue = f", of {_listed(strings)}" if strings else "; there is no column of strings"
        raise OptionError(f"nothing tells which column is the type: add --type COLUMN{clue}")
    return found


def _require(column: str, fields: Sequence[StructField]) -> None:
    if column.lower() not in (field.name.lower() for field in fields):
        raise OptionError(f"there is no column {column}: there are {_listed(field.name for field in fields)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


# ---- what each type has -------------------------------------------------------------------------


def _types(table: DataFrame, name: str | None, catalog: Catalog) -> dict[str, tuple[int, dict[str, str]]]:
    """Of each type how many events there are, and the columns that are not NULL in all of them: one pass."""
    event_type = F.lit(name) if name is not None else F.col(quoted(catalog.type))
    fields = [field for field in table.schema if name is not None or field.name.lower() != catalog.type.lower()]
    values = [F.count(F.col(quoted(field.name))).alias(f"n{at}") for at, field in enumerate(fields)]
    rows = (
        table.groupBy(event_type.alias("type"))
        .agg(F.count(F.lit(1)).alias("events"), *values)
        .where("type IS NOT NULL")
        .limit(MOST_TYPES + 1)
        .collect()
    )
    if len(rows) > MOST_TYPES:
        raise OptionError(
            f"column {catalog.type} has more than {MOST_TYPES} values, which are no types: add --type COLUMN, or "
            "TYPE=EVENTS where an event type has a table of its own"
        )
    return {
        row["type"]: (
            row["events"],
            {field.name: _kind(field) for at, field in enumerate(fields) if row[f"n{at}"] and _is_known(field)},
        )
        for row in rows
    }


def _kind(field: StructField) -> str:
    return field.dataType.simpleString()


def _is_known(field: StructField) -> bool:
    """Whether a catalog may name it: Spark has types that no query can read."""
    try:
        Catalog(types={"any": {field.name: _kind(field)}})
    except CatalogError:
        return False
    return True


# ---- TOML ---------------------------------------------------------------------------------------


def _time_entry(catalog: Catalog) -> str:
    form = {"unit": catalog.time_unit, "format": catalog.time_format}
    given = "".join(f", {key} = {_text(value)}" for key, value in form.items() if value)
    return f"{{ column = {_text(catalog.time)}{given} }}" if given else _text(catalog.time)


def _csv(value: str | tuple[str, ...]) -> str:
    return _text(value) if isinstance(value, str) else f"[{', '.join(map(_text, value))}]"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    """JSON's strings are TOML's, but for one character that only TOML refuses."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _events(count: int) -> str:
    return f"{count:,} event{'' if count == 1 else 's'}"


def _comment(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
