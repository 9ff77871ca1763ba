"""Sequence scan and construction on a stream: relevant events in, matches and rejected events out."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, StructField, StructType
from pyspark.sql.utils import is_remote

from sase.runtime.arrivals import number_type
from sase.runtime.errors import SaseRunError
from sase.runtime.executors import from_package
from sase.runtime.io.batches import bound_batches
from sase.runtime.kernels.murmur import bucket_labels
from sase.runtime.operator.arrivals import Arriving
from sase.runtime.operator.results import Deciding
from sase.runtime.pattern import Combination, Outside, Pattern, Totals
from sase.runtime.session import BATCHES
from sase.runtime.ssc import Groups, as_tuples, check_pattern, match_schema, more_fields, shape
from sase.runtime.stream.bucket import StreamTask
from sase.runtime.stream.cells import PACKED, packer, unpacked
from sase.runtime.stream.horizon import horizon
from sase.runtime.stream.reading import read_by_workers
from sase.runtime.stream.rejected import counted, rejected_schema
from sase.runtime.stream.row_bucket import GateTask, RowStreamTask
from sase.runtime.stream.spread import in_buckets
from sase.runtime.stream.watch import Columns, Options, watched_of
from sase.runtime.stream.worker import BucketTask

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor


@dataclass(frozen=True)
class Stream:
    """What a query makes of a stream of events.

    `packed` is a streaming DataFrame of PACKED rows: matches and rejected events of one pass. `matches` and `rejected`
    take it, or one of its micro-batches, apart.
    """

    packed: DataFrame
    found: StructType
    shown: StructType
    finish: Callable[[DataFrame], DataFrame]
    task: StreamTask | RowStreamTask | None = None
    """What a bucket is told; None where nothing is remembered."""
    buckets: int = 0
    time_kind: str = "timestamp"
    time_type: DataType | None = None
    """Of the times by which it goes, where others may go by the same."""
    only_late: Callable[[], Stream] | None = None
    """Makes a stream that tells of rows that came too late, and finds nothing."""

    @property
    def states(self) -> int:
        """How many buckets there are."""
        return self.buckets

    def matches(self, packed: DataFrame | None = None) -> DataFrame:
        return self.finish(unpacked(self.packed if packed is None else packed, "match", self.found))

    def rejected(self, packed: DataFrame | None = None) -> DataFrame:
        """Events that could not take part: the reason, the record if it could not be read, and the event."""
        return unpacked(self.packed if packed is None else packed, "rejected", self.shown)


def scan_and_construct(
    events: DataFrame,
    pattern: Pattern | Combination,
    *,
    relevant: Callable[[DataFrame], DataFrame],
    by: Sequence[str],
    order: str | None,
    emit: Mapping[str, Sequence[str]],
    started: str | None = None,
    detected: str | None = None,
    groups: Groups | None = None,
    candidates: str | None = None,
    shown: Sequence[str],
    columns: Columns,
    time_kind: Literal["timestamp", "integer"],
    state: str,
    options: Options,
    finish: Callable[[DataFrame], DataFrame],
    outside: Sequence[Outside] = (),
    cross: Sequence[str] = (),
    arriving: Arriving | None = None,
    deciding: Deciding | None = None,
    once: bool = False,
    behind: int = 0,
    scan: Literal["spark"] | None = None,
    bootstrap: Callable[[], None] | None = None,
) -> Stream:
    """The matches of `pattern` in a stream, which `watch` has returned: `ssc.scan_and_construct` on the moving window
    of its `relevant` events. Of `Totals`, what they come to so far: after each micro-batch a row for each key that it
    changes, or, with `once`, that has its first match.

    `state` names what the state of a checkpoint is made of. A state with another name, or another number of buckets, is
    refused. `behind` is how long after their time results of other queries may come. Workers read Parquet files
    themselves where they can, unless `scan` says that Spark does.
    """
    check_pattern(pattern, emit, groups or {}, candidates)
    horizon(pattern, tuple(outside))
    task = StreamTask(
        pattern=pattern,
        by=tuple(by),
        time=columns.time,
        order=order,
        states=columns.states,
        emit=tuple((variable, tuple(names)) for variable, names in emit.items()),
        batch_rows=65_536,
        chunk_rows=0,
        jit=os.environ.get("SASE_JIT") != "0",
        cross=tuple(cross),
        started=started,
        detected=detected,
        groups=as_tuples(groups),
        candidates=candidates,
        outside=tuple(outside),
        limit=options.max_window_events_per_key,
        shown=tuple(shown),
        arriving=arriving,
        deciding=deciding,
        once=once,
        behind=behind,
    )
    buckets = options.buckets if task.spreads else 1
    prepare(events.sparkSession, buckets)
    watched = watched_of(events)
    events = relevant(events).drop(columns.clock)
    schema = events.schema
    read = None
    if watched is not None and scan != "spark":
        read = read_by_workers(watched, relevant, task, columns, buckets, bootstrap)
    if read is None:
        told = () if watched is None else bucket_labels(buckets)
        read = packed_events(events, task.by, columns, buckets, task.shown, bootstrap, task.everywhere, told)
    delay = None if watched is None else watched.delay
    packed = kept_in_state(read, task, f"{state} in {buckets} buckets", time_kind, bootstrap, delay)

    def struct(columns: Sequence[str]) -> StructType:
        return StructType([StructField(name, schema[name].dataType) for name in columns])

    found = match_schema(schema, {}, pattern) if isinstance(pattern, Totals) else StructType([])
    for variable, names in emit.items():
        event = struct(names)
        found = found.add(StructField(variable, ArrayType(event) if shape(variable, pattern) == "array" else event))
    for field in more_fields(schema, started, detected, groups, candidates):
        found = found.add(field)
    for each in deciding.counted if deciding is not None else ():
        found = found.add(StructField(each.name, number_type(each.result)))
    for component in outside:
        if component.columns:
            found = found.add(StructField(component.variable, ArrayType(struct(component.columns))))
    return Stream(counted(packed), found, rejected_schema(schema, shown), finish, task, buckets, time_kind)


def in_state(
    events: DataFrame,
    task: StreamTask | RowStreamTask | GateTask,
    columns: Columns,
    buckets: int,
    state: str,
    time_kind: str,
    bootstrap: Callable[[], None] | None,
    shown: tuple[str, ...],
) -> DataFrame:
    """PACKED rows of what the buckets find, and of what could not take part."""
    packed = packed_events(events, task.by, columns, buckets, shown, bootstrap)
    return kept_in_state(packed, task, f"{state} in {buckets} buckets", time_kind, bootstrap)


def packed_events(
    events: DataFrame,
    by: Sequence[str],
    columns: Columns,
    buckets: int,
    shown: tuple[str, ...],
    bootstrap: Callable[[], None] | None,
    everywhere: int = 0,
    told: Sequence[int] = (),
) -> DataFrame:
    """PACKED rows of events, by their keys. The buckets of `told` get the latest time of all, too."""
    # An event's type is short, and records are there only of events that could not be read.
    bound_batches(events, set(events.columns) - {*shown[:1], columns.reason, columns.record})
    return in_buckets(events, by, columns, buckets, everywhere).mapInArrow(
        packer(events.columns, shown, columns, None, told, bootstrap), PACKED
    )


def kept_in_state(
    packed: DataFrame,
    task: BucketTask,
    name: str,
    time_kind: str,
    bootstrap: Callable[[], None] | None,
    delay: int | None = None,
) -> DataFrame:
    """PACKED rows in and out: what the buckets make of them, with a state that has a name. With a `delay`, a bucket
    goes by the watermark as it is behind the micro-batch that it works on: all that this brings, the bucket has."""
    return packed.groupBy("bucket").transformWithStateInPandas(
        _processor(task, name, time_kind, bootstrap, delay),
        outputStructType=PACKED,
        outputMode="append",
        timeMode="eventTime",
    )


def prepare(spark: SparkSession, buckets: int) -> None:
    """transformWithState keeps its state in RocksDB and speaks protobuf with Python.

    A micro-batch is committed with a log of what it has written, and not with all files of the store. Where checkpoints
    are local files, they are renamed as such: else Hadoop starts a process, `readlink`, up to eight times for each of
    them, nearly fifty times for a micro-batch of two partitions.
    """
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise SaseRunError("a stream with state needs the package protobuf: pip install protobuf")
    if "RocksDB" not in (spark.conf.get(_PROVIDER, "") or ""):
        spark.conf.set(_PROVIDER, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    renames = {_RENAMES: _BY_FILE_SYSTEM} if _keeps_files_here(spark) else {}
    for name, value in {_CHANGELOG: "true", **renames, **BATCHES}.items():
        spark.conf.set(name, spark.conf.get(name, value) or value)  # unless somebody has set it
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 0)
    if partitions > 4 * buckets:
        logging.getLogger("sase").warning(
            "spark.sql.shuffle.partitions is %s, and a new checkpoint would have as many state stores, for %s buckets "
            "of keys: set it to the number of cores before the stream starts",
            *(partitions, buckets),
        )


def _keeps_files_here(spark: SparkSession) -> bool:
    """Whether all of the session is on this machine, and so is a path that does not say where it is."""
    if is_remote() or not (spark.sparkContext.master or "").startswith("local"):
        return False
    here = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS") == "file:///"
    # Older Sparks have it elsewhere, and do without: what Java does not know, PySpark takes for a package.
    return here and type(getattr(spark._jvm, _BY_FILE_SYSTEM)).__name__ == "JavaClass"


def kept_at(spark: SparkSession, checkpoint: str) -> None:
    """A checkpoint that turns out to be elsewhere is renamed as Spark would by itself."""
    if not checkpoint.startswith("file:") and spark.conf.get(_RENAMES, None) == _BY_FILE_SYSTEM:
        spark.conf.unset(_RENAMES)


_RENAMES = "spark.sql.streaming.checkpointFileManagerClass"
_BY_FILE_SYSTEM = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def single_events(
    events: DataFrame,
    *,
    variable: str,
    emit: Sequence[str],
    shown: Sequence[str],
    columns: Columns,
    finish: Callable[[DataFrame], DataFrame],
) -> Stream:
    """A pattern of one event: the event is the match, and nothing has to wait or be remembered."""
    events = events.drop(columns.clock)
    schema = events.schema
    numbered = events.toDF(*map(str, range(len(events.columns))))
    pack = packer(events.columns, tuple(shown), columns, (variable, tuple(emit)))
    found = StructType([StructField(variable, StructType([schema[name] for name in emit]))])
    return Stream(counted(numbered.mapInArrow(pack, PACKED)), found, rejected_schema(schema, shown), finish)


def _processor(
    task: BucketTask, fingerprint: str, time_kind: str, bootstrap: Callable[[], None] | None, delay: int | None
) -> StatefulProcessor:
    """The stateful operator: the state of a bucket is its table of events and the time of its timer."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    pickled, load = pickle.dumps(task), from_package("sase.runtime.stream.worker", "BucketWorker", bootstrap)

    class Processor(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.events = handle.getValueState("events", "rows binary")
            self.timer = handle.getValueState("timer", "at bigint")
            self.worker: Any = None

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            yield from self.step(key[0], rows, timerValues, False)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
            yield from self.step(key[0], (), timerValues, True)

        def step(self, bucket: int, frames: Any, times: Any, expired: bool) -> Any:
            import pickle

            if self.worker is None:
                made = load()
                self.worker = made(pickle.loads(pickled), fingerprint, time_kind, delay)
            watermark = times.getCurrentWatermarkInMs()
            yield from self.worker.step(self.handle, self.events, self.timer, bucket, frames, watermark, expired)

        def close(self) -> None:
            pass

    return Processor()
