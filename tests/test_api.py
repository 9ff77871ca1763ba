"""The Python API: events in whatever form they come, and what is said where they do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sase

QUERY = "EVENT SEQ(A x, B y) WHERE [id] WITHIN 10 RETURN x.ts AS since, y.ts, x.id, y.v"
ROWS = [
    {"type": "A", "ts": 1, "id": 1, "v": None},
    {"type": "A", "ts": 2, "id": None, "v": None},
    {"type": "B", "ts": 3, "id": 1, "v": 0.5},
    {"type": "B", "ts": 4, "id": None, "v": None},
    {"type": "B", "ts": 5, "id": 1, "v": None},
]
MATCHES = [(1, 3, 1, 0.5), (1, 5, 1, None)]


@pytest.fixture(scope="module")
def places(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same events in every form, by its name."""
    folder = tmp_path_factory.mktemp("events")
    lines, text = folder / "clicks.jsonl", folder / "clicks.csv"
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    table = pa.Table.from_pylist(
        ROWS, pa.schema({"type": pa.string(), "ts": pa.int64(), "id": pa.int64(), "v": pa.float64()})
    )
    nullable = table.to_pandas().astype({"id": "Int64", "type": "category"})
    nullable.to_csv(text, index=False)
    nullable[nullable.type == "A"].drop(columns="type").to_parquet(folder / "a.parquet")
    spark.createDataFrame(table).createOrReplaceTempView("clicks")
    return {
        "Spark": spark.table("clicks"),
        "pandas": nullable,
        "Arrow": table,
        "a path": lines,
        "a path as text": str(text),
        "a table": "clicks",
        "a mapping": {"A": folder / "a.parquet", None: nullable},
    }


FORMS = ["Spark", "pandas", "Arrow", "a path", "a path as text", "a table", "a mapping"]


@pytest.mark.parametrize("form", FORMS)
def test_events_come_in_any_form(places: dict[str, Any], form: str) -> None:
    events = places[form]
    matches = sase.compile(QUERY, events=events).run(events)
    assert sorted(tuple(row) for row in matches.collect()) == MATCHES


def test_text_is_read_as_the_catalog_declares(places: dict[str, Any]) -> None:
    catalog = sase.Catalog(types={name: {"ts": "bigint", "id": "string", "v": "double"} for name in "AB"})
    matches = sase.compile(QUERY, catalog).run(places["a path"])
    assert [row["id"] for row in matches.collect()] == ["1", "1"]


def test_without_events_those_of_from_are_read(places: dict[str, Any], tmp_path: Path) -> None:
    assert sase.compile(f"FROM clicks {QUERY}").run().count() == 2
    assert sase.compile(f"FROM `{places['a path']}` {QUERY}").run().count() == 2
    with pytest.raises(sase.OptionError, match=r"there are no events: give them to run\(\), or name them with FROM"):
        sase.compile(QUERY, events=places["Spark"]).run()
    with pytest.raises(sase.CatalogError, match="no event types are known"):
        sase.compile(QUERY)
    with pytest.raises(sase.CatalogError, match=r"ANY\(\*\) is an event of any type of the catalog"):
        sase.compile("EVENT ANY(*) x", events=places["Spark"])


def test_pictures_and_statistics_take_them_too(places: dict[str, Any]) -> None:
    query = sase.compile(QUERY, events=places["pandas"])
    assert "matches" in query.analyze(places["Arrow"])
    assert "a1" in repr(sase.stacks(query, places["a path"]))
    assert sase.statistics(places["a path"], [QUERY]).events == len(ROWS)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (3, "events are a DataFrame of Spark or pandas, an Arrow table, a path or the name of a table, and not a int"),
        ("nowhere.jsonl", "there is no file and no table nowhere.jsonl"),
        (pd.DataFrame({"ts": [1, "x"]}), "a column of this pandas DataFrame is of no type of Spark: "),
    ],
)
def test_what_holds_no_events(spark: SparkSession, places: dict[str, Any], events: Any, message: str) -> None:
    query = sase.compile(QUERY, events=places["Spark"])
    with pytest.raises((sase.OptionError, sase.SaseRunError)) as caught:
        query.run(events)
    assert str(caught.value).startswith(message)
