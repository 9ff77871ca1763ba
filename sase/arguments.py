"""The arguments of the command line that make a query: which there are, and what they come to."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sase.compiler.core.errors import OptionError, did_you_mean
from sase.runtime.arguments import csv_given
from sase.runtime.io.report import starting

if TYPE_CHECKING:
    from sase.api import Query
    from sase.compiler.composition import Composition
    from sase.compiler.core.catalog import Catalog
    from sase.compiler.languages.front_end import Parsed
    from sase.queries import Queries
    from sase.statement import Statement

# ---- which there are ----------------------------------------------------------------------------


def add_query_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", nargs="?", help="query file, or - for standard input")
    parser.add_argument("-q", dest="inline", metavar="TEXT", help="the query itself, in place of a file")
    add_language_argument(parser)


def add_language_argument(parser: argparse.ArgumentParser) -> None:
    from sase.compiler.languages.registry import NAMES

    parser.add_argument("--language", choices=NAMES, help="what a query is written in (default: its first words tell)")


def add_sql_arguments(parser: argparse.ArgumentParser) -> None:
    from sase.runtime.arguments import add_table_argument

    add_table_argument(parser)
    add_dialect_argument(parser)
    parser.add_argument(
        "--joins",
        choices=("auto", "always", "never"),
        help="whether SQL's joins in the order of time run as patterns (default: auto, where that should be faster)",
    )


def add_dialect_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dialect", metavar="NAME", help="the dialect of SQL: trino, snowflake, oracle, … (default: spark)"
    )


def add_events_argument(parser: argparse.ArgumentParser, help: str) -> None:
    from sase.runtime.arguments import add_format_arguments

    parser.add_argument("--events", metavar="[TYPE=]PATH", action="append", default=[], help=help)
    add_format_arguments(parser)
    parser.set_defaults(verbose=False)


def add_html_argument(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--html", metavar="FILE", help=help)


def add_catalog_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("catalog")
    group.add_argument("--catalog", metavar="FILE", help="TOML file with the event types and their attributes")
    group.add_argument("--time", metavar="COLUMN", help="time column (default: the catalog's, or ts)")
    add_time_form_arguments(group)
    group.add_argument("--type", metavar="COLUMN", help="type column (default: the catalog's, or type)")
    group.add_argument("--order", metavar="COLUMN", help="tie-breaker column for events at one time")
    group.add_argument(
        "--param",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="value of {NAME}, or of WITHIN NAME; a list has commas: ids=1,2,3",
    )


def add_time_form_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--time-unit", choices=("s", "ms", "us", "ns"), help="the time is a number of these since 1970")
    parser.add_argument(
        "--time-format", metavar="PATTERN", help="the time is a text, such as 'dd.MM.yyyy HH:mm:ss'; iso is one, too"
    )


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    from sase.compiler.plan.rules import NAMES
    from sase.compiler.plan.strategy import (
        CONSTRUCTIONS,
        EQUIVALENCES,
        NEGATIONS,
        PARALLELISMS,
        PLACES,
        SCANS,
        SORTS,
        TELLINGS,
    )

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
        f"negation_place={'|'.join(PLACES)}, bucket=auto|LENGTH, parallel={'|'.join(PARALLELISMS)}, "
        f"sort={'|'.join(SORTS)}, scan={'|'.join(SCANS)}, arrivals={'|'.join(TELLINGS)}, "
        "roadmap=auto|'((a b)(c d))' (the blocks of a pattern in any order)",
    )


# ---- what they come to --------------------------------------------------------------------------


def read_text(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise OptionError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OptionError(f"{name} is not UTF-8 text") from None


def catalog_of(arguments: argparse.Namespace) -> Catalog:
    from sase.compiler.core.catalog import Catalog

    catalog = Catalog.load(arguments.catalog) if arguments.catalog else Catalog()
    columns = {key: value for key in ("time", "type", "order") if (value := getattr(arguments, key)) is not None}
    if arguments.time_unit or arguments.time_format:
        columns |= {"time_unit": arguments.time_unit, "time_format": arguments.time_format}
    return replace(
        catalog,
        **columns,
        csv=replace(catalog.csv, **csv_given(arguments)),
        parameters={**catalog.parameters, **_parameters(arguments)},
    )


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


def refuse_unknown(arguments: argparse.Namespace, known: Collection[str]) -> None:
    for name in _parameters(arguments):
        if name not in known:
            clue = did_you_mean(name, known, "there are") or "there are none"
            raise OptionError(f"--param {name}: the query has no parameter {{{name}}}: {clue}")


def statement_of(arguments: argparse.Namespace) -> Statement | None:
    """The statement, if the query is SQL: by the name of its file, or by its first word."""
    text, filename = _text(arguments)
    if arguments.language or not is_sql(text, filename):
        if idle := [f"--{name}" for name in ("table", "dialect", "joins", "verify") if getattr(arguments, name, None)]:
            raise OptionError(f"{', '.join(idle)}: for SQL, and this is no SQL")
        return None
    from sase.statement import compile_sql, may_join

    for name in ("events", "catalog", "time", "time_unit", "time_format", "type", "order", "param"):
        if getattr(arguments, name, None):
            option = name.replace("_", "-")
            raise OptionError(f"--{option}: not for SQL, whose tables are those of the session, or given with --table")
    for option, given in _of_patterns(arguments).items():
        if given:
            raise OptionError(f"{option}: not for SQL, where only sort is to be chosen (--strategy sort=spark)")
    filename = f"{filename}.sql" if filename in (INLINE, STDIN) else filename
    stream = getattr(arguments, "stream", False)
    idle = [f"--{name}" for name in ("joins", "verify", "statistics") if getattr(arguments, name, None)]
    if stream and idle:
        raise OptionError(f"{', '.join(idle)}: for joins, and those of a stream are left alone")
    _prepare_html(arguments)
    joins, dialect = arguments.joins or "auto", arguments.dialect or "spark"
    if not stream and joins != "never" and arguments.table and may_join(text, filename, dialect):
        starting()
        from sase.runtime.sql import open_tables

        open_tables(arguments, Path(filename).stem)  # whose columns are looked at
    return compile_sql(
        text,
        dialect,
        joins=joins,
        statistics=arguments.statistics,
        sort=str(_strategies(arguments).get("sort", "auto")),
        standalone=getattr(arguments, "standalone", False),
        stream=stream,
        filename=filename,
    )


def _of_patterns(arguments: argparse.Namespace) -> dict[str, bool]:
    """The options that force something of a pattern's plan, and whether they are given."""
    plan = ("disable", "basic", "partitions")
    given = {f"--{name}": bool(getattr(arguments, name, None)) for name in plan}
    given |= {f"--{name}": getattr(arguments, name, "auto") != "auto" for name in ("negation", "slice")}
    given |= {f"--strategy {name}": name != "sort" for name in _strategies(arguments)}
    return given | {"--as": bool(getattr(arguments, "spelled_in", None))}


def is_sql(text: str, filename: str) -> bool:
    if filename.endswith((".sql", ".sase")):
        return filename.endswith(".sql")
    from sase.compiler.languages.registry import recognised
    from sase.compiler.languages.sql.tokens import looks_like_sql

    return recognised(text).name == "sase" and looks_like_sql(text)  # TelegraphCQ's queries begin like SQL


def query_of(arguments: argparse.Namespace, *, reads_events: bool = True) -> Query | Queries:
    """The query, or the queries of the file.

    Where nothing is read of the events but their schema, a catalog has all that they could tell.
    """
    _prepare_html(arguments)
    from sase.api import compile
    from sase.compiler.plan.rules import NAMES

    parsed = _parsed(arguments)
    catalog = catalog_for(arguments, parsed, reads_events=reads_events)
    return compile(
        parsed,
        catalog,
        statistics=arguments.statistics,
        disable=NAMES if arguments.basic else arguments.disable,
        **_strategy(arguments),
        standalone=getattr(arguments, "standalone", False),
        stream=getattr(arguments, "stream", False),
    )


def catalog_for(arguments: argparse.Namespace, parsed: Parsed | Composition, *, reads_events: bool = True) -> Catalog:
    """The catalog, with the schema of the events where it has no types."""
    from sase.api import with_schema

    refuse_unknown(arguments, parsed.parameters)
    catalog = catalog_of(arguments)
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
        return with_schema(catalog, parsed, columns)
    if arguments.events and not reads_events:
        raise OptionError("--events: the catalog has the schema, and nothing else is read here: leave one of them out")
    return catalog


def check_html(html: str) -> None:
    """Rather now than after the run."""
    from sase.pictures.picture import require

    require()
    if not Path(html).absolute().parent.is_dir():
        raise OptionError(f"--html {html}: there is no folder {Path(html).parent}")


def _prepare_html(arguments: argparse.Namespace) -> None:
    if html := getattr(arguments, "html", None):
        check_html(html)


def _parsed(arguments: argparse.Namespace) -> Parsed | Composition:
    from sase.compiler.composition import read_text as read

    text, filename = _text(arguments)
    return read(text, f"{filename}.sase" if filename in (INLINE, STDIN) else filename, arguments.language)


INLINE, STDIN = "query", "stdin"
"""What a text is called that comes from no file."""


def _text(arguments: argparse.Namespace) -> tuple[str, str]:
    """The query's text, and the name of its file."""
    if (arguments.query is None) == (arguments.inline is None):
        raise OptionError("the query is a file, or its text with -q: give one of them")
    if arguments.inline is not None:
        return arguments.inline, INLINE
    if arguments.query != "-":
        return read_text(arguments.query), arguments.query
    if not hasattr(arguments, "stdin"):
        arguments.stdin = read_text("-")  # which can be read once
    return arguments.stdin, STDIN


def _strategies(arguments: argparse.Namespace) -> dict[str, str | int]:
    """Those of --strategy, which may be given more than once."""
    from sase.compiler.plan.strategy import parse_strategy

    found: dict[str, str | int] = {}
    for text in getattr(arguments, "strategy", None) or ():
        found.update(parse_strategy(text))
    return found


def _strategy(arguments: argparse.Namespace) -> dict[str, Any]:
    strategy: dict[str, Any] = {
        "negation": arguments.negation,
        "slice": arguments.slice,
        "partitions": arguments.partitions,
    }
    return strategy | _strategies(arguments)
