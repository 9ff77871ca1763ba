"""The pattern of a query as a literal of the job: what `sase.runtime.pattern` reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from sase.compiler.core.bound import Apart, Instant, Latest, Window
from sase.compiler.emit.quote import Call, literal, written
from sase.compiler.plan.physical import Branch, Clause, Combination, Compare, Group, Holds, Kernel, Total


def name(kernel: Kernel | Combination) -> str:
    if isinstance(kernel, Combination):
        return "Combination"
    if kernel.totals is not None:
        return "Totals"
    return "Furthest" if kernel.furthest else "Pattern"


def lines(kernel: Kernel | Combination, window: Window | None) -> list[str]:
    """The arguments of the literal."""
    if isinstance(kernel, Kernel):
        return _sequence(kernel, window is not None)
    return [line for argument in _combination(kernel, window) for line in _with_comma(written(argument, 0))]


def names(kernel: Kernel | Combination) -> set[str]:
    """What the literal is made of."""
    used = {type(atom).__name__ for clause in kernel.clauses for atom in clause} | {name(kernel)}
    if isinstance(kernel, Kernel):
        return used | ({"Negated"} if kernel.negated else set()) | ({"Total"} if kernel.totals else set())
    used.add("Branch")
    for branch in kernel.branches:
        used |= {type(branch.instant).__name__} - {"Latest"}
        used |= {type(each).__name__ for each in _parts(branch)}
    return used


def _parts(each: Branch | Group) -> Iterator[Apart | Group]:
    yield from each.apart
    for group in each.groups:
        yield group
        yield from _parts(group)


# ---- sequences ----------------------------------------------------------------------------------


def _sequence(kernel: Kernel, window: bool) -> list[str]:
    lines = [f"positive={literal(kernel.positive)},"]
    if kernel.negated:
        lines.append("negated=(")
        for state in kernel.negated:
            after, before = literal(state.interval.after), literal(state.interval.before)
            head = f"{literal(state.variable)}, after={after}, before={before}"
            if state.where:
                lines += [f"    Negated({head}, where=(", *_clauses(state.where, 8), "    )),"]
            else:
                lines.append(f"    Negated({head}),")
        lines.append("),")
    if kernel.where:
        lines += ["where=(", *_clauses(kernel.where, 4), "),"]
    if not kernel.stacks:
        lines.append("stacks=False,")
    if kernel.one_per_group:
        lines.append("one_per_group=True,")
    elif kernel.one_per is not None:
        lines.append(f"one_per={literal(kernel.one_per)},")
    if kernel.loops:
        lines.append(f"loops={literal(dict(kernel.loops))},")
    if kernel.totals is not None:
        lines.append(f"shown={literal(kernel.shown)},")
        lines += ["totals=(", *(f"    {_total(total)}," for total in kernel.totals), "),"]
    if window:
        lines.append("within=WINDOW,")
        lines += [
            f"{name}=False," for name in ("window_in_scan", "window_in_construction") if not getattr(kernel, name)
        ]
    return lines


def _total(total: Total) -> str:
    about = [] if total.variable is None else [literal(total.variable), literal(total.column)]
    real = ["real=True"] if total.real else []
    return f"Total({', '.join([literal(total.name), literal(total.kind), *about, *real])})"


def _clauses(clauses: Iterable[Clause], indent: int) -> list[str]:
    lines = []
    for clause in clauses:
        atoms = [_atom(atom) for atom in clause]
        if len(atoms) == 1:
            lines.append(" " * indent + f"({atoms[0]},),")
        else:
            lines += [" " * indent + "(", *(" " * (indent + 4) + atom + "," for atom in atoms), " " * indent + "),"]
    return lines


def _atom(atom: Compare | Holds) -> str:
    values = ", ".join(literal(getattr(atom, field.name)) for field in fields(atom))
    return f"{type(atom).__name__}({values})"


# ---- combinations -------------------------------------------------------------------------------


def _combination(kernel: Combination, window: Window | None) -> Iterator[str | Call]:
    yield Call("branches=(", [_branch(branch, window) for branch in kernel.branches])
    if not kernel.once:
        yield "once=False"
    if kernel.select:
        yield f"select={literal(kernel.select)}"
    if kernel.exclusive:
        yield "exclusive=True"
    if kernel.deferred:
        yield "deferred=True"


def _branch(branch: Branch, window: Window | None) -> Call:
    arguments = [literal(branch.variables), *_relations(branch, window)]
    if not isinstance(branch.instant, Latest):
        arguments.append(f"instant={_instant(branch.instant, window)}")
    if branch.order:
        arguments.append(Call("order=(", [literal(order) for order in branch.order]))
    if branch.blocks is not None:
        arguments.append(f"blocks={literal(branch.blocks)}")
    return Call("Branch(", arguments)


def _group(group: Group, window: Window | None) -> Call:
    collect = ["collect=True"] if group.collect else []
    collect += [f"name={literal(group.name)}"] if group.name else []
    collect += ["some=True"] if group.some else []
    return Call("Group(", [literal(group.variables), *_relations(group, window), *collect])


def _relations(each: Branch | Group, window: Window | None) -> Iterator[str | Call]:
    if each.before:
        yield Call("before=(", [literal(pair) for pair in each.before])
    if each.apart:
        yield Call("apart=(", [_apart(apart, window) for apart in each.apart])
    if each.where:
        yield Call("where=(", [Call("(", [_atom(atom) for atom in clause]) for clause in each.where])
    if each.groups:
        yield Call("groups=(", [_group(group, window) for group in each.groups])


def _apart(apart: Apart, window: Window | None) -> str:
    return f"Apart({literal(apart.earlier)}, {literal(apart.later)}, {ticks(apart.ticks, window)})"


def _instant(instant: Instant, window: Window | None) -> str:
    values = [getattr(instant, field.name) for field in fields(instant)]
    written = [ticks(value, window) if isinstance(value, int) else literal(value) for value in values]
    return f"{type(instant).__name__}({', '.join(written)})"


def ticks(length: int, window: Window | None) -> str:
    return "WINDOW" if window is not None and length == window.ticks else f"{length:_}"


def _with_comma(lines: list[str]) -> list[str]:
    return [*lines[:-1], lines[-1] + ","]
