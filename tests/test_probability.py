"""The smart home of the paper on TelegraphCQ's events (section 4): its printed numbers, and the rule by the letter."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sase.probability import Evidence, Filter, Move, State, StateError

ROOMS = ("LR", "BR", "Outside")
PRINTED = {
    ("LR", "BR"): Fraction(1, 2),
    ("BR", "BR"): Fraction(1, 4),
    ("BR", "Outside"): Fraction(1, 8),
    ("Outside", "Outside"): Fraction(1, 8),
}


def home(prior: dict[tuple[Hashable, ...], Any], order: str | None = None, **events: Any) -> Filter:
    return Filter({"A": ROOMS, "B": ROOMS}, prior, events, order=order)


MOVED = {"MOVED": lambda event: Move(event["origin"], event["target"])}


def moved(ts: int, origin: str, target: str, **more: Any) -> dict[str, Any]:
    return {"type": "MOVED", "ts": ts, "origin": origin, "target": target, **more}


def test_the_three_questions_of_the_paper() -> None:
    state = home(PRINTED).state([])
    assert state.expect(lambda at: sum(room != "Outside" for room in at.values())) == Fraction(13, 8)
    assert state.distribution(lambda at: tuple(name for name in at if at[name] == "BR")) == {
        ("A",): Fraction(1, 8),
        ("B",): Fraction(1, 2),
        ("A", "B"): Fraction(1, 4),
        (): Fraction(1, 8),
    }
    assert state.probability(lambda at: at["A"] == "BR") == Fraction(3, 8)
    assert state.distribution("A") == {"LR": Fraction(1, 2), "BR": Fraction(3, 8), "Outside": Fraction(1, 8)}


def test_states_with_nobody_there_drop_out() -> None:
    state = home(PRINTED, **MOVED).state([moved(1, "LR", "BR")])
    assert state.mass == {("BR", "BR"): 1}


def test_each_person_who_is_there_is_equally_likely_to_have_moved() -> None:
    state = home({("LR", "LR"): 1}, **MOVED).state([moved(1, "LR", "BR")])
    assert state.mass == {("BR", "LR"): Fraction(1, 2), ("LR", "BR"): Fraction(1, 2)}
    only = home({("LR", "LR"): 1}, LEFT=Move("LR", "Outside", who=("B",))).state([{"type": "LEFT", "ts": 1}])
    assert only.mass == {("LR", "Outside"): 1}


def test_evidence_reduces_uncertainty_as_printed() -> None:
    half = {("BR", "LR"): Fraction(1, 2), ("LR", "BR"): Fraction(1, 2)}
    seen = Evidence("A", {"BR": Fraction(9, 10), "LR": Fraction(1, 10), "Outside": Fraction(0)})
    state = home(half, SEEN=seen).state([{"type": "SEEN", "ts": 1}])
    assert state.distribution("A") == {"BR": Fraction(9, 10), "LR": Fraction(1, 10)}
    rounded = home({values: 0.5 for values in half}, SEEN=Evidence("A", {"BR": 0.9, "LR": 0.1}))
    assert rounded.state([{"type": "SEEN", "ts": 1}])["BR", "LR"] == pytest.approx(0.9)


def test_a_state_is_that_of_an_instant() -> None:
    events = [moved(5, "BR", "LR"), {"type": "TEMPERATURE", "ts": 2}, moved(2, "LR", "BR")]
    tracker = home({("LR", "Outside"): 1}, **MOVED)
    assert tracker.state(events, at=2).mass == {("LR", "Outside"): 1}  # only what is before it
    assert tracker.state(events, at=3).mass == {("BR", "Outside"): 1}
    assert tracker.state(events).mass == {("LR", "Outside"): 1}
    ordered = home({("LR", "Outside"): 1}, order="n", **MOVED)
    twice = [moved(2, "BR", "Outside", n=2), moved(2, "LR", "BR", n=1)]
    assert ordered.state(twice, at=(2, 2)).mass == {("BR", "Outside"): 1}
    assert ordered.state(twice, at=2).mass == {("LR", "Outside"): 1}
    assert ordered.state(twice).mass == {("Outside", "Outside"): 1}


@pytest.mark.parametrize(
    ("events", "order", "message"),
    [
        ([moved(1, "LR", "BR"), moved(1, "BR", "LR")], None, "MOVED at 1 and MOVED at 1 are simultaneous"),
        ([moved(1, "LR", "BR", n=3), moved(1, "BR", "LR", n=3)], "n", "MOVED at 1, 3 and MOVED at 1, 3 are simultan"),
        ([moved(1, "LR", "BR"), moved(7, "LR", "BR")], None, "MOVED at 7: it is impossible in every state"),
        ([moved(4, "LR", "Den")], None, "MOVED at 4: A is never 'Den': it is one of 'LR', 'BR', 'Outside'"),
    ],
)
def test_what_has_no_meaning_names_the_event(events: list[dict[str, Any]], order: str | None, message: str) -> None:
    with pytest.raises(StateError, match=f"^{message}"):
        home(PRINTED, order, **MOVED).state(events)


@pytest.mark.parametrize(
    ("prior", "change", "message"),
    [
        ({("LR", "BR"): Fraction(1, 2)}, Move("LR", "BR"), "must add up to 1"),
        ({("LR", "BR"): 2, ("BR", "LR"): -1}, Move("LR", "BR"), "must add up to 1"),
        ({("LR",): 1}, Move("LR", "BR"), "is no state of A, B"),
        ({("LR", "Den"): 1}, Move("LR", "BR"), "B is never 'Den'"),
        ({("LR", "BR"): 1}, Move("LR", "BR", who=("C",)), "E at 1: there is no variable C"),
        ({("LR", "BR"): 1}, Evidence("C", {}), "E at 1: there is no variable C"),
        ({("LR", "BR"): 1}, Evidence("A", {"BR": 1}), "E at 1: there is no likelihood for 'LR'"),
        ({("LR", "BR"): 1}, Evidence("A", {"LR": -1}), "E at 1: a likelihood is not negative"),
    ],
)
def test_what_is_declared_is_checked(prior: Any, change: Any, message: str) -> None:
    with pytest.raises(StateError, match=message):
        home(prior, E=change).state([{"type": "E", "ts": 1}])


def by_the_letter(prior: State, changes: list[Move | Evidence]) -> dict[tuple[Hashable, ...], Fraction]:
    """p'(s') ∝ L(s') · Σ_s M(s → s') · p(s), over all pairs of states; scaled once, at the end."""
    everything = list(product(ROOMS, repeat=2))
    mass: dict[tuple[Hashable, ...], Any] = {state: prior[state] for state in everything}

    def share(change: Move | Evidence, old: tuple[str, ...], new: tuple[str, ...]) -> Any:
        if isinstance(change, Evidence):
            return change.likelihood[new[0]] if old == new else 0
        there = [place for place in (0, 1) if old[place] == change.origin]
        reached = [tuple(change.target if at == place else old[at] for at in (0, 1)) for place in there]
        return Fraction(reached.count(new), len(there)) if there else 0

    for change in changes:
        mass = {
            new: sum((share(change, old, new) * mass[old] for old in everything), Fraction(0)) for new in everything
        }
    total = sum(mass.values())
    return {state: value / total for state, value in mass.items() if value} if total else {}


moves = st.builds(Move, st.sampled_from(ROOMS), st.sampled_from(ROOMS))
sightings = st.builds(
    lambda *odds: Evidence("A", dict(zip(ROOMS, map(Fraction, odds), strict=True))), *[st.integers(0, 3)] * 3
)


@given(st.lists(moves | sightings, max_size=4))
def test_any_story_is_that_of_the_letter(changes: list[Move | Evidence]) -> None:
    tracker = home(PRINTED, E=lambda event: changes[event["ts"]])
    events = [{"type": "E", "ts": at} for at in range(len(changes))]
    expected = by_the_letter(tracker.start, changes)
    for shuffled in list(permutations(events))[:6]:
        if expected:
            assert tracker.state(shuffled).mass == expected
        else:
            with pytest.raises(StateError, match="impossible in every state"):
                tracker.state(shuffled)
