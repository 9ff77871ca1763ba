"""Which statements run on a stream, how their clauses follow it, and why the others do not.

A row pattern must say when a match is decided, and the rest of the statement must go from row to row: a stream has no
end at which something could be counted or sorted. So every SELECT begins FROM a stream: a clause from tables, or from
the matches of other clauses, and what is around the clauses from their matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.core.rows import Anchor, Concat, Either, Exclude, Node, Permute, Repeat, RowClause
from sase.compiler.plan.row_sources import Sources, full_name, leading
from sase.compiler.plan.row_times import Unfit, lag
from sase.compiler.plan.rows import RowPlan, place
from sase.compiler.plan.statement import Followed, PlannedRows, PlannedStatement, PlannedView, Read, printed

_AT_REST = "leave it out: a greedy loop takes all rows up to the end of its window; or run it on tables at rest"
_PER_ROW = "write the matches somewhere, and ask that table"


def on_stream(statement: PlannedStatement) -> PlannedStatement:
    """The statement with how each clause follows its stream. Raises all that keeps it from running on one."""
    whole = Span(0, max(len(statement.text.rstrip()), 1))
    found: list[Diagnostic] = []
    if not statement.views:
        message = "there is no MATCH_RECOGNIZE: a stream of plain SQL is Spark's own"
        found.append(Diagnostic(message, whole, "give the text to spark.sql, over a streaming view"))
    followed: list[Followed] = []
    for view in statement.views:
        found += _of_clause(view.plan.clause)
        try:
            followed.append(_followed(view, statement.views, followed))
        except Unfit as error:
            found.append(error.diagnostic)
            followed.append(Followed(()))
    found += _of_queries(statement, followed, whole)
    if found:
        raise SaseError(found, statement.text, statement.filename)
    return _telling(replace(statement, followed=tuple(followed)))


def final_views(statement: PlannedStatement) -> list[PlannedView]:
    """The clauses whose matches are read by what is around them, and not by other clauses alone."""
    names = {table.name for table in statement.query.find_all(exp.Table)}
    return [view for view in statement.views if view.marker in names]


def _followed(view: PlannedView, views: Sequence[PlannedView], earlier: Sequence[Followed]) -> Followed:
    """What a clause follows: the tables that its FROM leads to, matches of other clauses, or both."""
    clause = view.plan.clause
    known = {other.marker: at for at, other in enumerate(views)}
    sources = [source for source, _ in leading(view.reads)]
    if not all(isinstance(source, exp.Table) and source.name for source in sources):
        raise Unfit(Diagnostic("a clause on a stream reads a table", clause.span, "name one in FROM"))
    tables = tuple(dict.fromkeys(full_name(source) for source in sources if source.name not in known))
    time = clause.order[0].expression if clause.order else None
    if not any(source.name in known for source in sources):
        return Followed(tables)
    if not isinstance(time, exp.Column):
        return Followed(tables)  # no stream is followed so, and that has been said
    apart = Sources.of(view, views)
    times = apart.times(time.name)
    behind = 0
    for source, origin in zip(apart.found, times, strict=True):
        if isinstance(source, Read):
            before = earlier[known[source.view.marker]].behind
            behind = max(behind, before + lag(time, origin, view.plan, source.view.plan))
        elif not isinstance(origin, int):
            message = "rows of a table beside matches go by the same column as these: which one that is, nobody knows"
            help = "name the columns in each SELECT of the UNION ALL, and hand the time on as it is"
            raise Unfit(Diagnostic(message, place(time, clause.span), help))
    beside = apart.apart(times, sum(len(each.beside) for each in earlier))
    inner = tuple(source for source in apart.found if isinstance(source, Read))
    return Followed(tables, inner, beside, view.reads if len(times) == 1 else apart.reads, behind)


def _telling(statement: PlannedStatement) -> PlannedStatement:
    """Of the clauses that read the same rows by the same time, one tells which came too late: with the columns that
    they remember, all of them."""
    final, tellers = final_views(statement), list[PlannedView | PlannedRows]()
    read = {view.marker for view in final}  # without common table expressions that nobody reads
    for view, followed in reversed(list(zip(statement.views, statement.followed, strict=True))):
        if view.marker in read:
            read |= {each.view.marker for each in followed.inner}
            tellers += followed.beside
    groups: dict[tuple[str, str], list[int]] = {}
    for at, (view, followed) in enumerate(zip(statement.views, statement.followed, strict=True)):
        if not followed.inner and view.marker in read:
            key = (printed(view.reads, ()), view.plan.order[0].column.lower())
            groups.setdefault(key, []).append(at)
    late: dict[int, tuple[str, ...] | None] = {}
    for group in groups.values():
        whole = [at for at in group if statement.views[at].plan.shown != "one row"]
        choice = whole or group
        teller = next((at for at in choice if statement.views[at] in final), choice[0])
        late |= dict.fromkeys(group, ())
        columns = [name for at in group for name in _remembered(statement.views[at].plan)]
        late[teller] = None if whole or len(group) == 1 else tuple(dict.fromkeys(columns))
        if statement.views[teller] not in final:
            tellers.append(statement.views[teller])
    told = (replace(each, late=late.get(at)) for at, each in enumerate(statement.followed))
    return replace(statement, followed=tuple(told), tellers=tuple(tellers))


def _remembered(plan: RowPlan) -> Iterator[str]:
    """The user's columns of a row that a clause with one row per match keeps."""
    assert plan.worker is not None
    shifts = [shift.column for shift in plan.worker.shifts.values()]
    ours = {*plan.computed, *plan.terms, *plan.worker.shifts}
    for name in (*plan.by, *(key.column for key in plan.order), *(each.column for each in plan.looked_up), *shifts):
        if name is not None and name not in ours:
            yield name


def _of_clause(clause: RowClause) -> Iterator[Diagnostic]:
    if clause.within is None:
        for loop in _endless(clause.pattern):
            yield Diagnostic(
                "a stream needs WITHIN, or a pattern of bounded length: this may go on for ever, and the state with it",
                loop.quantifier,
                "write  WITHIN INTERVAL '10' MINUTE  behind PATTERN, or an upper bound such as {1,100}",
            )
    for anchor in _anchors(clause.pattern):
        if anchor.sign == "$":
            message = "a partition of a stream has no last row: the next one may always come"
            yield Diagnostic(message, anchor.span, _AT_REST)
    first = clause.order[0] if clause.order else None
    if first is None or first.descending or not isinstance(first.expression, exp.Column):
        yield Diagnostic(
            "a stream is followed in the order of time: ORDER BY must begin with a column of times or whole numbers, "
            "ascending",
            clause.span if first is None else place(first.expression, clause.span),
            "put the time first in ORDER BY; compute it in a subquery before the clause, if it is no column",
        )


def _endless(node: Node) -> Iterator[Repeat]:
    if isinstance(node, Repeat) and node.high is None:
        yield node
        return
    for part in _parts(node):
        yield from _endless(part)


def _anchors(node: Node) -> Iterator[Anchor]:
    if isinstance(node, Anchor):
        yield node
    for part in _parts(node):
        yield from _anchors(part)


def _parts(node: Node) -> Sequence[Node]:
    match node:
        case Repeat(part=part) | Exclude(part=part):
            return (part,)
        case Concat(parts=parts) | Either(parts=parts) | Permute(parts=parts):
            return parts
        case _:
            return ()


_WORDS: dict[str, str] = {
    "group": "GROUP BY",
    "having": "HAVING",
    "distinct": "DISTINCT",
    "order": "ORDER BY",
    "sort": "SORT BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "qualify": "QUALIFY",
}


def _of_queries(statement: PlannedStatement, followed: Sequence[Followed], whole: Span) -> Iterator[Diagnostic]:
    if not statement.views:
        return
    tables = {name.lower() for each in followed for name in each.tables}
    clauses = {view.marker: view.plan.clause.span for view in statement.views}
    for view in statement.views:
        yield from _not_per_row(view.reads, whole)
        yield from _not_first(view.reads, tables, clauses, whole)
    yield from _not_per_row(statement.query, whole)
    elsewhere = list(_not_first(statement.query, tables, clauses, whole))
    yield from elsewhere or _around(statement.query, tables, clauses, whole)


def _around(query: exp.Query, tables: set[str], clauses: Mapping[str, Span], whole: Span) -> Iterator[Diagnostic]:
    """What is around the clauses begins with their matches, each of them once."""
    read: set[str] = set()
    for source, way in leading(query):
        if source.name not in clauses:
            message = "this would come with every micro-batch: each SELECT around the clauses begins FROM one of them"
            if full_name(source).lower() in tables:
                message = f"{full_name(source)} is a stream, and only clauses read it"
            yield Diagnostic(message, place(source, whole), f"leave it out, or {_PER_ROW}")
        elif source.name in read:
            message = "the matches of a clause are read once on a stream"
            yield Diagnostic(message, place(way[0], whole), "make one SELECT of both, or write the clause twice")
        read.add(source.name)


def _not_first(tree: exp.Query, tables: set[str], clauses: Mapping[str, Span], whole: Span) -> Iterator[Diagnostic]:
    """Streams that stand elsewhere than where FROM begins: on the right of a join, or in a condition."""
    ctes = {cte.alias.lower(): cte for cte in tree.find_all(exp.CTE)}
    begins = list(leading(tree))
    inside = [way for cte in ctes.values() for _, way in leading(cte.this)]
    first = {id(node) for way in (*(way for _, way in begins), *inside) for node in way}
    of_matches = any(source.name in clauses for source, _ in begins)

    def streams(table: exp.Table, seen: frozenset[str] = frozenset()) -> Iterator[exp.Table]:
        name = full_name(table).lower()
        if name in ctes and name not in seen:
            for each in ctes[name].this.find_all(exp.Table):
                yield from streams(each, seen | {name})
        elif name in tables or name in clauses:
            yield table

    for table in tree.find_all(exp.Table):
        found = [] if id(table) in first else list(streams(table))
        if not found:
            continue
        message = "a stream stands where FROM begins, and nowhere else"
        help = f"let FROM begin with the stream; or {_PER_ROW}"
        if table.find_ancestor(exp.Join):
            message = "a stream stands on the left of a join, and a table at rest on the right"
            if of_matches and found[0].name in clauses:
                message = "matches of two clauses come at times of their own, and a stream does not join them"
                help = "let another clause look for both in a UNION ALL of them; or write them to two tables, with a "
                help += "statement for each clause, and join these"
        yield Diagnostic(message, clauses.get(table.name) or place(table, whole), help)


def _not_per_row(tree: exp.Query, whole: Span) -> Iterator[Diagnostic]:
    for node in tree.walk():
        if isinstance(node, exp.SetOperation) and (not isinstance(node, exp.Union) or node.args.get("distinct")):
            words = "UNION" if isinstance(node, exp.Union) else type(node).__name__.upper()
            message = f"{words} compares all rows, and a stream has no end"
            yield Diagnostic(message, place(node, whole), "UNION ALL goes from row to row; or " + _PER_ROW)
        elif isinstance(node, exp.Query):
            for name, words in _WORDS.items():
                if part := node.args.get(name):
                    yield Diagnostic(f"{words} needs all rows, and a stream has no end", place(part, whole), _PER_ROW)
        elif isinstance(node, exp.AggFunc | exp.Window) and not isinstance(node.parent, exp.Window):
            what = "a window function" if isinstance(node, exp.Window) else "an aggregate"
            yield Diagnostic(f"{what} needs all rows, and a stream has no end", place(node, whole), _PER_ROW)
        elif isinstance(node, exp.Join) and node.side.upper() in ("RIGHT", "FULL"):
            message = f"{node.side.upper()} JOIN needs all rows, and a stream has no end"
            yield Diagnostic(message, place(node, whole), "use JOIN or LEFT JOIN, with the table at rest on the right")
