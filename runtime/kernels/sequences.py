"""Sequence scan and construction over active instance stacks: one kernel for every query.

The papers' names: `scan` pushes events on an active instance stack (AIS) a state, partitioned (PAIS) because a group's
instances never see another group's; each instance keeps its RIP, the most recent instance of the previous stack.
`construct` searches backwards from the last state, depth first. A negated event ends a walk as a neg_link does.

The kernel compares int64 only, so no query needs a compilation of its own: both functions are compiled once and
cached. Without numba, or with `SASE_JIT=0`, they run as Python and give the same sequences in the same order.

Invariants
----------
Rows of a chunk are sorted by (group, position). `position` never decreases over the whole chunk, rises with every
new group, and is equal for two rows of a group exactly when they are simultaneous. So "before" is `<` on positions,
and what lies between two rows of a group belongs to that group.

Stack s lies in `instance[offset[s] : top[s]]` and holds row numbers in rising order, those of all groups in turn.
    rip[i]              of an instance of stack s: the end (exclusive) of the instances of stack s - 1 before it
    base[s]             the first instance of the group of the event at hand, and of its window if stacks are pruned; so
                        the predecessors of instance i of stack s are base[s - 1] <= j < rip[i], and i is pushed only
                        if there is one. `scan` and `construct` each move it along from offset[s].
    tie_position[s]     the position of the last push, and
    tie_top[s]          `top` before the first push at that position: simultaneous events do not see each other
Without stacks (the paper's Basic), every event lies on every stack but the last, and construction looks at its bits.

Multi-PAIS: events of a group that agree on the other equivalence attributes have the same number in `cross`.
    recent[4 * (s * numbers + cross)] ..
                        position and time of the last push on stack s of an event with this number, then those of the
                        last one at an earlier position; -1 if there is none. An event that would find no partner on
                        the previous stack is not pushed.

Construction binds variables backwards, the last state's first. `chosen[v]` is the row bound to variable v, valid for
depth <= v < positives (and, while a negated event is on trial, for its own variable).
    low[d] .. at[d]     the candidates of stack d still to be tried for the current choice of d + 1 and later, both
                        inclusive. The walk goes down from at[d] and has ended when at[d] < low[d].
Where one sequence is as good as all of those that `wanted` does not tell apart, a walk goes on behind it: with the next
candidate for the wanted variable, or the next group.
    done[row]           1: a sequence with this event for the wanted variable has been reported
No walk is open when depth is the last state. Everything that outlives a call is in `Stacks`, so `construct` returns
whenever `out` is full, and the next call goes on where it stopped.

Negated component k has its events in `negative`, as rising row numbers, up to limit[k].
    first[k] .. end[k]  (exclusive) those of the current group that are before its last event; without those out of its
                        window if stacks are pruned or the component is leading. For a trailing component, those after
                        the last event.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sase.runtime.kernels.compiled import in_machine_code
from sase.runtime.pattern import Pattern

Ints = NDArray[np.int64]

NULL = -(2**63)
"""The term of a NULL. No value has it: see `encode`."""

EQ, NE, LT, LE, GT, GE, HOLDS = range(7)
"""Operators of an atom. HOLDS looks at the left side only: it is true when that is 1."""

OP, LEFT, LEFT_TERM, RIGHT, RIGHT_TERM = range(5)
"""Columns of `Query.atoms`: the operator, and a variable and a term for either side."""

VARIABLE, AFTER, BEFORE, DEPTH, BOUNDS, CLAUSE, CLAUSE_END = range(7)
"""Columns of `Query.negated`.

AFTER and BEFORE are the positive neighbours, -1 where there is none. DEPTH is where the component is decided: the
earliest depth at which its neighbours and all variables of its clauses are bound. BOUNDS says that its clauses do
not mention the variable bound there: then one negated event decides for a whole range of candidates.
"""

NEXT, GROUP, OPEN = range(3)
"""Slots of `Stacks.cursor`: the next instance of the last state, the group of the current one, and the depth of the
open walk."""


class Query(NamedTuple):
    """A pattern as integers; built by `encode.encode_pattern`."""

    positives: int
    within: int  # 0: no window
    basic: int  # no stacks: every event of the window is a candidate for every state
    prune: int  # windows in the scan: stacks forget what the window has left
    cut: int  # windows in the construction; 0 where `prune` already does as much
    atoms: Ints  # [atom, 5]
    clauses: Ints  # clause c is the disjunction of atoms[clauses[c] : clauses[c + 1]]; those of WHERE come first
    checks: Ints  # the clauses of WHERE that are decided at depth d: checks[d] .. checks[d + 1]
    numbers: Ints  # clause c of WHERE is the pattern's numbers[c]
    negated: Ints  # [component, 7]; its clauses CLAUSE .. CLAUSE_END are a conjunction
    wanted: int = -1  # the variable of whose events one sequence each is enough; `positives`: one of each group


class Events(NamedTuple):
    """A chunk of events, sorted by (group, position)."""

    position: Ints
    time: Ints
    states: Ints  # bit v: may fill variable v
    groups: Ints  # group g is rows groups[g] .. groups[g + 1]
    terms: Ints  # [term, row]
    fresh: int  # sequences that end before this row have been reported with an earlier chunk
    stop: int  # sequences that end at this row or later are left to a later chunk
    cross: Ints = np.zeros(0, np.int64)  # Multi-PAIS: the number of each row's other attributes; empty without it
    since: int = -(2**63)  # matches of a combination that are due at this time or earlier have been reported,
    until: int = 2**63 - 1  # and those that are due later than this are left to a later call


class Stacks(NamedTuple):
    """The stacks of a chunk, and where the construction has come to."""

    offset: Ints
    top: Ints
    base: Ints
    tie_position: Ints
    tie_top: Ints
    instance: Ints
    rip: Ints
    recent: Ints
    cursor: Ints
    low: Ints
    at: Ints
    chosen: Ints
    negative: Ints
    first: Ints
    end: Ints
    limit: Ints
    counters: Ints  # laid out as in `Counters`
    done: Ints


class Counters(NamedTuple):
    """What the kernel did, for `explain --analyze`: consecutive parts of one array."""

    pushed: Ints  # instances per positive state
    visited: Ints  # candidates per positive state that walks looked at
    rejected: Ints  # candidates per clause of WHERE
    killed: Ints  # candidates per negated component
    sequences: Ints  # one number

    @classmethod
    def of(cls, pattern: Pattern, counters: Ints | None = None) -> Counters:
        """The parts of `counters`, or of a new array of zeros."""
        sizes = (len(pattern.positive), len(pattern.positive), len(pattern.where), len(pattern.negated), 1)
        ends = np.cumsum(sizes)
        return cls(*np.split(np.zeros(ends[-1], np.int64) if counters is None else counters, ends[:-1]))


def _inside(earlier: int, later: int, within: int) -> bool:
    """later - earlier < within; a difference that does not fit int64 comes out negative."""
    return 0 <= later - earlier < within


def first_at(rows: Ints, begin: int, end: int, position: Ints, wanted: int) -> int:
    """The first of rows[begin:end] at position `wanted` or later."""
    while begin < end:
        middle = (begin + end) >> 1
        if position[rows[middle]] < wanted:
            begin = middle + 1
        else:
            end = middle
    return begin


def _first_inside(rows: Ints, begin: int, end: int, time: Ints, later: int, within: int) -> int:
    """The first of rows[begin:end], none of them later than `later`, whose window reaches it."""
    while begin < end:
        middle = (begin + end) >> 1
        if _inside(time[rows[middle]], later, within):
            end = middle
        else:
            begin = middle + 1
    return begin


def failing(begin: int, end: int, atoms: Ints, clauses: Ints, terms: Ints, chosen: Ints) -> int:
    """The first of the clauses begin .. end that is not true of the chosen events, or -1.

    An atom with a NULL side is not true, whatever its operator.
    """
    for clause in range(begin, end):
        true = False
        for a in range(clauses[clause], clauses[clause + 1]):
            op = atoms[a, OP]
            left = terms[atoms[a, LEFT_TERM], chosen[atoms[a, LEFT]]]
            right = terms[atoms[a, RIGHT_TERM], chosen[atoms[a, RIGHT]]]
            if op == HOLDS:
                true = left == 1
            elif left == NULL or right == NULL:
                true = False
            elif op == EQ:
                true = left == right
            elif op == NE:
                true = left != right
            elif op == LT:
                true = left < right
            elif op == LE:
                true = left <= right
            elif op == GT:
                true = left > right
            else:
                true = left >= right
            if true:
                break
        if not true:
            return clause
    return -1


def _killer(
    k: int, negated: Ints, negative: Ints, first: int, end: int, position: Ints, time: Ints, within: int,
    atoms: Ints, clauses: Ints, terms: Ints, chosen: Ints,
) -> int:  # fmt: skip
    """The row of an event of negated component k that forbids the chosen events, or -1.

    Of several, the latest where the component stands between two positives, else the first.
    """
    variable, after, before = negated[k, VARIABLE], negated[k, AFTER], negated[k, BEFORE]
    clause, clause_end = negated[k, CLAUSE], negated[k, CLAUSE_END]
    if after >= 0 and before >= 0:
        for b in range(first_at(negative, first, end, position, position[chosen[before]]) - 1, first - 1, -1):
            row: int = negative[b]
            if position[row] <= position[chosen[after]]:
                return -1
            chosen[variable] = row
            if failing(clause, clause_end, atoms, clauses, terms, chosen) < 0:
                return row
        return -1
    for b in range(first, end):
        row = negative[b]
        leading = before >= 0
        if leading and position[row] >= position[chosen[0]]:
            return -1
        if not leading and not _inside(time[chosen[0]], time[row], within):
            return -1
        chosen[variable] = row
        if failing(clause, clause_end, atoms, clauses, terms, chosen) < 0:
            return row
    return -1


def scan(query: Query, events: Events, stacks: Stacks) -> None:
    """Push every event on the stacks of the states that it may fill and that the previous state leads to."""
    positives, within, prune, basic = query.positives, query.within, query.prune, query.basic
    position, time, states, groups = events.position, events.time, events.states, events.groups
    cross, recent = events.cross, stacks.recent
    top, base, tie_position, tie_top = stacks.top, stacks.base, stacks.tie_position, stacks.tie_top
    instance, rip, counters = stacks.instance, stacks.rip, stacks.counters
    last = positives - 1
    mask = (1 << positives) - 1
    everywhere = (1 << last) - 1 if basic else 0
    numbers = len(recent) // (4 * positives)
    for g in range(len(groups) - 1):
        for s in range(positives):
            base[s] = top[s]
        for row in range(groups[g], min(groups[g + 1], events.stop)):
            bits = states[row] & mask | everywhere
            here, now = position[row], time[row]
            s = -1
            while bits:
                s += 1
                fills = bits & 1
                bits >>= 1
                if not fills or (s == last and row < events.fresh):
                    continue
                end = 0
                if s > 0:
                    end = tie_top[s - 1] if tie_position[s - 1] == here else top[s - 1]
                    i = base[s - 1]
                    while i < end and prune and not _inside(time[instance[i]], now, within):
                        i += 1
                    base[s - 1] = i
                    if i == end:
                        continue
                if numbers and (states[row] >> s) & 1:
                    if s > 0:
                        slot = 4 * ((s - 1) * numbers + cross[row])
                        if recent[slot] == here:
                            slot += 2
                        if recent[slot] < 0 or (prune and not _inside(recent[slot + 1], now, within)):
                            continue
                    slot = 4 * (s * numbers + cross[row])
                    if recent[slot] != here:
                        recent[slot + 2], recent[slot + 3] = recent[slot], recent[slot + 1]
                        recent[slot], recent[slot + 1] = here, now
                i = top[s]
                if tie_position[s] != here:
                    tie_position[s] = here
                    tie_top[s] = i
                instance[i] = row
                rip[i] = end
                top[s] = i + 1
                counters[s] += row >= events.fresh  # what was carried has been counted with its own chunk
    for s in range(positives):
        base[s] = stacks.offset[s]


def construct(query: Query, events: Events, stacks: Stacks, out: Ints) -> int:
    """Write the next sequences to `out` as row numbers and return how many; fewer than fit means there are no more."""
    positives, within, prune, cut = query.positives, query.within, query.prune, query.cut
    basic, states = query.basic, events.states
    atoms, clauses, negated = query.atoms, query.clauses, query.negated
    checks, numbers, wanted, done = query.checks, query.numbers, query.wanted, stacks.done
    position, time, groups, terms = events.position, events.time, events.groups, events.terms
    top, base, instance, rip, cursor = stacks.top, stacks.base, stacks.instance, stacks.rip, stacks.cursor
    low, at, chosen, counters = stacks.low, stacks.at, stacks.chosen, stacks.counters
    negative, first, end, limit = stacks.negative, stacks.first, stacks.end, stacks.limit
    last = positives - 1
    visited, rejected = positives, 2 * positives
    killed = rejected + len(numbers)
    depth = cursor[OPEN]
    found = 0
    while found < len(out):
        # Bind the next candidate: of the open walk, or, where there is none, the next event of the last state.
        if depth < last:
            candidate = at[depth]
            if candidate < low[depth]:
                depth += 1
                continue
            at[depth] = candidate - 1
            chosen[depth] = instance[candidate]
            if basic and not (states[chosen[depth]] >> depth) & 1:
                counters[visited + depth] -= 1
                continue
            if depth == wanted and done[chosen[depth]] == 1:
                continue
        else:
            candidate = cursor[NEXT]
            if candidate == top[last]:
                break
            cursor[NEXT] = candidate + 1
            row = instance[candidate]
            now = time[row]
            chosen[last] = row
            while groups[cursor[GROUP] + 1] <= row:
                cursor[GROUP] += 1
            group, group_end = groups[cursor[GROUP]], groups[cursor[GROUP] + 1]
            for s in range(last):
                i = base[s]
                while i < top[s] and instance[i] < row:
                    if instance[i] >= group and (not prune or _inside(time[instance[i]], now, within)):
                        break
                    i += 1
                base[s] = i
            for k in range(len(negated)):
                b = end[k]
                if negated[k, BEFORE] < 0:
                    while b < limit[k] and negative[b] < group_end:
                        b += 1
                    first[k] = first_at(negative, first[k], b, position, position[row] + 1)
                else:
                    while b < limit[k] and position[negative[b]] < position[row]:
                        b += 1
                    first[k] = first_at(negative, first[k], b, position, position[group])
                    if prune or negated[k, AFTER] < 0:
                        first[k] = _first_inside(negative, first[k], b, time, now, within)
                end[k] = b

        # Check everything that is decided at this depth.
        if checks[depth] < checks[depth + 1]:
            failed = failing(checks[depth], checks[depth + 1], atoms, clauses, terms, chosen)
            if failed >= 0:
                counters[rejected + numbers[failed]] += 1
                continue
        alive = True
        for k in range(len(negated)):
            if negated[k, DEPTH] == depth and negated[k, BOUNDS] == 0:
                killer = _killer(
                    k, negated, negative, first[k], end[k], position, time, within, atoms, clauses, terms, chosen
                )
                if killer >= 0:
                    counters[killed + k] += 1
                    alive = False
                    break
        if not alive:
            continue

        # Report a sequence that is complete.
        if depth == 0:
            for s in range(positives):
                out[found, s] = chosen[s]
            found += 1
            if wanted == positives:
                depth = last
                while cursor[NEXT] < top[last] and instance[cursor[NEXT]] < groups[cursor[GROUP] + 1]:
                    cursor[NEXT] += 1
            elif wanted >= 0:
                depth = wanted
                done[chosen[wanted]] = 1
            continue

        # Open the walk over the predecessors. A negated component that bounds is asked once, with the candidate that
        # opens the widest interval. Between two positives that is the oldest, and its killer forbids the candidates
        # before itself. Otherwise it is the latest, and its killer forbids the candidates after itself (leading) or
        # those whose window reaches it (trailing).
        depth -= 1
        low[depth] = base[depth]
        at[depth] = rip[candidate] - 1
        if cut:
            low[depth] = _first_inside(instance, low[depth], at[depth] + 1, time, time[chosen[last]], within)
        for k in range(len(negated)):
            if negated[k, DEPTH] == depth and negated[k, BOUNDS] and low[depth] <= at[depth]:
                size = at[depth] - low[depth]
                between = negated[k, AFTER] >= 0 and negated[k, BEFORE] >= 0
                chosen[depth] = instance[low[depth] if between else at[depth]]
                killer = _killer(
                    k, negated, negative, first[k], end[k], position, time, within, atoms, clauses, terms, chosen
                )
                if killer < 0:
                    continue
                if between:
                    low[depth] = first_at(instance, low[depth], at[depth] + 1, position, position[killer])
                elif negated[k, AFTER] < 0:
                    at[depth] = first_at(instance, low[depth], at[depth] + 1, position, position[killer] + 1) - 1
                else:
                    at[depth] = _first_inside(instance, low[depth], at[depth] + 1, time, time[killer], within) - 1
                counters[killed + k] += size - (at[depth] - low[depth])
        counters[visited + depth] += max(0, at[depth] - low[depth] + 1)
    cursor[OPEN] = depth
    counters[len(counters) - 1] += found
    return found


def table_types() -> tuple[Any, Any, Any, Any, Any]:
    """numba's types of what the kernels are given and keep: arrays of one and two dimensions, and `Events`."""
    import numba

    types: Any = numba.types
    integer = types.int64
    given, given_table = (types.Array(integer, dimensions, "C", readonly=True) for dimensions in (1, 2))
    kept, kept_table = (types.Array(integer, dimensions, "C") for dimensions in (1, 2))
    fields = [given] * 4 + [given_table, integer, integer, given, integer, integer]
    return given, given_table, kept, kept_table, types.BaseTuple.from_types(fields, Events)


@cache
def _compiled() -> tuple[Any, Any] | None:
    """`scan` and `construct` in machine code; None without numba."""
    try:
        import numba
        from numba.extending import register_jitable
    except ImportError:
        return None
    for helper in (_inside, first_at, _first_inside, failing, _killer):
        register_jitable(helper)
    types: Any = numba.types
    integer, named = types.int64, types.BaseTuple.from_types
    given, given_table, kept, kept_table, events = table_types()
    query = named([integer] * 5 + [given_table, given, given, given, given_table, integer], Query)
    stacks = named([kept] * len(Stacks._fields), Stacks)
    return (
        in_machine_code(scan, types.void(query, events, stacks)),
        in_machine_code(construct, integer(query, events, stacks, kept_table)),
    )


def each_array(tables: Any, change: Callable[[Any], Any]) -> Any:
    return type(tables)(*(change(field) if isinstance(field, np.ndarray) else field for field in tables))


def read_only(array: Ints) -> Ints:
    """A read-only view: pyarrow's arrays are read-only, and there is one compilation."""
    view = np.ascontiguousarray(array, np.int64).view()
    view.flags.writeable = False
    return view


def new_stacks(query: Query, events: Events, counters: Ints) -> Stacks:
    def zeros(size: int) -> Ints:
        return np.zeros(size, np.int64)

    positives, components = query.positives, len(query.negated)
    sizes = [int(np.count_nonzero(events.states & (1 << s))) for s in range(positives)]
    if query.basic:
        sizes[:-1] = [len(events.states)] * (positives - 1)
    offset = np.cumsum([0, *sizes])
    numbers = int(events.cross.max()) + 1 if len(events.cross) else 0
    negative = [np.flatnonzero(events.states & (1 << positives + k)) for k in range(components)]
    limit = np.cumsum([0, *map(len, negative)])
    cursor = zeros(3)
    cursor[NEXT], cursor[OPEN] = offset[positives - 1], positives - 1
    return Stacks(
        offset=offset[:-1],
        top=offset[:-1].copy(),
        base=offset[:-1].copy(),
        tie_position=np.full(positives, -1),
        tie_top=zeros(positives),
        instance=np.empty(offset[-1], np.int64),
        rip=np.empty(offset[-1], np.int64),
        recent=np.full(4 * positives * numbers, -1),
        cursor=cursor,
        low=zeros(positives),
        at=zeros(positives),
        chosen=zeros(positives + components),
        negative=np.concatenate([zeros(0), *negative]),
        first=limit[:-1].copy(),
        end=limit[:-1].copy(),
        limit=limit[1:],
        counters=counters,
        done=zeros(len(events.states) if 0 <= query.wanted < positives else 0),
    )


def sequences(query: Query, events: Events, counters: Ints, capacity: int, jit: bool = True) -> Iterator[Ints]:
    """The sequences of a chunk as arrays [at most `capacity`, positives] of row numbers.

    The same memory is filled again and again: use an array up before asking for the next.
    """
    if capacity < 1:
        raise ValueError("capacity must be at least 1")
    query, events = each_array(query, read_only), each_array(events, read_only)
    stacks, out = new_stacks(query, events, counters), np.empty((capacity, query.positives), np.int64)
    compiled = _compiled() if jit and os.environ.get("SASE_JIT") != "0" else None
    run_scan: Any
    run_construct: Any
    run_scan, run_construct = compiled or (scan, construct)
    tables: Any = (query, events, stacks)
    buffer: Any = out
    if compiled is None:  # memory views give Python integers: faster than numpy's, and they do not overflow
        tables = [each_array(table, memoryview) for table in tables]
        buffer = memoryview(buffer)
    run_scan(*tables)
    found = capacity
    while found == capacity:
        found = run_construct(*tables, buffer)
        if found:
            yield out[:found]
