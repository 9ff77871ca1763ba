"""The kernel of funnels finds what the judge finds, however its events are cut into chunks."""

from __future__ import annotations

import random

import funnel_judge
import pyarrow as pa
import pytest
from effort import tries

from sase.runtime.operator.matcher import Task
from sase.runtime.operator.partition import run
from sase.runtime.pattern import Compare, Furthest, Negated
from sase.runtime.ssc import check_pattern

Rows = list[dict[str, int]]


def found(pattern: Furthest, rows: Rows, jit: bool, chunk_rows: int, code: bool) -> dict[int, list[int | None]]:
    """By key, the numbers of the events."""
    task = Task(
        pattern=pattern,
        by=("key",),
        time="time",
        order="seq",
        states="states",
        emit=tuple((variable, ("number", "key")) for variable in pattern.positive),
        batch_rows=3,
        chunk_rows=chunk_rows,
        jit=jit,
        code="key" if code else None,
    )
    ordered = rows if code else sorted(rows, key=lambda row: (row["key"], row["time"], row["seq"]))
    batches = pa.Table.from_pylist(ordered).to_batches(max_chunksize=5)
    answer = {}
    for batch in run(task, iter(batches)):
        for row in batch.to_pylist():
            first, *rest = pattern.positive
            others = [row[name] and row[name]["number"] for name in rest]
            answer[row[f"{first}.key"]] = [row[f"{first}.number"], *others]
    return answer


@pytest.mark.parametrize("jit", [True, False])
def test_random_funnels(jit: bool) -> None:
    chance = random.Random(17)
    levels = set()
    for _ in range(tries(150 if jit else 50)):
        steps = "abcd"[: chance.randint(1, 4)]
        gaps = [(f"n{k}", steps[k]) for k in range(len(steps) - 1) if chance.random() < 0.3]
        within = chance.choice([None, 3, 6, 20])
        pattern = Furthest(
            tuple(steps),
            tuple(Negated(name, step, steps[steps.index(step) + 1]) for name, step in gaps),
            within=within,
        )
        rows: Rows = []
        for number in range(chance.randint(1, 40)):
            fills = [name for name in pattern.variables if chance.random() < (0.2 if name[0] == "n" else 0.4)]
            rows.append(
                {
                    "number": number,
                    "key": chance.randint(0, 2),
                    "time": chance.randint(0, 15),
                    "seq": chance.randint(0, 1),
                    "states": sum(pattern.bit(name) for name in fills),
                }
            )
        expected = {}
        for key in range(3):
            mine = [row for row in rows if row["key"] == key]
            events = [
                funnel_judge.Event(
                    (row["time"], row["seq"]),
                    row["time"],
                    frozenset(name for name in pattern.variables if row["states"] & pattern.bit(name)),
                )
                for row in mine
            ]
            if chain := funnel_judge.furthest(events, steps, within, gaps):
                expected[key] = [events[number].place for number in chain]
                levels.add(len(chain))
        for chunk_rows, code in ((1000, False), (4, False), (1000, True)):
            answer = found(pattern, rows, jit, chunk_rows, code)
            places = {
                key: [(rows[number]["time"], rows[number]["seq"]) for number in chain if number is not None]
                for key, chain in answer.items()
            }
            assert places == expected
    assert levels == {1, 2, 3, 4}


def test_a_chain_is_not_mixed_with_another() -> None:
    """The second `a` starts later, but its chain gets no further than `b`: the times of `c` are of the first."""
    pattern = Furthest(("a", "b", "c"), within=10)
    events = [("a", 0), ("b", 1), ("a", 2), ("c", 3), ("b", 4)]
    rows = [
        {"number": i, "key": 0, "time": time, "seq": 0, "states": pattern.bit(name)}
        for i, (name, time) in enumerate(events)
    ]
    assert found(pattern, rows, True, 100, False) == {0: [0, 1, 3]}


def test_what_it_cannot_do_is_refused() -> None:
    emit = {"a": ["time"]}
    with pytest.raises(ValueError, match="no comparisons"):
        check_pattern(Furthest(("a", "b"), where=((Compare("a", "v", "=", "b", "v"),),)), emit)
    with pytest.raises(ValueError, match="between two others"):
        check_pattern(Furthest(("a", "b"), (Negated("n", "b", None),), within=5), emit)
