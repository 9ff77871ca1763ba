"""Runs a job one step at a time and counts what gets through each, so that "why is there no match?" has an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sase.compiler.core.bound import EquivalenceTest
from sase.compiler.emit.runs import SYMBOLS
from sase.compiler.emit.words import group_text, order_text
from sase.compiler.plan import physical
from sase.compiler.plan.physical import (
    AntiJoin,
    Arrays,
    Choose,
    Decide,
    Exclude,
    Interval,
    Keep,
    Kernel,
    Runs,
    Select,
    Shuffle,
    Slices,
    Sort,
    Within,
)
from sase.runtime.errors import SaseRunError
from sase.runtime.events import Events, Source, check, flaws, own_tables, quoted, types_there, unite
from sase.runtime.io.tally import LOOK, unknown_type
from sase.runtime.kernels.combinations import Counters as Walked
from sase.runtime.kernels.encode import encode_pattern
from sase.runtime.kernels.sequences import BOUNDS, DEPTH, Counters
from sase.runtime.pattern import Combination, Pattern
from sase.runtime.row_pattern import ACCEPT, MatchNumber, RowPattern, Skip
from sase.runtime.runs import find_runs
from sase.runtime.shuffle import by_key
from sase.runtime.ssc import Options

if TYPE_CHECKING:
    from sase.api import Query


@dataclass(frozen=True)
class Stage:
    """What is left after a step.

    The stages add up: where `removed` is a number, `left` is what the stage before left, less that. Where it is None,
    something else is counted from here on.
    """

    step: str
    of: str
    """What is counted: all events, those for a variable, or sequences, whole ones or their ends."""
    what: str
    unit: str
    left: int
    removed: int | None = None
    why: str = ""
    """Of a step that finds partners: what it means that there are none."""


class _Sum(AccumulatorParam[list[int]]):
    """The counters of all partitions added up."""

    def zero(self, value: list[int]) -> list[int]:
        return [0] * len(value)

    def addInPlace(self, value1: list[int], value2: list[int]) -> list[int]:
        return np.add(value1, value2).tolist()  # type: ignore[no-any-return]


def stages(query: Query, events: Events) -> list[Stage]:
    """The stages of a run, in the order in which they depend on each other: events, the variables that they may fill,
    sequences from their last event backwards, matches."""
    spark = SparkSession.active()
    if query.compiled.query.grouped is not None:
        raise SaseRunError("stages are those of matches, and this query aggregates them: leave the aggregates out")
    if query.compiled.query.runs:
        return list(_OfRuns(query, events, spark).stages())
    if not hasattr(spark, "sparkContext"):
        raise SaseRunError(
            "analysing counts with Spark's accumulators, which Spark Connect has not: use a classic session"
        )
    return list(_Run(query, events, spark).stages())


class _Run:
    def __init__(self, query: Query, events: Events, spark: SparkSession) -> None:
        self.job, self.spark, self.events = query.module, spark, events
        self.bound, self.plan, self.physical = query.compiled.query, query.compiled.plan, query.compiled.physical
        self.source: Source = self.job.SOURCE.whole
        pattern: Pattern | Combination | None = getattr(self.job, "PATTERN", None)
        self.pattern = pattern if isinstance(pattern, Pattern) else None
        self.combination = pattern if isinstance(pattern, Combination) else None
        self.types = ", ".join(self.source.types)

    def stages(self) -> Iterator[Stage]:
        checked = check(self.events, self.source)
        relevant = self.job.relevant_events(checked)
        copies: dict[str, int] = {}
        if self.physical.only(Slices):
            relevant = self.job.time_slices(relevant)
            copies = self.copies(relevant)
        if (shuffle := self.physical.only(Shuffle)) and shuffle.stays:  # `together` has some events twice
            relevant = self.spread(relevant, shuffle)
        matches, counters = self.sequences(relevant)
        found = matches.count()
        try:
            yield from self.read()
            yield from self.filters(checked, copies, counters)
            if isinstance(counters, Walked):
                yield from self.walks(counters, found)
            else:
                yield from self.construction(counters)
                yield Stage("sequences", self.whole, "sequences", "sequence", found, 0)
            yield from self.after(self.whole, matches, checked, found)
        finally:
            matches.unpersist()

    @property
    def whole(self) -> str:
        """A match, in short."""
        if self.combination is None:
            return " → ".join(variable.name for variable in self.bound.positive)
        return " or ".join(order_text(branch.variables, branch.before) for branch in self.bound.branches)

    # ---- events ---------------------------------------------------------------------------------

    def read(self) -> Iterator[Stage]:
        """All events, then those that can take part."""
        united = unite(self.events, self.source, every=True)
        of_the_query = F.col(quoted(self.source.type)).isin(*self.source.types)
        sound, steps, metrics = F.lit(True), list[str](), [F.count(F.lit(1))]
        for words, flaw in flaws(united, self.source).items():
            # What is written in an event of another type is nobody's concern.
            sound &= ~F.expr(flaw) | F.coalesce(~of_the_query, F.lit(False))
            metrics.append(F.count_if(sound))
            steps.append(words.replace("that cannot", "that can").replace("without", "with"))
        metrics.append(F.count_if(sound & of_the_query))
        left, *rest = _counted(united, metrics)
        yield Stage("events", "events", "read", "event", left, why="there are no events")
        for what, count in zip([*steps, f"of type {self.types}"], rest, strict=True):
            if count < left or what not in steps:  # of flaws, those that there are
                yield Stage("events", "events", what, "event", count, left - count)
            left = count

    def filters(
        self, checked: DataFrame, copies: Mapping[str, int], counters: Counters | Walked | None
    ) -> Iterator[Stage]:
        """For each variable, how many events meet its conditions, one after the other, and find a predecessor. Negated
        ones first: so the last variable's events stand before what is built from them."""
        fills = {fill.variable: fill.parts for fill in self.physical.fills}
        joins = self.physical.every(AntiJoin)
        forbidden = {each.variable: each.fill.parts for join in joins for each in join.components}
        aside = self.plan.forbidden | self.bound.collected
        forbidden |= {name: parts for name, parts in fills.items() if name in aside}
        metrics: list[Column] = []
        everything = {**forbidden, **{name: parts for name, parts in fills.items() if name not in forbidden}}
        for parts in everything.values():
            metrics += [F.count_if(F.expr(" AND ".join(parts[: end + 1]))) for end in range(len(parts))]
        counted = iter(_counted(checked, metrics))
        for name, (test, *conditions) in everything.items():
            step, of = "filter" if self.is_needed(name) else "optional", name
            if name in forbidden:
                step, of = "negated", f"all {name}" if name in self.bound.collected else f"!{name}"
            left = next(counted)
            yield Stage(step, of, test, "event", left, why="" if left or name in forbidden else self.missing(name))
            for condition in conditions:
                count = next(counted)
                yield Stage(step, of, condition, "event", count, left - count)
                left = count
            unit = "event"
            if name in copies:
                left, unit = copies[name], "copy"
                yield Stage(step, of, "one for each time slice", unit, left)
            if step == "filter" and isinstance(counters, Counters):
                yield from self.scan(name, unit, left, counters)

    def is_needed(self, name: str) -> bool:
        """Whether there is no match without it."""
        return all(name in branch.variables for branch in self.bound.branches)

    def missing(self, name: str) -> str:
        kinds = self.kinds(name)
        if len(kinds) > 1 or kinds[0] in own_tables(self.events):
            return f"no event has the type {' or '.join(kinds)}"
        return unknown_type(kinds[0], *types_there(self.events, self.source, LOOK))

    def kinds(self, name: str) -> tuple[str, ...]:
        return self.bound.variable(name).types

    def copies(self, relevant: DataFrame) -> dict[str, int]:
        """The events and copies that may fill each variable, by their state bits."""
        pattern = self.pattern or self.combination
        assert pattern is not None
        states = F.col(quoted(self.physical.own("states")))
        names = pattern.variables
        bits = [F.count_if(states.bitwiseAND(F.lit(pattern.bit(name))) != 0) for name in names]
        return dict(zip(names, _counted(relevant, bits), strict=True))

    def spread(self, relevant: DataFrame, shuffle: Shuffle) -> DataFrame:
        keys = [quoted(name) for name in shuffle.by]
        return by_key(relevant, *keys) if keys else relevant.repartition(1)

    # ---- sequences ------------------------------------------------------------------------------

    def sequences(self, relevant: DataFrame) -> tuple[DataFrame, Counters | Walked | None]:
        """The sequences, kept for the steps that follow, and what the kernel has counted."""
        counters: Callable[..., Counters | Walked]
        if self.combination is not None:
            counters = partial(Walked.of, self.combination)
        elif self.pattern is not None:
            counters = partial(Counters.of, self.pattern)
        else:
            return _cached(self.job.sequences(relevant), self.spark), None
        total = self.spark.sparkContext.accumulator([0] * sum(map(len, counters())), _Sum())
        matches = _cached(self.job.sequences(relevant, Options(counted=total.add)), self.spark)
        matches.count()
        return matches, counters(np.array(total.value))

    def scan(self, name: str, unit: str, before: int, counters: Counters) -> Iterator[Stage]:
        """The events of a variable that were pushed on its stack. Without stacks, only the last variable's matter."""
        assert self.pattern is not None
        at = self.pattern.positive.index(name)
        if not self.pattern.stacks and at < len(self.pattern.positive) - 1:
            return
        left = int(counters.pushed[at])
        earlier = self.pattern.positive[:at]
        what, why = "on the stack", ""
        if earlier:
            what += f": after {earlier[-1] if self.pattern.stacks else 'any event'}"
            why = f"no {self.another(name, earlier)} follows"
            tests = (*self.plan.scan.partition, *self.plan.scan.cross)
            why += self.together(self.pattern.window_in_scan, tests)
        yield Stage("scan", name, what, unit, left, before - left, why)

    def construction(self, counters: Counters | None) -> Iterator[Stage]:
        """Backwards, as sequences are built: the candidates for a variable that walks looked at, and what was decided
        as soon as it was bound."""
        kernel = self.physical.kernel
        if counters is None or self.pattern is None or not isinstance(kernel, Kernel):
            return
        tables, names = encode_pattern(self.pattern).query, kernel.positive
        left = int(counters.pushed[-1])
        for depth in reversed(range(len(names))):
            decided = [k for k in range(len(tables.negated)) if tables.negated[k, DEPTH] == depth]
            bounding = [k for k in decided if tables.negated[k, BOUNDS]]
            of, unit = " → ".join(names[depth:]), "event"
            if depth < len(names) - 1:
                unit, left = "candidate", int(counters.visited[depth] + sum(counters.killed[k] for k in bounding))
                why = f"no {self.another(names[depth], names[depth + 1 :])} comes before"
                windowed = kernel.window_in_scan or kernel.window_in_construction
                why += self.together(windowed, self.plan.scan.partition)
                yield Stage("construction", of, "candidates", unit, left, why=why)
            forbidding = [
                (self.no(state.variable, state.interval), counters.killed[k]) for k, state in enumerate(kernel.negated)
            ]
            clauses = tables.numbers[tables.checks[depth] : tables.checks[depth + 1]]
            steps = [forbidding[k] for k in bounding]
            steps += [(kernel.conditions[c], counters.rejected[c]) for c in clauses]
            steps += [forbidding[k] for k in decided if k not in bounding]
            for what, removed in steps:
                left -= int(removed)
                yield Stage("construction", of, what, unit, left, int(removed))

    def walks(self, counters: Walked, found: int) -> Iterator[Stage]:
        """In any order: the candidates that all walks looked at, of all variables, and what became of each."""
        kernel, of = self.physical.kernel, self.whole
        assert isinstance(kernel, physical.Combination)
        left = int(counters.visited.sum())
        alone = "no others come with them" + self.together(True, self.plan.scan.partition)
        yield Stage("walks", of, "candidates", "candidate", left, why=alone)
        several = len(kernel.branches) > 1
        steps = [("an event that the match has not yet", counters.same[0])]
        rejected, killed = iter(counters.rejected), iter(counters.killed)
        for branch in kernel.branches:
            where = f", in {order_text(branch.variables, branch.before)}" if several else ""
            steps += [(condition + where, next(rejected)) for condition in branch.conditions]
        for each, branch in zip(self.plan.branches, kernel.branches, strict=True):
            where = f", in {order_text(branch.variables, branch.before)}" if several else ""
            forbidding = [group for group in each.groups if not group.collects]
            steps += [(f"no {group_text(group.group)}{where}", next(killed)) for group in forbidding]
        steps.append(("found by no branch before", counters.repeated[0]))
        steps.append(("the last to be bound", counters.extended[0]))
        for what, removed in steps:
            left -= int(removed)
            if removed or what not in _SELDOM:
                yield Stage("walks", of, what, "candidate", left, int(removed), alone if what == steps[-1][0] else "")
        if (kernel.select or kernel.exclusive) and not kernel.deferred:
            chosen = [f"the {mode} {name}" for name, mode in kernel.select]
            chosen += ["unused events"] if kernel.exclusive else []
            yield Stage("choice", of, ", ".join(chosen), "match", found, left - found)
        else:
            yield Stage("sequences", of, "built", "match", found, left - found)

    def another(self, name: str, bound: Sequence[str]) -> str:
        """`third login_failed (c)`, where two of the variables that are bound are of the same types."""
        kinds = self.kinds(name)
        count = sum(self.kinds(other) == kinds for other in bound)
        return f"{_ORDINALS[count] if count < len(_ORDINALS) else 'further '}{' or '.join(kinds)} ({name})"

    def together(self, window: bool, tests: Sequence[EquivalenceTest]) -> str:
        """What makes events partners: the window, and what they agree on."""
        names = [str(test).strip("[]") for test in tests]
        same = " and ".join(name if " = " in name else f"the same {name}" for name in names)
        within = f" {self.plan.window_text}" if window and self.bound.within else ""
        return within + (f", with {same}" if same else "")

    def no(self, name: str, interval: Interval) -> str:
        """`no n between x and z`; first or last, the window says where it begins or ends."""
        match interval:
            case Interval(after=str(after), before=str(before)):
                return f"no {name} between {after} and {before}"
            case Interval(after=None):
                return f"no {name} before {interval.before} {self.plan.window_text}"
            case _:
                return f"no {name} after {interval.after} {self.plan.window_text}"

    # ---- matches --------------------------------------------------------------------------------

    def after(self, of: str, matches: DataFrame, checked: DataFrame, left: int) -> Iterator[Stage]:
        unit = "sequence" if self.combination is None else "match"
        for step, what, apply in self.steps():
            matches = apply(matches, checked)
            if step == "values":
                continue  # they remove none
            count = matches.count()
            yield Stage(step, of, what, unit, count, left - count)
            left = count
        yield Stage("result", of, "matches", "match", left, 0)

    def steps(self) -> Iterator[tuple[str, str, Callable[[DataFrame, DataFrame], DataFrame]]]:
        """After the sequences are built: a step's kind, what it demands, and the function of (matches, events)."""
        for step in self.physical.steps:
            match step:
                case Within():
                    yield "window", self.plan.window_text, lambda matches, _: self.job.within(matches)
                case Select():
                    for condition in step.conditions:
                        yield "selection", condition, _where(condition)
                case AntiJoin():
                    what = ", ".join(self.no(each.variable, each.interval) for each in step.components)
                    yield "anti-join", what, getattr(self.job, step.function)
                case Exclude():
                    what = f"no {', '.join(step.variables)}{step.told}"
                    yield "negation", what, _of_matches(getattr(self.job, step.function))
                case Choose():
                    yield "choice", "chosen among candidates", _of_matches(self.job.chosen)
                case Keep():
                    yield "values", step.variable, _of_matches(getattr(self.job, step.function))
                case Decide():
                    what = " and ".join(step.conditions) or ", ".join(each.name for each in step.reported)
                    yield "selection" if step.conditions else "values", what, _of_matches(self.job.decide)
                case Arrays():
                    yield "values", ", ".join(step.elements), _of_matches(self.job.arrays)


class _OfRuns(_Run):
    """A run goes from event to event, and to one match at most: so runs are counted, and how far they get."""

    def stages(self) -> Iterator[Stage]:
        checked = check(self.events, self.source)
        yield from self.read()
        yield from self.filters(checked, {}, None)
        (shuffle,), (sort,) = self.physical.every(Shuffle), self.physical.every(Sort)
        relevant = self.job.relevant_events(checked)
        spread = self.spread(relevant, shuffle)
        events = _cached(spread.sortWithinPartitions(*(F.col(quoted(name)) for name in sort.by)), self.spark)
        try:
            yield from self.runs(events)
        finally:
            events.unpersist()

    def is_needed(self, name: str) -> bool:
        loop = self.bound.loops.get(name)
        return loop is None or loop.least > 0

    @property
    def whole(self) -> str:
        return " → ".join(f"{name}{self.bound.loops.get(name, '')}" for name in self.names)

    @property
    def names(self) -> tuple[str, ...]:
        (branch,) = self.bound.branches
        return branch.variables

    def runs(self, events: DataFrame) -> Iterator[Stage]:
        """How many runs take an event of each component that must be there, whatever their length; then the others."""
        of, pattern = self.whole, replace(self.job.PATTERN, skip=Skip("next row"), within=None, stuck=False)
        if self.bound.timed_out:
            yield from self.stuck(events, pattern)
            return
        left: int | None = None
        for number, name in enumerate(self.names):
            if not self.is_needed(name):
                continue
            count = self.count(events, self.until(number, pattern))
            why = f"no event begins a run, as none for {name} is there" if left is None else ""
            what = f"{'begun with' if left is None else 'on to'} {name}"
            yield Stage("runs", of, what, "run", count, None if left is None else left - count, why)
            left = count
        steps: list[tuple[str, str, RowPattern]] = []
        if self.names[-1] in self.bound.loops:
            steps.append(("runs", "complete", pattern))
        if self.bound.within is not None:
            steps.append(("window", self.plan.window_text, replace(self.job.PATTERN, skip=Skip("next row"))))
        if self.bound.after == "past last row":
            steps.append(("after", "begun behind the last row of a match", self.job.PATTERN))
        assert left is not None
        for step, what, variant in steps:
            count = self.count(events, variant)
            yield Stage(step, of, what, "run", count, left - count)
            left = count
        if (choice := self.physical.only(Choose)) is not None:
            chosen = [*(f"the {mode} {name}" for name, mode in choice.select), *["unused events"] * choice.exclusive]
            count = self.job.runs(self.job.relevant_events(check(self.events, self.source))).count()
            yield Stage("choice", of, ", ".join(chosen), "run", count, left - count)
            left = count
        yield Stage("result", of, "matches", "match", left, 0)

    def stuck(self, events: DataFrame, pattern: RowPattern) -> Iterator[Stage]:
        """Of the runs that begin, those that are open when their window ends."""
        of, begun = self.whole, self.count(events, self.until(0, pattern))
        why = f"no event begins a run, as none for {self.names[0]} is there"
        yield Stage("runs", of, f"begun with {self.names[0]}", "run", begun, None, why)
        count = self.count(events, self.job.PATTERN)
        yield Stage("window", of, f"open when the window ends, {self.plan.window_text}", "run", count, begun - count)
        yield Stage("result", of, "matches", "match", count, 0)

    def until(self, number: int, pattern: RowPattern) -> RowPattern:
        """A run that is over with the first event of a component, or of a later one."""
        step = self.physical.only(Runs)
        assert step is not None
        last = {symbol for name in self.names[number:] for symbol in step.symbols[name]}
        ends = tuple(at for at, symbol in enumerate(pattern.symbols) if symbol in last)
        follow = tuple((ACCEPT,) if at in ends else each for at, each in enumerate(pattern.follow))
        return replace(pattern, follow=follow, ends=ends)

    def count(self, events: DataFrame, pattern: RowPattern) -> int:
        numbers = {"_sase_number": MatchNumber()}
        return find_runs(events, pattern, self.job.ORDER, numbers, symbols=SYMBOLS).count()


_SELDOM = ("an event that the match has not yet", "found by no branch before")


def _of_matches(function: Callable[[DataFrame], DataFrame]) -> Callable[[DataFrame, DataFrame], DataFrame]:
    return lambda matches, _: function(matches)


def _where(condition: str) -> Callable[[DataFrame, DataFrame], DataFrame]:
    return lambda matches, _: matches.where(condition)


def _counted(events: DataFrame, metrics: Sequence[Column]) -> list[int]:
    named = [metric.alias(f"_{at}") for at, metric in enumerate(metrics)]
    return [int(count) for count in events.agg(*named).collect()[0]]


def _cached(matches: DataFrame, spark: SparkSession) -> DataFrame:
    """By default, Spark leaves the partitions of a cached plan as they are: 200 tasks, however few the events."""
    setting = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
    before = spark.conf.get(setting) or "false"
    spark.conf.set(setting, "true")
    try:
        return matches.cache()
    finally:
        spark.conf.set(setting, before)


_ORDINALS = ("", "second ", "third ", "fourth ", "fifth ", "sixth ", "seventh ", "eighth ", "ninth ", "tenth ")


# ---- in words -----------------------------------------------------------------------------------


def table(counted: Sequence[Stage]) -> str:
    """The stages as text: what each step left, and what it took away; and what to make of it, in a sentence."""
    lines = []
    width = max(len(stage.what) for stage in counted)
    for of, group in groupby(counted, key=lambda stage: stage.of):
        unit = ""
        for at, stage in enumerate(group):
            shown = _units(stage) if stage.unit != unit or stage.removed is None else f"{stage.left:,}"
            number, _, name = shown.partition(" ")
            removed = f"-{stage.removed:,}" if stage.removed else ""
            head = f"  {'' if at else of:<12} {stage.what:<{width}}"
            lines.append(f"{head}  {number:>12} {name:<10} {removed:>12}".rstrip())
            unit = stage.unit
    return "\n".join([*lines, "", conclusion(counted)]) + "\n"


def conclusion(counted: Sequence[Stage]) -> str:
    """What the last step with something left was, and what took the rest."""
    flow = [stage for stage in counted if stage.step not in ("negated", "optional")]
    end = next((at for at, stage in enumerate(flow) if not stage.left), len(flow) - 1)
    last = flow[end]
    if last.why and not last.left:
        kept = [stage for stage in flow[:end] if stage.step == last.step == "scan"] or flow[:end]
        return f"No match: {f'{_subject(kept[-1])}, but ' if kept else ''}{last.why}."
    begin = max(at for at in range(end + 1) if flow[at].removed is None)
    subject = _subject(flow[begin])
    fates = [_fate(stage) for stage in flow[begin : end + 1] if stage.removed]
    if not fates:
        return f"{_units(last)}: every {flow[begin].unit} {_whose(flow[begin])} is one."
    if last.left:
        return f"{_units(last)}: of {subject}, {_listed([*map(' '.join, fates)])}."
    *others, (count, fate) = fates
    if others:
        rest = "the other" if count == "1" else "the others"
        return f"No match: of {subject}, {_listed([*map(' '.join, others), f'{rest} {fate}'])}."
    only = f"the only {flow[begin].unit} {_whose(flow[begin])}" if count == "1" else f"all of {subject}"
    return f"No match: {only} {fate}."


def _fate(stage: Stage) -> tuple[str, str]:
    """How many a step removed, and why: `2`, `fail x.v < z.v`."""
    assert stage.removed
    one = stage.removed == 1
    match stage.step, stage.what.partition(" "):
        case "events", ("that", _, _):
            fate = "cannot be read"
        case "events", ("with", _, value):
            fate = f"{'lacks' if one else 'lack'} {value}"
        case "events" | "window", _:
            fate = f"{'is' if one else 'are'} not {stage.what}"
        case "scan", _:
            fate = f"{'follows' if one else 'follow'} no {stage.what.rpartition(' ')[2]}"
        case "walks", ("an" | "found" | "the", _, _):
            fate = _WALKED[stage.what] if not one else _WALKED[stage.what].replace("are", "is").replace("lead", "leads")
        case "runs", ("on", _, onward):
            fate = f"{'does' if one else 'do'} not get {onward}"
        case "runs", _:
            fate = f"{'is' if one else 'are'} not {stage.what}"
        case "after", _:
            fate = f"{'begins' if one else 'begin'} inside of another match"
        case "choice", _:
            fate = f"{'is' if one else 'are'} not chosen"
        case "construction" | "walks" | "negation" | "anti-join", ("no", _, forbidden):
            fate = f"{'has' if one else 'have'} {forbidden}"
        case _:
            fate = f"{'fails' if one else 'fail'} {stage.what}"
    return f"{stage.removed:,}", fate


_WALKED = {
    "an event that the match has not yet": "are events that the match has already",
    "found by no branch before": "are found by another branch already",
    "the last to be bound": "lead on to other events",
}


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def _subject(stage: Stage) -> str:
    """`5 events for x`, `2 candidates b → c`."""
    return f"{_units(stage)} {_whose(stage)}"


def _whose(stage: Stage) -> str:
    match stage.step:
        case "filter":
            return f"for {stage.of}"
        case "scan":
            _, _, after = stage.what.partition(": ")
            return f"for {stage.of}{after and ' '}{after}"
        case "events":
            return stage.what
        case _:
            return stage.of


_PLURALS = {"match": "matches", "copy": "copies"}


def units(unit: str, count: int) -> str:
    """`match` of one, `matches` of others."""
    return unit if count == 1 else _PLURALS.get(unit, unit + "s")


def _units(stage: Stage) -> str:
    return f"{stage.left:,} {units(stage.unit, stage.left)}"
