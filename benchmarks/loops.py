"""Loops, counts and funnels: what they cost beside a sequence, an identity, and what people write without them.

python -m benchmarks run --only loops

A run under skip till next match is Flink CEP's `followedBy`, and its loop `oneOrMore().greedy()`, which finds more: it
may pass over an event that ends it. A funnel in SQL is the best that we know: one sort by key and time, and for each
step but the last a window that carries the chain of the steps behind it, so that the earliest way on from each first
step is known when it is met.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.data import Stream, type_name
from benchmarks.measure import Contender, Measurement, Race, Result, Scale
from benchmarks.peers import Verbatim
from benchmarks.results import Results
from benchmarks.shape import Shape
from benchmarks.targets import quotient

EVENTS, FEWER = 10_000_000, 2_000_000
ROUNDS, LIMIT = 3, 200.0
STEPS, WITHIN = 5, 100_000


@dataclass(frozen=True)
class NextMatch(Shape):
    """A run under skip till next match; `loop` is the component that comes one or more times, or 0."""

    loop: int = 0

    @property
    def text(self) -> str:
        components = [f"{name}{'+' * (at == self.loop)} {v}" for at, (v, name) in enumerate(self.positives, 1)]
        first, last = self.positives[0][0], self.positives[-1][0]
        return (
            f"EVENT SEQ({', '.join(components)})\nWHERE [{', '.join(self.equivalence)}]\nWITHIN {self.window}\n"
            f"SKIP TILL NEXT MATCH\nRETURN {first}.ts AS first_ts, {last}.ts AS last_ts"
        )


def measurements(scale: Scale) -> Iterator[Measurement]:
    rounds, limit = scale.rounds(ROUNDS), scale.limit(LIMIT)
    keyed = Stream(scale.events(EVENTS), v1=10_000, types=10)
    sequence, loop = NextMatch(window=1_000_000), NextMatch(window=1_000_000, loop=2)
    contenders = [Contender("SEQ", "sase", keyed, sequence), Contender("B+", "sase", keyed, loop)]
    yield Race("loops-next", tuple(contenders), rounds, limit)
    fewer = Stream(scale.events(FEWER), v1=10_000, types=10)
    contenders = [Contender(peer, peer, fewer, loop) for peer in ("sase", "flink_loop")]
    yield Race("loops-flink", tuple(contenders), rounds, limit)
    crowd = Stream(scale.events(EVENTS), v1=100, types=3)
    contenders = [Contender("count", "sase", crowd, COUNT), Contender("identity", "identity", crowd, COUNT)]
    yield Race("loops-count", tuple(contenders), rounds, limit)
    pages = Stream(scale.events(EVENTS), v1=100_000, types=10)
    contenders = [Contender(peer, peer, pages, FUNNEL) for peer in ("sase_funnel", "spark_sql", "duckdb_sql")]
    yield Race("loops-funnel", tuple(contenders), rounds, limit)


COUNT = Verbatim(
    "EVENT SEQ(E1 a, E2 b, E3 c)\nWHERE [attr1]\nWITHIN 250000\nRETURN a.attr1, count(*) AS n\nGROUP BY a.attr1",
    types=("E1", "E2", "E3"),
    columns=("ts", "type", "attr1"),
    key=("attr1",),
)


def _funnel(last: str, pack: str, field: str) -> str:
    """`last` is the nearest value behind a row, `pack` a struct and `field` one of its fields, in a dialect. The steps
    come from the last to the first, each with what follows it."""
    inner = f"SELECT attr1, ts, type FROM events WHERE type IN ({_KINDS})"
    for step in range(STEPS, 1, -1):
        columns = {f"t{step}": "ts", **{f"t{number}": f"t{number}" for number in range(step + 1, STEPS + 1)}}
        own = pack % ", ".join(field % column for column in columns.items())
        found = last % f"CASE WHEN type = '{type_name(step)}' THEN {own} END"
        behind = ", ".join(f"next{step}.{name} AS {name}" for name in columns)
        inner = (
            f"SELECT attr1, ts, type, {behind} FROM (SELECT *, {found} OVER "
            "(PARTITION BY attr1 ORDER BY ts DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) "
            f"AS next{step} FROM ({inner}))"
        )
    levels = "".join(f" WHEN t{step} - ts < {WITHIN} THEN {step}" for step in range(STEPS, 1, -1))
    level = f"max(CASE{levels} ELSE 1 END)"
    # HAVING, as who only counts the rows need not know any level.
    return f"SELECT attr1, {level} AS level FROM ({inner}) WHERE type = 'E1' GROUP BY attr1 HAVING {level} > 0"


_KINDS = ", ".join(f"'{type_name(step)}'" for step in range(1, STEPS + 1))
FUNNEL = Verbatim(
    "",
    sql=_funnel("last(%s, true)", "named_struct(%s)", "'%s', %s"),
    duckdb=_funnel("last_value(%s IGNORE NULLS)", "{%s}", "'%s': %s"),
    types=tuple(type_name(step) for step in range(1, STEPS + 1)),
    key=("attr1",),
    within=WITHIN,
)


# ---- the report ---------------------------------------------------------------------------------


def section(results: Results) -> str:
    """What docs/benchmarks.md says about them; empty where nothing has been measured."""
    lines = [
        *_line(
            results, "loops-next", "B+", "SEQ", "- **A loop**, `SEQ(A a, B+ b, C c)` under skip till next match: "
            "{ratio}× the time of the same without the loop (to reach: 1.5×); {events:,} events, {rows:,} matches."
        ),
        *_line(
            results, "loops-flink", "flink_loop", "sase", "- **Flink CEP's** `oneOrMore().greedy()` takes {ratio}× the "
            "time of the same loop (to reach: 20×); {events:,} events."
        ),
        *_line(
            results, "loops-count", "count", "identity", "- **Counting** 10^12 matches of {events:,} events that are "
            "not built: {ratio}× the time of an identity that sorts them (to reach: 1.2×)."
        ),
        *_line(
            results, "loops-funnel", "spark_sql", "sase_funnel", "- **A funnel** of five steps: the best Spark SQL "
            "that we know takes {ratio}× its time; {events:,} events of 100,000 keys."
        ),
        *_line(results, "loops-funnel", "duckdb_sql", "sase_funnel", "- **The same in DuckDB** takes {ratio}×."),
    ]  # fmt: skip
    return "## Loops, counts and funnels\n\n" + "\n".join(lines) + "\n" if lines else ""


def _line(results: Results, name: str, label: str, base: str, text: str) -> Iterator[str]:
    found: Result | None = results.load(name)
    if found and (ratio := quotient(found, label, base)):
        entry = found["contenders"][label]
        times = ", ".join(
            f"{each} {statistics.median(entry['seconds']):.2f} s"
            for each, entry in found["contenders"].items()
            if entry["seconds"]
        )
        more = "more than " if ratio.least else ""
        said = text.format(ratio=f"{more}{ratio.number:.2f}", events=entry["events"], rows=entry["rows"] or 0)
        yield f"{said} ({times}.)"
