"""The whole compiler as one call: text → bound query → logical plan → rules → physical plan → job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property

from sase.compiler.composition import Composition
from sase.compiler.core.arrivals import on_whole_matches
from sase.compiler.core.bound import BoundQuery
from sase.compiler.core.catalog import Catalog
from sase.compiler.core.dataclass import dataclass
from sase.compiler.core.errors import Diagnostic, OptionError, SaseError, did_you_mean
from sase.compiler.languages.front_end import Parsed
from sase.compiler.plan import rules
from sase.compiler.plan.choose import Choices, choose
from sase.compiler.plan.counting import refuse_to_enumerate
from sase.compiler.plan.logical import Plan
from sase.compiler.plan.physical import PhysicalPlan
from sase.compiler.plan.planner import physical_plan
from sase.compiler.plan.reach import latest, reach
from sase.compiler.plan.statistics import Statistics
from sase.compiler.plan.strategy import Strategy
from sase.compiler.plan.telling import told


@dataclass(frozen=True)
class Options:
    """How, never what: the answer is the same whatever they say."""

    disable: frozenset[str] = frozenset()
    strategy: Strategy = field(default_factory=Strategy)
    statistics: Statistics | None = None

    def __post_init__(self) -> None:
        for name in sorted(self.disable - set(rules.NAMES)):
            raise OptionError(f"there is no rule {name!r}: {did_you_mean(name, rules.NAMES, 'the rules are')}")


@dataclass(frozen=True)
class CompiledFile:
    """Several queries, of which some read the results of others, as one job."""

    composition: Composition
    queries: Mapping[str, Compiled]
    """By the names of their results, each behind those that it reads."""
    version: str
    standalone: str | None
    stream: bool

    @cached_property
    def job(self) -> str:
        from sase.compiler.emit.several import generate_all

        return generate_all(self._plans, self._reads, self.version, self.standalone)

    def explain(self) -> str:
        from sase.compiler.emit.several import explain_all

        explained = {name: compiled.explain() for name, compiled in self.queries.items()}
        return explain_all(self._plans, self._reads, explained)

    @property
    def _plans(self) -> dict[str, PhysicalPlan]:
        return {name: compiled.physical for name, compiled in self.queries.items()}

    @property
    def _reads(self) -> dict[str, list[str]]:
        return {name: self.composition.reads(name) for name in self.queries}


@dataclass(frozen=True)
class Compiled:
    query: BoundQuery
    choices: Choices
    physical: PhysicalPlan
    version: str
    standalone: str | None

    @cached_property
    def job(self) -> str:
        from sase.compiler.emit.codegen import generate  # and jinja2, of which a plan has no need

        return generate(self.physical, self.version, self.standalone)

    @property
    def plan(self) -> Plan:
        return self.choices.chosen.plan

    def explain(self) -> str:
        from sase.compiler.emit.explain import explain

        return explain(self.choices, self.physical)


def compile_query(
    parsed: Parsed,
    catalog: Catalog,
    options: Options | None = None,
    *,
    version: str,
    standalone: str | None = None,
    stream: bool = False,
) -> Compiled:
    options = options or Options()
    query = parsed.bind(catalog)
    if stream:
        options = _for_stream(query, options)
    return compile_bound(query, options, version=version, standalone=standalone, stream=stream)


def compile_file(
    composition: Composition,
    catalog: Catalog,
    options: Options | None = None,
    *,
    version: str,
    standalone: str | None = None,
    stream: bool = False,
) -> CompiledFile:
    options = options or Options()
    bound = composition.bind(catalog)
    if stream:
        _refuse_results_of_runs(composition, bound)
    queries = {
        name: compile_bound(query, _for_stream(query, options) if stream else options, version=version, stream=stream)
        for name, query in bound.items()
    }
    return CompiledFile(composition, queries, version, standalone, stream)


def _refuse_results_of_runs(composition: Composition, bound: Mapping[str, BoundQuery]) -> None:
    """Whoever reads a result waits for it as long as it may take, and nobody knows how long without a window."""
    for name, query in bound.items():
        for read in composition.reads(name):
            if latest(bound[read]) is None:
                found = Diagnostic(
                    f"on a stream, results of {read} come when the runs before them are decided, and without a window "
                    "nothing says how long that takes",
                    query.span,
                    f"give {read} a window, such as WITHIN 12 hours, or AFTER MATCH SKIP TO NEXT ROW",
                )
                raise SaseError([found], composition.text, composition.filename)


def compile_bound(
    query: BoundQuery,
    options: Options | None = None,
    *,
    version: str,
    standalone: str | None = None,
    stream: bool = False,
) -> Compiled:
    """From the bound query on, whatever it was written in."""
    options = options or Options()
    strategy = options.strategy if stream else told(query, options.strategy, options.disable, options.statistics)
    if query.arrivals and (stream or strategy.arrivals == "slices"):
        query = on_whole_matches(query)
    choices = choose(query, strategy, options.disable, options.statistics, stream=stream)
    refuse_to_enumerate(choices.chosen.plan, stream)
    physical = physical_plan(choices.chosen.plan, stream)
    return Compiled(query, choices, physical, version, standalone)


def _for_stream(query: BoundQuery, options: Options) -> Options:
    """A stream must be able to forget, and is not cut by time: it comes in the order of time."""
    bounded = query.within is not None if query.is_sequence else reach(query.branches) is not None
    if query.arrivals and query.within is None:
        bounded = False
    if not bounded and not query.runs and (len(query.variables) > 1 or query.arrivals):
        found = Diagnostic(
            "a stream needs WITHIN: without a window, every event could be part of a match for ever, and the state "
            "would grow without end",
            query.span,
            "add a window, such as WITHIN 12 hours",
        )
        raise SaseError([found], query.text, query.filename)
    if query.furthest:
        raise OptionError("how far a key gets is known when all its events are there, and a stream does not end")
    if query.arrivals and query.reported:
        found = Diagnostic(
            f"{query.arrivals[0].name} is known when an event is released, and {query.reported[0].name} decides there",
            query.span,
            "on a stream, leave one of them out",
        )
        raise SaseError([found], query.text, query.filename)
    strategy = options.strategy
    if strategy.slice not in ("auto", "off") or strategy.parallel in ("time", "both"):
        raise OptionError("a stream is not cut into time slices: leave slice and parallel out")
    if strategy.partitions is not None:
        raise OptionError("a stream has buckets of keys instead of partitions: see --buckets")
    if strategy.arrivals != "auto":
        raise OptionError("a stream tells what has arrived when it releases an event: leave arrivals out")
    if strategy.scan == "worker":
        raise OptionError("workers read the files of a stream where they can: leave scan out, or let scan=spark do it")
    if strategy.sort != "auto":
        raise OptionError("a stream sorts what the watermark releases: leave sort out")
    return replace(options, strategy=replace(strategy, slice="off", parallel="auto"))
