"""As `test_golden.py`, for SQL: each folder holds a statement, its tables, the plan, the job and the rows it gives."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from test_golden import as_json, check_matches, check_text

import sase

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/query.sql"))


def compiled(folder: Path) -> sase.Statement:
    text = (folder / "query.sql").read_text(encoding="utf-8")
    return sase.compile_sql(text, "trino", filename=f"{folder.name}.sql")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_plan_and_job_are_as_reviewed(folder: Path, regenerate_golden: bool) -> None:
    statement = compiled(folder)
    check_text(folder / "plan.txt", statement.explain(), regenerate_golden)
    check_text(folder / "job.py", statement.job, regenerate_golden)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_job_gives_the_rows(folder: Path, regenerate_golden: bool, spark: SparkSession) -> None:
    tables = json.loads((folder / "tables.json").read_text(encoding="utf-8"), parse_float=Decimal)
    for name, table in tables.items():
        exact = [[Decimal(each) if "decimal" in table["schema"] and at == 2 else each for at, each in enumerate(row)]
                 for row in table["rows"]]
        spark.createDataFrame(exact, table["schema"]).createOrReplaceTempView(name)
    rows = compiled(folder).run()
    lines = [row["json"] for row in rows.select(as_json(rows).alias("json")).collect()]
    check_matches(spark, folder / "matches.jsonl", lines, regenerate_golden)
