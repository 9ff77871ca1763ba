"""Which statements run on a stream, and why the others do not.

A row pattern must say when a match is decided, and the rest of the statement must go from row to row: a stream has no
end at which something could be counted or sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from sase.compiler.core.errors import Diagnostic, SaseError, Span
from sase.compiler.core.rows import Anchor, Concat, Either, Exclude, Node, Permute, Repeat, RowClause
from sase.compiler.plan.rows import place
from sase.compiler.plan.statement import PlannedStatement, PlannedView, used_by

_AT_REST = "leave it out, or run the statement on tables at rest"
_PER_ROW = "write the matches somewhere, and ask that table"


def refuse_on_stream(statement: PlannedStatement) -> None:
    """Raises all that keeps the statement from running on a stream."""
    whole = Span(0, max(len(statement.text.rstrip()), 1))
    if not statement.views:
        message = "there is no MATCH_RECOGNIZE: a stream of plain SQL is Spark's own"
        found = [Diagnostic(message, whole, "give the text to spark.sql, over a streaming view")]
    elif len(statement.views) > 1:
        found = [_second(statement)]
    else:
        (view,) = statement.views
        found = [*_of_clause(view.plan.clause), *_of_queries(statement, view, whole)]
    if found:
        raise SaseError(found, statement.text, statement.filename)


def _second(statement: PlannedStatement) -> Diagnostic:
    """Why there is one clause: of two, one reads the matches of the other, or both stand side by side."""
    second = statement.views[1]
    if any(used_by(view.reads, statement.views) for view in statement.views):
        message = "a stream has one MATCH_RECOGNIZE: matches come when they are decided, and no longer in order"
        return Diagnostic(
            message, second.plan.clause.span, "write the matches of one clause somewhere, and follow them with another"
        )
    return Diagnostic(
        "a stream has one MATCH_RECOGNIZE: a second one would read the stream again, tell of late rows twice, and find "
        "its matches at other times",
        second.plan.clause.span,
        "run a statement for each clause, with an output and a checkpoint of its own, and unite or join these",
    )


def streamed_table(view: PlannedView) -> str | None:
    """The table that a clause follows: the one that its FROM begins with. None where that is no table."""
    tree: exp.Expr = view.reads
    known = {cte.alias.lower(): cte for cte in tree.find_all(exp.CTE)}
    while True:
        source = tree.args.get("from_")
        inner = source.this if source is not None else None
        if isinstance(inner, exp.Subquery):
            tree = inner.this
        elif isinstance(inner, exp.Table) and not inner.db and inner.name.lower() in known:
            tree = known.pop(inner.name.lower()).this
        else:
            return ".".join(part.name for part in inner.parts) if isinstance(inner, exp.Table) and inner.name else None


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


def _of_queries(statement: PlannedStatement, view: PlannedView, whole: Span) -> Iterator[Diagnostic]:
    followed = streamed_table(view)
    if followed is None:
        yield Diagnostic("a clause on a stream reads a table", view.plan.clause.span, "name one in FROM")
        return
    for tree, source in ((view.reads, followed), (statement.query, view.marker)):
        yield from _not_per_row(tree, source, whole)
    for table in statement.query.find_all(exp.Table):
        if table.name.lower() == followed.lower() and table.name != view.marker:
            yield Diagnostic(f"{followed} is a stream, and is read once", place(table, whole), _PER_ROW)


def _not_per_row(tree: exp.Query, source: str, whole: Span) -> Iterator[Diagnostic]:
    for node in tree.walk():
        if isinstance(node, exp.SetOperation):
            yield Diagnostic("a stream has no UNION, INTERSECT or EXCEPT", place(node, whole), _PER_ROW)
        elif isinstance(node, exp.Select):
            for name, words in _WORDS.items():
                if part := node.args.get(name):
                    yield Diagnostic(f"{words} needs all rows, and a stream has no end", place(part, whole), _PER_ROW)
        elif isinstance(node, exp.AggFunc | exp.Window) and not isinstance(node.parent, exp.Window):
            what = "a window function" if isinstance(node, exp.Window) else "an aggregate"
            yield Diagnostic(f"{what} needs all rows, and a stream has no end", place(node, whole), _PER_ROW)
        elif isinstance(node, exp.Join):
            yield from _of_join(node, source, whole)


def _of_join(join: exp.Join, source: str, whole: Span) -> Iterator[Diagnostic]:
    """The other side of a join is at rest: what is joined to each row does not depend on the others."""
    if join.side.upper() in ("RIGHT", "FULL"):
        message = f"{join.side.upper()} JOIN needs all rows, and a stream has no end"
        yield Diagnostic(message, place(join, whole), "use JOIN or LEFT JOIN, with the table at rest on the right")
    for table in join.this.find_all(exp.Table):
        if table.name.lower() == source.lower():
            message = "a stream stands on the left of a join, and a table at rest on the right"
            yield Diagnostic(message, place(table, whole), "let FROM begin with the stream")
