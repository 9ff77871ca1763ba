"""As `test_golden.py`, for SQL: each folder holds a statement, its tables, the plan, the job and the rows it gives."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from test_golden import as_json, check_matches, check_text

import sase
from sase.compiler.compile_sql import Joins, compile_statement
from sase.compiler.languages.sql.aliases import Tables

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/query.sql"))
STREAMS = sorted(path.parent for path in Path(__file__).parent.glob("*/stream.sql"))


def tables_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "tables.json").read_text(encoding="utf-8"), parse_float=Decimal)
    return found


def compiled(folder: Path) -> sase.Statement:
    """Without Spark: DuckDB tells the columns of tables and queries."""
    text, database = (folder / "query.sql").read_text(encoding="utf-8"), duckdb.connect()
    for name, table in tables_of(folder).items():
        declared = [column.split(" ") for column in table["schema"].replace("string", "varchar").split(", ")]
        columns_of = ", ".join(f'"{column}" {kind}' for column, kind in declared)
        database.execute(f"CREATE TABLE {name} ({columns_of})")
    kinds = {"VARCHAR": "string", "INTEGER": "int"}

    def columns(query: str) -> list[tuple[str, str]]:
        found = database.execute(f"DESCRIBE {sqlglot.transpile(query, read='spark', write='duckdb')[0]}").fetchall()
        return [(name, kinds.get(kind, kind.lower())) for name, kind, *_ in found]

    joins = Joins(Tables(columns), always=True)
    return sase.Statement(
        compile_statement(text, f"{folder.name}.sql", "trino", version=sase.__version__, joins=joins)
    )


def value(kind: str, given: Any) -> Any:
    if given is None or not kind.startswith(("timestamp", "decimal", "double")):
        return given
    if kind == "timestamp":
        return datetime.fromisoformat(given)
    return Decimal(given) if kind.startswith("decimal") else float(given)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_plan_and_job_are_as_reviewed(folder: Path, regenerate_golden: bool) -> None:
    statement = compiled(folder)
    check_text(folder / "plan.txt", statement.explain(), regenerate_golden)
    check_text(folder / "job.py", statement.job, regenerate_golden)


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_plan_and_job_of_a_stream_are_as_reviewed(folder: Path, regenerate_golden: bool) -> None:
    text = (folder / "stream.sql").read_text(encoding="utf-8")
    statement = sase.compile_sql(text, "trino", stream=True, filename=f"{folder.name}.sql")
    check_text(folder / "plan.txt", statement.explain(), regenerate_golden)
    check_text(folder / "job.py", statement.job, regenerate_golden)


def test_the_jobs_give_the_rows(regenerate_golden: bool, spark: SparkSession) -> None:
    """All of them in one Spark job."""
    parts = []
    for folder in FOLDERS:
        for name, table in tables_of(folder).items():
            kinds = [column.split(" ")[1] for column in table["schema"].split(", ")]
            rows_of = [[value(kind, each) for kind, each in zip(kinds, row, strict=True)] for row in table["rows"]]
            spark.createDataFrame(rows_of, table["schema"]).createOrReplaceTempView(name)
        rows = compiled(folder).run()
        parts.append(rows.select(F.lit(folder.name).alias("folder"), as_json(rows).alias("json")))
    found = reduce(DataFrame.unionAll, parts).collect()
    for folder in FOLDERS:
        lines = [row["json"] for row in found if row["folder"] == folder.name]
        check_matches(spark, folder / "matches.jsonl", lines, regenerate_golden)
