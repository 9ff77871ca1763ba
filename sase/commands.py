"""What the commands of the command line do. Each loads what it needs, and returns the exit code."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sase.arguments import catalog_of, is_sql, query_of, read_text, refuse_unknown, statement_of
from sase.compiler.core.errors import OptionError, SaseError
from sase.runtime.arguments import csv_given
from sase.runtime.interrupt import interruptible
from sase.runtime.io.report import duration, starting

if TYPE_CHECKING:
    from sase.analysis.stages import Stage
    from sase.api import Query
    from sase.compiler.languages.front_end import Parsed
    from sase.queries import Queries
    from sase.statement import Statement


def compile(arguments: argparse.Namespace) -> int:
    more = " --checkpoint CHECKPOINT --max-delay DELAY" if arguments.stream else ""
    if statement := statement_of(arguments):
        given = "".join(f" --table {name}=PATH" for name in statement.compiled.statement.tables)
        return _write(statement.job, arguments.output, f"{given} --out MATCHES{more}")
    query = query_of(arguments, reads_events=False)
    return _write(query.job, arguments.output, f" --events EVENTS --out MATCHES{more}")


def _write(job: str, place: str | None, options: str) -> int:
    if place is None:
        sys.stdout.write(job)
        return 0
    output = Path(place)
    try:
        output.write_text(job, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{output} cannot be written: {error.strerror}") from None
    print(f"wrote {output}: run it with  spark-submit {output}{options}", file=sys.stderr)
    return 0


def run(arguments: argparse.Namespace) -> int:
    from sase.runtime.arguments import stream_options

    if arguments.stream and arguments.html:
        raise OptionError("--html shows a run that has ended, and a stream does not end")
    if not arguments.stream and (idle := stream_options(arguments)):
        raise OptionError(f"{', '.join(idle)}: for streams, and this is none without --stream")
    if statement := interruptible(lambda: statement_of(arguments)):
        starting()
        planned = statement.compiled.statement
        name = Path(planned.filename).stem
        if arguments.stream:
            from sase.runtime.stream.sql import run_sql_stream

            module = statement.module
            return run_sql_stream(module.follow, arguments, name=name, streams=planned.streams, state=module.STATE)
        from sase.runtime.sql import run_sql

        if arguments.verify:
            return _verify(statement, arguments, name)
        status = run_sql(statement.module.query, arguments, name=name, ordered=planned.ordered)
        if arguments.html:
            _report_sql(arguments, statement, matches=True)
        return status
    query = interruptible(lambda: query_of(arguments))
    starting()
    from sase.queries import Queries

    if isinstance(query, Queries):
        return _run_all(arguments, query)
    bound, module = query.compiled.query, query.module
    name = Path(bound.filename).stem
    if arguments.stream:
        from sase.places import placed
        from sase.runtime.stream.job import run_stream

        state = getattr(module, "STATE", None)
        with placed(bound):
            return run_stream(
                module.follow, module.read, module.SOURCE, arguments, bound.stream, name=name, state=state
            )
    from sase.outlook import warning
    from sase.places import placed
    from sase.runtime.io.inputs import open_events
    from sase.runtime.job import run_job

    if text := warning(query, lambda: open_events(arguments, module.SOURCE, bound.stream)):
        print(f"warning: {text}", file=sys.stderr)
    with placed(bound):
        kernel = hasattr(module, "PATTERN")
        status = run_job(module.find_matches, module.SOURCE, arguments, bound.stream, name=name, kernel=kernel)
    if arguments.html:
        _report(arguments, query)
    return status


def _verify(statement: Statement, arguments: argparse.Namespace, name: str) -> int:
    from sase.runtime.sql import open_tables

    if arguments.out or arguments.limit:
        raise OptionError("--verify compares the rows, and shows or writes none: leave --out and --limit out")
    open_tables(arguments, name)
    if not statement.compiled.statement.joins:
        print("nothing to verify: no join runs as a pattern (sase explain says why)", file=sys.stderr)
        return 0
    found = statement.verify()
    print(found if found.same else f"error: {found}", file=sys.stderr)
    return 0 if found.same else 1


def _run_all(arguments: argparse.Namespace, queries: Queries) -> int:
    """Several queries, each with a place for its results."""
    composition, module = queries.compiled.composition, queries.module
    name = Path(composition.filename).stem
    with queries.explained():
        if arguments.stream:
            from sase.runtime.stream.composed import run_streams

            return run_streams(
                module.follow_all, module.read, module.SOURCE, arguments, composition.stream, name=name,
                states=module.STATES,
            )  # fmt: skip
        from sase.runtime.composed import run_all

        status = run_all(module.find_all, module.SOURCE, arguments, composition.stream, name=name)
    if arguments.html:
        _report_all(arguments, queries, {}, matches=True)
    return status


def explain(arguments: argparse.Namespace) -> int:
    if statement := statement_of(arguments):
        return _explain_sql(statement, arguments)
    query = query_of(arguments, reads_events=arguments.analyze)
    from sase.queries import Queries

    if isinstance(query, Queries):
        return _explain_all(arguments, query)
    if arguments.spelled_in is not None:
        _refuse_beside_as(arguments)
        from sase.compiler.languages.sase.spelling import spelled

        sys.stdout.write(spelled(query.compiled.query))
        return 0
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


def _explain_sql(statement: Statement, arguments: argparse.Namespace) -> int:
    sys.stdout.write(statement.explain())
    if arguments.analyze:
        starting()
        from sase.runtime.sql import open_tables

        open_tables(arguments)
        sys.stdout.write("\nWhat got through\n" + statement.analyze())
    if arguments.html:
        _report_sql(arguments, statement, matches=False)
    return 0


def _report_sql(arguments: argparse.Namespace, statement: Statement, matches: bool) -> None:
    from sase.pictures.picture import write
    from sase.pictures.rows import row_report

    write(arguments.html, row_report(statement, matches))
    print(f"wrote {arguments.html}", file=sys.stderr)


def funnel(arguments: argparse.Namespace) -> int:
    from sase.arguments import catalog_for, check_html
    from sase.conversion import Funnel, asked_for, compiled

    if arguments.html:
        check_html(arguments.html)
    by = [name.strip() for name in arguments.by.split(",") if name.strip()]
    asked = asked_for(arguments.steps, by, arguments.within, arguments.breakdown)
    query = compiled(asked, catalog_for(arguments, asked.parsed))
    starting()
    from sase.runtime.io.files import Files
    from sase.runtime.io.inputs import open_events
    from sase.runtime.io.output import format_to_write, publish, there_already

    found = Funnel(asked, query, open_events(arguments, query.module.SOURCE), arguments.breakdown)
    if arguments.out:
        if not arguments.overwrite and Files(found.levels.sparkSession).exists(arguments.out):
            raise there_already(arguments.out, "--out")
        found.levels.persist()  # for the table and for the file
    sys.stdout.write(found.picture.text)
    if arguments.out:
        with query.explained():
            count = publish(found.levels, arguments.out, format_to_write(arguments), arguments.overwrite)
        print(f"wrote {count:,} {'key' if count == 1 else 'keys'} to {arguments.out}", file=sys.stderr)
    if arguments.html:
        found.save(arguments.html)
        print(f"wrote {arguments.html}", file=sys.stderr)
    return 0


def _explain_all(arguments: argparse.Namespace, queries: Queries) -> int:
    if arguments.spelled_in is not None:
        _refuse_beside_as(arguments)
        sys.stdout.write(queries.spelled())
        return 0
    sys.stdout.write(queries.explain())
    counted: dict[str, Sequence[Stage]] = {}
    if arguments.analyze:
        starting()
        from sase.analysis.stages import table
        from sase.runtime.io.inputs import open_events

        counted = queries.stages(open_events(arguments, queries.module.SOURCE, queries.compiled.composition.stream))
        parts = [f"{name}\n{table(stages)}" for name, stages in counted.items()]
        sys.stdout.write("\nWhat got through\n\n" + "\n".join(parts))
    if arguments.html:
        _report_all(arguments, queries, counted, matches=False)
    return 0


def _refuse_beside_as(arguments: argparse.Namespace) -> None:
    if arguments.analyze or arguments.html:
        raise OptionError("--as shows the query in other words, and nothing of its plan: leave the rest out")


def _report_all(
    arguments: argparse.Namespace, queries: Queries, counted: Mapping[str, Sequence[Stage]], matches: bool
) -> None:
    from sase.pictures.picture import write
    from sase.pictures.report import report_all
    from sase.runtime.io.inputs import open_events

    events = None
    if matches:
        events = open_events(arguments, queries.module.SOURCE, queries.compiled.composition.stream)
    with queries.explained():
        write(arguments.html, report_all(queries, counted, events))
    print(f"wrote {arguments.html}", file=sys.stderr)


def _report(arguments: argparse.Namespace, query: Query, stages: Sequence[Stage] | None = None) -> None:
    """Writes --html: without stages, of the matches."""
    from sase.pictures.picture import write
    from sase.pictures.report import report
    from sase.places import placed
    from sase.runtime.io.inputs import open_events

    events = None
    if stages is None:
        events = open_events(arguments, query.module.SOURCE, query.compiled.query.stream)
    with placed(query.compiled.query):
        write(arguments.html, report(query, stages or (), events))
    print(f"wrote {arguments.html}", file=sys.stderr)


def check(arguments: argparse.Namespace) -> int:
    from sase.compiler.composition import read_text as read

    catalog = catalog_of(arguments)
    if catalog.types is None and not all(name.endswith(".sql") for name in arguments.queries):
        print("note: no catalog, so types and attributes are not checked", file=sys.stderr)
    failed, parameters = 0, set[str]()
    for name in arguments.queries:
        try:
            text = read_text(name)
            if not arguments.language and is_sql(text, name):
                from sase.statement import compile_sql

                compile_sql(text, arguments.dialect or "spark", joins="never", filename=name)
                continue
            parsed = read(text, name, arguments.language)
            parameters |= parsed.parameters
            parsed.bind(catalog)
        except SaseError as error:
            failed += 1
            print(error, end="\n\n", file=sys.stderr)
    if failed:
        print(f"{failed} of {len(arguments.queries)} queries have errors", file=sys.stderr)
        return 1
    refuse_unknown(arguments, parameters)
    return 0


def _reads_others(query: Parsed, queries: Sequence[Parsed]) -> bool:
    """Whether its events are, in part, results of others, of which there are no statistics."""
    return any(each.result is not None and each.result.name in query.types for each in queries)


def statistics(arguments: argparse.Namespace) -> int:
    starting()
    from sase.analysis.statistics import describe, statistics
    from sase.api import compile
    from sase.compiler.languages.several import read_all
    from sase.events import csv_of
    from sase.runtime.errors import explained
    from sase.runtime.io.inputs import read_as_is

    catalog = catalog_of(arguments)
    tables = read_as_is(arguments, catalog.types or (), csv_of(catalog))
    with explained():
        files = [read_all(read_text(name), name, arguments.language) for name in arguments.query]
        parsed = [query for queries in files for query in queries if not _reads_others(query, queries)]
        refuse_unknown(arguments, {name for query in parsed for name in query.parameters})
        found = statistics(tables, [compile(query, catalog, events=tables) for query in parsed], catalog)
    try:
        found.save(arguments.output)
    except OSError as error:
        raise OptionError(f"{arguments.output} cannot be written: {error.strerror}") from None
    sys.stdout.write(describe(found))
    print(f"wrote {arguments.output}: use it with  sase compile QUERY --statistics {arguments.output}", file=sys.stderr)
    return 0


def test(arguments: argparse.Namespace) -> int:
    from sase.testing import Case, cases_in, outcomes

    started = time.perf_counter()
    cases: list[Case] = []
    broken = 0
    for name in arguments.files:
        try:
            found = cases_in(read_text(name), name, arguments.language)
        except (SaseError, OptionError) as error:
            broken += 1
            print(error if isinstance(error, SaseError) else f"error: {error}", end="\n\n", file=sys.stderr)
            continue
        cases += found
        if not found:
            print(f"note: {name} has no test", file=sys.stderr)
    if not cases and not broken:
        raise OptionError("there is no test: a test is a comment,  /* test: TITLE given EVENTS matches MATCHES */")
    refuse_unknown(arguments, {name for case in cases for name in case.query.parameters})
    failed = []
    if cases:
        starting()
        from sase.runtime.session import session

        results = outcomes(cases, catalog_of(arguments), session("sase", arguments.verbose, brief=True))
        failed = [outcome for outcome in results if not outcome.passed]
        print("".join(f"{outcome}\n\n" for outcome in failed), end="")
    parts = [f"{len(cases)} test{'' if len(cases) == 1 else 's'}", f"{len(failed)} failed" if failed else "all passed"]
    parts += [f"{broken} of {len(arguments.files)} files cannot be read"] if broken else []
    print(" · ".join([*parts, duration(time.perf_counter() - started)]))
    return 1 if failed or broken else 0


def init(arguments: argparse.Namespace) -> int:
    output = None if arguments.output is None else Path(arguments.output)
    if output is not None and output.exists():
        raise OptionError(f"{output} exists, and may have been edited: remove it, or choose another -o")
    starting()
    from sase.analysis.draft import draft
    from sase.compiler.core.catalog import Catalog, Csv
    from sase.runtime.errors import explained
    from sase.runtime.io.inputs import read_as_is

    keys = ("time", "time_unit", "time_format", "type", "order")
    given = {key: value for key in keys if (value := getattr(arguments, key)) is not None}
    tables = read_as_is(arguments)
    with explained():
        found = draft(tables, Catalog(**given, csv=Csv(**csv_given(arguments))), given)
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
