"""Groups that Spark has the last word on: a match brings their bindings along, and Spark decides which forbid it.

A binding has an event for each variable of a group. Where Spark decides about a group inside another, the bindings of
the inner one come beside those of the outer one, each with the events of both, and with numbers that tell to which of
the outer ones it belongs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.dataclass import dataclass
from sase.compiler.plan.columns import operand_sql
from sase.compiler.plan.logical import GroupPlan

Signature = tuple[object, ...]


def is_open(each: GroupPlan) -> bool:
    """Whether Spark decides about it, or about a group in it. What is collected is for the result."""
    return each.group.fold == "none" and bool(each.undecided)


def signature(each: GroupPlan) -> Signature:
    """Groups of several branches that Spark decides about alike."""
    return each.group.variables, tuple(map(str, each.late)), tuple(map(signature, filter(is_open, each.groups)))


@dataclass(frozen=True)
class Bindings:
    """Those of one group, or of one inside others: `path` has it at its end."""

    name: str
    path: tuple[GroupPlan, ...]
    inner: tuple[Bindings, ...]

    @property
    def group(self) -> GroupPlan:
        return self.path[-1]

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(name for each in self.path for name in each.group.variables)

    @property
    def all(self) -> Iterator[Bindings]:
        yield self
        for each in self.inner:
            yield from each.all

    @property
    def columns(self) -> Mapping[str, set[str]]:
        """What the conditions ask of the events."""
        found: dict[str, set[str]] = {name: set() for name in self.variables}
        for column in self.asked:
            if column.table in found:
                found[column.table].add(column.name)
        return found

    @property
    def asked(self) -> Iterator[exp.Column]:
        return (column for part in self.group.late for column in scalars.columns(part.condition))

    @property
    def conditions(self) -> list[exp.Expr]:
        """On a binding, which goes by the name of all."""
        return [scalars.inside(part.condition, self.variables, self.name) for part in self.group.late]

    def absent(self, outer: Bindings | None = None) -> str:
        """In SQL: none of the bindings, of an `outer` one if there is one, meets the conditions."""
        name, parts = scalars.column_sql(self.name), list[str]()
        if outer is not None:
            same = scalars.column_sql(outer.name)
            parts.append(f"slice({name}.{name}, 1, {len(outer.variables)}) = {same}.{same}")
        if self.group.late:
            parts.append(f"({' AND '.join(map(operand_sql, self.conditions))}) IS TRUE")
        parts += [inner.absent(self) for inner in self.inner]
        return f"NOT exists({name}, {name} -> {' AND '.join(parts)})"

    @property
    def told(self) -> str:
        """The conditions as the query has them."""
        conditions = f" with {' and '.join(map(str, self.group.late))}" if self.group.late else ""
        unless = (f", unless {', '.join(each.group.group.variables)}{each.told}" for each in self.inner)
        return conditions + "".join(unless)
