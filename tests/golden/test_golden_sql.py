"""As `test_golden.py`, for SQL: each folder holds a statement, its tables, the plan, the job and the rows it gives."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from test_golden import as_json, check_matches, check_text

import sase

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/query.sql"))
STREAMS = sorted(path.parent for path in Path(__file__).parent.glob("*/stream.sql"))


def compiled(folder: Path) -> sase.Statement:
    text = (folder / "query.sql").read_text(encoding="utf-8")
    return sase.compile_sql(text, "trino", filename=f"{folder.name}.sql")


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
        tables = json.loads((folder / "tables.json").read_text(encoding="utf-8"), parse_float=Decimal)
        for name, table in tables.items():
            exact = [[Decimal(each) if "decimal" in table["schema"] and at == 2 else each for at, each in enumerate(row)]
                     for row in table["rows"]]  # fmt: skip
            spark.createDataFrame(exact, table["schema"]).createOrReplaceTempView(name)
        rows = compiled(folder).run()
        parts.append(rows.select(F.lit(folder.name).alias("folder"), as_json(rows).alias("json")))
    found = reduce(DataFrame.unionAll, parts).collect()
    for folder in FOLDERS:
        lines = [row["json"] for row in found if row["folder"] == folder.name]
        check_matches(spark, folder / "matches.jsonl", lines, regenerate_golden)
