"""Aggregates that the kernel does not compute: over the array of a match's values, in functions of Spark.

Each is an expression over `vals`, in which `vals` then becomes the array. It is NULL where there is no value, but for
counts.
"""

from __future__ import annotations

from sqlglot import exp, parse_one

CLASSES: dict[type[exp.Expr], str] = {
    exp.AnyValue: "any_value",
    exp.ApproxDistinct: "approx_count_distinct",
    exp.ArgMax: "max_by",
    exp.ArgMin: "min_by",
    exp.ArrayUniqueAgg: "collect_set",
    exp.CountIf: "count_if",
    exp.GroupConcat: "string_agg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Median: "median",
    exp.Stddev: "stddev",
    exp.StddevPop: "stddev_pop",
    exp.StddevSamp: "stddev",
    exp.Variance: "variance",
    exp.VariancePop: "var_pop",
}
TAKES = {"max_by": (2, 2), "min_by": (2, 2), "string_agg": (1, 2)}
"""How many arguments, where it is not one."""

# Mean and squared distances in one pass, as Spark's own aggregates keep them.
_MOMENTS = """aggregate(vals, named_struct('n', 0D, 'mean', 0D, 'squares', 0D),
  (so_far, x) -> named_struct(
    'n', so_far.n + 1D,
    'mean', so_far.mean + (CAST(x AS DOUBLE) - so_far.mean) / (so_far.n + 1D),
    'squares', so_far.squares + power(CAST(x AS DOUBLE) - so_far.mean, 2) * so_far.n / (so_far.n + 1D)),
  so_far -> {})"""
_SAMPLE = "IF(so_far.n < 2, NULL, so_far.squares / (so_far.n - 1D))"
_ALL = "IF(so_far.n = 0, NULL, so_far.squares / so_far.n)"
_MIDDLE = "CAST(sort_array(vals)[{}] AS DOUBLE)"

FORMULAS = {
    "any_value": "get(vals, 0)",
    "approx_count_distinct": "CAST(size(array_distinct(vals)) AS BIGINT)",
    "bool_and": "IF(size(vals) = 0, NULL, forall(vals, x -> x))",
    "bool_or": "IF(size(vals) = 0, NULL, exists(vals, x -> x))",
    "collect_set": "array_distinct(vals)",
    "count_if": "CAST(size(filter(vals, x -> x)) AS BIGINT)",
    "max_by": "array_max(filter(vals, pair -> pair.by_it IS NOT NULL)).it",
    "median": "IF(size(vals) = 0, NULL, "
    f"({_MIDDLE.format('(size(vals) - 1) DIV 2')} + {_MIDDLE.format('size(vals) DIV 2')}) / 2)",
    "min_by": "array_min(filter(vals, pair -> pair.by_it IS NOT NULL)).it",
    "stddev": f"sqrt({_MOMENTS.format(_SAMPLE)})",
    "stddev_pop": f"sqrt({_MOMENTS.format(_ALL)})",
    "string_agg": "IF(size(vals) = 0, NULL, array_join(transform(vals, x -> CAST(x AS STRING)), separator))",
    "var_pop": _MOMENTS.format(_ALL),
    "variance": _MOMENTS.format(_SAMPLE),
}
LABELLED = {
    "array_agg": "vals",
    "count": "CAST(size(vals) AS BIGINT)",
    "max": "array_max(vals)",
    "min": "array_min(vals)",
}
"""Of the variables of rows."""


def over_array(formula: str, array: exp.Expr, separator: exp.Expr | None = None) -> exp.Expr:
    """The formula, with the array in place of `vals`."""
    given = {"vals": array, "separator": separator or exp.Literal.string(",")}

    def put(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name in given:
            return given[node.name].copy()
        return node

    return parse_one(formula, read="spark").transform(put)
