"""The kernel of combinations, and the worker around it, find what a brute force over plain Python rows finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from combinations import combinations, judge, number
from hypothesis import given, settings
from hypothesis import strategies as st
from test_kernel import SCHEMA, Row, nested_loop, patterns, random_rows, rows_of

from sase.runtime.kernels import candidates
from sase.runtime.kernels.combinations import Counters
from sase.runtime.operator import construction, selection
from sase.runtime.operator.choice import choose
from sase.runtime.operator.matcher import Task
from sase.runtime.operator.partition import Partition, run
from sase.runtime.pattern import BORROWED, Apart, At, Branch, Combination, Compare, Group, Pattern


def task_for(pattern: Combination, **changes: Any) -> Task:
    emit = tuple((variable, ("number",)) for variable in (*pattern.positive, *pattern.collected))
    task = Task(
        pattern, ("key",), "time", "seq", "states", emit, batch_rows=64, chunk_rows=64, jit=True,
        started="started", detected="detected", groups=bindings_of(pattern),
        candidates="candidate" if pattern.deferred else None,
    )  # fmt: skip
    return replace(task, **changes)


def bindings_of(pattern: Combination) -> Any:
    return tuple((name, tuple((v, ("number",)) for v in own)) for name, own in pattern.bindings.items())


@contextmanager
def crowds(always: bool) -> Iterator[None]:
    """Indices and semijoins wherever there is an equality, or where it is worth its while: for a few rows, nowhere."""
    with pytest.MonkeyPatch.context() as patch:
        if always:
            patch.setattr(candidates, "CROWDED", 0)
        yield


Answer = tuple[tuple[tuple[str, Any], ...], int, int]


def found(task: Task, rows: Sequence[Row], size: int) -> list[Answer]:
    """The matches in the order of the worker, in chunks of `size` rows."""
    partition = Partition(task)
    batches = pa.Table.from_pylist(list(rows), SCHEMA).to_batches(max_chunksize=size)
    answers = []
    for i, batch in enumerate(batches):
        for matches in partition.matches([batch], final=i == len(batches) - 1):
            assert 0 < matches.num_rows <= task.batch_rows
            answers += [answer(match) for match in matches.to_pylist()]
    return answers


def answer(match: dict[str, Any]) -> Answer:
    started, detected = match.pop("started", 0), match.pop("detected", 0)
    match.pop("candidate", None)

    def shown(name: str, value: Any) -> Any:
        if not isinstance(value, list):
            return value["number"]
        if name.startswith("_"):
            return tuple(tuple(v["number"] for of, v in binding.items() if of != name) for binding in value)
        return tuple(event["number"] for event in value)

    events = {name: shown(name, value) for name, value in match.items() if value is not None}
    return tuple(sorted(events.items())), started, detected


@settings(max_examples=settings().max_examples)
@given(st.data())
def test_same_matches_as_a_brute_force(data: st.DataObject) -> None:
    pattern = data.draw(combinations())
    seed = data.draw(st.integers(0, 2**32))
    random = Random(seed)
    rows = random_rows(pattern, random.choice([3, 8, 12, 16]), seed)
    if random.random() < 0.3 and not pattern.exclusive:
        rows = [{**row, "states": row["states"] | (BORROWED if random.random() < 0.3 else 0)} for row in rows]
    order = random.choice(["seq", None])
    judged = rows if order else [{**row, "seq": 0} for row in rows]
    task = task_for(pattern, order=order, batch_rows=random.choice([1, 2, 64]))

    with crowds(random.random() < 0.5):
        compiled = found(task, rows, random.choice([1, 2, 5, 64]))

    assert Counter(compiled) == Counter((each.events, each.started, each.detected) for each in judge(pattern, judged))
    assert Counter(compiled) == Counter(found(replace(task, jit=False), rows, random.choice([2, 64])))


@given(st.data())
def test_one_of_what_a_group_collects_may_be_enough(data: st.DataObject) -> None:
    """The same matches, with one binding of each group that has any."""
    pattern = data.draw(combinations())
    seed = data.draw(st.integers(0, 2**32))
    rows = random_rows(pattern, Random(seed).choice([8, 12, 16]), seed)
    branches = [
        replace(branch, groups=tuple(replace(group, some=group.collect) for group in branch.groups))
        for branch in pattern.branches
    ]
    task = task_for(replace(pattern, branches=tuple(branches)), batch_rows=64)

    def told(events: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
        return tuple((name, len(value) > 0 if isinstance(value, tuple) else value) for name, value in events)

    every, compiled = [each.events for each in judge(pattern, rows)], [events for events, _, _ in found(task, rows, 5)]
    assert Counter(map(told, compiled)) == Counter(map(told, every))
    for events in compiled:
        arrays = {name: value for name, value in events if isinstance(value, tuple)}
        assert all(len(value) <= 1 for value in arrays.values())
        alike = [dict(each) for each in every if told(each) == told(events)]
        assert any(all(set(value) <= set(each[name]) for name, value in arrays.items()) for each in alike)
    assert Counter(compiled) == Counter(events for events, _, _ in found(replace(task, jit=False), rows, 64))


def is_accepted(branch: int, numbers: Iterable[int]) -> bool:
    """What somebody else decides about candidates, whatever it is."""
    return (branch + sum(numbers)) % 3 != 0


def chosen(pattern: Combination, batches: Iterable[pa.RecordBatch]) -> list[Answer]:
    """The accepted ones of the candidates, and what is chosen among them."""

    def accepted(matches: pa.RecordBatch) -> pa.RecordBatch:
        rows = matches.to_pylist()
        numbers = [[row[v]["number"] for v in pattern.positive if row[v] is not None] for row in rows]
        kept = [is_accepted(row["candidate"]["branch"], of) for row, of in zip(rows, numbers, strict=True)]
        return matches.filter(pa.array(kept))

    some = [accepted(matches) for matches in batches]
    at = some[0].schema.get_field_index("candidate") if some else 0
    return [answer(row) for matches in choose(pattern, at, iter(some)) for row in matches.to_pylist()]


@given(st.data())
def test_what_is_left_to_decide_is_decided_before_the_choice(data: st.DataObject) -> None:
    pattern = replace(data.draw(combinations()), deferred=True)
    seed = data.draw(st.integers(0, 2**32))
    random = Random(seed)
    rows = random_rows(pattern, random.choice([8, 12, 16]), seed)
    partition = Partition(task_for(pattern, batch_rows=random.choice([1, 2, 64])))
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=random.choice([1, 2, 5, 64]))
    found = [each for at, batch in enumerate(batches)
             for each in partition.matches([batch], final=at == len(batches) - 1)]  # fmt: skip
    expected = judge(pattern, rows, lambda branch, bound: is_accepted(branch, map(number, bound.values())))
    assert Counter(chosen(pattern, found)) == Counter((each.events, each.started, each.detected) for each in expected)


# ---- a sequence is a combination ------------------------------------------------------------------------------------


def as_combination(pattern: Pattern) -> Combination:
    """The lowering of SEQ: a chain, one difference of times for the window, and groups of one variable."""
    first, last, within = pattern.positive[0], pattern.positive[-1], pattern.within
    groups = []
    for each in pattern.negated:
        n = each.variable
        before = [(each.after, n)] if each.after else []
        before += [(n, each.before)] if each.before else []
        leading, trailing = Apart(n, last, within or 0), Apart(first, n, within or 0)
        apart = (*([] if each.after else [leading]), *([] if each.before else [trailing]))
        groups.append(Group((n,), tuple(before), apart, each.where))
    chain = tuple(pairwise(pattern.positive))
    window = () if within is None else (Apart(first, last, within),)
    return Combination((Branch(pattern.positive, chain, window, pattern.where, tuple(groups)),))


@given(patterns(), st.integers(0, 2**32))
def test_a_sequence_is_a_combination(pattern: Pattern, seed: int) -> None:
    pattern = replace(pattern, window_in_scan=True, window_in_construction=True)
    rows = random_rows(pattern, 16, seed)
    combination = as_combination(pattern)
    matches = found(task_for(combination, batch_rows=3), rows, Random(seed).choice([2, 7, 64]))
    numbers = [tuple(dict(events)[variable] for variable in pattern.positive) for events, _, _ in matches]
    assert Counter(numbers) == Counter(nested_loop(pattern, rows))


# ---- examples of what the seeds mean --------------------------------------------------------------------------------


def window(variables: str, within: int, own: str = "") -> tuple[Apart, ...]:
    """All that a window says of these variables; of those of a group, if it has its own."""
    pairs = [(u, v) for u in variables for v in variables if u != v and (not own or u in own or v in own)]
    return tuple(Apart(u, v, within) for u, v in pairs)


def any_order(variables: str, within: int, *groups: Group, **more: Any) -> Branch:
    return Branch(tuple(variables), apart=window(variables, within), groups=groups, **more)


def beside(variables: str, own: str, within: int, **more: Any) -> Group:
    return Group(tuple(own), apart=window(variables + own, within, own), **more)


EXAMPLES = {
    "C1: any order": (any_order("abc", 60), "c1 a5 b9 c70", "a5 b9 c1"),
    "C2: simultaneous events are together": (any_order("ab", 3), "a1 b1", "a1 b1"),
    "C3: the window is strict": (any_order("ab", 3), "a1 b3 b4", "a1 b3"),
    "C4: and over all events": (any_order("abc", 5), "a1 b4 c7", ""),
    "C9: NOT beside AND looks both ways": (any_order("ab", 5, beside("ab", "c", 5)), "c7 a10 b12 c15", "a10 b12"),
    "C10: before, between, after, at once": (
        any_order("ab", 5, beside("ab", "c", 5)), "c8 a10 b12 a20 b22 c24 a30 b32 c32", "",
    ),
    "C14: a pair forbids if all fit into the window": (
        any_order("a", 5, beside("a", "bc", 5)), "b3 a5 a20 b21 c22 b27 a30 c33", "a5; a30",
    ),
    "C17: AND inside of SEQ": (
        Branch(tuple("abcd"), (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))), "a1 c2 b3 d4 c5", "a1 b3 c2 d4",
    ),
    "D9: a group in a group": (
        Branch(("a", "d"), (("a", "d"),), groups=(
            Group(("b",), (("a", "b"), ("b", "d")), groups=(Group(("c",), (("b", "c"), ("c", "d"))),)),
        )),
        "a1 b2 c3 d4 a5 b6 d7 a8 d9", "a1 d4; a8 d9",
    ),
    "B6: a difference of times between any two": (
        Branch(tuple("abc"), (("b", "c"), ("a", "c")), (Apart("b", "c", 5), Apart("a", "c", 5))),
        "b1 a2 c3", "a2 b1 c3",
    ),
    "B29: what an open group collects": (
        Branch(("a",), groups=(Group(("b",), (("a", "b"),), (Apart("a", "b", 5),), collect=True),)),
        "b1 a1 b2 b3 b5 b6", "a1 b2+b3+b5",
    ),
    "B30: nothing is a collection, too": (
        Branch(("a",), groups=(Group(("b",), (("b", "a"),), (Apart("b", "a", 5),), collect=True),)),
        "b1 b2 b5 a6 b6 a20", "a6 b2+b5; a20 b",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("size", [1, 100])
def test_examples_of_the_seeds(name: str, size: int) -> None:
    branch, events, expected = EXAMPLES[name]
    assert said(Combination((branch,)), events, size) == sorted(filter(None, expected.split("; ")))


CHAIN = {letters: Branch(tuple(letters), tuple(pairwise(letters)), window(letters, 50)) for letters in ("ab", "abcd")}


@pytest.mark.parametrize(
    ("select", "exclusive", "events", "expected"),
    [
        ((("a", "last"),), False, "a1 a2 b3 b4", "a2 b3; a2 b4"),
        ((("a", "last"),), True, "a1 a2 b3 b4", "a1 b4; a2 b3"),
        ((), True, "a1 a2 b3 b4", "a1 b3; a2 b3"),
        ((("a", "first"), ("b", "last"), ("c", "last")), False, "a1 b2 a3 b4 c4 b5 c5 a6 d7", "a1 b4 c5 d7"),
        ((("a", "last"), ("b", "first"), ("c", "first")), False, "a1 b2 a3 b4 c4 b5 c6 a6 d7", "a3 b4 c6 d7"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 2, 100])
def test_selection_and_consumption(
    select: Any, exclusive: bool, events: str, expected: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = CHAIN["abcd" if "d" in events else "ab"]
    pattern = Combination((branch,), select=select, exclusive=exclusive)
    for gathered in (1, 65_536):
        monkeypatch.setattr(selection, "_GATHERED", gathered)
        assert said(pattern, events, size) == expected.split("; ")


def test_a_match_of_two_branches_is_one() -> None:
    branches = (CHAIN["ab"], any_order("ab", 50), any_order("a", 50))
    assert said(Combination(branches), "a1 b2", 100) == ["a1", "a1 b2"]
    assert said(Combination(branches, once=False), "a1 b2", 100) == ["a1", "a1 b2", "a1 b2"]


def said(pattern: Combination, events: str, size: int) -> list[str]:
    """Matches such as "a1 b2+b3", of chunks of `size` rows."""
    rows = rows_of(*events.split(), pattern=pattern)
    names = dict(enumerate(events.split()))

    def words(variable: str, value: int | tuple[int, ...]) -> str:
        return names[value] if isinstance(value, int) else "+".join(map(names.__getitem__, value)) or variable

    return sorted(" ".join(words(*each) for each in match) for match, _, _ in found(task_for(pattern), rows, size))


# ---- bounded work and memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_row_to_come_at_the_edge_of_reach_is_waited_for(size: int) -> None:
    """c5 is less than 5 after a1, and in another chunk than b5, at the same time."""
    pattern = Combination((any_order("a", 5, beside("a", "c", 5)), any_order("b", 5)))
    assert said(pattern, "a1 b5 c5", size) == ["b5"]


@pytest.mark.parametrize(
    ("groups", "carried"), [((), 9), ((beside("ab", "c", 10),), 18), ((Group(("c",), (("a", "c"), ("c", "b"))),), 9)]
)
def test_only_what_can_be_reached_is_carried(groups: tuple[Group, ...], carried: int) -> None:
    pattern = Combination((any_order("ab", 10, *groups),))
    rows = rows_of(*(f"{'ab'[i % 2]}{i}" for i in range(1000)), pattern=pattern)
    partition = Partition(task_for(pattern))
    for batch in pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=100):
        assert list(partition.matches([batch], final=False))
        assert carried <= partition.carried_rows <= carried + 2


@pytest.mark.parametrize("jit", [False, True])
def test_times_whose_difference_overflows(jit: bool) -> None:
    low, high = -(2**63), 2**63 - 1
    equal = ((Compare("a", "m", "=", "b", "m"),),)
    pattern = Combination((any_order("ab", high, beside("ab", "c", high), where=equal),))
    rows = rows_of("a0", "c0", "a0", "b0", "c0", pattern=pattern, m=[1] * 5)
    rows = [{**row, "time": time} for row, time in zip(rows, [low, low, low + 5, low + 9, high], strict=True)]
    task = task_for(pattern, jit=jit, started=None, detected=None)
    for always in (False, True):
        with crowds(always):
            assert found(task, rows, 2) == []
            assert len(found(task, [rows[0], *rows[2:]], 2)) == 2


def test_one_match_may_collect_more_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(construction, "_COLLECTED", 1)
    group = Group(("b",), (("b", "a"),), (Apart("b", "a", 50),), collect=True)
    pattern = Combination((Branch(("a",), groups=(group,)),))
    assert said(pattern, "b1 b2 b3 a4 b5 a6", 100) == ["a4 b1+b2+b3", "a6 b1+b2+b3+b5"]


WALKED = Combination(
    (
        Branch(
            ("a", "b", "c"), (("a", "c"),), window("abc", 30),
            where=((Compare("a", "m", "=", "b", "m"),), (Compare("b", "m", "<=", "c", "n"),)),
            groups=(beside("a", "x", 9, where=((Compare("x", "m", "=", "a", "m"),),)),),
        ),
        Branch(("a", "b", "c"), (("a", "b"), ("b", "c")), window("abc", 30)),
        any_order("ab", 4),
    )
)  # fmt: skip


@pytest.mark.parametrize("always", [False, True])
def test_counters_add_up(always: bool) -> None:
    """Whatever became of a candidate: it was visited once."""
    rows = random_rows(WALKED, 200, 7)
    rows = [{**row, "m": i % 3, "n": i % 2} for i, row in enumerate(rows)]
    totals = []
    for jit in (False, True):
        for size in (7, 1000):
            flat: list[int] = []
            batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=size)
            with crowds(always):
                list(run(task_for(WALKED, jit=jit, chunk_rows=size), iter(batches), flat.extend))
            counters = Counters.of(WALKED, np.array(flat))
            ends = (counters.same, counters.rejected, counters.killed, counters.repeated, counters.sequences)
            assert counters.visited.sum() == sum(int(part.sum()) for part in (*ends, counters.extended))
            assert all(part.sum() > 0 for part in ends[1:])
            assert counters.pushed.tolist() == [sum(row["states"] >> v & 1 for row in rows) for v in range(3)]
            totals.append(flat)
    assert totals[0] == totals[2] and totals[1] == totals[3], "with and without the JIT"


def test_work_without_a_key_does_not_grow_with_the_window() -> None:
    """Seed 003: a = b, b < c, c = d. Walks look for equals in an index, and events without one are left out before."""
    where = tuple((Compare(u, "m", op, v, "m"),) for u, op, v in (("a", "=", "b"), ("b", "<", "c"), ("c", "=", "d")))
    pattern = Combination((Branch(tuple("abcd"), apart=window("abcd", 400), where=where),))
    rng = Random(3)
    names = [f"{rng.choice('abcd')}{i}" for i in range(1000)]
    rows = rows_of(*names, pattern=pattern, m=[rng.randrange(2000) for _ in names])

    def visited(pattern: Combination = pattern) -> tuple[int, list[Answer]]:
        flat: list[int] = []
        batches = pa.Table.from_pylist(rows, SCHEMA).to_batches()
        matches = [each for batch in run(task_for(pattern), iter(batches), flat.extend) for each in batch.to_pylist()]
        return int(Counters.of(pattern, np.array(flat)).visited.sum()), sorted(map(tuple, map(dict.values, matches)))

    with crowds(True):
        few, matches = visited()
        (branch,) = pattern.branches
        roadmaps = [(), (("a", "b"),), (("a", "b"), ("c", "d"))]  # P11, P12 and P14
        (p11, *first), (p12, *second), (p14, *third) = (
            visited(Combination((replace(branch, blocks=blocks),))) for blocks in roadmaps
        )
    assert few == p14 < p12 < p11 and first == second == third == [matches]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "CROWDED", 10**9)
        many, same = visited()
    assert matches == same != []
    assert few < 20 * len(matches) < many / 20


@pytest.mark.parametrize("size", [1, 100])
def test_partners_at_the_edge_of_the_window_are_partners(size: int) -> None:
    """a1 and b5, b11 and a15 are less than 5 apart; a21 and b26 are not, and a31 has an equal only in another group."""
    pattern = Combination((Branch(("a", "b"), apart=window("ab", 5), where=((Compare("a", "m", "=", "b", "m"),),)),))
    names = ["a1", "b5", "b11", "a15", "a21", "b26", "a31", "b32"]
    rows = rows_of(*names, pattern=pattern, keys=[*"kkkkkkk", "l"], m=[1] * 8)
    for always in (False, True):
        with crowds(always):
            matches = found(task_for(pattern), rows, size)
        assert [tuple(names[number] for _, number in match) for match, _, _ in matches] == [
            ("a1", "b5"),
            ("a15", "b11"),
        ]


def test_matches_come_flat_but_for_what_may_be_missing() -> None:
    """Every branch binds `a`, one binds `b`; the other collects `c`, and no array is not an empty one."""
    group = Group(("c",), (("a", "c"),), (Apart("a", "c", 5),), collect=True)
    pattern = Combination((any_order("ab", 5), any_order("a", 5, group)))
    rows = rows_of("a1", "b2", "c3", pattern=pattern)
    table = pa.Table.from_batches(run(task_for(pattern), iter([pa.RecordBatch.from_pylist(rows, SCHEMA)])))
    assert table.column_names == ["a.number", "b", "c", "started", "detected"]
    assert table.to_pylist() == [
        {"a.number": 0, "b": None, "c": [{"number": 2}], "started": 1, "detected": 1},
        {"a.number": 0, "b": {"number": 1}, "c": None, "started": 1, "detected": 2},
    ]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (Combination(()), "a branch needs a positive variable"),
        (Combination((Branch(tuple("ab"), order=(("a",),)),)), r"the order \('a',\) is not one of \('a', 'b'\)"),
        (Combination((Branch(("a",), (("a", "b"),)),)), r"speak of \['b'\], which are not bound there"),
        (Combination((Branch(("a",), groups=(Group(("a",)),)),)), "variables are bound twice"),
        (Combination((Branch(("a",), groups=(Group(()),)),)), "a group needs a variable"),
        (Combination((Branch(("a",), groups=(Group(("b",), groups=(Group(("c",), collect=True),)),)),)), "stands in"),
        (Combination((Branch(("a",), instant=At("b")),)), "the instant of a match is that of 'b', which is not bound"),
        (Combination((Branch(("a",)),), select=(("b", "last"),)), r"select names \['b'\], which are no positive"),
        (Combination((Branch(tuple(map(str, range(62)))),)), "at most 61 variables, this one has 62"),
    ],
)  # fmt: skip
def test_combinations_that_the_kernel_cannot_run(pattern: Combination, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        construction.construction(pattern)
