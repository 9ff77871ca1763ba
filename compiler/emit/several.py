"""Several queries as one job: each is a function, with what would be a job of its own inside; the last part joins them.

What a query is to the others is the name of its results: `reads` says which of them it reads.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sase.compiler.core.scalars import column_sql
from sase.compiler.emit.codegen import context, environment, fingerprint
from sase.compiler.emit.quote import comment_lines, literal, printable, wrapped
from sase.compiler.plan.physical import PhysicalPlan, Read, Runs
from sase.compiler.plan.reach import latest

Reads = Mapping[str, Sequence[str]]


def generate_all(plans: Mapping[str, PhysicalPlan], reads: Reads, version: str, standalone: str | None = None) -> str:
    """The job's source. The queries come in an order in which each is behind those whose results it reads."""
    some = next(iter(plans.values()))
    contexts = {name: context(plan, version, standalone) for name, plan in plans.items()}
    stream, first = some.stream, next(iter(contexts.values()))
    behind = _behind(plans, reads) if stream else dict[str, int]()
    if stream:
        _mark_results(contexts, plans, reads, behind)
    functions = dict(zip(plans, _functions(plans, "follow" if stream else "find"), strict=True))
    more = " --checkpoint CHECKPOINT --max-delay DELAY" if stream else ""
    types, read_again = _types(plans), {each for read in reads.values() for each in read}
    default = next((plan.query.stream for plan in plans.values() if plan.query.stream not in (None, *plans)), None)
    template = environment().get_template("several.py.jinja")
    text: str = template.render(
        title=first["title"],
        listed=comment_lines("\n".join(_listed(plans, reads))),
        run=printable(f"spark-submit {Path(some.query.filename).stem}.py --events EVENTS --out RESULTS{more}"),
        standalone=standalone,
        stream=stream,
        imports=_imports(contexts.values(), stream),
        source=first["source"]
        | {
            "types": [(literal(name), wrapped(columns, 8)) for name, columns in types.items()],
            "where": _where(plans),
        },
        states=[(literal(name), literal(_state(name, plans, reads, behind))) for name in plans],
        queries=[
            {
                "name": literal(name),
                "title": printable(name),
                "dashes": "-" * max(4, 92 - len(name)),
                "lines": comment_lines(plan.query.own_text),
                "function": functions[name],
                "notes": contexts[name].get("notes", []),
                "body": _body(contexts[name]),
                "given": _given(plan, reads[name]),
                "kept": name in read_again,
                "events": "everything" if _base(plan, reads[name]) else "{}",
                "results": _mapping({each: f"streams[{literal(each)}]().matches()" for each in reads[name]}),
            }
            for name, plan in plans.items()
        ],
        schema=literal(_schema(some, types)),
        places=[place for each in contexts.values() for place in each["places"]],
        name=first["name"],
        default_events=literal(default),
        read_once=sum(1 for name, plan in plans.items() if _base(plan, reads[name])) > 1,
    )
    return text


def explain_all(plans: Mapping[str, PhysicalPlan], reads: Reads, explained: Mapping[str, str]) -> str:
    listed = [f"  {line}" for line in _listed(plans, reads)]
    parts = [f"{name}\n{'=' * len(name)}\n\n{text}" for name, text in explained.items()]
    return "\n".join(["Queries, each behind those whose results it reads", *listed, "", *parts])


def _listed(plans: Mapping[str, PhysicalPlan], reads: Reads) -> Iterator[str]:
    """What each result is made of."""
    width = max(map(len, plans))
    for name, plan in plans.items():
        yield f"{name:<{width}} ← {', '.join([*reads[name], *_base(plan, reads[name])])}"


def _base(plan: PhysicalPlan, reads: Sequence[str]) -> list[str]:
    """The event types that it reads, but for results."""
    (read,) = plan.every(Read)
    return [name for name in read.types if name not in reads]


def _functions(names: Iterable[str], verb: str) -> Iterator[str]:
    taken = {f"{verb}_all"}
    for name in names:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
        stem = function = f"{verb}_{re.sub(r'[^a-z0-9]+', '_', words.lower()).strip('_') or 'query'}"
        number = 1
        while function in taken:
            number += 1
            function = f"{stem}_{number}"
        taken.add(function)
        yield function


def _behind(plans: Mapping[str, PhysicalPlan], reads: Reads) -> dict[str, int]:
    """How far behind the watermark each query works, so that it has all results of the time that it decides about."""
    found: dict[str, int] = {}
    for name in plans:
        found[name] = max((found[each] + (latest(plans[each].query) or 0) for each in reads[name]), default=0)
    return found


def _mark_results(
    contexts: Mapping[str, dict[str, Any]],
    plans: Mapping[str, PhysicalPlan],
    reads: Reads,
    behind: Mapping[str, int],
) -> None:
    """Results that have waited for the watermark are not late, although it has passed them."""
    waited = set[str]()
    for name, plan in plans.items():
        made = sorted(waited.intersection(reads[name]))
        runs = plan.only(Runs)
        if behind[name]:
            why = "runs that began before are decided first"
            contexts[name]["behind"] = {"ticks": f"{behind[name]:_}", "why": why}
            contexts[name]["state"] = literal(_own_state(plan, behind[name]))
        if plan.kernel or runs or made:
            waited.add(name)
        if (plan.kernel or runs) and made:
            which, bits = ("runs", "bits") if runs else ("relevant", "states")
            here = contexts[name][which]
            every = ", every=True" if runs else ""
            here[bits] = f"never_late({here[bits]}, {literal(plan.query.type)}, {literal(made)}{every})"
            contexts[name]["imports"].append("from sase.runtime.stream.watch import never_late")


def _body(query: Mapping[str, Any]) -> str:
    template = environment().get_template(query["body"])
    text = template.render({**query, "composed": True}).strip("\n")
    return textwrap.indent(re.sub(r"\n{3,}", "\n\n", text), "    ") + "\n"


def _imports(contexts: Iterable[Mapping[str, Any]], stream: bool) -> list[str]:
    """Those of all queries, and those of what joins them."""
    names: dict[str, set[str]] = {}
    for query in contexts:
        for line in query["imports"]:
            module, imported = line.removeprefix("from ").split(" import ")
            names.setdefault(module, set()).update(imported.split(", "))
    if stream:
        names["sase.runtime.stream.job"] -= {"main"}
        names["sase.runtime.stream.composed"] = {"main"}
        names["sase.runtime.events"] |= {"unite"}
    else:
        del names["sase.runtime.job"]
        names["sase.runtime.composed"] = {"Keep", "as_it_is", "main"}

    def in_order(name: str) -> tuple[bool, bool, str]:
        return not name.isupper(), name.islower(), name

    return [f"from {module} import {', '.join(sorted(names[module], key=in_order))}" for module in sorted(names)]


def _types(plans: Mapping[str, PhysicalPlan]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for plan in plans.values():
        (read,) = plan.every(Read)
        for name, columns in read.types.items():
            if name not in plans:
                found.setdefault(name, {}).update(columns)
    return found


def _where(plans: Mapping[str, PhysicalPlan]) -> str | None:
    """What holds for an event that can take part in any of them."""
    reading = [plan for plan in plans.values() if any(name not in plans for name in plan.every(Read)[0].types)]
    conditions = [plan.every(Read)[0].where for plan in reading]
    return literal(" OR ".join(f"({each})" for each in conditions)) if all(conditions) else None


def _schema(plan: PhysicalPlan, types: Mapping[str, Mapping[str, str]]) -> str:
    columns = {name: kind for declared in types.values() for name, kind in declared.items()}
    schema = {plan.query.type: "string", **columns, "_corrupt_record": "string"}
    return ", ".join(f"{column_sql(name)} {kind}" for name, kind in schema.items())


def _state(name: str, plans: Mapping[str, PhysicalPlan], reads: Reads, behind: Mapping[str, int]) -> str:
    """Its own state, and the states of those that it reads: they are part of its stream."""
    own = _own_state(plans[name], behind.get(name, 0))
    return " ".join(filter(None, [*(_state(each, plans, reads, behind) for each in reads[name]), own]))


def _own_state(plan: PhysicalPlan, behind: int) -> str:
    return f"{fingerprint(plan)}+{behind}" if behind else fingerprint(plan)


def _given(plan: PhysicalPlan, reads: Sequence[str]) -> str:
    if not reads:
        return "everything"
    results = [f"{literal(name)}: found[{literal(name)}]" for name in reads]
    return "{" + ", ".join([*(["**everything"] if _base(plan, reads) else []), *results]) + "}"


def _mapping(items: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{literal(name)}: {value}" for name, value in items.items()) + "}"
