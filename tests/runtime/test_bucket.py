"""The core of a stream finds what a nested loop finds, however the events are cut into micro-batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import follow, shuffled
from test_kernel import SCHEMA, clauses, nested_loop, random_rows

from sase.runtime.pattern import Negated, Outside, Pattern
from sase.runtime.stream.bucket import StreamTask


@st.composite
def windowed_patterns(draw: st.DrawFn) -> tuple[Pattern, int]:
    """With negated components anywhere, and how many of them are outside of the kernel: the last ones."""
    positive = tuple("abc"[: draw(st.sampled_from([1, 2, 2, 3]))])
    gaps = list(zip((None, *positive), (*positive, None), strict=True))
    ends = [(gaps[0], gaps[-1]), (gaps[0],), (gaps[-1],)]
    places = [*draw(st.sampled_from([*ends, ends[0], ()])), *draw(st.lists(st.sampled_from(gaps), max_size=1))]
    outside = draw(st.integers(0, len(places)))
    conditional = draw(st.integers(0, len(places) - outside))  # outside the kernel, none is here
    negated = tuple(
        Negated(name, *place, where=draw(clauses((name, *positive))) if at < conditional else ())
        for at, (name, place) in enumerate(zip("xyz"[: len(places)], places, strict=True))
    )
    return Pattern(positive, negated, draw(clauses(positive)), within=draw(st.sampled_from([1, 4, 7, 10]))), outside


@settings(max_examples=3 * settings().max_examples)
@given(windowed_patterns(), st.sampled_from(["seq", None]), st.integers(0, 2**32))
def test_same_matches_as_a_nested_loop(drawn: tuple[Pattern, int], order: str | None, seed: int) -> None:
    pattern, outside = drawn
    random = Random(seed)
    rows = random_rows(pattern, random.choice([12, 20, 28]), seed)
    if order is None:
        rows = [{**row, "seq": 0} for row in rows]
    elif random.random() < 0.5:  # many at a time, in the order of which they do not arrive
        rows = [{**row, "time": row["number"] // 5, "seq": row["number"] % 5} for row in rows]
    inside = len(pattern.negated) - outside
    task = StreamTask(
        pattern=replace(pattern, negated=pattern.negated[:inside]),
        outside=tuple(Outside(each.variable, each.after, each.before, keyed=True) for each in pattern.negated[inside:]),
        **{"by": ("key",), "time": "time", "order": order, "states": "states"},
        emit=tuple((variable, ("number",)) for variable in pattern.positive),
        **{"batch_rows": 64, "chunk_rows": 64, "jit": True, "shown": ("number",)},
    )
    delay = random.choice([0, 1, 4, 20])
    results = random.choice([[], [at for at in range(len(rows)) if random.random() < 0.4]])
    batches = [
        [row for row in batch if row not in results] for batch in shuffled([row["time"] for row in rows], delay, random)
    ]

    ahead = not results and random.random() < 0.5
    run = follow(task, pa.Table.from_pylist(rows, SCHEMA), batches, delay, results, ahead)

    found = [row for batch in run.matches for row in batch.to_pylist()]
    numbers = Counter(tuple(match[variable]["number"] for variable in pattern.positive) for match in found)
    assert numbers == Counter(nested_loop(pattern, rows))
    assert not run.late
    assert run.state_rows[-1] == 0, "what nothing can reach any more is forgotten"
