"""The job of a query of runs: what its template is filled with."""

from __future__ import annotations

from typing import Any

from sase.compiler.core.scalars import column_sql
from sase.compiler.emit.quote import literal
from sase.compiler.emit.row_pattern import leaves_of, look_up_text, pattern_lines
from sase.compiler.plan.physical import PhysicalPlan, Runs, Shuffle, Sort

SYMBOLS = "_sase_symbols"


def template_of(plan: PhysicalPlan, runs: Runs) -> dict[str, Any]:
    rows, order = runs.pattern, plan.query.order
    time = rows.order[0].column
    (shuffle,), (sort,) = plan.every(Shuffle), plan.every(Sort)
    count = [] if shuffle.partitions is None and shuffle.by else [str(shuffle.partitions or 1)]
    looked_at = [each.column for each in rows.look_ups.values() if each.column and each.column != runs.event]
    read = dict.fromkeys([*runs.keys, *([order] if order else []), *_asked(runs), *looked_at])
    computed = {**rows.computed, **rows.terms}
    columns = [literal(column_sql(name)) for name in read if name not in computed]
    columns += [f"F.expr({literal(sql)}).alias({literal(name)})" for name, sql in computed.items()]
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
        "columns": [*columns, f"ticks(events, {literal(column_sql(plan.query.time))}).alias({literal(time)})"],
        "kept": ", ".join(literal(column_sql(name)) for name in runs.columns),
        "event": literal(runs.event),
        "symbols": literal(SYMBOLS),
        "repartition": ", ".join([*count, *(literal(column_sql(name)) for name in shuffle.by)]),
        "sort": ", ".join(literal(column_sql(name)) for name in sort.by),
        "shown": [(literal(name), literal(sql)) for name, sql in _shown(plan, runs).items()],
    }


def _asked(runs: Runs) -> list[str]:
    """The columns that conditions on several events look up."""
    found = [leaf.column for each in runs.pattern.running.values() for leaf in leaves_of(each) if leaf.column]
    return list(dict.fromkeys(found))


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
            found[name] = f"IF({value} IS NULL, NULL, {struct})" if name in plan.query.loops else struct
    time = column_sql(plan.query.time)
    if plan.result.columns is None:
        found |= {plan.own("started"): f"{runs.first}.{time}", plan.own("detected"): f"{runs.last}.{time}"}
    return found
