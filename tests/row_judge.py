"""What a MATCH_RECOGNIZE clause means, in the most obvious way: try everything, most preferred first.

Written for reading, by the letter of ISO 9075-2 (row pattern recognition). A pattern is tried at a row in the order of
preference that the standard gives: alternatives from left to right, a greedy loop goes on before it ends, and a
reluctant one ends before it goes on. The first try that gets to the end of the pattern is the match. Nothing is
remembered between tries, so the time can be exponential.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

Row = Mapping[str, Any]

# ---- patterns -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variable:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Empty:
    def __str__(self) -> str:
        return "()"


@dataclass(frozen=True)
class Anchor:
    sign: str  # ^ or $

    def __str__(self) -> str:
        return self.sign


@dataclass(frozen=True)
class Concat:
    parts: tuple[Pattern, ...]

    def __str__(self) -> str:
        return " ".join(map(_grouped, self.parts))


@dataclass(frozen=True)
class Either:
    parts: tuple[Pattern, ...]

    def __str__(self) -> str:
        return " | ".join(map(_grouped, self.parts))


@dataclass(frozen=True)
class Permute:
    parts: tuple[Pattern, ...]

    def __str__(self) -> str:
        return f"PERMUTE({', '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Exclude:
    part: Pattern

    def __str__(self) -> str:
        return f"{{- {self.part} -}}"


@dataclass(frozen=True)
class Repeat:
    part: Pattern
    low: int
    high: int | None
    greedy: bool = True

    def __str__(self) -> str:
        signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        default = f"{{{self.low},{'' if self.high is None else self.high}}}"
        return f"{_grouped(self.part)}{signs.get((self.low, self.high), default)}{'' if self.greedy else '?'}"


Pattern = Variable | Empty | Anchor | Concat | Either | Permute | Exclude | Repeat


def _grouped(part: Pattern) -> str:
    alone = isinstance(part, Variable | Empty | Anchor | Permute | Exclude)
    return str(part) if alone else f"({part})"


# ---- expressions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """Of one row."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Literal:
    value: Any

    def __str__(self) -> str:
        return "NULL" if self.value is None else repr(self.value)


@dataclass(frozen=True)
class At:
    """A column of the FIRST or LAST row of a variable (of the match, if there is none), `offset` rows of that variable
    further in, and then `step` rows of the partition on. `B.price` is the last row of B, `price` that of the match."""

    column: str
    variable: str | None = None
    first: bool = False
    offset: int = 0
    step: int = 0
    final: bool | None = None

    def __str__(self) -> str:
        text = self.column if self.variable is None else f"{self.variable}.{self.column}"
        if self.first or self.offset or self.final is not None:
            offset = f", {self.offset}" if self.offset else ""
            text = f"{_semantics(self.final)}{'FIRST' if self.first else 'LAST'}({text}{offset})"
        return f"{'NEXT' if self.step > 0 else 'PREV'}({text}, {abs(self.step)})" if self.step else text


@dataclass(frozen=True)
class Aggregate:
    """Over the rows of a variable (of the match, if there is none). Without a column, of the rows themselves."""

    function: str
    column: str | None
    variable: str | None = None
    final: bool | None = None
    distinct: bool = False

    def __str__(self) -> str:
        prefix = "" if self.variable is None else f"{self.variable}."
        distinct = "DISTINCT " if self.distinct else ""
        return f"{_semantics(self.final)}{self.function}({distinct}{prefix}{self.column or '*'})"


@dataclass(frozen=True)
class Classifier:
    """The variable of such a row, or of one some rows from there; there is none outside of the match."""

    variable: str | None = None
    first: bool = False
    final: bool | None = None
    step: int = 0

    def __str__(self) -> str:
        text = f"CLASSIFIER({self.variable or ''})"
        if self.first or self.final is not None:
            text = f"{_semantics(self.final)}{'FIRST' if self.first else 'LAST'}({text})"
        return f"{'NEXT' if self.step > 0 else 'PREV'}({text}, {abs(self.step)})" if self.step else text


@dataclass(frozen=True)
class MatchNumber:
    def __str__(self) -> str:
        return "MATCH_NUMBER()"


@dataclass(frozen=True)
class Operation:
    """An operator of two sides: + - * = <> < <= > >= AND OR."""

    left: Expression
    sign: str
    right: Expression

    def __str__(self) -> str:
        return f"({self.left} {self.sign} {self.right})"


@dataclass(frozen=True)
class Not:
    part: Expression

    def __str__(self) -> str:
        return f"(NOT {self.part})"


@dataclass(frozen=True)
class IsNull:
    part: Expression

    def __str__(self) -> str:
        return f"({self.part} IS NULL)"


Expression = Literal | At | Aggregate | Classifier | MatchNumber | Operation | Not | IsNull


def _semantics(final: bool | None) -> str:
    return "" if final is None else "FINAL " if final else "RUNNING "


# ---- the clause ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clause:
    pattern: Pattern
    define: Mapping[str, Expression] = field(default_factory=dict)
    measures: Mapping[str, Expression] = field(default_factory=dict)
    subsets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rows: str = "ONE ROW PER MATCH"
    skip: str = "PAST LAST ROW"
    within: tuple[str, int] | None = None  # a column, and how much less than this apart first and last must be


class SkipError(Exception):
    """AFTER MATCH SKIP goes to a variable without rows, or to where the match began."""


@dataclass(frozen=True)
class Mapped:
    """A row of a match: its number in the partition, its variable, and whether it is excluded from the output."""

    row: int
    variable: str
    excluded: bool = False


Trail = tuple[Mapped, ...]


def answer(clause: Clause, rows: Sequence[Row], starts: int | None = None) -> list[dict[str, Any]]:
    """What the clause gives for one partition, in order. A row of the input, where one is shown, is under `row`.
    `starts` is where the starts of matches end, if that is not at the end of the rows."""
    found: list[dict[str, Any]] = []
    at, number, seen = 0, 0, -1  # `seen`: the last row that is part of a match
    one = clause.rows.startswith("ONE")
    while at < (len(rows) if starts is None else starts):
        trail = first_match(clause, rows, at, number + 1)
        if trail is None:
            if "UNMATCHED" in clause.rows and at > seen:
                found.append({"row": at, **dict.fromkeys(clause.measures)})
            at += 1
            continue
        number += 1
        scope = Scope(clause, rows, trail, trail, number)
        if one:
            found.append({name: value_of(each, scope, running=False) for name, each in clause.measures.items()})
        elif not trail and "OMIT EMPTY" not in clause.rows:
            found.append({"row": at, **{name: value_of(each, scope) for name, each in clause.measures.items()}})
        else:
            for place, mapped in enumerate(trail):
                if not mapped.excluded:
                    here = replace(scope, running=trail[: place + 1])
                    values = {name: value_of(each, here) for name, each in clause.measures.items()}
                    found.append({"row": mapped.row, **values})
        seen = max(seen, trail[-1].row if trail else at)
        at = _next_start(clause, trail, at)
    return found


def _next_start(clause: Clause, trail: Trail, start: int) -> int:
    if not trail or clause.skip == "TO NEXT ROW":
        return start + 1
    if clause.skip == "PAST LAST ROW":
        return trail[-1].row + 1
    *words, variable = clause.skip.split()
    names = clause.subsets.get(variable, (variable,))
    places = [mapped.row for mapped in trail if mapped.variable in names]
    if not places:
        raise SkipError(f"no row of {variable}")
    target = places[0] if "FIRST" in words else places[-1]
    if target == start:
        raise SkipError("the match would be found again")
    return target


def first_match(clause: Clause, rows: Sequence[Row], start: int, number: int) -> Trail | None:
    """The most preferred way to match from this row on; None if there is none."""
    for trail in _ways(clause, rows, clause.pattern, start, (), number, False):
        if clause.within and trail:
            column, length = clause.within
            if rows[trail[-1].row][column] - rows[start][column] >= length:
                continue
        return trail
    return None


def _ways(
    clause: Clause, rows: Sequence[Row], pattern: Pattern, start: int, trail: Trail, number: int, excluded: bool
) -> Iterator[Trail]:
    """All ways to match `pattern` behind `trail`, the most preferred first."""
    here = start + len(trail)

    def ways(part: Pattern, trail: Trail) -> Iterator[Trail]:
        return _ways(clause, rows, part, start, trail, number, excluded)

    match pattern:
        case Empty():
            yield trail
        case Anchor(sign):
            if here == (0 if sign == "^" else len(rows)):
                yield trail
        case Variable(name):
            if here < len(rows):
                longer = (*trail, Mapped(here, name, excluded))
                scope = Scope(clause, rows, longer, longer, number)
                if name not in clause.define or value_of(clause.define[name], scope) is True:
                    yield longer
        case Concat(parts):
            if not parts:
                yield trail
            else:
                for longer in ways(parts[0], trail):
                    yield from ways(Concat(parts[1:]), longer)
        case Either(parts):
            for part in parts:
                yield from ways(part, trail)
        case Permute(parts):
            for order in permutations(parts):
                yield from ways(Concat(order), trail)
        case Exclude(part):
            yield from _ways(clause, rows, part, start, trail, number, True)
        case Repeat(part, low, high, greedy):
            if high == 0:
                yield trail
                return
            rest = Repeat(part, max(low - 1, 0), None if high is None else high - 1, greedy)
            if low == 0 and not greedy:
                yield trail
            for longer in ways(part, trail):
                if longer == trail and low == 0 and high is None:
                    yield trail  # an endless loop that takes no row ends
                else:
                    yield from ways(rest, longer)
            if low == 0 and greedy:
                yield trail


# ---- values -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scope:
    """From where an expression looks at a match: all of it, and what of it has been mapped so far."""

    clause: Clause
    rows: Sequence[Row]
    running: Trail
    whole: Trail
    number: int

    def of(self, variable: str | None, final: bool) -> list[Mapped]:
        trail = self.whole if final else self.running
        names = None if variable is None else self.clause.subsets.get(variable, (variable,))
        return [mapped for mapped in trail if names is None or mapped.variable in names]


def value_of(expression: Expression, scope: Scope, running: bool = True) -> Any:
    """The value; NULL is None. Without a word for it, semantics is RUNNING, or FINAL for one row a match."""

    def value(part: Expression) -> Any:
        return value_of(part, scope, running)

    def final(word: bool | None) -> bool:
        return not running if word is None else word

    match expression:
        case Literal(constant):
            return constant
        case MatchNumber():
            return scope.number
        case At(column, variable, first, offset, step, word):
            places = scope.of(variable, final(word))
            if offset >= len(places):
                return None
            row = (places[offset] if first else places[-1 - offset]).row + step
            return scope.rows[row][column] if 0 <= row < len(scope.rows) else None
        case Classifier(variable, first, word, step):
            places = scope.of(variable, final(word))
            wanted = places[0 if first else -1].row + step if places else None
            return next((mapped.variable for mapped in scope.whole if mapped.row == wanted), None)
        case Aggregate(function, name, variable, word, distinct):
            places = scope.of(variable, final(word))
            values = [1 if name is None else scope.rows[mapped.row][name] for mapped in places]
            there = [each for each in values if each is not None]
            return _aggregated(function, list(dict.fromkeys(there)) if distinct else there)
        case IsNull(part):
            return value(part) is None
        case Not(part):
            truth = value(part)
            return None if truth is None else not truth
        case Operation(left, sign, right):
            return _operated(value(left), sign, value(right))


def _aggregated(function: str, values: list[Any]) -> Any:
    match function:
        case "count":
            return len(values)
        case "array_agg":
            return values
    if not values:
        return None
    match function:
        case "sum":
            return sum(values)
        case "avg":
            return sum(values) / len(values)
        case "min":
            return min(values)
        case "max":
            return max(values)
    raise AssertionError(function)


def _operated(left: Any, sign: str, right: Any) -> Any:
    if sign == "AND":
        return False if left is False or right is False else None if left is None or right is None else True
    if sign == "OR":
        return True if left is True or right is True else None if left is None or right is None else False
    if left is None or right is None:
        return None
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "=":
            return left == right
        case "<>":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
    raise AssertionError(sign)


def text_of(clause: Clause, table: str, by: Sequence[str], order: Sequence[str]) -> str:
    """The clause in SQL."""
    lines = [f"SELECT * FROM {table} MATCH_RECOGNIZE ("]
    lines += [f"  PARTITION BY {', '.join(by)}"] if by else []
    lines += [f"  ORDER BY {', '.join(order)}"] if order else []
    if clause.measures:
        lines.append("  MEASURES " + ", ".join(f"{each} AS {name}" for name, each in clause.measures.items()))
    lines += [f"  {clause.rows}", f"  AFTER MATCH SKIP {clause.skip}", f"  PATTERN ({clause.pattern})"]
    if clause.within:
        lines.append(f"  WITHIN {clause.within[1]}")
    if clause.subsets:
        subsets = ", ".join(f"{name} = ({', '.join(names)})" for name, names in clause.subsets.items())
        lines.append(f"  SUBSET {subsets}")
    if clause.define:
        lines.append("  DEFINE " + ", ".join(f"{name} AS {each}" for name, each in clause.define.items()))
    return "\n".join([*lines, ")"])
