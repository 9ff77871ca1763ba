"""How many rows passed a point of a plan, by Spark's own account of its filters.

`observe` looks at each row between two pieces of generated code, which costs more than reading the row does. A filter
is part of that code, and Spark counts what it lets through. So events pass a filter that holds for all of them, and
then one for each flaw: the differences are the counts. A filter is found in the plan that was executed by a number of
its own: it says that the id of a row, which is never negative, is above that negative number. Spark does not know that
this is so, and as such an id depends on the rows before, it moves no other condition past the filter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from random import SystemRandom
from typing import Any

from pyspark.sql import DataFrame

from sase.runtime.io.plans import execution, size

LARGE = 32 << 20
"""Bytes of files below which a look at the types of the events takes longer than observing all of them."""

_READING = re.compile(r"(Project|Filter|SubqueryAlias|View|CollectMetrics|Relation\b.* (parquet|orc)$)")


def is_columnar(frame: DataFrame) -> bool:
    """Whether it reads files in which one column can be looked at without the others, and does nothing more."""
    plan = execution(frame).analyzed().toString().strip().split("\n")
    return all(_READING.match(line.lstrip(" :+-")) for line in plan)


def is_large_and_columnar(frame: DataFrame) -> bool:
    return is_columnar(frame) and size(frame) >= LARGE


class Meter:
    """Counts events by the first flaw that they have, once an action has read them."""

    def __init__(self, flaws: Mapping[str, str]) -> None:
        self._flaws = flaws
        self._first = SystemRandom().getrandbits(60) + 10
        self._elsewhere: Callable[[], dict[str, int] | None] = lambda: None

    @property
    def numbers(self) -> range:
        return range(self._first, self._first + 1 + len(self._flaws))

    def watched(self, events: DataFrame) -> DataFrame:
        """The events without flaws. Nothing goes with the first filter, so that no condition is moved below it."""
        conditions = ["", *(f"NOT ({flaw}) AND " for flaw in self._flaws.values())]
        for condition, number in zip(conditions, self.numbers, strict=True):
            events = events.where(f"{condition}monotonically_increasing_id() > -{number}")
        return events

    def elsewhere(self, counted: Callable[[], dict[str, int] | None]) -> str:
        """For events without flaws that are counted by others: a condition that always holds, for the rows that stand
        for them in a plan, and has the number by which it is known. (As a text, which is no part of the code that Spark
        makes of a plan: with a number in it, it would be compiled anew in every run. There are few of these rows.)"""
        self._elsewhere = counted
        return f"CAST(monotonically_increasing_id() AS string) <> '-{self._first}'"

    def is_in(self, plan: str) -> bool:
        return str(self._first) in plan

    def seen(self, plan: Any) -> dict[str, int] | None:
        """`all` and the flaws, with their counts; None if the plan that was executed has lost the filters."""
        if (counted := self._elsewhere()) is not None:
            return {**counted, **dict.fromkeys(self._flaws, 0)}
        passed: dict[int, int] = {}
        for filter in _filters(plan):
            for found in re.findall(r"-(\d{2,19})L?\b", filter.condition().toString()):
                if int(found) in self.numbers:
                    rows = filter.metrics().apply("numOutputRows").value()
                    passed[int(found)] = max(rows, passed.get(int(found), 0))  # a plan may read the events twice
        if passed.keys() != set(self.numbers):
            return None
        rows = [passed[number] for number in self.numbers]
        return {"all": rows[0]} | {words: a - b for words, a, b in zip(self._flaws, rows, rows[1:], strict=False)}


def _filters(plan: Any) -> Iterator[Any]:
    """The filters of an executed plan, wherever its parts are kept."""
    match plan.getClass().getSimpleName():
        case "FilterExec":
            yield plan
            yield from _filters(plan.child())
        case "AdaptiveSparkPlanExec":
            yield from _filters(plan.executedPlan())
        case "InMemoryTableScanExec":
            yield from _filters(plan.relation().cachedPlan())
        case "CommandResultExec":
            yield from _filters(plan.commandPhysicalPlan())
        case name if name.endswith("QueryStageExec"):
            yield from _filters(plan.plan())
        case _:
            children = plan.children()
            for at in range(children.size()):
                yield from _filters(children.apply(at))
