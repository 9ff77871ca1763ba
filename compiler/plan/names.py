"""The names of our own columns: one place gives them out, for batch and for streams."""

from __future__ import annotations

from collections.abc import Iterable

ROLES = (
    "time",
    "states",
    "slice",
    "length",
    "bucket",
    "end",
    "since",
    "reason",
    "record",
    "clock",
    "code",
    "started",
    "detected",
    "candidate",
    "group",
    "total",
)
"""What a job may need a column for, whatever the query. Each has its name before any variable asks for one."""


class Names:
    """Gives out names that are neither a name of the user nor given out before, in any case, as Spark compares names.

    A name of ours is an underscore and what it stands for; where that is taken, more underscores.
    """

    def __init__(self, users: Iterable[str]) -> None:
        self._taken = {name.lower() for name in users}
        self._prefix = "_"
        while any(name.startswith(self._prefix) for name in self._taken):
            self._prefix += "_"
        self.roles = {role: self.fresh(role) for role in ROLES}

    def fresh(self, stem: str) -> str:
        return self.prefix_for([stem]) + stem

    def prefix_for(self, stems: Iterable[str]) -> str:
        """What makes free names of all the stems; they are taken then."""
        stems, prefix = list(stems), self._prefix
        while any((prefix + stem).lower() in self._taken for stem in stems):
            prefix += "_"
        self._taken |= {(prefix + stem).lower() for stem in stems}
        return prefix
