"""Plans as text: the paper's operators top-down as in its Figure 1, then the steps that Spark will take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sase.compiler.core.bound import BoundQuery, EquivalenceTest, Predicate, Variable
from sase.compiler.core.durations import spelled
from sase.compiler.emit.words import branch_text, group_text, order_text, part_text, test_text
from sase.compiler.plan.choose import Choices
from sase.compiler.plan.logical import GroupPlan, Negation, Plan
from sase.compiler.plan.physical import (
    AntiJoin,
    Arrays,
    Arrive,
    Buckets,
    Choose,
    Clause,
    Combination,
    Compare,
    Computed,
    Decide,
    Ends,
    Exclude,
    Fill,
    Group,
    Grouped,
    Keep,
    Kernel,
    LookUp,
    PhysicalPlan,
    Read,
    Release,
    Remember,
    Result,
    Runs,
    Select,
    Shuffle,
    Single,
    Slices,
    Sort,
    Step,
    Within,
)


def explain(choices: Choices, physical: PhysicalPlan) -> str:
    sections = {
        "Logical plan": logical_lines(choices.chosen.plan, physical.stream),
        "Physical plan": _physical_lines(physical),
    }
    if not physical.query.runs:  # of which there is one way
        sections[f"Strategies, by cost: {_origin(choices)}"] = _strategy_lines(choices, physical.stream)
    return "\n\n".join("\n".join([title, *lines]) for title, lines in sections.items()) + "\n"


# ---- logical ------------------------------------------------------------------------------------


def logical_lines(plan: Plan, stream: bool = False) -> list[str]:
    return [
        f"  {name if index == 0 else '':<22} {detail}"
        for name, details in operators(plan, stream)
        for index, detail in enumerate(details)
    ]


def operators(plan: Plan, stream: bool = False) -> list[tuple[str, list[str]]]:
    """The operators that have something to do and what that is, in the order in which results leave: transformation
    first, scan last."""
    if plan.query.runs:
        return _operators_of_runs(plan)
    if plan.branches:
        return _operators_in_any_order(plan)
    how = _outside(stream)
    negations = [("Negation", _negation(plan, negation, how)) for negation in reversed(plan.negations)]
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


def _operators_of_runs(plan: Plan) -> list[tuple[str, list[str]]]:
    """A run takes the next event that it can, so all conditions are part of it."""
    query = plan.query
    (branch,) = query.branches
    chain = " → ".join(f"{name}{query.loops.get(name, '')}" for name in branch.variables)
    within = f", {plan.window_text}" if query.within else ""
    conditions = [str(test) for test in branch.equivalences] + [part_text(part, query) for part in branch.predicates]
    forbidden = [
        f"no {group_text(group)}" + (f" with {' and '.join(map(str, group.predicates))}" if group.predicates else "")
        for group in branch.groups
    ]
    after = "the next one begins behind it" if query.after == "past last row" else "one from each first event"
    return [
        ("Transformation", [_result(plan)]),
        ("Runs", [f"{chain}{within}", *conditions, *forbidden, f"{query.strategy}, {after}", *_chosen(query)]),
        ("Scan", [f"{' or '.join(each.types)} {each.name}" for each in query.variables]),
    ]


def _operators_in_any_order(plan: Plan) -> list[tuple[str, list[str]]]:
    """Events that Spark decides about come with a match; all else is checked while it is built."""
    late = [group for branch in plan.branches for group in branch.groups if group.undecided]
    kept = [
        f"of {name}, those with {' and '.join(map(str, group.late))}"
        for group in late
        for name in group.group.variables
        if group.group.fold != "none"
    ]
    parts = [part for branch in plan.branches for part in branch.selection.predicates]
    tests = [test_text(test, each.branch) for each in plan.branches for test in each.selection.equivalences]
    listed: list[tuple[str, list[str]]] = [
        ("Transformation", [_result(plan), "only the columns that are read" if plan.pruned else "all columns"]),
        ("Choice", [*([ONCE] if len(plan.branches) > 1 else []), *_chosen(plan.query)] if plan.deferred else []),
        ("Selection", [*dict.fromkeys([*kept, *tests, *(part_text(part, plan.query) for part in parts)])]),
        (
            "Negation",
            [*dict.fromkeys(_added(plan, each, SPARK) for each in late if each.group.fold == "none")],
        ),
        ("Construction", list(_walks(plan))),
        ("Scan", list(_scan(plan))),
    ]
    return [(name, details) for name, details in listed if details]


SPARK = " (decided by Spark, for each match)"


def _walks(plan: Plan) -> Iterator[str]:
    """Each branch with what is checked of it; a second one and those after it stand behind `or`."""
    several = len(plan.branches) > 1
    for at, each in enumerate(plan.branches):
        yield ("or " if at else "") + branch_text(each.branch) + (f", {plan.window_text}" if plan.query.within else "")
        details = [test_text(test, each.branch) for test in each.construction.equivalences]
        details += map(str, each.construction.predicates)
        details += [_added(plan, group) for group in each.groups if group.group.fold != "none" or not group.undecided]
        details += [f"latest {order[0]}: then {', '.join(order[1:])}" for order in each.order if len(order) > 2]
        yield from (("  " if several else "") + detail for detail in details)
    if not plan.deferred and not plan.query.reported:
        yield from _chosen(plan.query)


def _chosen(query: BoundQuery) -> Iterator[str]:
    modes = [f"{mode} {name}" for name, mode in query.selection.items()]
    if modes:
        yield f"of the matches with one latest event, the {', then the '.join(modes)}"
    if query.consume == "exclusive":
        yield "events of a match are in no later one"


def _added(plan: Plan, each: GroupPlan, how: str = "") -> str:
    """`no c between a and d with c.v > 3, unless e after c`"""
    tests = [test for test in each.equivalences if test not in plan.scan.partition and not _keyed(plan, each, test)]
    late = each.late if each.group.fold == "none" else ()
    conditions = _conditions((*each.predicates, *late), tests)
    where = f" with {' and '.join(conditions)}" if conditions else ""
    unless = [_added(plan, inner).removeprefix("no ") for inner in each.groups]
    rest = f", unless {' or '.join(unless)}" if unless else ""
    word = {"none": "no", "collect": "all", "weigh": "how likely is no"}[each.group.fold]
    return f"{word} {group_text(each.group)}{where}{rest}{how}"


def _keyed(plan: Plan, each: GroupPlan, test: EquivalenceTest) -> bool:
    """Whether the partition key has what the test asks of the group."""
    return any(
        all(key.attribute(name) == test.attribute(name) for name in each.group.variables) for key in plan.scan.partition
    )


IN_STACKS = "in the stacks"


def _outside(stream: bool) -> str:
    """How a negated component is evaluated that is not in the stacks."""
    return "looked up for each sequence" if stream else "anti-join"


def _result(plan: Plan) -> str:
    query = plan.query
    if query.returns is None:
        return ", ".join([*_values(query), "started_at", "detected_at"])
    columns = ", ".join(output.name for output in query.returns)
    return f"{query.composite}({columns})" if query.composite else columns


def _columns(result: Result) -> Iterator[str]:
    """Those of RETURN; an event has its time and its tie-breaker behind the type."""
    own = [result.moment.time, *(result.moment.order or ())[1:]] if result.moment else []
    first, *rest = (name for _, name in result.columns or ())
    yield from (first, *own, *rest)


def _values(query: BoundQuery) -> Iterator[str]:
    """The variables of a match, and how far it got."""
    yield from query.result_variables
    if query.timed_out:
        yield "reached"


def _conditions(predicates: Iterable[Predicate], equivalences: Iterable[EquivalenceTest]) -> list[str]:
    return [*map(str, equivalences), *map(str, predicates)]


def _negation(plan: Plan, negation: Negation, how: str) -> list[str]:
    after, before = plan.query.neighbours(negation.variable)
    place = f"before {before}" if after is None else f"after {after}"
    if after and before:
        place = f"between {after} and {before}"
    equivalences = [test for test in negation.equivalences if test not in plan.scan.partition or how != IN_STACKS]
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
        yield from _negation(plan, negation, IN_STACKS)


def _scan(plan: Plan) -> Iterator[str]:
    for variable in plan.query.variables:
        yield _state(variable, plan)
    if plan.scan.partition:
        what = "events" if plan.branches else "stacks"
        yield f"{what} partitioned by {', '.join(map(str, plan.scan.partition))}"
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
    return f"{'!' if variable.name in plan.forbidden else ''}{types} {variable.name}{where}"


def _length(ticks: int, time_kind: str) -> str:
    return spelled(ticks) if time_kind == "timestamp" else f"{ticks:,}"


# ---- physical -----------------------------------------------------------------------------------


def _physical_lines(plan: PhysicalPlan) -> list[str]:
    lines = [line for step in plan.steps for line in _lines(plan, step)]
    return [f"  {number:>2}. {name:<10} {text}" for number, (name, text) in enumerate(lines, 1)]


def _lines(plan: PhysicalPlan, step: Step) -> Iterator[tuple[str, str]]:
    """What `explain` says of a step: a word for what it does, and to what."""
    query = plan.query
    match step:
        case Read():
            columns = dict.fromkeys(column for names in step.types.values() for column in names)
            by = ", by Spark in any case" if any(each.scan == "spark" for each in plan.every(Buckets)) else ""
            yield "read", f"{', '.join(step.types)}: {', '.join([query.type, *columns])}{by}"
        case Arrive():
            for arrival in step.arrivals:
                within = f" within {query.within.text}" if query.within else ""
                where = ", in the worker" if step.inside and not plan.stream else ""
                yield "aggregate", f"{arrival.name}: all {' and '.join(arrival.types)} that have arrived{within}{where}"
        case Fill():
            yield "filter", f"{step.variable}: {step.condition}"
        case Single():
            yield "take", "each event as a match"
        case Computed():
            yield "compute", f"{step.name}: {step.sql}"
        case Slices():
            most = "at most " if step.by_span else ""
            yield "copy", f"to time slices of {most}{_length(step.length, query.time_kind)}"
        case Release():
            yield "order", "released by the watermark"
        case Buckets():
            yield "shuffle", "to " + (f"buckets of {', '.join(step.keys)}" if step.keys else "one bucket")
        case Remember():
            reach = f"what {query.within.text} can reach" if query.within else "what may still be part of a match"
            yield "state", "the events of open runs" if query.runs else reach
        case Shuffle():
            count = f" into {step.partitions} partitions" if step.partitions else ""
            by = f"by {', '.join(step.by)}{count}" if step.by else "everything to one partition"
            yield "shuffle", f"{by}, but for what files in the order of time have together" if step.stays else by
        case Sort():
            yield "sort", f"{'in the worker, ' if step.code else ''}by {', '.join(step.by)}"
        case Kernel():
            checks = "".join(f", {clause_text(clause)}" for clause in step.where)
            furthest = ", as far as each key gets" if step.furthest else ""
            names = (f"{name}{query.loops.get(name, '')}" for name in step.positive)
            enough = f", one for each {step.one_per} is enough" if step.one_per is not None else ""
            enough = ", one for each key is enough" if step.one_per_group else enough
            yield "kernel", f"{' → '.join(names)}{checks}{furthest}{enough}"
            for state in step.negated:
                conditions = ", ".join(map(clause_text, state.where))
                yield "kernel", f"no {state.variable}" + (f" with {conditions}" if conditions else "")
        case Combination():
            yield from _branch_lines(step)
        case Runs():
            yield "kernel", f"{query.strategy}, {len(step.pattern.automaton.symbols)} positions of a row pattern"
        case Arrays():
            yield from (("array", f"{name}: {', '.join(elements)}") for name, elements in step.elements.items())
        case Keep():
            yield "filter", f"of {step.variable}, those with {' and '.join(step.conditions)}"
        case LookUp():
            yield "look up", f"{step.variable} in the interval of each sequence"
        case Within():
            yield "filter", f"{step.last}.{query.time} - {step.first}.{query.time} < window"
        case Select():
            yield from (("filter", condition) for condition in step.conditions)
        case AntiJoin():
            yield from (("anti-join", line) for line in _anti_join(step, query.time_kind))
        case Decide():
            yield "order", f"by {' or '.join(step.last)}, for {', '.join(each.name for each in step.reported)}"
            yield from (("decide", condition) for condition in step.conditions)
            if step.among:
                yield from (("choose", way) for way in _chosen(query))
        case Exclude():
            yield "filter", f"no {', '.join(step.variables)} in its interval{step.told}"
        case Choose():
            yield from (("choose", way) for way in _choice(step))
        case Result():
            what = "struct" if isinstance(step.times, Ends) else "value"
            structs = f"one {what} per variable, {'reached, ' if step.reached else ''}started_at, detected_at"
            if step.grouped is not None:
                yield "group", _grouping(step.grouped)
            yield "result", ", ".join(_columns(step)) if step.columns else structs


def _grouping(grouped: Grouped) -> str:
    """Whether matches are counted or built, and why."""
    by = f"by {', '.join(sql for sql, _ in grouped.by)}" if grouped.by else "all matches"
    built = "matches are counted, and none is built"
    return f"{by}: {built}" if grouped.why is None else f"{by}: every match is built, as {grouped.why}"


def _branch_lines(step: Combination) -> Iterator[tuple[str, str]]:
    for at, branch in enumerate(step.branches):
        checks = "".join(f", {clause_text(clause)}" for clause in branch.where)
        yield "kernel", f"{'or ' if at else ''}{order_text(branch.variables, branch.before)}{checks}"
        yield from (("kernel", _group_line(group)) for group in branch.groups)
        yield from (("kernel", f"latest {order[0]}: then {', '.join(order[1:])}") for order in branch.order)
        yield from (("kernel", f"first, only partners in ({' '.join(block)})") for block in branch.blocks or ())
    if not step.deferred:
        yield from (("kernel", way) for way in _choice(step) if way != ONCE)


ONCE = "each match once"


def _choice(step: Combination | Choose) -> Iterator[str]:
    if step.once:
        yield ONCE
    yield from (f"the {mode} {name}" for name, mode in step.select)
    if step.exclusive:
        yield "events of a match are in no later one"


def _group_line(group: Group) -> str:
    own = [pair for pair in group.before if {*pair} <= {*group.variables}]
    conditions = ", ".join(map(clause_text, group.where))
    unless = "".join(f", unless {_group_line(inner).removeprefix('no ')}" for inner in group.groups)
    where = f" with {conditions}" if conditions else ""
    how = "some" if group.some else "all" if group.collect else "no"
    return f"{how} {order_text(group.variables, own)}{where}{unless}"


def clause_text(clause: Clause) -> str:
    return " or ".join(
        f"{atom.left}.{atom.left_column} {atom.op} {atom.right}.{atom.right_column}"
        if isinstance(atom, Compare)
        else f"{atom.variable}.{atom.column}"
        for atom in clause
    )


def _anti_join(join: AntiJoin, time_kind: str) -> Iterator[str]:
    """A line for each component; they are one join."""
    bucket = f"on buckets of {_length(join.bucket, time_kind)}" if join.bucket else "without buckets"
    for at, each in enumerate(join.components):
        common = f" {bucket}" + "".join(f", {condition}" for condition in join.common)
        conditions = "".join(f", {condition}" for condition in each.conditions)
        yield f"{'or ' if at else ''}{each.variable} ({each.fill.condition}){'' if at else common}{conditions}"


# ---- the strategies -----------------------------------------------------------------------------


def strategy_name(plan: Plan, stream: bool = False) -> str:
    """What sets a plan apart from the others: where its equivalence tests and negated components are evaluated."""
    partition, cross = (", ".join(map(str, tests)) for tests in (plan.scan.partition, plan.scan.cross))
    filtered, selecting = (", ".join(dict.fromkeys(tests)) for tests in _left_tests(plan))
    parts = []
    if cross:
        parts.append(f"Multi-PAIS on {partition}, transitions by {cross}")
    elif partition and filtered:
        parts.append(f"PAIS on {partition}, dynamic filtering by {filtered}")
    elif partition:
        parts.append(f"{'composite key' if len(plan.scan.partition) > 1 else 'PAIS on'} {partition}")
    elif filtered:
        parts.append(f"dynamic filtering by {filtered}")
    elif selecting:
        parts.append(f"selection by {selecting}")
    else:
        parts.append("no equivalence test")
    if plan.strategy.roadmap != "auto":
        parts.append(f"roadmap {plan.strategy.roadmap}")
    if plan.scan.slice:
        parts.append(f"slices of {_length(plan.scan.slice, plan.query.time_kind)}")
    if plan.construction.negations:
        parts.append(f"{', '.join('!' + each.variable for each in plan.construction.negations)} {IN_STACKS}")
    if plan.negations:
        names = ", ".join("!" + each.variable for each in plan.negations)
        parts.append(f"{names} {_outside(stream)}" if stream else f"{names} by {_outside(stream)}")
    return ", ".join(parts)


def _left_tests(plan: Plan) -> tuple[list[str], list[str]]:
    """The equivalence tests that do not partition: those that construction checks, and those of whole matches."""
    if not plan.branches:
        return [*map(str, plan.construction.equivalences)], [*map(str, plan.selection.equivalences)]
    return (
        [test_text(test, each.branch) for each in plan.branches for test in each.construction.equivalences],
        [test_text(test, each.branch) for each in plan.branches for test in each.selection.equivalences],
    )


def _origin(choices: Choices) -> str:
    known = choices.statistics
    if choices.measured:
        return f"{known.events:,.0f} events and {known.cores} cores, as measured"
    return "default statistics, for want of any (sase statistics makes them)"


def _strategy_lines(choices: Choices, stream: bool) -> list[str]:
    """Seconds are those of a batch: what a stream takes is a matter of its micro-batches, too."""
    named = [("chosen", choices.chosen), *(("rejected", each) for each in choices.rejected)]
    names = [strategy_name(each.plan, stream) for _, each in named]
    widest = max(map(len, names))
    titles = ["shuffled", "edges", "sequences", *([] if stream else ["seconds"])]
    rows = [("", "", titles)]
    for (verdict, choice), name in zip(named, names, strict=True):
        cost = choice.cost
        quantities = [*map(_quantity, (cost.shuffled, cost.edges, cost.sequences)), f"{cost.seconds:,.2f}"]
        rows.append((verdict, name, quantities[: len(titles)]))
    return [
        f"  {verdict:<9} {name:<{widest}} {' '.join(f'{text:>10}' for text in quantities)}"
        for verdict, name, quantities in rows
    ]


def _quantity(number: float) -> str:
    """Three digits tell all that an estimate knows."""
    for unit, name in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}" if number < 1e15 else f"{number:.1e}"
    return f"{number:.3g}"
