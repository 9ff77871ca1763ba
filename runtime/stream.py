"""A query on a stream: Spark brings the events of a bucket of keys together, `live.Bucket` finds what is due.

    events ─► watch ─► relevant events ─► pack ─► transformWithState, a bucket of keys at a time ─► unpack ─► matches

Rows travel between these as Arrow in binary cells: types stay exact, and nothing is paid a row. The state of a bucket
is such a cell, too. (One state a key cost 15 times as much at 10,000 keys.) The
number of buckets is therefore fixed for the life of a checkpoint.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from sase import __version__
from sase.runtime import ssc
from sase.runtime.arguments import BUCKETS
from sase.runtime.encode import encode_pattern
from sase.runtime.errors import SaseRunError
from sase.runtime.events import Events, Source, names_of, quoted, ticks, unite
from sase.runtime.live import COPY, LiveTask
from sase.runtime.live_worker import CELL_BYTES, EPOCH
from sase.runtime.pattern import Outside, Pattern
from sase.runtime.session import ANY_SIZE, BATCH_BYTES

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

CORRUPT = "_corrupt_record"
"""Where Spark's readers put a record that they cannot read, if there is such a column."""

PACKED = "bucket int, kind string, size long, rows binary"
"""What comes out of a bucket: `size` rows of matches or of rejected events; or, of kind `state`, how many events it
remembers now."""


@dataclass(frozen=True)
class Options:
    """What a stream needs to know beside the query.

    `max_delay` is how far behind the latest event another one may arrive and still take part: a duration such as
    "10 minutes", or a number in the units of an integer time. `buckets` is fixed for the life of a checkpoint.
    """

    max_delay: str | int = 0
    max_state_events_per_key: int | None = None
    buckets: int = BUCKETS

    def __post_init__(self) -> None:
        if self.buckets < 1:
            raise SaseRunError("the number of buckets is at least 1")
        if self.max_state_events_per_key is not None and self.max_state_events_per_key < 1:
            raise SaseRunError("a key has at least 1 event in the state")

    def delay(self, time_kind: str) -> str:
        """The delay as Spark's interval."""
        text = str(self.max_delay).strip()
        if re.fullmatch(r"\d+", text) and (time_kind == "integer" or int(text) == 0):
            return f"{int(text)} milliseconds"
        if time_kind == "timestamp" and _DURATION.fullmatch(text):
            return text
        example = "'10 minutes'" if time_kind == "timestamp" else "500, in the units of the time column"
        raise SaseRunError(f"the longest delay of an event is written as {example}, not {text!r}")


_UNIT = r"\d+\s+(?:millisecond|second|minute|hour|day|week)s?"
_DURATION = re.compile(rf"{_UNIT}(?:\s+{_UNIT})*", re.IGNORECASE)


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
    task: LiveTask | None = None
    """What a bucket is told; None where nothing is remembered."""
    buckets: int = 0

    def matches(self, packed: DataFrame | None = None) -> DataFrame:
        return self.finish(unpacked(self.packed if packed is None else packed, "match", self.found))

    def rejected(self, packed: DataFrame | None = None) -> DataFrame:
        """Events that could not take part: the reason, the record if it could not be read, and the event."""
        return unpacked(self.packed if packed is None else packed, "rejected", self.shown)


@dataclass(frozen=True)
class Columns:
    """The names of our columns in a job."""

    time: str
    states: str
    reason: str
    record: str
    clock: str
    bucket: str


# ---- events with a clock ------------------------------------------------------------------------


def watch(events: Events, source: Source, columns: Columns, options: Options | None) -> DataFrame:
    """The events under a watermark, with the reason why one cannot take part, where it cannot.

    Events of all types are let through, since each tells what time it is. Without options there is no watermark.
    """
    united = unite(events, source, every=True, keep=[CORRUPT] if CORRUPT not in source.columns else [])
    corrupt = F.col(CORRUPT) if CORRUPT in united.columns else F.lit(None).cast("string")
    event_type, time = F.col(quoted(source.type)), ticks(united, quoted(source.time))
    reasons = [F.when(corrupt.isNotNull(), "cannot be read")]
    reasons += [F.when(F.col(quoted(name)).isNull(), f"without a {what}") for name, what in source.required.items()]
    if source.time_kind == "integer":
        reasons.append(F.when(~time.between(-EPOCH, EPOCH), f"time beyond ±{EPOCH}"))
    ours = event_type.isNull() | event_type.isin(*source.types)
    tagged = united.select(
        *names_of(source),
        F.when(ours, F.coalesce(*reasons)).alias(columns.reason),
        corrupt.alias(columns.record),
    )
    moment = F.timestamp_micros(time) if source.time_kind == "timestamp" else F.timestamp_millis(time + EPOCH)
    valid = F.col(quoted(source.time)).isNotNull() & F.col(columns.reason).isNull()
    clocked = tagged.withColumn(columns.clock, F.coalesce(F.when(valid, moment), F.timestamp_millis(F.lit(0))))
    return clocked if options is None else clocked.withWatermark(columns.clock, options.delay(source.time_kind))


def matters(columns: Columns, fills: str) -> str:
    """The condition of events that travel on: they may fill a state, or must be reported.

    Spark would count an event for the watermark only after all filters that do not look at the clock: so this one does.
    """
    return f"{fills} OR {columns.reason} IS NOT NULL OR {columns.clock} < TIMESTAMP '0001-01-01 00:00:00Z'"


# ---- from relevant events to matches ------------------------------------------------------------


def scan_and_construct_live(
    events: DataFrame,
    pattern: Pattern,
    *,
    by: Sequence[str],
    order: str | None,
    emit: Mapping[str, Sequence[str]],
    shown: Sequence[str],
    columns: Columns,
    time_kind: Literal["timestamp", "integer"],
    state: str,
    options: Options,
    finish: Callable[[DataFrame], DataFrame],
    outside: Sequence[Outside] = (),
    cross: Sequence[str] = (),
) -> Stream:
    """The matches of `pattern` in a stream: `ssc.scan_and_construct` on the moving window.

    `state` names what the state of a checkpoint is made of. A state with another name, or another number of buckets, is
    refused.
    """
    encode_pattern(pattern)
    task = LiveTask(
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
        outside=tuple(outside),
        limit=options.max_state_events_per_key,
        shown=tuple(shown),
    )
    buckets = options.buckets if by else 1
    _prepare(events.sparkSession, buckets)
    events = events.drop(columns.clock)
    schema = events.schema
    packed = (
        _in_buckets(events, task, columns, buckets)
        .mapInArrow(_packer(events.columns, task.shown, columns, None), PACKED)
        .groupBy("bucket")
        .transformWithStateInPandas(
            _processor(task, f"{state} in {buckets} buckets", time_kind),
            outputStructType=PACKED,
            outputMode="append",
            timeMode="eventTime",
        )
    )

    def struct(columns: Sequence[str]) -> StructType:
        return StructType([StructField(name, schema[name].dataType) for name in columns])

    found = StructType([StructField(variable, struct(columns)) for variable, columns in emit.items()])
    for component in outside:
        if component.columns:
            found = found.add(StructField(component.variable, ArrayType(struct(component.columns))))
    return Stream(_counted(packed), found, _rejected_schema(schema, shown), finish, task, buckets)


def _prepare(spark: SparkSession, buckets: int) -> None:
    """transformWithState keeps its state in RocksDB and speaks protobuf with Python.

    A micro-batch is committed with a log of what it has written, and not with all files of the store.
    """
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise SaseRunError("a stream with state needs the package protobuf: pip install protobuf")
    if "RocksDB" not in (spark.conf.get(_PROVIDER, "") or ""):
        spark.conf.set(_PROVIDER, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    for name, value in ((_CHANGELOG, "true"), (BATCH_BYTES, ANY_SIZE)):
        spark.conf.set(name, spark.conf.get(name, value) or value)  # unless somebody has set it
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 0)
    if partitions > 4 * buckets:
        logging.getLogger("sase").warning(
            "spark.sql.shuffle.partitions is %s, and a new checkpoint would have as many state stores, for %s buckets "
            "of keys: set it to the number of cores before the stream starts",
            *(partitions, buckets),
        )


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
    packer = _packer(events.columns, tuple(shown), columns, (variable, tuple(emit)))
    found = StructType([StructField(variable, StructType([schema[name] for name in emit]))])
    return Stream(_counted(numbered.mapInArrow(packer, PACKED)), found, _rejected_schema(schema, shown), finish)


def _in_buckets(events: DataFrame, task: LiveTask, columns: Columns, buckets: int) -> DataFrame:
    """A bucket for each event. One that any key may have to look at is copied to all of them."""
    labels = F.array(*map(F.lit, bucket_labels(buckets)))
    number = F.pmod(F.hash(*(F.col(quoted(name)) for name in task.by)), F.lit(buckets)) if buckets > 1 else F.lit(0)
    own = F.element_at(labels, number + 1)
    bucket, states = columns.bucket, F.col(columns.states)
    known = len(task.pattern.variables)
    everywhere = sum(1 << (known + at) for at, component in enumerate(task.outside) if not component.keyed)
    placed = events.withColumn(bucket, own)
    if everywhere and buckets > 1:
        copied = (states.bitwiseAND(F.lit(everywhere)) != 0) & F.col(columns.reason).isNull()
        kept: Column = states.bitwiseAND(F.lit(everywhere)).bitwiseOR(F.lit(COPY))
        placed = events.withColumn(bucket, F.explode(F.when(copied, labels).otherwise(F.array(own)))).withColumn(
            columns.states, F.when(F.col(bucket) == own, states).otherwise(kept)
        )
    names = events.columns
    return placed.select(*(F.col(quoted(name)) for name in names), bucket).toDF(*map(str, range(len(names) + 1)))


def bucket_labels(buckets: int) -> list[int]:
    """Numbers of buckets that Spark's hash spreads evenly over as many partitions as there are buckets, or a part."""
    labels: dict[int, int] = {}
    for label in count():
        if len(labels) == buckets:
            break
        labels.setdefault(_murmur3(label) % buckets, label)
    return [labels[place] for place in range(buckets)]


def _murmur3(value: int) -> int:
    """Spark's hash of an int, by which it shuffles."""

    def turned(word: int, by: int) -> int:
        return (word << by | word >> (32 - by)) & 0xFFFFFFFF

    word = turned(value * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
    mixed = (turned(42 ^ word, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ mixed >> shift) * factor & 0xFFFFFFFF
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rejected_schema(schema: StructType, shown: Sequence[str]) -> StructType:
    event = StructType([StructField(name, schema[name].dataType) for name in shown])
    return StructType(
        [StructField("reason", StringType()), StructField("record", StringType()), StructField("event", event)]
    )


_numbers = count(1)


def _counted(packed: DataFrame) -> DataFrame:
    """Every micro-batch tells how many events were rejected, in the progress of the streaming query."""
    rejected = F.sum(F.when(F.col("kind") == "rejected", F.col("size")).otherwise(0))
    return packed.observe(f"sase {next(_numbers)}", F.coalesce(rejected, F.lit(0)).alias("rejected"))


def warn_of_rejected(spark: SparkSession) -> None:
    """Logs how many events were rejected, as micro-batches tell. Once a session."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Warning(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None:
            for name, metrics in event.progress.observedMetrics.items():
                if name.startswith("sase ") and metrics["rejected"]:
                    rejected = f"{metrics['rejected']:,}"
                    text = "micro-batch %s: %s events were late or could not be read, and took no part"
                    logging.getLogger("sase").warning(text, event.progress.batchId, rejected)

    if spark in _warned:
        return
    _warned.add(spark)
    warning = Warning()
    spark.streams.addListener(warning)
    if not hasattr(spark, "sparkContext"):
        # Spark Connect keeps a process alive as long as it has a listener.
        def leave() -> None:
            threading.main_thread().join()
            spark.streams.removeListener(warning)

        threading.Thread(target=leave, name="sase-warning", daemon=True).start()


_warned: WeakSet[SparkSession] = WeakSet()


def unpacked(packed: DataFrame, kind: str, schema: StructType) -> DataFrame:
    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for cell in batch.column(0):
                yield from pa.ipc.open_stream(cell.as_buffer())

    return packed.where(F.col("kind") == kind).select("rows").mapInArrow(unpack, schema)


# ---- what runs in the workers -------------------------------------------------------------------
# Pickled by value, without an object of this package, as `ssc.scan_and_construct` does.


def _packer(
    names: Sequence[str], shown: tuple[str, ...], columns: Columns, match: tuple[str, tuple[str, ...]] | None
) -> ssc.Worker:
    """A function for `mapInArrow`: many rows in, a few cells a bucket out. The last column is the bucket.

    With `match`, events are matches of one variable, and there is no bucket.
    """
    names, reason, record, most = list(names), columns.reason, columns.record, CELL_BYTES

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        def cell(table: pa.Table) -> bytes:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            value: bytes = sink.getvalue().to_pybytes()
            return value

        def structs(table: pa.Table, names: list[str]) -> pa.Array:
            table = table.select(names).combine_chunks()
            arrays = [column.chunk(0) for column in table.columns]
            return pa.StructArray.from_arrays(arrays, names=names)

        def packed(bucket: int, kind: str, table: pa.Table) -> pa.RecordBatch:
            step = max(1, most * table.num_rows // max(1, table.nbytes))
            parts = [table.slice(begin, step) for begin in range(0, table.num_rows, step)]
            values = [[bucket] * len(parts), [kind] * len(parts), [part.num_rows for part in parts], map(cell, parts)]
            types = [pa.int32(), pa.string(), pa.int64(), pa.binary()]
            arrays = [pa.array(value, type_) for value, type_ in zip(values, types, strict=True)]
            return pa.RecordBatch.from_arrays(arrays, names=["bucket", "kind", "size", "rows"])

        def rows(waiting: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            table = pa.Table.from_batches(waiting)
            bucket = None if match is not None else table.column(len(names)).to_numpy()
            table = table.select(list(range(len(names)))).rename_columns(names)
            good = table.column(reason).is_null().to_numpy()
            if not good.all():
                bad = table.filter(~good)
                parts = [bad.column(reason).combine_chunks(), bad.column(record).combine_chunks()]
                parts.append(structs(bad, list(shown)))
                yield packed(0, "rejected", pa.table(parts, ["reason", "record", "event"]))
                table = table.filter(good)
            if not table.num_rows:
                return
            if bucket is None:
                variable, emitted = match  # type: ignore[misc]
                yield packed(0, "match", pa.table([structs(table, list(emitted))], [variable]))
                return
            bucket = bucket[good]
            order = np.argsort(bucket)
            table = table.drop_columns([reason, record]).take(pa.array(order))
            ends = np.flatnonzero(np.diff(bucket[order], append=-1)) + 1
            begin = 0
            for end in ends.tolist():
                yield packed(int(bucket[order[begin]]), "events", table.slice(begin, end - begin))
                begin = end

        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size >= 32 << 20:
                yield from rows(waiting)
                waiting, size = [], 0
        if any(batch.num_rows for batch in waiting):
            yield from rows(waiting)

    return pack


def _processor(task: LiveTask, fingerprint: str, time_kind: str) -> StatefulProcessor:
    """The stateful operator: the state of a bucket is its table of events and the time of its timer."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    pickled, before, version = pickle.dumps(task), ssc.bootstrap, __version__

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
            import socket

            if self.worker is None:
                if before is not None:
                    before()
                try:
                    from sase.runtime.live_worker import LiveWorker
                except ModuleNotFoundError as error:
                    if not (error.name or "").startswith("sase"):
                        raise
                    raise RuntimeError(
                        f"sase {version} is not installed on this executor ({socket.gethostname()}): install it there "
                        f"(pip install sase=={version}) or compile the job with --standalone"
                    ) from error
                self.worker = LiveWorker(pickle.loads(pickled), fingerprint, time_kind)
            watermark = times.getCurrentWatermarkInMs()
            yield from self.worker.step(self.handle, self.events, self.timer, bucket, frames, watermark, expired)

        def close(self) -> None:
            pass

    return Processor()
