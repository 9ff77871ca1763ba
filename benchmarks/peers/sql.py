"""The query as a self-join, as somebody would write it by hand for a SQL engine.

Both forms select the times of a match's events. The text is the same for Spark and DuckDB but for two expressions.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.shape import Shape


@dataclass(frozen=True)
class Dialect:
    bucket: str
    """The number of the bucket of length {window} in which {ts} lies."""
    two: str
    """One row for each of {first} and {second}."""


SPARK = Dialect("{ts} div {window}", "explode(array({first}, {second}))")
DUCKDB = Dialect("{ts} // {window}", "unnest([{first}, {second}])")


def naive(shape: Shape) -> str:
    """One join an event; the engine finds the equalities among the conditions, and the rest is checked on pairs."""
    tables = [f"events {variable}" for variable, _ in shape.positives]
    conditions = [f"{variable}.type = '{name}'" for variable, name in shape.positives]
    conditions += [condition for step in _steps(shape) for condition in step]
    conditions += [
        _absent(shape, variable, place, f"events WHERE type = '{name}'") for variable, name, place in shape.negated
    ]
    return f"SELECT {_times(shape)}\nFROM {', '.join(tables)}\nWHERE {_and(conditions)}"


def bucketed(shape: Shape, dialect: Dialect) -> str:
    """Every join has an equality on a time bucket as long as the window, which is what a careful SQL author adds.

    All events of a match lie in the bucket of its first event or in the next one. So later events, and negated ones,
    are copied to their own bucket and to the one before, and all joins have the same key: one shuffle a table.
    """
    columns = ", ".join(name for name in shape.columns if name != "type")
    own = dialect.bucket.format(ts="ts", window=shape.window)
    both = dialect.two.format(first=own, second=f"{own} - 1")

    def table(variable: str, name: str, bucket: str) -> str:
        return f"{variable}_bucketed AS (SELECT {columns}, {bucket} AS bucket FROM events WHERE type = '{name}')"

    (first, first_type), *later = shape.positives
    tables = [table(first, first_type, own)]
    tables += [table(variable, name, both) for variable, name in later]
    tables += [table(variable, name, both) for variable, name, _ in shape.negated]
    joins = [f"{first}_bucketed {first}"]
    for (variable, _), conditions in zip(later, _steps(shape)[1:], strict=True):
        joins.append(
            f"JOIN {variable}_bucketed {variable} ON {variable}.bucket = {first}.bucket AND {_and(conditions)}"
        )
    conditions = list(_steps(shape)[0])
    conditions += [
        _absent(shape, variable, place, f"{variable}_bucketed WHERE bucket = {first}.bucket")
        for variable, _, place in shape.negated
    ]
    where = f"\nWHERE {_and(conditions)}" if conditions else ""
    return f"WITH {', '.join(tables)}\nSELECT {_times(shape)}\nFROM {' '.join(joins)}{where}"


def _steps(shape: Shape) -> list[list[str]]:
    """The conditions that can be decided when e1, e2, … are joined."""
    steps: list[list[str]] = [[]]
    for number in range(2, shape.length + 1):
        before, this = f"e{number - 1}", f"e{number}"
        step = [f"{this}.{attribute} = e1.{attribute}" for attribute in shape.equivalence]
        steps.append([*step, f"{this}.ts > {before}.ts", f"{this}.ts - e1.ts < {shape.window}"])
    for condition in shape.where:
        last = max(number for number in range(1, shape.length + 1) if f"e{number}." in condition)
        steps[last - 1].append(condition)
    return steps


def _absent(shape: Shape, variable: str, place: int, rows: str) -> str:
    """NOT EXISTS, on `rows`: a table and a condition that begin the subquery."""
    table, condition = rows.split(" WHERE ")
    conditions = [f"{variable}.{condition}"]
    conditions += [f"{variable}.{attribute} = e1.{attribute}" for attribute in shape.equivalence]
    conditions += [f"{variable}.ts > e{place}.ts", f"{variable}.ts < e{place + 1}.ts"]
    return f"NOT EXISTS (SELECT 1 FROM {table} {variable} WHERE {_and(conditions)})"


def _times(shape: Shape) -> str:
    return ", ".join(f"{variable}.ts AS {variable}_ts" for variable, _ in shape.positives)


def _and(conditions: list[str]) -> str:
    return " AND ".join(conditions)
