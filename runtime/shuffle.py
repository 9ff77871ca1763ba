"""Rows of one key in one partition."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from sase.runtime.io.plans import IN_PLACE, elements, execution
from sase.runtime.pattern import WORKER, column_of
from sase.runtime.session import KEEP_BUCKETS


def by_key(rows: DataFrame, *keys: str, partitions: int | None = None) -> DataFrame:
    """A shuffle that stays: `repartition` by the keys, and by the first of them twice more.

    Where rows are partitioned by the keys already, as those of a bucketed table or a join are, Spark leaves out a
    `repartition` by them alone. Then it may scan that table without its buckets, broadcast one side of that join, or
    split its largest partitions, as no operator of its own needs the partitions any more: but a worker does. Only in a
    session that scans buckets in any case, as those that sase starts do, a bucketed table is as the worker needs it.

    For a window function over the keys, the repeated one is as good as once, so it needs no shuffle of its own. Rows
    that have gone by just these keys are where they have to be, as are the matches of such rows.
    """
    if partitions is None and not is_remote():
        above, node = _left_in_place(rows)
        if _have_gone_by(rows, keys, above, node):
            return rows
        if found := _kept_buckets(rows, node):
            return rows.repartition(found, *keys)  # left out if they are of these keys, and right if they are not
    count = () if partitions is None else (partitions,)
    return rows.repartition(*count, *keys, *2 * keys[:1])


def buckets(rows: DataFrame) -> int | None:
    """How many buckets there are, if rows are read from one table that has them, and Spark keeps to them."""
    return None if is_remote() else _kept_buckets(rows, _left_in_place(rows)[1])


def _kept_buckets(rows: DataFrame, node: Any) -> int | None:
    if any(rows.sparkSession.conf.get(name, None) != value for name, value in KEEP_BUCKETS.items()):
        return None
    return _buckets_of(node)


def _buckets_of(node: Any) -> int | None:
    """Those of the table, if it is one that has some."""
    if node.nodeName() != "LogicalRelation":
        return None
    table = node.catalogTable()
    if table.isEmpty() or table.get().bucketSpec().isEmpty():
        return None
    return int(table.get().bucketSpec().get().numBuckets())


# ---- what is in one place already -----------------------------------------------------------------


def _have_gone_by(rows: DataFrame, keys: Sequence[str], above: Sequence[Any], node: Any) -> bool:
    """Whether each row has stayed where a shuffle by these keys has brought it, or the events of the match that it is
    made of. (By some of them would do as well, but these may have few values, and leave cores without work.)

    `above` are the nodes that have left it in place, and `node` is what they read.
    """
    if node.nodeName() not in ("RepartitionByExpression", "MapInArrow"):
        return False
    asked = elements(execution(rows.select(*keys)).analyzed().projectList())
    known = {_followed(above, _Place(key.exprId().id())) for key in asked}
    if node.nodeName() == "MapInArrow":
        if node.functionExpr().name() != WORKER:
            return False
        known, node = _of_events(node, known)
    if node.nodeName() != "RepartitionByExpression":
        return False
    by = [_read(key, ()) for key in elements(node.partitionExpressions())]
    return None not in by and known == set(by) and (by[-2:] == 2 * by[:1] or _stays(node))


def _of_events(worker: Any, of_matches: Collection[_Place | None]) -> tuple[set[_Place | None], Any]:
    """Columns of matches as those of the rows that were shuffled for the worker, if they are of its key, on which all
    events of a match agree; and that shuffle."""
    columns = {column.exprId().id(): column_of(column.name()) for column in elements(worker.output())}
    named = {columns.get(place.column) for place in of_matches if place is not None and not place.inside}
    given = worker.child()
    below, shuffle = _above(given, {"Project", "Sort"})
    places = zip(_names(given), elements(given.output()), strict=True)
    return {_followed(below, _Place(column.exprId().id())) for name, column in places if name in named}, shuffle


def _stays(shuffle: Any) -> bool:
    """Whether Spark has no reason to leave it out: see `by_key`."""
    _, leaf = _above(shuffle.child(), IN_PLACE)
    return leaf.nodeName() in ("LogicalRelation", "LocalRelation", "LogicalRDD") and _buckets_of(leaf) is None


def _left_in_place(rows: DataFrame) -> tuple[list[Any], Any]:
    return _above(execution(rows).analyzed(), IN_PLACE)


def _above(node: Any, names: Collection[str]) -> tuple[list[Any], Any]:
    """The nodes of these names, from the uppermost one on, and the first that is none of them, or reads a table. One
    with a subquery is none: Spark makes a join of it."""
    found = []
    while (name := node.nodeName()) in names and name != "LogicalRelation" and node.subqueries().isEmpty():
        found.append(node)
        node = node.child()
    return found, node


def _names(node: Any) -> list[str]:
    """Of the columns that a worker is given, which may have come with numbers in their place."""
    names = [column.name() for column in elements(node.output())]
    if names != [str(at) for at in range(len(names))] or node.nodeName() != "Project":
        return names
    return [(each.child() if each.nodeName() == "Alias" else each).name() for each in elements(node.projectList())]


@dataclass(frozen=True)
class _Place:
    """A column, or a field of a struct, the outermost one last."""

    column: int
    inside: tuple[int, ...] = ()


def _followed(projects: Sequence[Any], place: _Place) -> _Place | None:
    """What the value is in what these nodes read, of which the first is computed last; None if it is made anew."""
    for node in projects:
        if node.nodeName() == "Project":
            ours = (each for each in elements(node.projectList()) if each.exprId().id() == place.column)
            found = next((_read(each, place.inside) for each in ours), None)
            if found is None:
                return None
            place = found
    return place


def _read(expression: Any, inside: tuple[int, ...]) -> _Place | None:
    match expression.getClass().getSimpleName():
        case "AttributeReference":
            return _Place(expression.exprId().id(), inside)
        case "Alias":
            return _read(expression.child(), inside)
        case "GetStructField":
            return _read(expression.child(), (*inside, expression.ordinal()))
        case "CreateNamedStruct" if inside:
            return _read(expression.valExprs().apply(inside[-1]), inside[:-1])
        case _:
            return None
