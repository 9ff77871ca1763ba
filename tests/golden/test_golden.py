"""Generated code is reviewed like source: each folder holds a query, its catalog, the plan, the job, events and matches.

`make golden` writes plan and job anew. Matches are an answer, so nothing overwrites them: they are what the judge says,
too, and to change them on purpose (other events, another query), delete `matches.jsonl` first.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from brute_force import evaluate
from chispa import DataFramesNotEqualError, assert_df_equality
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from test_random_queries import canonical

import sase
from sase.compiler.plan.rules import NAMES
from sase.runtime.arguments import add_arguments, add_stream_arguments
from sase.runtime.job import find_inputs, read_events
from sase.runtime.stream.watch import Options

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/query.sase"))


def compiled(folder: Path) -> sase.Query:
    options: dict[str, Any] = {}
    if (folder / "options.toml").exists():
        options = tomllib.loads((folder / "options.toml").read_text())
    if options.get("disable") == "all":
        options["disable"] = NAMES
    return sase.compile(
        (folder / "query.sase").read_text(encoding="utf-8"),
        sase.Catalog.load(folder / "catalog.toml"),
        filename=f"{folder.name}.sase",
        **options,
    )


def check_text(path: Path, text: str, regenerate: bool) -> None:
    if regenerate:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_plan_and_job_are_as_reviewed(folder: Path, regenerate_golden: bool) -> None:
    query = compiled(folder)
    check_text(folder / "plan.txt", query.explain(), regenerate_golden)
    check_text(folder / "job.py", query.job, regenerate_golden)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_job_finds_the_matches(
    folder: Path, regenerate_golden: bool, spark: SparkSession, tmp_path: Path
) -> None:
    query = compiled(folder)
    find = streamed if query.compiled.physical.stream else found
    matches = find(query.module, folder / "events.jsonl", spark, tmp_path)
    rows = matches.select(as_json(matches).alias("json"), F.struct("*").alias("match")).collect()
    text, catalog = (folder / "query.sase").read_text(encoding="utf-8"), sase.Catalog.load(folder / "catalog.toml")
    judged = evaluate(text, catalog, events_of(spark, catalog, folder / "events.jsonl"))
    assert judged, "a golden without a match shows nothing"
    assert Counter(canonical(row["match"].asDict(recursive=True)) for row in rows) == Counter(map(canonical, judged))
    check_matches(spark, folder / "matches.jsonl", [row["json"] for row in rows], regenerate_golden)


def check_matches(spark: SparkSession, path: Path, lines: list[str], regenerate: bool) -> None:
    if regenerate and not path.exists():
        path.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")
    stored = path.read_text(encoding="utf-8").splitlines()
    # In order, and as tables of Arrow: Spark then compares them without a job.
    found, expected = (spark.createDataFrame(pa.table({"match": sorted(each)})) for each in (lines, stored))
    assert_df_equality(found, expected)


def test_matches_are_never_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    check_matches(spark, tmp_path / "matches.jsonl", ['{"x":2}', '{"x":1}'], regenerate=True)
    with pytest.raises(DataFramesNotEqualError):
        check_matches(spark, tmp_path / "matches.jsonl", ['{"x":1}', '{"x":3}'], regenerate=True)
    assert (tmp_path / "matches.jsonl").read_text() == '{"x":1}\n{"x":2}\n'


def events_of(spark: SparkSession, catalog: sase.Catalog, path: Path) -> list[dict[str, Any]]:
    """The events as the catalog has them, whatever of them the job reads."""
    assert catalog.types is not None
    columns = {catalog.type: "string"}
    for declared in catalog.types.values():
        columns.update(declared)
    schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    return [row.asDict(recursive=True) for row in spark.read.schema(schema).json(str(path)).collect()]


def found(job: ModuleType, events: Path, spark: SparkSession, _: Path) -> DataFrame:
    inputs = find_inputs(spark, [str(events)], job.SOURCE.types)
    matches: DataFrame = job.find_matches(read_events(spark, inputs, job.SOURCE))
    return matches


def streamed(job: ModuleType, events: Path, spark: SparkSession, folder: Path) -> DataFrame:
    """What comes out until the last event, which is later than all others and no query's."""
    shutil.copy(events, folder)
    parser = ArgumentParser()
    add_arguments(parser)
    add_stream_arguments(parser)
    arguments = parser.parse_args(["--events", str(folder), "--format", "json"])
    stream = job.follow(job.read(spark, arguments), Options(buckets=2))
    running = stream.matches().writeStream.format("memory").queryName("golden").start()
    running.processAllAvailable()
    running.stop()
    return spark.table("golden")


def as_json(matches: DataFrame) -> Column:
    """JSON text: readable in a file, and it shows every nested value."""
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in matches.columns)), {"ignoreNullFields": "false"})


def test_goldens_are_well_formed_json() -> None:
    for folder in FOLDERS:
        for line in (folder / "matches.jsonl").read_text(encoding="utf-8").splitlines():
            assert isinstance(json.loads(line), dict)


def test_compiling_twice_gives_the_same_bytes() -> None:
    for folder in FOLDERS:
        assert compiled(folder).job == compiled(folder).job
