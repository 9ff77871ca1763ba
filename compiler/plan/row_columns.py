"""Where the columns of a query come from, as far as its text tells: which of them are those of a source, as they are.

The sources of a query are what FROM and UNION ALL lead to. Only what is certain is said. What a table has is known to
Spark alone, so behind a star of it no column has a place that could be told. Where a name stands twice, Spark refuses
to look it up: so one that is known is the one that is meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from sase.compiler.core.ctes import defined
from sase.compiler.core.dataclass import dataclass

Origin = str | int | None
"""A column of a source: its name, or its place where that is what counts; None for any other value."""


@dataclass(frozen=True)
class Output:
    """What a clause hands on."""

    names: Sequence[str]
    """The columns that come first,"""
    all: bool
    """and whether there are no others."""


@dataclass(frozen=True)
class _Column:
    name: str
    """In lower case; empty if it has none."""
    origins: tuple[Origin, ...]
    """What it is in each of the sources, in order."""


@dataclass(frozen=True)
class _Columns:
    known: list[_Column]
    """Those that come first."""
    all: bool
    sources: int


@dataclass(frozen=True)
class Reader:
    outputs: Mapping[str, Output]
    """Of the clauses, by what stands for them."""
    whole: frozenset[int] = frozenset()
    """The ids of SELECTs that are sources themselves, each a side of a UNION ALL: these know columns by places."""

    def origins(self, query: exp.Expr, name: str) -> tuple[Origin, ...] | None:
        """What a column of a query is in each of its sources; None where the text does not tell."""
        found = [column.origins for column in self._columns(query).known if column.name == name.lower()]
        return found[0] if len(found) == 1 else None

    def _columns(self, query: exp.Expr) -> _Columns:
        columns = self._columns_of(query)
        if id(query) not in self.whole:
            return columns
        known = [_Column(each.name, (at,)) for at, each in enumerate(columns.known)]
        return _Columns(known, columns.all, 1)

    def _columns_of(self, query: exp.Expr) -> _Columns:
        match query:
            case exp.SetOperation():
                return self._united(query)
            case exp.Subquery():
                return _renamed(query, self._columns(query.this))
            case exp.Table() if (cte := defined(query)) is not None:
                return _renamed(query, _renamed(cte, self._columns(cte.this)))
            case exp.Table() if not query.db and (output := self.outputs.get(query.name)):
                return _renamed(
                    query, _Columns([_Column(name.lower(), (name,)) for name in output.names], output.all, 1)
                )
            case exp.Select() if query.args.get("from_") is not None:
                return self._selected(query)
        return _Columns([], False, 1)

    def _united(self, query: exp.SetOperation) -> _Columns:
        left, right = self._columns(query.left), self._columns(query.right)
        theirs = [each.origins for each in right.known]
        if id(query.right) in self.whole:
            theirs = [(at,) for at in range(len(left.known))]  # whatever they are called
        known = [_Column(each.name, each.origins + other) for each, other in zip(left.known, theirs, strict=False)]
        return _Columns([] if query.args.get("by_name") else known, False, left.sources + right.sources)

    def _selected(self, query: exp.Select) -> _Columns:
        source = query.args["from_"].this
        columns = self._columns(source)
        joins = query.args.get("joins") or []
        alone = not joins and not query.args.get("laterals")
        in_order = not any(join.args.get("using") or join.method for join in joins)
        known: list[_Column] = []
        for selected in query.expressions:
            value = selected.this if isinstance(selected, exp.Alias) else selected
            table = value.table.lower() if isinstance(value, exp.Column) else ""
            own = not table or table == source.alias_or_name.lower()
            if (star := _star(value)) is not None:
                changed = any(star.args.get(word) for word in ("except_", "except", "replace", "rename"))
                certain = own and not changed and (in_order or table != "")
                known += columns.known if certain else []
                if not certain or not columns.all or not (alone or table):
                    return _Columns(known, False, columns.sources)
                continue
            name = selected.alias_or_name.lower()
            found = [each for each in columns.known if each.name == value.name.lower()]
            if own and isinstance(value, exp.Column) and len(found) == 1:
                known.append(replace(found[0], name=name))
            else:
                known.append(_Column(name, (None,) * columns.sources))
        return _Columns(known, True, columns.sources)


def _star(value: exp.Expr) -> exp.Star | None:
    inner = value.this if isinstance(value, exp.Column) else value
    return inner if isinstance(inner, exp.Star) else None


def _renamed(source: exp.Expr, columns: _Columns) -> _Columns:
    """With the names that an alias gives: AS x (a, b)."""
    if source.args.get("pivots"):
        return _Columns([], False, columns.sources)
    alias = source.args.get("alias")
    names = [each.name.lower() for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return columns
    known = [replace(each, name=name) for each, name in zip(columns.known, names, strict=False)]
    return replace(columns, known=known)
