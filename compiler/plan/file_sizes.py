"""How many bytes of files events are taken to be, before anybody has looked at one."""

from __future__ import annotations

from collections.abc import Iterable

from sase.compiler.core.bound import Attribute

STORED = 0.36
"""Bytes of a file for a byte of a row: the million rows of `benchmarks/self_joins.py` take 15.6 MB, and one is 44 bytes
long, as Spark reckons."""

ROW, WIDE, TEXT = 8, 8, 20
"""So reckons Spark: bytes of a row beside its values, of a value, of a text,"""

NARROW = {"DATE": 4, "INT": 4, "FLOAT": 4, "SMALLINT": 2, "TINYINT": 1, "BOOLEAN": 1}
"""and of what is shorter."""


def file_bytes(rows: float, attributes: Iterable[Attribute]) -> float:
    """Of rows that have these attributes, or of what these columns take of them."""
    return rows * STORED * (ROW + sum(map(_width, attributes)))


def _width(attribute: Attribute) -> int:
    kind = attribute.kind.this.name
    return TEXT if kind in ("TEXT", "VARCHAR") else NARROW.get(kind, WIDE)
