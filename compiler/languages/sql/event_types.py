"""The event types of a SELECT that joins: what its aliases read, each by one of its columns as the time."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from sase.compiler.core import scalars
from sase.compiler.core.catalog import Catalog
from sase.compiler.languages.sql.aliases import Alias, LeftAlone
from sase.compiler.languages.sql.names import Names

TYPE, TIME = "_sase_source", "_sase_time"


class EventTypes:
    """Aliases share one, unless one row may stand for both."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.of: dict[str, str] = {}
        """The type of each alias."""
        self.made: dict[str, tuple[Alias, str]] = {}
        self.used: dict[str, dict[str, None]] = {}

    def add(self, alias: Alias, time: str, alone: list[str]) -> None:
        for name, (other, column) in self.made.items():
            same = _source(other) == _source(alias) and column.lower() == time.lower()
            if same and not any(self.of.get(each) == name for each in alone):
                self.of[alias.name] = name
                return
        name, number = alias.title, 1
        while name in self.made:
            number += 1
            name = f"{alias.title}_{number}"
        self.made[name] = (alias, time)
        self.used[name] = {time: None}
        self.of[alias.name] = name

    def use(self, trees: Iterable[exp.Expr]) -> None:
        for tree in trees:
            for column in tree.find_all(exp.Column):
                alias, name = self.names.owner(column)
                if alias is not None and alias.name in self.of and name.lower() in alias.columns:
                    self.used[self.of[alias.name]][alias.columns[name.lower()][0]] = None

    @property
    def time(self) -> str:
        """The name of the time, if all types have one."""
        times = {time for _, time in self.made.values()}
        return times.pop() if len(times) == 1 else TIME

    @property
    def catalog(self) -> Catalog:
        types: dict[str, dict[str, str]] = {}
        kinds: dict[str, tuple[str, str]] = {}
        for name, (alias, time) in self.made.items():
            types[name] = {column: alias.columns[column.lower()][1] for column in self.used[name]}
            types[name][self.time] = alias.columns[time.lower()][1]
            for column, kind in types[name].items():
                known, other = kinds.setdefault(column.lower(), (kind, alias.name))
                if known != kind:
                    raise LeftAlone(f"{column} is {known} in {other} and {kind} in {alias.name}")
        return Catalog(time=self.time, type=TYPE, types=types)

    def reads(self) -> dict[str, exp.Query]:
        found: dict[str, exp.Query] = {}
        for name, (alias, time) in self.made.items():
            columns: list[exp.Expr] = [exp.column(column) for column in self.used[name]]
            if self.time == TIME:
                columns.append(exp.alias_(exp.column(time), TIME))
            reads = alias.reads.copy()
            assert isinstance(reads, exp.Select)
            reads.set("expressions", columns)
            found[name] = reads
        return found


def _source(alias: Alias) -> str:
    """What it reads, whatever it is called."""
    reads = alias.reads.copy()
    reads.args["from_"].this.set("alias", None)
    return scalars.sql(reads)
