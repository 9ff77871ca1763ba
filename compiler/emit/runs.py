"""The job of a query of runs: what its template is filled with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sase.compiler.core.scalars import column_sql
from sase.compiler.emit.quote import literal, wrapped
from sase.compiler.emit.row_pattern import look_up_text, pattern_lines
from sase.compiler.emit.shuffle import shuffled
from sase.compiler.plan.physical import Choose, PhysicalPlan, Runs, Shuffle, Sort

SYMBOLS = "_sase_symbols"


def template_of(plan: PhysicalPlan, runs: Runs) -> dict[str, Any]:
    rows = runs.pattern
    time = rows.order[0].column
    computed = {**rows.computed, **rows.terms}
    columns = [literal(column_sql(name)) for name in _read(plan, runs) if name not in computed]
    columns += [f"F.expr({literal(sql)}).alias({literal(name)})" for name, sql in computed.items()]
    columns.append(f"ticks(events, {literal(column_sql(plan.query.time))}).alias({literal(time)})")
    if plan.stream:
        columns += [literal(plan.own(name)) for name in ("reason", "record", "clock")]
    next_match = plan.query.strategy == "skip till next match"
    return {
        "by": literal(list(runs.keys)),
        "ordered_by": f"[{', '.join(f'Key({literal(key.column)})' for key in rows.order)}]",
        "pattern": list(pattern_lines(rows)),
        "looked_up": [(literal(name), look_up_text(each)) for name, each in rows.look_ups.items()],
        "fills": [(literal(name), literal(condition)) for name, condition in rows.fills.items()],
        "summary": "Keeps the events that a run may take or that forbid one, and what is read of them later."
        if next_match
        else "All events, as any of them may stand between two others, and what is read of them later.",
        "relevant": literal(runs.relevant) if runs.relevant else None,
        "columns": columns,
        "kept": ", ".join(literal(column_sql(name)) for name in runs.columns),
        "names": wrapped(list(runs.columns), 8),
        "event": literal(runs.event),
        "bits": "symbol_bits(define)",
        "symbols": literal(SYMBOLS),
        "number": literal(runs.number),
        "choice": list(_choice(plan, runs)),
        "shown": [(literal(name), literal(sql)) for name, sql in _shown(plan, runs).items()],
        **({} if plan.stream else _together(plan)),
    }


def _choice(plan: PhysicalPlan, runs: Runs) -> Iterator[str]:
    """The arguments that choose among matches. On a stream a bucket chooses, and numbers the events."""
    if not runs.chosen:
        return
    (step,) = plan.every(Choose)
    numbers, *columns = runs.chosen
    modes = [(column, mode) for column, (_, mode) in zip(columns, step.select, strict=True)]
    if plan.stream:
        yield f"number={literal(runs.number)}"
    yield f"numbers={literal(numbers)}"
    yield f"modes={literal(tuple(modes) if plan.stream else dict(modes))}"
    if step.exclusive or plan.stream:
        yield f"exclusive={step.exclusive}"


def _together(plan: PhysicalPlan) -> dict[str, str]:
    (shuffle,), (sort,) = plan.every(Shuffle), plan.every(Sort)
    return {"spread": shuffled(shuffle), "sort": ", ".join(literal(column_sql(name)) for name in sort.by)}


def _read(plan: PhysicalPlan, runs: Runs) -> dict[str, None]:
    """The event's own columns that travel to the kernel. In a stream, what a match keeps of an event is made there, and
    an event that comes too late must be known by its type and time."""
    query = plan.query
    order = [query.order] if query.order else []
    shown = [query.type, query.time, *order, *runs.columns] if plan.stream else []
    return dict.fromkeys([*shown, *runs.keys, *order, *runs.asked])


def made_of(runs: Runs) -> Iterator[object]:
    """What the state of a stream depends on, beside its columns: which events are there, and what they may be."""
    yield [runs.relevant, list(runs.keys), list(runs.pattern.fills.items())]
    yield [sorted(runs.pattern.computed.items()), sorted(runs.pattern.terms.items())]


def _shown(plan: PhysicalPlan, runs: Runs) -> dict[str, str]:
    """The variables of a match, each with its own columns, and when it starts and is known."""
    found = {}
    for name, value in runs.values.items():
        columns = plan.emit[name]
        of = "e" if name in runs.arrays else value
        struct = f"struct({', '.join(f'{of}.{column_sql(each)} AS {column_sql(each)}' for each in columns)})"
        if columns == runs.columns:
            found[name] = value
        elif name in runs.arrays:
            found[name] = f"transform({value}, e -> {struct})"
        else:
            absent = name in plan.query.loops or plan.query.timed_out
            found[name] = f"IF({value} IS NULL, NULL, {struct})" if absent else struct
    time = column_sql(plan.query.time)
    if plan.result.tells_time:
        found |= {plan.own("started"): f"{runs.first}.{time}", plan.own("detected"): f"{runs.last}.{time}"}
    return found
