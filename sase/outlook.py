"""How long a query is expected to take, where that is so long that it should be said before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sase.compiler.plan.cost import cost
from sase.compiler.plan.counting import why_enumerated
from sase.compiler.plan.statistics import DEFAULT_WINDOWS
from sase.runtime.io.report import duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sase.api import Query
    from sase.compiler.plan.statistics import Statistics
    from sase.events import Frames

HOUR = 3600.0
WORTH_A_LOOK = HOUR / 100
"""Seconds for the events that are assumed without statistics: from here on, the tables are asked for their size."""
EVENT_BYTES = 64
"""What an event takes in a file, more or less."""
UNKNOWN = 1 << 60
"""From here on, a size is Spark's way to say that it has no idea."""


def warning(query: Query, tables: Callable[[], Frames]) -> str | None:
    """Of hours, by the cost model. Without statistics, the sizes of the tables tell how many events there are, and the
    stated default how many windows they are spread over, which is then said."""
    choices, bound = query.compiled.choices, query.compiled.query
    if bound.furthest or (bound.grouped and why_enumerated(choices.chosen.plan) is None):
        return None  # no more than one sequence per key is built, whatever the number of matches
    statistics: Statistics | None = choices.statistics
    if not choices.measured:
        if choices.chosen.cost.seconds < WORTH_A_LOOK:
            return None
        statistics = _scaled(choices.statistics, sum(_size(frame) for _, frame in tables()) / EVENT_BYTES)
    if statistics is None or (expected := cost(choices.chosen.plan, statistics)).seconds < HOUR:
        return None
    missing = [] if bound.within else ["WITHIN"]
    missing += [] if choices.chosen.plan.scan.partition else ["an equivalence test such as [id]"]
    advice = f"; {' or '.join(missing)} would bound it" if missing else ""
    spread = "" if choices.measured or not bound.within else f", spread over {DEFAULT_WINDOWS:.0f} windows,"
    better = "" if not spread else "; `sase statistics` tells how they are spread"
    return (
        f"by the cost model, about {statistics.events:,.0f} events{spread} take {duration(expected.seconds)} and give "
        f"{expected.matches:,.0f} matches{advice}{better}"
    )


def _size(frame: DataFrame) -> int:
    """Bytes, by Spark's own estimate, which reads nothing. Spark Connect keeps it to itself."""
    from sase.runtime.io.plans import size

    return UNKNOWN if getattr(frame, "_jdf", None) is None else size(frame)


def _scaled(statistics: Statistics, events: float) -> Statistics | None:
    if events * EVENT_BYTES >= UNKNOWN:
        return None
    share = events / statistics.events
    types = {name: replace(known, events=known.events * share) for name, known in statistics.types.items()}
    return replace(statistics, events=events, types=types)
