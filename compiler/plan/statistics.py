"""What is known of the events: how many there are of each type, and how the values of their attributes are spread.

`sase statistics` measures it and keeps it in a JSON file; without one, the stated defaults stand in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery, Predicate, Variable
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import CatalogError

FORMAT = 1


@dataclass(frozen=True)
class ColumnStatistics:
    """`distinct` values, the share of events without one, and the shares of the most frequent values, falling."""

    distinct: float
    nulls: float = 0.0
    top: tuple[float, ...] = ()

    def agreement(self, events: int) -> float:
        """The probability that so many events have one value between them: Σ shareᵐ. 1 / V^(m-1) without skew."""
        rest, left = max(0.0, 1.0 - sum(self.top)), max(self.distinct - len(self.top), 1.0)
        return float(sum(share**events for share in self.top) + left * (rest / left) ** events)

    @property
    def hottest(self) -> float:
        """The share of the most frequent value."""
        return max(self.top[0] if self.top else 0.0, 1.0 / max(self.distinct, 1.0))


@dataclass(frozen=True)
class TypeStatistics:
    events: float
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


@dataclass(frozen=True)
class Statistics:
    events: float
    span: float
    """From the first event to the last, in ticks."""
    types: Mapping[str, TypeStatistics]
    predicates: Mapping[str, float] = field(default_factory=dict)
    """Measured selectivities, by `predicate_key`."""
    cores: int = 8

    def type(self, name: str) -> TypeStatistics:
        return self.types.get(name, TypeStatistics(0.0))

    def column(self, type_name: str, attribute: str) -> ColumnStatistics:
        return self.type(type_name).columns.get(attribute, DEFAULT_COLUMN)

    def save(self, path: str | Path) -> None:
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> Statistics:
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise ValueError
            return Statistics.of(content)
        except OSError as error:
            raise CatalogError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CatalogError(
                f"{path}: not statistics of this version: make them with  sase statistics EVENTS -o {path}"
            ) from None

    @staticmethod
    def of(content: Mapping[str, Any]) -> Statistics:
        """From plain data, as the runtime collects it and JSON keeps it."""
        types = {
            name: TypeStatistics(
                float(each["events"]),
                {
                    column: ColumnStatistics(float(known["distinct"]), float(known["nulls"]), tuple(known["top"]))
                    for column, known in each["columns"].items()
                },
            )
            for name, each in content["types"].items()
        }
        predicates = {key: float(share) for key, share in content["predicates"].items()}
        return Statistics(float(content["events"]), float(content["span"]), types, predicates, int(content["cores"]))


DEFAULT_COLUMN = ColumnStatistics(distinct=1_000.0)
DEFAULT_EVENTS = 10_000_000.0
DEFAULT_TYPES = 20
DEFAULT_WINDOWS = 100.0


def default_statistics(query: BoundQuery) -> Statistics:
    """What is assumed where nothing was measured: the paper's Table 1, and a stream a hundred windows long.

    Ten million events of 20 types in equal shares, or of those that there are, where that is known; a thousand values
    an attribute in equal shares.
    """
    names = {name for variable in query.variables for name in variable.types}
    rate = DEFAULT_EVENTS / (len(names) if query.whole else max(DEFAULT_TYPES, len(names)))
    span = DEFAULT_WINDOWS * query.within.ticks if query.within else DEFAULT_EVENTS
    return Statistics(DEFAULT_EVENTS, span, {name: TypeStatistics(rate) for name in sorted(names)})


def variable_of(query: BoundQuery, name: str) -> Variable:
    """The variable of a name; for a repeated component, that of its first event."""
    return query.variable(query.arrays.get(name, (name,))[0])


def predicate_key(query: BoundQuery, predicate: Predicate) -> str:
    """The predicate with types in the place of variables: the same condition has one key, whatever a query calls it."""
    numbers: dict[str, str] = {}

    def renamed(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or not node.table:
            return node
        types = "|".join(variable_of(query, node.table).types)
        name = numbers.setdefault(node.table, f"{types}#{len(numbers) + 1}")
        return exp.Column(this=node.this.copy(), table=exp.Identifier(this=name, quoted=True))

    return scalars.sql(predicate.condition.transform(renamed))
