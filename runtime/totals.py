"""What the workers have added up, brought together by Spark."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from sase.runtime.events import quoted
from sase.runtime.pattern import Total, Totals

LARGEST = 2**63 - 1


def merged(pattern: Totals) -> list[Column]:
    """The totals of a group, of those of its parts. Of no part at all, counts are 0."""
    return [_merged(total).alias(total.name) for total in pattern.totals]


def _merged(total: Total) -> Column:
    column = F.col(quoted(total.name))
    match total.kind:
        case "min":
            return F.min(column)
        case "max":
            return F.max(column)
        case _ if total.real:
            return F.coalesce(F.sum(column), F.lit(0.0))
    # Whatever Spark does with a sum that is too large, this fails.
    exact = F.coalesce(F.sum(column.cast("decimal(19,0)")), F.lit(0))
    what = "there are too many matches for a whole number" if total.kind == "count" else "a sum is too large"
    failed = F.raise_error(F.lit(f"{what}: CAST({total.kind}(…) AS double) counts in doubles")).cast("bigint")
    return F.when(exact.between(-LARGEST, LARGEST), exact.cast("bigint")).otherwise(failed)
