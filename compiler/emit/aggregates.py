"""What has arrived, and what is in results: the tables that a job writes down for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sase.compiler.emit.quote import literal, printable
from sase.compiler.plan.physical import Arrive, Decide, PhysicalPlan


def takes_part(plan: PhysicalPlan) -> str:
    """On a stream, which events take part in what has arrived."""
    step = plan.only(Arrive)
    return f", arrives={literal(step.takes_part)}" if step and plan.stream else ""


def arrivals(plan: PhysicalPlan) -> Mapping[str, Any] | None:
    step, query = plan.only(Arrive), plan.query
    if step is None:
        return None
    batch = {
        "time": literal(query.time),
        "type": literal(query.type),
        "order": literal(query.order),
        "types": literal(list(step.types)),
        "within": "WINDOW" if query.within else "None",
    }
    if step.thinned is not None:
        batch["thinned"] = literal(step.thinned)
    stream = f"Arriving(tuple(RUNNING), type={literal(query.type)}, types={literal(tuple(step.types))}, within=WINDOW)"
    return {
        "running": [
            f"Running({', '.join(map(literal, (each.name, each.kind, each.attribute, each.types, each.result)))})"
            for each in step.arrivals
        ],
        "arguments": None if plan.stream else batch,
        "arriving": stream if plan.stream else None,
    }


def deciding(plan: PhysicalPlan) -> Mapping[str, Any] | None:
    step, query = plan.only(Decide), plan.query
    if step is None:
        return None
    arguments = {
        "last": literal(step.last),
        "time": literal(query.time),
        "order": literal(query.order),
        "row": literal(step.row),
        "within": "WINDOW" if query.within else "None",
    }
    if step.among:
        arguments["among"] = literal(step.among)
        arguments["select"] = literal(tuple(query.selection.items()))
        arguments["exclusive"] = literal(query.consume == "exclusive")
    return {
        "counted": [
            f"Counted({', '.join(map(literal, (each.name, each.kind, each.variable, each.attribute, each.result)))})"
            for each in step.reported
        ],
        "where": [
            (comment, literal(tree)) for comment, tree in zip(map(printable, step.conditions), step.where, strict=True)
        ],
        "arguments": ", ".join(f"{name}={value}" for name, value in arguments.items()),
    }
