"""A combination as tables of integers: the program that `combinations` runs.

A *frame* is a run of steps, each of which binds one variable: a walk of a branch, or a group. A step says between which
bounds its candidates lie, given what is bound, what they must differ from, which clauses are decided with it, and which
groups must have no binding then. Everything is decided as early as it can be.

- A *walk* is a branch and the variable that holds the latest row of a match. So a match has one walk, and its other
  variables are looked for among earlier rows.
- A group that forbids is asked for at the first step that binds what it needs: all that its relations and clauses
  mention, and every event that one of its own could be.
- `once`: that an earlier branch accepts the same events is a group as well, without variables of its own: it has the
  relations, clauses and groups of that branch, on events that are bound already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from sase.runtime.kernels.combinations import (
    AFTER,
    AT,
    BEFORE,
    DERIVED,
    EARLIEST,
    LATEST,
    MOST,
    SINCE,
    UNTIL,
    VARIABLE,
    Counters,
    Program,
)
from sase.runtime.kernels.encode import Terms, atom_row, mentioned, terms_of
from sase.runtime.kernels.relations import FOREVER, Order, extended, held, order_of, scopes
from sase.runtime.kernels.sequences import Ints
from sase.runtime.pattern import At, Branch, Clause, Combination, Compare, Derived, Earliest, Group, Latest


@dataclass(frozen=True)
class Encoding(Terms):
    program: Program


def encode_combination(pattern: Combination) -> Encoding:
    """The combination as tables; ValueError where it is not one that the kernel can run."""
    _validate(pattern)
    terms = terms_of(clause for branch in pattern.branches for clause in _clauses(branch))
    program = _Builder(pattern, terms.columns).program()
    return Encoding(terms.columns, terms.domains, terms.booleans, program)


def _clauses(each: Branch | Group) -> Iterable[Clause]:
    yield from each.where
    for group in each.groups:
        yield from _clauses(group)


def _validate(pattern: Combination) -> None:
    if not pattern.branches or not all(branch.variables for branch in pattern.branches):
        raise ValueError("a branch needs a positive variable")
    if len(pattern.variables) > 61:
        raise ValueError(f"a pattern has at most 61 variables, this one has {len(pattern.variables)}")
    for branch in pattern.branches:
        _check_scope(branch, branch.variables)
        for order in branch.order:
            if sorted(order) != sorted(branch.variables):
                raise ValueError(f"the order {order} is not one of {branch.variables}")
        if isinstance(branch.instant, At | Derived) and branch.instant.variable not in branch.variables:
            raise ValueError(f"the instant of a match is that of {branch.instant.variable!r}, which is not bound")
    if strangers := {variable for variable, _ in pattern.select} - set(pattern.positive):
        raise ValueError(f"select names {sorted(strangers)}, which are no positive variables")


def _check_scope(each: Branch | Group, scope: tuple[str, ...]) -> None:
    if len(set(scope)) < len(scope):
        raise ValueError(f"variables are bound twice: {scope}")
    related = {*chain.from_iterable(each.before), *(v for a in each.apart for v in (a.earlier, a.later))}
    if strangers := (related | mentioned(each.where)) - set(scope):
        raise ValueError(f"relations or clauses speak of {sorted(strangers)}, which are not bound there")
    for group in each.groups:
        if not group.variables:
            raise ValueError("a group needs a variable")
        if group.collect and isinstance(each, Group):
            raise ValueError("a group that collects stands in a branch")
        if group.collect and len(group.variables) > 1 and not group.name:
            raise ValueError("a group that collects several variables needs a name")
        _check_scope(group, (*scope, *group.variables))


class _Builder:
    def __init__(self, pattern: Combination, columns: Sequence[str]) -> None:
        self.pattern = pattern
        self.columns = columns
        self.number = {variable: i for i, variable in enumerate(pattern.variables)}
        self.steps: list[list[int]] = []
        self.bounds: list[list[int]] = []
        self.others: list[int] = []
        self.clauses: list[Clause] = []
        self.numbers: list[int] = []
        self.inner: list[list[int]] = []
        self.frames: list[list[int]] = []
        self.walks: list[list[int]] = []
        self.folds: list[list[int]] = []
        self.indices: dict[tuple[int, int], int] = {}
        self.back = [0] * len(self.number)
        self.column: dict[str, int] = {variable: at for at, variable in enumerate(pattern.collected)}
        self.collected = len(self.column)
        for name, variables in pattern.bindings.items():
            self.column[name] = self.collected
            self.collected += len(variables)
        sizes = [len(part) for part in Counters.of(pattern)]
        self.rejected, self.killed, self.repeated = (int(end) for end in np.cumsum(sizes)[1:4])

    def program(self) -> Program:
        first_clause, first_group = self.rejected, self.killed
        for branch in self.pattern.branches:
            self.reach_back(branch)
        for number, branch in enumerate(self.pattern.branches):
            self.branch(number, branch, first_clause, first_group)
            first_clause += len(branch.where)
            first_group += sum(not group.collect for group in branch.groups)
        latest = {self.steps[begin][VARIABLE] for begin, _, _ in self.walks}
        atoms = [atom_row(atom, self.number, self.columns) for clause in self.clauses for atom in clause]
        return Program(
            positives=len(self.pattern.positive),
            starts=sum(1 << variable for variable in latest),
            steps=_table(self.steps, 14),
            bounds=_table(self.bounds, 3),
            others=np.array(self.others, np.int64),
            atoms=_table(atoms, 5),
            clauses=np.cumsum([0, *map(len, self.clauses)]),
            numbers=np.array(self.numbers, np.int64),
            inner=_table(self.inner, 2),
            frames=_table(self.frames, 2),
            walks=_table(self.walks, 3),
            instants=_table([self.instant(branch) for branch in self.pattern.branches], 3),
            bound=np.array([self.bits(branch.variables) for branch in self.pattern.branches], np.int64),
            back=np.array([min(ticks, MOST) for ticks in self.back], np.int64),
            folds=_table(self.folds, 4),
            collected=self.collected,
            indices=_table(list(self.indices), 2),
            partners=_table(list(self.partners()), 6),
            hold=held(self.pattern) or 0,
        )

    def bits(self, variables: Iterable[str]) -> int:
        return sum(1 << self.number[variable] for variable in variables)

    def instant(self, branch: Branch) -> list[int]:
        match branch.instant:
            case Latest():
                return [LATEST, 0, 0]
            case Earliest(ticks):
                return [EARLIEST, 0, ticks]
            case At(variable):
                return [AT, self.number[variable], 0]
            case Derived(variable, ticks):
                return [DERIVED, self.number[variable], ticks]

    def branch(self, number: int, branch: Branch, first_clause: int, first_group: int) -> None:
        order = order_of(branch)
        if not order.possible:
            return
        forbidding = [group for group in branch.groups if not group.collect]
        inner = [(self.needed(order, group), self.group(order, group), first_group + at)
                 for at, group in enumerate(forbidding) if extended(order, group).possible]  # fmt: skip
        if self.pattern.once and not self.pattern.deferred:
            for earlier in self.pattern.branches[:number]:
                if set(earlier.variables) == set(branch.variables) and order_of(earlier).possible:
                    inner.append((frozenset(branch.variables), self.repetition(earlier), self.repeated))
        clauses = [(clause, first_clause + at) for at, clause in enumerate(branch.where)]
        given = {orders[0]: orders[1:] for orders in branch.order}
        for latest in order.latest():
            walk = order.with_latest(latest)
            rest = given.get(latest) or self.chosen_order(branch, latest)
            begin, end = self.frame((latest, *rest), walk, clauses, inner, latest=latest)
            self.walks.append([begin, end, number])
        for group in branch.groups:
            if group.collect:
                column = self.column[group.name or group.variables[0]]
                self.folds.append([self.group(order, group), number, column, int(group.some)])

    def reach_back(self, branch: Branch) -> None:
        """How long before the latest row each variable's candidates can be, in this branch or another."""
        order = order_of(branch)
        if order.possible:
            for latest in order.latest():
                for scope, variables in scopes(order.with_latest(latest), branch):
                    for variable in variables:
                        v = self.number[variable]
                        self.back[v] = max(self.back[v], scope.most[variable, latest])

    def chosen_order(self, branch: Branch, latest: str) -> tuple[str, ...]:
        """What is most tied to what is bound comes next: by equalities, by conditions, by the order; of a chain, the
        neighbour."""
        equal = [mentioned([clause]) for clause in branch.where if any(_equal(clause))]
        conditions = [mentioned([clause]) for clause in branch.where]
        places = [*map(set, branch.before), *({apart.earlier, apart.later} for apart in branch.apart)]
        order = [latest]

        def tied(variable: str) -> tuple[int, ...]:
            bound = {variable, *order}
            kinds = (equal, conditions, places)
            return *(sum(variable in tie and tie <= bound for tie in ties) for ties in kinds), number[variable]

        number = {variable: at for at, variable in enumerate(branch.variables)}
        while rest := [variable for variable in branch.variables if variable not in order]:
            order.append(max(rest, key=tied))
        return tuple(order[1:])

    def needed(self, order: Order, group: Group) -> frozenset[str]:
        """The variables outside of a group that must be bound before it is asked for."""
        scope = extended(order, group)
        related = {*chain.from_iterable(group.before), *(v for a in group.apart for v in (a.earlier, a.later))}
        unlike = {v for v in order.variables for own in group.variables if not scope.apart(v, own)}
        inner = chain.from_iterable(self.needed(scope, each) for each in group.groups)
        return frozenset({*related, *mentioned(group.where), *unlike, *inner} - set(group.variables))

    def group(self, order: Order, group: Group) -> int:
        """The frame of a group, given the order of all that may be bound when it is asked for."""
        needed = self.needed(order, group)
        scope = extended(order.among(needed), group)
        inner = [(self.needed(scope, each), self.group(scope, each), -1)
                 for each in group.groups if extended(scope, each).possible]  # fmt: skip
        clauses = [(clause, -1) for clause in group.where]
        steps = (0, 0)
        if scope.possible:
            steps = self.frame(group.variables, scope, clauses, inner, known=needed)
        self.frames.append([*steps])
        return len(self.frames) - 1

    def repetition(self, earlier: Branch) -> int:
        """The frame of an earlier branch on events that are bound."""
        order = order_of(earlier)
        inner = [(self.needed(order, group), self.group(order, group), -1)
                 for group in earlier.groups if not group.collect and extended(order, group).possible]  # fmt: skip
        steps = self.frame(earlier.variables, order, [(clause, -1) for clause in earlier.where], inner, fixed=True)
        self.frames.append([*steps])
        return len(self.frames) - 1

    def frame(
        self,
        variables: Sequence[str],
        order: Order,
        clauses: Sequence[tuple[Clause, int]],
        inner: Sequence[tuple[frozenset[str], int, int]],
        *,
        known: Iterable[str] = (),
        latest: str | None = None,
        fixed: bool = False,
    ) -> tuple[int, int]:
        """Steps that bind the variables in turn, with each clause and each group at the first step that allows it."""
        begin = len(self.steps)
        bound = [variable for variable in order.variables if variable in set(known)]
        steps = []
        for at, variable in enumerate(variables):
            before, now = set(bound), {*bound, variable}
            first_bound, first_other = len(self.bounds), len(self.others)
            self.bounds += self.step_bounds(variable, bound, order, latest)
            if not fixed:
                self.others += [self.number[v] for v in bound if v != latest and not order.apart(variable, v)]
            first_clause, first_inner = len(self.clauses), len(self.inner)
            for clause, number in clauses:
                if (at == 0 or not mentioned([clause]) <= before) and mentioned([clause]) <= now:
                    self.clauses.append(clause)
                    self.numbers.append(number)
            for needed, frame, counter in inner:
                if (at == 0 or not needed <= before) and needed <= now:
                    self.inner.append([frame, counter])
            index = (-1, 0, 0) if fixed else self.index(variable, bound, clauses)
            steps.append(
                [self.number[variable], int(fixed or variable == latest), int(latest is not None),
                 first_bound, len(self.bounds), first_other, len(self.others),
                 first_clause, len(self.clauses), first_inner, len(self.inner), *index]
            )  # fmt: skip
            bound.append(variable)
        self.steps += steps
        return begin, len(self.steps)

    def index(self, variable: str, bound: Sequence[str], clauses: Sequence[tuple[Clause, int]]) -> tuple[int, int, int]:
        """INDEX, EQUAL, EQUAL_TERM of a step: the first equality with what is bound."""
        for clause, _ in clauses:
            for own, own_column, other, column in _equal(clause):
                if own == variable and other in bound:
                    key = self.number[own], self.columns.index(own_column)
                    index = self.indices.setdefault(key, len(self.indices))
                    return index, self.number[other], self.columns.index(column)
        return -1, 0, 0

    def partners(self) -> Iterator[list[int]]:
        """Equalities that every match meets, with what the order says of how far apart the events are."""
        if len(self.pattern.branches) > 1:
            return
        (branch,) = self.pattern.branches
        order = order_of(branch)
        blocks = (branch.variables,) if branch.blocks is None else branch.blocks
        for clause in branch.where:
            for one, column, other, other_column in _equal(clause):
                if any({one, other} <= {*block} for block in blocks) and order.possible:
                    ticks = (min(order.most[other, one], MOST), min(order.most[one, other], MOST))
                    terms = self.columns.index(column), self.columns.index(other_column)
                    yield [self.number[one], terms[0], self.number[other], terms[1], *ticks]

    def step_bounds(self, variable: str, bound: Sequence[str], order: Order, latest: str | None) -> Iterator[list[int]]:
        """The bounds that what is bound gives to a variable, without those that others imply."""
        after = [v for v in bound if (v, variable) in order.before]
        before = [v for v in bound if (variable, v) in order.before]
        yield from ([AFTER, self.number[v], 0] for v in after if not any((v, u) in order.before for u in after))
        yield from ([BEFORE, self.number[v], 0] for v in before if not any((u, v) in order.before for u in before))
        # bound.time - candidate.time, and candidate.time - bound.time, are at most ...
        since, until = dict.fromkeys(after, 0), dict.fromkeys(before, 0)
        if latest is not None:
            since[latest] = min(since.get(latest, FOREVER), self.back[self.number[variable]])
            until[latest] = 0
        later = {v: order.most[variable, v] for v in bound}
        earlier = {v: order.most[v, variable] for v in bound}
        for v in _necessary(later, since, lambda u, v: order.most[u, v]):
            yield [SINCE, self.number[v], later[v]]
        for v in _necessary(earlier, until, lambda u, v: order.most[v, u]):
            yield [UNTIL, self.number[v], earlier[v]]


def _necessary(bounds: Mapping[str, int], given: Mapping[str, int], more: Callable[[str, str], int]) -> Iterator[str]:
    """Of the bounds, those that no other and nothing given implies: one of u implies a wider one of v by what v can
    differ from u."""
    left = {v: ticks for v, ticks in bounds.items() if ticks < MOST}
    for v, ticks in list(left.items()):
        del left[v]
        known = chain(given.items(), left.items())
        if not any(other + more(u, v) <= ticks for u, other in known):
            left[v] = ticks
            yield v


def _equal(clause: Clause) -> Iterator[tuple[str, str, str, str]]:
    """Both ways to read a clause that is an equality of two events."""
    match clause:
        case (Compare(left, left_column, "=", right, right_column),) if left != right:
            yield left, left_column, right, right_column
            yield right, right_column, left, left_column


def _table(rows: Sequence[Sequence[int]], columns: int) -> Ints:
    return np.array(rows, np.int64).reshape(-1, columns)
