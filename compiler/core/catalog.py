"""The catalog: which column holds the time, the type and the tie-breaker, and what each event type declares."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError

from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import CatalogError, did_you_mean

Schema = Mapping[str, Mapping[str, str]]

TIME_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class Csv:
    """How CSV is written. `header` names the columns of files that do not begin with their names."""

    delimiter: str = ","
    null: str = ""
    header: tuple[str, ...] = ()


AS_USUAL = Csv()


@dataclass(frozen=True)
class Catalog:
    """`types` maps an event type to its attributes and their Spark SQL types, the time column included or not.

    `types=None` is an open catalog: any type may have any attribute and nothing is known of their types. It serves
    `sase check` without a catalog; a job cannot be made from it.
    `parameters` gives values to `{name}` and to `WITHIN T`.

    Where the time is written as a number or as text, `time_unit` (s, ms, us or ns since 1970) or `time_format` (one of
    Spark's patterns, or iso) says how, and it is a timestamp to every query.
    """

    time: str = "ts"
    type: str = "type"
    order: str | None = None
    types: Schema | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    time_unit: str | None = None
    time_format: str | None = None
    csv: Csv = AS_USUAL

    def __post_init__(self) -> None:
        if self.time_unit is not None and self.time_unit not in TIME_UNITS:
            raise CatalogError(f"the unit of a time is one of {', '.join(TIME_UNITS)}, not {self.time_unit!r}")
        if self.time_unit is not None and self.time_format is not None:
            raise CatalogError("a time is a number with a unit or a text with a format, not both")
        if self.types is not None and (self.time_unit or self.time_format):
            object.__setattr__(self, "types", {name: self._timed(declared) for name, declared in self.types.items()})
        for column in (self.time, self.type, self.order or ""):
            _check_name(column)
        for name, attributes in (self.types or {}).items():
            for attribute, kind in attributes.items():
                _check_name(attribute)
                if not _is_type(str(kind)):
                    raise CatalogError(
                        f"type {name}, attribute {attribute}: {kind!r} is not a Spark SQL type, such as 'bigint'"
                    )

    def _timed(self, declared: Mapping[str, str]) -> dict[str, str]:
        return {name: "timestamp" if name.lower() == self.time.lower() else kind for name, kind in declared.items()}

    @staticmethod
    def load(path: str | Path) -> Catalog:
        """Reads a TOML file: `time`, `type`, `order`, `[csv]`, `[parameters]` and one `[types.NAME]` table per type."""
        try:
            with open(path, "rb") as file:
                content = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise CatalogError(f"{path}: not valid TOML: {error}") from None
        except OSError as error:
            raise CatalogError(f"{path}: cannot be read: {error.strerror}") from None
        known = ("time", "type", "order", "csv", "parameters", "types")
        for key in content:
            if key not in known:
                raise CatalogError(f"{path}: unknown key {key!r}: {did_you_mean(key, known, 'a catalog has')}")
        try:
            return Catalog(**_checked(content))
        except CatalogError as error:
            raise CatalogError(f"{path}: {error}") from None

    def data_type(self, type_name: str, attribute: str) -> exp.DataType:
        assert self.types is not None
        return exp.DataType.build(self.types[type_name][attribute], dialect="spark")


_TIME_EXAMPLE = 'time = { column = "ts", unit = "ms" }'


def _check_name(column: str) -> None:
    """Arrow ends a column's name at NUL, so such a column would not arrive in the workers."""
    if "\0" in column:
        raise CatalogError(f"the name of the column {column!r} has a NUL character, which cannot be transported")


@cache
def _is_type(kind: str) -> bool:
    try:
        exp.DataType.build(kind, dialect="spark")
    except (ParseError, ValueError, AttributeError):
        return False
    return True


def _checked(content: dict[str, Any]) -> dict[str, Any]:
    if isinstance(written := content.get("time"), dict):
        known = ("column", "unit", "format")
        for key, value in written.items():
            if key not in known:
                raise CatalogError(f"time has no {key!r}: {did_you_mean(key, known, 'it has')}")
            if not isinstance(value, str):
                raise CatalogError(f"{key} of time must be a text, such as {_TIME_EXAMPLE}")
        if "column" not in written:
            raise CatalogError(f"time has no column: write {_TIME_EXAMPLE}")
        form = {f"time_{key}": value for key, value in written.items() if key != "column"}
        content = {**content, "time": written["column"], **form}
    for key in ("time", "type", "order"):
        if key in content and not isinstance(content[key], str):
            raise CatalogError(f"{key} must be the name of a column")
    for key in ("csv", "parameters", "types"):
        if not isinstance(content.get(key, {}), dict):
            raise CatalogError(f"{key} must be a table, [{key}]")
    types = content.get("types", {})
    for name, attributes in types.items():
        if not isinstance(attributes, dict) or not all(isinstance(kind, str) for kind in attributes.values()):
            raise CatalogError(f'types.{name} must map attributes to types, such as id = "bigint"')
    if not types:
        raise CatalogError('no event types: add a table such as [types.SHELF-READING] with id = "bigint"')
    return content | {"csv": _csv(content.get("csv", {}))}


def _csv(content: dict[str, Any]) -> Csv:
    known = ("delimiter", "null", "header")
    for key, value in content.items():
        if key not in known:
            raise CatalogError(f"csv has no {key!r}: {did_you_mean(key, known, 'it has')}")
        if key == "header" and not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
            raise CatalogError('header of csv must list the names of the columns, such as ["type", "ts", "id"]')
        if key != "header" and not isinstance(value, str):
            raise CatalogError(f"{key} of csv must be a text")
    return Csv(**content | {"header": tuple(content.get("header", ()))})
