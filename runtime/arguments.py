"""The command line of a generated job, and of `sase run`. Without Spark: asking for --help must not load it."""

from __future__ import annotations

import argparse
from typing import Any

from sase.runtime.errors import SaseRunError

FORMATS = ("parquet", "json", "csv", "delta")
FOREIGN = (".xlsx", ".xls", ".tsv", ".txt", ".xml", ".avro", ".orc", ".arrow", ".feather", ".html", ".md", ".db")
"""What a file that somebody wants in another format ends with."""
LIMIT = 20
AVAILABLE_NOW = "available-now"
BUCKETS = 8
"""How many states the keys of a stream are spread over, unless somebody says."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--events",
        metavar="[TYPE=]EVENTS",
        action="append",
        default=[],
        help="Parquet, JSON lines, CSV or Delta, a directory of them, or a table; TYPE=EVENTS where an event type has "
        "a table of its own; may be repeated",
    )
    add_format_arguments(parser)
    add_output_arguments(parser)
    parser.add_argument(
        "--late-out",
        metavar="DIR",
        help="where events go that cannot be read or take no part, as JSON (default: OUT-late, or some are printed)",
    )
    parser.add_argument("--strict", action="store_true", help="fail at the first event that cannot take part")
    parser.add_argument(
        "--max-window-events-per-key",
        metavar="N",
        type=positive,
        help="fail, and name the key, if a window holds more events of one; without it, a worker may run out of memory",
    )
    parser.add_argument("--verbose", action="store_true", help="show Spark's own log, and the trace of an error")


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Where matches go."""
    parser.add_argument(
        "--out",
        metavar="PATH",
        help="where to write the matches: one file if it ends with .csv or .json, else a folder; - is standard output "
        "(default: print some of them)",
    )
    add_output_format_arguments(parser)
    parser.add_argument("--limit", metavar="N", type=positive, help=f"how many matches to print (default: {LIMIT})")


def add_output_format_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out-format",
        choices=FORMATS,
        help="format of the matches (default: what --out ends with, else parquet; json for -)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is at --out")


def add_table_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--table",
        metavar="NAME=PATH",
        action="append",
        default=[],
        help="for SQL, what a name in FROM stands for: Parquet, JSON lines, CSV or Delta, a directory of them, or a "
        "table; may be repeated",
    )


def add_format_arguments(parser: argparse.ArgumentParser) -> None:
    """How events are written."""
    parser.add_argument("--format", choices=FORMATS, help="format of the events, where their path does not tell")
    group = parser.add_argument_group("CSV")
    group.add_argument("--delimiter", metavar="CHAR", help="between values (default: the catalog's, or ,)")
    group.add_argument("--null", metavar="TEXT", help="stands for NULL (default: the catalog's, or nothing at all)")
    group.add_argument("--header", metavar="NAME,…", help="the columns of files that do not begin with their names")


def csv_given(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the arguments say of CSV; what they leave out is the catalog's to say."""
    given = {name: getattr(arguments, name, None) for name in ("delimiter", "null", "header")}
    if given["delimiter"]:
        given["delimiter"] = given["delimiter"].replace("\\t", "\t")
    if given["header"]:
        given["header"] = tuple(name.strip() for name in given["header"].split(",") if name.strip())
    return {name: value for name, value in given.items() if value is not None}


def add_stream_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("stream")
    group.add_argument(
        "--checkpoint", metavar="DIR", help="where Spark keeps the state, so that a restart goes on where it stopped"
    )
    group.add_argument(
        "--max-delay",
        metavar="DELAY",
        default="0",
        help="how far behind the latest event another one may arrive and still take part: '10 minutes', or a number "
        "in the units of an integer time (default: %(default)s)",
    )
    group.add_argument(
        "--trigger",
        metavar="INTERVAL",
        default="0 seconds",
        help=f"a micro-batch every '10 seconds', or {AVAILABLE_NOW}: process what is there and stop (default: one "
        "after the other)",
    )
    group.add_argument(
        "--max-files-per-trigger", metavar="N", type=positive, help="at most so many new files per micro-batch"
    )
    group.add_argument(
        "--buckets",
        metavar="N",
        type=positive,
        default=BUCKETS,
        help="how many states the keys are spread over; fixed for the life of a checkpoint (default: %(default)s)",
    )


def refuse_idle(arguments: argparse.Namespace) -> None:
    """Options that would do nothing are a misunderstanding, and better said than left."""
    if arguments.out and not arguments.out_format and arguments.out.lower().endswith(FOREIGN):
        ours = ", ".join(FORMATS)
        raise SaseRunError(f"--out {arguments.out}: matches are written as {ours}: end with one, or add --out-format")
    if arguments.out and arguments.limit is not None:
        raise SaseRunError("--limit is how many matches are printed, and --out writes all of them: leave one out")
    overwrite = arguments.overwrite and not arguments.late_out
    if not arguments.out and (overwrite or arguments.out_format):
        option = "--overwrite" if overwrite else "--out-format"
        raise SaseRunError(f"{option} goes with --out PATH: without it, matches are printed")


def stream_options(arguments: argparse.Namespace) -> list[str]:
    """The options of a stream that were given."""
    parser = argparse.ArgumentParser()
    add_stream_arguments(parser)
    defaults = vars(parser.parse_args([]))
    return [f"--{name.replace('_', '-')}" for name, value in defaults.items() if getattr(arguments, name) != value]


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return int(text)
