"""Common table expressions: which a query sees, and which nobody needs."""

from __future__ import annotations

from sqlglot import exp


def visible(node: exp.Expr, reads: exp.Query) -> list[exp.CTE]:
    """The common table expressions that the query needs, of those of a node, before it and around it."""
    known: dict[str, exp.CTE] = {}
    below: exp.Expr | None = None
    above: exp.Expr | None = node
    while above is not None:
        if isinstance(above, exp.With):
            before = above.expressions[: above.expressions.index(below)]
            known = {**{cte.alias.lower(): cte for cte in before}, **known}
        elif isinstance(above.args.get("with_"), exp.With) and below is not above.args["with_"]:
            known = {**{cte.alias.lower(): cte for cte in above.args["with_"].expressions}, **known}
        below, above = above, above.parent
    needed: dict[str, exp.CTE] = {}
    waiting: list[exp.Expr] = [reads]
    while waiting:
        for table in waiting.pop().find_all(exp.Table):
            name = table.name.lower()
            if not table.db and name in known and name not in needed:
                needed[name] = known[name]
                waiting.append(known[name])
    return [cte.copy() for name, cte in known.items() if name in needed]


def drop_unused(query: exp.Query) -> None:
    """Common table expressions that only a clause needed, which has them now."""
    with_ = query.args.get("with_")
    while with_ is not None:
        used = [table.name.lower() for table in query.find_all(exp.Table) if not table.db]
        idle = [cte for cte in with_.expressions if cte.alias.lower() not in used]
        for cte in idle:
            cte.pop()
        if not with_.expressions:
            with_.pop()
            return
        if not idle:
            return


def defined(table: exp.Expr) -> exp.CTE | None:
    """The common table expression that a name in a query stands for; None if it is that of a table."""
    if not isinstance(table, exp.Table) or table.db:
        return None
    below: exp.Expr = table
    above = table.parent
    while above is not None:
        seen: list[exp.CTE] = []
        with_ = above.args.get("with_")
        if isinstance(above, exp.With):
            seen = above.expressions[: above.expressions.index(below)]
        elif isinstance(with_, exp.With) and below is not with_:
            seen = with_.expressions
        for cte in seen:
            if cte.alias.lower() == table.name.lower():
                return cte
        below, above = above, above.parent
    return None


def doubled(table: exp.Table, cte: exp.CTE, body: exp.Expr, name: str) -> exp.CTE:
    """A common table expression of its own for one of the names that stand for it, with a body that is given."""
    with_ = cte.parent
    assert isinstance(with_, exp.With)
    columns = [each.copy() for each in cte.args["alias"].columns]
    again = exp.CTE(this=body, alias=exp.TableAlias(this=exp.to_identifier(name), columns=columns))
    place = with_.expressions.index(cte) + 1
    with_.set("expressions", [*with_.expressions[:place], again, *with_.expressions[place:]])
    if not table.alias:
        table.set("alias", exp.TableAlias(this=table.this.copy()))
    table.set("this", exp.to_identifier(name))
    return again
