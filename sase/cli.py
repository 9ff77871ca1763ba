"""The command line: `sase run`, `compile`, `explain`, `check`, `test`, `funnel`, `init` and `statistics`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import sase
from sase import collector, commands
from sase.arguments import (
    add_catalog_arguments,
    add_dialect_argument,
    add_events_argument,
    add_html_argument,
    add_language_argument,
    add_plan_arguments,
    add_query_argument,
    add_sql_arguments,
    add_time_form_arguments,
)
from sase.compiler.core.errors import CatalogError, OptionError, SaseError
from sase.runtime.errors import SaseRunError
from sase.runtime.interrupt import interruptible

EXAMPLES = """\
examples:
  sase compile shoplifting.sase --catalog retail.toml -o job.py
  sase run shoplifting.sase --catalog retail.toml --events events.parquet
  sase run -q "EVENT SEQ(login a, !purchase p, logout z) WHERE [user] WITHIN 1 hour" --events clicks.jsonl
  sase run shoplifting.sase --events SHELF-READING=shelves.csv --events EXIT-READING=exits.csv
  sase run shoplifting.sase --stream --events incoming/ --out matches/ --checkpoint ckpt/ --max-delay "10 minutes"
  sase explain shoplifting.sase --catalog retail.toml
  sase run v_shapes.sql --dialect trino --table ticker=ticks.parquet
  sase funnel VIEW "CART WHERE amount > 10" BUY --by user --within "1 day" --events clicks.parquet
  sase init events/ -o retail.toml
  sase check queries/*.sase --catalog retail.toml
  sase test queries/*.sase --catalog retail.toml
  sase statistics events.parquet --query shoplifting.sase --catalog retail.toml -o stats.json
  sase explain shoplifting.sase --catalog retail.toml --statistics stats.json
"""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        command: Callable[[argparse.Namespace], int] = arguments.command
        if command not in _AT_ONCE:
            collector.go_on()
        if command is commands.run and arguments.stream:
            return command(arguments)  # a stream listens for Ctrl-C by itself
        return interruptible(lambda: command(arguments))
    except SaseError as error:
        print(error, file=sys.stderr)
    except SaseRunError as error:
        print(error.report, file=sys.stderr)
    except (CatalogError, OptionError) as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 1


_AT_ONCE = (commands.check, commands.compile, commands.explain)
"""They are over before there is anything to collect."""


class _Command(argparse.ArgumentParser):
    """A command that gets its arguments when it is called: some are named by the compiler, which need not be loaded
    to say which version this is."""

    def __init__(self, *, fill: Callable[[argparse.ArgumentParser], None], **settings: Any) -> None:
        super().__init__(**settings)
        self._fill: Callable[[argparse.ArgumentParser], None] | None = fill

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._fill is not None:
            self._fill(self)
            self._fill = None
        return super().parse_known_args(args, namespace)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sase",
        description="Event-pattern queries, compiled to PySpark jobs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sase {sase.__version__}")
    known = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)
    for name, help, run, fill in (
        ("compile", "write the PySpark job of a query", commands.compile, _compile_arguments),
        ("run", "compile a query and run it", commands.run, _run_arguments),
        ("explain", "show the logical and the physical plan", commands.explain, _explain_arguments),
        ("check", "report errors only; exit code 1 if there are any", commands.check, _check_arguments),
        ("test", "test queries with the events and matches written beside them", commands.test, _test_arguments),
        (
            "funnel",
            "show how far each key gets along a few steps, and how long that takes",
            commands.funnel,
            _funnel_arguments,
        ),
        (
            "init",
            "draw up a catalog from the events: their types, and the columns of each",
            commands.init,
            _init_arguments,
        ),
        (
            "statistics",
            "measure what the optimiser should know of the events",
            commands.statistics,
            _statistics_arguments,
        ),
    ):
        command = known.add_parser(
            name,
            help=help,
            description=help[0].upper() + help[1:] + ".",
            epilog=EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            fill=fill,
        )
        command.set_defaults(command=run)
    return parser


def _compile_arguments(command: argparse.ArgumentParser) -> None:
    add_query_argument(command)
    add_sql_arguments(command)
    command.add_argument("-o", "--output", metavar="FILE", help="where to write the job (default: standard output)")
    command.add_argument(
        "--standalone", action="store_true", help="carry the runtime inside: the cluster then needs no sase"
    )
    command.add_argument("--stream", action="store_true", help="a job for Structured Streaming")
    add_catalog_arguments(command)
    add_events_argument(command, "read the schema from there when no catalog is given")
    add_plan_arguments(command)


def _run_arguments(command: argparse.ArgumentParser) -> None:
    from sase.runtime.arguments import add_arguments, add_stream_arguments

    add_query_argument(command)
    add_sql_arguments(command)
    command.add_argument(
        "--verify",
        action="store_true",
        help="run SQL twice, with its joins as patterns and as they stand, and compare the rows",
    )
    command.add_argument(
        "--stream", action="store_true", help="follow the events as they come, with Structured Streaming"
    )
    add_catalog_arguments(command)
    add_arguments(command)
    add_stream_arguments(command)
    add_html_argument(command, "write a page with the pattern, the plan and the matches in time")
    add_plan_arguments(command)


def _explain_arguments(command: argparse.ArgumentParser) -> None:
    add_query_argument(command)
    add_sql_arguments(command)
    command.add_argument(
        "--analyze", action="store_true", help="run the query and show what got through each step, and what did not"
    )
    command.add_argument(
        "--as",
        dest="spelled_in",
        choices=("sase",),
        help="show the query in words of SASE instead, whatever it is written in",
    )
    add_html_argument(command, "write a page with the pattern and the plan; with --analyze, what got through each step")
    add_catalog_arguments(command)
    add_events_argument(command, "read the schema from there when no catalog is given")
    add_plan_arguments(command)


def _check_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("queries", metavar="QUERY", nargs="+", help="query files")
    add_language_argument(command)
    add_dialect_argument(command)
    add_catalog_arguments(command)


def _test_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "files", metavar="FILE", nargs="+", help="query files with tests in comments, or Markdown with blocks of both"
    )
    add_language_argument(command)
    command.add_argument("--verbose", action="store_true", help="show Spark's own log")
    add_catalog_arguments(command)


def _funnel_arguments(command: argparse.ArgumentParser) -> None:
    from sase.runtime.arguments import add_format_arguments, add_output_format_arguments

    command.add_argument(
        "steps",
        metavar="STEP",
        nargs="+",
        help="an event type, or one with a name and a condition, 'CART big WHERE amount > 9'; '!REFUND' may not happen "
        "between two steps",
    )
    command.add_argument("--by", metavar="COLUMN,…", required=True, help="the key: whose steps these are, such as user")
    command.add_argument("--within", metavar="LENGTH", help="the last step is less than this after the first: '1 day'")
    command.add_argument("--breakdown", metavar="COLUMN", help="a funnel for each value that the first event has there")
    command.add_argument(
        "--events",
        metavar="[TYPE=]EVENTS",
        action="append",
        default=[],
        required=True,
        help="Parquet, JSON lines, CSV or Delta, a directory of them, or a table; may be repeated",
    )
    command.add_argument("--out", metavar="PATH", help="write how far each key got, and when it took each step")
    add_output_format_arguments(command)
    add_html_argument(command, "write a page with the funnel as a picture")
    add_format_arguments(command)
    add_catalog_arguments(command)
    command.add_argument("--verbose", action="store_true", help="show Spark's own log, and the trace of an error")


def _init_arguments(command: argparse.ArgumentParser) -> None:
    from sase.runtime.arguments import add_format_arguments

    command.add_argument(
        "events", metavar="[TYPE=]EVENTS", nargs="+", help="Parquet, JSON lines, CSV or Delta, a directory, or a table"
    )
    command.add_argument("-o", "--output", metavar="FILE", help="TOML file to write (default: standard output)")
    command.add_argument("--time", metavar="COLUMN", help="time column (default: guessed by name and type)")
    add_time_form_arguments(command)
    command.add_argument("--type", metavar="COLUMN", help="type column (default: guessed by name and type)")
    command.add_argument("--order", metavar="COLUMN", help="tie-breaker column (default: seq, if there is one)")
    add_format_arguments(command)
    command.add_argument("--verbose", action="store_true", help="show Spark's own log")


def _statistics_arguments(command: argparse.ArgumentParser) -> None:
    from sase.runtime.arguments import add_format_arguments

    command.add_argument(
        "events", metavar="[TYPE=]EVENTS", nargs="+", help="Parquet, JSON lines, CSV or Delta, a directory, or a table"
    )
    command.add_argument("-o", "--output", metavar="FILE", required=True, help="JSON file to write")
    command.add_argument(
        "--query",
        metavar="QUERY",
        action="append",
        default=[],
        help="measure how selective the predicates of this query are, too; may be repeated",
    )
    add_language_argument(command)
    add_format_arguments(command)
    command.add_argument("--verbose", action="store_true", help="show Spark's own log")
    add_catalog_arguments(command)
