"""The most obvious way to evaluate a combination: all assignments of rows to variables, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from test_kernel import Row, all_true, clauses

from sase.runtime.pattern import BORROWED, Apart, At, Branch, Combination, Derived, Earliest, Group, Instant, Latest

Bound = Mapping[str, Row]


@dataclass(frozen=True)
class Match:
    """The numbers of the rows of a match, and when it began and is certain."""

    events: tuple[tuple[str, Any], ...]
    started: int
    detected: int
    due: int


def judge(
    pattern: Combination, rows: Sequence[Row], accepted: Callable[[int, Bound], bool] = lambda branch, bound: True
) -> list[Match]:
    """In the order of their latest rows: of those that somebody else accepts, where a combination is deferred."""
    found: list[tuple[Branch, Bound]] = []
    for key in dict.fromkeys(row["key"] for row in rows):
        of_key = [row for row in rows if row["key"] == key]
        seen = set()
        for at, branch in enumerate(pattern.branches):
            for bound in bindings(pattern, branch, {}, of_key):
                latest = max(bound.values(), key=number)
                if latest["states"] & BORROWED or not accepted(at, bound):
                    continue
                assignment = frozenset((variable, number(row)) for variable, row in bound.items())
                if not pattern.once or assignment not in seen:
                    found.append((branch, bound))
                seen.add(assignment)
    found = selected(pattern, found)
    return [described(pattern, branch, bound, rows) for branch, bound in found]


def number(row: Row) -> int:
    return int(row["number"])


def place(row: Row) -> tuple[int, int]:
    return row["time"], row["seq"]


def bindings(pattern: Combination, each: Branch | Group, outer: Bound, rows: Sequence[Row]) -> Iterator[Bound]:
    """All assignments of the variables of a branch or a group that meet its conditions, in the order of the rows."""

    def assigned(bound: Bound, left: Sequence[str]) -> Iterator[Bound]:
        if not left:
            yield bound
            return
        taken = {number(row) for row in bound.values()}
        for row in rows:
            if row["states"] & pattern.bit(left[0]) and number(row) not in taken:
                yield from assigned({**bound, left[0]: row}, left[1:])

    for bound in assigned(outer, each.variables):
        if not all(place(bound[u]) < place(bound[v]) for u, v in each.before):
            continue
        if not all(bound[a.later]["time"] - bound[a.earlier]["time"] < a.ticks for a in each.apart):
            continue
        if not all_true(each.where, bound):
            continue
        forbidding = (group for group in each.groups if not group.collect)
        if not any(any(True for _ in bindings(pattern, group, bound, rows)) for group in forbidding):
            yield bound


def described(pattern: Combination, branch: Branch, bound: Bound, rows: Sequence[Row]) -> Match:
    events: dict[str, Any] = {variable: number(row) for variable, row in bound.items()}
    latest = max(bound.values(), key=number)
    of_key = [row for row in rows if row["key"] == latest["key"]]
    for group in branch.groups:
        if group.collect:
            collected = list(bindings(pattern, group, bound, of_key))
            if group.name:
                events[group.name] = tuple(tuple(number(each[v]) for v in group.variables) for each in collected)
            else:
                events |= {v: tuple(number(binding[v]) for binding in collected) for v in group.variables}
    times = [row["time"] for row in bound.values()]
    detected, ticks = instant(branch.instant, bound)
    return Match(tuple(sorted(events.items())), min(times), detected, detected + ticks)


def instant(instant: Instant, bound: Bound) -> tuple[int, int]:
    """When a match is certain, and how much later it is due: an event's time has to pass."""
    times = [row["time"] for row in bound.values()]
    match instant:
        case Latest():
            return max(times), 1
        case Earliest(ticks):
            return min(times) + ticks, 0
        case At(variable):
            return bound[variable]["time"], 1
        case Derived(variable, ticks):
            return bound[variable]["time"] + ticks, 0


def selected(pattern: Combination, found: list[tuple[Branch, Bound]]) -> list[tuple[Branch, Bound]]:
    """Moment by moment: without what is used up, then the best of each terminator."""
    if not pattern.select and not pattern.exclusive:
        return found
    reported, used = [], set[int]()
    moments: dict[Any, list[tuple[Branch, Bound]]] = {}
    for branch, bound in found:
        latest = max(bound.values(), key=number)
        moments.setdefault((latest["key"], place(latest)), []).append((branch, bound))
    for moment in sorted(moments):
        left = [each for each in moments[moment] if not used & {number(row) for row in each[1].values()}]
        for variable, mode in pattern.select:
            left = [each for each in left if best(pattern, each[1], variable, mode, [bound for _, bound in left])]
        reported += left
        if pattern.exclusive:
            used |= {number(row) for _, bound in left for row in bound.values()}
    return reported


def best(pattern: Combination, bound: Bound, variable: str, mode: str, others: Sequence[Bound]) -> bool:
    if variable not in bound:
        return True
    end = terminator(pattern, bound)
    others = [other for other in others if variable in other and terminator(pattern, other) == end]
    return place(bound[variable]) == (min if mode == "first" else max)(place(other[variable]) for other in others)


def terminator(pattern: Combination, bound: Bound) -> int:
    last = max(map(place, bound.values()))
    return next(number(bound[v]) for v in pattern.positive if v in bound and place(bound[v]) == last)


# ---- any combination ------------------------------------------------------------------------------------------------


@st.composite
def relations(draw: st.DrawFn, own: Sequence[str], outer: Sequence[str], within: int | None) -> dict[str, Any]:
    """An order, differences of times, and clauses that concern some of the variables `own`."""
    everyone = draw(st.permutations([*own, *outer]))
    pairs = [(u, v) for i, u in enumerate(everyone) for v in everyone[i + 1 :] if {u, v} & set(own)]
    before = draw(st.lists(st.sampled_from(pairs), max_size=3, unique=True)) if pairs else []
    apart = []
    if within is not None:
        apart += [Apart(u, v, within) for u, v in (*pairs, *((v, u) for u, v in pairs))]
    elif pairs:
        some = draw(st.lists(st.tuples(st.sampled_from(pairs), st.booleans()), max_size=2))
        apart += [Apart(*(pair if way else pair[::-1]), draw(st.integers(-3, 9))) for pair, way in some]
    where = draw(clauses([*own, *outer]))
    return {"before": tuple(before), "apart": tuple(apart), "where": where}


@st.composite
def groups(
    draw: st.DrawFn, names: list[str], outer: Sequence[str], within: int | None, collect: bool, depth: int
) -> Group:
    own = [names.pop() for _ in range(min(len(names), draw(st.sampled_from([1, 1, 1, 2]))))]
    inner = ()
    if depth and names and draw(st.sampled_from([False, False, True])):
        inner = (draw(groups(names, [*own, *outer], within, False, depth - 1)),)
    name = "_" + "".join(own) if collect and (len(own) > 1 or draw(st.booleans())) else None
    return Group(tuple(own), groups=inner, collect=collect, name=name, **draw(relations(own, outer, within)))


@st.composite
def branches(draw: st.DrawFn, within: int | None, instants: st.SearchStrategy[Instant] | None) -> Branch:
    variables = draw(st.sampled_from(["a", "ab", "ab", "abc", "abc", "bc", "ac", "abd", "abcd"]))
    names = list("wzyx")
    number_of_groups = draw(st.sampled_from([0, 0, 1, 1, 2]))
    found = []
    for _ in range(number_of_groups):
        if names:
            collect = draw(st.sampled_from([False, False, True]))
            found.append(draw(groups(names, variables, within, collect, depth=2)))
    instant = draw(instants if instants is not None else st.sampled_from(
        [Latest(), Earliest(within or 3), At(variables[-1]), Derived(variables[0], 4)]))  # fmt: skip
    order = tuple(tuple(draw(st.permutations(variables))) for _ in range(draw(st.integers(0, 2))))
    return Branch(
        tuple(variables), groups=tuple(found), instant=instant, order=order, **draw(relations(variables, (), within))
    )


@st.composite
def streamed(draw: st.DrawFn) -> Combination:
    """With a window over everything, at whose end whatever is open is decided."""
    within = draw(st.sampled_from([1, 3, 6, 10]))
    instants = st.sampled_from([Latest(), Earliest(within), Earliest(within)])
    some = [draw(branches(within, instants)) for _ in range(draw(st.sampled_from([1, 1, 2])))]
    closed = tuple(replace(each, groups=tuple(closing(group, each.variables) for group in each.groups))
                   if each.instant == Latest() else each for each in some)  # fmt: skip
    modes = [(each, draw(st.sampled_from(["first", "last"]))) for each in "ab"] if draw(st.integers(0, 4)) == 0 else []
    bound = {variable for branch in closed for variable in branch.variables}
    chosen = tuple(each for each in modes if each[0] in bound)
    return Combination(closed, draw(st.booleans()), chosen, draw(st.sampled_from([False, False, True])))


def closing(group: Group, variables: Sequence[str]) -> Group:
    """With an event of the match behind it, so that a match is certain with its latest event."""
    last = variables[-1]
    before = tuple(pair for pair in group.before if pair[0] != last)
    inner = tuple(closing(each, variables) for each in group.groups)
    return replace(group, before=(*before, *((each, last) for each in group.variables)), groups=inner)


@st.composite
def combinations(draw: st.DrawFn) -> Combination:
    within = draw(st.sampled_from([None, None, 1, 3, 6, 10]))
    some = tuple(draw(branches(within, None)) for _ in range(draw(st.sampled_from([1, 1, 2, 3]))))
    modes = []
    if draw(st.sampled_from([False, False, True])):
        bound = dict.fromkeys(variable for branch in some for variable in branch.variables)
        modes = [(v, draw(st.sampled_from(["first", "last"]))) for v in bound if draw(st.booleans())]
    exclusive = draw(st.sampled_from([False, False, False, True]))
    return Combination(some, once=draw(st.booleans()), select=tuple(modes), exclusive=exclusive)
