"""The front door of a job of several queries: as that of one, with a place for each result."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from urllib.parse import quote

from pyspark.sql import DataFrame

from sase.runtime.arguments import LIMIT, add_arguments
from sase.runtime.errors import SaseRunError, exiting
from sase.runtime.events import Source
from sase.runtime.interrupt import interruptible
from sase.runtime.io.files import format_of
from sase.runtime.io.output import STDOUT, format_to_write, publish, show
from sase.runtime.job import run
from sase.runtime.places import Place, placed
from sase.runtime.ssc import Options

Results = Mapping[str, DataFrame]
FindAll = Callable[[DataFrame, Options], Results]

EXAMPLES = """\
examples:
  {prog} --events events.parquet
  {prog} --events events.parquet --out results        (a folder in it for each result)
"""


def main(
    find_all: FindAll,
    source: Source,
    *,
    name: str,
    shared: Collection[str],
    default_events: str | None = None,
    places: Sequence[Place] = (),
    argv: Sequence[str] | None = None,
) -> None:
    """Runs a job from the command line; says what is wrong and exits with 1 where it cannot."""
    parser = argparse.ArgumentParser(
        description="Finds all results of several queries.", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.epilog = EXAMPLES.format(prog=parser.prog)
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    with exiting(arguments.verbose), placed(places):
        interruptible(lambda: run_all(find_all, source, arguments, default_events, name=name, shared=shared))


def run_all(
    find_all: FindAll,
    source: Source,
    arguments: argparse.Namespace,
    default_events: str | None = None,
    *,
    name: str = "sase",
    shared: Collection[str],
) -> int:
    """Finds the results, and writes each to a folder of its own, or prints some of it. Those that are `shared`, as
    other queries read them, are kept until all is written."""
    refuse_single(arguments)
    deliver = partial(_deliver, shared=shared)
    return run(find_all, deliver, source, arguments, default_events, name=name, kernel=True)


def refuse_single(arguments: argparse.Namespace) -> None:
    """One place cannot take several results."""
    if arguments.out == STDOUT:
        raise SaseRunError("--out - is for one result, and there are several: name a folder, or leave it out")
    if arguments.out and format_of(arguments.out, compressed=False) and not arguments.out.endswith("/"):
        raise SaseRunError(
            f"--out {arguments.out} is for one result, and there are several: name a folder, with --out-format"
        )


def place_of(out: str, name: str) -> str:
    return f"{out.rstrip('/')}/{quote(name, safe=' ')}"


def _deliver(results: Results, arguments: argparse.Namespace, shared: Collection[str]) -> int:
    kept = [matches.persist() for name, matches in results.items() if name in shared]
    try:
        total = 0
        for name, matches in results.items():
            if arguments.out:
                format = format_to_write(arguments)
                found = publish(matches, place_of(arguments.out, name), format, arguments.overwrite)
                print(f"{name}: {found:,} {'match' if found == 1 else 'matches'}", file=sys.stderr)
            else:
                print(f"{name}:")
                found = show(matches, arguments.limit or LIMIT)
            total += found
        return total
    finally:
        for matches in kept:
            matches.unpersist()
