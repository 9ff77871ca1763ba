"""CSV as people have it: how it is written is said once, and lines that are none are rejected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sase
from sase.cli import main

CLICKS = """\
view;1;1
view;2;2
###
buy;3;1;twice
buy;4
view;5;3;"a;b"
"buy";6;2
view;7;NA
return;x;"1"
buy;8;3
"""
QUERY = "EVENT SEQ(view v, buy b) WHERE v.id = b.id AND v.id IN {wanted} RETURN v.id, b.ts"


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    (tmp_path / "clicks.csv").write_text(CLICKS)
    return tmp_path


def test_how_csv_is_written_is_said_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To `sase init`; from then on the catalog says it: to `sase run`, to jobs and to Python. The line `return;x;"1"`
    is of no type of the query, and whatever is wrong with it is nobody's concern."""
    events, written = str(folder / "clicks.csv"), folder / "drafted.toml"
    form = ["--delimiter", ";", "--null", "NA", "--header", "type,ts,id"]
    assert main(["init", events, *form, "--type", "type", "--time", "ts", "-o", str(written)]) == 0
    csv = '[csv]\ndelimiter = ";"\nnull = "NA"\nheader = ["type", "ts", "id"]\n'
    assert csv in written.read_text()
    (folder / "c.toml").write_text(csv + "".join(f"[types.{name}]\n{TYPES}" for name in ("view", "buy")))
    capsys.readouterr()
    given = ["--catalog", str(folder / "c.toml"), "--events", events, "--late-out", str(folder / "late")]
    given += ["--out", "-", "--out-format", "csv"]
    assert main(["run", "-q", QUERY, "--param", "wanted=2,3", *given]) == 0
    out, err = capsys.readouterr()
    assert out == "id,ts\n2,6\n"
    assert f"rejected: 4 events that cannot be read; see {folder}/late\n" in err
    late = [json.loads(line) for part in (folder / "late").glob("*.json") for line in part.read_text().splitlines()]
    assert {(each["reason"], each["record"]) for each in late} == {
        ("cannot be read", line) for line in ("###", "buy;3;1;twice", "buy;4", 'view;5;3;"a;b"')
    }
    catalog = sase.Catalog.load(folder / "c.toml")
    query = sase.compile(QUERY, catalog, parameters={"wanted": [1, 2, 3]})
    assert 'csv=Csv(delimiter=";", null="NA", header=("type", "ts", "id")),' in query.job
    assert [tuple(row) for row in query.run(events).collect()] == [(2, 6)]


TYPES = "ts = 'bigint'\nid = 'bigint'\n"


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        ("delimeter = ';'", "csv has no 'delimeter': did you mean delimiter?"),
        ("header = 'a,b'", 'header of csv must list the names of the columns, such as ["type", "ts", "id"]'),
        ("null = 0", "null of csv must be a text"),
    ],
)
def test_csv_that_is_not_well_described(tmp_path: Path, csv: str, message: str) -> None:
    catalog = tmp_path / "c.toml"
    catalog.write_text(f"[csv]\n{csv}\n[types.A]\nid = 'int'")
    with pytest.raises(sase.CatalogError) as error:
        sase.Catalog.load(catalog)
    assert str(error.value) == f"{catalog}: {message}"
