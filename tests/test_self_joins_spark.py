"""Self-joins of SQL in real Spark: as patterns and as they stand, they give the same rows under the same names."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from self_joins import random_rows, random_statement

import sase
from sase.cli import main
from sase.runtime.errors import SaseRunError
from sase.runtime.session import STEADY

START = datetime(2026, 3, 1)

STATEMENTS = [
    # Names that are written in another way, bare, or made by Spark; a query inside; an order by an output.
    """SELECT A.K, b.Id, b.t - a.t, upper(a.kind) FROM ev a, ev b WHERE a.k = B.k AND a.T < b.t AND b.t < a.t + 5
       AND a.v + b.v > 2 AND a.k IN (SELECT k FROM other) ORDER BY id""",
    "SELECT * FROM ev a JOIN ev b USING (k) WHERE b.ts BETWEEN a.ts AND a.ts + INTERVAL 2 HOURS AND a.ts <> b.ts",
    """SELECT id, z, row_number() OVER (ORDER BY id, z, w) AS n FROM ev JOIN other
       ON ev.k = other.k AND w - t BETWEEN 1 AND 4""",
    # Times that are rounded, local, or dates; several times of one table.
    """SELECT a.id, b.id FROM ev a, ev b WHERE a.k = b.k
       AND unix_timestamp(b.ts) - unix_timestamp(a.ts) BETWEEN 60 AND 9000
       AND timestampdiff(MINUTE, a.ts, b.ts) < 100 AND datediff(b.ts, a.ts) = 0""",
    "SELECT a.id, b.id FROM ev a JOIN ev b ON abs(a.ts - b.ts) <= INTERVAL 30 MINUTES AND a.kind = b.kind",
    "SELECT a.id, count(*) FROM ev a, ev b WHERE a.id <> b.id AND datediff(b.d, a.d) BETWEEN 0 AND 2 GROUP BY a.id",
    "SELECT a.id, b.id FROM ev a, ev b WHERE a.ts < b.until AND b.until < a.ts + INTERVAL 1 HOUR AND a.k = b.k",
    # Absence and presence: before, behind and between; in a common table expression; beside a join that stays.
    """WITH x AS (SELECT k, t AS w, v, id FROM ev WHERE kind = 'A')
       SELECT p.* FROM x p
       WHERE v > 0 AND NOT EXISTS (SELECT 1 FROM ev q WHERE p.k = q.k AND p.w < q.t AND q.t < p.w + 5)
       UNION ALL SELECT p.* FROM x p LEFT SEMI JOIN other o ON o.k = p.k AND o.w < p.w AND o.w >= p.w - 3""",
    # Existence: one match is enough of each row, or of each key; not so where Spark decides about matches.
    "SELECT DISTINCT a.id, a.v FROM ev a, ev b WHERE a.k = b.k AND a.t < b.t AND b.t < a.t + 5 AND a.v <> b.v",
    """SELECT DISTINCT b.k FROM ev a, ev b, ev c WHERE a.k = b.k AND b.k = c.k
       AND a.t < b.t AND b.t < c.t AND c.t < a.t + 6""",
    """SELECT DISTINCT b.k FROM ev a, ev b LEFT ANTI JOIN other n ON n.k = a.k AND n.w > a.t AND n.w < b.t
       WHERE a.k = b.k AND b.t - a.t BETWEEN 1 AND 6 AND b.v IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM ev m WHERE m.k = b.k AND m.t >= a.t AND m.t < b.t AND m.kind = 'C')""",
]


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> None:
    random = Random(3)
    rows = []
    for k, t, kind, v, d, at in random_rows(random, 40):
        ts = None if random.random() < 0.1 else START + timedelta(minutes=random.randrange(600))
        until = None if ts is None else ts + timedelta(minutes=random.randrange(90))
        rows.append((k, t, kind, v, None if d is None else date.fromisoformat(d), at, ts, until))
    schema = "k int, t bigint, kind string, v int, d date, id int, ts timestamp, until timestamp"
    spark.createDataFrame(rows, schema).createOrReplaceTempView("ev")
    spark.createDataFrame(
        [row[:4] for row in rows[::2]], "k int, w bigint, kind string, z int"
    ).createOrReplaceTempView("other")


def test_the_rows_are_those_of_spark_s_own_joins(spark: SparkSession) -> None:
    """Many statements in two jobs: each row comes as JSON, with the number of its statement."""
    randomly = [random_statement(Random(9_000 + number)) for number in range(2)]
    parts: dict[str, list[DataFrame]] = {"always": [], "never": []}
    for number, text in enumerate([*STATEMENTS, *randomly]):
        patterns, own = (sase.compile_sql(text, joins=joins) for joins in parts)
        planned = patterns.compiled.statement
        assert planned.joins or number >= len(STATEMENTS), f"{text}: {planned.left}"
        one, other = patterns.run(), own.run()
        assert one.dtypes == other.dtypes, text
        for rows, found in ((one, parts["always"]), (other, parts["never"])):
            named = rows.toDF(*(f"c{at}" for at in range(len(rows.columns))))
            packed = F.to_json(F.struct(*named.columns), {"ignoreNullFields": "false"})
            found.append(named.select(F.concat(F.lit(f"{number} "), packed).alias("row")))
    counted = []
    for frames in parts.values():
        union = frames[0]
        for frame in frames[1:]:
            union = union.unionAll(frame)
        counted.append(Counter(row.row for row in union.collect()))
    assert counted[0] == counted[1]
    assert {row.partition(" ")[0] for row in counted[0]} >= {str(number) for number in range(len(STATEMENTS))}


def test_the_command_line_explains_and_verifies(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.table("ev").coalesce(1).write.parquet(str(tmp_path / "ev"))
    query = tmp_path / "query.sql"
    query.write_text("SELECT a.id, b.id AS other FROM ev a, ev b WHERE a.k = b.k AND a.t < b.t AND b.t < a.t + 5")
    given = [str(query), "--table", f"ev={tmp_path / 'ev'}", "--joins", "always"]
    assert main(["explain", *given]) == 0
    assert "{matches}: a join in the order of time, which runs as a pattern\n" in capsys.readouterr().out
    assert main(["run", *given, "--verify"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("verified: the same ") and said.endswith(
        " with one join as a pattern and with Spark's own\n"
    )
    assert main(["explain", str(query), "--joins", "never"]) == 0
    assert "Spark runs the statement as it stands" in capsys.readouterr().out


def test_a_wrong_answer_would_be_noticed(spark: SparkSession) -> None:
    statement = sase.compile_sql("SELECT a.id FROM ev a, ev b WHERE a.t < b.t AND b.t < a.t + 3", joins="always")
    statement.own.module.query = lambda spark, options=None: spark.sql("SELECT id FROM ev LIMIT 3")  # type: ignore[attr-defined]
    found = statement.verify()
    assert not found.same and str(found) == f"the rows differ: {found.rows:,} with patterns, 3 with Spark's own joins"


def test_a_job_for_steady_clocks_says_so_elsewhere(spark: SparkSession) -> None:
    statement = sase.compile_sql(
        "SELECT a.id FROM ev a, ev b WHERE a.ts < b.ts AND b.ts - a.ts < INTERVAL 1 HOUR", joins="always"
    )
    assert statement.compiled.statement.joins
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with pytest.raises(SaseRunError, match="clocks that never change, and those of Europe/Berlin may"):
            statement.run()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_which_zones_have_steady_clocks() -> None:
    assert all(map(STEADY.fullmatch, ["UTC", "Etc/UTC", "GMT", "+02:00", "UTC-3", "Z"]))
    assert not any(map(STEADY.fullmatch, ["Europe/Berlin", "America/New_York", "CET", "Etc/GMT+1x", ""]))
