"""What Spark's own join would take, where a pattern was written as one.

Spark has no join by ranges of time: rows meet that agree on a key, whatever their times, and each pair is looked at.
The estimate is made of the same constants as that of a plan, so that the two compare.
"""

from __future__ import annotations

from sase.compiler.core.bound import EquivalenceTest
from sase.compiler.plan.choose import Choices
from sase.compiler.plan.estimate import Calibration, Estimate, calibration

MARGIN = 0.7
"""A pattern is worth its while if it is expected to take less than this share of the time of Spark's own join."""

PAIR = 2e-8
"""Seconds of one core for a pair of rows that share a key. From docs/benchmarks.md: a join of three types, with 100,000
rows each, looks at some 600 million pairs if there are 100 keys, and takes 7 seconds longer than with 10,000 keys, on
two cores."""


def seconds(choices: Choices, constants: Calibration | None = None) -> float:
    """Of the statement as it stands."""
    return _OwnJoin(choices.chosen.plan, choices.statistics, constants or calibration()).seconds()


class _OwnJoin(Estimate):
    def seconds(self) -> float:
        query, constants, cores = self.query, self.constants, max(1, self.statistics.cores)
        tests = query.branches[0].equivalences
        rows, moved, compared = 0.0, 0.0, 0.0
        bound: set[str] = set()
        for variable in query.positive:
            events = self.filling(variable)
            if not bound:
                rows, bound = events, {variable.name}
                continue
            pairs = rows * events * self.partners(tests, bound, variable.name)
            moved, compared = moved + rows + events, compared + pairs
            newly = bound | {variable.name}
            decided = [part for part in query.predicates if part.variables <= newly and not part.is_simple]
            rows = pairs * self.in_time(newly)
            for part in decided:
                if not part.variables <= bound:
                    rows *= self.selectivity(part)
            bound = newly
        for variable in query.negated:
            events = self.filling(variable)
            moved, compared = (
                moved + rows + events,
                compared + rows * events * self.agreement(_about(tests, variable.name), 2),
            )
        scans = len(query.variables) * self.statistics.events * constants.read
        return constants.stage + (scans + moved * self.joined(len(tests)) + compared * PAIR) / cores

    def in_time(self, bound: set[str]) -> float:
        """The share of combinations whose times are as they must be. The window is between the first event and the
        last: Spark does not conclude from it how far the others may be apart, and knows their order alone."""
        complete = {variable.name for variable in self.query.positive} <= bound
        return self.share_of_span if complete else 0.5

    def partners(self, tests: tuple[EquivalenceTest, ...], bound: set[str], name: str) -> float:
        """The share of rows that have the key of a given one."""
        share = 1.0
        for test in tests:
            places = dict(test.positive)
            if name in places and any(each in places for each in bound):
                share *= self.agreement((test,), 2)
        return share


def _about(tests: tuple[EquivalenceTest, ...], name: str) -> tuple[EquivalenceTest, ...]:
    return tuple(test for test in tests if name in dict(test.negated))
