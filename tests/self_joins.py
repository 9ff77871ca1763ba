"""What tests of self-joins share: tables in DuckDB, which runs both the text as it stands and what is left of it over
the matches, and random statements.

The matches come from the bound query by brute force, so that none of this needs Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import duckdb
import sqlglot
from bound_algebra import matches
from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery, Predicate
from sase.compiler.core.catalog import Catalog
from sase.compiler.languages.sql.aliases import Tables
from sase.compiler.languages.sql.joined import Joins, JoinView, replace_joins

COLUMNS = "k int, t bigint, kind string, v int, d date, id int"
OTHER = "k int, w bigint, kind string, z int"
TYPES = {"BIGINT": "bigint", "INTEGER": "int", "VARCHAR": "string", "DATE": "date", "TIMESTAMP": "timestamp_ntz"}


def random_rows(random: Random, count: int = 22) -> list[tuple[Any, ...]]:
    """Rows of `COLUMNS`, with NULL anywhere but in `id`, equal times, and rows that are there twice."""

    def perhaps(value: Any) -> Any:
        return None if random.random() < 0.08 else value

    days = [f"2026-03-{day:02d}" for day in range(1, 13)]
    rows = [
        (
            perhaps(random.randrange(3)),
            perhaps(random.randrange(16)),
            perhaps(random.choice("ABC")),
            perhaps(random.randrange(4)),
            perhaps(random.choice(days)),
            number,
        )
        for number in range(count)
    ]
    return rows + rows[:2]


class Duck:
    """DuckDB with the tables `ev` and `other`."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self.connection = duckdb.connect()
        kinds = COLUMNS.replace("string", "varchar"), OTHER.replace("string", "varchar")
        self.connection.execute(f"CREATE TABLE ev ({kinds[0]})")
        self.connection.execute(f"CREATE TABLE other ({kinds[1]})")
        self.connection.executemany("INSERT INTO ev VALUES (?, ?, ?, ?, ?, ?)", rows)
        self.connection.executemany("INSERT INTO other VALUES (?, ?, ?, ?)", [row[:4] for row in rows[::2]])

    def columns(self, query: str) -> list[tuple[str, str]] | None:
        try:
            found = self.connection.execute(f"DESCRIBE {duck(query)}").fetchall()
        except duckdb.Error:
            return None
        return [(row[0], TYPES.get(row[1], row[1].lower())) for row in found]

    @property
    def tables(self) -> Tables:
        return Tables(self.columns)

    def rows(self, query: str) -> Counter[str]:
        """The bag of a query's rows, which is written for Spark."""
        return Counter(map(repr, self.connection.execute(duck(query)).fetchall()))

    def replaced(self, joins: Joins) -> Counter[str]:
        """The bag of what is left, over the matches."""
        for view in joins.views:
            self.add(view)
        return self.rows(scalars.sql(joins.query))

    def add(self, view: JoinView) -> None:
        query, events = view.query, list[dict[str, Any]]()
        types: dict[str, dict[str, str]] = {}
        for name, reads in view.reads.items():
            columns = self.columns(scalars.sql(reads))
            assert columns is not None
            types[name] = dict(columns)
            for row in self.connection.execute(duck(scalars.sql(reads))).fetchall():
                events.append({**dict(zip(types[name], row, strict=True)), query.type: name})
        ticking = {name: {**declared, query.time: "bigint"} for name, declared in types.items()}
        catalog = Catalog(time=query.time, type=query.type, types=ticking)
        taking_part = [event for event in events if event[query.time] is not None]
        ticked = [{**event, query.time: ticks(event[query.time])} for event in taking_part]
        found = matches(in_ticks(query), catalog, ticked)
        assert query.returns is not None
        structs = []
        for output in query.returns:
            fields = [field.this for field in output.value.expressions[::2]]
            kinds = ", ".join(
                f'"{field}" {self.kind(types[query.variable(output.name).types[0]], field)}' for field in fields
            )
            structs.append((output.name, fields, kinds))
        columns_of = ", ".join(f'"{name}" STRUCT({kinds})' for name, _, kinds in structs)
        self.connection.execute(f"CREATE OR REPLACE TABLE {view.marker} ({columns_of})")
        if query.one_per is not None:  # any match of those that bind the same event must do: here it is the last
            found = list({dict(match.bound)[query.one_per]: match for match in found}.values())
        for match in found:
            events_of = {name: taking_part[number] for name, number in match.bound}
            values = [{field: events_of[name][field] for field in fields} for name, fields, _ in structs]
            self.connection.execute(f"INSERT INTO {view.marker} VALUES ({', '.join('?' for _ in values)})", values)

    def kind(self, types: dict[str, str], field: str) -> str:
        return "varchar" if types[field] == "string" else types[field]


def in_ticks(query: BoundQuery) -> BoundQuery:
    """Dates are numbers to the algebra, so `date_add(d, 3)` adds three days' ticks."""

    def visit(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Anonymous) and node.name == "date_add":
            day, amount = node.expressions
            number = int(amount.sql()) * 86_400_000_000
            literal: exp.Expr = exp.Literal.number(abs(number))
            return exp.Add(this=day.copy(), expression=exp.Neg(this=literal) if number < 0 else literal)
        return node

    def ticking(parts: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
        return tuple(replace(part, condition=part.condition.transform(visit)) for part in parts)

    branches = []
    for branch in query.branches:
        groups = tuple(replace(group, predicates=ticking(group.predicates)) for group in branch.groups)
        branches.append(replace(branch, predicates=ticking(branch.predicates), groups=groups))
    return replace(query, branches=tuple(branches))


def ticks(time: Any) -> int:
    """As the runtime has it: microseconds of a date."""
    return time if isinstance(time, int) else time.toordinal() * 86_400_000_000


def duck(query: str) -> str:
    return sqlglot.transpile(query, read="spark", write="duckdb")[0]


def joined(text: str, duck: Duck, dialect: str = "spark") -> Joins:
    parsed = sqlglot.parse_one(text, dialect=dialect)
    assert isinstance(parsed, exp.Query)
    return replace_joins(parsed, "query.sql", duck.tables, 0, lambda query: None)


# ---- random statements --------------------------------------------------------------------------


def random_statement(random: Random) -> str:
    """A join of two or three aliases in the order of time, or nearly so, in any of the spellings."""
    time = random.choice(["t", "t", "d"])
    names = ["a", "b", "c"][: random.choice([1, 2, 2, 2, 3])]
    parts = [part for one, other in pairwise(names) for part in _relation(random, one, other, time)]
    for name in names[1:]:
        if random.random() < 0.8:
            parts.append(f"{random.choice(names[: names.index(name)])}.k = {name}.k")
    for name in names:
        if random.random() < 0.4:
            parts.append(
                random.choice([f"{name}.kind = '{random.choice('ABC')}'", f"{name}.v >= 1", f"{name}.v IS NULL"])
            )
    if len(names) > 1 and random.random() < 0.5:
        parts.append(random.choice(["a.v < b.v", "a.v + b.v > 2", "(a.v > 1 OR b.kind = 'B')", "a.id <> b.id"]))
    joins = ""
    if len(names) == 1 or random.random() < 0.4:
        inner = " AND ".join(_absent(random, names, time))
        match random.choice(["exists", "anti", "left"]):
            case "exists":
                parts.append(f"{random.choice(['NOT ', 'NOT ', 'NOT ', ''])}EXISTS (SELECT 1 FROM ev n WHERE {inner})")
            case "anti":
                joins = f" {random.choice(['LEFT ANTI', 'LEFT ANTI', 'LEFT SEMI'])} JOIN ev n ON {inner}"
            case "left":
                joins = f" LEFT JOIN ev n ON {inner}"
                parts.append(f"n.{time} IS NULL")
    parts = parts or ["true"]
    random.shuffle(parts)
    source = ", ".join(f"ev {name}" for name in names)
    if len(names) == 2 and not joins and random.random() < 0.5:
        cut = random.randrange(len(parts))
        source = f"ev a JOIN ev b ON {' AND '.join(parts[: cut + 1])}"
        parts = parts[cut + 1 :] or ["true"]
    elif joins and len(names) > 1:
        source = " CROSS JOIN ".join(f"ev {name}" for name in names)
    columns = ", ".join(f"{name}.id AS {name}_id, {name}.{random.choice(['k', 'v', time])}" for name in names)
    one = random.choice(names)
    shown = random.choice([columns, columns, "a.k, count(*) AS n", f"DISTINCT {one}.k, {one}.v"])
    grouped = " GROUP BY a.k" if "count" in shown else ""
    return f"SELECT {shown} FROM {source}{joins} WHERE {' AND '.join(parts)}{grouped}"


def _relation(random: Random, one: str, other: str, time: str) -> Iterator[str]:
    length = random.randrange(1, 7)
    early, late = f"{one}.{time}", f"{other}.{time}"
    if random.random() < 0.2:
        early, late = late, early
    if time == "d":
        yield random.choice([f"{early} < {late}", f"{early} <= {late}", f"datediff({late}, {early}) >= 1"])
        yield random.choice(
            [
                f"datediff({late}, {early}) <= {length}",
                f"{late} <= date_add({early}, {length})",
                f"{late} < {early} + INTERVAL {length} DAYS",
                f"{late} BETWEEN {early} AND date_add({early}, {length})",
            ]
        )
        return
    match random.randrange(5):
        case 0:
            yield f"abs({early} - {late}) {random.choice(['<', '<='])} {length}"
            return
        case 1:
            yield f"{late} - {early} BETWEEN {random.choice([0, 1, 2])} AND {length}"
            return
        case 2:
            yield f"{late} BETWEEN {early} AND {early} + {length}"
            yield f"{early} <> {late}"
            return
    yield random.choice([f"{early} < {late}", f"{late} > {early}", f"{early} <= {late}", f"{early} + 1 < {late}"])
    yield random.choice(
        [f"{late} < {early} + {length}", f"{late} - {early} <= {length}", f"{length} > {late} - {early}"]
    )


def _absent(random: Random, names: list[str], time: str) -> Iterator[str]:
    first, last, length = names[0], names[-1], random.randrange(1, 6)

    def moved(name: str, by: int) -> str:
        if time == "d":
            return f"date_add({name}.d, {by})"
        return f"{name}.t {'+' if by > 0 else '-'} {abs(by)}"

    yield f"n.k = {random.choice(names)}.k"
    if random.random() < 0.6:
        yield f"n.kind = '{random.choice('ABC')}'"
    if random.random() < 0.3:
        yield f"n.v > {first}.v"
    strictly = random.choice(["<", "<", "<", "<="])
    match random.choice(["between", "before", "behind"]) if len(names) > 1 else random.choice(["before", "behind"]):
        case "between":
            yield f"{first}.{time} {strictly} n.{time}"
            yield f"n.{time} < {names[1]}.{time}"
        case "before":
            yield f"n.{time} {strictly} {first}.{time}"
            yield f"n.{time} > {moved(first, -length)}"
        case "behind":
            yield f"n.{time} > {last}.{time}"
            yield f"n.{time} <= {moved(last, length)}"
