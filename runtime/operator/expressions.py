"""Expressions of Spark's over Arrow arrays, for those that mean the same there: see `io.catalyst`.

A truth may be NULL, and logic is that of SQL. Of a column that comes as a dictionary, such as the types of events,
whatever depends on it alone is computed once for each of its values, and looked up for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Tree = tuple[Any, ...]
"""A sign and what it takes: `("column", "type")`, `("value", 5)`, `("=", tree, tree)`, `("in", tree, 1, 2)`; and
`("nothing", pa.bool_())` for a NULL of a type."""

TRUE: Tree = ("value", True)
FALSE: Tree = ("value", False)

Value = Any
"""An array, or a scalar if it is the same for all rows."""


def references(tree: Tree) -> Iterator[str]:
    """The columns of which it is computed."""
    sign, *parts = tree
    if sign == "column":
        yield parts[0]
    elif sign not in ("value", "nothing"):
        for part in parts:
            if isinstance(part, tuple):
                yield from references(part)


class Expressions:
    """Computes trees over batches of one file after the other."""

    def __init__(self) -> None:
        self._references: dict[int, tuple[Tree, frozenset[str]]] = {}
        """A tree is known by its place in memory, so it is kept there."""

    def over(self, columns: Mapping[str, pa.Array]) -> _Rows:
        return _Rows(self, columns)

    def references(self, tree: Tree) -> frozenset[str]:
        """Looked up: it is asked for every batch."""
        if id(tree) not in self._references:
            self._references[id(tree)] = tree, frozenset(references(tree))
        return self._references[id(tree)][1]


class _Rows:
    def __init__(self, expressions: Expressions, columns: Mapping[str, pa.Array]) -> None:
        self._expressions, self._columns = expressions, columns
        self._known: dict[int, tuple[Tree, Value]] = {}

    def all_of(self, trees: tuple[Tree, ...]) -> Value:
        """Whether every tree holds."""
        return reduce(pc.and_kleene, map(self.value, trees), pa.scalar(True))

    def value(self, tree: Tree) -> Value:
        if id(tree) not in self._known:
            self._known[id(tree)] = tree, self._computed(tree)
        return self._known[id(tree)][1]

    def _computed(self, tree: Tree) -> Value:
        sign, *parts = tree
        match sign:
            case "column":
                column = self._columns[parts[0]]
                return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
            case "value":
                return pa.scalar(parts[0])
            case "nothing":
                return pa.scalar(None, parts[0])
        references = self._expressions.references(tree)
        if len(references) == 1:
            (name,) = references
            if isinstance(column := self._columns[name], pa.DictionaryArray):
                return self._looked_up(tree, name, column)
        match sign:
            case "in":
                values = self.value(parts[0])
                if pa.types.is_integer(values.type):
                    values = values.cast(pa.int64())  # what it is among may not fit into one that was widened
                among = pc.is_in(values, value_set=pa.array(parts[1:], values.type))
                return pc.if_else(pc.is_valid(values), among, pa.scalar(None, pa.bool_()))
            case "if":
                condition, then, otherwise = map(self.value, parts)
                return pc.if_else(pc.fill_null(condition, False), then, otherwise)
            case "widened":
                return self.value(parts[0])  # whoever takes it casts it
        return _SIGNS[sign](*map(self.value, parts))

    def _looked_up(self, tree: Tree, name: str, column: pa.DictionaryArray) -> Value:
        words = column.dictionary
        if column.null_count:
            words = pa.concat_arrays([words, pa.nulls(1, words.type)])
        found = self._expressions.over({name: words}).value(tree)
        if isinstance(found, pa.Scalar):
            return found
        if found.null_count in (0, len(found)) and len(found) and len(distinct := pc.unique(found)) == 1:
            return distinct[0]
        place = column.indices
        if column.null_count:
            place = place.fill_null(len(words) - 1)
        if not found.null_count and (pa.types.is_integer(found.type) or pa.types.is_boolean(found.type)):
            return pa.array(np.take(found.to_numpy(zero_copy_only=False), place.to_numpy()))
        return found.take(place)


def _reals(compared: Callable[[Value, Value, Value, Value], Value], plain: Callable[[Value, Value], Value]) -> Any:
    """A comparison that knows NaN: it is equal to itself, and above all other numbers."""

    def comparison(left: Value, right: Value) -> Value:
        if not (pa.types.is_floating(left.type) or pa.types.is_floating(right.type)):
            return plain(left, right)
        return pc.or_(plain(left, right), compared(left, right, pc.is_nan(left), pc.is_nan(right)))

    return comparison


_equal = _reals(lambda left, right, one, other: pc.and_(one, other), pc.equal)
_less = _reals(lambda left, right, one, other: pc.and_(pc.invert(one), other), pc.less)


def ticks(values: Value) -> Value:
    return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())


_SIGNS: Mapping[str, Callable[..., Value]] = {
    "=": _equal,
    "<": _less,
    ">": lambda left, right: _less(right, left),
    "<=": lambda left, right: pc.invert(_less(right, left)),
    ">=": lambda left, right: pc.invert(_less(left, right)),
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "known": pc.is_valid,
    "&": pc.bit_wise_and,
    "|": pc.bit_wise_or,
    "ticks": ticks,
}
