"""Plans as text: the paper's operators top-down as in its Figure 1, then the steps that Spark will take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sase.compiler.bound import EquivalenceTest, Predicate, Variable
from sase.compiler.durations import spelled
from sase.compiler.logical import Negation, Plan
from sase.compiler.physical import AntiJoin, Clause, Compare, Kernel, PhysicalPlan


def explain(plan: Plan, physical: PhysicalPlan) -> str:
    return "\n".join(["Logical plan", *logical_lines(plan), "", "Physical plan", *_physical_lines(physical)]) + "\n"


# ---- logical ------------------------------------------------------------------------------------


def logical_lines(plan: Plan) -> list[str]:
    return [
        f"  {name if index == 0 else '':<22} {detail}"
        for name, details in operators(plan)
        for index, detail in enumerate(details)
    ]


def operators(plan: Plan) -> list[tuple[str, list[str]]]:
    """The operators that have something to do and what that is, in the order in which results leave: transformation
    first, scan last."""
    negations = [("Negation", _negation(plan, negation, "anti-join")) for negation in reversed(plan.negations)]
    selection = [
        ("Selection", _conditions(plan.selection.predicates, plan.selection.equivalences)),
        ("Window", [plan.window_text] if plan.window else []),
    ]
    listed: list[tuple[str, list[str]]] = [
        ("Transformation", [_result(plan), "only the columns that are read" if plan.pruned else "all columns"]),
        *(selection if plan.negation_first else negations),
        *(negations if plan.negation_first else selection),
        ("Sequence construction", list(_construction(plan))),
        ("Sequence scan", list(_scan(plan))),
    ]
    return [(name, details) for name, details in listed if details]


def _result(plan: Plan) -> str:
    query = plan.query
    if query.returns is None:
        return ", ".join([*(variable.name for variable in query.positive), "started_at", "detected_at"])
    columns = ", ".join(output.name for output in query.returns)
    return f"{query.composite}({columns})" if query.composite else columns


def _conditions(predicates: Iterable[Predicate], equivalences: Iterable[EquivalenceTest]) -> list[str]:
    return [*map(str, equivalences), *map(str, predicates)]


def _negation(plan: Plan, negation: Negation, how: str) -> list[str]:
    after, before = plan.query.neighbours(negation.variable)
    place = f"before {before}" if after is None else f"after {after}"
    if after and before:
        place = f"between {after} and {before}"
    equivalences = [test for test in negation.equivalences if test not in plan.scan.partition or how == "anti-join"]
    conditions = _conditions(negation.predicates, equivalences)
    where = f" with {' and '.join(conditions)}" if conditions else ""
    return [f"no {negation.variable} {place}{where} ({how})"]


def _construction(plan: Plan) -> Iterator[str]:
    construction = plan.construction
    yield " → ".join(variable.name for variable in plan.query.positive)
    if construction.basic:
        yield "without stacks"
    yield from _conditions(construction.predicates, construction.equivalences)
    if construction.window:
        yield plan.window_text
    for negation in construction.negations:
        yield from _negation(plan, negation, "in the stacks")


def _scan(plan: Plan) -> Iterator[str]:
    for variable in plan.query.variables:
        yield _state(variable, plan)
    if plan.scan.partition:
        yield f"stacks partitioned by {', '.join(map(str, plan.scan.partition))}"
    if plan.scan.cross:
        yield f"transitions filtered by {', '.join(map(str, plan.scan.cross))}"
    if plan.scan.window:
        yield f"stacks pruned {plan.window_text}"
    if plan.scan.slice:
        yield f"cut into time slices of {_length(plan.scan.slice, plan.query.time_kind)}"


def _state(variable: Variable, plan: Plan) -> str:
    types = variable.types[0] if len(variable.types) == 1 else f"ANY({', '.join(variable.types)})"
    simple = plan.scan.simple.get(variable.name, ())
    where = f" where {' and '.join(map(str, simple))}" if simple else ""
    return f"{'!' if variable.negated else ''}{types} {variable.name}{where}"


def _length(ticks: int, time_kind: str) -> str:
    return spelled(ticks) if time_kind == "timestamp" else f"{ticks:,}"


# ---- physical -----------------------------------------------------------------------------------


def _physical_lines(plan: PhysicalPlan) -> list[str]:
    steps = list(_steps(plan))
    return [f"  {number:>2}. {name:<10} {text}" for number, (name, text) in enumerate(steps, 1)]


def _steps(plan: PhysicalPlan) -> Iterator[tuple[str, str]]:
    query, kernel = plan.query, plan.kernel
    columns = dict.fromkeys(column for names in plan.types.values() for column in names)
    yield "read", f"{', '.join(plan.types)}: {', '.join([query.type, *columns])}"
    for fill in plan.fills:
        yield "filter", f"{fill.variable}: {fill.condition}"
    if kernel is None:
        yield "take", "each event as a match"
    else:
        yield from _kernel_steps(plan, kernel)
    selection = [("filter", condition) for condition in plan.selection]
    if plan.window:
        first, last = query.positive[0].name, query.positive[-1].name
        selection.insert(0, ("filter", f"{last}.{query.time} - {first}.{query.time} < window"))
    joins = [("anti-join", _anti_join(plan, join)) for join in plan.anti_joins]
    joins += [
        ("filter", f"no {each.variable} in its interval with {' and '.join(each.conditions)}")
        for each in plan.outside
        if each.conditions
    ]
    yield from joins + selection if plan.negation_first else selection + joins
    yield (
        "result",
        ", ".join(name for _, name in plan.output) if plan.output else "one struct a variable, started_at, detected_at",
    )


def _kernel_steps(plan: PhysicalPlan, kernel: Kernel) -> Iterator[tuple[str, str]]:
    for column in kernel.computed:
        yield "compute", f"{column.name}: {column.sql}"
    if kernel.slice:
        yield "copy", f"to time slices of {_length(kernel.slice, plan.query.time_kind)}"
    if plan.stream:
        yield "order", "released by the watermark"
        yield "shuffle", "to " + (f"buckets of {', '.join(kernel.keys)}" if kernel.keys else "one bucket")
        yield "state", f"what {plan.query.within.text if plan.query.within else ''} can reach"
    by = [*kernel.keys, *([plan.own("slice")] if kernel.slice else [])]
    count = f" into {plan.partitions} partitions" if plan.partitions else ""
    shuffled = by[len(kernel.keys) :] if kernel.by_time_only else by
    if not plan.stream:
        yield "shuffle", (f"by {', '.join(shuffled)}{count}" if shuffled else "everything to one partition")
    yield "sort", "by " + ", ".join([*by, plan.own("time"), *([plan.query.order] if plan.query.order else [])])
    checks = "".join(f", {_clause(clause)}" for clause in kernel.where)
    yield "kernel", f"{' → '.join(kernel.positive)}{checks}"
    for state in kernel.negated:
        conditions = " and ".join(_clause(clause) for clause in state.where)
        yield "kernel", f"no {state.variable}" + (f" with {conditions}" if conditions else "")
    for each in plan.outside:
        yield "look up", f"{each.variable} in the interval of each sequence"


def _clause(clause: Clause) -> str:
    return " or ".join(
        f"{atom.left}.{atom.left_column} {atom.op} {atom.right}.{atom.right_column}"
        if isinstance(atom, Compare)
        else f"{atom.variable}.{atom.column}"
        for atom in clause
    )


def _anti_join(plan: PhysicalPlan, join: AntiJoin) -> str:
    bucket = f"on buckets of {plan.query.within.text}" if plan.query.within else "without buckets"
    return f"{join.variable} ({join.fill.condition}) {bucket}" + "".join(
        f", {condition}" for condition in join.conditions
    )
