"""The paper's event generator (its Table 1), and a telematics stream: numpy → Parquet, cached by parameters.

The time of an event is its number, so a window of W units holds W events, as in the paper.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

ATTRIBUTES = ("attr1", "attr2", "attr3", "attr4", "attr5")
COLUMNS = ("ts", "type", *ATTRIBUTES)

_BATCH = 250_000
"""Rows of a row group: several per file, so that Spark can read one file with several cores."""


@dataclass(frozen=True)
class Stream:
    """What Table 1 calls T, V1 … V5 and, for attr1 instead of the types, the Zipf parameter θ."""

    events: int
    v1: int = 100
    v2: int = 100
    v3: int = 1_000
    v4: int = 1_000
    v5: int = 1_000
    types: int = 20
    skew: float = 0.0
    seed: int = 1
    mixed: bool = False
    """Written in no order of time."""

    @property
    def domains(self) -> tuple[int, ...]:
        return self.v1, self.v2, self.v3, self.v4, self.v5

    @property
    def schema(self) -> dict[str, dict[str, str]]:
        """What a catalog says of the stream's types; of the first twelve, more than any pattern here names."""
        declared = {"ts": "bigint", **dict.fromkeys(ATTRIBUTES, "bigint")}
        return {type_name(number): declared for number in range(1, min(self.types, 12) + 1)}

    def simulated(self, length: int) -> Stream:
        """The paper's stand-in for an equivalence test that is not evaluated: V1^((L-1)/L) times as many types.

        A pattern of `length` components without WHERE then has the selectivity of one with `[attr1]` on this stream.
        """
        return replace(self, types=round(self.types * self.v1 ** ((length - 1) / length)), v1=1)

    def batches(self) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(self.seed)
        names = pa.array([type_name(number) for number in range(1, self.types + 1)])
        times = random.permutation(self.events) if self.mixed else np.arange(self.events)
        drawers = [zipf(self.v1, self.skew), *(zipf(domain, 0.0) for domain in self.domains[1:])]
        for begin in range(0, self.events, _BATCH):
            rows = min(_BATCH, self.events - begin)
            types = pa.DictionaryArray.from_arrays(random.integers(0, self.types, rows, np.int32), names)
            attributes = [pa.array(draw(random, rows)) for draw in drawers]
            columns = [pa.array(times[begin : begin + rows]), types, *attributes]
            yield pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))


@dataclass(frozen=True)
class Telematics:
    """The streams of the negation experiment: starts, status reports and trouble codes of cars, one event a second."""

    events: int
    cars: int = 100
    seed: int = 1

    @property
    def schema(self) -> dict[str, dict[str, str]]:
        declared = {"ts": "timestamp", "car_id": "bigint", "distance": "bigint"}
        return {name: declared for name in ("START", "STATUS", "DTC")}

    def batches(self) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(self.seed)
        start = np.datetime64("2026-01-01T00:00:00", "us")
        seconds = np.arange(self.events) * np.timedelta64(1_000_000, "us")
        types = random.choice(3, self.events, p=[0.1, 0.8, 0.1]).astype(np.int32)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(start + seconds).cast(pa.timestamp("us", tz="UTC")),
                pa.DictionaryArray.from_arrays(types, pa.array(["START", "STATUS", "DTC"])),
                pa.array(random.integers(0, self.cars, self.events)),
                pa.array(random.integers(0, 1_000, self.events)),
            ],
            names=["ts", "type", "car_id", "distance"],
        )


@dataclass(frozen=True)
class Shop:
    """A week of a shop: its visitors have UUIDs, and do one thing after the other for minutes or hours."""

    events: int
    users: int = 200_000
    seed: int = 1
    mixed: bool = False
    """Written in no order of time."""

    @property
    def schema(self) -> dict[str, dict[str, str]]:
        declared = {"ts": "timestamp", "user_id": "string", "product": "string"}
        return {name: declared for name in _PAGES}

    def batches(self) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(self.seed)
        words = random.integers(0, 1 << 32, (self.users, 4))
        users = pa.array([str(UUID(bytes=each.astype(np.uint32).tobytes(), version=4)) for each in words])
        products = pa.array([f"product {number:05}" for number in range(20_000)])
        week = 7 * 24 * 3600 * 1_000_000
        times = random.integers(0, week, self.events) + 1_767_225_600_000_000
        times = times if self.mixed else np.sort(times)
        for begin in range(0, self.events, _BATCH):
            rows = min(_BATCH, self.events - begin)
            types = pa.DictionaryArray.from_arrays(
                random.choice(len(_PAGES), rows, p=[0.5, 0.25, 0.1, 0.15]).astype(np.int32), pa.array(_PAGES)
            )
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(times[begin : begin + rows], pa.timestamp("us", tz="UTC")),
                    types,
                    users.take(pa.array(random.integers(0, self.users, rows))),
                    products.take(pa.array(random.integers(0, len(products), rows))),
                ],
                names=["ts", "type", "user_id", "product"],
            )


_PAGES = ("view", "add_to_cart", "purchase", "logout")


@dataclass(frozen=True)
class Walks:
    """Customers walk between four places (seed 003, 6.1): two that lie side by side are 9 to 11 apart in time, and two
    across 13 to 15. A place is the type of an event."""

    events: int
    customers: int = 1_000
    seed: int = 1

    @property
    def schema(self) -> dict[str, dict[str, str]]:
        return {type_name(number): {"ts": "bigint", "customer": "bigint"} for number in range(1, 5)}

    def batches(self) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(self.seed)
        steps = -(-self.events // self.customers)
        moves = random.integers(1, 4, (self.customers, steps))  # to a place other than this one
        places = np.cumsum(moves, axis=1) % 4
        across = places + np.roll(places, 1, axis=1) == 3  # A and D, B and C
        elapsed = random.integers(9, 12, (self.customers, steps)) + 4 * across
        times = np.cumsum(elapsed, axis=1) + random.integers(0, 10, (self.customers, 1))
        order = np.argsort(times, axis=None, kind="stable")[: self.events]
        customers = np.repeat(np.arange(self.customers), steps)
        names = pa.array([type_name(number) for number in range(1, 5)])
        for begin in range(0, len(order), _BATCH):
            rows = order[begin : begin + _BATCH]
            types = pa.DictionaryArray.from_arrays(places.ravel()[rows].astype(np.int32), names)
            columns = [pa.array(times.ravel()[rows]), types, pa.array(customers[rows])]
            yield pa.RecordBatch.from_arrays(columns, names=["ts", "type", "customer"])


@dataclass(frozen=True)
class Cars:
    """Cars that are started and report their speed, a thousand events a second, one of ten a start."""

    events: int
    cars: int = 10_000
    seed: int = 1

    @property
    def schema(self) -> dict[str, dict[str, str]]:
        declared = {"ts": "timestamp", "car_id": "bigint"}
        return {"START": declared, "STATUS": {**declared, "speed": "double"}}

    def batches(self) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(self.seed)
        for begin in range(0, self.events, _BATCH):
            rows = min(_BATCH, self.events - begin)
            times = 1_767_225_600_000_000 + 1_000 * np.arange(begin, begin + rows)
            types = (random.random(rows) < 0.9).astype(np.int32)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(times, pa.timestamp("us", tz="UTC")),
                    pa.DictionaryArray.from_arrays(types, pa.array(["START", "STATUS"])),
                    pa.array(random.integers(0, self.cars, rows)),
                    pa.array(50 + 100 * random.random(rows)),
                ],
                names=["ts", "type", "car_id", "speed"],
            )


Source = Stream | Telematics | Shop | Walks | Cars


def type_name(number: int) -> str:
    return f"E{number}"


def zipf(domain: int, skew: float) -> Callable[[np.random.Generator, int], NDArray[np.int64]]:
    """Draws from 0 … domain - 1, value k with probability ∝ 1 / (k + 1)^skew; 0 is uniform."""
    if skew == 0:
        return lambda random, rows: random.integers(0, domain, rows)
    cumulated = np.cumsum(shares(domain, skew))
    cumulated[-1] = 1.0  # a sum that rounding left below 1 would draw a value outside of the domain
    return lambda random, rows: np.searchsorted(cumulated, random.random(rows), side="right").astype(np.int64)


def shares(domain: int, skew: float) -> NDArray[np.float64]:
    """The probabilities of the values, falling."""
    weights = np.arange(1, domain + 1, dtype=np.float64) ** -skew
    return weights / weights.sum()  # type: ignore[no-any-return]


def parquet(source: Source, folder: Path) -> Path:
    """The file that holds the events of `source`; written on first use."""
    path = folder / f"{_name(source)}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        staged = path.with_suffix(f".{os.getpid()}")
        batches = source.batches()
        first = next(batches)
        # Dictionary arrays become plain strings in the file's schema: what Spark, DuckDB and the rest expect.
        schema = pa.schema([pa.field(f.name, pa.string() if f.name == "type" else f.type) for f in first.schema])
        with pq.ParquetWriter(staged, schema, compression="snappy") as writer:
            for batch in (first, *batches):
                writer.write_table(pa.Table.from_batches([batch]).cast(schema), row_group_size=_BATCH)
        os.replace(staged, path)  # in one step: an interrupted run leaves no half of a file behind
    return path


def _name(source: Source) -> str:
    text = json.dumps(asdict(source), sort_keys=True)
    return f"{type(source).__name__.lower()}-{source.events}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
