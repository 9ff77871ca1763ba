"""Generated code is reviewed like source: each folder holds a query, its catalog, the plan, the job, events and matches.

`make golden` writes plan, job and matches anew. Matches are what running the job on the events gave, so review them
against the query as you would review code.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from argparse import ArgumentParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

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
    matches = as_json(find(query.module, folder / "events.jsonl", spark, tmp_path))
    if regenerate_golden:
        lines = sorted(row["match"] for row in matches.collect())
        (folder / "matches.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    lines = (folder / "matches.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines, "a golden without a match shows nothing"
    expected = spark.createDataFrame([(line,) for line in lines], "match string")
    assert_df_equality(matches, expected, ignore_row_order=True, ignore_nullable=True)


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


def as_json(matches: DataFrame) -> DataFrame:
    """One column of JSON text a match: readable in a file, and it shows every nested value."""
    return matches.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS match")


def test_goldens_are_well_formed_json() -> None:
    for folder in FOLDERS:
        for line in (folder / "matches.jsonl").read_text(encoding="utf-8").splitlines():
            assert isinstance(json.loads(line), dict)


def test_compiling_twice_gives_the_same_bytes() -> None:
    for folder in FOLDERS:
        assert compiled(folder).job == compiled(folder).job
