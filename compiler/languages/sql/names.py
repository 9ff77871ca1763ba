"""Names of a SELECT that joins: every column gets its alias, and every output the name that Spark gives it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.languages.sql.aliases import Alias, From, LeftAlone, Tables, own_nodes, short

_BY_OUTPUTS = ("order", "sort", "cluster", "distribute")
"""Clauses in which a bare name is rather an output's than a column's."""


class Names:
    """`outputs` are the names of the SELECT's columns, as Spark has them."""

    def __init__(self, select: exp.Select, source: From, tables: Tables, outputs: Sequence[str]) -> None:
        self.select, self.source, self.tables, self.outputs = select, source, tables, outputs
        self.inner: dict[str, Alias] = {}
        """Aliases of queries inside, whose conditions are read, too."""

    def alias(self, name: str) -> Alias | None:
        return self.inner.get(name.lower()) or self.source.aliases.get(name.lower())

    def owner(self, column: exp.Column) -> tuple[Alias | None, str]:
        """The alias of a column, and its name there: `a.props.page` is a part of props."""
        parts = [part.name for part in column.parts]
        alias = self.alias(parts[0]) if len(parts) > 1 else None
        known = alias is not None and parts[1].lower() in alias.columns
        return (alias, parts[1]) if known else (None, column.name)

    # ---- the SELECT -----------------------------------------------------------------------------

    def qualify(self) -> None:
        """In all clauses that stay; those of FROM, JOIN and WHERE are qualified one by one."""
        items = [item for each in self.select.expressions for item in self.expanded(each)]
        if len(items) != len(self.outputs):
            raise LeftAlone("its columns are not those that Spark finds")
        named = {item.alias.lower() for item in items if isinstance(item, exp.Alias)}
        items = [self.qualified(item) for item in items]
        pairs = zip(items, self.outputs, strict=True)
        self.select.set("expressions", [self.output(item, name) for item, name in pairs])
        for clause, value in self.select.args.items():
            if clause in ("expressions", "from_", "joins", "where", "with_") or not value:
                continue
            known = named if clause == "group" else named | {name.lower() for name in self.outputs}
            if clause not in _BY_OUTPUTS:
                known -= {name for alias in self.source.aliases.values() for name in alias.columns}
            for tree in value if isinstance(value, list) else [value]:
                if isinstance(tree, exp.Expr):
                    self.name_columns(tree, frozenset(known))

    def qualified(self, tree: exp.Expr) -> exp.Expr:
        """A copy of a condition, or of an item."""
        holder = exp.Paren(this=tree.copy())
        self.name_columns(holder, frozenset())
        inner: exp.Expr = holder.this
        return inner

    def expanded(self, item: exp.Expr) -> list[exp.Expr]:
        """`*` and `a.*`, column by column."""
        star = item.this if isinstance(item, exp.Column) else item
        if not isinstance(star, exp.Star):
            return [item]
        if any(star.args.values()):
            raise LeftAlone(f"{short(item)} leaves columns out, or changes them")
        if isinstance(item, exp.Column):
            alias = self.source.aliases.get(item.table.lower())
            if alias is None:
                raise LeftAlone(f"{short(item)} is of no table")
            return [exp.column(name, table=alias.name) for name, _ in alias.columns.values()]
        shared = self.source.using
        first: list[exp.Expr] = [exp.column(name, table=owners[0]) for name, owners in reversed(shared.items())]
        rest = [
            exp.column(name, table=alias.name)
            for alias in self.source.aliases.values()
            for name, _ in alias.columns.values()
            if name.lower() not in shared
        ]
        return [*first, *rest]

    def output(self, item: exp.Expr, name: str) -> exp.Expr:
        value = item.this if isinstance(item, exp.Alias) else item
        if isinstance(value, exp.Column) and value.name == name and not isinstance(item, exp.Alias):
            return value.copy()
        return exp.Alias(this=value.copy(), alias=exp.to_identifier(name, quoted=True))

    # ---- columns --------------------------------------------------------------------------------

    def name_columns(self, tree: exp.Expr, outputs: frozenset[str]) -> None:
        """Bare names of `outputs` may stay as they are."""
        for node in list(own_nodes(tree)):
            if isinstance(node, exp.Column):
                self.name_column(node, outputs)
            elif isinstance(node, exp.Query):
                self.check_inside(node)

    def name_column(self, node: exp.Column, outputs: frozenset[str]) -> None:
        if isinstance(node.this, exp.Star):
            raise LeftAlone(f"{short(node)} stands for several columns")
        if not node.table:
            self.name_bare(node, outputs)
            return
        alias, name = self.owner(node)
        if alias is None:
            raise LeftAlone(f"{short(node)} is no column of a table of its FROM")
        if not node.args.get("db"):
            node.set("table", exp.to_identifier(alias.name, quoted=True))
            node.set("this", exp.to_identifier(alias.columns[name.lower()][0], quoted=True))

    def name_bare(self, node: exp.Column, outputs: frozenset[str]) -> None:
        name = node.name.lower()
        if name in outputs:
            return
        owners = [each for each in self.inner.values() if name in each.columns] or [
            each for each in self.source.aliases.values() if name in each.columns
        ]
        if name in self.source.using:
            owners = [self.source.aliases[self.source.using[name][0].lower()]]
        if len(owners) != 1:
            raise LeftAlone(f"{short(node)} could be of {'several tables' if owners else 'no table of its FROM'}")
        node.set("table", exp.to_identifier(owners[0].name, quoted=True))
        node.set("this", exp.to_identifier(owners[0].columns[name][0], quoted=True))

    def check_inside(self, query: exp.Query) -> None:
        """A query inside stays as it is, so it must name the alias where it speaks of ours."""
        bare = {
            column.name.lower()
            for column in query.find_all(exp.Column)
            if not column.table and any(column.name.lower() in each.columns for each in self.source.aliases.values())
        }
        if not bare:
            return
        own = {
            name.lower()
            for table in query.find_all(exp.Table)
            for name, _ in self.tables.columns(scalars.sql(exp.select("*").from_(table.copy()))) or ()
        }
        if loose := sorted(bare - own):
            raise LeftAlone(f"{loose[0]} in a query inside it could be of several tables")
