"""Rows that come in any order: by key, time and tie-breaker, whatever the key is and however little fits in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_kernel import SCHEMA, Row, nested_loop, rows_of, task_for

from sase.runtime.kernels.sequences import Ints
from sase.runtime.kernels.sort import sorting
from sase.runtime.operator import sorting as operator
from sase.runtime.operator.matcher import Task
from sase.runtime.operator.partition import run
from sase.runtime.operator.sorting import in_order
from sase.runtime.pattern import Negated, Pattern

PATTERN = Pattern(("a", "b"), (Negated("x", "a", "b"),), within=40)
ENDS = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]

# ---- the kernel ---------------------------------------------------------------------------------


@given(
    st.integers(0, 3000),
    st.sampled_from([1, 2, 40, 3000]),
    st.sampled_from([0, 30, 54]),
    st.sampled_from([1, 7, 10**6]),
    st.integers(0, 2**32),
)
def test_rows_by_code_and_time_as_numpy_has_them(rows: int, codes: int, close: int, times: int, seed: int) -> None:
    """Codes far and wide; or close together, and others at the ends of all numbers."""
    random = np.random.default_rng(seed)
    known = np.concatenate([random.integers(-(2**63), 2**63 - 1, codes) >> close, ENDS])
    code, time = random.choice(known, rows), random.integers(0, times, rows)
    pieces = np.sort(random.integers(0, rows + 1, random.integers(0, 5)))
    time = np.concatenate([np.sort(part) for part in np.split(time, pieces)])  # as blocks of a shuffle come
    expected = np.lexsort((time, code)).tolist()
    assert sorting(code, time).tolist() == expected
    assert sorting(code, time, jit=False).tolist() == expected


# ---- rows ---------------------------------------------------------------------------------------

KEYS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "integers": (pa.int32(), [3, -7, 0, None, 12]),
    "strings": (pa.string(), ["", "a", "ab", None, "\x00"]),
    "decimals": (pa.decimal128(10, 2), [None, 1, -1, 0]),
    "structs": (pa.struct({"a": pa.string(), "b": pa.int64()}), [None, {"a": None, "b": 1}, {"a": "x", "b": None}]),
    "lists": (pa.list_(pa.int32()), [None, [], [1], [1, 2]]),
}
TIES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "integers": (pa.int16(), [2, -1, 5]),
    "strings": (pa.string(), ["b", "B", "ba", ""]),
    "structs": (
        pa.struct({"p": pa.int8(), "q": pa.string()}),
        [{"p": 1, "q": "b"}, {"p": 2, "q": "a"}, {"p": 1, "q": "a"}],
    ),
}


def sorted_rows(task: Task, batches: Sequence[pa.RecordBatch], budget: int) -> list[Row]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator, "BUDGET", budget)
        return [row for batch in in_order(batches, task) for row in batch.to_pylist()]


def order_of(value: Any) -> Any:
    return tuple(value.values()) if isinstance(value, dict) else value


@given(
    kinds=st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=2),
    tie=st.sampled_from([None, *TIES]),
    codes=st.sampled_from([1, 2, 1000]),
    budget=st.sampled_from([1, 300, 3_000, 1 << 20]),
    chunk_rows=st.sampled_from([1, 3, 100]),
    seed=st.integers(0, 2**32),
)
def test_keys_follow_each_other_and_each_is_in_order(
    kinds: list[str], tie: str | None, codes: int, budget: int, chunk_rows: int, seed: int
) -> None:
    """With few codes, keys share them; with a small budget, runs of a few rows go to the disk."""
    random = Random(seed)
    by = [f"key{at}" for at in range(len(kinds))]
    schema = pa.schema(
        [(name, KEYS[kind][0]) for name, kind in zip(by, kinds, strict=True)]
        + [
            ("code", pa.int64()),
            pa.field("time", pa.int64(), nullable=False),
            ("order", TIES[tie or "integers"][0]),
            ("number", pa.int32()),
        ]
    )
    rows: list[Row] = []
    for number in range(random.randrange(60)):
        key = [random.choice(KEYS[kind][1]) for kind in kinds]
        code = Random(repr(key)).randrange(codes)
        rows.append(
            dict(zip(by, key, strict=True))
            | {"code": code, "time": random.randrange(8), "order": random.choice(TIES[tie or "integers"][1])}
            | {"number": number}
        )
    task = task_for(PATTERN, by=tuple(by), order="order" if tie else None, code="code", chunk_rows=chunk_rows)
    batches = pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=random.randrange(1, 10))
    found = sorted_rows(task, batches, budget)
    assert Counter(row["number"] for row in found) == Counter(range(len(rows)))
    in_groups(found, by, lambda row: (row["time"], order_of(row["order"]) if tie else 0))


def in_groups(found: Sequence[Row], by: Sequence[str], moment: Callable[[Row], Any]) -> None:
    keys = [repr([row[name] for name in by]) for row in found]
    assert sum(a != b for a, b in pairwise(keys)) == max(0, len(set(keys)) - 1)
    for key in set(keys):
        moments = [moment(row) for row, other in zip(found, keys, strict=True) if other == key]
        assert moments == sorted(moments)


@given(st.lists(st.sampled_from([None, 0, 3, -7])), st.sampled_from([1, 300, 1 << 20]), st.integers(0, 2**32))
def test_a_key_that_is_its_own_code_may_be_null(keys: list[int | None], budget: int, seed: int) -> None:
    """And has the code of a number, then, which may be a key, too."""
    random = Random(seed)
    rows = [{"key": key, "time": random.randrange(8), "number": at} for at, key in enumerate(keys)]
    schema = pa.schema({"key": pa.int64(), "time": pa.int64(), "number": pa.int32()})
    batches = pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=random.randrange(1, 10))
    found = sorted_rows(task_for(PATTERN, by=("key",), order=None, code="key", chunk_rows=3), batches, budget)
    assert Counter(row["number"] for row in found) == Counter(range(len(rows)))
    in_groups(found, ["key"], lambda row: row["time"])


@given(st.sampled_from([1, 500, 1 << 20]), st.sampled_from([1, 1000]), st.integers(0, 2**32))
def test_the_matches_are_those_of_sorted_rows(budget: int, codes: int, seed: int) -> None:
    random = Random(seed)
    events = [f"{random.choice('aabbx')}{random.randrange(90)}" for _ in range(40)]
    keys = [random.choice(["k", "l", "m", "n"]) for _ in events]
    rows = rows_of(*events, pattern=PATTERN, keys=keys, seq=[random.randrange(3) for _ in events])
    table = pa.Table.from_pylist(rows, SCHEMA)
    table = table.append_column("code", pa.array([ord(key) % codes for key in keys]))
    task = task_for(PATTERN, code="code", chunk_rows=random.choice([1, 5, 64]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator, "BUDGET", budget)
        batches = list(run(task, iter(table.to_batches(max_chunksize=7))))
    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert Counter(found) == Counter(nested_loop(PATTERN, rows))


# ---- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_time", [True, False], ids=["as they happened", "shuffled"])
def test_a_partition_ten_times_the_budget_is_sorted_within_it(in_time: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of all events are of one key: no division by key would make that smaller."""
    rows, width = 400_000, 32
    budget = rows * (2 * width + operator._ROW) // 10
    monkeypatch.setattr(operator, "BUDGET", budget)
    random = np.random.default_rng(1)
    key = np.where(random.random(rows) < 0.5, 7, random.integers(0, 1000, rows))
    time = np.arange(rows) if in_time else random.permutation(rows)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, 1000):
            columns = [key[start : start + 1000], time[start : start + 1000], *np.zeros((2, 1000), np.int64)]
            yield pa.RecordBatch.from_arrays([pa.array(each.copy()) for each in columns], ["key", "time", "p", "q"])

    task = task_for(PATTERN, by=("key",), order=None, code="key", chunk_rows=1000)
    seen, last, before, peaks = 0, (-1, -1), pa.total_allocated_bytes(), list[int]()

    def watched(code: Ints, time: Ints, jit: bool) -> Ints:
        peaks.append(pa.total_allocated_bytes() - before + operator._ROW * len(code))
        return sorting(code, time, jit)

    monkeypatch.setattr(operator, "sorting", watched)
    for batch in in_order(batches(), task):
        peaks.append(pa.total_allocated_bytes() - before)
        pairs = np.stack([batch.column(name).to_numpy() for name in ("key", "time")], axis=1)
        assert last <= tuple(pairs[0])
        assert np.array_equal(pairs, pairs[np.lexsort(pairs.T[::-1])])
        last = tuple(pairs[-1])
        seen += len(pairs)
    assert seen == rows
    assert max(peaks) < budget  # and the partition has 2.8 times as many bytes, without what sorting takes
