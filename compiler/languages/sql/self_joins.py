"""A SELECT that joins rows of one stream, or of several, in the order of time: its FROM, JOIN and WHERE are a pattern.

They become a bound query, whose matches have a struct for each alias, named as the alias. So all else of the SELECT
stays as it is, on a view of the matches. What is no pattern is left alone, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from sqlglot import exp

from sase.compiler.core import pattern, scalars
from sase.compiler.core.assemble import assemble
from sase.compiler.core.bound import Apart, BoundQuery, Output, TimeKind, Variable, Window
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.durations import DAY, spelled
from sase.compiler.core.errors import CatalogError, SaseError, Span
from sase.compiler.core.orders import Difference, Order, order_of
from sase.compiler.core.schema import attributes
from sase.compiler.core.spans import at
from sase.compiler.core.windows import LONGEST
from sase.compiler.languages.sql.aliases import (
    From,
    FromReader,
    LeftAlone,
    Tables,
    Visible,
    nondeterministic,
    own_nodes,
    short,
)
from sase.compiler.languages.sql.event_types import EventTypes
from sase.compiler.languages.sql.existence import Absent, absences, halves
from sase.compiler.languages.sql.names import Names
from sase.compiler.languages.sql.times import INTEGERS, Bound, bounds


@dataclass(frozen=True)
class SelfJoin:
    """The pattern of a SELECT, what its events are read by, and the SELECT that is left over its matches."""

    query: BoundQuery
    reads: Mapping[str, exp.Query]
    """By event type."""
    rest: exp.Select
    steady: bool
    """Whether it is right only where clocks never change."""


def is_candidate(select: exp.Select) -> bool:
    """Whether it joins tables, or asks for the absence of rows: without this, nothing is said of it."""
    joined = len(select.args.get("joins") or ()) > 0
    where = select.args.get("where")
    asks = where is not None and any(isinstance(node, exp.Exists) for node in own_nodes(where.this))
    compares = any(
        isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.Between)
        and len({column.sql() for column in node.find_all(exp.Column)}) > 1
        for node in select.walk()
    )
    return isinstance(select.args.get("from_"), exp.From) and (joined or asks) and compares


def self_join(select: exp.Select, marker: str, filename: str, tables: Tables, visible: Visible) -> SelfJoin:
    """Raises LeftAlone. `marker` is the name of the view."""
    return _Lowering(select, marker, filename, tables, visible).lower()


@dataclass(frozen=True)
class _Part:
    """A condition that AND joins with others."""

    condition: exp.Expr
    bounds: tuple[Bound, ...]


class _Lowering:
    def __init__(self, select: exp.Select, marker: str, filename: str, tables: Tables, visible: Visible) -> None:
        self.marker, self.filename, self.tables = marker, filename, tables
        self.text = scalars.sql(select)
        self.span = Span(0, max(len(self.text), 1))
        self.source: From = FromReader(select, tables, visible).read()
        self.select = select.copy()
        self.visible = visible
        self.names = Names(self.select, self.source, tables, [name for name, _ in self.outputs(select, visible)])
        self.steady = False
        self.times: dict[str, str] = {}
        """Of each alias, the column that is its time."""

    def outputs(self, select: exp.Select, visible: Visible) -> Iterator[tuple[str, str]]:
        """The columns that the SELECT has by itself: it must be one that Spark can run."""
        alone = select.copy()
        seen = visible(select, alone)
        if seen:
            alone.set("with_", exp.With(expressions=seen))
        for clause in ("order", "limit", "offset", "sort", "cluster", "distribute"):
            alone.set(clause, None)
        columns = self.tables.columns(scalars.sql(alone))
        if columns is None:
            raise LeftAlone("Spark cannot read it by itself: it may speak of a query around it, or be wrong")
        yield from columns

    # ---- the whole ------------------------------------------------------------------------------

    def lower(self) -> SelfJoin:
        self.names.qualify()
        conditions = [*self.source.on]
        where = self.select.args.get("where")
        conditions += scalars.conjuncts(where.this) if where else ()
        for joined in self.source.others:
            self.names.inner[joined.alias.name.lower()] = joined.alias
        conditions = [half for each in conditions for half in halves(self.names.qualified(each))]
        if random := next((each for part in conditions for each in nondeterministic(part)), None):
            raise LeftAlone(f"{short(random)} is another value each time it is asked for")
        absent, conditions = absences(conditions, self.source, self.names, self.tables, self.visible)
        parts = [_Part(each, tuple(bounds(each, self.type_of))) for each in conditions]
        order = self.positive_order(parts, absent)
        chain = order.chain
        groups = [] if chain is None else [each for each in absent if self.placed(each, order, chain)]
        rest = [each for each in absent if each not in groups]
        if len(order.names) == 1 and not groups:
            raise LeftAlone(self.no_interval(absent[0]) if absent else "one table alone is no sequence")
        return self.bound(parts, order, groups, [each.condition for each in rest])

    def no_interval(self, absent: Absent) -> str:
        return (
            f"the time in which no row of {absent.alias.name} may be, or one must be, is none between two neighbours, "
            "nor a length of time before the first row or after the last"
        )

    def type_of(self, column: exp.Column) -> str | None:
        alias = self.names.alias(column.table)
        return None if alias is None or column.args.get("db") else alias.type_of(column.name)

    # ---- time -----------------------------------------------------------------------------------

    def positive_order(self, parts: list[_Part], absent: list[Absent]) -> Order:
        """Chooses the times, and says what follows from their bounds."""
        names = [alias.name for alias in self.source.aliases.values()]
        stated = [bound for part in parts for bound in part.bounds]
        also = [bound for each in absent for bound in each.bounds(self.type_of)] if len(names) == 1 else []
        found: list[tuple[bool, int, dict[str, str], Order]] = []
        for columns in _components([*stated, *also]):
            of = {name: column for name, column in columns if name in names}
            if len(of) < len(names) or len([name for name, _ in columns if name in names]) > len(of):
                continue
            kinds = {self.source.aliases[name.lower()].type_of(column) for name, column in of.items()}
            if len({kind if kind not in INTEGERS else "bigint" for kind in kinds}) > 1:
                continue
            order = self.strictly(parts, of, order_of(names, self.differences(stated, of)))
            rank = ("timestamp", "timestamp_ntz", "date").index(kind) if (kind := kinds.pop()) not in INTEGERS else 3
            loose = order.unbounded() is not None or not (len(names) > 1 or self.bounds_some(absent, columns))
            found.append((loose, rank, of, order))
        if not found:
            raise LeftAlone(self.no_order(names, stated))
        _, _, self.times, order = min(found, key=lambda each: each[:2])
        if not order.is_possible:
            raise LeftAlone("its conditions on times contradict each other, so that it has no rows")
        if (pair := order.unbounded()) is not None:
            raise LeftAlone(
                f"nothing bounds the time between {pair[0]} and {pair[1]}, so that every such pair is in the answer: "
                "there is no window to save work by"
            )
        if order.reach() > LONGEST[self.kind]:
            raise LeftAlone("the time between its rows has no bound that one could reach")
        return order

    def bounds_some(self, absent: list[Absent], columns: Iterable[tuple[str, str]]) -> bool:
        """Whether these times say how far some row that may not be there is from the only one that is."""
        of = dict(columns)
        (alias,) = self.source.aliases.values()
        pairs = ((each, (alias.name, each.alias.name)) for each in absent)
        return any(
            order_of(pair, self.differences(each.bounds(self.type_of), of)).unbounded() is None for each, pair in pairs
        )

    def no_order(self, names: list[str], stated: list[Bound]) -> str:
        if not stated:
            return f"no condition compares times of {_listed(names)}: there is no order between them"
        tied = {name for bound in stated for name, _ in (bound.earlier, bound.later)}
        if loose := [name for name in names if name not in tied]:
            others = _listed([each for each in names if each != loose[0]])
            return f"no condition compares a time of {loose[0]} with one of {others}"
        return f"the conditions on times of {_listed(names)} are not about one time of each, of one type"

    @property
    def kind(self) -> TimeKind:
        name, column = next(iter(self.times.items()))
        return "integer" if self.source.aliases[name.lower()].type_of(column) in INTEGERS else "timestamp"

    def differences(self, stated: Iterable[Bound], of: Mapping[str, str]) -> Iterator[Difference]:
        for bound in stated:
            if all(of.get(name) == column for name, column in (bound.earlier, bound.later)):
                yield bound.earlier[0], bound.later[0], bound.ticks

    def strictly(self, parts: list[_Part], of: Mapping[str, str], order: Order) -> Order:
        """`a.ts <> b.ts` makes a strict order of `a.ts <= b.ts`."""
        more = []
        for part in parts:
            match part.condition:
                case exp.NEQ(this=exp.Column() as one, expression=exp.Column() as other):
                    if of.get(one.table) == one.name and of.get(other.table) == other.name:
                        for early, late in ((one.table, other.table), (other.table, one.table)):
                            if order.most.get((late, early)) == 0:
                                more.append((late, early, 0))
        if not more:
            return order
        known = [(earlier, later, most + 1) for (earlier, later), most in order.most.items()]
        return order_of(order.names, [*known, *more])

    def placed(self, absent: Absent, order: Order, chain: tuple[str, ...]) -> bool:
        """Whether the interval of what may not be there is one of a sequence; if so, notes its place."""
        name = absent.alias.name
        ends = [(bound.earlier, bound.later) for bound in absent.bounds(self.type_of)]
        columns = {
            column
            for one, other in (*ends, *(pair[::-1] for pair in ends))
            for each, column in (one,)
            if each == name and self.times.get(other[0]) == other[1]
        }
        of = {**self.times, name: next(iter(columns), "")}
        if len(columns) != 1 or not absent.is_taken(self.takes):
            return False
        kinds = [
            "bigint" if (kind := alias.type_of(of[alias.name])) in INTEGERS else kind
            for alias in (*self.source.aliases.values(), absent.alias)
        ]
        if len(set(kinds)) > 1:
            return False
        known = [(earlier, later, most + 1) for (earlier, later), most in order.most.items()]
        stated = list(self.differences(absent.bounds(self.type_of), of))
        whole = order_of((*chain, name), [*known, *stated])
        earlier = [each for each in chain if whole.before(each, name)]
        later = [each for each in chain if whole.before(name, each)]
        if not whole.is_possible or len(earlier) + len(later) < len(chain) or earlier != list(chain[: len(earlier)]):
            return False
        if not earlier and (name, chain[-1]) not in whole.most:
            return False
        if not later and (chain[0], name) not in whole.most:
            return False
        absent.place(len(earlier), whole, of)
        return True

    # ---- the bound query ------------------------------------------------------------------------

    def bound(self, parts: list[_Part], order: Order, groups: list[Absent], kept: list[exp.Expr]) -> SelfJoin:
        chain = order.chain
        ticks = max([order.reach(), *(each.reach(chain) for each in groups if chain)])
        if ticks > LONGEST[self.kind]:
            raise LeftAlone("the time between its rows has no bound that one could reach")
        within = Window(ticks, spelled(ticks) if self.kind == "timestamp" else str(ticks))
        taken, apart = list[exp.Expr](), list[Apart]()
        for part in parts:
            mine = [each for each in part.bounds if self.is_of_time(each)]
            for each in mine:
                self.use(each)
            if mine and len(mine) == len(part.bounds) and all(each.exact for each in mine):
                for each in mine:
                    difference = (each.earlier[0], each.later[0], each.ticks)
                    if chain is None:
                        apart.append(Apart(*difference))
                    elif not _implied(chain, within).implies(difference):
                        taken.append(self.condition(each))
            elif self.is_strictness(part, order):
                if chain is None:
                    taken.append(part.condition)
            elif self.takes(part.condition):
                if chain is None:
                    apart += [Apart(each.earlier[0], each.later[0], each.ticks) for each in mine]
                taken.append(part.condition)
            else:
                kept.append(part.condition)
        for absent in groups:
            for bound in absent.bounds(self.type_of):
                if absent.is_of_time(bound):
                    self.use(bound)
            taken += absent.conditions(chain or (), within, self.type_of, self.condition)
        rest = self.rest(kept)
        types = self.types(order, parts, taken, groups, rest)
        returns = [*self.structs(rest)]
        if len(order.names) == 1 and all(each.negated for each in groups):
            self.keep_timeless(rest, taken, returns[0])
        try:
            query = self.assembled(types, order, groups, taken, apart, within, returns)
        except SaseError as error:
            raise LeftAlone(error.diagnostics[0].message) from None
        except CatalogError as error:
            raise LeftAlone(str(error)) from None
        some = frozenset(each.alias.name for each in groups if not each.negated)
        query = replace(query, whole=True, one_per=self.one_per(rest), some=some)
        return SelfJoin(query, types.reads(), rest, self.steady)

    def one_per(self, rest: exp.Select) -> str | None:
        """The alias that SELECT DISTINCT tells of, if there is one, and nothing else is asked of the matches."""
        distinct = rest.args.get("distinct")
        only = {"expressions", "distinct", "from_", "with_", "kind", "order", "limit", "offset"}
        if (
            distinct is None
            or distinct.args.get("on")
            or any(rest.args[name] for name in rest.args if name not in only)
        ):
            return None
        if any(isinstance(node, exp.AggFunc | exp.Window) for node in rest.walk()) or any(nondeterministic(rest)):
            return None
        owners = [self.names.owner(column)[0] for column in rest.find_all(exp.Column)]
        named = {None if owner is None else owner.name for owner in owners}
        return named.pop() if len(named) == 1 else None

    def is_of_time(self, bound: Bound) -> bool:
        return all(self.times.get(name) == column for name, column in (bound.earlier, bound.later))

    def use(self, bound: Bound) -> None:
        """A bound that holds only where clocks never change is right in such a session alone."""
        if not bound.steady:
            return
        if not self.tables.steady:
            raise LeftAlone(
                "the session's clocks change with summer time, and differences of its timestamps and lengths of days "
                "are those of local clocks: set spark.sql.session.timeZone to UTC, or write b.ts < a.ts + INTERVAL"
            )
        self.steady = True

    def is_strictness(self, part: _Part, order: Order) -> bool:
        """`a.ts <> b.ts`, of two rows that have a strict order."""
        match part.condition:
            case exp.NEQ(this=exp.Column() as one, expression=exp.Column() as other):
                times = self.times.get(one.table) == one.name and self.times.get(other.table) == other.name
                return times and (order.before(one.table, other.table) or order.before(other.table, one.table))
        return False

    def condition(self, bound: Bound) -> exp.Expr:
        """The bound in a form that comes apart into terms of the two rows."""
        early, late = (exp.column(column, table=name) for name, column in (bound.earlier, bound.later))
        kind = self.type_of(early)
        if kind in INTEGERS:
            inclusive, length = False, bound.ticks
        elif kind == "date":
            inclusive, length = True, (bound.ticks - 1) // DAY
        else:
            inclusive = (bound.ticks - 1) % 1_000 == 0
            length = bound.ticks - 1 if inclusive else bound.ticks
        sign = exp.Add if length > 0 else exp.Sub
        number = exp.Literal.number(abs(length))
        if length == 0:
            moved: exp.Expr = early
        elif kind in INTEGERS:
            moved = sign(this=early, expression=number)
        elif kind == "date":
            days = number if length > 0 else exp.Neg(this=number)
            moved = exp.Anonymous(this="date_add", expressions=[early, days])
        else:
            seconds = f"{abs(length) // 1_000_000}.{abs(length) % 1_000_000:06d}".rstrip("0").rstrip(".")
            interval = exp.Interval(this=exp.Literal.string(seconds), unit=exp.Var(this="SECOND"))
            moved = sign(this=early, expression=interval)
        return (exp.LTE if inclusive else exp.LT)(this=late, expression=moved)

    def takes(self, condition: exp.Expr) -> bool:
        """Whether the core can evaluate it: what it cannot, Spark does on the matches."""
        strange = (exp.Query, exp.AggFunc, exp.Window, exp.Star, exp.Dot, exp.Bracket, exp.Lambda, exp.Placeholder)
        if any(isinstance(node, strange) for node in condition.walk()):
            return False
        columns = list(condition.find_all(exp.Column))
        if not columns or any(self.type_of(column) is None for column in columns):
            return False
        mistakes: list[object] = []
        scalars.check_condition(self.typed(condition), mistakes)  # type: ignore[arg-type]
        return not mistakes

    def typed(self, condition: exp.Expr) -> exp.Expr:
        """A copy whose columns have types, and a place."""

        def visit(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            alias = self.names.alias(node.table)
            assert alias is not None
            name, kind = alias.columns[node.name.lower()]
            column = exp.Column(
                this=exp.Identifier(this=name, quoted=True), table=exp.Identifier(this=alias.name, quoted=True)
            )
            column.type = scalars.data_type(kind)
            return at(column, self.span)

        return at(condition.transform(visit, copy=True), self.span)

    def types(
        self, order: Order, parts: list[_Part], taken: list[exp.Expr], groups: list[Absent], rest: exp.Select
    ) -> EventTypes:
        types = EventTypes(self.names)
        different = [part.condition for part in parts]
        for alias in self.source.aliases.values():
            others = [each for each in self.source.aliases.values() if each is not alias]
            alone = [each.name for each in others if not self.are_two(alias.name, each.name, order, different)]
            types.add(alias, self.times[alias.name], alone)
        for absent in groups:
            types.add(absent.alias, absent.time, [])
        types.use([*taken, rest])
        return types

    def are_two(self, one: str, other: str, order: Order, conditions: list[exp.Expr]) -> bool:
        """Whether no row can stand for both aliases: a pattern binds different events, and a join any rows."""
        if order.before(one, other) or order.before(other, one):
            return True
        constants: dict[tuple[str, str], str | int] = {}
        for condition in conditions:
            match condition:
                case exp.NEQ() | exp.LT() | exp.GT() if _same_column(condition, one, other):
                    return True
                case exp.EQ(this=exp.Column() as column, expression=exp.Literal() as literal):
                    kind = self.type_of(column)
                    if literal.is_string and kind == "string":  # else '1' may be 1, and 1.0 as well
                        constants[column.table, column.name.lower()] = literal.name
                    elif literal.is_int and kind in INTEGERS:
                        constants[column.table, column.name.lower()] = int(literal.name)
        return any(
            constants.get((other, column), value) != value for (name, column), value in constants.items() if name == one
        )

    def assembled(
        self,
        types: EventTypes,
        order: Order,
        groups: list[Absent],
        taken: list[exp.Expr],
        apart: list[Apart],
        within: Window,
        returns: list[Output],
    ) -> BoundQuery:
        catalog = types.catalog
        kind = next(iter(self.times.items()))
        time = scalars.data_type(str(self.type_of(exp.column(kind[1], table=kind[0]))))
        found: list[object] = []
        variables = [
            Variable(
                name, (kind,), name not in order.names, attributes((kind,), catalog, time, self.span, []), self.span
            )
            for name in (*(order.chain or order.names), *(each.alias.name for each in groups))
            for kind in (types.of[name],)
        ]
        if order.chain is not None:
            steps: list[pattern.Pattern] = []
            for number in range(len(order.chain) + 1):
                steps += [each.step(self.span) for each in groups if each.after == number]
                steps += [pattern.Leaf(name, self.span) for name in order.chain[number : number + 1]]
            shapes = pattern.lower(pattern.Seq(tuple(steps), self.span))
        else:
            shapes = (pattern.Shape(order.names, order.strict),)
        return assemble(
            self.text,
            self.filename,
            catalog,
            stream=None,
            span=self.span,
            time_kind=self.kind,
            variables=variables,
            shapes=shapes,
            where=[self.typed(part) for part in taken],
            within=within,
            returns=returns,
            composite=None,
            timed=False,
            found=found,  # type: ignore[arg-type]
            apart=tuple(apart),
        )

    def structs(self, rest: exp.Select) -> Iterator[Output]:
        """A struct for each alias that the rest speaks of, with the columns that it asks for."""
        asked = {alias.name: dict[str, None]() for alias in self.source.aliases.values()}
        for column in rest.find_all(exp.Column):
            alias, name = self.names.owner(column)
            if alias is not None and alias.name in asked:
                asked[alias.name][alias.columns[name.lower()][0]] = None
        if not any(asked.values()):
            first = next(iter(asked))
            asked[first][self.times[first]] = None  # a match must have a column
        for name, columns in asked.items():
            if not columns:
                continue
            fields = [
                field
                for each in columns
                for field in (exp.Literal.string(each), self.typed(exp.column(each, table=name)))
            ]
            struct = at(exp.Anonymous(this="named_struct", expressions=fields), self.span)
            yield Output(name, struct, self.span)

    def keep_timeless(self, rest: exp.Select, taken: list[exp.Expr], output: Output) -> None:
        """A row without a time is no event, and yet one that nothing follows: it is added to the matches."""
        (alias,) = self.source.aliases.values()
        name, struct = output.name, output.value.copy()
        own = [part for part in taken if scalars.variables(part) == {alias.name}]
        timeless = exp.Is(this=exp.column(self.times[alias.name], table=alias.name), expression=exp.Null())
        rows = alias.reads.copy()
        assert isinstance(rows, exp.Select)
        rows.set("with_", None)  # they are those of the statement around it
        rows.args["from_"].this.set("alias", exp.TableAlias(this=exp.to_identifier(alias.name)))
        rows.set("expressions", [exp.alias_(struct, name, quoted=True)])
        rows.set("where", exp.Where(this=scalars.conjunction([timeless, *own])))
        matches = exp.select(exp.column(name, quoted=True)).from_(exp.Table(this=exp.to_identifier(self.marker)))
        both = exp.Union(this=matches, expression=rows, distinct=False)
        rest.set("from_", exp.From(this=exp.Subquery(this=both)))

    def rest(self, kept: list[exp.Expr]) -> exp.Select:
        rest = self.select
        rest.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(self.marker))))
        for clause in ("joins", "where", "hint"):
            rest.set(clause, None)
        if kept:
            rest.set("where", exp.Where(this=scalars.conjunction(kept)))
        return rest


def _components(stated: Iterable[Bound]) -> list[set[tuple[str, str]]]:
    """Columns that are compared with each other, directly or by way of others."""
    found: list[set[tuple[str, str]]] = []
    for bound in stated:
        ends = {bound.earlier, bound.later}
        touching = [each for each in found if each & ends]
        found = [each for each in found if not each & ends] + [ends.union(*touching)]
    return found


def _implied(chain: tuple[str, ...], within: Window) -> Order:
    """What a sequence says by itself."""
    order = [(later, earlier, 0) for earlier, later in combinations(chain, 2)]
    return order_of(chain, [*order, (chain[0], chain[-1], within.ticks)])


def _same_column(condition: exp.Expr, one: str, other: str) -> bool:
    match condition:
        case exp.Binary(this=exp.Column() as left, expression=exp.Column() as right):
            return {left.table, right.table} == {one, other} and left.name.lower() == right.name.lower()
    return False


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
