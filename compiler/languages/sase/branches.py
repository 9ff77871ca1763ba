"""The branches of a bound query in words of SASE: an alternative for each, with clauses of its own.

An order is SEQ and AND as far as these can say it, and `before(x, y)` beyond; a bound is `elapsed(x, y) < 5`, or WITHIN
where it is of all events; a group is NOT of a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import count, product

from sqlglot import exp

from sase.compiler.core import pattern
from sase.compiler.core.bound import (
    Apart,
    Before,
    BoundQuery,
    Branch,
    Derived,
    Earliest,
    EquivalenceTest,
    Group,
    Instant,
    Predicate,
    Variable,
    Window,
)
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Span
from sase.compiler.core.fields import of_variable
from sase.compiler.core.missing import atoms, left_out
from sase.compiler.core.scalars import variables
from sase.compiler.languages.sase import words


@dataclass(frozen=True)
class Spelled:
    """A pattern, what WHERE says behind it, and its window."""

    pattern: str
    where: tuple[str, ...]
    within: int | None = None


def in_words(query: BoundQuery) -> Spelled | str:
    """Why there are none, where SASE has no words for it."""
    query = _kept_open(query)
    why = _lacking(query)
    if why is not None:
        return why
    if len(query.branches) == 1:
        (branch,) = query.branches
        return _alternative(query, branch, _whole_window(branch), (), ())
    tests = [test for test in query.equivalences if _is_common_test(query, test)]
    attributes = dict.fromkeys(_attribute(test) for test in tests)
    parts = [part for part in query.predicates if _is_common(query, part)]
    alternatives = [
        _alternative(
            query,
            branch,
            _window(branch),
            [test for test in branch.equivalences if test in tests],
            [part.condition for part in parts],
        )
        for branch in query.branches
    ]
    sets = [frozenset(branch.variables) for branch in query.branches]
    union = "OR" if query.once or len({*sets}) == len(sets) else "OR ALL"
    listed = [_with_clauses(query, each, "      ") for each in alternatives]
    common = [*(f"[{words.name_of(each)}]" for each in attributes), *(words.text_of(query, p.condition) for p in parts)]
    return Spelled(_listed(union, listed, "    "), tuple(common))


def _lacking(query: BoundQuery) -> str | None:
    """What the query has that there is none of in SASE, or in what this module prints."""
    chooses = query.selection or query.consume == "exclusive" or query.timed_out
    folds = {group.fold for branch in query.branches for group in _all_groups(branch.groups)}
    if chooses or query.arrays or query.loops or query.runs or query.arrivals or query.reported or folds - {"none"}:
        return "it chooses among its matches, or makes values of several events"
    if not all(_tells_its_time(query, branch) for branch in query.branches):
        return "its results have another time than that from which no event can change them"
    return None


# ---- results that are certain before their time -------------------------------------------------


def _kept_open(query: BoundQuery) -> BoundQuery:
    """Of `NOTFOLLOWS(x, FOLLOWS(x, y, 1), 2)`, nothing can change one from 1 after x on, and its time is 2 after it.
    A match is as late in SASE with one more event that must not be there, and never is: it would have no time."""
    kept: list[Branch] = []
    added: list[Variable] = []
    for branch in query.branches:
        if _tells_its_time(query, branch):
            kept.append(branch)
            continue
        match branch.instant:
            case Derived(variable=name, ticks=ticks):
                pass
            case Earliest(ticks=ticks) if len(branch.variables) == 1:
                (name,) = branch.variables
            case _:
                return query
        taken = {each.name.lower() for each in (*query.variables, *added)}
        names = (f"{NEVER}{number}" if number > 1 else NEVER for number in count(1))
        never = replace(query.variable(name), name=next(each for each in names if each not in taken), negated=True)
        time = {key: each for key, each in never.attributes.items() if key == query.time.lower()}
        added.append(replace(never, attributes=time))
        missing = exp.Is(this=of_variable(never.name, query.time), expression=exp.Null())
        group = Group(
            (never.name,),
            frozenset({(name, never.name)}),
            (Apart(name, never.name, ticks),),
            (Predicate(missing, never.name, never.span),),
        )
        kept.append(replace(branch, groups=(*branch.groups, group)))
    return replace(query, variables=(*query.variables, *added), branches=tuple(kept))


NEVER = "never"


def _tells_its_time(query: BoundQuery, branch: Branch) -> bool:
    whole = len(query.branches) == 1 and _whole_window(branch) is not None
    return whole or _is_alike(pattern.certain(_shape(branch), None), branch)


# ---- one alternative ----------------------------------------------------------------------------


LINE = 100
"""So many characters, and then parts and clauses get lines of their own."""


def _listed(operator: str, parts: Sequence[str], indent: str) -> str:
    """On one line, if it fits there."""
    line = f"{operator}({', '.join(parts)})"
    if len(line) <= LINE and "\n" not in line:
        return line
    return f"{operator}(\n{indent}" + f",\n{indent}".join(parts) + f"\n{indent[2:]})"


def _with_clauses(query: BoundQuery, spelled: Spelled, indent: str = "") -> str:
    parts = [spelled.pattern]
    if spelled.where:
        parts.append(f"WHERE {' AND '.join(spelled.where)}")
    if spelled.within is not None:
        parts.append(f"WITHIN {words.length(query, spelled.within)}")
    line = " ".join(parts)
    return f"\n{indent}".join(parts) if indent and len(line) > LINE else line


def _alternative(
    query: BoundQuery,
    branch: Branch,
    within: int | None,
    tests: Sequence[EquivalenceTest],
    common: Sequence[exp.Expr],
) -> Spelled:
    """A branch; `tests` and `common` are said of the whole query."""
    bounded = within is None
    order = pattern.closure(branch.before)
    tree = _tree(branch.variables, order)
    blocks = [[*_names(each)] for each in tree.parts] if tree.kind == "SEQ" else [[*branch.variables]]
    where = _orders(branch.before, pattern.closure(_implied(tree)))
    where += _bounds(query, branch.apart) if bounded else []
    where = [*(words.test(query, branch, test) for test in branch.equivalences if test not in tests), *where]
    where += [words.text_of(query, part.condition) for part in branch.predicates if part.condition not in common]
    slots: list[list[str]] = [[] for _ in range(len(blocks) + 1)]
    beside: list[str] = []
    for cluster in _clusters(branch.groups):
        at = next((at for at in range(len(slots)) if all(_fits(each, blocks, at, order) for each in cluster)), None)
        placed = frozenset() if at is None else _placing(cluster, blocks, at)
        alternatives = [_group(query, group, order, placed, bounded) for group in cluster]
        if len(cluster) == 1 and is_plain(cluster[0]):
            where += alternatives[0].where
            alternatives = [Spelled(alternatives[0].pattern, ())]
        (beside if at is None else slots[at]).append(_negated(query, alternatives))
    steps = [_text(query, each) for each in tree.parts] if tree.kind == "SEQ" else [_text(query, tree)]
    if any(slots):
        steps = [*slots[0], *(text for step, slot in zip(steps, slots[1:], strict=True) for text in (step, *slot))]
    whole = steps[0] if len(steps) == 1 else _listed("SEQ", steps, "      ")
    if beside and tree.kind == "AND" and not any(slots):
        whole = _listed("AND", [*(_text(query, each) for each in tree.parts), *beside], "      ")
    elif beside:
        whole = _listed("AND", [whole, *beside], "      ")
    return Spelled(whole, tuple(where), within)


def _negated(query: BoundQuery, alternatives: Sequence[Spelled]) -> str:
    listed = [_with_clauses(query, each) for each in alternatives]
    if len(alternatives) > 1:
        return _listed("NOT OR", listed, "        ")
    several = alternatives[0].pattern.startswith(("SEQ(", "AND("))
    if not several:
        return f"!({listed[0]})"
    return f"NOT ({listed[0]})" if alternatives[0].where else f"NOT {listed[0]}"


def _group(
    query: BoundQuery, group: Group, around: frozenset[Before], placed: frozenset[Before], bounded: bool
) -> Spelled:
    """`around` has the order of what stands around it, and `placed` what its place in SEQ says of it."""
    known = pattern.closure(around | group.before)
    own = {*group.variables}
    tree = _tree(group.variables, frozenset(pair for pair in known if own.issuperset(pair)))
    said = pattern.closure(around | placed | _implied(tree))
    where = _orders(group.before, said) + (_bounds(query, group.apart) if bounded else [])
    where += [words.text_of(query, part.condition) for part in group.predicates]
    inner = []
    for cluster in _clusters(group.groups):
        inner.append(_negated(query, [_group(query, each, known, placed, bounded) for each in cluster]))
    text = _text(query, tree)
    return Spelled(f"AND({', '.join([text, *inner])})" if inner else text, tuple(where))


def is_plain(group: Group) -> bool:
    """Whether what is said of it may stand behind the pattern: it is one event, and each comparison speaks of it."""
    (name, *others) = group.variables
    spoken = (variables(atom) for part in group.predicates for atom in atoms(part.condition))
    return not others and not group.groups and all(name in each for each in spoken)


def _clusters(groups: Iterable[Group]) -> list[list[Group]]:
    """Groups with variables in common are alternatives: a variable stands for one component."""
    clusters: list[list[Group]] = []
    for group in groups:
        names = {*words.names_of([group])}
        mine = [each for each in clusters if any(not names.isdisjoint(words.names_of([other])) for other in each)]
        clusters = [each for each in clusters if each not in mine]
        clusters.append([*(other for each in mine for other in each), group])
    return clusters


def _fits(group: Group, blocks: Sequence[Sequence[str]], at: int, order: frozenset[Before]) -> bool:
    """Whether the group, with all inside of it, lies before one block of a SEQ and behind those before that."""
    known = pattern.closure(order | {pair for each in _all_groups([group]) for pair in each.before})
    return _placing([group], blocks, at) <= known


def _placing(cluster: Iterable[Group], blocks: Sequence[Sequence[str]], at: int) -> frozenset[Before]:
    names = [name for group in cluster for name in words.names_of([group])]
    earlier, later = ([name for block in part for name in block] for part in (blocks[:at], blocks[at:]))
    return frozenset((*product(earlier, names), *product(names, later)))


def _all_groups(groups: Iterable[Group]) -> Iterator[Group]:
    for group in groups:
        yield group
        yield from _all_groups(group.groups)


# ---- orders and bounds --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tree:
    """SEQ or AND of parts; a leaf has a name and no parts."""

    kind: str
    parts: tuple[_Tree, ...] = ()


def _tree(names: Sequence[str], order: Set[Before]) -> _Tree:
    """What SEQ and AND can say of an order: no more than that, and all of it if it is series and parallel."""
    if len(names) == 1:
        return _Tree(names[0])
    for kind, blocks in (("SEQ", _series(names, order)), ("AND", _parallel(names, order))):
        if len(blocks) > 1:
            return _Tree(kind, tuple(_tree(block, order) for block in blocks))
    return _Tree("AND", tuple(map(_Tree, names)))


def _series(names: Sequence[str], order: Set[Before]) -> list[list[str]]:
    """Blocks of which each is before the next, all of it."""
    ranked = sorted(names, key=lambda name: sum((other, name) in order for other in names))
    blocks: list[list[str]] = [[]]
    for at, name in enumerate(ranked):
        if at and all(pair in order for pair in product(ranked[:at], ranked[at:])):
            blocks.append([])
        blocks[-1].append(name)
    return blocks


def _parallel(names: Sequence[str], order: Set[Before]) -> list[list[str]]:
    """Blocks of which none has an order with another."""
    blocks: list[list[str]] = []
    for name in names:
        mine = [each for each in blocks if any((name, one) in order or (one, name) in order for one in each)]
        blocks = [each for each in blocks if each not in mine]
        blocks.append([*(one for each in mine for one in each), name])
    return blocks


def _names(tree: _Tree) -> Iterator[str]:
    if not tree.parts:
        yield tree.kind
    for part in tree.parts:
        yield from _names(part)


def _implied(tree: _Tree) -> frozenset[Before]:
    inside = frozenset[Before]().union(*map(_implied, tree.parts))
    if tree.kind != "SEQ" or not tree.parts:
        return inside
    blocks = [[*_names(part)] for part in tree.parts]
    return inside.union(
        pair for at in range(1, len(blocks)) for before in blocks[:at] for pair in product(before, blocks[at])
    )


def _text(query: BoundQuery, tree: _Tree) -> str:
    if not tree.parts:
        return words.component(query.variable(tree.kind))
    return f"{tree.kind}({', '.join(_text(query, part) for part in tree.parts)})"


def _orders(before: Iterable[Before], said: Set[Before]) -> list[str]:
    return [f"before({', '.join(map(words.name_of, pair))})" for pair in sorted(before) if pair not in said]


def _bounds(query: BoundQuery, apart: Iterable[Apart]) -> list[str]:
    least = {(each.earlier, each.later): each.ticks for each in apart}
    parts = []
    for (one, other), ticks in least.items():
        back = least.get((other, one))
        if back is not None and back + ticks == 2:  # less than a tick apart, whatever lies between them
            if (one, other) < (other, one) if ticks == 1 else ticks > 1:
                parts.append(_elapsed(query, one, other, "=", ticks - 1))
        elif ticks > 0:
            parts.append(_elapsed(query, one, other, "<", ticks))
        else:
            parts.append(_elapsed(query, other, one, ">", -ticks))
    return parts


def _elapsed(query: BoundQuery, one: str, other: str, comparison: str, ticks: int) -> str:
    return f"elapsed({words.name_of(one)}, {words.name_of(other)}) {comparison} {words.length(query, ticks)}"


def _shape(branch: Branch) -> pattern.Shape:
    def added(group: Group) -> pattern.Added:
        inner = tuple(map(added, group.groups))
        return pattern.Added(group.variables, group.before, inner, group.fold, Span(0, 0), group.apart)

    return pattern.Shape(branch.variables, branch.before, tuple(map(added, branch.groups)), branch.apart)


def _bare(branch: Branch) -> pattern.Shape:
    return pattern.without_bounds(_shape(branch))


def _window(branch: Branch) -> int | None:
    """The length of time that bounds all events of the branch, and nothing else does."""
    lengths = {each.ticks for part in _bounded(branch) for each in part}
    if len(lengths) != 1:
        return None
    (ticks,) = lengths
    windowed = pattern.finished(_bare(branch), Window(ticks, ""))
    alike = ({*one} == {*other} for one, other in zip(_bounded(branch), _bounded(windowed), strict=True))
    return ticks if ticks > 0 and all(alike) else None


def _bounded(branch: Branch) -> list[tuple[Apart, ...]]:
    return [branch.apart, *(group.apart for group in _all_groups(branch.groups))]


def _whole_window(branch: Branch) -> int | None:
    """A window of the query, if a match is then certain when the branch says so."""
    within = _window(branch)
    return within if within is not None and _is_alike(pattern.certain(_bare(branch), within), branch) else None


def _is_alike(instant: Instant | None, branch: Branch) -> bool:
    """Whether a match is certain when the branch says so; of one event, that is the earliest, and events that are
    as far apart in every match tell the same time."""
    match instant, branch.instant:
        case (Derived(ticks=ticks), Earliest(ticks=others)) | (Earliest(ticks=ticks), Derived(ticks=others)):
            return len(branch.variables) == 1 and ticks == others
        case Derived(variable=one, ticks=ticks), Derived(variable=other, ticks=others) if one != other:
            most = pattern.differences(branch.before, branch.apart).most
            return most.get((one, other)) == ticks - others and most.get((other, one)) == others - ticks
    return instant == branch.instant


# ---- what all alternatives have in common -------------------------------------------------------


def _attribute(test: EquivalenceTest) -> str:
    return str(test.positive[0][1])


def _is_common_test(query: BoundQuery, test: EquivalenceTest) -> bool:
    """Whether `[id]` behind the pattern says the same: in each branch, of all that declare it."""
    if len({attribute for _, attribute in (*test.positive, *test.negated)}) > 1:
        return False
    attribute = _attribute(test)
    for branch in query.branches:
        names = {*branch.variables, *words.names_of(branch.groups)}
        declaring = {name for name in names if attribute.lower() in query.variable(name).attributes}
        tested = [{*each.positive, *each.negated} for each in branch.equivalences]
        if len(declaring) > 1 and {(name, attribute) for name in declaring} not in tested:
            return False
    return True


def _is_common(query: BoundQuery, part: Predicate) -> bool:
    """Whether a condition behind the pattern says the same: a branch that has its variables has the condition, and in
    any other nothing of it remains."""
    spoken = variables(part.condition)
    for branch in query.branches:
        absent = {*words.names_of(branch.groups)}
        if not spoken.isdisjoint(absent):
            return False
        remaining = left_out(part.condition, {*branch.variables})
        if remaining is not None and all(remaining != each.condition for each in branch.predicates):
            return False
    return True
