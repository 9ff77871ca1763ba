"""The front door of a job: what it reads, writes, prints and refuses, with its literal words."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sase
from sase.runtime.arguments import add_arguments
from sase.runtime.errors import explain
from sase.runtime.events import Source
from sase.runtime.io import batches
from sase.runtime.io.files import Files
from sase.runtime.io.inputs import read_columns, split
from sase.runtime.io.report import duration, summary, table
from sase.runtime.job import main
from sase.runtime.rows import Key, RowOrder
from sase.runtime.session import BATCH_BYTES, BATCH_ROWS, BATCHES

SOURCE = Source("ts", "type", None, "integer", {"A": {"id": "bigint"}, "B": {"id": "bigint", "note": "string"}})

EVENTS = [("A", 3, 7, None), ("B", 1, 8, "x"), ("A", 2, 9, None), ("OTHER", 4, 9, None)]
COLUMNS = "type string, ts bigint, id bigint, note string"

CSV = "type,ts,id,note\nA,3,7,\nB,1,8,x\nA,2,9,\nOTHER,4,not a number,\n"
JSON = """\
{"type": "A", "ts": 3, "id": 7}
{"type": "B", "ts": 1, "id": 8, "note": "x"}

{"type": "A", "ts": 2, "id": 9, "note": null}
{"type": "OTHER", "ts": 4, "id": "not a number"}
"""


def find(events: DataFrame) -> DataFrame:
    """Every event is a match."""
    return events.select(F.struct("id", "note").alias("x"), F.col("ts").alias("started_at"))


FOUND = """\
x.id  x.note  started_at
────  ──────  ──────────
   8  x                1
   9  NULL             2
   7  NULL             3
"""

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def run(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls a job as a shell would; gives what it says on stdout and stderr."""

    def call(
        *arguments: object, find: Callable[[DataFrame], DataFrame] = find, source: Source = SOURCE
    ) -> tuple[str, str]:
        capsys.readouterr()
        argv = [str(argument) for argument in arguments]
        main(lambda events, _: find(events), source, name="test", default_events="no_such_table", argv=argv)
        return capsys.readouterr()

    return call


@pytest.fixture
def fails(run: Run, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Calls a job that exits with 1; gives what it says on stderr."""

    def call(*arguments: object, **more: object) -> str:
        with pytest.raises(SystemExit) as end:
            run(*arguments, **more)
        assert end.value.code == 1
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return call


@pytest.fixture(scope="module")
def as_spark_writes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events") / "events.parquet"
    spark.createDataFrame(EVENTS, COLUMNS).write.parquet(str(folder))
    return folder


@pytest.fixture
def parquet(as_spark_writes: Path, tmp_path: Path) -> Path:
    """Copies are cheaper than jobs that write."""
    return Path(copytree(as_spark_writes, tmp_path / "events.parquet"))


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# ---- what is read -------------------------------------------------------------------------------


def test_parquet(run: Run, parquet: Path) -> None:
    out, err = run("--events", parquet)
    assert out == FOUND
    assert re.fullmatch(r"events read 4 · relevant 3 · matches 3 · \d+\.\d s\n", err)


@pytest.mark.parametrize(("name", "text"), [("events.csv", CSV), ("events.jsonl", JSON)], ids=["csv", "json"])
@pytest.mark.parametrize("place", ["{}", "folder/{}", "folder/day=1/{}", "events.data/part-0.{}"])
def test_text(run: Run, tmp_path: Path, place: str, name: str, text: str) -> None:
    """A file, a directory with one, or with partitions. The bad value is in an event that nobody asked for."""
    events = written(tmp_path / place.format(name), text)
    written(events.parent / "_hidden.parquet", "")
    out, err = run("--events", tmp_path / place.format(name).split("/")[0])
    assert out == FOUND
    assert err.startswith("events read 4 · relevant 3 · matches 3 · ")


def test_a_table_name(run: Run, spark: SparkSession) -> None:
    spark.createDataFrame(EVENTS, COLUMNS).createOrReplaceTempView("readings")
    assert run("--events", "readings")[0] == FOUND


def test_a_table_that_the_query_names(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    spark.createDataFrame(EVENTS, COLUMNS).createOrReplaceTempView("stream")
    main(lambda events, _: find(events), SOURCE, name="test", default_events="stream", argv=[])
    assert capsys.readouterr().out == FOUND


def test_several_paths_and_wildcards(run: Run, tmp_path: Path) -> None:
    head, *lines = CSV.splitlines(keepends=True)
    for at, line in enumerate(lines):
        written(tmp_path / f"{at}.csv", head + line)
    assert run("--events", tmp_path / "[01].csv", "--events", tmp_path / "2.csv")[0] == FOUND


def test_a_table_a_type(run: Run, tmp_path: Path) -> None:
    """The equals sign of a path is not that of TYPE=PATH, and a type that the query does not name is not read."""
    a = written(tmp_path / "day=1" / "a.csv", "ts,id\n3,7\n2,9\n")
    b = written(tmp_path / "B=b" / "b.jsonl", '{"ts": 1, "id": 8, "note": "x"}\n')
    other = written(tmp_path / "other.parquet", "not a Parquet file")
    out, err = run("--events", f"A={a}", "--events", f"B={b}", "--events", f"OTHER={other}")
    assert out == FOUND
    assert "relevant 3" in err


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("A=x.csv", ("A", "x.csv")),
        ("A=day=3", ("A", "day=3")),
        ("A=1=x.csv", ("A=1", "x.csv")),  # the longest type
        ("day=3", (None, "day=3")),  # exists
        ("/data/day=4", (None, "/data/day=4")),
        ("C=x.csv", ("C", "x.csv")),  # a type, but not one of the query
        ("x.csv", (None, "x.csv")),
    ],
)
def test_types_and_what_exists_tell_a_type_from_a_path(spec: str, found: tuple[str | None, str]) -> None:
    class SomeFiles(Files):
        def __init__(self) -> None:
            pass

        def matching(self, pattern: str) -> list[object]:
            return ["a file"] if pattern == "day=3" else []

    assert split(SomeFiles(), spec, ["A", "B", "A=1"]) == found


def test_column_names_in_any_case(run: Run, tmp_path: Path) -> None:
    assert run("--events", written(tmp_path / "e.csv", CSV.replace("type,ts", "Type,TS")))[0] == FOUND
    assert run("--events", written(tmp_path / "e.json", JSON.replace('"id"', '"ID"')))[0] == FOUND


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_directories_may_name_the_type(run: Run, spark: SparkSession, tmp_path: Path, format: str) -> None:
    events = spark.createDataFrame(EVENTS, COLUMNS)
    events.write.partitionBy("type").format(format).save(str(tmp_path / "events"), header=True)
    out, err = run("--events", tmp_path / "events")
    assert out == FOUND
    # Of Parquet, the directories of other types are not opened.
    assert err.startswith(f"events read {3 if format == 'parquet' else 4} · relevant 3 ")


def test_a_forced_format(run: Run, tmp_path: Path) -> None:
    assert run("--events", written(tmp_path / "events.txt", CSV), "--format", "csv")[0] == FOUND


def test_compressed_text(run: Run, tmp_path: Path, spark: SparkSession) -> None:
    import gzip

    (tmp_path / "events.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    assert run("--events", tmp_path)[0] == FOUND


def test_columns_and_types_as_the_data_has_them(spark: SparkSession, tmp_path: Path) -> None:
    csv = written(tmp_path / "a.csv", "ts,id,day,price\n2026-03-01 12:00:00,7,2026-03-01,1.5\n")
    lines = written(tmp_path / "b.json", '{"type": "B", "ts": "2026-03-01T12:00:00Z", "deep": {"x": 1}}\n')
    more = written(tmp_path / "c.json", '{"type": "C", "n": 1}\n')
    arguments = ArgumentParser()
    add_arguments(arguments)
    given = arguments.parse_args(["--events", f"A={csv}", "--events", str(lines), "--events", str(more)])
    assert read_columns(given) == {
        "A": {"ts": "timestamp", "id": "int", "day": "date", "price": "double"},
        None: {"deep": "struct<x:bigint>", "ts": "timestamp", "type": "string", "n": "bigint"},
    }


def test_a_misspelled_type_is_told_with_those_that_there_are(run: Run, parquet: Path) -> None:
    source = Source("ts", "type", None, "integer", {"A": {"id": "bigint"}, "other": {"note": "string"}})
    err = run("--events", parquet, source=source)[1]
    assert err.splitlines()[1:] == ["no event has the type other: there are OTHER, A, B"]


# ---- how CSV is written -------------------------------------------------------------------------


def test_another_delimiter_and_another_null(run: Run, tmp_path: Path) -> None:
    events = written(
        tmp_path / "e.csv", CSV.replace("A,3,7,", "A,3,7,NA").replace("A,2,9,", "A,2,9,NA").replace(",", ";")
    )
    assert run("--events", events, "--delimiter", ";", "--null", "NA")[0] == FOUND


def test_tabs(run: Run, tmp_path: Path) -> None:
    assert run("--events", written(tmp_path / "e.csv", CSV.replace(",", "\t")), "--delimiter", "\\t")[0] == FOUND


def test_csv_without_a_header(run: Run, tmp_path: Path) -> None:
    events = written(tmp_path / "e.csv", CSV.partition("\n")[2])
    out, err = run("--events", events, "--header", "type, ts, id, note")
    assert out == FOUND
    assert err.startswith("events read 4 · ")


WRITTEN = [
    ("s", None, ["1700000000", "1700000001.5", "1700000002.000001"]),
    ("ms", None, ["1700000000000", "1700000001500", "1700000002000"]),
    (
        None,
        "dd.MM.yyyy HH:mm:ss[.SSSSSS]",
        ["14.11.2023 22:13:20", "14.11.2023 22:13:21.500000", "14.11.2023 22:13:22"],
    ),
]


@pytest.mark.parametrize(("unit", "format", "times"), WRITTEN)
@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_text_whose_times_are_numbers_or_text(
    run: Run, tmp_path: Path, unit: Any, format: str | None, times: list[str], suffix: str
) -> None:
    source = Source("ts", "type", None, "timestamp", {"A": {}}, time_unit=unit, time_format=format)
    if suffix == "csv":
        lines = ["type,ts", *(f"A,{time}" for time in times)]
    else:
        lines = [f'{{"type": "A", "ts": {json.dumps(time) if format else time}}}' for time in times]
    events = written(tmp_path / f"e.{suffix}", "\n".join(lines) + "\n")
    out, err = run("--events", events, source=source, find=lambda e: e.select(F.unix_micros("ts").alias("t")))
    last = 1700000002000001 if unit == "s" else 1700000002000000
    assert [int(line) for line in out.splitlines()[2:]] == [1700000000000000, 1700000001500000, last]
    assert "rejected" not in err


def test_nanoseconds_of_parquet_are_cut_off(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    times = [1_700_000_000_123_456_789, -1, None]
    table = pa.table(
        {
            "type": ["A", "A", "A"],
            "ts": pa.array(times, pa.timestamp("ns", "UTC")),
            "wall": pa.array(times, pa.timestamp("ns")),
            "n": [1, 2, 3],
        }
    )
    for name in ("e.parquet", "day=1/e.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / name)
    source = Source("ts", "type", None, "timestamp", {"A": {"wall": "timestamp_ntz", "n": "bigint"}})

    def found(events: DataFrame) -> DataFrame:
        return events.select(F.unix_micros("ts").alias("ts"), F.col("wall").cast("string").alias("wall"), "n")

    for place in ("e.parquet", "day=1"):
        caplog.clear()
        out, err = run("--events", tmp_path / place, source=source, find=found)
        assert out.splitlines()[2:] == [
            "              -1  1969-12-31 23:59:59.999999  2",
            "1700000000123456  2023-11-14 22:13:20.123456  1",
        ]
        assert "rejected: 1 event without a time\n" in err
        assert caplog.messages == [
            f"{tmp_path}/{place} has nanoseconds in ts, wall, and Spark's timestamps have microseconds: "
            "the rest is cut off"
        ]


def test_nanoseconds_and_microseconds_do_not_go_together(
    fails: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    for unit in ("ns", "us"):
        table = pa.table({"type": ["A"], "ts": pa.array([1], pa.timestamp(unit, "UTC"))})
        pq.write_table(table, tmp_path / f"{unit}.parquet")
    source = Source("ts", "type", None, "timestamp", {"A": {}})
    assert "merge" in fails("--events", tmp_path, source=source)
    assert spark.conf.get("spark.sql.legacy.parquet.nanosAsLong") == "false"


# ---- what is rejected ---------------------------------------------------------------------------

BAD_JSON = JSON + '{"type": "A", "ts": \n###\n{"type": "B", "ts": 5, "id": "seven"}\n{"type": "A", "id": 3}\n'
BAD_CSV = CSV + "A,5\nB,seven,8,\nA,,3,\n,4,4,\n"


def test_json_that_cannot_be_read_is_rejected(run: Run, tmp_path: Path) -> None:
    out, err = run("--events", written(tmp_path / "e.json", BAD_JSON))
    assert out == FOUND
    summary, *more = err.splitlines()
    assert summary.startswith("events read 8 · relevant 3 · matches 3 · ")
    assert more == [
        "rejected: 3 events that cannot be read, 1 without a time",
        '  {"reason":"cannot be read","record":"{\\"type\\": \\"A\\", \\"ts\\": ","event":{}}',
        '  {"reason":"cannot be read","record":"###","event":{}}',
        '  {"reason":"cannot be read","record":"{\\"type\\": \\"B\\", \\"ts\\": 5, \\"id\\": \\"seven\\"}",'
        '"event":{"type":"B","ts":5}}',
        '  {"reason":"without a time","event":{"type":"A","id":3}}',
    ]


def test_what_cannot_be_read_is_rejected_whatever_the_query_asks_of_it(run: Run, tmp_path: Path) -> None:
    source = replace(SOURCE, where="(type = 'A' AND id IS NOT NULL) OR (type = 'B' AND id IS NOT NULL)")
    err = run("--events", written(tmp_path / "e.json", BAD_JSON), source=source)[1]
    assert "rejected: 3 events that cannot be read, 1 without a time\n" in err


def test_csv_that_cannot_be_read_is_rejected(run: Run, tmp_path: Path) -> None:
    out, err = run("--events", written(tmp_path / "e.csv", BAD_CSV), "--late-out", tmp_path / "late.json")
    assert out == FOUND
    assert err.splitlines()[1:] == [
        f"rejected: 2 events that cannot be read, 1 without a type, 1 without a time; see {tmp_path}/late.json"
    ]
    assert (tmp_path / "late.json").read_text().splitlines() == [
        '{"reason":"cannot be read","record":"A,5","event":{"type":"A","ts":5}}',
        '{"reason":"cannot be read","record":"B,seven,8,","event":{"type":"B","id":8}}',
        '{"reason":"without a time","event":{"type":"A","id":3}}',
        '{"reason":"without a type","event":{"ts":4,"id":4}}',
    ]


def test_what_is_rejected_is_written_beside_the_matches(
    run: Run, fails: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    bad, good = written(tmp_path / "bad.json", BAD_JSON), written(tmp_path / "good.json", JSON)
    out, late = tmp_path / "m.parquet", tmp_path / "m.parquet-late"
    assert f"; see {late}\n" in run("--events", bad, "--out", out)[1]
    assert spark.read.json(str(late)).count() == 4
    assert spark.read.parquet(str(out)).count() == 3
    assert fails("--events", good, "--out", tmp_path / "n.parquet", "--late-out", late) == (
        f"error: {late} exists: add --overwrite to replace it, or choose another --late-out\n"
    )
    run("--events", good, "--out", out, "--overwrite")
    assert not late.exists()  # it belonged to the matches that are gone


def test_strictly_nothing_is_rejected(run: Run, fails: Callable[..., str], tmp_path: Path) -> None:
    events = written(tmp_path / "e.json", JSON + '{"type": "A", "ts": \n')
    assert fails("--events", events, "--strict") == (
        f'error: file://{events} has an event that cannot be read, and --strict takes none: {{"type": "A", "ts": \n'
    )
    events = written(tmp_path / "e.csv", CSV + "A,,8,\n")
    assert fails("--events", events, "--strict", "--out", tmp_path / "m.csv") == (
        f'error: file://{events} has an event without a time, and --strict takes none: {{"type":"A","id":8}}\n'
    )
    assert not (tmp_path / "m.csv").exists()
    assert run("--events", written(tmp_path / "e.csv", CSV), "--strict")[0] == FOUND


# ---- what is refused ----------------------------------------------------------------------------


def test_no_events(fails: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert fails() == "error: there is no file and no table no_such_table\n"
    with pytest.raises(SystemExit):
        main(lambda events, _: find(events), SOURCE, name="test", argv=[])
    assert capsys.readouterr().err == "error: there are no events: add --events PATH\n"


def test_a_path_that_does_not_exist(fails: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "nowhere.parquet"
    assert fails("--events", path) == f"error: there is no file and no table {path}\n"


def test_an_unknown_format(fails: Callable[..., str], tmp_path: Path) -> None:
    written(tmp_path / "data" / "events.txt", CSV)
    path = tmp_path / "data"
    assert fails("--events", path) == f"error: nothing tells the format of {path}: add --format\n"


def test_mixed_formats(fails: Callable[..., str], tmp_path: Path) -> None:
    written(tmp_path / "events.csv", CSV)
    written(tmp_path / "events.json", JSON)
    assert fails("--events", tmp_path) == f"error: {tmp_path} has csv and json files: name those to read\n"


def test_csv_files_with_different_headers(fails: Callable[..., str], tmp_path: Path) -> None:
    written(tmp_path / "1.csv", CSV)
    written(tmp_path / "2.csv", "ts,type,id,note\n3,A,7,\n" * 2)
    assert "CSV header does not conform to the schema" in fails("--events", tmp_path)


def test_a_parquet_file_that_is_none(fails: Callable[..., str], tmp_path: Path) -> None:
    path = written(tmp_path / "e.parquet", "hello, hello, hello")
    message = fails("--events", path)
    assert message.startswith(f"error: file:{path} cannot be read: file:{path} is not a Parquet file")
    assert message.count("\n") == 1


def test_a_missing_column(fails: Callable[..., str], tmp_path: Path) -> None:
    csv = written(tmp_path / "e.csv", CSV.replace("note", "notes"))
    assert fails("--events", csv) == 'error: the events have no column "note": did you mean "notes"?\n'
    lines = written(tmp_path / "e.json", JSON.replace('"ts"', '"tss"'))
    assert fails("--events", lines) == (
        'error: the events have no column "ts": did you mean "tss"? (--time names the column of the time)\n'
    )


def test_a_misspelled_type(fails: Callable[..., str], tmp_path: Path) -> None:
    csv = written(tmp_path / "e.csv", CSV)
    source = Source("ts", "type", None, "integer", {"SHELF": {}, "EXIT": {}})
    assert fails("--events", f"SHELFF={csv}", "--events", f"EXIT={csv}", source=source) == (
        "error: no table has the SHELF events: did you mean SHELF by SHELFF?\n"
    )


def test_json_may_leave_nulls_out_but_a_misspelling_is_pointed_out(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = written(tmp_path / "e.json", JSON.replace('"note"', '"notes"'))
    assert "NULL" in run("--events", lines)[0]
    assert caplog.messages == [f'the first events of {lines} have no "note": did you mean "notes"?']
    caplog.clear()
    run("--events", written(tmp_path / "a.json", '{"type": "A", "ts": 3, "id": 7}\n'))
    assert caplog.messages == []  # there is no event that could have one


def test_a_limit_that_is_none(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run("--limit", "0")
    assert end.value.code == 2
    assert "argument --limit: '0' is not a number from 1 up" in capsys.readouterr().err


def test_help_has_examples(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run("--help")
    assert end.value.code == 0
    assert "--events SHELF-READING=shelves.csv --events EXIT-READING=exits.csv" in capsys.readouterr().out


# ---- what is written ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["matches.parquet", "matches", "matches.json", "matches.jsonl"])
def test_matches_are_written_in_the_format_of_the_suffix(
    run: Run, spark: SparkSession, parquet: Path, tmp_path: Path, name: str
) -> None:
    out, err = run("--events", parquet, "--out", tmp_path / name)
    assert out == ""
    assert err.startswith("events read 4 · relevant 3 · matches 3 · ")
    format = "json" if "json" in name else "parquet"
    rows = spark.read.format(format).load(str(tmp_path / name)).select("x.id", "started_at").collect()
    assert sorted(rows) == [(7, 3), (8, 1), (9, 2)]


def test_csv_is_one_file_with_flat_names(run: Run, parquet: Path, tmp_path: Path) -> None:
    err = run("--events", parquet, "--out", tmp_path / "m.csv")[1]
    assert err.splitlines()[1] == f"wrote 3 matches to {tmp_path}/m.csv"
    head, *lines = (tmp_path / "m.csv").read_text().splitlines()
    assert head == "x_id,x_note,started_at"
    assert sorted(lines) == ["7,,3", "8,x,1", "9,,2"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["events.parquet", "m.csv"]


def test_a_header_is_quoted_as_spark_quotes(run: Run, spark: SparkSession, parquet: Path, tmp_path: Path) -> None:
    names = ["a,b", 'c"d', " e "]
    run("--events", parquet, "--out", tmp_path / "m.csv", find=lambda e: e.select("ts", "ts", "ts").toDF(*names))
    assert spark.read.csv(str(tmp_path / "m.csv"), header=True).columns == names


def test_json_is_one_file(run: Run, parquet: Path, tmp_path: Path) -> None:
    run("--events", parquet, "--out", tmp_path / "m.jsonl", find=lambda events: find(events).where("started_at < 3"))
    assert sorted((tmp_path / "m.jsonl").read_text().splitlines()) == [
        '{"x":{"id":8,"note":"x"},"started_at":1}',
        '{"x":{"id":9},"started_at":2}',
    ]


@pytest.mark.parametrize("name", ["m.csv/", "m"])
def test_any_other_name_is_a_folder(run: Run, spark: SparkSession, parquet: Path, tmp_path: Path, name: str) -> None:
    err = run("--events", parquet, "--out", f"{tmp_path}/{name}", "--out-format", "csv")[1]
    assert err.splitlines()[1] == f"wrote 3 matches to {tmp_path}/{name}"
    assert (tmp_path / name).is_dir()
    assert spark.read.csv(str(tmp_path / name), header=True).count() == 3


def test_no_match_is_a_file_with_a_header(run: Run, parquet: Path, tmp_path: Path) -> None:
    err = run("--events", parquet, "--out", tmp_path / "m.csv", find=lambda events: find(events).where("id < 0"))[1]
    assert err.splitlines()[1] == f"wrote 0 matches to {tmp_path}/m.csv"
    assert (tmp_path / "m.csv").read_text() == "x_id,x_note,started_at\n"


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ([], ['{"x":{"id":7},"started_at":3}', '{"x":{"id":8,"note":"x"},"started_at":1}']),
        (["--out-format", "csv"], ["7,,3", "8,x,1", "x_id,x_note,started_at"]),
    ],
)
def test_every_match_can_go_to_standard_output(run: Run, parquet: Path, options: list[str], printed: list[str]) -> None:
    out, err = run("--events", parquet, "--out", "-", *options, find=lambda e: find(e.where("ts <> 2")))
    assert sorted(out.splitlines()) == printed
    assert re.fullmatch(r"events read 4 · relevant 3 · matches 2 · .*\n", err)


def test_parquet_cannot_be_printed(fails: Callable[..., str], parquet: Path) -> None:
    assert fails("--events", parquet, "--out", "-", "--out-format", "parquet") == (
        "error: parquet cannot be printed: add --out-format csv or json, or name a file with --out\n"
    )


def test_flat_names_that_clash(fails: Callable[..., str], parquet: Path, tmp_path: Path) -> None:
    def clash(events: DataFrame) -> DataFrame:
        return find(events).withColumn("X_id", F.lit(1))

    assert fails("--events", parquet, "--out", tmp_path / "m.csv", find=clash) == (
        "error: two columns would be named x_id in CSV: rename one with RETURN … AS, or write another format\n"
    )


def test_a_forced_output_format(run: Run, spark: SparkSession, parquet: Path, tmp_path: Path) -> None:
    run("--events", parquet, "--out", tmp_path / "m.parquet", "--out-format", "json")
    assert spark.read.json(str(tmp_path / "m.parquet")).count() == 3


def test_output_that_exists_is_refused_before_any_work(
    fails: Callable[..., str], run: Run, spark: SparkSession, parquet: Path, tmp_path: Path
) -> None:
    def never(events: DataFrame) -> DataFrame:
        raise AssertionError

    out = written(tmp_path / "m.parquet" / "precious", "data").parent
    assert fails("--events", parquet, "--out", out, find=never) == (
        f"error: {out} exists: add --overwrite to replace it, or choose another --out\n"
    )
    assert (out / "precious").read_text() == "data"
    run("--events", parquet, "--out", out, "--overwrite")
    assert not (out / "precious").exists()
    assert spark.read.parquet(str(out)).count() == 3


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "format"), [("m.csv", "csv"), ("m.jsonl", "json"), ("m.parquet", "parquet"), ("m", "csv"), ("m", "delta")]
)
def test_a_run_that_fails_leaves_everything_as_it_was(
    run: Run, fails: Callable[..., str], parquet: Path, tmp_path: Path, name: str, format: str
) -> None:
    def failing(events: DataFrame) -> DataFrame:
        return find(events).withColumn("late", F.expr("IF(started_at = 3, 1 / 0, 1)"))

    place = tmp_path / "results"
    given = ("--events", parquet, "--out", place / name, "--out-format", format)
    fails(*given, find=failing)
    if format != "delta":  # which has an empty table then
        assert not place.exists() or list(place.iterdir()) == []
    run(*given, "--overwrite")
    before = content(place)
    fails(*given, "--overwrite", find=failing)
    after = content(place)
    assert {file: after[file] for file in before} == before
    # What a failed write leaves of Delta is not in its log: nobody reads it, and VACUUM finds it.
    assert not [file for file in after.keys() - before.keys() if format != "delta" or "_delta_log" in file]
    run(*given, "--overwrite", find=lambda events: find(events).where("started_at = 3"))
    assert sorted(path.name for path in place.iterdir()) == [name]


@pytest.mark.parametrize("out", ["events.parquet", "."])
def test_overwriting_never_takes_the_events(fails: Callable[..., str], parquet: Path, out: str) -> None:
    target = parquet.parent / out
    assert fails("--events", parquet, "--out", target, "--overwrite") == (
        f"error: --out {target} would replace the events in file:{parquet}: choose another --out\n"
    )
    assert parquet.exists()


# ---- what is printed ----------------------------------------------------------------------------


def test_the_earliest_matches_are_printed_and_all_are_counted(run: Run, parquet: Path) -> None:
    out, err = run("--events", parquet, "--limit", "2")
    assert out == "".join(FOUND.splitlines(keepends=True)[:4]) + "… 1 more\n"
    assert "matches 3" in err


def test_no_matches(run: Run, parquet: Path) -> None:
    out, err = run("--events", parquet, find=lambda events: find(events).where("started_at > 9"))
    assert out == "no matches\n"
    assert err.startswith("events read 4 · relevant 3 · matches 0 · ")


def test_one_pass_prints_and_counts(run: Run, spark: SparkSession, parquet: Path) -> None:
    def executions() -> int:
        return int(spark._jsparkSession.sharedState().statusStore().executionsCount())  # type: ignore[attr-defined]

    before = executions()
    run("--events", parquet)
    assert executions() - before == 1


def test_any_type_can_be_printed(run: Run, parquet: Path) -> None:
    def typed(events: DataFrame) -> DataFrame:
        return events.where("ts = 1").selectExpr(
            "TIMESTAMP '2026-03-01 12:00:00.5' AS at",
            "TIMESTAMP '2026-03-01 12:00:00' - TIMESTAMP '2026-02-28 10:30:00' AS took",
            "map(1, 2) AS m",
            "array(1, NULL) AS a",
            "1.50BD AS price",
            "named_struct('p', named_struct('q', true)) AS s",
        )

    assert run("--events", parquet, find=typed)[0] == (
        "at                     took        m         a          price  s.p.q\n"
        "─────────────────────  ──────────  ────────  ─────────  ─────  ─────\n"
        "2026-03-01 12:00:00.5  1 01:30:00  {1 -> 2}  [1, null]   1.50  true\n"
    )


def test_a_table_keeps_every_value_on_its_line() -> None:
    text = table(["id", "what\never"], [["1", "a\nb\x1b[31m"], ["23", None], ["4", "x" * 50]], [True, False])
    assert text == (
        "id  what\\never\n"
        "──  ────────────────────────────────────────\n"
        " 1  a\\nb\\x1b[31m\n"
        "23  NULL\n"
        f" 4  {'x' * 39}…\n"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (61.4, "1 min 1 s"), (7300, "2 h 1 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_summary_without_the_number_of_events_read() -> None:
    assert summary(None, 1234, 5, 2) == "relevant 1,234 · matches 5 · 2.0 s"


# ---- what Spark says ----------------------------------------------------------------------------


def test_a_worker_that_fails(fails: Callable[..., str], parquet: Path) -> None:
    def worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("no such luck")
        yield

    message = fails("--events", parquet, find=lambda events: find(events).mapInArrow(worker, "a int"))
    assert message == "error: a Python worker of Spark failed: ValueError: no such luck\n"


def test_executors_without_sase(fails: Callable[..., str], parquet: Path) -> None:
    def worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sase.no_such_module

        yield from sase.no_such_module

    assert fails("--events", parquet, find=lambda events: find(events).mapInArrow(worker, "a int")) == (
        "error: the Python of Spark's executors has no module 'sase.no_such_module'\n"
        "Install sase there, or compile the query with --standalone: such a job carries what it needs\n"
    )


@pytest.mark.parametrize(("small", "most"), [(0, 10), (1 << 30, 1000)], ids=["looked into", "small files"])
def test_wide_events_come_in_short_batches(
    run: Run, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int, most: int
) -> None:
    """40 events of 10 KB, for batches of 100 KB: the worker tells how many rows it has seen at once."""
    monkeypatch.setattr(batches, "BYTES", 100 << 10)
    monkeypatch.setattr(batches, "SMALL", small)
    monkeypatch.setattr(batches, "_LOOK", 20)
    for name, value in BATCHES.items():
        spark.conf.set(name, value)
    wide = F.when(F.col("id") > 30, F.expr("repeat('x', 10)")).otherwise(F.expr("repeat('y', 10240)"))
    events = spark.range(40, numPartitions=1).selectExpr("'B' AS type", "id AS ts", "id").withColumn("note", wide)
    events.write.parquet(str(tmp_path / "wide.parquet"))

    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})

    out, err = run("--events", tmp_path / "wide.parquet", find=lambda events: events.mapInArrow(sizes, "rows long"))
    seen = [int(line) for line in out.splitlines()[2:]]
    assert sum(seen) == 40 and "relevant 40 ·" in err
    assert max(seen) == min(most, 40)
    assert spark.conf.get(BATCH_ROWS) == "1000"


def test_documents_come_in_batches_of_bounded_bytes(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 events with 500 KB each, for batches of 2 MB; short strings are not measured."""
    monkeypatch.setattr(batches, "BYTES", 2 << 20)
    for name, value in BATCHES.items():
        spark.conf.set(name, value)
    declared = {"ts": "bigint", "id": "bigint", "name": "string", "payload": "binary"}
    catalog = sase.Catalog(types=dict.fromkeys("AB", declared))
    columns = ["'A' AS type", "id AS ts", "id", "'n' AS name", "CAST(repeat('x', 500000) AS binary) AS payload"]
    events = spark.range(16, numPartitions=1).selectExpr(*columns)

    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"bytes": [batch.nbytes]})

    def largest() -> int:
        return max(row["bytes"] for row in events.mapInArrow(sizes, "bytes long").collect())

    try:
        sase.compile("EVENT SEQ(A x, B y) WITHIN 9 RETURN x.id, y.name", catalog).run(events)
        assert spark.conf.get(BATCH_BYTES) == BATCHES[BATCH_BYTES] and largest() > 7 << 20
        sase.compile("EVENT SEQ(A x, B y) WITHIN 9", catalog).run(events)
        assert largest() < 3 << 20
    finally:
        spark.conf.set(BATCH_BYTES, BATCHES[BATCH_BYTES])


@pytest.mark.parametrize(
    ("kind", "scan", "measured"),
    [
        ("bigint", False, False),
        ("string", True, False),
        ("string", False, True),
        ("struct<a: int, b: string>", True, False),
        ("struct<a: int, b: string>", False, True),
        ("struct<a: binary>", True, True),
        ("array<int>", True, True),
        ("map<string, int>", True, True),
    ],
)
def test_batches_are_measured_where_rows_may_be_wide(
    spark: SparkSession, kind: str, scan: bool, measured: bool
) -> None:
    """Strings are, where the first ones are not there at once."""
    events = spark.range(2).selectExpr("id", f"CAST(NULL AS {kind}) AS value").where("id < 1")
    with batches.as_before(spark):
        for name, value in BATCHES.items():
            spark.conf.set(name, value)
        batches.bound_batches(events if scan else events.distinct(), ["value"])
        assert spark.conf.get(BATCH_BYTES) == (str(batches.BYTES) if measured else BATCHES[BATCH_BYTES])
        assert spark.conf.get(BATCH_ROWS) == BATCHES[BATCH_ROWS]
        spark.conf.set(BATCH_BYTES, "1000")
        batches.bound_batches(events, ["value"])
        assert spark.conf.get(BATCH_BYTES) == "1000"


def test_long_strings_come_in_short_batches(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first events of a table tell how many rows of it are enough, in Python sessions and for SQL, too."""
    monkeypatch.setattr(batches, "BYTES", 1 << 20)
    monkeypatch.setattr(batches, "SMALL", 0)
    spark.range(4).selectExpr("'A' AS type", "id AS ts", "repeat('x', 100000) AS note").write.parquet(
        str(tmp_path / "notes")
    )
    notes = spark.read.parquet(str(tmp_path / "notes"))
    declared = {"ts": "bigint", "note": "string"}
    query = sase.compile("EVENT SEQ(A x, B y) WITHIN 9", sase.Catalog(types=dict.fromkeys("AB", declared)))
    for run in (lambda: query.run(notes), lambda: RowOrder(by=["type"], keys=[Key("ts")]).sort(notes)):
        with batches.as_before(spark):
            for name, value in BATCHES.items():
                spark.conf.set(name, value)
            run()
            assert spark.conf.get(BATCH_ROWS) == "10"
            assert spark.conf.get(BATCH_BYTES) == BATCHES[BATCH_BYTES]


def test_an_expression_that_fails(fails: Callable[..., str], parquet: Path) -> None:
    assert fails("--events", parquet, find=lambda events: events.selectExpr("1 / (ts - ts)")).startswith(
        "error: Division by zero."
    )


def test_a_query_that_spark_rejects(fails: Callable[..., str], parquet: Path) -> None:
    assert fails("--events", parquet, find=lambda events: events.selectExpr("nothing")).startswith(
        "error: A column, variable, or function parameter with name `nothing` cannot be resolved."
    )


def test_verbose_shows_the_trace(fails: Callable[..., str], tmp_path: Path) -> None:
    message = fails("--events", tmp_path / "nowhere", "--verbose")
    assert message.startswith("Traceback (most recent call last)")
    assert message.endswith(f"error: there is no file and no table {tmp_path}/nowhere\n")


def test_an_error_of_our_own_is_not_hidden(run: Run, parquet: Path) -> None:
    def broken(events: DataFrame) -> DataFrame:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        run("--events", parquet, find=broken)


LOST_TASK = (
    "An error occurred while calling o1.collectToPython.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 4.0 failed 1 times, "
    "most recent failure: Lost task 0.0 in stage 4.0 (TID 4) (host executor driver): {}\n"
    "\tat org.apache.spark.A.b(A.scala:1)\n\n"
    "Driver stacktrace:\n"
    "\tat org.apache.spark.A.b(A.scala:1)\n"
)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            LOST_TASK.format("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)")
            + "Caused by: java.net.SocketException: Connection reset\n\t... 21 more",
            "a Python worker of Spark died, most often for want of memory\n"
            "Give the executors more (spark.executor.memoryOverhead), or use more partitions. Should a window of one "
            "key hold too many events, --max-window-events-per-key tells of which key",
        ),
        (
            LOST_TASK.format("java.io.IOException: Mkdirs failed to create file:/x"),
            "Mkdirs failed to create file:/x",
        ),
        (
            "An error occurred while calling o1.parquet.\n"
            ": java.lang.RuntimeException: java.lang.ClassNotFoundException: Class S3AFileSystem not found\n"
            "\tat org.apache.A.b(A.java:1)\n",
            "java.lang.ClassNotFoundException: Class S3AFileSystem not found",
        ),
        (
            "\n  An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            '  File "a.py", line 1, in b\n    raise Odd\nsome.Odd\n',
            "a Python worker of Spark failed: some.Odd",
        ),
    ],
    ids=["worker died", "task failed", "class not found", "exception without a message"],
)
def test_the_useful_part_of_a_trace(said: str, message: str) -> None:
    assert explain(Exception(said)) == message


# ---- a process of its own -----------------------------------------------------------------------

SCRIPT = """\
from pyspark.sql import DataFrame, functions as F
from sase.runtime.events import Source
from sase.runtime.job import main
from sase.runtime.session import BATCH_ROWS
from sase.runtime.ssc import Options

SOURCE = Source("ts", "type", None, "integer", {"A": {"id": "bigint"}, "B": {"id": "bigint", "note": "string"}})

def find_matches(events: DataFrame, options: Options) -> DataFrame:
    return events.select(F.struct("id", "note").alias("x"), F.col("ts").alias("started_at"))

if __name__ == "__main__":
    main(find_matches, SOURCE, name="quiet")
"""


@pytest.mark.spark
def test_a_local_run_says_nothing_but_its_results(tmp_path: Path) -> None:
    script, events = written(tmp_path / "job.py", SCRIPT), written(tmp_path / "events.csv", CSV)
    done = subprocess.run([sys.executable, script, "--events", events], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, FOUND)
    assert re.fullmatch(r"events read 4 · relevant 3 · matches 3 · .*\n", done.stderr)
