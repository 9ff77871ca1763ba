"""Rows that may not be there, or must be: NOT EXISTS, LEFT ANTI JOIN, LEFT JOIN … IS NULL; EXISTS, LEFT SEMI JOIN."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from sqlglot import exp

from sase.compiler.core import pattern, scalars
from sase.compiler.core.bound import Window
from sase.compiler.core.errors import Span
from sase.compiler.core.orders import Order, order_of
from sase.compiler.languages.sql.aliases import Alias, From, FromReader, Joined, LeftAlone, Tables, Visible
from sase.compiler.languages.sql.names import Names
from sase.compiler.languages.sql.times import Bound, TypeOf, bounds


@dataclass
class Absent:
    alias: Alias
    parts: tuple[exp.Expr, ...]
    negated: bool
    condition: exp.Expr
    """What Spark evaluates, where it does not become a part of the pattern."""
    after: int = 0
    """How many rows of the sequence are before it,"""
    order: Order = field(default_factory=lambda: Order((), {}))
    """all that follows from its bounds,"""
    times: Mapping[str, str] = field(default_factory=dict)
    """and which columns are the times, its own and those of the sequence: once it has a place."""

    def bounds(self, type_of: TypeOf) -> list[Bound]:
        return [bound for part in self.parts for bound in bounds(part, type_of)]

    def is_taken(self, takes: Callable[[exp.Expr], bool]) -> bool:
        return all(takes(part) and self.alias.name in scalars.variables(part) for part in self.parts)

    def place(self, after: int, order: Order, times: Mapping[str, str]) -> None:
        self.after, self.order, self.times = after, order, times

    @property
    def time(self) -> str:
        return self.times[self.alias.name]

    def is_of_time(self, bound: Bound) -> bool:
        return all(self.times.get(name) == column for name, column in (bound.earlier, bound.later))

    def reach(self, chain: Sequence[str]) -> int:
        """The window that its interval needs."""
        if self.after == 0:
            return self.order.most[self.alias.name, chain[-1]] + 1
        return self.order.most[chain[0], self.alias.name] + 1 if self.after == len(chain) else 1

    def implied(self, chain: Sequence[str], within: Window) -> Order:
        """What its place says by itself."""
        line = [*chain[: self.after], self.alias.name, *chain[self.after :]]
        order = [(later, earlier, 0) for earlier, later in combinations(line, 2)]
        return order_of(line, [*order, (line[0], line[-1], within.ticks), (chain[0], chain[-1], within.ticks)])

    def conditions(
        self, chain: Sequence[str], within: Window, type_of: TypeOf, spell: Callable[[Bound], exp.Expr]
    ) -> Iterator[exp.Expr]:
        """What its place does not say: P- of the pattern."""
        known = self.implied(chain, within)
        for part in self.parts:
            found = bounds(part, type_of)
            if found and all(bound.exact and self.is_of_time(bound) for bound in found):
                differences = ((bound, (bound.earlier[0], bound.later[0], bound.ticks)) for bound in found)
                yield from (spell(bound) for bound, difference in differences if not known.implies(difference))
            else:
                yield part
        if not self.negated:
            time = exp.column(self.time, table=self.alias.name)
            count = scalars.Folded(this="size", expressions=[time], collected=True)
            yield exp.GT(this=count, expression=exp.Literal.number(0))

    def step(self, span: Span) -> pattern.Pattern:
        leaf = pattern.Leaf(self.alias.name, span)
        return pattern.Not(leaf, span) if self.negated else pattern.All(leaf, span)


def absences(
    conditions: Iterable[exp.Expr], source: From, names: Names, tables: Tables, visible: Visible
) -> tuple[list[Absent], list[exp.Expr]]:
    """Those among conditions and joins, and the conditions that remain."""
    found: list[Absent] = []
    rest: list[exp.Expr] = []
    for condition in conditions:
        each = _asked(condition, source, names, tables, visible)
        if each is None:
            rest.append(condition)
        else:
            found.append(each)
    for joined in source.others:
        if joined.kind == "LEFT":
            rest = _without_null_test(joined, rest, names)
        names.inner[joined.alias.name.lower()] = joined.alias
        found.append(_joined(joined, names))
    return found, rest


def _asked(condition: exp.Expr, source: From, names: Names, tables: Tables, visible: Visible) -> Absent | None:
    """`[NOT] EXISTS (SELECT … FROM one table WHERE …)`; None for any other condition."""
    negated = isinstance(condition, exp.Not)
    exists = scalars.unparenthesised(condition.this) if negated else condition
    if not isinstance(exists, exp.Exists) or not isinstance(exists.this, exp.Select):
        return None
    select = exists.this
    plain = {"expressions", "from_", "where", "distinct", "kind"}
    if any(value for clause, value in select.args.items() if clause not in plain) or not select.args.get("from_"):
        return None
    if any(item.find(exp.AggFunc) for item in select.expressions):
        return None
    try:
        inner = FromReader(select, tables, visible).read()
    except LeftAlone:
        return None
    (alias,) = inner.aliases.values()
    if alias.name.lower() in source.aliases or alias.name.lower() in names.inner:
        return None
    where = select.args.get("where")
    names.inner[alias.name.lower()] = alias
    try:
        parts = tuple(_halves(names, scalars.conjuncts(where.this)) if where else ())
    except LeftAlone:
        del names.inner[alias.name.lower()]
        return None
    return Absent(alias, parts, negated, condition)


def _joined(joined: Joined, names: Names) -> Absent:
    parts = tuple(_halves(names, joined.on))
    table = joined.alias.reads.args["from_"].this.copy()
    table.set("alias", exp.TableAlias(this=exp.to_identifier(joined.alias.name)))
    inner = exp.select("1").from_(table)
    if parts:
        inner = inner.where(scalars.conjunction(list(parts)), copy=False)
    exists = exp.Exists(this=inner)
    negated = joined.kind != "SEMI"
    return Absent(joined.alias, parts, negated, exp.Not(this=exists) if negated else exists)


def _halves(names: Names, conditions: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    for condition in conditions:
        yield from halves(names.qualified(condition))


def halves(condition: exp.Expr) -> Iterator[exp.Expr]:
    """`x BETWEEN low AND high` is two conditions."""
    inner = scalars.unparenthesised(condition)
    if isinstance(inner, exp.Between) and not inner.args.get("symmetric"):
        yield exp.GTE(this=inner.this.copy(), expression=inner.args["low"].copy())
        yield exp.LTE(this=inner.this.copy(), expression=inner.args["high"].copy())
    else:
        yield inner


_COMPARED = (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_STRICT = (*_COMPARED, exp.Paren, exp.Add, exp.Sub, exp.Neg, exp.Abs)


def _null_if_one_is(condition: exp.Expr) -> Iterator[exp.Column]:
    """Columns that cannot be NULL where the condition is true: not those inside of `coalesce` and its like."""
    for node in condition.walk(prune=lambda each: not isinstance(each, _STRICT)):
        if isinstance(node, exp.Column):
            yield node


def _without_null_test(joined: Joined, conditions: list[exp.Expr], names: Names) -> list[exp.Expr]:
    """LEFT JOIN … WHERE n.id IS NULL drops rows that have a partner, if a partner's column is never NULL: where ON
    compares it."""
    name = joined.alias.name
    never_null = {
        column.name.lower()
        for part in joined.on
        if isinstance(scalars.unparenthesised(part), _COMPARED)
        for column in _null_if_one_is(part)
        if column.table.lower() == name.lower()
    }
    tests = [
        condition
        for condition in conditions
        if isinstance(condition, exp.Is)
        and isinstance(condition.expression, exp.Null)
        and isinstance(condition.this, exp.Column)
        and condition.this.table.lower() == name.lower()
        and condition.this.name.lower() in never_null
    ]
    rest = [condition for condition in conditions if condition not in tests]
    others = [*rest, *(tree for tree in names.select.expressions)]
    if not tests or any(
        column.table.lower() == name.lower() for tree in others for column in tree.find_all(exp.Column)
    ):
        raise LeftAlone(
            f"LEFT JOIN {name} keeps rows that have no partner: a pattern has TIMED OUT for that, and NOT for "
            f"WHERE {name}.… IS NULL, of a column that ON compares"
        )
    return rest
