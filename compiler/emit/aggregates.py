"""What has arrived, and what is in results: the tables that a job writes down for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sase.compiler.emit.quote import literal, printable
from sase.compiler.plan.physical import Arrive, Decide, PhysicalPlan


def takes_part(plan: PhysicalPlan) -> str:
    """Where the kernel is told what has arrived: which events take part in it."""
    step = plan.only(Arrive)
    return f", arrives={literal(step.takes_part)}" if step and step.inside else ""


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
    inside = {
        "type": literal(query.type if plan.stream or not step.all_alike else None),
        "types": literal(tuple(step.types)),
        "within": "WINDOW",
    }
    if not plan.stream:
        inside["slice"] = literal(plan.own("slice"))
        if step.thinned is not None:
            inside["thinned"] = literal(step.thinned)
    return {
        "running": [
            f"Running({', '.join(map(literal, (each.name, each.kind, each.attribute, each.types, each.result)))})"
            for each in step.arrivals
        ],
        "arguments": None if step.inside else batch,
        "arriving": [f"{name}={value}" for name, value in inside.items()] if step.inside else None,
        "when": "when an event is released" if plan.stream else "in the slices",
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
