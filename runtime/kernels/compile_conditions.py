"""Conditions on several rows → programs for the kernel, once the types of their columns are known.

A value has a *kind*: an exact number with some digits behind the point, which is an integer here; a float; a truth
value; a variable's name; or something that is only compared, such as a text, and becomes its rank. Exact numbers stay
exact: they are brought to the same number of digits before they are compared or added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sase.runtime.kernels import conditions as k
from sase.runtime.kernels import encode
from sase.runtime.kernels.conditions import NO_CONDITIONS, NO_TERMS, Conditions, Ints, Terms
from sase.runtime.kernels.encode import Domain
from sase.runtime.row_pattern import (
    At,
    Classifier,
    Condition,
    Constant,
    Label,
    MatchNumber,
    Operation,
    Over,
    RowPattern,
)

_COMPARISONS = {"=": k.EQ, "!=": k.NE, "<": k.LT, "<=": k.LE, ">": k.GT, ">=": k.GE}
_EXACT = {"+": k.ADD, "-": k.SUBTRACT, "*": k.MULTIPLY}
_REAL = {"+": k.ADD_REAL, "-": k.SUBTRACT_REAL, "*": k.MULTIPLY_REAL, "/": k.DIVIDE_REAL}
_DAY = 86_400_000_000


class Unfit(Exception):
    """Types that do not go together, or that the kernel does not know."""


@dataclass(frozen=True)
class Kind:
    name: str  # exact, real, truth, variable, ranked, null
    digits: int = 0
    columns: tuple[str, ...] = ()  # of what is ranked


_TRUTH, _REAL_KIND, _NULL, _NAME = Kind("truth"), Kind("real"), Kind("null"), Kind("variable")


@dataclass
class Program:
    """The conditions of a pattern for columns of certain types."""

    pattern: RowPattern
    types: dict[str, pa.DataType]
    code: list[tuple[int, int, int]] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)
    addresses: list[tuple[int, int, int, int]] = field(default_factory=list)
    sets: list[tuple[str, ...]] = field(default_factory=list)
    aggregates: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    ranked: list[set[str]] = field(default_factory=list)

    def conditions(self) -> Conditions:
        if not self.pattern.running:
            return NO_CONDITIONS
        places: dict[str, tuple[int, int]] = {}
        for variable, condition in self.pattern.running:
            begin = len(self.code)
            kind = self._value(condition)
            if kind.name not in ("truth", "null"):
                raise Unfit(f"the condition of {variable} is no truth value")
            places[variable] = (begin, len(self.code))
        symbols, variables = self.pattern.symbols, self.pattern.variables

        def table(rows: Iterable[Any], columns: int) -> Ints:
            return np.array(list(rows), np.int64).reshape(-1, columns)

        return Conditions(
            program=table(self.code, 3),
            begins=np.array([places.get(symbol, (0, 0))[0] for symbol in symbols], np.int64),
            ends=np.array([places.get(symbol, (0, 0))[1] for symbol in symbols], np.int64),
            constants=np.array(self.constants, np.int64),
            addresses=table(self.addresses, 4),
            sets=table([[int(symbol in names) for symbol in symbols] for names in self.sets], max(len(symbols), 1)),
            aggregates=table(self.aggregates, 5),
            variable=np.array([variables.index(symbol) for symbol in symbols], np.int64),
        )

    # ---- values ---------------------------------------------------------------------------------

    def _push(self, operation: int, about: int = 0, term: int = 0) -> None:
        self.code.append((operation, about, term))

    def _value(self, condition: Condition) -> Kind:
        match condition:
            case At(column=column):
                kind = _kind(self.types[column], column)
                load = k.LOAD_REAL if kind.name == "real" else k.LOAD
                self._push(load, self._address(condition), _number(self.terms, column))
                return kind
            case Classifier():
                self._push(k.LABEL, self._address(condition), condition.step)
                return _NAME
            case MatchNumber():
                self._push(k.NUMBER)
                return Kind("exact")
            case Constant(value):
                return self._constant(value)
            case Label(name):
                variables = self.pattern.variables
                self._push(k.CONSTANT, _number(self.constants, variables.index(name) if name in variables else -1))
                return _NAME
            case Over():
                return self._aggregate(condition)
            case Operation(sign, parts):
                return self._operation(sign, parts)

    def _constant(self, value: int | str | bool | None) -> Kind:
        if value is None:
            self._push(k.NOTHING)
            return _NULL
        if isinstance(value, bool):
            self._push(k.CONSTANT, _number(self.constants, int(value)))
            return _TRUTH
        if isinstance(value, int):
            self._push(k.CONSTANT, _number(self.constants, _fitting(value)))
            return Kind("exact")
        number = Decimal(value)
        digits = max(0, -int(number.as_tuple().exponent))
        self._push(k.CONSTANT, _number(self.constants, _fitting(int(number.scaleb(digits)))))
        return Kind("exact", digits)

    def _set(self, variables: tuple[str, ...] | None) -> int:
        return -1 if variables is None else _number(self.sets, tuple(sorted(variables)))

    def _address(self, at: At | Classifier) -> int:
        before = int(isinstance(at, At) and at.before)
        return _number(self.addresses, (self._set(at.variables), int(at.first), at.offset, before))

    def _aggregate(self, over: Over) -> Kind:
        group = self._set(over.variables)
        if over.function == "count":
            term = -1 if over.column is None else _number(self.terms, over.column)
            real = int(over.column is not None and _kind(self.types[over.column], over.column).name == "real")
            counted = _number(self.aggregates, (group, k.LEAST, term, real, int(over.distinct)))
            self._push(k.COUNT, counted, int(over.before))
            return Kind("exact")
        if over.function == "array_agg" or over.column is None:
            raise Unfit("a condition does not look into array_agg")
        kind, term = _kind(self.types[over.column], over.column), _number(self.terms, over.column)
        real = kind.name == "real"
        if over.function in ("min", "max"):
            least = k.LEAST if over.function == "min" else k.GREATEST
            self._fold((group, least, term, int(real), 0), over.before)
            return kind
        if kind.name not in ("exact", "real"):
            raise Unfit(f"{over.function}({over.column}) adds up numbers, and these are {self.types[over.column]}")
        aggregate = self._fold((group, k.SUM, term, int(real), int(over.distinct)), over.before)
        if over.function == "sum":
            return kind
        self._as_real(kind)
        self._push(k.COUNT, aggregate, int(over.before))
        self._as_real(Kind("exact"))
        self._push(k.DIVIDE_REAL)
        return _REAL_KIND

    def _fold(self, folded: tuple[int, int, int, int, int], before: bool) -> int:
        aggregate = _number(self.aggregates, folded)
        self._push(k.AGGREGATE_REAL if folded[k.IS_REAL] else k.AGGREGATE, aggregate, int(before))
        return aggregate

    # ---- operators ------------------------------------------------------------------------------

    def _operation(self, sign: str, parts: tuple[Condition, ...]) -> Kind:
        if sign in ("AND", "OR"):
            for at, part in enumerate(parts):
                self._truth(self._value(part), sign)
                if at:
                    self._push(k.AND if sign == "AND" else k.OR)
            return _TRUTH
        if sign == "NOT":
            self._truth(self._value(parts[0]), sign)
            self._push(k.NOT)
            return _TRUTH
        if sign == "IS NULL":
            self._value(parts[0])
            self._push(k.IS_NULL)
            return _TRUTH
        if sign == "IS TRUE":
            self._truth(self._value(parts[0]), sign)
            self._push(k.IS_TRUE)
            return _TRUTH
        if sign == "IF":
            self._truth(self._value(parts[0]), sign)
        begin = len(self.code)
        left = self._value(parts[-2])
        middle = len(self.code)
        right = self._value(parts[-1])
        return (self._choice if sign == "IF" else partial(self._binary, sign))(begin, left, middle, right)

    def _truth(self, kind: Kind, sign: str) -> None:
        if kind.name not in ("truth", "null"):
            raise Unfit(f"{sign} takes truth values")

    def _binary(self, sign: str, begin: int, left: Kind, middle: int, right: Kind) -> Kind:
        first, second = self.code[begin:middle], self.code[middle:]
        del self.code[begin:]
        if "null" in (left.name, right.name):
            left = right = replace(right if left.name == "null" else left)
        if sign in _COMPARISONS and left.name == right.name and left.name not in ("exact", "real"):
            if left.name == "ranked":
                self.ranked.append({*left.columns, *right.columns})
            self.code += [*first, *second, (k.COMPARE, _COMPARISONS[sign], 0)]
            return _TRUTH
        if not {left.name, right.name} <= {"exact", "real"}:
            raise Unfit(f"{sign} does not go with {_words(left)} and {_words(right)}: cast one of them")
        if "real" in (left.name, right.name) or sign == "/":
            self.code += first
            self._as_real(left)
            self.code += second
            self._as_real(right)
            if sign in _COMPARISONS:
                self._push(k.COMPARE_REAL, _COMPARISONS[sign])
                return _TRUTH
            self._push(_REAL[sign])
            return _REAL_KIND
        digits = left.digits + right.digits if sign == "*" else max(left.digits, right.digits)
        for code, kind in ((first, left), (second, right)):
            self.code += code
            if sign != "*":
                self._scaled(kind.digits, digits)
        if sign in _COMPARISONS:
            self._push(k.COMPARE, _COMPARISONS[sign])
            return _TRUTH
        self._push(_EXACT[sign])
        return Kind("exact", digits)

    def _choice(self, begin: int, left: Kind, middle: int, right: Kind) -> Kind:
        """One value or the other, as values of one kind."""
        first, second = self.code[begin:middle], self.code[middle:]
        del self.code[begin:]
        kind = right if left.name == "null" else left
        if kind.name in ("exact", "real") and {left.name, right.name} <= {"exact", "real", "null"}:
            digits = max(left.digits, right.digits)
            kind = _REAL_KIND if "real" in (left.name, right.name) else Kind("exact", digits)
        elif "null" not in (left.name, right.name) and left.name != right.name:
            raise Unfit(f"{_words(left)} and {_words(right)} are no values of one kind: cast one of them")
        elif kind.name == "ranked":
            kind = Kind("ranked", columns=(*left.columns, *right.columns))
            self.ranked.append(set(kind.columns))
        for code, each in ((first, left), (second, right)):
            self.code += code
            if kind.name == "real":
                self._as_real(each)
            elif kind.name == "exact" and each.name == "exact":
                self._scaled(each.digits, kind.digits)
        self._push(k.IF_REAL if kind.name == "real" else k.IF)
        return kind

    def _scaled(self, digits: int, wanted: int) -> None:
        if digits < wanted:
            self._push(k.CONSTANT, _number(self.constants, _fitting(10 ** (wanted - digits))))
            self._push(k.MULTIPLY)

    def _as_real(self, kind: Kind) -> None:
        if kind.name != "real":
            self._push(k.TO_REAL, 0, kind.digits)

    # ---- rows -----------------------------------------------------------------------------------

    def encoded(self, chunk: pa.Table) -> Terms:
        """The columns of a chunk, as the programs read them."""
        if not self.terms:
            return Terms(*(np.zeros((1, chunk.num_rows), table.dtype) for table in NO_TERMS))
        whole = np.zeros((len(self.terms), chunk.num_rows), np.int64)
        real = np.zeros((len(self.terms), chunk.num_rows), np.float64)
        missing = np.zeros((len(self.terms), chunk.num_rows), np.int64)
        ranks = self._ranks(chunk)
        for at, name in enumerate(self.terms):
            column = chunk.column(name)
            missing[at] = column.is_null().to_numpy()
            match _kind(column.type, name).name:
                case "real":
                    real[at] = column.cast(pa.float64()).fill_null(0).to_numpy()
                case "ranked" | "null":
                    whole[at] = ranks.get(name, 0)
                case _:
                    whole[at] = _exact(column)
        return Terms(whole, real, missing, self._same(chunk))

    def _same(self, chunk: pa.Table) -> Ints:
        distinct = {each[k.TERM] for each in self.aggregates if each[k.IS_DISTINCT]}
        same = np.full((len(self.terms) if distinct else 0, chunk.num_rows), -1, np.int64)
        for term in distinct:
            value = encode.equal_codes(chunk.column(self.terms[term]))
            rows = np.argsort(value, kind="stable")
            again = np.flatnonzero(value[rows[1:]] == value[rows[:-1]])
            same[term, rows[again + 1]] = rows[again]
        return same

    def _ranks(self, chunk: pa.Table) -> dict[str, Ints]:
        """Ranks among the values of all columns that are compared with each other, directly or by way of others."""
        classes: list[set[str]] = []
        for names in [*self.ranked, *({name} for name in self.terms if _kind(self.types[name], name).name == "ranked")]:
            joined = set(names)
            for other in [each for each in classes if each & joined]:
                joined |= other
                classes.remove(other)
            classes.append(joined)
        columns = tuple(sorted(name for each in classes for name in each))
        domains = tuple(Domain(tuple(columns.index(name) for name in sorted(each)), True) for each in classes)
        read = encode.Terms(columns, domains, frozenset())
        return dict(zip(columns, encode.encode_terms(read, chunk), strict=True)) if columns else {}


def _number(known: list[Any], value: Any) -> int:
    if value not in known or type(known[known.index(value)]) is not type(value):
        known.append(value)
    return known.index(value)


def _fitting(number: int) -> int:
    if not -(2**62) < number < 2**62:
        raise Unfit(f"{number} is too large for a condition")
    return number


def _words(kind: Kind) -> str:
    return {"exact": "a number", "real": "a number", "truth": "a truth value", "variable": "a variable's name"}.get(
        kind.name, "a " + (kind.columns[0] if kind.columns else kind.name)
    )


def _kind(type_: pa.DataType, column: str) -> Kind:
    is_ = pa.types
    if is_.is_boolean(type_):
        return _TRUTH
    if is_.is_integer(type_) or is_.is_date32(type_):
        return Kind("exact")
    if (is_.is_timestamp(type_) or is_.is_duration(type_)) and type_.unit == "us":
        return Kind("exact")
    if is_.is_floating(type_):
        return _REAL_KIND
    if is_.is_decimal(type_) and type_.precision <= 18:
        return Kind("exact", type_.scale)
    if is_.is_null(type_):
        return _NULL
    if is_.is_string(type_) or is_.is_large_string(type_) or is_.is_binary(type_) or is_.is_large_binary(type_):
        return Kind("ranked", columns=(column,))
    raise Unfit(f"{column} is {type_}, which a condition on several rows does not compare: cast it")


def _exact(column: pa.ChunkedArray) -> Ints:
    if pa.types.is_decimal(column.type):
        digits = column.type.scale
        values = [0 if value is None else int(value.scaleb(digits)) for value in column.to_pylist()]
        return np.array(values, np.int64)
    if pa.types.is_date32(column.type):
        days: Ints = column.cast(pa.int32()).cast(pa.int64()).fill_null(0).to_numpy()
        return days * _DAY
    numbers: Ints = column.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers
