"""Aggregates over all matches, in real Spark: those of the judge's matches, whether a match is built or not."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

from brute_force import evaluate
from counts_judge import sequences
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from together import together

import sase
from sase.runtime.pattern import Totals

CATALOG = sase.Catalog(
    types={name: {"ts": "bigint", "id": "bigint", "v": "int", "w": "double", "s": "string"} for name in "ABCN"}
)
SCHEMA = "type string, ts bigint, id bigint, v int, w double, s string"

COUNTED, BUILT = True, False
PATTERNS = {
    "EVENT SEQ(A a, B b, C c) WHERE [id] AND b.v > 1 WITHIN 6": COUNTED,
    "EVENT SEQ(!N n, A a, B b) WHERE [id] WITHIN 5": COUNTED,
    "EVENT SEQ(A a, !N n, B b, C c) WHERE [id] AND a.v < c.v WITHIN 6": BUILT,
    "EVENT SEQ(A a, B b, !N n) WHERE [id] WITHIN 4": BUILT,
    "EVENT AND(A a, B b) WHERE [id] WITHIN 3": BUILT,
}
LOOPS = (
    "EVENT SEQ(A a, B+ b, C c) WHERE [id] WITHIN 6",
    "EVENT SEQ(A a, B{2,} b, !N n, C c) WHERE [id] WITHIN 8",
    "EVENT SEQ(!N n, A a, B* b, C? c) WHERE [id] WITHIN 5",
    "EVENT SEQ(A a, B{1,2} b) WHERE [id]",
)
"""For these the judge takes too long: their matches are those that the kernel is held to, too."""
RUNS = (
    "EVENT SEQ(A a, B+ b, C c) WHERE [id] AND b.v >= a.v WITHIN 40 SKIP TILL NEXT MATCH",
    "EVENT SEQ(A a, B* b, C c) WHERE [id] PARTITION CONTIGUITY",
)
RETURNS = (
    "RETURN a.id, count(*) AS n, count(b.v) AS k, sum(b.v) AS s, avg(b.w) AS m, min(b.s) AS low, max(b.s) AS high, "
    "CAST(count(*) AS double) AS d GROUP BY a.id"
)


def rows(chance: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "type": chance.choices("ABCN", [3, 4, 3, 1])[0],
            "ts": chance.randint(0, 20),
            "id": chance.choice([1, 2, 3, None]),
            "v": chance.choice([None, 0, 1, 2, 3]),
            "w": chance.choice([None, 0.5, 1.5]),
            "s": chance.choice([None, "x", "y", "z"]),
        }
        for _ in range(count)
    ]


def all_at_once(frames: Iterable[tuple[str, DataFrame]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of many DataFrames, by name, in one Spark job."""
    named = [frame.select(F.lit(name).alias("name"), F.to_json(F.struct("*")).alias("row")) for name, frame in frames]
    found: dict[str, list[dict[str, Any]]] = {}
    for name, row in together(named):
        found.setdefault(name, []).append(json.loads(row))
    return found


def test_aggregates_are_those_of_all_matches(spark: SparkSession) -> None:
    chance = random.Random(11)
    events = rows(chance, 90)
    frame = spark.createDataFrame(events, SCHEMA)
    queries = {pattern: sase.compile(f"{pattern} {RETURNS}", CATALOG) for pattern in (*PATTERNS, *LOOPS)}
    for pattern, counted in PATTERNS.items():
        assert ("none is built" in queries[pattern].explain()) == counted, pattern
    apart = [{**event, "ts": at} for at, event in enumerate(events)]  # of runs, no two are simultaneous
    steps = {pattern: sase.compile(f"{pattern} {RETURNS}", CATALOG) for pattern in RUNS}
    found = all_at_once(
        [
            *((pattern, query.run(frame)) for pattern, query in queries.items()),
            *((pattern, query.run(spark.createDataFrame(apart, SCHEMA))) for pattern, query in steps.items()),
        ]
    )
    for pattern in RUNS:
        judged = evaluate(f"{pattern} {RETURNS}", CATALOG, apart)
        assert judged, pattern
        assert sorted(map(shown, found[pattern])) == sorted(map(shown, judged)), pattern
    for pattern in PATTERNS:
        judged = evaluate(f"{pattern} {RETURNS}", CATALOG, events)
        assert judged, pattern
        assert sorted(map(shown, found[pattern])) == sorted(map(shown, judged)), pattern
    for pattern in LOOPS:
        wanted = list(enumerated(queries[pattern].module.PATTERN, events))
        assert wanted, pattern
        assert sorted(map(shown, found[pattern])) == sorted(map(shown, wanted)), pattern


def enumerated(pattern: Totals, events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What all sequences come to, one by one, where an event's type alone tells what it may fill."""
    for key in (1, 2, 3):
        mine = [event for event in events if event["id"] == key]
        bits = [
            pattern.bit(event["type"].lower()) if event["type"].lower() in pattern.variables else 0 for event in mine
        ]
        rows = [(key, event["ts"], bit, 0) for event, bit in zip(mine, bits, strict=True)]
        matches = list(sequences(pattern, rows))
        taken = [mine[row] for match in matches for name, row in match if name == "b"]
        whole, real, text = ([event[name] for event in taken if event[name] is not None] for name in ("v", "w", "s"))
        if matches:
            yield {
                "id": key,
                "n": len(matches),
                "k": len(whole),
                "s": sum(whole) if whole else None,
                "m": sum(real) / len(real) if real else None,
                "low": min(text, default=None),
                "high": max(text, default=None),
                "d": float(len(matches)),
            }


def shown(row: dict[str, Any]) -> str:
    """Without NULL, and with sums of doubles as far as they do not depend on their order."""
    rounded = {name: round(value, 9) if isinstance(value, float) else value for name, value in row.items()}
    return json.dumps({name: value for name, value in rounded.items() if value is not None}, sort_keys=True)


def test_groups_without_a_key_and_slices_and_none_at_all(spark: SparkSession) -> None:
    """2^60 matches; one row where there is no GROUP BY, whatever there is to count; keys that have a match at all."""
    many = [("A", 0, 1)] + [("B", time, 1) for time in range(1, 61)] + [("C", 61, 1), ("A", 3, 2), ("C", 90, 2)]
    frame = spark.createDataFrame([(*event, 1, 0.5, "x") for event in many], SCHEMA)
    texts = {
        "loops": "EVENT SEQ(A a, B+ b, C c) WHERE [id] "
        "RETURN a.id, count(*) AS n, CAST(sum(b.v) AS double) AS s GROUP BY a.id",
        "all": "EVENT SEQ(A a, B b, C c) RETURN count(*) AS n, sum(a.v) AS s",
        "slices": "EVENT SEQ(A a, B b) WITHIN 20 RETURN count(*) AS n, max(b.ts) - min(a.ts) AS span",
        "nothing": "EVENT SEQ(C c, B b, A a) RETURN count(*) AS n, sum(a.v) AS s, 2 * count(*) + 1 AS more",
        "exists": "EVENT SEQ(A a, C c) WHERE [id] RETURN a.id GROUP BY a.id",
        "spark": "EVENT SEQ(A a, C c) WHERE a.ts + c.ts > 60 RETURN a.v + 1 AS key, count(*) AS n GROUP BY a.v + 1",
        "one": "EVENT A a RETURN count(*) AS n GROUP BY ()",
    }
    queries = {name: sase.compile(text, CATALOG) for name, text in texts.items()}
    assert "time slices" in queries["slices"].explain()
    found = all_at_once((name, query.run(frame)) for name, query in queries.items())
    assert found["loops"] == [{"id": 1, "n": 2**60 - 1, "s": float(60 * 2**59)}]
    assert found["all"] == [{"n": 60 + 57 + 60 + 57, "s": 60 + 57 + 60 + 57}]
    assert found["slices"] == [{"n": 19 + 19, "span": 22}]
    assert found["nothing"] == [{"n": 0, "more": 1}]
    assert sorted(row["id"] for row in found["exists"]) == [1, 2]
    assert found["spark"] == [{"key": 2, "n": 4}]
    assert found["one"] == [{"n": 2}]

    more = spark.createDataFrame(
        [("A", 0, 7)] + [("B", time, 7) for time in range(1, 65)] + [("C", 65, 7)], "type string, ts bigint, id bigint"
    )
    counted = "EVENT SEQ(A a, B+ b, C c) WHERE [id] RETURN a.id, {} AS n GROUP BY a.id"
    catalog = sase.Catalog(types={name: {"ts": "bigint", "id": "bigint"} for name in "ABC"})
    exact = sase.compile(counted.format("count(*)"), catalog)
    try:
        with exact.explained():
            exact.run(more).collect()
        raise AssertionError("a count that is too large must fail")
    except sase.SaseRunError as error:
        assert "too many matches of id=7 for a whole number" in str(error)
    real = sase.compile(counted.format("CAST(count(*) AS double)"), catalog)
    assert real.run(more).collect()[0].n == float(2**64)
