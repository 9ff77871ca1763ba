"""Counts, sums and least values of all sequences equal those of the sequences, one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from counts_judge import Row, sequences
from effort import tries

from sase.runtime.kernels.machine import machine
from sase.runtime.kernels.products import EMPTY, NONE, folded
from sase.runtime.kernels.sequences import Events
from sase.runtime.operator.totals import brought_together
from sase.runtime.pattern import Negated, Total, Totals


def random_pattern(chance: random.Random) -> Totals:
    names = "abcd"[: chance.randint(1, 4)]
    loops = {}
    for name in names:
        if chance.random() < 0.3:
            loops[name] = chance.choice([(1, None), (2, None), (0, None), (0, 1), (1, 2), (0, 2), (2, 3)])
    if all(loops.get(name, (1, 1))[0] == 0 for name in names):
        loops.pop(names[0])
    within = chance.choice([None, 4, 9])

    def must(name: str) -> bool:
        return loops.get(name, (1, 1))[0] > 0

    negated = [
        Negated(f"n{at}", names[at], names[at + 1])
        for at in range(len(names) - 1)
        if chance.random() < 0.3 and must(names[at]) and must(names[at + 1])
    ]
    if within and must(names[0]) and chance.random() < 0.2:
        negated.append(Negated("n", None, names[0]))
    return Totals(tuple(names), tuple(negated), within=within, loops=loops)


def events_of(rows: Sequence[Row], fresh: int = 0) -> Events:
    groups, times = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    new = np.append(True, groups[1:] != groups[:-1])
    return Events(
        position=np.cumsum(new | np.append(True, times[1:] != times[:-1])),
        time=times,
        states=np.array([row[2] for row in rows]),
        groups=np.append(np.flatnonzero(new), len(rows)),
        terms=np.zeros((0, len(rows)), np.int64),
        fresh=fresh,
        stop=len(rows),
    )


@pytest.mark.parametrize("jit", [True, False])
def test_random_patterns(jit: bool) -> None:
    chance = random.Random(17)
    seen = 0
    for _ in range(tries(300 if jit else 60)):
        pattern = random_pattern(chance)
        few = any(most is None for _, most in pattern.loops.values())
        rows = sorted(
            (
                chance.randint(0, 1),
                chance.randint(0, 12),
                sum(pattern.bit(name) for name in pattern.variables if chance.random() < (0.2 if "n" in name else 0.4)),
                chance.randint(-5, 5),
            )
            for _ in range(chance.randint(1, 14 if few else 20))
        )
        fresh = chance.choice([0, 0, chance.randint(0, len(rows))])
        events = events_of(rows, fresh)
        name = chance.choice(pattern.positive)
        of = np.array([-1, pattern.positive.index(name)])
        values = np.array([row[3] for row in rows])
        made = machine(pattern)
        whole, wrong = folded(made, events, np.array([values * 0, values]), of, jit=jit)
        real, _ = folded(made, events, np.array([values * 0, values], float), of, jit=jit)
        least, _ = folded(made, events, values[None, :], of[1:], least=True, jit=jit)
        assert wrong == -1
        for at, (begin, end) in enumerate(zip(events.groups[:-1], events.groups[1:], strict=True)):
            mine = rows[begin:end]
            matches = [match for match in sequences(pattern, mine) if begin + match[-1][1] >= fresh]
            taken = [mine[row][3] for match in matches for variable, row in match if variable == name]
            seen += bool(matches)
            assert whole[at].tolist() == [len(matches), sum(taken)], (pattern, mine)
            assert real[at].tolist() == whole[at].tolist()
            assert least[at, 0] == min(taken, default=EMPTY if matches else NONE)
    assert seen > 30


def test_more_matches_than_could_be_built() -> None:
    """2^60 of them, and what is too many for a whole number."""
    pattern = Totals(("a", "b", "c"), loops={"b": (1, None)})
    one = np.array([[0] * 65])

    def counted(loop: int, kind: type = int) -> tuple[float, int]:
        bits = [1, *[2] * loop, 4]
        rows = [(0, time, bit, 0) for time, bit in enumerate(bits)]
        totals, wrong = folded(machine(pattern), events_of(rows), one[:, : len(rows)].astype(kind), np.array([-1]))
        return totals[0, 0], wrong

    assert counted(60) == (2**60 - 1, -1)
    assert counted(63)[1] == 0
    assert counted(63, float) == (float(2**63), -1)


def test_sums_that_do_not_fit() -> None:
    """Simultaneous events are added up before they are multiplied; nothing times more than there are numbers is 0."""
    pattern = Totals(("a", "b"), loops={"b": (1, None)})

    def summed(rows: Sequence[Row], kind: type = int) -> tuple[list[float], int]:
        values = np.array([[0] * len(rows), [row[3] for row in rows]], kind)
        totals, wrong = folded(machine(pattern), events_of(rows), values, np.array([-1, 1]))
        return totals[0].tolist(), wrong

    half = 2**62
    assert summed([(0, 0, 1, 0), (0, 1, 2, half), (0, 1, 2, 1 - half)]) == ([2, 1], -1)
    assert summed([(0, 0, 1, 0), (0, 1, 2, half), (0, 1, 2, half)])[1] == 0
    assert summed([(0, 0, 1, 0), (0, 1, 2, half), (0, 1, 2, half), (0, 1, 2, -half)])[1] == 0
    many = [(0, 0, 1, 0), *((0, time, 2, 0) for time in range(1, 1200))]
    assert summed(many, float) == ([float("inf"), 0.0], -1)


def test_a_window_that_slides_over_many_events() -> None:
    """Both stacks are used up again and again; the count of pairs is known."""
    times = np.sort(np.random.default_rng(3).integers(0, 5000, 3000))
    rows = [(0, int(time), 1 + at % 2, 0) for at, time in enumerate(times)]
    first, second = times[0::2], times[1::2]
    pairs = sum(int(np.searchsorted(first, t, "left") - np.searchsorted(first, t - 50, "right")) for t in second)
    pattern = Totals(("a", "b"), within=50)
    totals, _ = folded(machine(pattern), events_of(rows), np.zeros((1, 3000), int), np.array([-1]))
    assert totals.tolist() == [[pairs]]


def test_totals_of_micro_batches_are_brought_together_by_key() -> None:
    """What has no value says nothing of the least and the greatest; a key of which nothing has a value has none."""
    totals = (Total("n", "count"), Total("least", "min", "a", "v"), Total("most", "max", "a", "v"))
    pattern = Totals(("a",), shown=("id",), totals=totals)
    columns = {"id": [1, 2, 1, 1, 2], "n": [1, 1, 2, 3, 1], "least": [None, None, 7, 5, None]}
    parts = pa.table({**columns, "most": [None, None, 7, 9, None]}).cast(
        pa.schema([(name, pa.int64()) for name in ("id", "n", "least", "most")])
    )
    together, place = brought_together(pattern, parts)
    found = {row["id"]: row for row in together.to_pylist()}
    assert found == {1: {"id": 1, "n": 6, "least": 5, "most": 9}, 2: {"id": 2, "n": 2, "least": None, "most": None}}
    assert [together.column("id")[row].as_py() for row in place] == columns["id"]
