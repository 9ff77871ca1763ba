"""A bound query in words of SASE, whatever it was written in: the shortest way to learn what it means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise, permutations

from sase.compiler.core.bound import Apart, BoundQuery, Latest
from sase.compiler.core.errors import Diagnostic, SaseError
from sase.compiler.languages.sase import branches, words
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
    pattern = _pattern(query)
    lines = [f"EVENT {pattern.pattern}"]
    parts = [*pattern.where, *(words.text_of(query, part.condition) for part in query.decided)]
    if parts:
        lines.append("WHERE " + "\n  AND ".join(parts))
    if query.within is not None:
        lines.append(f"WITHIN {query.within.text}")
    elif pattern.within is not None:
        lines.append(f"WITHIN {words.length(query, pattern.within)}")
    if query.returns is not None:
        name = words.name_of
        columns = [f"{words.text_of(query, output.value)} AS {name(output.name)}" for output in query.returns]
        listed = ", ".join(columns)
        lines.append(f"RETURN EVENT {name(query.composite)}({listed})" if query.composite else f"RETURN {listed}")
    return "\n".join(lines) + "\n"


def spelled_all(queries: Mapping[str, BoundQuery]) -> str:
    """A file of several queries, by the names of their results. One that SASE has no words for stays as it is."""
    texts = []
    for name, query in queries.items():
        try:
            texts.append(_in_words(query) + ("" if query.composite else f"INTO {words.name_of(name)}\n"))
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


def _pattern(query: BoundQuery) -> branches.Spelled:
    branch, *_ = query.branches
    if (simple := _simple(query)) is not None and all(map(branches.is_plain, branch.groups)):
        pattern, within = simple
        tests = [words.test(query, branch, test) for test in query.equivalences]
        parts = (words.text_of(query, part.condition) for part in query.predicates)
        return branches.Spelled(pattern, (*tests, *parts), within)
    why = _OWN if _is_sase(query) else branches.in_words(query)
    if isinstance(why, branches.Spelled):
        return why
    found = Diagnostic(f"SASE has no words for this query: {why}", query.span)
    raise SaseError([found], query.text, query.filename)


_OWN = "it has its own"


def _simple(query: BoundQuery) -> tuple[str, int | None] | None:
    """The pattern, and a window that is not the query's, where there is no more to it than SEQ or AND of events."""
    if query.is_sequence:
        ranks = {name: 2 * at for at, name in enumerate(query.chain.variables)}
        for variable in query.negated:
            after, _ = query.neighbours(variable.name)
            ranks[variable.name] = -1 if after is None else ranks[after] + 1
        ordered = sorted(query.variables, key=lambda variable: ranks[variable.name])
        parts = [words.component(variable, variable in query.negated) for variable in ordered]
        return (parts[0] if len(parts) == 1 else f"SEQ({', '.join(parts)})"), None
    if (steps := _steps(query)) is not None:
        listed = ", ".join(words.component(query.variable(name)) for name in steps)
        return f"SEQ({listed})", query.branches[0].apart[0].ticks
    if (ticks := _together(query)) is not None:
        return f"AND({', '.join(map(words.component, query.positive))})", ticks
    return None


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
