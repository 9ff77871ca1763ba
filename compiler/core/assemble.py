"""The end of every front end: variables, conditions and outputs become a bound query.

What is common to all languages is decided here: which part of WHERE speaks of what, what a missing attribute means,
which equalities are equivalence tests, and what no pattern may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery, Output, Predicate, TimeKind, Variable, Window
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.equivalence import equivalence_tests
from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.core.missing import atoms, with_escapes
from sase.compiler.core.spans import span_of

MOST_COMPONENTS = 60
"""State bits are the bits of one 64-bit integer."""


def assemble(
    text: str,
    filename: str,
    catalog: Catalog,
    *,
    stream: str | None,
    span: Span,
    time_kind: TimeKind,
    variables: Sequence[Variable],
    where: Iterable[exp.Expr],
    within: Window | Diagnostic | None,
    returns: Sequence[Output] | None,
    composite: str | None,
    found: list[Diagnostic],
) -> BoundQuery:
    """`where` has the parts that AND joins, with their names resolved, and `span` is the pattern's.

    `found` has what the language itself found wrong, and `within` may say why it is no window: all errors are reported
    together.
    """
    parts = tuple(_predicates(where, variables, catalog.type, found))
    _check_outputs(returns or (), variables, catalog.type if composite is not None else None, found)
    equivalences, predicates = equivalence_tests(parts, variables)
    query = BoundQuery(
        text=text,
        filename=filename,
        span=span,
        stream=stream,
        time=catalog.time,
        type=catalog.type,
        order=catalog.order,
        time_kind=time_kind,
        variables=tuple(variables),
        predicates=predicates,
        equivalences=equivalences,
        within=within if isinstance(within, Window) else None,
        returns=None if returns is None else tuple(returns),
        composite=composite,
        time_unit=catalog.time_unit,
        time_format=catalog.time_format,
    )
    found += _wrong_pattern(query, needs_window=within is None)
    if isinstance(within, Diagnostic):
        found.append(within)
    if found:
        raise SaseError(found, text, filename)
    return query


# ---- the pattern --------------------------------------------------------------------------------


def _wrong_pattern(query: BoundQuery, needs_window: bool) -> Iterator[Diagnostic]:
    if len(query.variables) > MOST_COMPONENTS:
        yield Diagnostic(f"a pattern has at most {MOST_COMPONENTS} components", query.variables[MOST_COMPONENTS].span)
    if not query.positive:
        yield Diagnostic(
            "every component of this pattern is negated, so there is no event to report",
            query.span,
            "add an event that must occur, such as SEQ(A x, !(B y))",
        )
        return
    if needs_window:
        for open_ended, where, side in ((query.leading, "first", "past"), (query.trailing, "last", "future")):
            for variable in open_ended:
                yield Diagnostic(
                    f"a negated component that stands {where} needs WITHIN: without a window, its {side} has no end",
                    variable.span,
                    "add a window, such as WITHIN 12 hours",
                )


# ---- WHERE --------------------------------------------------------------------------------------


def _predicates(
    where: Iterable[exp.Expr], variables: Sequence[Variable], type_column: str, found: list[Diagnostic]
) -> Iterator[Predicate]:
    """P+ and P-. What one place in the text stands for, such as the pairs of `[id]`, is reported once."""
    negated = {variable.name for variable in variables if variable.negated}
    wrong: set[Span] = set()
    for part in where:
        condition = scalars.unparenthesised(part)
        if span_of(condition) in wrong:
            continue
        mistakes: list[Diagnostic] = []
        scalars.check_condition(condition, mistakes)
        spoken_of = sorted(scalars.variables(condition) & negated)
        if not mistakes:
            mistakes += _wrong_part(condition, spoken_of)
        if mistakes:
            wrong.add(span_of(condition))
            found += mistakes
        else:
            about = spoken_of[0] if spoken_of else None
            yield Predicate(with_escapes(condition, type_column), about, span_of(condition))


def _wrong_part(condition: exp.Expr, negated: Sequence[str]) -> Iterator[Diagnostic]:
    """A part is about positive variables alone, or, in each of its comparisons, about one negated variable."""
    if len(negated) > 1:
        yield Diagnostic(
            f"this part of WHERE speaks of {len(negated)} negated components, {' and '.join(negated)}",
            span_of(condition),
            "each negated component stands for itself: a part may speak of one of them and of positive variables",
        )
    elif negated:
        mixed = [atom for atom in atoms(condition) if negated[0] not in (scalars.variables(atom) or negated)]
        if mixed:
            yield Diagnostic(
                f"this part of WHERE mixes conditions on positive variables and on the negated {negated[0]}",
                span_of(condition),
                f"{scalars.sql(mixed[0])} does not speak of {negated[0]}: only AND may join the two",
            )


# ---- RETURN -------------------------------------------------------------------------------------


def _check_outputs(
    outputs: Sequence[Output], variables: Sequence[Variable], type_column: str | None, found: list[Diagnostic]
) -> None:
    """`type_column` is that of a composite event, which has one, too."""
    negated = {variable.name for variable in variables if variable.negated}
    names = set() if type_column is None else {type_column.lower()}
    wrong: set[Span] = set()  # x.* stands for many columns, and is reported once
    for output in outputs:
        mistakes: list[Diagnostic] = []
        scalars.infer(output.value, mistakes)
        mistakes += [
            Diagnostic(
                f"{column.table} is negated: a match has no such event to return",
                span_of(column),
                "return attributes of positive variables",
            )
            for column in scalars.columns(output.value)
            if column.table in negated
        ]
        if output.name.lower() in names:
            example = f": {scalars.sql(output.value)} AS …" if isinstance(output.value, exp.Column) else ""
            mistakes.append(
                Diagnostic(
                    f"two columns of the result are named {output.name}",
                    output.span,
                    f"name one of them with AS{example}",
                )
            )
        names.add(output.name.lower())
        if mistakes and output.span not in wrong:
            wrong.add(output.span)
            found += mistakes
