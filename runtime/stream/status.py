"""How a stream is doing, in one line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from itertools import chain
from typing import Any, Protocol

from sase.runtime.io.report import duration
from sase.runtime.stream.sink import Sink
from sase.runtime.stream.types import Types, events_in
from sase.runtime.stream.worker import EPOCH

_NO_WATERMARK = "1970-01-01T00:00:00"
"""Where Spark's watermark stands before there is an event."""


class Line(Protocol):
    """Told of the progress of one query or of several, it says how they are doing."""

    def show(self, *progress: Iterable[Any]) -> None: ...

    def take(self, *progress: Iterable[Any]) -> None: ...

    def end(self) -> None: ...


class StatusLine:
    """One line on stderr: events in, late, state size, matches, watermark, latency. On a terminal it stays in place."""

    def __init__(self, time_kind: str, sink: Sink) -> None:
        self.time_kind = time_kind
        self.sink = sink
        self.begun = False
        self.seen = -1
        self.events = 0
        self.watermark = ""
        self.latency = 0.0
        self.shown = ""
        self.printed = 0.0
        self.types = Types()

    def show(self, *progress: Iterable[Any]) -> None:
        self.take(*progress)
        text = self.text()
        if not self.begun or text == self.shown:
            return
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.printed >= 10:
            print(text, file=sys.stderr, flush=True)
            self.printed = time.monotonic()
        else:
            return
        self.shown = text

    def end(self) -> None:
        text = self.text()
        if self.begun and (sys.stderr.isatty() or text != self.shown):
            print(f"\r\x1b[K{text}" if sys.stderr.isatty() else text, file=sys.stderr, flush=True)
        self.tell(self.types.end())

    def tell(self, texts: Iterable[str]) -> None:
        """What stays, above the line."""
        for text in texts:
            print(f"\r\x1b[K{text}" if sys.stderr.isatty() else text, file=sys.stderr, flush=True)

    def take(self, *progress: Iterable[Any]) -> None:
        for each in chain.from_iterable(progress):
            self.begun = True
            # While there is nothing to do, Spark reports the batch that will be next.
            if each.batchId <= self.seen or "addBatch" not in each.durationMs:
                continue
            self.seen = each.batchId
            self.tell(self.types.take(each.batchId, each.observedMetrics))
            self.events += events_in(each)
            self.latency = each.durationMs.get("triggerExecution", 0) / 1000
            if (watermark := each.eventTime.get("watermark")) and not watermark.startswith(_NO_WATERMARK):
                self.watermark = self._moment(watermark)

    def _moment(self, text: str) -> str:
        if self.time_kind == "timestamp":
            return text.replace("T", " ").replace(".000Z", "").rstrip("Z")
        instant = getattr(self.sink.spark._jvm, "java.time.Instant")  # Python's years end with 9999
        return f"{instant.parse(text).toEpochMilli() - EPOCH:,}"

    def text(self) -> str:
        parts = [f"events in {self.events:,}", f"late or bad {self.sink.rejected:,}"]
        parts += [f"state {self.sink.remembered} events", f"matches {self.sink.matches:,}"]
        parts += [f"watermark {self.watermark or '-'}", f"latency {duration(self.latency)}"]
        return " · ".join(parts)
