"""Values of all matches of a group: `RETURN x.id, count(*) AS n, sum(b.v) AS total GROUP BY x.id`."""

from __future__ import annotations

from sqlglot import exp

FUNCTIONS = ("count", "sum", "avg", "min", "max")


class Aggregate(exp.Expression, exp.Condition):
    """`count(*)`, or a function of a value of the events that a variable has in all matches.

    `this` is the function, `expression` the value; without one, matches are counted. `real`: as a double, which may be
    rounded, and cannot become too large.
    """

    arg_types = {"this": True, "expression": False, "real": False}  # noqa: RUF012

    @property
    def value(self) -> exp.Expr | None:
        value: exp.Expr | None = self.args.get("expression")
        return value

    @property
    def real(self) -> bool:
        return bool(self.args.get("real"))

    @property
    def in_spark(self) -> exp.Expr:
        """As Spark aggregates matches."""
        value = self.value
        made: exp.Expr = exp.Anonymous(this=self.this, expressions=[exp.Star() if value is None else value.copy()])
        return exp.cast(made, "double", dialect="spark") if self.real else made


class CountAll(exp.Expression, exp.Condition):
    """`count(*)` in the text: what stands in front of the star, before anybody asks whether it makes sense."""

    arg_types = {"this": True}  # noqa: RUF012
