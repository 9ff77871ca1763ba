"""What the variables of a pattern declare, by the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import Attribute, TimeKind
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import CatalogError, Diagnostic, Span
from sase.compiler.core.scalars import Family, family


def time_type(catalog: Catalog, bare_window: bool) -> exp.DataType:
    """As declared; where no type declares it, the window's units tell a timestamp from an integer."""
    declared = _declared_anywhere(catalog, catalog.time)
    if declared is not scalars.UNKNOWN:
        return declared
    return scalars.BIGINT if bare_window else exp.DataType.build("timestamp", dialect="spark")


def time_kind(catalog: Catalog, kind: exp.DataType) -> TimeKind:
    if scalars.is_integer(kind):
        return "integer"
    if family(kind) is Family.DATETIME:
        return "timestamp"
    written = "; say how it is written, as with --time-format 'yyyy-MM-dd HH:mm:ss' or iso"
    raise CatalogError(
        f"the time column {catalog.time} is {scalars.a_type(kind)}: it must be a timestamp, a date or an integer"
        + (written if family(kind) is Family.STRING else "")
    )


def attributes(
    types: Sequence[str], catalog: Catalog, time: exp.DataType, span: Span, found: list[Diagnostic]
) -> Mapping[str, Attribute]:
    """The attributes of a variable by lower-case name, since names resolve as Spark's do."""
    schema = catalog.types or {}
    result = {
        catalog.time.lower(): Attribute(catalog.time, time, ()),
        catalog.type.lower(): Attribute(catalog.type, exp.DataType.build("string", dialect="spark"), ()),
    }
    if catalog.order is not None and catalog.order.lower() not in result:
        result[catalog.order.lower()] = Attribute(catalog.order, _declared_anywhere(catalog, catalog.order), ())
    implicit = frozenset(result)
    for type_name in types:
        for attribute in schema.get(type_name, {}):
            if attribute.lower() in implicit:
                continue
            kind = catalog.data_type(type_name, attribute)
            known = result.get(attribute.lower())
            if known is not None and (merged := scalars.wider(known.kind, kind)) is None:
                found.append(
                    Diagnostic(
                        f"{attribute} is {scalars.a_type(known.kind)} in one of these types "
                        f"and {scalars.a_type(kind)} in {type_name}",
                        span,
                        "one variable's attribute has one type: use two patterns, or change the catalog",
                    )
                )
            elif known is not None and merged is not None:
                kind = merged
            lacking = tuple(other for other in types if attribute.lower() not in map(str.lower, schema.get(other, {})))
            result[attribute.lower()] = Attribute(known.name if known else attribute, kind, lacking)
    return result


def _declared_anywhere(catalog: Catalog, column: str) -> exp.DataType:
    for type_name, declared in (catalog.types or {}).items():
        for attribute in declared:
            if attribute.lower() == column.lower():
                return catalog.data_type(type_name, attribute)
    return scalars.UNKNOWN
