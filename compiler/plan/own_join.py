"""What Spark's own join would take, where a pattern was written as one.

Spark has no join by ranges of time: rows meet that agree on a key, whatever their times, and each pair is looked at; of
what must not be there, or need only be there, up to the first that is. How they meet depends on the size of the table:

- What Spark takes for small is made a hash table, which every core gets. No row is moved or sorted then, and the rows
  of a key are a chain through that table.
- Else both sides are moved and sorted by the key, and the rows of a key lie side by side.

The estimate is made of the same constants as that of a plan, so that the two compare.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from sase.compiler.core.bound import Attribute, EquivalenceTest, Variable
from sase.compiler.core.fields import attribute_of
from sase.compiler.core.scalars import columns
from sase.compiler.plan.choose import Choices
from sase.compiler.plan.estimate import Calibration, Estimate, calibration
from sase.compiler.plan.file_sizes import file_bytes

SMALL = 10 << 20
"""`spark.sql.autoBroadcastJoinThreshold`, as it is unless somebody has set it: bytes of files."""

HASHED = 1e-7
"""Seconds for a row of a hash table: one core makes it."""

CHAINED, AGAIN, BESIDE = 9e-8, 2e-8, 6e-9
"""Seconds of one core for a pair of rows that share a key. Rows come to a hash table in any order, so each step along a
chain is a look at some other place of the memory; what was joined before comes key by key, and walks along the same
chain again, which the cache has. Where rows are sorted, they lie side by side.

A million rows, 500 or 25 of a key (`benchmarks/self_joins.py`, two cores): what comes again within an hour takes 1.5
seconds for 25 million pairs, and the funnel of three steps 1.7 for five million and then 125 million. A join that sorts
100,000 rows of each of two types takes 0.28 seconds longer with 100 keys than with 10,000: 100 million pairs more."""


def seconds(choices: Choices, constants: Calibration | None = None) -> float:
    """Of the statement as it stands."""
    return _OwnJoin(choices.chosen.plan, choices.statistics, constants or calibration()).seconds()


class _OwnJoin(Estimate):
    def seconds(self) -> float:
        query, constants, cores = self.query, self.constants, max(1, self.statistics.cores)
        tests = query.branches[0].equivalences
        rows, joining = 0.0, 0.0
        bound: set[str] = set()
        for variable in query.positive:
            if not bound:
                rows, bound = self.filling(variable), {variable.name}
                continue
            share = self.partners(tests, bound, variable.name)
            newly = bound | {variable.name}
            once = variable.name in query.some
            joining += self.join(rows, variable, share, again=len(bound) > 1, first=once)
            found = self.filling(variable) * share * self.in_time(newly)
            for part in query.predicates:
                if part.variables <= newly and not part.is_simple and not part.variables <= bound:
                    found *= self.selectivity(part)
            rows, bound = rows * (min(1.0, found) if once else found), newly
        for variable in query.negated:
            share = self.agreement(_about(tests, variable.name), 2)
            joining += self.join(rows, variable, share, again=len(bound) > 1, first=True)
        scans = len(query.variables) * self.statistics.events * constants.read
        return constants.stage + scans / cores + joining

    def join(self, rows: float, variable: Variable, share: float, *, again: bool, first: bool) -> float:
        """Seconds of a join with events of which this share has the key of a given row. The rows come from a join
        before it, that is, `again`; or are looked up to the `first` event in time."""
        tests, cores = self.query.branches[0].equivalences, max(1, self.statistics.cores)
        events = self.filling(variable)
        met = events * share
        if first:  # each of them is in time with the same chance
            met = -math.expm1(-met * self.share_of_span) / self.share_of_span
        if self.small(variable):
            return events * HASHED + rows * met * (AGAIN if again else CHAINED) / cores
        # As in a plan, one core may have more of the keys than another.
        even, uneven = (self.hottest(many, cores) if tests else 1.0 / cores for many in (1, 2))
        return (rows + events) * self.joined(len(tests)) * even + rows * met * BESIDE * uneven

    def small(self, variable: Variable) -> bool:
        """Whether Spark makes a hash table of it. It looks at the size of the files, and gives each column that a join
        reads its share; what conditions on single rows leave out it does not know."""
        rows = sum(self.statistics.type(name).events for name in variable.types)
        return file_bytes(rows, self.read(variable)) <= SMALL

    def read(self, variable: Variable) -> Iterator[Attribute]:
        """What a join, or what comes behind it, asks of the variable: single rows have been chosen before."""
        query, name = self.query, variable.name
        asked = [part.condition for part in query.predicates if not part.is_simple]
        asked += [output.value for output in query.returns or ()]
        names = {column.name for each in asked for column in columns(each) if column.table == name}
        places = [place for test in query.branches[0].equivalences for place in (*test.positive, *test.negated)]
        names |= {query.time, *(attribute_of(path) for owner, path in places if owner == name)}
        return (attribute for attribute in variable.attributes.values() if attribute.name in names)

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
