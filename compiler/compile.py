"""The whole compiler as one call: text → bound query → logical plan → rules → physical plan → job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sase.compiler import rules
from sase.compiler.binder import bind
from sase.compiler.bound import BoundQuery
from sase.compiler.catalog import Catalog
from sase.compiler.codegen import generate
from sase.compiler.durations import UNITS, microseconds
from sase.compiler.errors import Diagnostic, OptionError, SaseError, did_you_mean
from sase.compiler.explain import explain
from sase.compiler.logical import Plan, basic_plan
from sase.compiler.parser import parse, parse_duration
from sase.compiler.physical import PhysicalPlan, physical_plan
from sase.compiler.rules.negation_in_stacks import move_into_stacks, why_not_in_stacks
from sase.compiler.strategy import Strategy
from sase.compiler.syntax import Query


@dataclass(frozen=True)
class Options:
    """How, never what: the answer is the same whatever they say."""

    disable: frozenset[str] = frozenset()
    strategy: Strategy = field(default_factory=Strategy)

    def __post_init__(self) -> None:
        for name in sorted(self.disable - set(rules.NAMES)):
            raise OptionError(f"there is no rule {name!r}: {did_you_mean(name, rules.NAMES, 'the rules are')}")


@dataclass(frozen=True)
class Compiled:
    query: BoundQuery
    plan: Plan
    physical: PhysicalPlan
    job: str

    def explain(self) -> str:
        return explain(self.plan, self.physical)


def compile_query(
    text: str,
    catalog: Catalog,
    options: Options | None = None,
    *,
    filename: str = "query.sase",
    version: str,
    standalone: str | None = None,
    stream: bool = False,
) -> Compiled:
    options = options or Options()
    parsed = parse(text, filename)
    query = bind(parsed, catalog)
    if stream:
        options = _for_stream(parsed, query, options)
    plan = _forced(rules.optimise(basic_plan(query, options.strategy), _switched_off(options)))
    if stream and len(query.positive) == 1 and "negation_in_stacks" not in _switched_off(options):
        plan = move_into_stacks(plan)  # a stream has no join that would do for a lone positive component
    physical = physical_plan(plan, stream)
    return Compiled(query, plan, physical, generate(physical, version, standalone))


def check_query(text: str, catalog: Catalog, filename: str) -> None:
    """Raises what is wrong with the query; an open catalog leaves types and attributes unchecked."""
    bind(parse(text, filename), catalog)


def _for_stream(parsed: Query, query: BoundQuery, options: Options) -> Options:
    """A stream must be able to forget, and is not cut by time: it comes in the order of time."""
    if query.within is None and len(query.variables) > 1:
        found = Diagnostic(
            "a stream needs WITHIN: without a window, every event could be part of a match for ever, and the state "
            "would grow without end",
            parsed.span,
            "add a window, such as WITHIN 12 hours",
        )
        raise SaseError([found], parsed.text, parsed.filename)
    strategy = options.strategy
    if strategy.slice not in ("auto", "off") or strategy.parallel in ("time", "both"):
        raise OptionError("a stream is not cut into time slices: leave slice and parallel out")
    if strategy.partitions is not None:
        raise OptionError("a stream has buckets of keys instead of partitions: see --buckets")
    return replace(options, strategy=replace(strategy, slice="off", parallel="auto"))


def _switched_off(options: Options) -> frozenset[str]:
    off: Iterable[str] = options.disable
    if options.strategy.negation == "anti-join":
        off = {*off, "negation_in_stacks"}
    if options.strategy.slice != "auto":
        off = {*off, "slice_by_time"}
    return frozenset(off)


def _forced(plan: Plan) -> Plan:
    strategy = plan.strategy
    if strategy.negation == "stack":
        for negation in plan.negations:
            if reason := why_not_in_stacks(negation, plan):
                raise OptionError(f"negation=stack is not possible for {negation.variable}: {reason}")
        if plan.negations:
            plan = move_into_stacks(plan)
    if strategy.slice not in ("auto", "off"):
        if plan.query.within is None or not (plan.scan.window and plan.construction.window):
            raise OptionError("time slices need WITHIN, and the rules window_in_scan and window_in_construction")
        plan = plan.with_scan(slice=_slice_length(strategy.slice, plan.query.time_kind))
    if strategy.parallel in ("time", "both") and plan.scan.slice is None:
        raise OptionError(f"parallel={strategy.parallel} needs time slices, and this plan has none")
    if strategy.parallel in ("key", "both") and not plan.scan.partition:
        raise OptionError(f"parallel={strategy.parallel} needs a partition key, and this plan has none")
    return plan


def _slice_length(value: int | str, time_kind: str) -> int:
    duration = parse_duration(str(value))
    with_units = duration is not None and all(unit and unit.lower() in UNITS for _, unit in duration.parts)
    if duration is not None and time_kind == "timestamp" and with_units:
        length = sum(microseconds(amount, str(unit)) for amount, unit in duration.parts)
    elif duration is not None and all(unit is None for _, unit in duration.parts):
        length = microseconds(duration.parts[0][0], "microsecond")
    else:
        raise OptionError(
            f"slice is auto, off or a length such as {'8 days' if time_kind == 'timestamp' else '10000'}, not {value!r}"
        )
    if length < 1 or length.denominator != 1:
        raise OptionError("a time slice is at least one tick long")
    return int(length)
