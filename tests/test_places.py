"""What fails in an expression of the query while it runs is shown there, whichever way it was run."""

from __future__ import annotations

import logging
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from pyspark.errors import ArithmeticException
from pyspark.sql import SparkSession

import sase
from sase.cli import main
from sase.compiler.emit.places import places

CATALOG = sase.Catalog(types={"A": {"ts": "bigint", "n": "int", "name": "string"}, "B": {"ts": "bigint", "n": "int"}})
DIVISION = """\
q.sase:1:17: error: Division by zero
   1 | EVENT A x WHERE x.n / (x.n - x.n) > 1
     |                 ^^^^^^^^^^^^^^^^^
  help: Use `try_divide` to tolerate divisor being 0 and return NULL instead
"""
CASES = {
    "EVENT A x WHERE x.n / (x.n - x.n) > 1": DIVISION,
    "EVENT A x WHERE CAST(x.name AS int) = 1": """\
q.sase:1:17: error: The value 'abc' of the type "STRING" cannot be cast to "INT" because it is malformed
   1 | EVENT A x WHERE CAST(x.name AS int) = 1
     |                 ^^^^^^^^^^^^^^^^^^^
  help: Use `try_cast` to tolerate malformed input and return NULL instead
""",
    "EVENT A x WHERE x.n > 0 AND nosuch(x.n) = 1": """\
q.sase:1:29: error: Spark has no function nosuch
   1 | EVENT A x WHERE x.n > 0 AND nosuch(x.n) = 1
     |                             ^^^^^^
""",
    "EVENT SEQ(A x, B y) WHERE x.n > 0 RETURN x.n,\n  x.n % (y.n - y.n) AS rest": """\
q.sase:2:3: error: Remainder by zero
   2 |   x.n % (y.n - y.n) AS rest
     |   ^^^^^^^^^^^^^^^^^
  help: Use `try_mod` to tolerate divisor being 0 and return NULL instead
""",
    # Before the shuffle, both are the same condition of one event.
    "EVENT SEQ(A x, B y) WHERE 1 / (x.n - 2) > 0 AND 1 / (y.n - 2) > 0": """\
q.sase:1:27: error: Division by zero
   1 | EVENT SEQ(A x, B y) WHERE 1 / (x.n - 2) > 0 AND 1 / (y.n - 2) > 0
     |                           ^^^^^^^^^^^^^
  help: Use `try_divide` to tolerate divisor being 0 and return NULL instead
{}q.sase:1:49: {}or here, where the query has the same
   1 | EVENT SEQ(A x, B y) WHERE 1 / (x.n - 2) > 0 AND 1 / (y.n - 2) > 0
     |                                                 ^^^^^^^^^^^^^
""",
}


@pytest.fixture(autouse=True)
def folder(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    events = tmp_path / "in" / "events.csv"
    events.parent.mkdir()
    events.write_text("type,ts,n,name\nA,1,2,abc\nB,2,2,\n")
    return events.parent


def run(text: str, folder: Path) -> int:
    Path("q.sase").write_text(text)
    return main(["run", "q.sase", "--events", str(folder)])


def job(text: str, folder: Path) -> int:
    Path("q.py").write_text(sase.compile(text, CATALOG, filename="q.sase").job)
    sys.argv = ["q.py", "--events", str(folder)]
    with pytest.raises(SystemExit) as ended:
        runpy.run_path("q.py", run_name="__main__")
    assert isinstance(ended.value.code, int)
    return ended.value.code


def analyze(text: str, folder: Path) -> int:
    Path("q.sase").write_text(text)
    return main(["explain", "--analyze", "q.sase", "--events", str(folder)])


def stream(text: str, folder: Path) -> int:
    Path("q.sase").write_text(text)
    return main(["run", "q.sase", "--stream", "--trigger", "available-now", "--buckets", "1", "--events", str(folder)])


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("door", [run, job])
def test_what_fails_is_shown(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    door: Callable[[str, Path], int],
    text: str,
) -> None:
    monkeypatch.setattr(sys, "argv", sys.argv)
    status, more = door(text, folder), ("", "") if door is job else ("\n", "error: ")
    assert (status, capsys.readouterr().err) == (1, CASES[text].format(*more))


def test_what_fails_in_an_analysis_is_shown(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert analyze(next(iter(CASES)), folder) == 1
    assert capsys.readouterr().err == DIVISION


def test_what_fails_on_a_stream_is_shown(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """RETURN is computed as a micro-batch is written, in a call from Spark, which passes on the text alone."""
    assert stream("EVENT A x RETURN x.n / (x.n - x.n) AS r", folder) == 1
    assert DIVISION.splitlines()[0].replace("1:17", "1:18") in capsys.readouterr().err


def test_what_fails_in_python_is_shown(spark: SparkSession, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = next(iter(CASES))
    query = sase.compile(text, CATALOG, filename="q.sase")
    matches = query.run(str(folder))
    with caplog.at_level(logging.ERROR, "sase"):
        with pytest.raises(ArithmeticException):
            matches.groupBy("x.n").count().collect()
        for _ in range(100):
            if caplog.messages:
                break
            time.sleep(0.1)
    assert set(caplog.messages) == {DIVISION.rstrip("\n")}, "Spark may tell of one failure more than once"
    with pytest.raises(sase.SaseError) as failed, query.explained():
        matches.collect()
    assert f"{failed.value}\n" == DIVISION
    with pytest.raises(sase.SaseError, match="1:17: error: Spark has no function nosuch"):
        sase.compile("EVENT A x WHERE nosuch(x.n) = 1", CATALOG).run(str(folder))


@pytest.fixture
def shell(spark: SparkSession) -> Iterator[InteractiveShell]:
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "sase")
    yield shell
    InteractiveShell.clear_instance()


def test_what_fails_in_a_cell_is_shown_there(shell: InteractiveShell, folder: Path) -> None:
    with capture_output() as captured:
        shell.run_cell(f"%%sase --events {folder}\n{next(iter(CASES))}")
    assert captured.stdout.splitlines()[0] == DIVISION.splitlines()[0].replace("q.sase:1", "cell:2")
    assert captured.stdout.splitlines()[2] == DIVISION.splitlines()[2]


@pytest.mark.parametrize(
    ("expression", "known"),
    [
        ("x.n + 1", ["x.n + 1"]),
        ("-x.n", ["-x.n"]),
        ("CAST(x.n AS double) * 2", ["CAST(x.n AS DOUBLE)"]),
        ("CAST(x.n AS string)", []),
        ("x.name", []),
        ("abs(x.n)", ["abs(x.n)"]),
        ("mine(x.n)", ["mine(x.n)", "mine"]),
    ],
)
def test_only_what_may_fail_has_a_place(expression: str, known: list[str]) -> None:
    query = sase.compile(f"EVENT A x RETURN {expression} AS r", CATALOG)
    assert [sql for sql, _ in places(query.compiled.query)] == known
    assert ("PLACES" in query.job) == bool(known)
