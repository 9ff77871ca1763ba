"""What can be chosen about a plan besides which rules apply. None of it changes the answer.

`auto` leaves a choice to the optimiser; any other value forces it.
"""

from __future__ import annotations

from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import OptionError, did_you_mean

CONSTRUCTIONS = ("ais", "basic")
EQUIVALENCES = ("auto", "composite", "pais", "multi-pais", "selection")
NEGATIONS = ("auto", "stack", "anti-join")
PLACES = ("auto", "after", "before")
PARALLELISMS = ("auto", "files", "key", "time", "both")
SORTS = ("auto", "worker", "spark")
SCANS = ("auto", "worker", "spark")
TELLINGS = ("auto", "slices", "before")


@dataclass(frozen=True)
class Strategy:
    construction: str = "ais"
    """`ais`: active instance stacks. `basic`: the paper's baseline, which looks at every event of the window."""
    equivalence: str = "auto"
    """Where equivalence tests are evaluated. `composite`: all of them partition the stacks. `pais`: one does, the
    others are checked in construction (dynamic filtering). `multi-pais`: one does, the others filter transitions in
    the scan, and selection has the last word. `selection`: none is pushed down. `pais:id` and `multi-pais:id` say
    which attribute partitions."""
    negation: str = "auto"
    """`stack`: in the kernel. `anti-join`: afterwards, on time buckets."""
    negation_place: str = "auto"
    """An anti-join `after` the selection, or `before` it."""
    bucket: int | str = "auto"
    """The length of an anti-join's time buckets: `2 hours`, or a number for an integer time column."""
    parallel: str = "auto"
    """What the shuffle goes by: the `key`, `time` slices, or `both`. `files`: by the key, but not for what large files
    in the order of time have in one place already."""
    slice: int | str = "auto"
    """`auto`, `off`, or the length of a time slice: `8 days`, or a number for an integer time column."""
    roadmap: str = "auto"
    """Where a pattern is no sequence: in which blocks its events are brought together, `((a b)(c d))`."""
    sort: str = "auto"
    """Who sorts the events of a partition by key and time: the Python `worker` that runs the kernel, or `spark`."""
    scan: str = "auto"
    """Who reads what large files in the order of time have: the `worker`, wherever it can, or `spark`."""
    arrivals: str = "auto"
    """Where `avg*` is found out: in the kernel's worker, whose events come by time `slices`, or `before` all else."""
    partitions: int | None = None
    """Number of shuffle partitions; None lets Spark choose by size."""

    def __post_init__(self) -> None:
        _one_of("construction", self.construction, CONSTRUCTIONS)
        _one_of("equivalence", self.equivalence_kind, EQUIVALENCES)
        _one_of("negation", self.negation, NEGATIONS)
        _one_of("negation_place", self.negation_place, PLACES)
        _one_of("parallel", self.parallel, PARALLELISMS)
        _one_of("sort", self.sort, SORTS)
        _one_of("scan", self.scan, SCANS)
        _one_of("arrivals", self.arrivals, TELLINGS)
        if self.equivalence_attribute is not None and self.equivalence_kind not in ("pais", "multi-pais"):
            raise OptionError(f"equivalence={self.equivalence_kind} takes no attribute: pais and multi-pais do")
        if self.partitions is not None and (not isinstance(self.partitions, int) or self.partitions < 1):
            raise OptionError("the number of partitions is a whole number, at least 1")

    @property
    def equivalence_kind(self) -> str:
        return self.equivalence.partition(":")[0]

    @property
    def equivalence_attribute(self) -> str | None:
        return self.equivalence.partition(":")[2] or None


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise OptionError(f"{option} is one of {', '.join(known)}, not {value!r}")


def parse_strategy(text: str) -> dict[str, str | int]:
    """`equivalence=multi-pais,construction=basic` as options of `compile`."""
    options: dict[str, str | int] = {}
    known = tuple(Strategy.__dataclass_fields__)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"a strategy is written NAME=VALUE, and {part!r} is not: names are {', '.join(known)}")
        if name not in known:
            raise OptionError(f"there is no strategy {name!r}: {did_you_mean(name, known, 'names are')}")
        options[name] = int(value) if name == "partitions" and value.isdecimal() else value
    return options
