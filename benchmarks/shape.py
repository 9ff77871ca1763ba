"""The query template of the paper (its Table 2): EVENT SEQ(E1 e1, …, EL eL) WHERE [attr1] AND … WITHIN W."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.data import type_name


@dataclass(frozen=True)
class Shape:
    """`negations` are places: 2 stands for a negated component between e2 and e3. Each has a type of its own.

    `where` holds conditions about e1 … eL that SASE and SQL write alike, such as `e1.attr3 < e2.attr3`.
    """

    length: int = 3
    window: int = 10_000
    equivalence: tuple[str, ...] = ("attr1",)
    negations: tuple[int, ...] = ()
    where: tuple[str, ...] = ()
    whole: bool = False
    """Matches of whole events, and not of their times."""

    @property
    def positives(self) -> tuple[tuple[str, str], ...]:
        """(variable, type), in order."""
        return tuple((f"e{number}", type_name(number)) for number in range(1, self.length + 1))

    @property
    def negated(self) -> tuple[tuple[str, str, int], ...]:
        """(variable, type, place)."""
        return tuple(
            (f"n{number}", type_name(self.length + number), place) for number, place in enumerate(self.negations, 1)
        )

    @property
    def types(self) -> tuple[str, ...]:
        """Those of relevant events."""
        return tuple(name for _, name in self.positives) + tuple(name for _, name, _ in self.negated)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of relevant events that any evaluation must look at."""
        mentioned = (
            name for name in ("attr1", "attr2", "attr3", "attr4", "attr5") if f".{name}" in " ".join(self.where)
        )
        return tuple(dict.fromkeys(("ts", "type", *self.equivalence, *mentioned)))

    def selectivity(self, types: int, domain: int) -> float:
        """Expected matches an event: one of the W - 1 events before it for each of the L - 1 other components.

        That is L times formula (1) of the paper, which counts the sequences inside separate batches of W events.
        """
        others = self.length - 1
        return math.comb(self.window - 1, others) / types / math.pow(types * domain, others)

    @property
    def text(self) -> str:
        """The query. A match is told by the times of its events, which in these streams name them."""
        components = []
        for place, (variable, name) in enumerate(self.positives, 1):
            components.append(f"{name} {variable}")
            components += [f"!({negated} {n})" for n, negated, after in self.negated if after == place]
        conditions = [*([f"[{', '.join(self.equivalence)}]"] if self.equivalence else []), *self.where]
        where = f"\nWHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"EVENT SEQ({', '.join(components)}){where}\nWITHIN {self.window}"
        times = ", ".join(f"{variable}.ts AS {variable}_ts" for variable, _ in self.positives)
        return query if self.whole else f"{query}\nRETURN {times}"
