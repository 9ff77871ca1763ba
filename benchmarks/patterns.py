"""What is no sequence: events in any order, collected events, roadmaps; and a shop, as people have it.

Seed 003's stream: A-B-C-D in any order, `A = B AND B < C AND C = D`. The share of B events that have an A is set by the
number of values, given how many events of a type a window holds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from benchmarks.data import Shop, Stream, Walks
from benchmarks.measure import Contender, Measurement, Race, Result, Scale
from benchmarks.peers import Verbatim
from benchmarks.results import Results
from benchmarks.targets import quotient
from sase.compiler.plan.roadmap import Partners, parsed, searches

EVENTS = 4_000_000
ROUNDS = 3
LIMIT = 200.0
WINDOW = 4_000
ROADMAPS = {"P11": "(a b c d)", "P12": "((a b)c d)", "P13": "(((a b)c)d)", "P14": "((a b)(c d))"}
SHARES = {0.05: 1_000_000, 0.2: 500_000}
"""Of B events that have an A, and the events of such a stream."""
SIZES = (500_000, 1_000_000, 2_000_000)


def measurements(scale: Scale) -> Iterator[Measurement]:
    rounds, limit = scale.rounds(ROUNDS), scale.limit(LIMIT)
    events = scale.events(EVENTS)
    for length in (3, 4):
        stream = Stream(events, v1=100_000, types=length)
        queries = {name: _of_types(name, length) for name in ("SEQ", "AND")}
        contenders = [Contender(name, "sase", stream, query) for name, query in queries.items()]
        yield Race(f"patterns-and-{length}", tuple(contenders), rounds, limit)
    stream = Stream(events, v1=10_000, types=3)
    collected = {"!": "!(E2 b)", "ALL": "ALL(E2 b)"}
    contenders = [
        Contender(name, "sase", stream, _between(component, "" if name == "!" else ", count(b) AS n"))
        for name, component in collected.items()
    ]
    yield Race("patterns-all", tuple(contenders), rounds, limit)
    for share, number in SHARES.items():
        contenders = tuple(_roadmaps(_values(scale.events(number), share)))
        yield Race(f"patterns-roadmap-{share}", contenders, rounds, scale.limit(LIMIT / 2))
    yield Race("patterns-walks", tuple(_walks(scale)), rounds, scale.limit(LIMIT / 2))
    sizes = [(f"{size // 1000} k", _values(size, 0.05)) for size in map(scale.events, SIZES)]
    contenders = [Contender(label, "sase", stream, JOINED) for label, stream in dict(sizes).items()]
    yield Race("patterns-growth", tuple(contenders), rounds, limit)
    for name, mixed in (("shop", False), ("shop-mixed", True)):
        shop = Shop(scale.events(5_000_000), mixed=mixed)
        contenders = [Contender(peer, peer, shop, ABANDONED) for peer in ("sase", "unsorted", "spark_sql")]
        yield Race(f"patterns-{name}", tuple(contenders), rounds, limit)


def _of_types(operator: str, length: int) -> Verbatim:
    listed = ", ".join(f"E{number} e{number}" for number in range(1, length + 1))
    times = ", ".join(f"e{number}.ts AS e{number}_ts" for number in range(1, length + 1))
    return Verbatim(f"EVENT {operator}({listed})\nWHERE [attr1]\nWITHIN 10000\nRETURN {times}")


def _between(component: str, more: str) -> Verbatim:
    return Verbatim(
        f"EVENT SEQ(E1 a, {component}, E3 c)\nWHERE [attr1]\nWITHIN 10000\nRETURN a.ts AS a_ts, c.ts AS c_ts{more}"
    )


def _values(events: int, share: float) -> Stream:
    of_a_type = WINDOW / 4
    return Stream(events, v2=round(-of_a_type / math.log1p(-share)), types=4)


_VARIABLES = "abcd"
JOINED = Verbatim(
    "EVENT AND(E1 a, E2 b, E3 c, E4 d)\nWHERE a.attr2 = b.attr2 AND b.attr2 < c.attr2 AND c.attr2 = d.attr2\n"
    f"WITHIN {WINDOW}\nRETURN a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts, d.ts AS d_ts",
    sql="SELECT a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts, d.ts AS d_ts FROM "
    + ", ".join(f"events {variable}" for variable in _VARIABLES)
    + " WHERE a.attr2 = b.attr2 AND b.attr2 < c.attr2 AND c.attr2 = d.attr2 AND "
    + " AND ".join(f"{variable}.type = 'E{number}'" for number, variable in enumerate(_VARIABLES, 1))
    + "".join(
        f" AND abs({one}.ts - {other}.ts) < {WINDOW}" for one in _VARIABLES for other in _VARIABLES if one < other
    ),
)


def _roadmaps(stream: Stream) -> Iterator[Contender]:
    yield Contender("chosen", "sase", stream, JOINED)
    for name, roadmap in ROADMAPS.items():
        yield Contender(name, "sase", stream, JOINED, {"roadmap": roadmap})
    yield Contender("spark_sql", "spark_sql", stream, JOINED)


# Seed 003's own pattern of the walks is lost: this one asks for the elapsed times of its square.
_APART = {("a", "b"): 11, ("b", "c"): 15, ("c", "d"): 11}
WALKED = Verbatim(
    "EVENT AND(E1 a, E2 b, E3 c, E4 d)\nWHERE [customer] AND "
    + " AND ".join(f"{x}.ts - {y}.ts <= {m} AND {y}.ts - {x}.ts <= {m}" for (x, y), m in _APART.items())
    + "\nWITHIN 40\nRETURN a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts, d.ts AS d_ts",
    sql="SELECT a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts, d.ts AS d_ts FROM "
    + ", ".join(f"events {variable}" for variable in _VARIABLES)
    + " WHERE "
    + " AND ".join(f"{x}.customer = {y}.customer AND abs({x}.ts - {y}.ts) <= {most}" for (x, y), most in _APART.items())
    + "".join(f" AND {variable}.type = 'E{number}'" for number, variable in enumerate(_VARIABLES, 1))
    + "".join(f" AND abs({one}.ts - {other}.ts) < 40" for one in _VARIABLES for other in _VARIABLES if one < other),
)
WALKS = {"P21": "(a b c d)", "P22": "((a b)c d)", "P23": "((a b)(c d))"}


def _walks(scale: Scale) -> Iterator[Contender]:
    walks = Walks(scale.events(SIZES[-1]))
    yield Contender("chosen", "sase", walks, WALKED)
    for name, roadmap in WALKS.items():
        yield Contender(name, "sase", walks, WALKED, {"roadmap": roadmap})
    yield Contender("spark_sql", "spark_sql", walks, WALKED)


ABANDONED = Verbatim(
    "EVENT SEQ(add_to_cart a, !(purchase b), logout c)\nWHERE [user_id]\nWITHIN 2 hours\n"
    "RETURN a.user_id AS user_id, a.product AS product, a.ts AS added, c.ts AS left_at",
    sql="""
WITH a AS (SELECT user_id, ts, product, unix_micros(ts) div 7200000000 AS bucket
             FROM events WHERE type = 'add_to_cart'),
  b AS (SELECT user_id, ts, explode(array(unix_micros(ts) div 7200000000, unix_micros(ts) div 7200000000 - 1)) AS bucket
        FROM events WHERE type = 'purchase'),
  c AS (SELECT user_id, ts, explode(array(unix_micros(ts) div 7200000000, unix_micros(ts) div 7200000000 - 1)) AS bucket
        FROM events WHERE type = 'logout')
SELECT a.user_id, a.product, a.ts AS added, c.ts AS left_at
FROM a JOIN c ON a.user_id = c.user_id AND a.bucket = c.bucket AND a.ts < c.ts
  AND unix_micros(c.ts) - unix_micros(a.ts) < 7200000000
WHERE NOT EXISTS (
  SELECT 1 FROM b WHERE b.user_id = a.user_id AND b.bucket = a.bucket AND b.ts > a.ts AND b.ts < c.ts)""",
    types=("add_to_cart", "purchase", "logout"),
    columns=("ts", "type", "user_id", "product"),
    key=("user_id",),
)


# ---- the report ---------------------------------------------------------------------------------


def section(results: Results) -> str:
    """What docs/benchmarks.md says about them; empty where nothing has been measured."""
    lines = [
        *_any_order(results),
        *_collected(results),
        *_along_roadmaps(results),
        *_walking(results),
        *_growth(results),
    ]
    return "## Patterns that are no sequences\n\n" + "\n".join(lines) + "\n" if lines else ""


def _any_order(results: Results) -> Iterator[str]:
    for length in (3, 4):
        if (found := results.load(f"patterns-and-{length}")) and (ratio := quotient(found, "AND", "SEQ")):
            ours, other = (_of(found, name) for name in ("AND", "SEQ"))
            yield (
                f"- **AND** of {length} types with `[attr1]`, {ours['events']:,} events, all relevant: "
                f"{ratio.number:.2f}× the time of SEQ, with {ours['rows']:,} and {other['rows']:,} matches "
                "(to reach: 1.5×)."
            )


def _collected(results: Results) -> Iterator[str]:
    if (found := results.load("patterns-all")) and (ratio := quotient(found, "ALL", "!")):
        rows = _of(found, "ALL")["rows"]
        yield (
            f"- **ALL** with `count`: {ratio.number:.2f}× the time of the same query with `!`, with {rows:,} matches, "
            f"and {_of(found, '!')['rows']:,} of the other (to reach: 2×)."
        )


def _along_roadmaps(results: Results) -> Iterator[str]:
    for share in SHARES:
        if not (found := results.load(f"patterns-roadmap-{share}")):
            continue
        done = {label: each for label, each in found["contenders"].items() if each["status"] == "done"}
        times = {label: statistics.median(each["seconds"]) for label, each in done.items()}
        domain = round(-1500 / math.log1p(-share))
        partners = Partners(dict.fromkeys("abcd", 1500.0), {edge: _chance(edge, domain) for edge in _EDGES})
        expected = {n: searches(parsed(road, "abcd"), _EDGES, partners) / 1500 for n, road in ROADMAPS.items()}
        each = ", ".join(f"{n} {times[n]:.2f} s ({expected[n]:.2f} N searches)" for n in ROADMAPS if n in times)
        text = f"- **Roadmaps** of seed 003, sel {share}, {done['chosen']['events']:,} events, W = {WINDOW:,}: {each}"
        yield text + _against_join(found, times["chosen"])


def _walking(results: Results) -> Iterator[str]:
    if found := results.load("patterns-walks"):
        done = {label: each for label, each in found["contenders"].items() if each["status"] == "done"}
        times = {label: statistics.median(each["seconds"]) for label, each in done.items()}
        each = ", ".join(f"{name} {times[name]:.2f} s" for name in WALKS if name in times)
        text = (
            f"- **RFID walks** of seed 003, {done['chosen']['events']:,} readings of {Walks(0).customers:,} customers"
        )
        yield f"{text}: {each}{_against_join(found, times['chosen'])}"


def _against_join(found: Result, chosen: float) -> str:
    text = f"; chosen {chosen:.2f} s"
    if rival := quotient(found, "spark_sql", "chosen"):
        text += f"; Spark SQL's join takes {'more than ' if rival.least else ''}{rival.number:.1f}× (to reach: 10×)"
    return text + "."


_EDGES = [("a", "b"), ("b", "c"), ("c", "d")]


def _chance(edge: tuple[str, str], domain: int) -> float:
    return 0.5 if edge == ("b", "c") else 1 / domain


def _growth(results: Results) -> Iterator[str]:
    if found := results.load("patterns-growth"):
        times = {label: statistics.median(_of(found, label)["seconds"]) for label in found["contenders"]}
        listed = ", ".join(f"{label} {seconds:.2f} s" for label, seconds in times.items())
        yield f"- **Growth** of the same with the stream, at one window: {listed}."


def _of(found: Result, label: str) -> Result:
    entry: Result = found["contenders"][label]
    return entry
