"""A micro-batch that is repeated after a crash is written once, whatever was there of it."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sase
from sase.runtime.io import delta
from sase.runtime.stream.sink import Places, Sink
from sase.runtime.stream.watch import Options

QUERY = sase.compile("EVENT A x RETURN x.id", sase.Catalog(types={"A": {"ts": "bigint", "id": "bigint"}}), stream=True)


def write(spark: SparkSession, folder: Path, format: str, batch: int, ids: list[int]) -> Sink:
    """As a process does that has just started, and knows nothing of an earlier one."""
    rows = [("A", 1, number) for number in ids] + [("A", None, -number) for number in ids]
    stream = QUERY.module.follow(spark.createDataFrame(rows, "type string, ts bigint, id bigint"), Options())
    arguments = Namespace(checkpoint=str(folder / "checkpoint"), limit=None)
    sink = Sink(stream, spark, arguments, Places(str(folder / "out"), format, str(folder / "late")), resumed=False)
    sink.write(stream.packed, batch)
    return sink


def written(spark: SparkSession, folder: Path, format: str) -> tuple[list[int], list[int]]:
    """The numbers of matches and of rejected events."""
    matches = spark.read.format(format).load(str(folder / "out")).select("id").collect()
    rejected = spark.read.json(str(folder / "late")).select("event.id").collect()
    return sorted(row["id"] for row in matches), sorted(-row["id"] for row in rejected)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text(json.dumps({"id": "the checkpoint's"}))
    return tmp_path


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_batch_is_written_once(spark: SparkSession, folder: Path, format: str) -> None:
    delta.provide(spark)
    for batch, ids in ((0, [1, 2]), (0, [1, 2]), (1, [1])):
        assert write(spark, folder, format, batch, ids).rejected == len(ids)
    assert written(spark, folder, format) == ([1, 1, 2], [1, 1, 2]), "1 is in both batches"


def test_what_was_not_finished_is_written_anew(spark: SparkSession, folder: Path) -> None:
    for place, text in (("out", "no Parquet"), ("late", '{"id": 99}')):
        (folder / place / "_unfinished" / "0").mkdir(parents=True)
        (folder / place / "_unfinished" / "0" / f"part-0.{place}").write_text(text)
    assert write(spark, folder, "parquet", 0, [1, 2]).matches == 2
    assert written(spark, folder, "parquet") == ([1, 2], [1, 2])
