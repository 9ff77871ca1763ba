"""The front door of a job of several queries: as that of one, with a place for each result."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Self
from urllib.parse import quote

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from sase.runtime.arguments import LIMIT, add_arguments
from sase.runtime.errors import SaseRunError, exiting
from sase.runtime.events import Source
from sase.runtime.interrupt import interruptible
from sase.runtime.io.files import format_of
from sase.runtime.io.meters import is_columnar
from sase.runtime.io.output import STDOUT, format_to_write, publish, show
from sase.runtime.job import run
from sase.runtime.places import Place, placed
from sase.runtime.ssc import Options

Results = Mapping[str, DataFrame]
Keep = Callable[[DataFrame], DataFrame]
FindAll = Callable[[DataFrame, Options, Keep], Results]


def as_it_is(frame: DataFrame) -> DataFrame:
    """Keeps nothing: what several queries read is then computed for each."""
    return frame


class Kept:
    """What several queries read is computed for the first of them, and kept until all is written: in memory as long as
    there is room, then on disk. Columns of files stay where they are: reading them again takes less than keeping them.
    """

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def __call__(self, frame: DataFrame) -> DataFrame:
        if is_remote() or not is_columnar(frame):
            self._frames.append(frame.persist(StorageLevel.MEMORY_AND_DISK_DESER))
        return frame

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._frames:
            frame.unpersist()


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
        interruptible(lambda: run_all(find_all, source, arguments, default_events, name=name))


def run_all(
    find_all: FindAll,
    source: Source,
    arguments: argparse.Namespace,
    default_events: str | None = None,
    *,
    name: str = "sase",
) -> int:
    """Finds the results, and writes each to a folder of its own, or prints some of it."""
    refuse_single(arguments)
    with Kept() as keep:
        return run(
            lambda events, options: find_all(events, options, keep),
            _deliver, source, arguments, default_events, name=name, kernel=True,
        )  # fmt: skip


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


def _deliver(results: Results, arguments: argparse.Namespace) -> int:
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
