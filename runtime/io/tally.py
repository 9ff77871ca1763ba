"""How many events took part, and how many could not, counted by the query itself on its way."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import reduce
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, ref

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from sase.runtime.errors import SaseRunError, failure
from sase.runtime.events import (
    Events,
    Source,
    flaws,
    is_there,
    names_of,
    own_tables,
    pairs,
    quoted,
    reason,
    record,
    rejected,
    types_there,
)
from sase.runtime.io.meters import Meter, is_large_and_columnar

Tell = Callable[[SaseRunError], None]
Watched = tuple[DataFrame, Events, Source]
"""The events of a query in one table, where they come from, and what the query reads of them."""


LOOK = 10_000
"""How many events are looked at to tell which types there are, if the query names one that none of them has."""


@dataclass(frozen=True)
class Counts:
    """How many events took part, how many could not, by the reason, and the types that none of them had."""

    relevant: int
    flawed: Mapping[str, int]
    unseen: tuple[str, ...] = ()

    @property
    def rejected(self) -> str:
        """What could not take part; empty if there is nothing."""
        parts: list[str] = []
        for words, count in self.flawed.items():
            noun = "" if parts else " event" if count == 1 else " events"
            parts.append(f"{count:,}{noun} {words}")
        return ", ".join(parts)


class Tally:
    """Counts the events of one `check` while the first action reads them, without a pass of its own.

    A strict one lets that action fail at the first event that cannot take part.
    """

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self._name = f"sase {uuid4()}"
        self._observation = Observation(self._name)
        self._watched: Watched | None = None
        self._metered: Metered | None = None
        self.read: int | None = None
        """How many events of any type there were, if it was not Spark that has read them."""

    def watch(self, united: DataFrame, events: Events, source: Source) -> DataFrame:
        """The events, counted as they pass. One with several flaws counts for the first of them."""
        self._watched = united, events, source
        if not self.strict and not is_remote() and all(is_large_and_columnar(frame) for _, frame in pairs(events)):
            meter = Meter(flaws(united, source))
            self._metered = Metered(meter)
            _listener(united).expect(self._name, Expected(self.watched, self._metered))
            return meter.watched(united)
        observed = united.observe(self._observation, *_metrics(united, source))
        return observed.where(_flawless(united, source)) if self.strict else observed

    def counted_elsewhere(self, read: int, counted: Callable[[], tuple[int, frozenset[str]] | None]) -> str:
        """Where events are read, and counted, by others, a condition for the rows that stand for them in a plan: it
        always holds. They have no flaws; `counted` says how many of those that are `read` are of the query's types, and
        which types there are."""
        united, _, source = self.watched

        def seen() -> dict[str, int] | None:
            if (found := counted()) is None:
                return None
            count, types = found
            return {"all": count, **_bits_of(types, source)}

        if self._metered is None:
            self._metered = Metered(Meter(flaws(united, source)))
            _listener(united).expect(self._name, Expected(self.watched, self._metered))
        self.read = read
        return self._metered.meter.elsewhere(seen)

    @property
    def watched(self) -> Watched:
        assert self._watched is not None, "no check() has been given this tally"
        return self._watched

    def counts(self) -> Counts:
        """The counts, once the first action is over. Waits for it."""
        united, events, source = self.watched
        if self._metered is not None and (seen := self._metered.wait()) is not None:
            return _counts(seen, source, None if _tells_types(seen) else _absent(events, source))
        try:
            return _counts(self._observation.get, source)
        except Exception:
            # Spark saw that there are no matches and dropped the rest of the plan: the events are counted on their own.
            return _counts(united.agg(*_metrics(united, source)).collect()[0].asDict(), source)

    def rejected(self) -> DataFrame:
        """The events that could not take part, with the reason. They are read once more."""
        united, _, source = self.watched
        return rejected(united, source)

    def unseen_types(self, counts: Counts) -> list[str]:
        """What there is to say of the types that no event has."""
        _, events, source = self.watched
        return _unseen_types(counts, events, source)

    def warn(self, tell: Tell | None = None) -> None:
        """Logs what was left out, and types that no event has, as soon as the first action is over. `tell` is told why
        an action has failed before. (Not in Spark Connect, which has nobody to ask.)"""
        if not is_remote():
            _listener(self.watched[0]).expect(self._name, Expected(self.watched, self._metered, _warn, tell))
            return
        # Spark Connect fills a mapping, as long as there is a DataFrame with the observation.
        waiting = [self._observation.get, ref(self._observation), self.watched]
        threading.Thread(target=_wait, args=waiting, name="sase-tally", daemon=True).start()


def _metrics(united: DataFrame, source: Source) -> list[Column]:
    """All events, the types that they have, and how many have each flaw and none of those before it."""
    found, sound = [F.expr("count(1) AS all"), *_seen(source)], list[str]()
    for words, flaw in flaws(united, source).items():
        found.append(F.expr(f"count_if({' AND '.join([*sound, flaw])}) AS {quoted(words)}"))
        sound.append(f"NOT ({flaw})")
    return found


def _flawless(united: DataFrame, source: Source) -> Column:
    """True, or the end of the run."""
    event = F.coalesce(record(united), F.to_json(F.struct(*names_of(source))))
    file = F.coalesce(F.nullif(F.input_file_name(), F.lit("")), F.lit("the input"))
    case = F.when(reason(united, source).isNull(), True)
    for words, flaw in flaws(united, source).items():
        text = F.concat(file, F.lit(f" has an event {words}, and --strict takes none: "), event)
        case = case.when(F.expr(flaw), F.raise_error(text).cast("boolean"))
    return case


class Metered:
    """A meter, and what it said at the end of the first action that read the events: None if it could not tell."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._seen: dict[str, int] | None = None
        self._done = threading.Event()

    def done(self, seen: dict[str, int] | None) -> None:
        self._seen = seen
        self._done.set()

    def wait(self) -> dict[str, int] | None:
        """Spark tells its listeners soon after an action is over."""
        self._done.wait(_PATIENCE)
        return self._seen


_PATIENCE = 30.0
"""Seconds after which the events are counted on their own."""


@dataclass(frozen=True)
class Expected:
    """A tally that waits for an action. `then` is told what was seen, the tally's events, and if all were read."""

    watched: Watched
    metered: Metered | None = None
    then: Callable[[Mapping[str, int], Watched, bool, bool], None] | None = None
    tell: Tell | None = None


class _Actions:
    """Is told by Spark of every action of a session, as long as a tally waits for one: no thread waits."""

    def __init__(self, spark: SparkSession) -> None:
        self._session: Any = spark._jsparkSession
        # By whole names: of a shorter one, Java searches all jars to see that it is no class.
        jvm = spark.sparkContext._jvm
        self._utils: Any = getattr(jvm, "org.apache.spark.sql.api.python.PythonSQLUtils")
        self._trace: Callable[[Any], str] = getattr(jvm, "org.apache.spark.util.Utils").exceptionString
        self._expected: dict[str, Expected] = {}
        self._lock = threading.Lock()

    def expect(self, name: str, expected: Expected) -> None:
        with self._lock:
            if not self._expected:
                ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]
                self._session.listenerManager().register(self)
            self._expected[name] = expected

    def onSuccess(self, action: str, execution: Any, nanoseconds: int) -> None:
        metrics, plan = execution.observedMetrics(), execution.executedPlan()
        observed, text = set(metrics.keys().mkString("\n").split("\n")), plan.toString()
        with self._lock:
            meters = {name: each.metered.meter for name, each in self._expected.items() if each.metered}
            names = [name for name in self._expected if name in observed and name not in meters]
            names += [name for name, meter in meters.items() if meter.is_in(text)]
            if lost := meters.keys() - set(names):  # the optimiser may have dropped the filters, or all of the plan
                analyzed = execution.analyzed().toString()
                names += [name for name in lost if meters[name].is_in(analyzed)]
            over = [(name, self._expected.pop(name)) for name in names]
            if not self._expected:
                self._session.listenerManager().unregister(self)
        # Without a shuffle, a limit ends the reading early, and nobody knows what would have come.
        every = "Limit" not in text or "Exchange" in text
        for name, expected in over:
            seen: dict[str, int] | None
            if expected.metered is not None:
                seen = expected.metered.meter.seen(plan)
                expected.metered.done(seen)
            else:
                row: Row = CPickleSerializer().loads(self._utils.toPyRow(metrics.apply(name)))  # type: ignore[no-untyped-call]
                seen = row.asDict()
            if expected.then is not None and seen is not None:
                # Spark waits for its listeners, and a look at the events is a job of its own.
                told = [seen, expected.watched, every, expected.metered is not None]
                threading.Thread(target=expected.then, args=told, name="sase-tally", daemon=True).start()

    def onFailure(self, action: str, execution: Any, exception: Any) -> None:
        if "AnalysisException" in exception.getClass().getName():
            return  # nothing has been read of what could not even be analysed
        # Not the analysed plan: asking for what has failed raises inside of a callback, where py4j may wait for ever.
        plan = execution.logical().toString()
        with self._lock:
            tells = [
                expected.tell
                for name, expected in self._expected.items()
                if expected.tell and (name in plan or (expected.metered and expected.metered.meter.is_in(plan)))
            ]
        for tell in tells:
            tell(failure(f": {self._trace(exception)}"))  # as py4j begins a trace

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


_actions: WeakKeyDictionary[SparkSession, _Actions] = WeakKeyDictionary()


def _listener(frame: DataFrame) -> _Actions:
    spark = frame.sparkSession
    if spark not in _actions:
        _actions[spark] = _Actions(spark)
    return _actions[spark]


def _wait(numbers: Mapping[str, int], observation: ref[Observation], watched: Watched) -> None:
    while not numbers and observation() is not None:
        time.sleep(0.2)
    with suppress(Exception):  # the session has ended, or there are no numbers
        _warn(numbers, watched)


def _warn(seen: Mapping[str, int], watched: Watched, every: bool = True, metered: bool = False) -> None:
    _, events, source = watched
    look = metered and not _tells_types(seen)
    counts = _counts(seen, source, () if look else None)
    if counts.rejected:
        logging.getLogger("sase").warning("rejected: %s", counts.rejected)
    if every:
        with suppress(Exception):  # the session has ended
            if look:
                counts = replace(counts, unseen=tuple(_absent(events, source)))
            for text in _unseen_types(counts, events, source):
                logging.getLogger("sase").warning(text)


def _counts(seen: Mapping[str, int], source: Source, unseen: Sequence[str] | None = None) -> Counts:
    """Types that no event has are given, or to be told by bits that were observed."""
    others = {words: count for words, count in seen.items() if words != "all" and not words.startswith(_SEEN)}
    flawed = {words: count for words, count in others.items() if count}
    if unseen is None:
        bits = "".join(f"{seen[f'{_SEEN}{at}'] or 0:0{_BITS}b}"[::-1] for at in range(-(-len(source.types) // _BITS)))
        unseen = [name for name, bit in zip(source.types, bits, strict=False) if bit == "0"]
    return Counts(seen["all"] - sum(flawed.values()), flawed, tuple(unseen))


# ---- types that no event has --------------------------------------------------------------------

_SEEN, _BITS = "seen ", 62


def _seen(source: Source) -> list[Column]:
    """A bit for each type that an event has. One number for many types: as many counts would cost more."""
    types = list(source.types)
    return [
        F.bit_or(_bit(quoted(source.type), types[start : start + _BITS])).alias(f"{_SEEN}{at}")
        for at, start in enumerate(range(0, len(types), _BITS))
    ]


def _bits_of(types: Collection[str], source: Source) -> dict[str, int]:
    """What `_seen` would have seen."""
    known = list(source.types)
    return {
        f"{_SEEN}{at}": sum(1 << bit for bit, name in enumerate(known[start : start + _BITS]) if name in types)
        for at, start in enumerate(range(0, len(known), _BITS))
    }


def _tells_types(seen: Mapping[str, int]) -> bool:
    return f"{_SEEN}0" in seen


def _bit(column: str, types: Sequence[str]) -> Column:
    pairs = [(F.col(column) == F.lit(name), F.lit(1 << bit)) for bit, name in enumerate(types)]
    return reduce(lambda case, pair: case.when(*pair), pairs[1:], F.when(*pairs[0])).cast("bigint")


def _absent(events: Events, source: Source) -> list[str]:
    """The types that no event has, by a look at the first events, and at all of those types that these do not have."""
    there, every = types_there(events, source, LOOK)
    own = {name: frame for name, frame in pairs(events) if name is not None}
    rest = [name for name in source.types if name not in there and name not in own]
    absent = {name for name in rest if every or not is_there(events, source, name)}
    return [name for name in source.types if name in absent or (name in own and not own[name].head(1))]


def _unseen_types(counts: Counts, events: Events, source: Source) -> list[str]:
    """A type that no event has is misspelled, more often than not. Only then are some events looked at once more."""
    own = own_tables(events)
    found = [f"the table of the {name} events is empty" for name in counts.unseen if name in own]
    if shared := [name for name in counts.unseen if name not in own]:
        there, every = types_there(events, source, LOOK)
        # `source.where` may have kept all events of a type from being read.
        certain = every or not source.where
        unknown = [name for name in shared if name not in there and (certain or not is_there(events, source, name))]
        found += [unknown_type(name, there, every) for name in unknown]
    return found


def unknown_type(name: str, there: Sequence[str], every: bool) -> str:
    """The types that there are, those that look like the one that is not among them first."""
    lowered = {each.lower(): each for each in reversed(there)}
    near = [lowered[each] for each in get_close_matches(name.lower(), lowered)]
    listed = list(dict.fromkeys([*near, *there]))
    names = ", ".join(listed[:_LISTED]) + (", …" if len(listed) > _LISTED else "")
    among = "" if every else f" among the first {LOOK:,} events"
    return f"no event has the type {name}: there are {names or 'no events'}{among}"


_LISTED = 8
