"""Text → SASE's syntax tree. Two of the three rules that differ are here: chains of `=`, and names that stand alone."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import combinations
from typing import cast

from lark import Token, UnexpectedInput
from sqlglot import exp

from sase.compiler.core.arrivals import KINDS
from sase.compiler.core.errors import Diagnostic, did_you_mean
from sase.compiler.core.names import Parameter
from sase.compiler.core.results import Results
from sase.compiler.core.spans import at
from sase.compiler.languages.sase.grammar import parser_of
from sase.compiler.languages.sase.parser import Builder, Link, parse_as
from sase.compiler.languages.sase.syntax import Component, Name, Not, Part, Query, Seq, components
from sase.compiler.languages.sase.syntax_errors import EXPECTED, explained
from sase.compiler.languages.sase.tokens import Node, extent


def parse(text: str, filename: str = "<query>") -> Query:
    builder, parser = _Builder(), parser_of("vdms_pq", "vdms_pq/grammar.lark")
    return parse_as(builder, builder.query, parser, partial(_syntax_error, text=text), text, filename)


class _Builder(Builder):
    variables: frozenset[str] = frozenset()
    negated: frozenset[str] = frozenset()
    """The negated variables, in lower case."""

    def query(self, tree: Node, text: str, filename: str) -> Query:
        parts, *clauses = cast(list[Node], tree.children)
        listed = tuple(self.listed(cast(Node, part)) for part in parts.children)
        self.variables = _variables(listed)
        self.negated = _variables(each for each in listed if isinstance(each, Not))
        found = {clause.data: clause for clause in clauses}
        where, within, returns = (found.get(name) for name in ("where", "within", "return"))
        return Query(
            text=text,
            filename=filename,
            stream=None,
            pattern=Seq(tuple(map(Part, listed)), extent(parts)) if len(listed) > 1 else listed[0],
            where=self.expression(cast(Node, where.children[0])) if where else None,
            within=self.window(within) if within else None,
            timed_out=None,
            consume=None,
            strategy=None,
            after_match=None,
            returns=self.returns(returns) if returns else None,
            into=self.into(tree),
            span=extent(parts),
        )

    def listed(self, tree: Node) -> Component | Not:
        (event,) = cast(list[Node], tree.children)
        variable, kind = cast(list[Node], event.children)
        types = [kind] if kind.data == "type" else [part for part in kind.children if not isinstance(part, Token)]
        component = Component(
            types=tuple(self.event_type(part) for part in types),
            every=not types,
            variable=self.name(variable),
            repeated=None,
            span=extent(event),
        )
        return Not(component, extent(tree)) if tree.data == "not_listed" else component

    def bare(self, name: Name) -> exp.Expr:
        """A name alone is a value that is given with the query, such as SOME_ERR."""
        if name.text.lower() in self.variables:
            self.found.append(
                Diagnostic(f"{name.text} is an event, and no value", name.span, f"name an attribute: {name.text}.speed")
            )
        return Parameter(this=at(exp.Identifier(this=name.text, quoted=True), name.span))

    def call(self, tree: Node) -> exp.Expr:
        """`avg(y.speed)` is over what is in results: there is nothing else that it could be over."""
        call = super().call(tree)
        match call:
            case exp.Anonymous(expressions=[of]) if call.name.lower() in KINDS:
                return Results(this=of.copy(), kind=call.name.lower())
        return call

    def links(self, operators: list[type[exp.Binary]], operands: list[exp.Expr]) -> Iterable[Link]:
        """`a = b = c` ties all of them: through a negated `b` alone, `a` and `c` would not be tied.

        Two negated ones are tied by the others, and nothing else could tie them: each stands for itself.
        """
        if len(operators) == 1 or any(operator is not exp.EQ for operator in operators):
            return super().links(operators, operands)
        return [(exp.EQ, *pair) for pair in combinations(operands, 2) if not all(map(self.is_negated, pair))]

    def is_negated(self, operand: exp.Expr) -> bool:
        return any(column.table.lower() in self.negated for column in operand.find_all(exp.Column))


def _variables(listed: Iterable[Component | Not]) -> frozenset[str]:
    """In lower case."""
    return frozenset(part.variable.text.lower() for each in listed for part in components(each) if part.variable)


_CLAUSES = ("PATTERN", "WHERE", "WITHIN", "RETURN")
_WORDS = {**EXPECTED, "COLON": ":", "NOT": "NOT", "ANY": "ANY", **{clause: clause for clause in _CLAUSES}}


def _syntax_error(error: UnexpectedInput, text: str) -> Diagnostic:
    return explained(error, text, _WORDS, _help)


def _help(token: Token, expected: list[str], text: str) -> str | None:
    if "PATTERN" in expected:
        return "a query is PATTERN x:A, NOT(y:B), z:ANY(C, D) [WHERE …] [WITHIN …] [RETURN …] [INTO name]"
    if str(token).upper() in (*_CLAUSES, "EVENT", "FROM"):
        return "the clauses come in the order PATTERN, WHERE, WITHIN, RETURN, each at most once"
    if expected == ["("] and text[: token.start_pos or 0].upper().split()[-1:] == ["NOT"]:
        return "what is negated stands in parentheses, NOT(y:START)"
    if ":" in expected:
        return "the variable stands before the type, x:START"
    near = did_you_mean(str(token), [word for word in expected if word.isupper()])
    return near if near.startswith("did you mean") else None
