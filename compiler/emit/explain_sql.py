"""What `sase explain` says of a statement: what stays SQL, and how each clause is evaluated."""

from __future__ import annotations

from collections.abc import Iterator

from sase.compiler.core.rows import Address
from sase.compiler.emit.explain import explain
from sase.compiler.emit.quote import printable
from sase.compiler.plan.automaton import ACCEPT
from sase.compiler.plan.rows import Condition, Constant, Key, Label, LookUp, Operation, RowPlan
from sase.compiler.plan.statement import Followed, PlannedJoin, PlannedStatement, PlannedView, printed

_SHOWN = {
    "one row": "one row per match",
    "all rows": "all rows of a match, and one for an empty match",
    "all rows but empty matches": "all rows of a match, none for an empty match",
    "all rows and unmatched rows": "all rows of a match, and those of none",
}


_LINEAR = "linear: no step is taken back, since conditions are about single rows"
_SEARCH = "a search, since conditions are about rows mapped before: pruned by what single rows allow, within a budget"


_IN_WORKER = "in the worker, or in Spark if values are of types that the worker does not know"
_IN_SPARK = "in Spark"


def explain_sql(statement: PlannedStatement) -> str:
    lines = ["Statement", f"  {printable(printed(statement.query, statement.all_views))}"]
    if not statement.all_views and not statement.left:
        lines += ["", "There is no MATCH_RECOGNIZE: Spark runs the statement as it stands."]
    for view in statement.views:
        lines += ["", f"{{{view.name}}}: MATCH_RECOGNIZE", *_view(view, statement)]
    for join in statement.joins:
        lines += ["", f"{{{join.name}}}: a join in the order of time, which runs as a pattern", *_join(join, statement)]
    for left in statement.left:
        lines += ["", "Left alone, so that Spark runs it as it stands", f"  {printable(left.select)}"]
        lines += [f"  {printable(left.reason)}"]
    return "\n".join(lines) + "\n"


def _join(join: PlannedJoin, statement: PlannedStatement) -> Iterator[str]:
    for name, reads in join.reads.items():
        yield f"  {printable(name)} events: {printable(printed(reads, statement.all_views))}"
    expected = join.choices.chosen.cost.seconds
    yield f"  expected: {expected:.1f} s, and {join.own_seconds:.1f} s of Spark's own join"
    if join.steady:
        yield "  right only where clocks never change, as in UTC: differences of timestamps are those of local clocks"
    yield from (f"  {line}".rstrip() for line in explain(join.choices, join.physical).rstrip("\n").split("\n"))


def _view(view: PlannedView, statement: PlannedStatement) -> Iterator[str]:
    plan = view.plan
    rows: list[tuple[str, str]] = [("reads", printed(view.reads, statement.all_views))]
    followed = statement.followed[statement.views.index(view)] if statement.followed else None
    for beside in followed.beside if followed else ():
        rows.append(("beside", f"rows of tables, those that come in time: {printed(beside.reads, ())}"))
    rows.append(("partitions", ", ".join(plan.by) or "none: one core does all the work"))
    rows.append(("order", ", ".join(map(_key, plan.order)) or "none: rows come in any order"))
    for name, text in plan.computed.items():
        rows.append(("", f"{name} = {text}"))
    if plan.order and plan.context is None:
        rows.append(("sort", _IN_WORKER if plan.worker else _IN_SPARK))
    for name, each in plan.neighbours.items():
        function = "lag" if each.step < 0 else "lead"
        rows.append(("window", f"{name} = {function}({each.sql}, {abs(each.step)})"))
    for name, text in plan.terms.items():
        rows.append(("value", f"{name} = {text}"))
    for name, shift in plan.worker.shifts.items() if plan.worker else ():
        rows.append((f"looks {'back' if shift.step < 0 else 'ahead'}", f"{name} = {shift.column}, {_away(shift.step)}"))
    for name, condition in plan.fills.items():
        rows.append((f"may be {name}", condition))
    for name, running in (*(plan.worker.meets.items() if plan.worker else ()), *plan.running.items()):
        rows.append((f"is {name} if", condition_text(running)))
    rows += [("pattern", line) for line in automaton_lines(plan)]
    rows.append(("walk", _SEARCH if plan.running else _LINEAR))
    rows.append(("next match", _skip(plan)))
    if plan.within:
        unit = " microseconds" if plan.within.in_time else ""
        rows.append(("window", f"less than {plan.within.length:,}{unit} from the first row to the last"))
    if plan.context is not None:
        looked_at = "row" if plan.context == 1 else f"{plan.context} rows"
        more = f", and the last {looked_at} of each key, for ever" if plan.context else ""
        rows.append(("remembers", f"the rows of a key that are not decided yet{more}"))
    if followed and (behind := _behind(followed, statement)) is not None:
        rows.append(("behind", behind))
    rows.append(("output", _SHOWN[plan.shown]))
    for name, look_up in plan.look_ups.items():
        rows.append(("looks up", f"{name} = {_looked_up(look_up)}"))
    for measure in plan.measures:
        rows.append(("measure", f"{measure.name} = {measure.sql}"))
    width = max(len(head) for head, _ in rows)
    last = None
    for head, text in rows:
        yield f"  {'' if head == last else head:<{width}}  {printable(text)}".rstrip()
        last = head


def _behind(followed: Followed, statement: PlannedStatement) -> str | None:
    """How far behind the watermark a clause works that reads the matches of others."""
    if not followed.inner:
        return None
    if not followed.behind:
        names = dict.fromkeys(f"{{{each.view.name}}}" for each in followed.inner)
        return f"nothing: a match of {' or '.join(names)} is decided with its last row"
    unit = " microseconds" if any(each.plan.within and each.plan.within.in_time for each in statement.views) else ""
    return f"the watermark, by {followed.behind:,}{unit}: so long after their time matches may come that it reads"


def automaton_lines(plan: RowPlan) -> Iterator[str]:
    found = plan.automaton
    names = [f"{symbol}#{at}" if found.symbols.count(symbol) > 1 else symbol for at, symbol in enumerate(found.symbols)]

    def listed(targets: tuple[int, ...]) -> str:
        return " | ".join("end" if each == ACCEPT else names[each] for each in targets) or "nothing"

    yield f"begins with {listed(found.start)}"
    if found.first != found.start:
        yield f"on the first row of a partition, begins with {listed(found.first)}"
    for at, targets in enumerate(found.follow):
        ends = " (or the partition ends)" if at in found.ends and ACCEPT not in targets else ""
        yield f"{names[at]} → {listed(targets)}{ends}"


def _away(step: int) -> str:
    return f"{abs(step)} {'before' if step < 0 else 'behind'}"


def _key(key: Key) -> str:
    return f"{key.column}{' DESC' if key.descending else ''} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _skip(plan: RowPlan) -> str:
    match plan.skip.to:
        case "past last row":
            return "behind the last row of a match"
        case "next row":
            return "at the row behind the first one of a match"
        case end:
            return f"at the {end} row of {' or '.join(plan.skip.variables)}"


def _looked_up(look_up: LookUp) -> str:
    rows = _rows(look_up.address)
    match look_up.kind:
        case "MatchNumber":
            return "the number of the match"
        case "Classifier":
            from_there = f"the row {_away(look_up.step)} "
            return f"the variable of {from_there if look_up.step else ''}{rows}"
        case "At":
            return f"{look_up.column} of {rows}"
        case "Over":
            of = " or ".join(look_up.address.variables) if look_up.address.variables else "the match"
            semantics = "" if look_up.address.final else ", so far"
            what = f"{'DISTINCT ' * look_up.distinct}{look_up.column or '*'}"
            return f"{look_up.function}({what}) over the rows of {of}{semantics}"


def condition_text(condition: Condition) -> str:
    match condition:
        case LookUp("At", Address(current=True), str(column)):
            return column
        case LookUp():
            return _looked_up(condition)
        case Constant(value):
            return "NULL" if value is None else str(value)
        case Label(name):
            return name
        case Operation(sign, (part,)):
            return f"{condition_text(part)} IS NULL" if sign == "IS NULL" else f"{sign} ({condition_text(part)})"
        case Operation("IF", parts):
            return f"IF({', '.join(map(condition_text, parts))})"
        case Operation(sign, parts):
            texts = map(condition_text, parts)
            return f" {sign} ".join(text if " " not in text else f"({text})" for text in texts)


def _rows(address: Address) -> str:
    end = "first" if address.first else "last"
    of = f" of {' or '.join(address.variables)}" if address.variables else ""
    away = f", {address.offset} {'further' if address.first else 'before'}" if address.offset else ""
    return f"the {end} row{of}{away}{'' if address.final else ', so far'}"
