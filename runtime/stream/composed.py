"""The front door of a streaming job of several queries: one stream of Spark for each result.

A stream has the queries in it whose results it reads: Spark has no way to lead one stream into several. So each finds
its results by itself, from the same events under the same watermark, and any of them could be left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sase.runtime.arguments import add_arguments, add_stream_arguments
from sase.runtime.composed import place_of, refuse_single
from sase.runtime.errors import SaseRunError, exiting, explained
from sase.runtime.events import Source
from sase.runtime.io import inputs
from sase.runtime.io.files import Files
from sase.runtime.places import Place, placed
from sase.runtime.stream.job import Outlet, Read, begun, partitions, places_of_events, refuse_misfits, wait
from sase.runtime.stream.sink import Sink
from sase.runtime.stream.ssc import Stream
from sase.runtime.stream.status import StatusLine
from sase.runtime.stream.watch import Options

FollowAll = Callable[[Any, Options], Mapping[str, Stream]]

EXAMPLES = """\
examples:
  {prog} --events incoming/ --out results/ --checkpoint ckpt/ --max-delay "10 minutes"
  {prog} --events incoming/ --out results/ --checkpoint ckpt/ --trigger available-now
"""


def main(
    follow_all: FollowAll,
    read: Read,
    source: Source,
    *,
    name: str,
    states: Mapping[str, str],
    default_events: str | None = None,
    places: Sequence[Place] = (),
    argv: Sequence[str] | None = None,
) -> None:
    """Runs a streaming job from the command line, until it is stopped; exits with 1 where it cannot go on."""
    parser = argparse.ArgumentParser(
        description="Finds the results of several queries in a stream of events.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.epilog = EXAMPLES.format(prog=parser.prog)
    add_arguments(parser)
    add_stream_arguments(parser)
    arguments = parser.parse_args(argv)
    with exiting(arguments.verbose), placed(places):
        run_streams(follow_all, read, source, arguments, default_events, name=name, states=states)


def run_streams(
    follow_all: FollowAll,
    read: Read,
    source: Source,
    arguments: argparse.Namespace,
    default_events: str | None = None,
    *,
    name: str = "sase",
    states: Mapping[str, str],
) -> int:
    """Runs until interrupted, or, with --trigger available-now, until all that is there is processed."""
    refuse_single(arguments)
    options = refuse_misfits(arguments)
    arguments.events = inputs.specs(arguments, default_events)
    with explained():
        spark = begun(name, arguments)
        sources = places_of_events(Files(spark), arguments, source)
        outlets = {
            each: Outlet.of(spark, _arguments_of(each, arguments), sources, state, options)
            for each, state in states.items()
        }
        with partitions(spark, options.buckets):
            streams = follow_all(read(spark, arguments), options)
        started = {each: outlet.start(streams[each], spark, f"{name}: {each}") for each, outlet in outlets.items()}
    sinks = {each: sink for each, (_, sink) in started.items()}

    def failed() -> SaseRunError | None:
        return next((sink.failure for sink in sinks.values() if sink.failure), None)

    wait([query for query, _ in started.values()], failed, _StatusLines(source.time_kind, sinks))
    return 0


def _arguments_of(name: str, arguments: argparse.Namespace) -> argparse.Namespace:
    """As for a job of its own, with places inside of those that are given."""
    given = {key: value for key in ("out", "late_out", "checkpoint") if (value := getattr(arguments, key))}
    return argparse.Namespace(**{**vars(arguments), **{key: place_of(value, name) for key, value in given.items()}})


class _StatusLines(StatusLine):
    """How many matches each has found, and the time that it is for all of them."""

    def __init__(self, time_kind: str, sinks: Mapping[str, Sink]) -> None:
        super().__init__(time_kind, next(iter(sinks.values())))
        self.lines = {name: StatusLine(time_kind, sink) for name, sink in sinks.items()}

    def take(self, *progress: Iterable[Any]) -> None:
        for line, each in zip(self.lines.values(), progress, strict=True):
            line.take(each)
            self.begun = self.begun or line.begun

    def text(self) -> str:
        first = next(iter(self.lines.values()))
        rejected = sum(line.sink.rejected for line in self.lines.values())
        parts = [f"events in {first.events:,}", f"late or bad {rejected:,}"]
        parts += [f"{name} {line.sink.matches:,}" for name, line in self.lines.items()]
        return " · ".join([*parts, f"watermark {first.watermark or '-'}"])
