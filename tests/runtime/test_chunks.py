"""Chunks of a few rows, between which windows begin and end: several events at a time, and short windows."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from test_kernel import SCHEMA, found, nested_loop, task_for

from sase.runtime.pattern import Negated, Pattern


@st.composite
def short_windows(draw: st.DrawFn) -> Pattern:
    positive = tuple("abc"[: draw(st.sampled_from([1, 2, 2, 3]))])
    gaps = list(zip((None, *positive), (*positive, None), strict=True))
    places = draw(st.lists(st.sampled_from([*gaps, gaps[-1]]), max_size=2))
    negated = tuple(Negated(name, *place) for name, place in zip("xy", places, strict=False))
    return Pattern(positive, negated, within=draw(st.integers(1, 3)))


@settings(max_examples=2 * settings().max_examples)
@given(short_windows(), st.sampled_from([1, 2, 3]), st.sampled_from([1, 2]), st.integers(0, 2**32))
def test_windows_end_where_chunks_do(pattern: Pattern, chunk_rows: int, batch_rows: int, seed: int) -> None:
    random = Random(seed)
    rows, now = [], 0
    for number in range(14):
        now += random.choice([0, 0, 1, 1, 2])
        states = 1 << random.randrange(len(pattern.variables))
        known = {"number": number, "key": "k", "time": now, "seq": 0, "states": states}
        rows.append(dict.fromkeys(SCHEMA.names) | known)
    matches = found(task_for(pattern, order=None, chunk_rows=chunk_rows), rows, batch_rows)
    assert Counter(matches) == Counter(nested_loop(pattern, rows))
