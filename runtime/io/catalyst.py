"""What Spark would compute of each row of a file, as trees that a worker can evaluate without Spark.

Spark's optimised plan of events is a pile of projections and filters on a scan. Where all that they compute means the
same in Arrow, a worker may read the file and compute it: a row that Spark hands to Python costs several times as much.
It is Spark's own plan that is translated, after all of its rules, and no text: so nothing is decided twice.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from sase.runtime.io.plans import execution, nodes
from sase.runtime.operator.expressions import FALSE, TRUE, Tree, references

Kind = str
"""A type, as Spark's plans call it: `long`, `string`, `decimal(10,2)`."""

KINDS: Mapping[Kind, pa.DataType] = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""What they are to Arrow."""
_INTEGERS = ("byte", "short", "integer", "long")
_REALS = ("float", "double")
_COMPARED = {*_INTEGERS, *_REALS, "string", "date", "timestamp", "timestamp_ntz"}
"""Types whose values Arrow compares as Spark does; of reals, with a word on NaN."""
_COMPARISONS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_LOGIC = {"And": "and", "Or": "or", "Not": "not"}
_BITS = {"BitwiseAnd": "&", "BitwiseOr": "|"}
_LITERALS: Mapping[Kind, Callable[[str], Any]] = {
    **dict.fromkeys(_INTEGERS, int),
    "double": float,
    "string": str,
    "boolean": "true".__eq__,
}


class _Unknown(Exception):
    """Something that Spark has to compute."""


@dataclass(frozen=True)
class Computed:
    """Of each row of a file: the conditions that it has to meet, and the columns that are made of it."""

    where: tuple[Tree, ...]
    columns: Mapping[str, Tree]
    kinds: Mapping[str, Kind]
    """The columns of the file that are read, and their types."""


def computed(frame: DataFrame) -> Computed | None:
    """None where some of it is Spark's alone to compute, or it does more than to look at each row of one relation."""
    if frame.isStreaming:
        # Spark refuses to run it as it stands, and so to plan it.
        session = frame.sparkSession._jsparkSession
        plan = session.sessionState().optimizer().execute(execution(frame).analyzed())
    else:
        plan = execution(frame).optimizedPlan()
    try:
        return _computed(list(nodes(plan)), frame.columns)
    except _Unknown:
        return None


@dataclass(frozen=True)
class _Value:
    tree: Tree
    kind: Kind


def _computed(plan: list[Any], names: list[str]) -> Computed:
    *above, relation = plan
    if relation.nodeName() not in ("LogicalRelation", "StreamingRelation"):
        raise _Unknown
    attributes = [attribute for (attribute,) in _written(relation.output())]
    known = {each["exprId"]["id"]: _Value(("column", each["name"]), _kind(each["dataType"])) for each in attributes}
    files, shown, where = dict(known), list(known), list[Tree]()
    for node in reversed(above):
        match node.nodeName():
            case "Filter":
                where += _conjuncts(_Scope(known).value(json.loads(node.condition().toJSON())).tree)
            case "Project":
                listed = [(_id(each[0]), _Scope(known).value(each)) for each in _written(node.projectList())]
                known, shown = dict(listed), [id for id, _ in listed]
            case _:
                raise _Unknown
    columns = {name: known[id].tree for name, id in zip(names, shown, strict=True)}
    kinds = {value.tree[1]: value.kind for value in files.values()}
    read = {name for tree in (*where, *columns.values()) for name in references(tree)}
    if any(kind == "partition" for kind in (known[id].kind for id in shown)):
        raise _Unknown
    return Computed(tuple(where), columns, {name: kinds[name] for name in kinds if name in read})


def _written(expressions: Any) -> list[list[dict[str, Any]]]:
    """As Spark writes them down, one by one: it takes ten times as long to write a whole plan."""
    return [json.loads(expressions.apply(at).toJSON()) for at in range(expressions.size())]


def _conjuncts(tree: Tree) -> list[Tree]:
    return [each for part in tree[1:] for each in _conjuncts(part)] if tree[0] == "and" else [tree]


def _name(node: Mapping[str, Any]) -> str:
    return str(node["class"]).rpartition(".")[2]


def _id(expression: Mapping[str, Any]) -> int:
    return int(expression["exprId"]["id"])


def _kind(written: Any) -> Kind:
    return written if isinstance(written, str) else "nested"


class _Scope:
    """Expressions over what is known of a row. Spark writes a tree as a list: each node before its children."""

    def __init__(self, known: Mapping[int, _Value]) -> None:
        self.known = known

    def value(self, expression: list[dict[str, Any]]) -> _Value:
        nodes = iter(expression)
        return self._next(nodes)

    def _next(self, nodes: Iterator[dict[str, Any]]) -> _Value:
        node = next(nodes)
        children = [self._next(nodes) for _ in range(node["num-children"])]
        trees, kinds = [child.tree for child in children], [child.kind for child in children]
        match name := _name(node):
            case "AttributeReference" if _id(node) in self.known:
                return self.known[_id(node)]
            case "Alias":
                return children[0]
            case "Literal":
                return _literal(node["value"], _kind(node["dataType"]))
            case "And" | "Or" | "Not":
                return _Value((_LOGIC[name], *trees), "boolean")
            case "IsNull" | "IsNotNull":
                known = ("known", *trees)
                return _Value(known if name == "IsNotNull" else ("not", known), "boolean")
            case "GreaterThanOrEqual" if trees == [_PARTITION, ("value", 0)]:
                return _Value(TRUE, "boolean")
            case "EqualTo" | "LessThan" | "LessThanOrEqual" | "GreaterThan" | "GreaterThanOrEqual":
                _alike(kinds, _COMPARED)
                return _Value((_COMPARISONS[name], *trees), "boolean")
            case "In":
                _alike(kinds, {*_INTEGERS, "string"})
                if all(sign == "value" for sign, *_ in trees[1:]):
                    return _Value(("in", trees[0], *(tree[1] for tree in trees[1:])), "boolean")
            case "BitwiseAnd" | "BitwiseOr" if kinds == ["long", "long"]:
                return _Value((_BITS[name], *trees), "long")
            case "Coalesce":
                _alike(kinds)
                *values, otherwise = trees
                for value in reversed(values):
                    otherwise = ("if", ("known", value), value, otherwise)
                return _Value(otherwise, kinds[0])
            case "If" | "CaseWhen":
                if len(trees) % 2 == 0:
                    trees, kinds = [*trees, _nothing(kinds[1])], [*kinds, kinds[1]]
                *cases, otherwise = trees
                _alike([*kinds[1:-1:2], kinds[-1]])
                for condition, then in reversed([*zip(cases[::2], cases[1::2], strict=True)]):
                    otherwise = ("if", condition, then, otherwise)
                return _Value(otherwise, kinds[1])
            case "SparkPartitionID":
                return _Value(_PARTITION, "partition")
            case "UnixMicros" if kinds == ["timestamp"]:
                return _Value(("ticks", *trees), "long")
            case "Cast" if _widens(kinds[0], _kind(node["dataType"])):
                return _Value(("widened", *trees), _kind(node["dataType"]))
        raise _Unknown


_PARTITION: Tree = ("partition",)
"""The number of Spark's partition, of which nothing is known but that it is not negative: `events.state_bits` asks."""


def _literal(value: str | None, kind: Kind) -> _Value:
    if value is None:
        return _Value(_nothing(kind), kind)
    if kind not in _LITERALS:
        raise _Unknown
    return _Value(("value", _LITERALS[kind](value)), kind)


def _nothing(kind: Kind) -> Tree:
    if kind not in KINDS:
        raise _Unknown
    return "nothing", KINDS[kind]


def _alike(kinds: list[Kind], among: set[Kind] | None = None) -> None:
    if len(set(kinds)) > 1 or (among is not None and not set(kinds) <= among):
        raise _Unknown


def _widens(kind: Kind, to: Kind) -> bool:
    integers = kind in _INTEGERS and to in _INTEGERS and _INTEGERS.index(kind) <= _INTEGERS.index(to)
    return integers or kind == to or (kind, to) == ("float", "double")


_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


# ---- what is known of a file's columns ------------------------------------------------------------


Bounds = Mapping[Tree, tuple[int, int]]
"""Of values of which it is known, the least and the greatest."""


def times_between(name: str, first: int, last: int) -> Bounds:
    """What is known of a column of times, none of which is NULL, in ticks."""
    column: Tree = ("column", name)
    return {each: (first, last) for each in (column, ("widened", column), ("ticks", column))}


def simplified(tree: Tree, complete: frozenset[str], bounds: Bounds = MappingProxyType({})) -> Tree:
    """The same, where the columns of `complete` have no NULL, and values are within their bounds."""
    if tree[0] in ("column", "value", "nothing", "in"):
        return tree
    sign, parts = tree[0], [simplified(part, complete, bounds) for part in tree[1:]]
    match sign, parts:
        case "<" | "<=" | ">" | ">=", [value, ("value", int(limit))] if value in bounds:
            sides = {_HOLDS[sign](end, limit) for end in bounds[value]}
            if len(sides) == 1:
                return TRUE if sides.pop() else FALSE
        case "known", [("column", name)] if name in complete:
            return TRUE
        case "known", [("value" | "nothing" as what, _)]:
            return TRUE if what == "value" else FALSE
        case "not", [("value", bool(value))]:
            return FALSE if value else TRUE
        case "and" | "or", _:
            neutral, decided = (TRUE, FALSE) if sign == "and" else (FALSE, TRUE)
            left = [part for part in parts if part != neutral]
            if decided in left or not left:
                return decided if left else neutral
            return left[0] if len(left) == 1 else (sign, *left)
        case "if", [("value" | "nothing" as what, value), _, _]:
            return parts[1] if what == "value" and value else parts[2]
    return (sign, *parts)
