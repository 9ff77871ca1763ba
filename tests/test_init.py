"""`sase init`: the catalog that the events themselves tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sase
from sase.cli import main

CLICKS = [
    {"at": "2026-03-02T09:00:00Z", "kind": "view", "user": 7, "page": "/home", "seq": 1},
    {"at": "2026-03-02T09:01:00Z", "kind": "view", "user": 7, "page": "/cart", "seq": 2},
    {"at": "2026-03-02T09:02:00Z", "kind": "add to cart", "user": 7, "tags": ["new"], "seq": 3, "price": 2.5},
    {"at": "2026-03-02T09:03:00Z", "kind": None, "user": 8, "seq": 4},
]
DRAFT = """\
# The event types of {}/clicks.jsonl, as found in 3 events.
time = "at"
type = "kind"
order = "seq"

[types.view]  # 2 events
at = "timestamp"
page = "string"
seq = "bigint"
user = "bigint"

[types."add to cart"]  # 1 event
at = "timestamp"
price = "double"
seq = "bigint"
tags = "array<string>"
user = "bigint"
"""


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    (tmp_path / "clicks.jsonl").write_text("".join(json.dumps(click) + "\n" for click in CLICKS))
    return tmp_path


def test_each_type_has_the_columns_that_are_not_always_null(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", f"{folder}/clicks.jsonl"]) == 0
    assert capsys.readouterr().out == DRAFT.format(folder)


def test_what_is_written_is_a_catalog_and_is_never_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clicks, written = str(folder / "clicks.jsonl"), str(folder / "clicks.toml")
    assert main(["init", clicks, "-o", written, "--order", "user"]) == 0
    assert capsys.readouterr().err == f"wrote {written}: 2 event types; time at, type kind, order user\n"
    catalog = sase.Catalog.load(written)
    assert (catalog.time, catalog.type, catalog.order) == ("at", "kind", "user")
    assert catalog.types is not None and "page" not in catalog.types["add to cart"]
    query = sase.compile("EVENT SEQ(view v, `add to cart` a) WHERE [user] RETURN v.page, a.price", catalog)
    assert sorted(tuple(row) for row in query.run(clicks).collect()) == [("/cart", 2.5), ("/home", 2.5)]
    assert main(["init", clicks, "-o", written]) == 1
    assert capsys.readouterr().err == (
        f"error: {written} exists, and may have been edited: remove it, or choose another -o\n"
    )


@pytest.mark.parametrize(
    ("time", "options", "entry"),
    [
        (1_772_442_000_123, [], '{ column = "ts", unit = "ms" }'),
        (1_772_442_000, [], '{ column = "ts", unit = "s" }'),
        (12, [], '"ts"'),
        (12, ["--time-unit", "s"], '{ column = "ts", unit = "s" }'),
        ("2.3.2026 9:00", ["--time", "ts", "--time-format", "d.M.yyyy H:mm"],
         '{ column = "ts", format = "d.M.yyyy H:mm" }'),
    ],
)  # fmt: skip
def test_times_that_are_numbers_or_texts(
    folder: Path, capsys: pytest.CaptureFixture[str], time: object, options: list[str], entry: str
) -> None:
    (folder / "odd.jsonl").write_text(json.dumps({"ts": time, "type": "A"}) + "\n")
    assert main(["init", f"{folder}/odd.jsonl", "-o", f"{folder}/odd.toml", *options]) == 0, capsys.readouterr().err
    assert f"time = {entry}\n" in (folder / "odd.toml").read_text()
    kind = "bigint" if entry == '"ts"' else "timestamp"
    assert sase.Catalog.load(folder / "odd.toml").types == {"A": {"ts": kind}}
    query = sase.compile("EVENT A x", sase.Catalog.load(folder / "odd.toml"))
    assert query.run(f"{folder}/odd.jsonl").count() == 1


def test_one_table_per_type(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "sales.csv").write_text("day,amount\n2026-03-02,5\n2026-03-03,6\n")
    assert main(["init", f"SALE={folder}/sales.csv"]) == 0
    assert capsys.readouterr().out.endswith('[types.SALE]  # 2 events\nday = "date"\namount = "int"\n')


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (
            {"a": 1, "b": "x"},
            [],
            "nothing tells which column is the time: add --time COLUMN, of a (bigint), b (string)",
        ),
        ({"ts": 1, "x": "a", "y": "b"}, [], "nothing tells which column is the type: add --type COLUMN, of x, y"),
        ({"ts": 1, "x": "a"}, ["--time", "when"], "there is no column when: there are ts, x"),
        ({"ts": 1, "type": None}, [], "there are no events to find event types in"),
    ],
)  # fmt: skip
def test_what_cannot_be_guessed_is_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str], content: dict[str, object], options: list[str], message: str
) -> None:
    (folder / "odd.jsonl").write_text(json.dumps(content) + "\n")
    assert main(["init", f"{folder}/odd.jsonl", *options]) == 1
    assert capsys.readouterr().err == f"error: {message}\n"
