"""The automaton of a pattern: one state per event, with what is asked of that event on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, radians, sin
from typing import TYPE_CHECKING

from sase.api import Query
from sase.compiler.core import scalars
from sase.compiler.core.bound import BoundQuery, Predicate, Variable
from sase.compiler.core.errors import OptionError
from sase.compiler.emit.words import part_text
from sase.pictures.diagram import CHAR, Diagram
from sase.pictures.orders import component, orders
from sase.pictures.picture import GREY, INK, RED, Chart, Picture

if TYPE_CHECKING:
    from sase.statement import Statement


@dataclass(frozen=True)
class Transition:
    """What the event must be, what else must hold, and what must not have happened."""

    event: str
    conditions: tuple[str, ...]
    unless: tuple[Unless, ...]
    loops: bool = False
    """Behind it, more events of the kind are taken."""
    waits: bool = True
    """Before it, any event that does not fit is passed over."""


@dataclass(frozen=True)
class Unless:
    """A negated component, and what is asked of its events."""

    event: str
    conditions: tuple[str, ...]


def nfa(query: Query | Statement) -> Picture:
    """The pattern as the paper draws it: every state may skip any event, and the next one takes a fitting event.

    A pattern that is no sequence is drawn as the orders in which its events may come; that of MATCH_RECOGNIZE as the
    variables that may take the next row, in which none is skipped.
    """
    if not isinstance(query, Query):
        from sase.pictures.rows import row_automata

        found = row_automata(query)
        if len(found) != 1:
            raise OptionError(f"the statement has {len(found)} clauses: see sase.pictures.rows.row_automata")
        return found[0]
    bound = query.compiled.query
    if not bound.is_sequence and not bound.runs:
        return orders(bound)
    transitions, after = (list(_run(bound)), ()) if bound.runs else (list(_transitions(bound)), _trailing(bound))
    return Picture("The pattern as an automaton", _text(transitions, after), lambda: _chart(transitions, after))


# ---- the model ----------------------------------------------------------------------------------


def _transitions(query: BoundQuery) -> Iterator[Transition]:
    for variable in query.positive:
        yield Transition(
            component(variable),
            tuple(_conditions(query, variable)),
            tuple(
                _unless(query, negated)
                for negated in query.negated
                if query.neighbours(negated.name)[1] == variable.name
            ),
        )


def _run(query: BoundQuery) -> Iterator[Transition]:
    """Of a run: `B+ b` is one transition, into a state that loops."""
    (branch,) = query.branches
    for at, name in enumerate(branch.variables):
        loop = query.loops.get(name)
        parts = [part for part in branch.predicates if _decided(branch.variables, part) == at]
        tests = [test for test in branch.equivalences if name in dict(test.positive) and (at or loop)]
        conditions = [*map(str, tests), *(part_text(part, query) for part in parts)]
        if at and at == len(branch.variables) - 1 and query.within:
            conditions.append(f"{name}.{query.time} - {branch.variables[0]}.{query.time} < {query.within.text}")
        negated = [group for group in branch.groups if (group.variables[0], name) in group.before]
        yield Transition(
            component(query.variable(name), loop),
            tuple(conditions),
            tuple(
                Unless(f"no {component(query.variable(group.variables[0]))}", tuple(map(str, group.predicates)))
                for group in negated
            ),
            loops=loop is not None and loop.most != 1,
            waits=query.strategy == "skip till next match" and at > 0,
        )


def _decided(names: tuple[str, ...], part: Predicate) -> int:
    """With which component it is known: of a whole loop, with the next one, or at the end."""
    found = 0
    for column in scalars.columns(part.condition):
        fold = column.parent
        whole = isinstance(fold, scalars.Folded) and not fold.looks_back
        found = max(found, names.index(column.table) + int(whole))
    return min(found, len(names) - 1)


def _trailing(query: BoundQuery) -> tuple[Unless, ...]:
    return tuple(_unless(query, negated) for negated in query.trailing)


def _conditions(query: BoundQuery, variable: Variable) -> Iterator[str]:
    """What can be checked now and could not be before: all its variables are known, this one among them."""
    bound = {known.name for known in query.positive if not query.before(variable.name, known.name)}
    for test in query.equivalences:
        places = dict(test.positive)
        if variable.name in places and len(places.keys() & bound) > 1:
            yield str(test) if places.keys() <= bound or len({*places.values()}) == 1 else _equality(places, bound)
    for part in query.predicates:
        if part.negated is None and variable.name in part.variables and part.variables <= bound:
            yield str(part)
    if variable == query.last != query.first and query.within:
        yield f"{variable.name}.{query.time} - {query.first.name}.{query.time} < {query.within.text}"


def _equality(places: dict[str, str], bound: set[str]) -> str:
    return " = ".join(f"{name}.{attribute}" for name, attribute in places.items() if name in bound)


def _unless(query: BoundQuery, negated: Variable) -> Unless:
    tests = [str(test) for test in query.equivalences if test.attribute(negated.name) is not None]
    parts = [str(part) for part in query.predicates if part.negated == negated.name]
    after, before = query.neighbours(negated.name)
    place = f" within {query.within.text}" if query.within and (after is None or before is None) else ""
    return Unless(f"no {component(negated)}{place}", (*tests, *parts))


# ---- its forms ----------------------------------------------------------------------------------


def _text(transitions: list[Transition], after: tuple[Unless, ...]) -> str:
    lines = ["( 0 )  start"]
    for state, step in enumerate(transitions, 1):
        lines += [f"  │    {step.event}", *(f"  │      {text}" for text in step.conditions)]
        lines += [f"  │    {text}" for text in _lines(step.unless)]
        again = f"  ↺ {step.event}" if step.loops else ""
        lines += ["  ▼", f"({state:^3}){again}" if state < len(transitions) else f"(({state:^1}))  match"]
    lines += [f"       {text}" for text in _lines(after)]
    return "\n".join(lines) + "\n"


def _lines(unless: tuple[Unless, ...]) -> Iterator[str]:
    for negated in unless:
        yield f"✗ {negated.event}"
        yield from (f"    {condition}" for condition in negated.conditions)


def _chart(transitions: list[Transition], after: tuple[Unless, ...]) -> Chart:
    diagram, x, y, radius = Diagram(), 70.0, 24.0, 17.0
    diagram.text(x + 30, y, "start", colour=GREY)
    for state, step in enumerate(transitions):
        _state(diagram, x, y, radius, str(state), final=False, waits=step.waits)
        if state and transitions[state - 1].loops:
            diagram.text(x + 30, y, f"↺ {transitions[state - 1].event}", colour=GREY)
        top, line = y + radius, y + radius + 22
        diagram.text(x + 30, line, step.event, "name")
        for text in step.conditions:
            line += 17
            diagram.text(x + 42, line, text)
        for text in _lines(step.unless):
            line += 17
            _write(diagram, x + 30, line, text)
        y = line + 22 + radius
        diagram.line([(x, top), (x, y - radius - 7)], head=180, colour=GREY)
    _state(diagram, x, y, radius, str(len(transitions)), final=True)
    diagram.text(x + 30, y, "match", "name")
    for at, text in enumerate(_lines(after), 1):
        _write(diagram, x + 30, y + 17 * at, text)
    return diagram.chart()


def _write(diagram: Diagram, x: float, y: float, text: str) -> None:
    """What must not be. SVG drops leading spaces, so the indent is made by the place."""
    bare = text.lstrip()
    diagram.text(x + (len(text) - len(bare)) * CHAR, y, bare, colour=RED)


def _state(diagram: Diagram, x: float, y: float, radius: float, name: str, final: bool, waits: bool = True) -> None:
    diagram.circle(x, y, radius)
    if final:
        diagram.circle(x, y, radius - 4)
    elif waits:
        # The loop: any event may be skipped here.
        turns = [radians(45 + 270 * part / 16) for part in range(17)]
        loop = [(x - radius - 9 + 12 * cos(turn), y - 12 * sin(turn)) for turn in turns]
        diagram.line(loop, colour=GREY, head=60)
        diagram.text(x - radius - 34, y, "∗", "middle", GREY)
    diagram.text(x, y, name, "middle", INK)
