"""Random queries of runs and loops, with events that no two of come at one time."""

from __future__ import annotations

from random import Random
from typing import Any

from random_queries import Case

import sase
from sase.compiler.core.catalog import Catalog

TYPES = "ABCD"
CATALOG = Catalog(types={name: {"ts": "bigint", "id": "int", "v": "int", "number": "bigint"} for name in TYPES})
STRATEGIES = ("SKIP TILL NEXT MATCH", "SKIP TILL NEXT MATCH", "PARTITION CONTIGUITY", "STRICT CONTIGUITY")
REFUSED = (
    "this speaks of each event",
    "must be known when it is there",
    "no event needs to be there",
    "is over before",
    "depends on what is collected",
    "mixes conditions",
    "speaks of 2 negated components",
    "TIMED OUT takes every",
    "TIMED OUT reports sequences",
    "a run that got stuck ends with its window",
)


def events(random: Random, most: int) -> list[dict[str, Any]]:
    count = random.randint(0, most)
    times = sorted(random.sample(range(2 * most), count))
    return [
        {
            "ts": time,
            "type": random.choice(TYPES),
            "id": random.choice([1, 1, 1, 2, None]),
            "v": random.choice([0, 1, 2, 3, 4, None]),
            "number": number,
        }
        for number, time in enumerate(times)
    ]


def run_case(random: Random) -> Case:
    """A query of runs that is not refused."""
    while True:
        query = run_query(random)
        try:
            sase.compile(query, CATALOG)
        except sase.SaseError as error:
            assert any(words in str(error) for words in REFUSED), f"{query}\n{error}"
            continue
        return Case(query, CATALOG, events(random, 14))


def run_query(random: Random) -> str:
    singles, loops, parts = list[str](), list[str](), list[str]()
    for name in "xyzw"[: random.randint(1, 4)]:
        if parts and random.random() < 0.2:
            parts.append(f"!({random.choice(TYPES)} n{name})")
            if random.random() < 0.5:
                singles.append(f"n{name}")
        kind = random.choice([*TYPES, *TYPES, "ANY(A, B)", "ANY(B, C)"])
        sign = random.choice(["", "", "+", "*", "?", "{2}", "{2,}", "{1,2}", "{0,2}"])
        mode = random.choice(["first ", "last "]) if sign == "" and random.random() < 0.1 else ""
        parts.append(f"{mode}{kind}{sign} {name}")
        (loops if sign not in ("", "?") else singles).append(name)
    where = [*(["[id]"] if random.random() < 0.6 else []), *_conditions(random, singles, loops)]
    text = f"EVENT SEQ({', '.join(parts)})"
    if where:
        text += f" WHERE {' AND '.join(where)}"
    if random.random() < 0.6:
        text += f" WITHIN {random.randint(2, 20)}{random.choice(['', '', ' TIMED OUT'])}"
    text += f" {random.choice(STRATEGIES)}"
    text += random.choice(["", "", " AFTER MATCH SKIP PAST LAST ROW", " AFTER MATCH SKIP TO NEXT ROW"])
    return text + random.choice(["", "", "", "", " CONSUME SHARED", " CONSUME EXCLUSIVE"])


def _conditions(random: Random, singles: list[str], loops: list[str]) -> list[str]:
    def value() -> str:
        ways = [f"{name}.v{random.choice(['', '', ' + 1'])}" for name in singles]
        for name in loops:
            function = random.choice(["sum", "avg", "min", "max", "first", "last", "count"])
            ways += [f"{function}({name}.v)", f"{name}[{random.choice([0, 1, -1, -2])}].v"]
        return random.choice(ways)

    found = []
    for _ in range(random.choice([0, 1, 1, 2])):
        sign = random.choice(["<", "<=", ">", ">=", "=", "!="])
        number = random.randint(0, 4)
        ways = [f"{value()} {sign} {number}", f"{value()} {sign} {value()}"]
        ways.append(f"({value()} {sign} {value()} OR NOT {value()} {sign} {number})")
        for name in loops:
            ways += [
                f"{name}.v {sign} {number}",
                f"{name}[i].v {sign} {name}[i-1].v",
                f"{name}.v {sign} {random.choice(['avg', 'max', 'sum', 'count'])}({name}[..i-1].v)",
                f"({name}[i].v {sign} {name}[i-1].v OR {name}.v = {number})",
                f"count({name}) {sign} {random.randint(0, 3)}",
                *(f"{name}.v {sign} {other}.v" for other in singles),
            ]
        found.append(random.choice(ways))
    return found
