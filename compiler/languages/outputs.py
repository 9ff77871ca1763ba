"""The columns of a result, as RETURN and SELECT list them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sqlglot import exp

from sase.compiler.core.bound import Output, Variable
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.errors import Diagnostic
from sase.compiler.core.spans import at
from sase.compiler.languages.sase.syntax import ReturnItem


def outputs(
    items: Iterable[ReturnItem],
    resolve: Callable[[exp.Expr], exp.Expr | None],
    variable_of: Callable[[exp.Column], Variable | None],
    catalog: Catalog,
    found: list[Diagnostic],
    own_place: bool = False,
) -> Iterator[Output]:
    """`resolve` and `variable_of` look names up by the rules of a language, and say what has no meaning.

    Results that are events have a type, a time and a tie-breaker of their own, and `x.*` leaves those of `x` out.
    """
    places = {catalog.time.lower(), catalog.type.lower(), (catalog.order or catalog.time).lower()}
    for item in items:
        if isinstance(item.expression, exp.Column) and isinstance(item.expression.this, exp.Star):
            for output in _everything(item.expression, item, resolve, variable_of, catalog, found):
                if not own_place or output.name.lower() not in places:
                    yield output
            continue
        value = resolve(item.expression)
        if value is None:
            continue
        if item.alias is not None:
            yield Output(item.alias.text, value, item.span)
        elif isinstance(value, exp.Column):
            yield Output(value.name, value, item.span)
        elif isinstance(value, exp.Dot):
            yield Output(value.expression.name, value, item.span)
        else:
            found.append(
                Diagnostic(
                    "this column of the result has no name", item.span, "add one with AS, such as z.ts - x.ts AS took"
                )
            )


def _everything(
    node: exp.Column,
    item: ReturnItem,
    resolve: Callable[[exp.Expr], exp.Expr | None],
    variable_of: Callable[[exp.Column], Variable | None],
    catalog: Catalog,
    found: list[Diagnostic],
) -> Iterator[Output]:
    """`x.*`: the attributes of a variable, as the catalog lists them."""
    variable = variable_of(node)
    if variable is None:
        return
    if catalog.types is None:
        found.append(Diagnostic(f"nothing is known of the attributes of {variable.name}", item.span, "give a catalog"))
    for attribute in variable.attributes.values():
        name = at(exp.Identifier(this=attribute.name, quoted=True), item.span)
        value = resolve(at(exp.Column(this=name, table=node.args["table"].copy()), item.span))
        if value is not None:
            yield Output(attribute.name, value, item.span)
