"""The types of expressions are those of Spark, or not claimed to be known: the kernel compares what they promise."""

from __future__ import annotations

from itertools import product

import pytest
from ansi import ansi_mode
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import sase
from sase.compiler.core import scalars

KINDS = {
    **{"t": "tinyint", "i": "int", "l": "bigint", "f": "float", "d": "double", "dc": "decimal(10,2)"},
    **{"s": "string", "dy": "date", "tm": "timestamp"},
}
OF_ONE = [
    "abs",
    "ceil",
    "floor",
    "round",
    "sqrt",
    "sign",
    "length",
    "octet_length",
    "ascii",
    "upper",
    "lower",
    "trim",
    "reverse",
    "year",
    "month",
    "day",
    "dayofweek",
    "hour",
    "minute",
    "weekofyear",
    "unix_timestamp",
    "unix_micros",
    "date",
    "hash",
    "negative",
    "md5",
    "last_day",
]
OF_TWO = [
    "coalesce",
    "greatest",
    "least",
    "nvl",
    "ifnull",
    "nullif",
    "datediff",
    "date_add",
    "pow",
    "mod",
    "instr",
    "left",
    "right",
    "repeat",
    "concat",
    "shiftleft",
    "hypot",
    "levenshtein",
    "trunc",
    "date_trunc",
]
OTHERS = [
    *("i+i", "i*l", "t*t", "t+i", "i/i", "i DIV t", "i%l", "d+f", "f+f", "-t", "i+f", "l+d", "i+1.5", "d+1.5"),
    *("i-2147483648", "l+-2147483648", "t+5", "3000000000", "9223372036854775808", "-9223372036854775808"),
    *("coalesce(i, 0)", "coalesce(l, NULL)", "round(i, -1)", "if(i > 1, t, i)", "CASE WHEN i > 1 THEN t ELSE i END"),
]


@pytest.mark.parametrize("ansi", [True, False])
def test_types_are_those_of_spark(spark: SparkSession, ansi: bool) -> None:
    table = spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in KINDS.items()))
    catalog = sase.Catalog(types={"A": {"ts": "bigint", **KINDS}})
    expressions = [f"{name}({column})" for name, column in product(OF_ONE, KINDS)]
    pairs = [*zip(KINDS, KINDS, strict=True), ("t", "i"), ("i", "f"), ("l", "d"), ("i", "dc"), ("dy", "i"), ("s", "i")]
    expressions += [f"{name}({one}, {other})" for name, (one, other) in product(OF_TWO, pairs)]
    expressions += OTHERS
    claimed: dict[str, str] = {}
    for text in expressions:
        try:
            compiled = sase.compile(f"EVENT A x RETURN {text} AS r", catalog).compiled.query
        except sase.SaseError:
            continue
        assert compiled.returns is not None
        kind = scalars.infer(compiled.returns[0].value, [])
        if scalars.family(kind) not in (scalars.Family.ANY, scalars.Family.INTERVAL):
            claimed[text] = scalars.type_sql(kind)
    found: dict[str, str] = {}
    with ansi_mode(spark, ansi):
        for text in claimed:
            try:
                ((_, found[text]),) = table.selectExpr(text).dtypes
            except AnalysisException:
                continue
    assert len(found) > 150
    assert {text: claimed[text] for text in found} == found
