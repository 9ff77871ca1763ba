"""The command line: `sase run`, `compile`, `explain`, `check`, `test`, `init` and `statistics`."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sase
from sase.compiler.core.errors import CatalogError, OptionError, SaseError, did_you_mean
from sase.runtime.errors import SaseRunError
from sase.runtime.interrupt import interruptible
from sase.runtime.io.report import duration, starting

if TYPE_CHECKING:
    from sase.analysis.stages import Stage
    from sase.api import Query
    from sase.compiler.core.bound import BoundQuery
    from sase.compiler.core.catalog import Catalog
    from sase.compiler.languages.front_end import Parsed

EXAMPLES = """\
examples:
  sase compile shoplifting.sase --catalog retail.toml -o job.py
  sase run shoplifting.sase --catalog retail.toml --events events.parquet
  sase run -q "EVENT SEQ(login a, !purchase p, logout z) WHERE [user] WITHIN 1 hour" --events clicks.jsonl
  sase run shoplifting.sase --events SHELF-READING=shelves.csv --events EXIT-READING=exits.csv
  sase run shoplifting.sase --stream --events incoming/ --out matches/ --checkpoint ckpt/ --max-delay "10 minutes"
  sase explain shoplifting.sase --catalog retail.toml
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
        if command is _run and arguments.stream:
            return _run(arguments)  # a stream listens for Ctrl-C by itself
        return interruptible(lambda: command(arguments))
    except SaseError as error:
        print(error, file=sys.stderr)
    except (CatalogError, OptionError, SaseRunError) as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 1


# ---- commands -----------------------------------------------------------------------------------


def _compile(arguments: argparse.Namespace) -> int:
    query = _query(arguments)
    if arguments.output is None:
        sys.stdout.write(query.job)
        return 0
    output = Path(arguments.output)
    try:
        output.write_text(query.job, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{output} cannot be written: {error.strerror}") from None
    more = " --checkpoint CHECKPOINT --max-delay DELAY" if arguments.stream else ""
    print(f"wrote {output}: run it with  spark-submit {output} --events EVENTS --out MATCHES{more}", file=sys.stderr)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from sase.runtime.arguments import stream_options

    if arguments.stream and arguments.html:
        raise OptionError("--html shows a run that has ended, and a stream does not end")
    if not arguments.stream and (idle := stream_options(arguments)):
        raise OptionError(f"{', '.join(idle)}: for streams, and this is none without --stream")
    query = interruptible(lambda: _query(arguments))
    starting()
    bound, module = query.compiled.query, query.module
    name = Path(bound.filename).stem
    if arguments.stream:
        from sase.runtime.stream.job import run_stream

        state = getattr(module, "STATE", None)
        with _placed(bound):
            return run_stream(
                module.follow, module.read, module.SOURCE, arguments, bound.stream, name=name, state=state
            )
    from sase.outlook import warning
    from sase.runtime.io.inputs import open_events
    from sase.runtime.job import run_job

    if text := warning(query, lambda: open_events(arguments, module.SOURCE, bound.stream)):
        print(f"warning: {text}", file=sys.stderr)
    with _placed(bound):
        status = run_job(module.find_matches, module.SOURCE, arguments, bound.stream, name=name)
    if arguments.html:
        _report(arguments, query)
    return status


@contextmanager
def _placed(query: BoundQuery) -> Iterator[None]:
    """What fails in an expression of the query is shown there."""
    try:
        yield
    except SaseRunError as error:
        from sase.places import placed

        raise placed(error, query) from error


def _explain(arguments: argparse.Namespace) -> int:
    query = _query(arguments)
    sys.stdout.write(query.explain())
    stages: Sequence[Stage] = ()
    if arguments.analyze:
        starting()
        from sase.analysis.stages import table
        from sase.runtime.io.inputs import open_events

        events = open_events(arguments, query.module.SOURCE, query.compiled.query.stream)
        stages = query.stages(events)
        sys.stdout.write("\nWhat got through\n" + table(stages))
    if arguments.html:
        _report(arguments, query, stages)
    return 0


def _report(arguments: argparse.Namespace, query: Query, stages: Sequence[Stage] | None = None) -> None:
    """Writes --html: without stages, of the matches."""
    from sase.pictures.picture import write
    from sase.pictures.report import report
    from sase.runtime.errors import explained
    from sase.runtime.io.inputs import open_events

    events = None
    if stages is None:
        events = open_events(arguments, query.module.SOURCE, query.compiled.query.stream)
    with explained():
        write(arguments.html, report(query, stages or (), events))
    print(f"wrote {arguments.html}", file=sys.stderr)


def _check(arguments: argparse.Namespace) -> int:
    from sase.compiler.languages.sase.front_end import read

    catalog = _catalog(arguments)
    if catalog.types is None:
        print("note: no catalog, so types and attributes are not checked", file=sys.stderr)
    failed, parameters = 0, set[str]()
    for name in arguments.queries:
        try:
            parsed = read(_read(name), name)
            parameters |= parsed.parameters
            parsed.bind(catalog)
        except SaseError as error:
            failed += 1
            print(error, end="\n\n", file=sys.stderr)
    if failed:
        print(f"{failed} of {len(arguments.queries)} queries have errors", file=sys.stderr)
        return 1
    _refuse_unknown(arguments, parameters)
    return 0


def _statistics(arguments: argparse.Namespace) -> int:
    starting()
    from sase.analysis.statistics import describe, statistics
    from sase.api import compile
    from sase.compiler.languages.sase.front_end import read
    from sase.runtime.errors import explained
    from sase.runtime.io.inputs import read_as_is

    catalog = _catalog(arguments)
    tables = read_as_is(arguments, catalog.types or ())
    with explained():
        parsed = [read(_read(name), name) for name in arguments.query]
        _refuse_unknown(arguments, {name for query in parsed for name in query.parameters})
        found = statistics(tables, [compile(query, catalog, events=tables) for query in parsed], catalog)
    try:
        found.save(arguments.output)
    except OSError as error:
        raise OptionError(f"{arguments.output} cannot be written: {error.strerror}") from None
    sys.stdout.write(describe(found))
    print(f"wrote {arguments.output}: use it with  sase compile QUERY --statistics {arguments.output}", file=sys.stderr)
    return 0


def _test(arguments: argparse.Namespace) -> int:
    from sase.testing import Case, cases_in, outcomes

    started = time.perf_counter()
    cases: list[Case] = []
    broken = 0
    for name in arguments.files:
        try:
            found = cases_in(_read(name), name)
        except (SaseError, OptionError) as error:
            broken += 1
            print(error if isinstance(error, SaseError) else f"error: {error}", end="\n\n", file=sys.stderr)
            continue
        cases += found
        if not found:
            print(f"note: {name} has no test", file=sys.stderr)
    if not cases and not broken:
        raise OptionError("there is no test: a test is a comment,  /* test: TITLE given EVENTS matches MATCHES */")
    _refuse_unknown(arguments, {name for case in cases for name in case.query.parameters})
    failed = []
    if cases:
        starting()
        from sase.runtime.session import session

        results = outcomes(cases, _catalog(arguments), session("sase", arguments.verbose))
        failed = [outcome for outcome in results if not outcome.passed]
        print("".join(f"{outcome}\n\n" for outcome in failed), end="")
    parts = [f"{len(cases)} test{'' if len(cases) == 1 else 's'}", f"{len(failed)} failed" if failed else "all passed"]
    parts += [f"{broken} of {len(arguments.files)} files cannot be read"] if broken else []
    print(" · ".join([*parts, duration(time.perf_counter() - started)]))
    return 1 if failed or broken else 0


def _init(arguments: argparse.Namespace) -> int:
    output = None if arguments.output is None else Path(arguments.output)
    if output is not None and output.exists():
        raise OptionError(f"{output} exists, and may have been edited: remove it, or choose another -o")
    starting()
    from sase.analysis.draft import draft
    from sase.compiler.core.catalog import Catalog
    from sase.runtime.errors import explained
    from sase.runtime.io.inputs import read_as_is

    keys = ("time", "time_unit", "time_format", "type", "order")
    given = {key: value for key in keys if (value := getattr(arguments, key)) is not None}
    tables = read_as_is(arguments)
    with explained():
        found = draft(tables, Catalog(**given), given)
    text = found.toml(" ".join(arguments.events))
    if output is None:
        sys.stdout.write(text)
        return 0
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{output} cannot be written: {error.strerror}") from None
    catalog = found.catalog
    columns = f"time {catalog.time}, type {catalog.type}" + (f", order {catalog.order}" if catalog.order else "")
    print(f"wrote {output}: {len(found.events)} event types; {columns}", file=sys.stderr)
    return 0


# ---- from arguments to a query ------------------------------------------------------------------


def _read(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise OptionError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OptionError(f"{name} is not UTF-8 text") from None


def _catalog(arguments: argparse.Namespace) -> Catalog:
    from sase.compiler.core.catalog import Catalog

    catalog = Catalog.load(arguments.catalog) if arguments.catalog else Catalog()
    columns = {key: value for key in ("time", "type", "order") if (value := getattr(arguments, key)) is not None}
    if arguments.time_unit or arguments.time_format:
        columns |= {"time_unit": arguments.time_unit, "time_format": arguments.time_format}
    return replace(catalog, **columns, parameters={**catalog.parameters, **_parameters(arguments)})


def _parameters(arguments: argparse.Namespace) -> dict[str, object]:
    return dict(_parameter(text) for text in arguments.param)


def _parameter(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise OptionError(f"--param takes NAME=VALUE, not {text!r}")
    return name, _value(value)


_ITEM = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^,]*))\s*(,|\Z)")


def _value(text: str) -> object:
    """A number or a text; with commas, a list of them. What stands in 'quotes' is one text, whatever it is."""
    values, at, several = list[object](), 0, False
    while at < len(text):
        item = _ITEM.match(text, at)
        assert item is not None, "the second alternative takes anything"
        values.append(_plain(item[2].strip()) if item[1] is None else item[1].replace("''", "'"))
        at, several = item.end(), several or item[3] == ","
    return values if several else values[0] if values else ""


def _plain(text: str) -> object:
    for reader in (int, float):
        try:
            return reader(text)
        except ValueError:
            continue
    return text


def _refuse_unknown(arguments: argparse.Namespace, known: Collection[str]) -> None:
    for name in _parameters(arguments):
        if name not in known:
            clue = did_you_mean(name, known, "there are") or "there are none"
            raise OptionError(f"--param {name}: the query has no parameter {{{name}}}: {clue}")


def _query(arguments: argparse.Namespace) -> Query:
    if html := getattr(arguments, "html", None):
        from sase.pictures.picture import require

        require()  # rather now than after the run
        if not Path(html).absolute().parent.is_dir():
            raise OptionError(f"--html {html}: there is no folder {Path(html).parent}")
    from sase.api import compile, with_schema
    from sase.compiler.plan.rules import NAMES

    parsed = _parsed(arguments)
    _refuse_unknown(arguments, parsed.parameters)
    catalog = _catalog(arguments)
    if catalog.types is None:
        if not arguments.events and parsed.stream:
            arguments.events = [parsed.stream]
        if not arguments.events:
            raise OptionError(
                "no event types are known: add --catalog FILE, or --events to read the schema from the data"
            )
        starting()
        from sase.runtime.io.inputs import read_columns

        written = bool(catalog.time_unit or catalog.time_format)
        columns = read_columns(arguments, parsed.types, catalog.time, catalog.type, written)
        catalog = with_schema(catalog, parsed, columns)
    return compile(
        parsed,
        catalog,
        statistics=arguments.statistics,
        disable=NAMES if arguments.basic else arguments.disable,
        **_strategy(arguments),
        standalone=getattr(arguments, "standalone", False),
        stream=getattr(arguments, "stream", False),
    )


def _parsed(arguments: argparse.Namespace) -> Parsed:
    from sase.compiler.languages.sase.front_end import read

    if (arguments.query is None) == (arguments.inline is None):
        raise OptionError("the query is a file, or its text with -q: give one of them")
    if arguments.inline is not None:
        return read(arguments.inline, "query.sase")
    return read(_read(arguments.query), arguments.query if arguments.query != "-" else "stdin.sase")


# ---- the parser ---------------------------------------------------------------------------------


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
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)
    for name, help, run, fill in (
        ("compile", "write the PySpark job of a query", _compile, _compile_arguments),
        ("run", "compile a query and run it", _run, _run_arguments),
        ("explain", "show the logical and the physical plan", _explain, _explain_arguments),
        ("check", "report errors only; exit code 1 if there are any", _check, _check_arguments),
        ("test", "test queries with the events and matches written beside them", _test, _test_arguments),
        ("init", "draw up a catalog from the events: their types, and the columns of each", _init, _init_arguments),
        ("statistics", "measure what the optimiser should know of the events", _statistics, _statistics_arguments),
    ):
        command = commands.add_parser(
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
    _query_argument(command)
    command.add_argument("-o", "--output", metavar="FILE", help="where to write the job (default: standard output)")
    command.add_argument(
        "--standalone", action="store_true", help="carry the runtime inside: the cluster then needs no sase"
    )
    command.add_argument("--stream", action="store_true", help="a job for Structured Streaming")
    _catalog_arguments(command)
    _events_argument(command, "read the schema from there when no catalog is given")
    _plan_arguments(command)


def _run_arguments(command: argparse.ArgumentParser) -> None:
    from sase.runtime.arguments import add_arguments, add_stream_arguments

    _query_argument(command)
    command.add_argument(
        "--stream", action="store_true", help="follow the events as they come, with Structured Streaming"
    )
    _catalog_arguments(command)
    add_arguments(command)
    add_stream_arguments(command)
    _html_argument(command, "write a page with the pattern, the plan and the matches in time")
    _plan_arguments(command)


def _explain_arguments(command: argparse.ArgumentParser) -> None:
    _query_argument(command)
    command.add_argument(
        "--analyze", action="store_true", help="run the query and show what got through each step, and what did not"
    )
    _html_argument(command, "write a page with the pattern and the plan; with --analyze, what got through each step")
    _catalog_arguments(command)
    _events_argument(command, "read the schema from there when no catalog is given")
    _plan_arguments(command)


def _check_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("queries", metavar="QUERY", nargs="+", help="query files")
    _catalog_arguments(command)


def _test_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "files", metavar="FILE", nargs="+", help="query files with tests in comments, or Markdown with blocks of both"
    )
    command.add_argument("--verbose", action="store_true", help="show Spark's own log")
    _catalog_arguments(command)


def _init_arguments(command: argparse.ArgumentParser) -> None:
    from sase.runtime.arguments import add_format_arguments

    command.add_argument(
        "events", metavar="[TYPE=]EVENTS", nargs="+", help="Parquet, JSON lines, CSV or Delta, a directory, or a table"
    )
    command.add_argument("-o", "--output", metavar="FILE", help="TOML file to write (default: standard output)")
    command.add_argument("--time", metavar="COLUMN", help="time column (default: guessed by name and type)")
    _time_form_arguments(command)
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
    add_format_arguments(command)
    command.add_argument("--verbose", action="store_true", help="show Spark's own log")
    _catalog_arguments(command)


def _query_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", nargs="?", help="query file, or - for standard input")
    parser.add_argument("-q", dest="inline", metavar="TEXT", help="the query itself, in place of a file")


def _events_argument(parser: argparse.ArgumentParser, help: str) -> None:
    from sase.runtime.arguments import add_format_arguments

    parser.add_argument("--events", metavar="[TYPE=]PATH", action="append", default=[], help=help)
    add_format_arguments(parser)
    parser.set_defaults(verbose=False)


def _html_argument(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--html", metavar="FILE", help=help)


def _catalog_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("catalog")
    group.add_argument("--catalog", metavar="FILE", help="TOML file with the event types and their attributes")
    group.add_argument("--time", metavar="COLUMN", help="time column (default: the catalog's, or ts)")
    _time_form_arguments(group)
    group.add_argument("--type", metavar="COLUMN", help="type column (default: the catalog's, or type)")
    group.add_argument("--order", metavar="COLUMN", help="tie-breaker column for events at one time")
    group.add_argument(
        "--param",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="value of {NAME}, or of WITHIN NAME; a list has commas: ids=1,2,3",
    )


def _time_form_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--time-unit", choices=("s", "ms", "us", "ns"), help="the time is a number of these since 1970")
    parser.add_argument(
        "--time-format", metavar="PATTERN", help="the time is a text, such as 'dd.MM.yyyy HH:mm:ss'; iso is one, too"
    )


def _plan_arguments(parser: argparse.ArgumentParser) -> None:
    from sase.compiler.plan.rules import NAMES
    from sase.compiler.plan.strategy import CONSTRUCTIONS, EQUIVALENCES, NEGATIONS, PARALLELISMS, PLACES

    group = parser.add_argument_group("plan", "These change how the query is evaluated, never its answer.")
    group.add_argument(
        "--statistics", metavar="FILE", help="what `sase statistics` measured: choose by it (default: stated defaults)"
    )
    group.add_argument(
        "--disable", metavar="RULE", action="append", default=[], help=f"switch a rule off: {', '.join(NAMES)}"
    )
    group.add_argument("--basic", action="store_true", help="the paper's basic plan: all rules off")
    group.add_argument("--negation", choices=NEGATIONS, default="auto", help="how negated components are evaluated")
    group.add_argument(
        "--slice", metavar="LENGTH", default="auto", help="time slices: auto, off, or a length as '8 days'"
    )
    group.add_argument(
        "--partitions", metavar="N", type=int, help="number of shuffle partitions (default: Spark's choice)"
    )
    group.add_argument(
        "--strategy",
        metavar="NAME=VALUE,…",
        action="append",
        default=[],
        help=f"force a choice of the optimiser: construction={'|'.join(CONSTRUCTIONS)}, "
        f"equivalence={'|'.join(EQUIVALENCES)} (pais:ATTRIBUTE says which one partitions), "
        f"negation_place={'|'.join(PLACES)}, bucket=auto|LENGTH, parallel={'|'.join(PARALLELISMS)}",
    )


def _strategy(arguments: argparse.Namespace) -> dict[str, Any]:
    from sase.compiler.plan.strategy import parse_strategy

    strategy: dict[str, Any] = {
        "negation": arguments.negation,
        "slice": arguments.slice,
        "partitions": arguments.partitions,
    }
    for text in arguments.strategy:
        strategy.update(parse_strategy(text))
    return strategy
