"""All sequences of a pattern with loops, by the letter: what counts, sums and least values are held to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sase.runtime.pattern import Totals

Row = tuple[int, int, int, int]
"""Group, time, state bits, value."""
Taken = tuple[tuple[str, int], ...]
"""The events of a match, each with its variable."""


def sequences(pattern: Totals, rows: Sequence[Row]) -> Iterator[Taken]:
    """Every match of the rows of one group, by the letter."""

    def fills(row: int, name: str) -> bool:
        return bool(rows[row][2] & pattern.bit(name))

    def of(names: Sequence[str], after: int) -> Iterator[Taken]:
        """The events of these components, all later than this time."""
        if not names:
            yield ()
            return
        name, *rest = names
        least, most = pattern.loops.get(name, (1, 1))
        for events in loop(name, after, len(rows) if most is None else most):
            if len(events) >= least:
                behind = rows[events[-1]][1] if events else after
                for others in of(rest, behind):
                    yield (*((name, event) for event in events), *others)

    def loop(name: str, after: int, most: int) -> Iterator[tuple[int, ...]]:
        yield ()
        if most:
            for row in range(len(rows)):
                if fills(row, name) and rows[row][1] > after:
                    for others in loop(name, rows[row][1], most - 1):
                        yield (row, *others)

    def allowed(match: Taken) -> bool:
        times = [rows[row][1] for _, row in match]
        if pattern.within is not None and times[-1] - times[0] >= pattern.within:
            return False
        for component in pattern.negated:
            before = min(rows[row][1] for name, row in match if name == component.before)
            after = (
                times[-1] - (pattern.within or 0)
                if component.after is None
                else max(rows[row][1] for name, row in match if name == component.after)
            )
            if any(fills(row, component.variable) and after < rows[row][1] < before for row in range(len(rows))):
                return False
        return True

    yield from (match for match in of(pattern.positive, -(10**9)) if match and allowed(match))
