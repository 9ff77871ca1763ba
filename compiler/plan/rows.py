"""A bound MATCH_RECOGNIZE clause → what Spark computes, what the kernel walks, and what is looked up in a match.

Spark computes everything about single rows, and for each variable whether a row may be mapped to it. The kernel finds
the matches, and looks up the values that the measures ask for at rows of a match. Spark then evaluates the measures
over these.

The values of neighbours, by PREV and NEXT, come from the worker that runs the kernel, which also sorts the rows: it
looks them up, and decides the conditions that compare and add up values of a row and its neighbours. What else a
condition may make of them is Spark's to compute: then it sorts, and window functions over the same order give them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial, reduce
from typing import Literal, TypeVar

from sqlglot import exp

from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.durations import UNITS, microseconds
from sase.compiler.core.errors import Diagnostic, OptionError, SaseError, Span
from sase.compiler.core.rows import Address, At, Classifier, MatchNumber, Over, RowClause, Shown, Skip, Window
from sase.compiler.core.scalars import column_sql, conjunction, sql, unparenthesised
from sase.compiler.plan.automaton import ACCEPT, Automaton, TooLarge, automaton
from sase.compiler.plan.separate import COMPARISONS

T = TypeVar("T")

PREFIX = "_sase_"
"""Columns of ours begin with it, and those of the user must not."""


@dataclass(frozen=True)
class Key:
    """A key of ORDER BY; `column` holds it."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Neighbour:
    """A value `step` rows of the partition away."""

    sql: str
    step: int


@dataclass(frozen=True)
class Shift:
    """A column of the row that stands `step` rows further, looked up by the worker."""

    column: str
    step: int


@dataclass(frozen=True)
class LookUp:
    """What a match is asked for: see the classes of these names in the runtime."""

    kind: Literal["At", "Classifier", "Over", "MatchNumber"]
    address: Address = Address(None)
    column: str | None = None
    function: str | None = None
    distinct: bool = False
    step: int = 0
    """Of a Classifier; the columns of other rows are columns of their own."""


@dataclass(frozen=True)
class Constant:
    value: int | str | bool | None
    interval: bool = False
    """A length of time, in microseconds."""


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True)
class Operation:
    sign: str
    parts: tuple[Condition, ...]


Condition = LookUp | Constant | Label | Operation
"""What the kernel tests while it maps rows: it compares, adds and counts, and knows nothing of other functions."""


def parts_of(condition: Condition) -> Iterator[Condition]:
    """The condition itself, and all that it is made of."""
    yield condition
    if isinstance(condition, Operation):
        for part in condition.parts:
            yield from parts_of(part)


def leaves_of(condition: Condition) -> Iterator[LookUp]:
    return (part for part in parts_of(condition) if isinstance(part, LookUp))


@dataclass(frozen=True)
class Output:
    name: str
    sql: str


@dataclass(frozen=True)
class Shifted:
    """What the worker looks up, as it sorts the rows or remembers those of a stream: window functions would want them
    sorted by Spark."""

    shifts: dict[str, Shift]
    meets: dict[str, Condition]
    """For some variables, what a row must also meet, given the rows around it."""


@dataclass(frozen=True)
class RowPlan:
    clause: RowClause
    automaton: Automaton
    computed: dict[str, str]
    """Keys that are no columns."""
    by: tuple[str, ...]
    shown_keys: tuple[str, ...]
    """Keys that are columns, of PARTITION BY and then of ORDER BY: they come first in the output."""
    order: tuple[Key, ...]
    neighbours: dict[str, Neighbour]
    terms: dict[str, str]
    """Values of single rows that are looked up, and are no columns."""
    fills: dict[str, str]
    """For each variable, in the order of the symbol bits, the condition on a single row,"""
    running: dict[str, Condition]
    """and what it must meet beside that, given the rows that were mapped before."""
    look_ups: dict[str, LookUp]
    measures: tuple[Output, ...]
    worker: Shifted | None = None
    """The worker sorts, and looks at neighbours; None if Spark does both."""
    context: int | None = None
    """On a stream: how many rows of a key are looked back to for ever, whatever the window."""
    stuck: bool = False
    """Not the matches are wanted, but what was open when its window ended."""

    @property
    def shown(self) -> Shown:
        return self.clause.shown

    @property
    def skip(self) -> Skip:
        return self.clause.skip

    @property
    def within(self) -> Window | None:
        return self.clause.within

    @property
    def looked_up(self) -> list[LookUp]:
        """What conditions on several rows look up, and then what the measures do."""
        conditions = [*self.running.values(), *(self.worker.meets.values() if self.worker else ())]
        return [*(leaf for each in conditions for leaf in leaves_of(each)), *self.look_ups.values()]


def row_plan(clause: RowClause, text: str, filename: str, stream: bool = False, sort: str = "auto") -> RowPlan:
    try:
        found = automaton(clause.pattern)
    except TooLarge as error:
        raise SaseError([error.diagnostic], text, filename) from None
    if stream:
        planner = _Planner(clause, found, "stream")
        plan = planner.plan()
    else:
        planner, plan = _sorted_by(sort, clause, found)
    if planner.found:
        raise SaseError(planner.found, text, filename)
    return plan


def _sorted_by(sort: str, clause: RowClause, automaton: Automaton) -> tuple[_Planner, RowPlan]:
    """The worker sorts, if that is not forbidden, and if there is an order, in which it finds all neighbours."""
    if sort != "spark" and clause.order:
        planner = _Planner(clause, automaton, "worker")
        plan = planner.plan()
        if not planner.found:
            return planner, plan
    planner = _Planner(clause, automaton, "spark")
    plan = planner.plan()
    if sort == "worker" and not planner.found:
        why = "there is no ORDER BY" if not clause.order else "window functions of Spark give values of other rows"
        raise OptionError(f"sort=worker: {why}, and so Spark sorts")
    return planner, plan


def plan_of(clause: RowClause, automaton: Automaton, found: list[Diagnostic]) -> RowPlan:
    """The plan of a clause whose automaton is known; what is wrong with it is added to `found`."""
    planner = _Planner(clause, automaton, "spark", found=found)
    return planner.plan()


@dataclass
class _Planner:
    clause: RowClause
    automaton: Automaton
    looks: Literal["spark", "worker", "stream"]
    """Who looks at neighbours: window functions, a worker, which may only do what Spark would do, or that of a
    stream, where there is no Spark to do it."""
    computed: dict[str, str] = field(default_factory=dict)
    neighbours: dict[str, Neighbour] = field(default_factory=dict)
    terms: dict[str, str] = field(default_factory=dict)
    look_ups: dict[str, LookUp] = field(default_factory=dict)
    shifts: dict[str, Shift] = field(default_factory=dict)
    apart: bool = False
    """Whether a condition on a row and its neighbours is being taken apart."""
    found: list[Diagnostic] = field(default_factory=list)

    def plan(self) -> RowPlan:
        clause = self.clause
        by = tuple(self._key(each, "key") for each in clause.by)
        order = tuple(
            Key(self._key(each.expression, "order"), each.descending, each.nulls_first) for each in clause.order
        )
        plain = (*by, *(key.column for key in order))
        fills: dict[str, str] = {}
        running: dict[str, Condition] = {}
        meets: dict[str, Condition] = {}
        for name in dict.fromkeys(self.automaton.symbols):
            parts = _parts(clause.define[name]) if name in clause.define else []
            alone = [part for part in parts if _about_one_row(part)]
            if self.looks != "spark":
                looking_back = [part for part in alone if _steps(part)]
                alone = [part for part in alone if not _steps(part)]
                if looking_back:
                    meets[name] = self._meeting(looking_back)
            fills[name] = self._row_sql(conjunction(alone)) if alone else "true"
            rest = [part for part in parts if not _about_one_row(part)]
            if rest:
                running[name] = self._conjunction(rest)
        measures = tuple(Output(measure.name, self._measure(measure.expression)) for measure in clause.measures)
        return RowPlan(
            clause=clause,
            automaton=self.automaton,
            computed=self.computed,
            by=by,
            shown_keys=tuple(dict.fromkeys(name for name in plain if name not in self.computed)),
            order=order,
            neighbours=self.neighbours,
            terms=self.terms,
            fills=fills,
            running=running,
            look_ups=self.look_ups,
            measures=measures,
            worker=None if self.looks == "spark" else Shifted(self.shifts, meets),
            context=context(clause, self.automaton) if self.looks == "stream" else None,
        )

    def _meeting(self, parts: list[exp.Expr]) -> Condition:
        """What a row must meet, given its neighbours. A worker in the place of Spark compares, and adds up: that is
        what it does as Spark would."""
        self.apart = True
        condition = self._conjunction(parts)
        self.apart = False
        if self.looks == "worker":
            operations = [each for each in parts_of(condition) if isinstance(each, Operation)]
            if any(each.sign not in _EXACT for each in operations):
                self._refuse(parts[0])
        return condition

    def _conjunction(self, parts: list[exp.Expr]) -> Condition:
        conditions = tuple(map(self._condition, parts))
        return conditions[0] if len(conditions) == 1 else Operation("AND", conditions)

    def _key(self, expression: exp.Expr, role: str) -> str:
        if (name := _column(expression)) is not None:
            return name
        return _own(self.computed, role, sql(expression))

    # ---- single rows ----------------------------------------------------------------------------

    def _row_sql(self, condition: exp.Expr) -> str:
        """A condition on a single row, and its neighbours."""
        return sql(_replaced(condition, lambda part: self._here(part) if isinstance(part, At) else None))

    def _here(self, part: At) -> exp.Expr:
        """A value of the row at hand."""
        if part.step and self.looks == "spark":
            return _named(self._neighbour(part))
        inner: exp.Expr = part.this.copy()
        return inner if isinstance(inner, exp.Column | exp.Literal | exp.Func | exp.Dot) else exp.Paren(this=inner)

    def _neighbour(self, part: At) -> str:
        if self.looks != "spark":
            return self._shifted(self._term(part.this), part.step)
        role = "before" if part.step < 0 else "after"
        return _own(self.neighbours, role, Neighbour(sql(part.this), part.step))

    def _shifted(self, column: str, step: int) -> str:
        return _own(self.shifts, "before", Shift(column, step)) if step else column

    def _term(self, value: exp.Expr) -> str:
        """The column that holds a value of a single row."""
        if (name := _column(value)) is not None:
            return name
        return _own(self.terms, "term", sql(value))

    # ---- conditions on several rows -------------------------------------------------------------

    def _condition(self, node: exp.Expr) -> Condition:
        """Spark computes what is of one row, at each row; the rest is left to the kernel."""
        node = unparenthesised(node)
        own = [part for part in node.walk() if isinstance(part, At | Over | Classifier | MatchNumber)]
        if not own:
            return self._constant(node)
        # Window functions put the values of neighbours beside those of each row.
        rows = {(part.address, part.step if self.looks != "spark" else 0) for part in own if isinstance(part, At)}
        simple = all(isinstance(part, At) for part in own)
        if len(rows) == 1 and simple:
            ((address, step),) = rows
            alone = (address.current and not step) or (_strict(node) and not (step and self._may_fail(node)))
        else:
            alone = False
        beside = simple and len({address for address, _ in rows}) == 1 and any(step for _, step in rows)
        if self.looks == "worker" and beside and not alone and not self.apart:
            return self._refuse(node)  # Spark would compute it at one row, with its neighbours beside it
        if alone:
            value = _replaced(node, lambda part: self._here(part) if isinstance(part, At) else None)
            return LookUp("At", address, self._shifted(self._term(value), step))
        match node:
            case Over() | Classifier() | MatchNumber():
                return self._looked_up(node)
            case exp.Not() if isinstance(unparenthesised(node.this), exp.Is):
                return Operation("NOT", (self._condition(node.this),))
            case exp.Is(expression=exp.Boolean(this=True)):
                return Operation("IS TRUE", (self._condition(node.this),))
            case exp.Is() if isinstance(node.expression, exp.Null):
                return Operation("IS NULL", (self._condition(node.this),))
            case exp.Not():
                return Operation("NOT", (self._condition(node.this),))
            case exp.Neg():
                return Operation("-", (Constant(0), self._condition(node.this)))
            case exp.Between():
                low, high = self._condition(node.args["low"]), self._condition(node.args["high"])
                between = self._condition(node.this)
                return Operation("AND", (Operation(">=", (between, low)), Operation("<=", (between, high))))
            case exp.In() if node.expressions and not node.args.get("query"):
                equal = [exp.EQ(this=node.this.copy(), expression=each.copy()) for each in node.expressions]
                choices = tuple(map(self._condition, equal))
                return choices[0] if len(choices) == 1 else Operation("OR", choices)
            case exp.Anonymous() if node.expressions and node.name.lower() in _NAMED:
                first, *others = node.expressions
                return self._condition(_NAMED[node.name.lower()](this=first, expressions=others))
            case exp.Abs():
                signed = self._condition(node.this)
                negative = Operation("<", (signed, Constant(0)))
                return Operation("IF", (negative, Operation("-", (Constant(0), signed)), signed))
            case exp.Coalesce():
                return reduce(_first_there, map(self._condition, _arguments(node)))
            case exp.Greatest() | exp.Least():
                sign = ">=" if isinstance(node, exp.Greatest) else "<="
                return reduce(partial(_better, sign), map(self._condition, _arguments(node)))
            case exp.If():
                otherwise = node.args.get("false") or exp.Null()
                return Operation("IF", tuple(map(self._condition, (node.this, node.args["true"], otherwise))))
            case exp.Case():
                return self._condition(_nested(node))
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                left, right = self._condition(node.left), self._condition(node.right)
                none = Operation("AND", tuple(Operation("IS NULL", (each,)) for each in (left, right)))
                same = Operation("OR", (none, Operation("IS TRUE", (Operation("=", (left, right)),))))
                return same if isinstance(node, exp.NullSafeEQ) else Operation("NOT", (same,))
            case exp.EQ() | exp.NEQ() if (labelled := self._labelled(node)) is not None:
                return labelled
            case exp.Binary() if type(node) in _SIGNS:
                return Operation(_SIGNS[type(node)], (self._condition(node.left), self._condition(node.right)))
        return self._refuse(node)

    def _may_fail(self, node: exp.Expr) -> bool:
        """Whether it is not for a worker to ask for it at each row: some have no row that looks at them."""
        return self.looks == "worker" and node.find(exp.Div, exp.Mod, exp.IntDiv, exp.Cast) is not None

    def _labelled(self, node: exp.Binary) -> Operation | None:
        """`CLASSIFIER(…) = 'A'`."""
        sides = unparenthesised(node.left), unparenthesised(node.right)
        for variable, name in (sides, sides[::-1]):
            if isinstance(variable, Classifier) and isinstance(name, exp.Literal) and name.is_string:
                return Operation(_SIGNS[type(node)], (self._looked_up(variable), Label(name.this)))
        return None

    def _constant(self, node: exp.Expr) -> Condition:
        match node:
            case exp.Literal():
                if node.is_string:
                    return self._everywhere(node)
                return Constant(int(node.this) if node.this.isdigit() else str(node.this))
            case exp.Neg():
                return Operation("-", (Constant(0), self._constant(node.this)))
            case exp.Boolean():
                return Constant(bool(node.this))
            case exp.Null():
                return Constant(None)
            case exp.Interval(this=exp.Literal()) if node.text("unit").lower() in UNITS:
                try:
                    length = microseconds(node.this.name, node.text("unit"))
                except ValueError:
                    return self._refuse(node)
                return Constant(int(length), interval=True) if length.denominator == 1 else self._refuse(node)
        return self._everywhere(node)

    def _everywhere(self, node: exp.Expr) -> LookUp:
        """A constant that Spark computes: each row has it."""
        return LookUp("At", Address(None), self._term(node))

    def _refuse(self, node: exp.Expr) -> Condition:
        rows = "rows" if _steps(node) and self.looks == "stream" else "rows of a match"
        self.found.append(
            Diagnostic(
                f"this takes values of several {rows}, and a condition on several rows may only compare and "
                "add: = <> < <= > >= + - * / BETWEEN IN, AND OR NOT, IS NULL, CASE, abs, coalesce, greatest, least, "
                "aggregates",
                place(node, self.clause.span),
                "other functions are for one row: write B.ts - A.ts < INTERVAL '1' DAY for datediff(B.ts, A.ts) < 1",
            )
        )
        return Constant(None)

    # ---- rows of a match ------------------------------------------------------------------------

    def _measure(self, expression: exp.Expr) -> str:
        found = sql(_replaced(expression, self._look_up))
        if self.clause.shown == "all rows and unmatched rows":
            number = column_sql(_own(self.look_ups, "value", LookUp("MatchNumber")))
            return f"IF({number} IS NULL, NULL, {found})"
        return found

    def _look_up(self, part: exp.Expr) -> exp.Expr | None:
        if not isinstance(part, At | Over | Classifier | MatchNumber):
            return None
        return _named(_own(self.look_ups, "value", self._looked_up(part)))

    def _looked_up(self, part: At | Over | Classifier | MatchNumber) -> LookUp:
        match part:
            case At():
                column = self._neighbour(part) if part.step else self._term(part.this)
                return LookUp("At", part.address, column)
            case Over():
                inside = part.args.get("this")
                values = self._term(inside) if inside else None
                return LookUp("Over", part.address, values, part.function, part.distinct)
            case Classifier():
                return LookUp("Classifier", part.address, step=part.step)
            case MatchNumber():
                return LookUp("MatchNumber")


_SIGNS: dict[type[exp.Expr], str] = {
    **COMPARISONS,
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.And: "AND",
    exp.Or: "OR",
}


_EXACT = {*COMPARISONS.values(), "+", "-", "AND", "OR", "NOT", "IS NULL", "IS TRUE"}
"""What the worker does as Spark would, whatever the types."""


_NAMED: dict[str, type[exp.Expr]] = {
    "abs": exp.Abs,
    "coalesce": exp.Coalesce,
    "greatest": exp.Greatest,
    "least": exp.Least,
}
"""Functions of several rows, where a language has names alone."""


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    return [node.this, *node.expressions]


def _first_there(one: Condition, other: Condition) -> Condition:
    """The first of two values, or the other where there is none."""
    return Operation("IF", (Operation("IS NULL", (one,)), other, one))


def _better(sign: str, one: Condition, other: Condition) -> Condition:
    """As Spark has GREATEST and LEAST: a value that is missing is left out."""
    better = Operation("OR", (Operation("IS NULL", (other,)), Operation(sign, (one, other))))
    return Operation("IF", (better, one, other))


def _nested(case: exp.Case) -> exp.Expr:
    """CASE as one IF in another."""
    found: exp.Expr = case.args.get("default") or exp.Null()
    for each in reversed(case.args["ifs"]):
        asked = each.this if case.this is None else exp.EQ(this=case.this.copy(), expression=each.this)
        found = exp.If(this=asked, true=each.args["true"], false=found)
    return found


def _strict(node: exp.Expr) -> bool:
    """Whether this is NULL where a value is: then it may be computed at each row, and is NULL where there is no row."""
    if isinstance(node, At):
        return True
    if type(node) not in _STRICT:
        return False
    return all(_strict(part) for part in node.iter_expressions() if not isinstance(part, exp.DataType | exp.Var))


_STRICT = {*_SIGNS, exp.Mod, exp.IntDiv, exp.DPipe, exp.Like, exp.Cast, exp.Neg, exp.Paren, exp.Literal, exp.Interval}
_STRICT |= {exp.Abs, exp.Upper, exp.Lower, exp.Length, exp.Round, exp.Substring, exp.Trim}
_STRICT -= {exp.And, exp.Or}


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """Of a conjunction."""
    inner = unparenthesised(node)
    return [*_parts(inner.left), *_parts(inner.right)] if isinstance(inner, exp.And) else [inner]


def _about_one_row(node: exp.Expr) -> bool:
    """The row at hand and its neighbours in the partition: whatever was mapped before."""
    for part in node.walk():
        if isinstance(part, Over | Classifier | MatchNumber) or (isinstance(part, At) and not part.address.current):
            return False
    return True


def _own(known: dict[str, T], role: str, value: T) -> str:
    """The name of a column of ours with this value."""
    for name, other in known.items():
        if other == value:
            return name
    name = f"{PREFIX}{role}_{len(known) + 1}"
    known[name] = value
    return name


def _steps(node: exp.Expr) -> bool:
    """Whether it looks at other rows of the partition."""
    return any(isinstance(part, At) and part.step for part in node.walk())


def place(node: exp.Expr, otherwise: Span) -> Span:
    """From the first name in it to the last."""
    places = [part.meta for part in node.walk() if "start" in part.meta]
    spans = [part.meta["span"] for part in node.walk() if "span" in part.meta]
    spans += [Span(each["start"], each["end"] + 1) for each in places]
    return Span(min(each.start for each in spans), max(each.end for each in spans)) if spans else otherwise


def context(clause: RowClause, automaton: Automaton) -> int:
    """How many rows before the first one of a match its values may look at, or must know of: for `^`, and for numbers.

    A condition on the n-th row of a match looks at rows of the match itself, if it looks back less than n rows.
    """
    depth = _depths(automaton)
    needed = 1 if automaton.first != automaton.start else 0
    for name, condition in clause.define.items():
        least = min((depth[at] for at, symbol in enumerate(automaton.symbols) if symbol == name), default=0)
        for part in condition.walk():
            if isinstance(part, At) and part.step < 0:
                needed = max(needed, -part.step - (least if part.address.current else 0))
    for part in (part for measure in clause.measures for part in measure.expression.walk()):
        if isinstance(part, At) and part.step < 0:
            needed = max(needed, -part.step)
    numbered = (*clause.define.values(), *(measure.expression for measure in clause.measures))
    return max(needed, int(any(each.find(MatchNumber) for each in numbered)))


def _depths(automaton: Automaton) -> list[int]:
    """Of each position, how many rows of a match stand before it at least."""
    depth = [len(automaton.symbols)] * len(automaton.symbols)
    waiting, rows = {each for each in (*automaton.start, *automaton.first) if each != ACCEPT}, 0
    while waiting:
        for position in waiting:
            depth[position] = rows
        rows += 1
        waiting = {
            each for position in waiting for each in automaton.follow[position] if each != ACCEPT and depth[each] > rows
        }
    return depth


def _column(node: exp.Expr) -> str | None:
    """The name of a column, if that is all."""
    return node.name if isinstance(node, exp.Column) and not node.table else None


def _named(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _replaced(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy in which nodes of ours are what `change` says. What is inside them is not looked at."""

    def visit(part: exp.Expr) -> exp.Expr:
        changed = change(part)
        return part if changed is None else changed

    return node.copy().transform(visit, copy=False)
