"""Zones: who finds the matches that end at a moment is known of every moment, and nothing is missing there."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from sase.runtime.zones import FOREVER, Layout, Stretch, Zone, layout

LAST = 60


@st.composite
def parts(draw: st.DrawFn) -> list[list[int]]:
    """The times that each part of a file has events of: one stretch after the other, some of them in each other's."""
    bounds = sorted(draw(st.lists(st.integers(0, LAST), min_size=1, max_size=6)))
    found = []
    for start, end in zip([0, *bounds], [*bounds, LAST], strict=True):
        reach = draw(st.sampled_from([0, 0, 0, 3]))
        times = st.integers(max(0, start - reach), min(LAST, end + reach))
        found.append(draw(st.lists(times, min_size=1, max_size=8)))
    return found


def stretch(times: list[int]) -> Stretch:
    return Stretch(min(times), max(times), len(times))


def zone_at(found: Layout, time: int) -> Zone:
    return found.zones[bisect_right([zone.start for zone in found.zones], time) - 1]


def is_during(times: tuple[tuple[int, int], ...], time: int) -> bool:
    return any(start <= time < end for start, end in times)


@given(parts(), st.integers(1, 20), st.integers(0, 10))
def test_all_that_a_match_may_need_is_where_it_is_found(parts: list[list[int]], back: int, ahead: int) -> None:
    found = layout([stretch(times) for times in parts], back, ahead)
    assert found.zones[0].start == -FOREVER
    for last in range(-5, LAST + 6):
        needed = {
            (part, time) for part, times in enumerate(parts) for time in times if -back < time - last < max(ahead, 1)
        }
        zone = zone_at(found, last)
        assert zone.owns != is_during(found.borders, last)
        if zone.owns:
            assert {part for part, _ in needed} <= {zone.part}
            assert all(zone_at(found, time).part == zone.part for _, time in needed)  # they are let through there
        else:
            assert all(is_during(found.near, time) for _, time in needed)


def test_what_is_in_order_stays_but_near_the_ends() -> None:
    found = layout([Stretch(0, 99, 100), Stretch(100, 199, 100)], back=10, ahead=0)
    assert found.zones == (Zone(-FOREVER, 0, True), Zone(100, 1, False), Zone(109, 1, True))
    assert found.borders == ((100, 109),) and found.near == ((91, 109),) and found.share == 18 / 200


def test_what_must_not_follow_is_looked_for_behind_a_match() -> None:
    found = layout([Stretch(0, 99, 100), Stretch(100, 199, 100)], back=10, ahead=10)
    assert found.borders == ((91, 109),) and found.near == ((82, 118),)


def test_parts_with_the_same_times_have_no_zone_there() -> None:
    found = layout([Stretch(0, 99, 100), Stretch(50, 149, 100)], back=1, ahead=0)
    assert found.zones == (Zone(-FOREVER, 0, True), Zone(50, None, False), Zone(100, 1, True))
    mixed = layout([Stretch(0, 99, 100), Stretch(0, 99, 100)], back=1, ahead=0)
    assert mixed.zones == (Zone(-FOREVER, None, False),) and mixed.share == 1.0


def test_times_at_the_ends_of_integers_are_like_others() -> None:
    least, most = -8 * 10**18, 8 * 10**18
    found = layout([Stretch(least, least + 9, 10), Stretch(most - 9, most, 10)], back=5, ahead=0)
    assert found.zones == (Zone(-FOREVER, 0, True), Zone(most - 9, 1, False), Zone(most - 5, 1, True))
    assert found.borders == ((most - 9, most - 5),) and least > -FOREVER and most < FOREVER
