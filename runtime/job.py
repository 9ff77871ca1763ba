"""The front door of a generated job, and of `sase run`: arguments, reading, running, writing, summary."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from pyspark.sql import DataFrame

from sase.runtime.arguments import LIMIT, add_arguments, csv_given, refuse_idle
from sase.runtime.errors import SaseRunError, exiting, explained
from sase.runtime.events import Source, check
from sase.runtime.interrupt import interruptible
from sase.runtime.io.batches import as_before, bound_events
from sase.runtime.io.files import Files, few, lies_in
from sase.runtime.io.formats import Input
from sase.runtime.io.inputs import InputAccount, events_read, find_inputs, needed, read_events, specs
from sase.runtime.io.output import (
    STDOUT,
    format_to_write,
    late_place,
    print_all,
    publish,
    show,
    some_of,
    there_already,
)
from sase.runtime.io.report import summary
from sase.runtime.io.tally import Tally
from sase.runtime.places import Place, placed
from sase.runtime.session import session
from sase.runtime.ssc import Options
from sase.runtime.warm import warm_worker

FindMatches = Callable[[DataFrame, Options], DataFrame]
Found = TypeVar("Found")

EXAMPLES = """\
examples:
  {prog} --events events.parquet
  {prog} --events events.parquet --out matches.parquet
  {prog} --events SHELF-READING=shelves.csv --events EXIT-READING=exits.csv
  {prog} --events /data/day=3 --events store.readings --out matches.csv --overwrite
  {prog} --events events.parquet --out - --out-format csv
"""


def main(
    find_matches: FindMatches,
    source: Source,
    *,
    name: str,
    default_events: str | None = None,
    places: Sequence[Place] = (),
    argv: Sequence[str] | None = None,
) -> None:
    """Runs a job from the command line; says what is wrong and exits with 1 where it cannot."""
    parser = argparse.ArgumentParser(
        description="Finds all matches of a query.", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.epilog = EXAMPLES.format(prog=parser.prog)
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    with exiting(arguments.verbose), placed(places):
        interruptible(lambda: run_job(find_matches, source, arguments, default_events, name=name))


def run_job(
    find_matches: FindMatches,
    source: Source,
    arguments: argparse.Namespace,
    default_events: str | None = None,
    *,
    name: str = "sase",
    kernel: bool = False,
) -> int:
    """Finds the matches, writes or prints them, and sums up on stderr. What goes wrong is a SaseRunError."""
    return run(find_matches, deliver, source, arguments, default_events, name=name, kernel=kernel)


def run(
    find: Callable[[DataFrame, Options], Found],
    deliver: Callable[[Found, argparse.Namespace], int],
    source: Source,
    arguments: argparse.Namespace,
    default_events: str | None,
    *,
    name: str,
    kernel: bool,
) -> int:
    """`deliver` writes or prints what is found, and tells how many matches that are.

    That there will be a `kernel` is good to know early: its worker takes some time to start.
    """
    started = time.perf_counter()
    refuse_idle(arguments)
    given = specs(arguments, default_events)
    with explained():
        spark = session(name, arguments.verbose, brief=few(given))
        if kernel:
            warm_worker(spark)
        inputs = find_inputs(spark, given, source.types, arguments.format, replace(source.csv, **csv_given(arguments)))
        files, out, late = Files(spark), *_places(arguments)
        for option, place in (("--out", out), ("--late-out", late)):
            if place:
                protect(files, option, place, arguments.overwrite, inputs)
        account, tally = InputAccount(spark), Tally(arguments.strict)
        options = Options(arguments.max_window_events_per_key)
        tables = read_events(spark, inputs, source)
        with as_before(spark):
            checked = check(tables, source, tally)
            bound_events(checked)
            found = deliver(find(checked, options), arguments)
        counts = tally.counts()
        read = tally.read or events_read(spark, needed(inputs, source), account)
        if late and counts.rejected:
            publish(tally.rejected(), late, "json", arguments.overwrite)
        elif late and arguments.overwrite and files.are_known:
            files.delete(late)  # what an earlier run has rejected
        shown = [] if late or not counts.rejected else some_of(tally.rejected())
        unseen = tally.unseen_types(counts)
    print(summary(read, counts.relevant, found, time.perf_counter() - started), file=sys.stderr)
    if out:
        print(f"wrote {found:,} {'match' if found == 1 else 'matches'} to {out}", file=sys.stderr)
    if counts.rejected:
        print(f"rejected: {counts.rejected}" + (f"; see {late}" if late else ""), file=sys.stderr)
    for text in (*(f"  {row}" for row in shown), *unseen):
        print(text, file=sys.stderr)
    return 0


def _places(arguments: argparse.Namespace) -> tuple[str | None, str | None]:
    """Where matches and rejected events are written; None where they are printed."""
    out = None if arguments.out == STDOUT else arguments.out
    return out, arguments.late_out or (out and late_place(out))


def protect(files: Files, option: str, place: str, overwrite: bool, inputs: Iterable[Input]) -> None:
    """Refuses to write over anything that is not meant to go. (Spark Connect looks by itself, if later.)"""
    if not files.exists(place):
        return
    if not overwrite:
        raise there_already(place, option)
    target = files.qualified(place)
    for path in (path for each in inputs for path in each.paths):
        if lies_in(path, target):
            raise SaseRunError(f"{option} {place} would replace the events in {path}: choose another {option}")


def deliver(matches: DataFrame, arguments: argparse.Namespace) -> int:
    if arguments.out is None:
        return show(matches, arguments.limit or LIMIT)
    format = format_to_write(arguments)
    if arguments.out == STDOUT:
        return print_all(matches, format)
    return publish(matches, arguments.out, format, arguments.overwrite)
