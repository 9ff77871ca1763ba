"""A bound query in words of SASE, whatever it was written in: the shortest way to learn what it means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise, permutations

from sqlglot import exp

from sase.compiler.core import durations, scalars
from sase.compiler.core.bound import Apart, BoundQuery, EquivalenceTest, Latest, Variable
from sase.compiler.core.errors import Diagnostic, SaseError
from sase.compiler.core.fields import of_variable
from sase.compiler.languages.sase.parser import parse


def spelled(query: BoundQuery) -> str:
    """Read again, it has the same matches. A query of SASE is its own words where this knows no others; SaseError, with
    what is none of SASE's, if another language's has none."""
    try:
        return _in_words(query)
    except SaseError:
        if not _is_sase(query):
            raise
        return _BEHIND.sub("", query.own_text) + "\n"


def _in_words(query: BoundQuery) -> str:
    lines = [f"EVENT {_pattern(query)}"]
    tests = [_test(query, test) for test in query.equivalences]
    if parts := [*tests, *(_text(query, part.condition) for part in (*query.predicates, *query.decided))]:
        lines.append("WHERE " + "\n  AND ".join(parts))
    if within := _window(query):
        lines.append(f"WITHIN {within}")
    if query.returns is not None:
        columns = [f"{_text(query, output.value)} AS {_name(output.name)}" for output in query.returns]
        listed = ", ".join(columns)
        lines.append(f"RETURN EVENT {_name(query.composite)}({listed})" if query.composite else f"RETURN {listed}")
    return "\n".join(lines) + "\n"


def spelled_all(queries: Mapping[str, BoundQuery]) -> str:
    """A file of several queries, by the names of their results. One that SASE has no words for stays as it is."""
    texts = []
    for name, query in queries.items():
        try:
            texts.append(_in_words(query) + ("" if query.composite else f"INTO {_name(name)}\n"))
        except SaseError as error:
            why = "" if _is_sase(query) else f"-- {error.diagnostics[0].message}\n"
            texts.append(f"{why}{_BEHIND.sub('', query.own_text)}")
    return ";\n\n".join(text.rstrip("\n") for text in texts) + "\n"


def _is_sase(query: BoundQuery) -> bool:
    try:
        parse(_BEHIND.sub("", query.own_text))
    except SaseError:
        return False
    return True


_BEHIND = re.compile(r"[\s;]*(?:--[^\n]*\s*)*\Z")
"""What may stand behind a query: a semicolon, comments."""


def _pattern(query: BoundQuery) -> str:
    if query.is_sequence:
        ranks = {name: 2 * at for at, name in enumerate(query.chain.variables)}
        for variable in query.negated:
            after, _ = query.neighbours(variable.name)
            ranks[variable.name] = -1 if after is None else ranks[after] + 1
        ordered = sorted(query.variables, key=lambda variable: ranks[variable.name])
        parts = [_component(variable, variable in query.negated) for variable in ordered]
        return parts[0] if len(parts) == 1 else f"SEQ({', '.join(parts)})"
    if (steps := _steps(query)) is not None:
        return f"SEQ({', '.join(_component(query.variable(name), False) for name in steps)})"
    if _together(query) is not None:
        return f"AND({', '.join(_component(variable, False) for variable in query.positive)})"
    found = Diagnostic(f"SASE has no words for this query: {_lacking(query)}", query.span)
    raise SaseError([found], query.text, query.filename)


def _lacking(query: BoundQuery) -> str:
    """What the query has that there is none of in SASE."""
    if len(query.branches) > 1:
        return f"its results come in {len(query.branches)} orders, and each of these counts for itself"
    (branch,) = query.branches
    bounds = [*branch.apart, *(each for group in branch.groups for each in group.apart)]
    if len(bounds) > 1:
        pairs = [f"{each.earlier} and {each.later}, {_length(query, each.ticks)}" for each in bounds if each.ticks > 0]
        return f"its windows are of pairs ({'; '.join(pairs)}), and SASE's is of the whole match"
    return "it compares the times of results, and SASE the places of events"


def _length(query: BoundQuery, ticks: int) -> str:
    return str(ticks) if query.time_kind == "integer" else durations.spelled(ticks)


def _is_plain(query: BoundQuery) -> bool:
    chooses = query.selection or query.arrays or query.timed_out or query.consume == "exclusive"
    return len(query.branches) == 1 and not chooses and query.branches[0].instant == Latest()


def _steps(query: BoundQuery) -> list[str] | None:
    """The variables of a sequence that lists them in another order than it binds them: `PRECEDES(x, y, 5)`."""
    (branch, *others) = query.branches
    if others or not _is_plain(query) or branch.groups or len(branch.variables) < 2:
        return None
    after = dict(branch.before)
    steps = [name for name in branch.variables if name not in after.values()]
    while steps and steps[-1] in after:
        steps.append(after[steps[-1]])
    chain = set(pairwise(steps)) == branch.before and len(steps) == len(branch.variables)
    return steps if chain and [(each.earlier, each.later) for each in branch.apart] == [(steps[0], steps[-1])] else None


def _together(query: BoundQuery) -> int | None:
    """The window of events in any order, and nothing else."""
    if not _is_plain(query):
        return None
    (branch,) = query.branches
    lengths = {each.ticks for each in branch.apart}
    if branch.before or branch.groups or len(lengths) != 1:
        return None
    (ticks,) = lengths
    every = {Apart(one, other, ticks) for one, other in permutations(branch.variables, 2)}
    return ticks if set(branch.apart) == every else None


def _window(query: BoundQuery) -> str | None:
    if query.within is not None:
        return query.within.text
    ticks = None if query.is_sequence else _together(query)
    if not query.is_sequence and _steps(query) is not None:
        ticks = query.branches[0].apart[0].ticks
    return None if ticks is None else str(ticks) if query.time_kind == "integer" else f"{ticks} microseconds"


def _component(variable: Variable, negated: bool) -> str:
    types = ", ".join(map(_type, variable.types))
    event = f"{types if len(variable.types) == 1 else f'ANY({types})'} {_name(variable.name)}"
    return f"!({event})" if negated else event


def _type(name: str) -> str:
    return name if all(map(scalars.is_plain_name, name.split("-"))) else _name(name)


def _name(name: str) -> str:
    return scalars.column_sql(name)


def _test(query: BoundQuery, test: EquivalenceTest) -> str:
    """`[id]` where that says the same: of all that declare it."""
    places = test.positive + test.negated
    names = {attribute for _, attribute in places}
    declaring = [each.name for each in query.variables if any(name.lower() in each.attributes for name in names)]
    if len(names) == 1 and sorted(declaring) == sorted(name for name, _ in places):
        return f"[{_name(str(next(iter(names))))}]"
    columns = [of_variable(variable, attribute) for variable, attribute in test.positive]
    equal = [exp.EQ(this=one.copy(), expression=other.copy()) for one, other in pairwise(columns)]
    equal += [
        exp.EQ(this=columns[0].copy(), expression=of_variable(variable, attribute))
        for variable, attribute in test.negated
    ]
    return " AND ".join(map(scalars.sql, equal))


def _text(query: BoundQuery, node: exp.Expr) -> str:
    arrivals = {arrival.name for arrival in query.arrivals}
    told = {each.name for each in node.find_all(scalars.Told)}
    node = node.transform(_as_written, copy=True)
    text = scalars.sql(node)
    for name in told:
        text = text.replace(scalars.column_sql(name), name)
    for column in scalars.columns(node):
        if column.name in arrivals:
            text = text.replace(scalars.sql(column), column.name)
    return f"({text})" if isinstance(node, exp.Or) else text


def _as_written(node: exp.Expr) -> exp.Expr:
    """The probability of a match is a product of many columns."""
    if isinstance(node, scalars.Folded) and node.this == "probability":
        return exp.Anonymous(this="probability", expressions=[])
    return node
