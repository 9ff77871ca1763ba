"""The kernel and the worker around it find what a nested loop over plain Python rows finds."""

from __future__ import annotations

import datetime as dt
import operator
import random
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from sase.runtime import executors
from sase.runtime.errors import SaseRunError
from sase.runtime.kernels import sequences as kernel
from sase.runtime.kernels.encode import encode_pattern
from sase.runtime.kernels.sequences import Counters, Events, new_stacks, scan, sequences
from sase.runtime.operator import construction, matcher, partition
from sase.runtime.operator.matcher import Task, int64s
from sase.runtime.operator.partition import Partition, run
from sase.runtime.pattern import Atom, Clause, Combination, Compare, Holds, Negated, Pattern
from sase.runtime.ssc import Options, match_schema, scan_and_construct, structs

Row = Mapping[str, Any]
Match = tuple[int, ...]

# --- the nested loop -------------------------------------------------------------------------------------------------

COMPARE = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def is_true(atom: Atom, bound: Mapping[str, Row]) -> bool:
    match atom:
        case Holds():
            return bound[atom.variable][atom.column] is True
        case Compare():
            left, right = bound[atom.left][atom.left_column], bound[atom.right][atom.right_column]
            return left is not None and right is not None and COMPARE[atom.op](left, right)


def all_true(clauses: Sequence[Clause], bound: Mapping[str, Row]) -> bool:
    return all(any(is_true(atom, bound) for atom in clause) for clause in clauses)


def nested_loop(pattern: Pattern, rows: Sequence[Row]) -> Iterator[Match]:
    """The numbers of the rows of every match."""

    def filling(variable: str) -> list[Row]:
        return [row for row in rows if row["states"] & pattern.bit(variable)]

    def before(a: Row, b: Row) -> bool:
        return a["key"] == b["key"] and (a["time"], a["seq"]) < (b["time"], b["seq"])

    def forbidden(component: Negated, chosen: Sequence[Row]) -> bool:
        bound = dict(zip(pattern.positive, chosen, strict=True))
        first, last = chosen[0], chosen[-1]
        for row in filling(component.variable):
            if component.after is None:
                between = before(row, first) and row["time"] > last["time"] - pattern.within
            elif component.before is None:
                between = before(last, row) and row["time"] < first["time"] + pattern.within
            else:
                between = before(bound[component.after], row) and before(row, bound[component.before])
            if between and all_true(component.where, {**bound, component.variable: row}):
                return True
        return False

    def extended(chosen: tuple[Row, ...]) -> Iterator[Match]:
        if len(chosen) < len(pattern.positive):
            for row in filling(pattern.positive[len(chosen)]):
                if not chosen or before(chosen[-1], row):
                    yield from extended((*chosen, row))
            return
        windowed = pattern.within is not None and (pattern.window_in_scan or pattern.window_in_construction)
        if windowed and chosen[-1]["time"] - chosen[0]["time"] >= pattern.within:
            return
        if not all_true(pattern.where, dict(zip(pattern.positive, chosen, strict=True))):
            return
        if not any(forbidden(component, chosen) for component in pattern.negated):
            yield tuple(row["number"] for row in chosen)

    yield from extended(())


# --- running the worker ----------------------------------------------------------------------------------------------

SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "key": pa.string(),
        "time": pa.int64(),
        "seq": pa.int32(),
        "states": pa.int64(),
        "m": pa.int64(),
        "n": pa.int16(),
        "s": pa.string(),
        "f": pa.float64(),
        "p": pa.bool_(),
    }
)


def rows_of(*events: str, pattern: Pattern, keys: Sequence[str] | None = None, **columns: Sequence[Any]) -> list[Row]:
    """Events such as "a1": an event that fills `a`, at time 1."""
    return [
        dict.fromkeys(SCHEMA.names)
        | {"number": i, "key": keys[i] if keys else "k", "time": int(event[1:]), "seq": 0}
        | {"states": pattern.bit(event[0]) if event[0] in pattern.variables else 0}
        | {name: values[i] for name, values in columns.items()}
        for i, event in enumerate(events)
    ]


def task_for(pattern: Pattern, **changes: Any) -> Task:
    emit = tuple((variable, ("number",)) for variable in pattern.positive)
    task = Task(pattern, ("key",), "time", "seq", "states", emit, batch_rows=64, chunk_rows=64, jit=True)
    return replace(task, **changes)


def batches_of(rows: Sequence[Row], size: int = 10_000) -> list[pa.RecordBatch]:
    return pa.Table.from_pylist(list(rows), SCHEMA).to_batches(max_chunksize=size)


def found(task: Task, rows: Sequence[Row], size: int = 10_000) -> list[Match]:
    """The matches in the order of the worker."""
    matches = []
    for batch in run(task, iter(batches_of(rows, size))):
        assert 0 < batch.num_rows <= task.batch_rows
        matches += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return matches


# --- any pattern, any events, cut anywhere ---------------------------------------------------------------------------


@st.composite
def clauses(draw: st.DrawFn, variables: Sequence[str]) -> tuple[Clause, ...]:
    variable = st.sampled_from(variables)
    comparable = st.sampled_from([("m", "n"), ("m", "m"), ("n", "m"), ("s", "s"), ("f", "f")])
    compare = st.builds(
        lambda left, columns, op, right: Compare(left, columns[0], op, right, columns[1]),
        variable, comparable, st.sampled_from(list(COMPARE)), variable,
    )  # fmt: skip
    atom = compare | st.builds(Holds, variable, st.just("p"))
    size = draw(st.sampled_from([0, 0, 1, 2]))
    return tuple(tuple(draw(st.lists(atom, min_size=1, max_size=2))) for _ in range(size))


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    positive = tuple("abcd"[: draw(st.sampled_from([1, 2, 2, 3, 3, 4]))])
    within = draw(st.none() | st.integers(1, 9))
    gaps = list(zip((None, *positive), (*positive, None), strict=True))
    if within is None:
        gaps = gaps[1:-1]
    places = draw(st.lists(st.sampled_from(gaps), max_size=3)) if gaps else []
    named = zip("xyz"[: len(places)], places, strict=True)
    negated = tuple(Negated(name, *place, where=draw(clauses((name, *positive)))) for name, place in named)
    flags = [draw(st.booleans()) for _ in range(3)]
    return Pattern(positive, negated, draw(clauses(positive)), within, *flags)


VALUES: dict[str, Sequence[Any]] = {
    "m": (None, 0, 1, 2),
    "n": (None, 0, 1, 2),
    "s": (None, "", "a", "\U00010000", "\uffff"),
    "f": (None, -2.5, -1.5, -0.0, 0.0, 2.0),
    "p": (None, False, True),
}


def random_rows(pattern: Pattern | Combination, size: int, seed: int) -> list[Row]:
    """Rows in order. Most fill one state, and only columns that a predicate reads hold values."""
    rng = random.Random(seed)
    bits = [1 << i for i in range(len(pattern.variables))]
    columns = construction.construction(pattern).terms.columns
    rows, now = [], 0
    for _ in range(size):
        now += rng.choice([0, 1, 1, 2, 4])
        fields = {
            "key": rng.choice(["k", "k", "l"]),
            "time": now,
            "seq": rng.randrange(2),
            "states": rng.choice(bits + bits + bits + [0, sum(bits), bits[0] | bits[-1]]),
        }
        values = {name: rng.choice(VALUES[name]) for name in columns}
        rows.append(dict.fromkeys(SCHEMA.names) | fields | values)
    rows.sort(key=lambda row: (row["key"], row["time"], row["seq"]))
    return [{**row, "number": number} for number, row in enumerate(rows)]


@settings(max_examples=3 * settings().max_examples)
@given(st.data())
def test_same_matches_as_a_nested_loop(data: st.DataObject) -> None:
    pattern = data.draw(patterns())
    rows = random_rows(pattern, data.draw(st.sampled_from([3, 10, 18, 26])), data.draw(st.integers(0, 2**32)))
    order = data.draw(st.sampled_from(["seq", None]))
    task = task_for(
        pattern,
        order=order,
        chunk_rows=data.draw(st.sampled_from([1, 2, 3, 5, 8, 64])),
        batch_rows=data.draw(st.sampled_from([1, 2, 3, 64])),
    )
    size = data.draw(st.integers(1, 5))
    ordered = rows if order else [{**row, "seq": 0} for row in rows]

    compiled = found(task, rows, size)

    assert Counter(compiled) == Counter(nested_loop(pattern, ordered))
    assert compiled == found(replace(task, jit=False), rows, size)


@given(st.data())
def test_one_of_the_sequences_that_are_alike_is_enough(data: st.DataObject) -> None:
    """Of each event of a variable, or of each key, that is in a sequence, at least one is found; exactly one, where all
    rows come in one chunk."""
    pattern = data.draw(patterns())
    rows = random_rows(pattern, data.draw(st.sampled_from([10, 18, 26])), data.draw(st.integers(0, 2**32)))
    chunk_rows = data.draw(st.sampled_from([2, 5, 64]))
    variable = data.draw(st.sampled_from([None, *pattern.positive]))
    some = replace(pattern, one_per=variable, one_per_group=variable is None)
    task = task_for(some, chunk_rows=chunk_rows, batch_rows=data.draw(st.sampled_from([1, 64])))

    def told(match: Match) -> object:
        return rows[match[0]]["key"] if variable is None else match[pattern.positive.index(variable)]

    every, compiled = set(nested_loop(pattern, rows)), found(task, rows)
    assert set(compiled) <= every
    assert set(map(told, compiled)) == set(map(told, every))
    assert chunk_rows < 64 or len(compiled) == len(set(map(told, every)))
    assert compiled == found(replace(task, jit=False), rows)


@pytest.mark.parametrize(("one_per", "expected"), [("a", [0, 1]), ("b", [2, 3]), (None, [1])])
def test_one_of_the_sequences_of_an_event_is_enough(one_per: str | None, expected: list[int]) -> None:
    """Of two events and two others behind them: one for each of the first, one for each of the last, or one of all."""
    pattern = replace(Pattern(("a", "b")), one_per=one_per, one_per_group=one_per is None)
    rows = rows_of("a1", "a2", "b3", "b4", pattern=pattern)
    matches = found(task_for(pattern), rows)
    told = [match[pattern.positive.index(one_per)] for match in matches] if one_per else [len(matches)]
    assert sorted(told) == expected


@given(st.data())
def test_multi_pais_drops_no_sequence_that_agrees(data: st.DataObject) -> None:
    """Events that agree with no instance of the previous stack are not pushed; superfluous sequences may remain."""
    pattern = data.draw(patterns())
    rows = random_rows(pattern, 18, data.draw(st.integers(0, 2**32)))
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    rows = [{**row, "m": rng.choice([0, 1]), "s": rng.choice("ab")} for row in rows]
    task = task_for(pattern, chunk_rows=data.draw(st.sampled_from([2, 5, 64])))

    def agreeing(matches: Iterable[Match]) -> Counter[Match]:
        return Counter(match for match in matches if len({(rows[n]["m"], rows[n]["s"]) for n in match}) == 1)

    filtered = replace(task, cross=("m", "s"))
    assert agreeing(found(filtered, rows)) == agreeing(nested_loop(pattern, rows))
    assert found(filtered, rows) == found(replace(filtered, jit=False), rows)


def test_multi_pais_of_seed_001() -> None:
    """Figure 5: b5 agrees with earlier events on each attribute, but with none on both, and is dropped. b6 agrees with
    a3, and construction makes a superfluous sequence with a1."""
    pattern = Pattern(("a", "b"))
    events = ("a1", "a2", "a3", "b5", "b6")
    rows = rows_of(*events, pattern=pattern, keys="12121", m=(1, 2, 3, 1, 3))
    rows.sort(key=lambda row: row["key"])
    task, counters = task_for(pattern, cross=("m",)), list[int]()
    assert named(events, found(task, rows)) == [["a3", "b6"], ["a1", "b6"]]
    list(run(task, iter(batches_of(rows)), counters.extend))
    assert Counters.of(pattern, np.array(counters)).pushed.tolist() == [3, 1]


# --- the papers' examples --------------------------------------------------------------------------------------------

ABD = Pattern(("a", "b", "d"))


def named(events: Sequence[str], matches: Sequence[Match]) -> list[list[str]]:
    return [[events[number] for number in match] for match in matches]


def test_active_instance_stacks_of_seed_001() -> None:
    events = ("a1", "b3", "a4", "b6", "d9")
    rows = rows_of(*events, pattern=ABD)
    assert named(events, found(task_for(ABD), rows)) == [["a4", "b6", "d9"], ["a1", "b6", "d9"], ["a1", "b3", "d9"]]

    query = encode_pattern(ABD).query
    states, numbers = np.array([row["states"] for row in rows]), np.arange(5)
    chunk = Events(numbers, numbers, states, np.array([0, 5]), np.empty((0, 5), np.int64), 0, 5)
    stacks = new_stacks(query, chunk, np.concatenate(Counters.of(ABD)))
    scan(query, chunk, stacks)
    instances = [[events[row] for row in stacks.instance[stacks.offset[s] : stacks.top[s]]] for s in range(3)]
    assert instances == [["a1", "a4"], ["b3", "b6"], ["d9"]]
    b6 = stacks.offset[1] + 1
    assert events[stacks.instance[stacks.rip[b6] - 1]] == "a4"


def test_partitioned_stacks_of_seed_001() -> None:
    events = ("a1", "b3", "a4", "b6", "d9")
    rows = rows_of(*events, pattern=ABD, keys=["1", "3", "2", "2", "2"])
    rows.sort(key=lambda row: (row["key"], row["time"]))
    counters: list[int] = []
    assert named(events, found(task_for(ABD), rows)) == [["a4", "b6", "d9"]]
    assert len(list(run(task_for(ABD), iter(batches_of(rows)), counters.extend))) == 1
    assert Counters.of(ABD, np.array(counters)).pushed.tolist() == [2, 1, 1]  # b3 finds no a in its partition


def test_links_of_seed_004() -> None:
    pattern = Pattern(("a", "c", "d"))
    events = ("a1", "d2", "c3", "a4", "c5", "d6")
    expected = [["a4", "c5", "d6"], ["a1", "c5", "d6"], ["a1", "c3", "d6"]]
    assert named(events, found(task_for(pattern), rows_of(*events, pattern=pattern))) == expected


def test_neg_links_of_seed_004() -> None:
    pattern = Pattern(("a", "c", "d"), (Negated("b", "a", "c"),))
    events = ("a1", "c2", "b3", "a4", "c5", "d6")
    expected = [["a4", "c5", "d6"], ["a1", "c2", "d6"]]
    assert named(events, found(task_for(pattern), rows_of(*events, pattern=pattern))) == expected


# --- windows, ties, negation at either end ---------------------------------------------------------------------------


@pytest.mark.parametrize("scanned", [False, True])
@pytest.mark.parametrize("constructed", [False, True])
def test_the_window_is_strict_and_left_alone_when_not_pushed_down(scanned: bool, constructed: bool) -> None:
    pattern = Pattern(("a", "b"), within=3, window_in_scan=scanned, window_in_construction=constructed)
    events = ("a1", "a2", "b4")
    everything = [["a2", "b4"], ["a1", "b4"]]
    matches = named(events, found(task_for(pattern), rows_of(*events, pattern=pattern)))
    assert matches == (everything[:1] if scanned or constructed else everything)


def test_a_stack_that_has_run_dry_keeps_what_comes_later() -> None:
    pattern = Pattern(("a", "b", "d"), within=5)
    rows = rows_of("a1", "b5", "d9", "a10", "b11", "d12", pattern=pattern)
    assert found(task_for(pattern), rows) == [(3, 4, 5)]


@pytest.mark.parametrize("jit", [False, True])
def test_times_whose_difference_overflows(jit: bool) -> None:
    low, high = -(2**63), 2**63 - 1
    pattern = Pattern(("a", "b"), (Negated("x", "b", None), Negated("y", None, "a")), within=high)
    rows = rows_of("a0", "y0", "a0", "b0", "x0", pattern=pattern)
    rows = [{**row, "time": time} for row, time in zip(rows, [low, low, low + 5, low + 9, high], strict=True)]
    assert found(task_for(pattern, jit=jit, chunk_rows=2), rows, 1) == [(0, 3)]


def test_simultaneous_events_do_not_follow_each_other() -> None:
    pattern = Pattern(("a", "b"))
    rows = rows_of("a1", "b1", "a2", "b2", pattern=pattern)
    assert found(task_for(pattern), rows) == [(0, 3)]
    rows = [{**row, "seq": number} for number, row in enumerate(rows)]
    assert found(task_for(pattern), rows) == [(0, 1), (2, 3), (0, 3)]
    assert found(task_for(pattern, order=None), rows) == [(0, 3)]


@pytest.mark.parametrize("gap", [(None, "a"), ("a", "b"), ("b", None)])
@pytest.mark.parametrize("where", [(), ((Compare("x", "m", "=", "a", "m"),),)])
@pytest.mark.parametrize("jit", [False, True])
def test_a_simultaneous_event_is_not_between(gap: tuple[str, str], where: tuple[Clause, ...], jit: bool) -> None:
    pattern = Pattern(("a", "b"), (Negated("x", *gap, where),), within=10)
    for events, times in {"axb": (1, 1, 2), "abx": (1, 2, 2), "xab": (1, 1, 2)}.items():
        names = [f"{event}{time}" for event, time in zip(events, times, strict=True)]
        rows = rows_of(*names, pattern=pattern, m=[0, 0, 0])
        assert len(found(task_for(pattern, jit=jit), rows)) == 1
        rows = [{**row, "seq": number} for number, row in enumerate(rows)]
        forbidden = {"axb": ("a", "b"), "abx": ("b", None), "xab": (None, "a")}[events] == gap
        assert len(found(task_for(pattern, jit=jit), rows)) == (0 if forbidden else 1)


def test_a_trailing_negation_waits_for_the_end_of_its_window() -> None:
    pattern = Pattern(("a",), (Negated("x", "a", None),), within=5)
    rows = rows_of("a1", "a2", "x6", "a7", "x12", "a13", pattern=pattern)
    for chunk_rows in range(1, 8):
        assert found(task_for(pattern, chunk_rows=chunk_rows), rows, 1) == [(0,), (3,), (5,)]


def test_nothing_in_nothing_out() -> None:
    assert found(task_for(ABD), []) == []
    assert list(run(task_for(ABD), iter([]))) == []


# --- bounded work and memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("negated", "reach"), [((), 1), ((Negated("x", None, "a"),), 1), ((Negated("x", "b", None),), 2)]
)
def test_only_what_the_window_reaches_is_carried(negated: tuple[Negated, ...], reach: int) -> None:
    pattern = Pattern(("a", "b"), negated, within=10)
    rows = rows_of(*(f"{'ab'[i % 2]}{i}" for i in range(1000)), pattern=pattern)
    partition = Partition(task_for(pattern))
    for batch in batches_of(rows, 100):
        assert list(partition.matches([batch], final=False))
        assert 10 * reach - 1 <= partition.carried_rows <= 10 * reach


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(("limit", "fails"), [(5, True), (6, False)])
@pytest.mark.parametrize(
    ("within", "where"),
    [(10, "lie in one window: raise --max-window-events-per-key, shorten WITHIN"),
     (None, "are kept without a window: raise --max-window-events-per-key, add WITHIN")],
)  # fmt: skip
def test_a_window_that_holds_too_much_is_refused(
    size: int, limit: int, fails: bool, within: int | None, where: str
) -> None:
    """Six events of key l lie within nine ticks. The batches and chunks in which they come make no difference."""
    pattern = Pattern(("a", "b"), within=within)
    events = ["a0", "a1", "a2", "a10", "b11", "b12", "a0", "a3", "b4", "b5", "a8", "b9"]
    if within is None:
        events[:3] = []
    rows = rows_of(*events, pattern=pattern, keys="k" * (len(events) - 6) + "l" * 6)
    task = task_for(pattern, limit=limit, chunk_rows=1)
    if not fails:
        assert found(task, rows, size) == found(replace(task, limit=None), rows, size) != []
        return
    with pytest.raises(SaseRunError) as error:
        found(task, rows, size)
    assert str(error.value) == (
        f"more than 5 events of key='l' {where}, or keep such events out with a condition of their own"
    )


def test_work_stays_linear_in_a_group_without_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = Pattern(("a", "b"), where=((Compare("a", "m", "=", "b", "m"),),))
    rows = rows_of(*(f"a{i}" for i in range(4000)), pattern=pattern, m=range(4000))
    sizes: list[int] = []

    def seen(query: kernel.Query, chunk: Events, *rest: Any) -> Iterator[kernel.Ints]:
        sizes.append(len(chunk.time))
        return sequences(query, chunk, *rest)

    monkeypatch.setattr(construction, "sequences", seen)
    assert list(run(task_for(pattern, chunk_rows=10), iter(batches_of(rows, 10)))) == []
    assert len(sizes) > 1 and sum(sizes) < 3 * len(rows)


def test_matches_leave_before_all_are_found() -> None:
    n = 100_000
    pattern = Pattern(("a", "b"))
    query = encode_pattern(pattern).query
    states = np.repeat([1, 2], n)
    numbers = np.arange(2 * n)
    chunk = Events(numbers, numbers, states, np.array([0, 2 * n]), np.empty((0, 2 * n), np.int64), 0, 2 * n)
    matches = sequences(query, chunk, np.concatenate(Counters.of(pattern)), 1000)  # ten billion
    first = [next(matches).copy() for _ in range(250)]
    assert len(set(map(tuple, np.concatenate(first).tolist()))) == 250_000


def test_wide_events_make_short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "_OUTPUT_BYTES", 1000)
    pattern = Pattern(("a", "b"))
    rows = rows_of(*(f"a{i}" for i in range(20)), "b30", pattern=pattern, s=["." * 100] * 21)
    task = task_for(pattern, emit=(("a", ("number", "s")),))
    sizes = [batch.num_rows for batch in run(task, iter(batches_of(rows)))]
    assert sum(sizes) == 20
    assert max(sizes) < 10


def test_wide_events_make_short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "_CHUNK_BYTES", 1000)
    pattern = Pattern(("a",))
    batches = iter(batches_of(rows_of(*(f"a{i}" for i in range(30)), pattern=pattern, s=["." * 100] * 30), 10))
    task = task_for(pattern, chunk_rows=1000, emit=(("a", ("number", "s")),))
    assert next(run(task, batches)).num_rows == 10
    assert len(list(batches)) == 2


def test_columns_too_long_for_one_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "combined", lambda column: column)
    pattern = Pattern(("a", "b"))
    rows = rows_of("a1", "b2", "a3", "b4", "a5", "b6", "b7", pattern=pattern)
    expected = list(nested_loop(pattern, rows))
    assert Counter(found(task_for(pattern), rows, 2)) == Counter(expected)


def test_counters() -> None:
    pattern = Pattern(
        ("a", "b"),
        (Negated("x", "a", "b"),),
        ((Compare("a", "m", "<", "b", "m"),), (Holds("b", "p"),)),
        within=100,
    )
    rows = rows_of(
        "b0", "a1", "x2", "a3", "a4", "a5", "b6", "b7",
        pattern=pattern, m=[0, 0, 0, 9, 1, 2, 5, 5], p=[None] * 6 + [True, False],
    )  # fmt: skip
    for jit in (False, True):
        flat: list[int] = []
        assert len(list(run(task_for(pattern, jit=jit), iter(batches_of(rows)), flat.extend))) == 1
        counters = Counters.of(pattern, np.array(flat))
        assert counters.pushed.tolist() == [4, 2]
        assert counters.visited.tolist() == [3, 0]
        assert counters.rejected.tolist() == [1, 1]
        assert counters.killed.tolist() == [1]
        assert counters.sequences.tolist() == [2]


@pytest.mark.parametrize("negated", [(), (Negated("x", "a", "b"),), (Negated("x", "b", None),)])
@pytest.mark.parametrize("stacks", [True, False])
def test_what_is_carried_to_another_chunk_is_counted_once(stacks: bool, negated: tuple[Negated, ...]) -> None:
    where = ((Compare("a", "m", "<", "b", "m"),),)
    pattern = Pattern(("a", "b"), negated, where, within=10, stacks=stacks)
    rows = rows_of(*(f"{'aabxb'[i % 5]}{i}" for i in range(100)), pattern=pattern, m=[i % 7 for i in range(100)])

    def counted(size: int) -> Counters:
        flat: list[int] = []
        list(run(task_for(pattern, chunk_rows=size), iter(batches_of(rows, size)), flat.extend))
        return Counters.of(pattern, np.array(flat))

    whole, chunks = counted(1000), counted(7)
    if stacks:
        assert whole.pushed.tolist() == chunks.pushed.tolist() == [40, 40]
    for each in (whole, chunks):
        assert each.visited[0] - each.rejected.sum() == each.sequences[0] > 0


# --- with and without numba ------------------------------------------------------------------------------------------


def test_one_compilation_serves_writable_and_read_only_arrays() -> None:
    pattern = Pattern(("a",), within=5)
    query = encode_pattern(pattern).query
    for writeable in (False, True):
        numbers = np.arange(3)
        numbers.flags.writeable = writeable
        chunk = Events(numbers, numbers, np.ones(3, np.int64), np.array([0, 3]), np.empty((0, 3), np.int64), 0, 3)
        matches = list(sequences(query, chunk, np.concatenate(Counters.of(pattern)), 10))
        assert [match.tolist() for match in matches] == [[[0], [1], [2]]]
    compiled = kernel._compiled()
    assert compiled is not None
    assert [len(function.signatures) for function in compiled] == [1, 1]


def test_the_variable_that_switches_compilation_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_compiled", lambda: pytest.fail("compiled"))
    monkeypatch.setenv("SASE_JIT", "0")
    rows = rows_of("a1", "b2", "d3", pattern=ABD)
    assert found(task_for(ABD), rows) == [(0, 1, 2)]


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(kernel, "_compiled", kernel._compiled.__wrapped__)
    assert kernel._compiled() is None
    rows = rows_of("a1", "b2", "d3", pattern=ABD)
    assert found(task_for(ABD), rows) == [(0, 1, 2)]


# --- on the way to an executor ---------------------------------------------------------------------------------------

ARGUMENTS: dict[str, Any] = {
    "by": ["key"],
    "time": "time",
    "order": "seq",
    "states": "states",
    "emit": {"a": ["number"], "d": ["number", "s"]},
}


def hide_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "sase" or name.startswith("sase.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sase", None)


def test_a_worker_loads_anywhere_and_says_what_it_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = cloudpickle.dumps(scan_and_construct(ABD, **ARGUMENTS))
    hide_package(monkeypatch)
    worker = cloudpickle.loads(pickled)
    with pytest.raises(RuntimeError) as error:
        list(worker(iter([])))
    version = executors.__version__
    assert str(error.value) == (
        f"sase {version} is not installed on this executor ({socket.gethostname()}): install it there "
        f"(pip install sase=={version}) or compile the job with --standalone, which carries the runtime inside"
    )


def test_a_bootstrap_brings_the_package_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def bring() -> None:
        import sys

        del sys.modules["sase"]

    monkeypatch.setenv("SASE_JIT", "0")  # numba does not tell a module's classes from those of its second import
    pickled = cloudpickle.dumps(scan_and_construct(ABD, **ARGUMENTS, bootstrap=bring))
    hide_package(monkeypatch)
    batches = cloudpickle.loads(pickled)(iter(batches_of(rows_of("a1", "b2", "d3", pattern=ABD, s=[None, None, "!"]))))
    assert pa.Table.from_batches(batches).to_pylist() == [{"a.number": 0, "d.number": 2, "d.s": "!"}]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"emit": {"z": ["number"]}}, "emit names ['z'], which are no positive components"),
        ({"emit": {"a": []}}, "emit must name a variable, and a column for every variable"),
        ({"emit": {}}, "emit must name a variable, and a column for every variable"),
        ({"chunk_rows": 0}, "batch_rows and chunk_rows must be at least 1"),
    ],
)
def test_arguments_that_cannot_work(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        scan_and_construct(ABD, **{**ARGUMENTS, **changed})
    assert str(error.value) == message


@pytest.mark.parametrize("column", ["time", "states"])
def test_a_null_time_or_state_is_refused(column: str) -> None:
    rows = [{**row, column: None} for row in rows_of("a1", pattern=ABD)]
    with pytest.raises(TypeError, match=f"column '{column}' must not hold NULL"):
        found(task_for(ABD), rows)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, -2], pa.int16()), [1, -2]),
        (pa.array([dt.date(1970, 1, 2), dt.date(1969, 12, 31)]), [86_400_000_000, -86_400_000_000]),
        (pa.array([dt.datetime(1970, 1, 1, 0, 0, 1, 5)], pa.timestamp("us")), [1_000_005]),
        (pa.array([7], pa.timestamp("us", "Europe/Paris")), [7]),
    ],
)
def test_times_in_ticks(values: pa.Array, expected: list[int]) -> None:
    assert int64s(pa.table({"ts": values}), "ts").tolist() == expected


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="column 'ts' must hold integers or times, not string"):
        int64s(pa.table({"ts": ["1"]}), "ts")


def test_a_spark_job(spark: SparkSession) -> None:
    pattern = Pattern(("a", "b"), (Negated("x", "a", "b"),), ((Compare("a", "s", "<", "b", "s"),),), within=40)
    rng = np.random.default_rng(7)
    rows = [
        dict.fromkeys(SCHEMA.names)
        | {"number": i, "key": f"k{rng.integers(9)}", "time": i, "seq": 0}
        | {"states": 1 << int(rng.integers(3)), "s": "abc"[rng.integers(3)], "m": 1, "n": 2, "f": 0.5, "p": True}
        for i in range(300)
    ]
    expected = Counter(nested_loop(pattern, rows))
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))
    emit = {"b": ["number", "key"], "a": ["number"]}
    total = spark.sparkContext.accumulator(0)
    worker = scan_and_construct(
        pattern,
        by=["key"],
        time="time",
        order=None,
        states="states",
        emit=emit,
        options=Options(counted=lambda counters: total.add(counters[-1])),
        batch_rows=7,
        chunk_rows=20,
    )
    sorted_frame = frame.repartition(3, "key").sortWithinPartitions("key", "time")
    matches = sorted_frame.mapInArrow(worker, match_schema(frame.schema, emit)).selectExpr(*structs(emit)).collect()
    assert Counter((match.a.number, match.b.number) for match in matches) == expected
    assert all(match.b.key == rows[match.b.number]["key"] for match in matches)
    assert total.value == len(matches) == expected.total()
