"""FROM and JOIN of a SELECT: what its aliases read, how they are joined, and whose column a name is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.dataclass import dataclass

Columns = Sequence[tuple[str, str]]
"""Names and Spark types, in order."""


@dataclass(frozen=True)
class Tables:
    """What is known of the tables of a statement where it is compiled."""

    columns: Callable[[str], Columns | None]
    """Those of a query of Spark SQL; None where Spark cannot read it."""
    steady: bool = True
    """Whether the clocks of the session's time zone never change."""


class LeftAlone(Exception):
    """Why a SELECT runs as it stands."""


@dataclass(frozen=True)
class Alias:
    name: str
    reads: exp.Query
    """`SELECT *` of it, with the common table expressions that it needs."""
    title: str
    """The table's name, or its own where it reads a query."""
    columns: Mapping[str, tuple[str, str]]
    """By lower-case name: the name as it is spelled, and its type."""

    def type_of(self, name: str) -> str | None:
        """None where values of the type are compared by rules of their own."""
        known = self.columns.get(name.lower())
        return known[1] if known and "collate" not in known[1] else None


@dataclass(frozen=True)
class Joined:
    """An alias whose rows only decide whether others are kept: LEFT ANTI, LEFT SEMI, or LEFT JOIN … IS NULL."""

    alias: Alias
    on: tuple[exp.Expr, ...]
    kind: str


@dataclass
class From:
    """The inner joins of a SELECT, and its other joins."""

    aliases: dict[str, Alias] = field(default_factory=dict)
    """By lower-case name."""
    on: list[exp.Expr] = field(default_factory=list)
    using: dict[str, list[str]] = field(default_factory=dict)
    """Columns of USING, in lower case, and the aliases that share them."""
    others: list[Joined] = field(default_factory=list)


Visible = Callable[[exp.Expr, exp.Query], list[exp.CTE]]


class FromReader:
    def __init__(self, select: exp.Select, tables: Tables, visible: Visible) -> None:
        self.select, self.tables, self.visible = select, tables, visible
        self.found = From()

    def read(self) -> From:
        first = self.select.args.get("from_")
        assert isinstance(first, exp.From), "its aliases have been counted"
        if self.select.args.get("laterals"):
            raise LeftAlone("LATERAL VIEW makes rows of single rows")
        self.add(self.alias(first.this))
        for join in self.select.args.get("joins") or ():
            self.join(join)
        return self.found

    def add(self, alias: Alias) -> None:
        if alias.name.lower() in self.found.aliases:
            raise LeftAlone(f"two tables are named {alias.name}")
        self.found.aliases[alias.name.lower()] = alias

    def alias(self, node: exp.Expr) -> Alias:
        extra = [name for name, value in node.args.items() if value and name not in _PLAIN]
        if not isinstance(node, exp.Table | exp.Subquery) or extra or not node.alias_or_name:
            raise LeftAlone(f"{short(node)} is neither a table nor a query")
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            raise LeftAlone(f"{short(node)} is a function")
        if node.args.get("alias") and node.args["alias"].columns:
            raise LeftAlone(f"{node.alias} renames its columns: do that with AS, in a query")
        if random := next(map(short, nondeterministic(node)), None):
            raise LeftAlone(f"{random} is another value each time it is asked for")
        source = node.copy()
        if isinstance(node, exp.Table):
            source.set("alias", None)
        reads = exp.select("*").from_(source)
        seen = self.visible(self.select, reads)
        if seen:
            reads.set("with_", exp.With(expressions=seen))
        columns = self.tables.columns(scalars.sql(reads))
        if columns is None:
            raise LeftAlone(f"the columns of {short(node)} are not known")
        known = {name.lower(): (name, kind) for name, kind in columns}
        if len(known) < len(columns):
            raise LeftAlone(f"{node.alias_or_name} has two columns of one name")
        return Alias(node.alias_or_name, reads, node.name if isinstance(node, exp.Table) else node.alias_or_name, known)

    def join(self, join: exp.Join) -> None:
        side, kind, method = (str(join.args.get(name) or "").upper() for name in ("side", "kind", "method"))
        if method or side in ("RIGHT", "FULL") or kind not in ("", "INNER", "CROSS", "OUTER", "ANTI", "SEMI"):
            words = " ".join(filter(None, (method, side, kind, "JOIN")))
            raise LeftAlone(f"{words} keeps rows that have no partner, or pairs columns by their names")
        alias = self.alias(join.this)
        on = [*scalars.conjuncts(join.args["on"])] if join.args.get("on") else []
        if side == "LEFT" or kind in ("ANTI", "SEMI"):
            if join.args.get("using"):
                raise LeftAlone("a join that keeps or drops rows has USING: write ON")
            if alias.name.lower() in self.found.aliases:
                raise LeftAlone(f"two tables are named {alias.name}")
            self.found.others.append(Joined(alias, tuple(on), kind if kind in ("ANTI", "SEMI") else "LEFT"))
            return
        for name in join.args.get("using") or ():
            on.append(self.shared(name.name, alias))
        self.add(alias)
        self.found.on += on

    def shared(self, name: str, alias: Alias) -> exp.Expr:
        """`USING (k)` as an equality."""
        known = self.found.using.get(name.lower())
        if known is None:
            known = [each.name for each in self.found.aliases.values() if name.lower() in each.columns]
            self.found.using[name.lower()] = known
            if len(known) != 1 or name.lower() not in alias.columns:
                raise LeftAlone(f"USING ({name}) names a column that one table on each side has to have")
        equal = exp.EQ(this=exp.column(name, table=known[0]), expression=exp.column(name, table=alias.name))
        known.append(alias.name)
        return equal


_PLAIN = {"this", "db", "catalog", "alias"}

_RANDOM = (exp.Rand, exp.Randn, exp.Uuid)
_RANDOM_NAMES = {
    *("random", "randstr", "uniform", "shuffle", "monotonically_increasing_id", "spark_partition_id"),
    *("input_file_name", "input_file_block_start", "input_file_block_length"),
}


def nondeterministic(node: exp.Expr) -> Iterator[exp.Expr]:
    for function in node.find_all(exp.Func):
        if isinstance(function, _RANDOM) or (
            isinstance(function, exp.Anonymous) and function.name.lower() in _RANDOM_NAMES
        ):
            yield function


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """All nodes but those of queries inside."""
    yield from node.walk(prune=lambda each: isinstance(each, exp.Query) and each is not node)


def short(node: exp.Expr) -> str:
    text = scalars.sql(node)
    return text if len(text) <= 60 else text[:59] + "…"
