"""The text of a shuffle, which brings the events of a key together."""

from __future__ import annotations

from sase.compiler.core.scalars import column_sql
from sase.compiler.emit.quote import literal
from sase.compiler.plan.physical import Shuffle


def by_key_alone(shuffle: Shuffle) -> bool:
    return bool(shuffle.by) and shuffle.stays is None


def shuffled(shuffle: Shuffle) -> str:
    if not shuffle.by:
        return f"events.repartition({shuffle.partitions})"
    keys = ", ".join(literal(column_sql(name)) for name in shuffle.by)
    partitions = f", partitions={shuffle.partitions}" if shuffle.partitions else ""
    return f"by_key(events, {keys}{partitions})"
