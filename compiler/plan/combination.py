"""Logical plan → physical plan, for patterns that are no sequence: branches, groups, arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from sase.compiler.core import scalars
from sase.compiler.core.bound import Before, Derived, Earliest, EquivalenceTest, Mode, Predicate
from sase.compiler.core.fields import Path, of_event
from sase.compiler.plan.bindings import Bindings, Signature, is_open, signature
from sase.compiler.plan.columns import (
    Columns,
    chain_sql,
    declared,
    function_name,
    function_of,
    in_order,
    operand_sql,
    where_some_fills,
)
from sase.compiler.plan.logical import BranchPlan, GroupPlan, Plan
from sase.compiler.plan.physical import (
    Arrays,
    Branch,
    Choose,
    Clause,
    Combination,
    Compare,
    Computed,
    Exclude,
    Group,
    Keep,
    PhysicalPlan,
    Read,
    Result,
    Select,
    Slices,
    Step,
    Ticks,
)
from sase.compiler.plan.reach import reach

Condition = tuple[str, frozenset[str]]
"""SQL, and the variables that it names."""


class CombinationPlanner(Columns):
    def __init__(self, plan: Plan, stream: bool) -> None:
        super().__init__(plan, stream)
        self.branches = plan.branches
        self.array_of = {element: array for array, elements in self.query.arrays.items() for element in elements}
        self.bound = [self.values_of(each) for each in self.branches]
        """For each branch, what its matches have a value for; the others are NULL."""
        everything = frozenset[str]().union(*self.bound)
        self.carried = {each.name: set() for each in self.query.variables if each.name in everything}
        self.group_names: dict[Signature, str] = {}
        self.bindings = [[*self.bindings_of(each)] for each in self.branches]

    def values_of(self, each: BranchPlan) -> frozenset[str]:
        added = [name for group in each.groups if group.group.fold != "none" for name in group.group.variables]
        arrays = [self.array_of[name] for name in each.branch.variables if name in self.array_of]
        return frozenset([*each.branch.variables, *added, *arrays])

    def plan_all(self) -> PhysicalPlan:
        after: list[Step] = [*self.kept(), *self.excluded(), *self.selection(), *self.choice()]
        self.check_stream(after)
        after += self.decide()
        result = self.result()
        emit = self.with_added(self.emit())
        kernel = self.kernel(emit)
        fills = [self.fill(self.query.variable(name)) for name in kernel.variables]
        types = self.types(emit, (*self.query.predicates, *self.query.decided), self.query.equivalences)
        read = Read(types, None if self.stream or self.query.arrivals else where_some_fills(fills))
        groups = self.group_columns()
        travelling = self.travelling(kernel, emit)
        travelling |= {column for events in groups.values() for columns in events.values() for column in columns}
        together = self.together(kernel, travelling, self.slices())
        steps = (*self.terms.values(), *self.keys, *together, kernel, *after, *self.arrays(), result)
        return PhysicalPlan(
            query=self.query,
            stream=self.stream,
            steps=(read, *self.arrive(fills), *fills, *steps),
            emit=emit,
            selected=self.selected(read, travelling),
            roles=self.names.roles,
            flags=self.flags,
            groups=groups,
        )

    def slices(self) -> Slices | None:
        length, far = self.plan.scan.slice, reach(self.query.branches)
        if length is None or far is None:
            return None
        return Slices(length, looks_ahead=far.ahead > 0, reach=far)

    # ---- what chooses among matches; not here where earlier results decide: among what they let through ----------

    @property
    def select(self) -> tuple[tuple[str, Mode], ...]:
        return () if self.query.reported else tuple(self.query.selection.items())

    @property
    def exclusive(self) -> bool:
        return self.query.consume == "exclusive" and not self.query.reported

    # ---- the kernel -----------------------------------------------------------------------------

    def kernel(self, emit: Mapping[str, tuple[str, ...]]) -> Combination:
        self.require_values()
        keys = tuple(map(self.key, self.plan.scan.partition, self.key_names))
        computes_with_time = self.stream or self.plan.scan.slice is not None
        return Combination(
            branches=tuple(
                self.branch(each, emit, known) for each, known in zip(self.branches, self.bindings, strict=True)
            ),
            once=self.query.once,
            select=self.select,
            exclusive=self.exclusive,
            keys=keys,
            time=self.names.roles["time"] if computes_with_time else self.query.time,
            deferred=self.plan.deferred,
        )

    def branch(self, each: BranchPlan, emit: Mapping[str, tuple[str, ...]], bindings: Iterable[Bindings]) -> Branch:
        branch = each.branch
        where = [*self.checks(each), *self.key_checks(each)]
        # What is collected and then not asked for need not be looked for.
        groups = [
            self.group(group, each, branch.variables)
            for group in each.groups
            if not is_open(group) and (group.group.fold == "none" or set(group.group.variables) & emit.keys())
        ]
        groups += [self.brought(one, each) for root in bindings for one in root.all]
        return Branch(
            variables=branch.variables,
            before=_sorted(branch.before, branch.variables),
            apart=branch.apart,
            where=tuple(clause for _, clause in where),
            conditions=tuple(condition for condition, _ in where),
            groups=tuple(groups),
            instant=branch.instant,
            order=each.order,
            blocks=each.blocks,
        )

    def group(self, each: GroupPlan, branch: BranchPlan, around: tuple[str, ...]) -> Group:
        group, names = each.group, (*around, *each.group.variables)
        return Group(
            variables=group.variables,
            before=_sorted(group.before, names),
            apart=group.apart,
            where=(*self.group_checks(each), *self.group_key_checks(each, branch)),
            groups=tuple(self.group(inner, branch, names) for inner in each.groups),
            collect=group.fold != "none",
            some=group.fold != "none" and self.query.some.issuperset(group.variables),
        )

    def brought(self, bindings: Bindings, branch: BranchPlan) -> Group:
        """A group whose bindings a match brings along, with the events of those around it; without what is left to
        Spark."""
        names = (*branch.branch.variables, *bindings.variables)
        path = bindings.path
        return Group(
            variables=bindings.variables,
            before=_sorted((pair for each in path for pair in each.group.before), names),
            apart=tuple(apart for each in path for apart in each.group.apart),
            where=tuple(
                clause for each in path for clause in (*self.group_checks(each), *self.group_key_checks(each, branch))
            ),
            groups=tuple(self.group(inner, branch, names) for inner in path[-1].groups if not is_open(inner)),
            collect=True,
            name=bindings.name,
        )

    def checks(self, each: BranchPlan) -> list[tuple[str, Clause]]:
        """What is checked between the events of a match, each with the condition that it comes from."""
        construction = each.construction
        found = [(str(part), clause) for part in construction.predicates for clause in self.clauses(part)]
        found += [both for test in construction.equivalences for both in self.equalities(test)]
        return found

    def equalities(self, test: EquivalenceTest) -> Iterator[tuple[str, Clause]]:
        for left, right in pairwise(test.positive):
            yield f"{'.'.join(left)} = {'.'.join(right)}", (self.equal(left, right),)

    def group_checks(self, each: GroupPlan) -> list[Clause]:
        """What an event of a group must meet to count, besides its key."""
        found = [clause for part in each.predicates for clause in self.clauses(part)]
        for test in each.equivalences:
            for name in each.group.variables:
                attribute = test.attribute(name)
                if attribute is not None and not any(key.attribute(name) == attribute for key in self.partition):
                    found.append((self.equal((name, attribute), test.positive[0]),))
        return found

    # ---- NULL -----------------------------------------------------------------------------------

    @property
    def partition(self) -> tuple[EquivalenceTest, ...]:
        return self.plan.scan.partition

    def require_values(self) -> None:
        """A comparison with NULL never holds, so an event that lacks the value of a lone comparison drops out early: if
        it does so wherever its variable stands, as it has one state bit for all of these places."""
        needed: dict[str, list[dict[str, None]]] = {}

        def need(names: Iterable[str], clauses: Iterable[Clause], key: bool) -> None:
            for name in names:
                keys = [test.attribute(name) for test in self.partition] if key else []
                needed.setdefault(name, []).append(dict.fromkeys([*filter(None, keys), *self.lone(clauses, name)]))

        def need_in(group: GroupPlan) -> None:
            need(group.group.variables, self.group_checks(group), key=True)
            for inner in group.groups:
                need_in(inner)

        for each in self.branches:
            clauses = [clause for _, clause in self.checks(each)]
            # A lone event need not agree with anything: without a value, nothing that could be added forbids it.
            need(each.branch.variables, clauses, key=len(each.branch.variables) > 1)
            for group in each.groups:
                need_in(group)
        for name, (first, *others) in needed.items():
            self.not_null[name] = {column: None for column in first if all(column in other for other in others)}

    def lone(self, clauses: Iterable[Clause], name: str) -> Iterator[str]:
        """The attributes of a variable that clauses of one comparison need."""
        ours = {term.name for term in self.terms.values()}
        for clause in clauses:
            match clause:
                case (Compare() as only,):
                    sides = ((only.left, only.left_column), (only.right, only.right_column))
                    yield from (column for side, column in sides if side == name and column not in ours)

    def key_checks(self, each: BranchPlan) -> Iterator[tuple[str, Clause]]:
        """Events of one key agree on it, unless it is NULL. Where nothing keeps such events out, it is compared."""
        for key in self.partition:
            places = [(name, attribute) for name in each.branch.variables if (attribute := key.attribute(name))]
            if len(places) > 1 and not any(self.has_value(*place) for place in places):
                yield from self.equalities(EquivalenceTest(tuple(places)))

    def group_key_checks(self, each: GroupPlan, branch: BranchPlan) -> Iterator[Clause]:
        if len(branch.branch.variables) > 1:
            return  # the events of the match have a key, and those that could be added have the same
        for key in self.partition:
            for name in each.group.variables:
                attribute, (alone,) = key.attribute(name), branch.branch.variables
                partner = key.attribute(alone)
                if attribute and partner and not self.has_value(name, attribute):
                    yield (self.equal((name, attribute), (alone, partner)),)

    def has_value(self, variable: str, attribute: str) -> bool:
        return attribute in self.not_null.get(variable, {})

    def key(self, test: EquivalenceTest, name: str) -> str:
        """The column of a test: the attribute itself, or one of ours where it goes by several names."""
        places = test.positive + test.negated
        names = {attribute for _, attribute in places}
        if len(names) == 1 and not any(isinstance(each, Path) for each in names) and self.everywhere(test):
            return names.pop()
        cases = " ".join(f"WHEN {self.flag(variable)} THEN {of_event(attribute)}" for variable, attribute in places)
        self.keys.append(Computed(name, f"CASE {cases} END"))
        return name

    def everywhere(self, test: EquivalenceTest) -> bool:
        """Whether every variable has a place in the test; one that is alone in its branches may have none."""
        return all(test.attribute(variable.name) is not None for variable in self.query.variables)

    # ---- after the kernel -----------------------------------------------------------------------

    def bindings_of(self, branch: BranchPlan) -> Iterator[Bindings]:
        """What the matches of a branch bring along."""
        seen = Counter[Signature]()
        for each in filter(is_open, branch.groups):
            key = signature(each)
            seen[key] += 1
            yield self.tree((each,), (key, seen[key]))

    def tree(self, path: tuple[GroupPlan, ...], key: Signature) -> Bindings:
        """Groups of several branches share the name of what Spark decides about alike."""
        if key not in self.group_names:
            self.group_names[key] = self.names.fresh(
                "_".join(["added", *(name for each in path for name in each.group.variables)])
            )
        inner = enumerate(filter(is_open, path[-1].groups))
        return Bindings(self.group_names[key], path, tuple(self.tree((*path, each), (*key, at)) for at, each in inner))

    def group_columns(self) -> dict[str, dict[str, tuple[str, ...]]]:
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for each in (one for roots in self.bindings for root in roots for one in root.all):
            found[each.name] = {
                name: in_order(self.query.variable(name), columns or {self.query.time})
                for name, columns in each.columns.items()
            }
        return found

    def excluded(self) -> Iterator[Exclude]:
        """The groups that Spark has the last word on: each match brings their bindings along."""
        roots = {root.name: root for roots in self.bindings for root in roots}
        functions = Counter[str]()
        for number, (name, root) in enumerate(roots.items(), 1):
            for each in root.all:
                self.carry(*((place.table, place.name) for place in each.asked if place.table not in each.columns))
            everywhere = all(any(other.name == name for other in others) for others in self.bindings)
            absent = "" if everywhere else f"{scalars.column_sql(name)} IS NULL OR "
            function = function_of("without", "_".join(root.variables), number)
            functions[function] += 1
            again = f"_{functions[function]}" if functions[function] > 1 else ""
            asked = [condition for each in root.all for condition in each.conditions]
            yield Exclude(root.variables, function + again, root.told, absent + root.absent(), tuple(asked))

    def kept(self) -> Iterator[Keep]:
        """Of what is collected, what Spark has the last word on."""
        found: dict[str, dict[int, tuple[Predicate, ...]]] = {}
        for at, each in enumerate(self.branches):
            for group in each.groups:
                if group.group.fold != "none" and group.late:
                    (name,) = group.group.variables
                    found.setdefault(name, {})[at] = group.late
        for index, (name, late) in enumerate(found.items()):
            asked: dict[Condition, list[int]] = {}
            for at, parts in late.items():
                for part in parts:
                    self.carry_columns(part.condition)
                    asked.setdefault((operand_sql(part.condition), part.variables - {name}), []).append(at)
            if not self.carried[name]:
                self.carry((name, self.query.time))
            guarded = [(self.guarded(condition, at, [*late]), at) for condition, at in asked.items()]
            conditions = tuple(text if at == [*late] else f"({text})" for text, at in guarded)
            yield Keep(name, function_name("keep", self.query.variable(name), index), conditions)

    def choice(self) -> Iterator[Choose]:
        if self.plan.deferred:
            yield Choose(self.query.once and len(self.branches) > 1, self.select, self.exclusive)

    def selection(self) -> Iterator[Select]:
        asked: dict[Condition, list[int]] = {}
        for at, each in enumerate(self.branches):
            for test in each.selection.equivalences:
                self.carry(*test.positive)
                names = frozenset(name for name, _ in test.positive)
                asked.setdefault((chain_sql(test.positive), names), []).append(at)
            for part in each.selection.predicates:
                self.carry_columns(part.condition)
                asked.setdefault((str(part), part.variables), []).append(at)
        everywhere = [*range(len(self.branches))]
        if asked:
            yield Select(tuple(self.guarded(condition, at, everywhere) for condition, at in asked.items()))

    def guarded(self, condition: Condition, asked: list[int], among: list[int]) -> str:
        """A condition of some branches, in SQL that holds for the matches of the others: by what they do not bind."""
        sql, names = condition
        if asked == among:
            return sql
        if self.plan.deferred:  # a candidate says of which branch it is
            branches = ", ".join(str(at) for at in among if at not in asked)
            return f"{scalars.column_sql(self.names.roles['candidate'])}.branch IN ({branches}) OR ({sql})"
        sometimes = [name for name in sorted(names) if any(name not in self.bound[at] for at in among)]
        if asked == [at for at in among if names <= self.bound[at]]:
            self.carry(*((name, self.query.time) for name in sometimes))
            return " OR ".join([*(f"{scalars.column_sql(name)} IS NULL" for name in sometimes), f"({sql})"])
        known = sorted({name for at in among for name in self.bound[at]} - self.query.arrays.keys())
        told = [name for name in known if any(name not in self.bound[at] for at in among)]
        self.carry(*((name, self.query.time) for name in told))
        others = [
            " AND ".join(
                f"{scalars.column_sql(name)} IS {'NOT ' if name in self.bound[at] else ''}NULL" for name in told
            )
            for at in among
            if at not in asked
        ]
        return " OR ".join(f"({text})" if " AND " in text or text is sql else text for text in [*others, sql])

    def arrays(self) -> Iterator[Arrays]:
        """For the result alone: conditions and RETURN speak of the single events."""
        if self.query.arrays and self.query.returns is None:
            yield Arrays(self.query.arrays, always=frozenset.intersection(*self.bound), empty=self.query.empty)

    def result(self) -> Result:
        wanted = [name for name in self.carried if name in self.query.bound or name in self.query.collected]
        shown = tuple(dict.fromkeys(self.array_of.get(name, name) for name in wanted))
        if self.query.returns is None:
            self.carry_whole(wanted)
        bound = [name for name in wanted if name in self.query.bound]
        if self.query.timed:
            self.carry((bound[0], self.query.time))
        instants = [each.branch.instant for each in self.branches]
        lengths = dict.fromkeys(each.ticks for each in instants if isinstance(each, Earliest | Derived))
        return self.grouped(
            Result(
                columns=self.returned(),
                variables=shown,
                times=Ticks(like=bound[0], lengths=tuple(lengths)),
                reached=max((each.branch.variables for each in self.branches), key=len) if self.query.timed_out else (),
                moment=self.moment(bound),
            )
        )

    def carry_whole(self, names: Iterable[str]) -> None:
        for name in names:
            self.carry(*((name, attribute.name) for attribute in declared(self.query.variable(name))))

    def emit(self) -> dict[str, tuple[str, ...]]:
        if not self.plan.pruned:
            self.carry_whole(self.carried)
        if not any(self.carried.values()):
            self.carry((self.branches[0].branch.variables[0], self.query.time))  # a match is still a row
        for elements in self.query.arrays.values():  # of one type, to be the elements of one array
            together = set[str]().union(*(self.carried[name] for name in elements))
            self.carried.update({name: together for name in elements})
        return {name: in_order(self.query.variable(name), columns) for name, columns in self.carried.items() if columns}


def _sorted(before: Iterable[Before], names: tuple[str, ...]) -> tuple[Before, ...]:
    return tuple(sorted(before, key=lambda pair: (names.index(pair[0]), names.index(pair[1]))))
