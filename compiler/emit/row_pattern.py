"""A row pattern and what is looked up in its matches, as a job writes them down."""

from __future__ import annotations

from collections.abc import Iterator

from sase.compiler.core.rows import Address
from sase.compiler.emit.quote import LINE, literal
from sase.compiler.plan.rows import Condition, Constant, Label, LookUp, Operation, RowPlan, parts_of


def pattern_names(plan: RowPlan) -> set[str]:
    """What a job imports to write a pattern down, and what is looked up in its matches."""
    conditions = [*plan.running.values()]
    names: set[str] = set()
    if plan.worker is not None:
        names |= {"Shift"} if plan.worker.shifts else set()
        names |= {"Condition"} if plan.worker.meets else set()
        conditions += plan.worker.meets.values()
    leaves = [leaf for each in conditions for leaf in parts_of(each)]
    names |= {leaf.kind if isinstance(leaf, LookUp) else type(leaf).__name__ for leaf in leaves}
    names |= {look_up.kind for look_up in plan.look_ups.values()}
    return names | ({"Skip"} if plan.skip.to != "past last row" else set())


def pattern_lines(plan: RowPlan) -> Iterator[str]:
    found = plan.automaton
    yield f"symbols={literal(found.symbols)},"
    yield f"start={literal(found.start)},"
    if found.first != found.start:
        yield f"first={literal(found.first)},"
    follow = literal(found.follow)
    if len(follow) <= 100:
        yield f"follow={follow},"
    else:
        yield from ("follow=(", *(f"    {literal(each)}," for each in found.follow), "),")
    yield f"ends={literal(found.ends)},"
    if found.excluded:
        yield f"excluded={literal(found.excluded)},"
    if plan.skip.to != "past last row":
        variables = f", {literal(plan.skip.variables)}" if plan.skip.variables else ""
        yield f"skip=Skip({literal(plan.skip.to)}{variables}),"
    if plan.within:
        yield f"within={plan.within.length:_},"
    if plan.stuck:
        yield "stuck=True,"
    if plan.running:
        yield "running=("
        for name, condition in plan.running.items():
            yield f"    ({literal(name)}, {condition_text(condition, 8)}),"
        yield "),"


def condition_text(condition: Condition, indent: int) -> str:
    """On one line, if it fits behind so many blanks; else with a line for each part."""
    match condition:
        case LookUp():
            return look_up_text(condition)
        case Constant(value, interval):
            return f"Constant({literal(value)}{', interval=True' * interval})"
        case Label(name):
            return f"Label({literal(name)})"
        case Operation(sign, parts):
            texts = [condition_text(part, indent + 4) for part in parts]
            flat = f"Operation({literal(sign)}, ({', '.join(texts)}{',' * (len(parts) == 1)}))"
            if indent + len(flat) <= LINE - 20 and "\n" not in flat:
                return flat
            inner = "".join(f"{' ' * (indent + 4)}{text},\n" for text in texts)
            return f"Operation({literal(sign)}, (\n{inner}{' ' * indent}))"


def look_up_text(look_up: LookUp) -> str:
    match look_up.kind:
        case "MatchNumber":
            return "MatchNumber()"
        case "Over":
            arguments = [literal(look_up.function), *([literal(look_up.column)] if look_up.column else [])]
            arguments += ["distinct=True"] if look_up.distinct else []
        case "At":
            arguments = [literal(look_up.column)]
        case "Classifier":
            arguments = []
    step = [f"step={look_up.step}"] if look_up.step else []
    return f"{look_up.kind}({', '.join([*arguments, *_address(look_up.address), *step])})"


def _address(address: Address) -> Iterator[str]:
    if address.variables is not None:
        yield f"variables={literal(address.variables)}"
    if address.first:
        yield "first=True"
    if address.offset:
        yield f"offset={address.offset}"
    if not address.final:
        yield "final=False"
    if address.before:
        yield "before=True"
