"""What the documents show is true: their commands and their Python run, their queries compile and find what they say.

The language of a fenced block says how it is checked:

    console   each `$ command` is run; the lines below it are what it prints (`…` is a place left open)
    sh        `make` targets and what `pip` installs exist; nothing is run
    python    is executed, all blocks of a document in one namespace; `python excerpt` is part of the job above
    sase      compiles, as do the other languages, each under its name; a block `events` behind it gives events and
              matches, a block `error` the error; `sase FILE` is that file, for the commands behind it
    sql       compiles
    toml      is a catalog
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from quick_spark import environment

import sase
from benchmarks.flights import DECLARED
from sase.compiler.languages.registry import NAMES
from sase.runtime.java import ensure_java
from sase.testing import Block, Outcome, cases_in, outcomes
from sase.testing import blocks as blocks_of

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
RETAIL = sase.Catalog.load(ROOT / "examples/retail.toml")
LIBRARY = sase.Catalog.load(ROOT / "examples/library/library.toml")
CARS = sase.Catalog.load(ROOT / "examples/vdms_pq/cars.toml")


def blocks(path: Path) -> list[Block]:
    return blocks_of(path.read_text(encoding="utf-8"))


def of_kind(kind: str, *paths: Path) -> list[Any]:
    """Parameters for a test: the blocks of a kind, in these documents or in all of them."""
    return [
        pytest.param(block, id=f"{path.relative_to(ROOT)}:{block.line}")
        for path in paths or DOCUMENTS
        for block in blocks(path)
        if block.kind == kind
    ]


# ---- commands -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the examples in it, where commands may leave files; the project's own commands are on the PATH."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


def output_of(command: str, folder: Path) -> str:
    """In a process of its own, as the README's reader has it."""
    ensure_java()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    answer = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path, "TZ": "UTC", "PYTHONUNBUFFERED": "1"},  # both streams in their order
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert answer.returncode == 0 or "error:" in answer.stdout, answer.stdout
    return answer.stdout


# Commands are read one by one, and share one Spark: to start it takes longer than all else that most of them do.
ONE_BY_ONE = """
import contextlib, io, json, sys
from sase.cli import main
for line in sys.stdin:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        status = main(json.loads(line))
    print(json.dumps([status, shown.getvalue()]), flush=True)
"""


@pytest.fixture(scope="module")
def ours(shell: Path) -> Iterator[Callable[[str, Path], str]]:
    """Like `output_of`, for this folder: what is a command of ours and no more shares one process with its like."""
    ensure_java()
    process = subprocess.Popen(
        [sys.executable, "-c", ONE_BY_ONE],
        cwd=shell,
        env=os.environ | {"TZ": "UTC"} | environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    commands, answers = process.stdin, process.stdout

    def output(command: str, where: Path) -> str:
        name, *arguments = shlex.split(command.replace("\\\n", " "))
        if name != "sase" or set(command) & set("|><&;$"):
            return output_of(command, where)
        print(json.dumps(arguments), file=commands, flush=True)
        status, shown = json.loads(answers.readline())
        assert status == 0 or "error:" in shown, shown
        return str(shown)

    yield output
    commands.close()
    process.wait(timeout=60)


README, QUICKSTART = ROOT / "README.md", ROOT / "docs/quickstart.md"

*ALONE, STREAMING = of_kind("console", README)
"""The README's first command, and the job that it writes, have Spark's own settings and a process each."""


@pytest.mark.spark
@pytest.mark.parametrize("block", ALONE)
def test_the_readmes_commands_print_what_is_shown(block: Block, shell: Path) -> None:
    run_commands(block, shell, output_of)


@pytest.mark.spark
@pytest.mark.parametrize(
    "block", [STREAMING, *of_kind("console", *(path for path in DOCUMENTS if path not in (README, QUICKSTART)))]
)
def test_commands_print_what_is_shown(block: Block, shell: Path, ours: Callable[[str, Path], str]) -> None:
    run_commands(block, shell, ours)


@pytest.mark.spark
def test_the_quickstart_leads_from_a_folder_to_a_tested_query(shell: Path, ours: Callable[[str, Path], str]) -> None:
    """One step after the other; a block `sase FILE` is that file."""
    for block in blocks(QUICKSTART):
        match block.kind.split():
            case ["sase", name]:
                (shell / name).write_text(block.text, encoding="utf-8")
            case ["console"]:
                run_commands(block, shell, ours)
    assert (shell / "abandoned.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def run_commands(block: Block, folder: Path, output: Callable[[str, Path], str]) -> None:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", part, flags=re.DOTALL)
        assert lines is not None
        assert_shown(output(lines[1], folder), lines[2])


def assert_shown(found: str, shown: str) -> None:
    """`…` stands for anything; times taken may differ, and blanks at the ends of lines do not count."""

    def normal(text: str) -> str:
        return re.sub(r"(\d+ min )?\d+(\.\d+)? s\b", "0 s", re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip())

    form = ".*".join(map(re.escape, normal(shown).split("…")))
    assert re.fullmatch(form, normal(found), flags=re.DOTALL), f"shown:\n{shown}\nfound:\n{found}"


@pytest.mark.parametrize("block", of_kind("sh"))
def test_targets_and_extras_exist(block: Block) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for line in block.text.splitlines():
        match shlex.split(line, comments=True):
            case ["make", *names]:
                assert set(names) <= set(targets)
            case ["pip", "install", what]:
                assert set(re.findall(r"\[(\w+)\]", what)) <= set(project["optional-dependencies"])
            case words:
                assert not words, f"{line} cannot be checked"


# ---- Python -------------------------------------------------------------------------------------


WITH_PYTHON = [path for path in DOCUMENTS if any(block.kind == "python" for block in blocks(path))]


@pytest.mark.parametrize("path", WITH_PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_runs(path: Path, spark: SparkSession, shell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shell)
    namespace: dict[str, Any] = {}
    for block in blocks(path):
        if block.kind == "python":
            padding = "\n" * block.line  # tracebacks then name the document's own lines
            exec(compile(padding + block.text, str(path), "exec"), namespace)


@pytest.mark.parametrize("block", of_kind("python excerpt"))
def test_excerpts_are_of_the_generated_job(block: Block) -> None:
    text = (ROOT / "examples/shoplifters.sase").read_text(encoding="utf-8")
    job = sase.compile(text, RETAIL, filename="shoplifters.sase").job
    for piece in re.split(r"^…\n", block.text, flags=re.MULTILINE):
        assert piece.strip("\n") in job


# ---- queries ------------------------------------------------------------------------------------

LETTERS = sase.Catalog(
    types={
        **{name: {"ts": "bigint", "id": "int", "v": "int"} for name in "ABC"},
        "D": {"ts": "bigint", "id": "int"},
    }
)


FLIGHTS = sase.Catalog(types={"FLIGHT": DECLARED})
UNCERTAIN = sase.Catalog(types={name: {"ts": "bigint", "id": "int", "prob": "double"} for name in "ABC"})


def catalog_of(query: str) -> sase.Catalog:
    if "FLIGHT " in query:
        return FLIGHTS
    if "probability()" in query:
        return UNCERTAIN
    if ":START" in query:
        return CARS
    if "FROM Book" in query:
        return LIBRARY
    return RETAIL if "-READING" in query or "-READNG" in query else LETTERS


def with_behind(kind: str) -> list[Any]:
    """The queries of all documents together with the block of this kind behind them."""
    return [
        pytest.param(query.text, behind.text, id=f"{path.relative_to(ROOT)}:{query.line}")
        for path in DOCUMENTS
        for query, behind in pairwise(blocks(path))
        if query.kind == "sase" and behind.kind == kind
    ]


def test_the_readme_shows_the_bundled_query() -> None:
    first = next(block.text for block in blocks(ROOT / "README.md") if block.kind == "sase")
    assert (ROOT / "examples/shoplifters.sase").read_text(encoding="utf-8").endswith(first)


def test_queries_compile() -> None:
    for path in DOCUMENTS:
        for query, behind in pairwise([*blocks(path), Block("", "", 0)]):
            if query.kind in NAMES and behind.kind != "error":
                name = f"{path.name}:{query.line}"
                sase.compile(query.text, catalog_of(query.text), filename=name, language=query.kind)


@pytest.mark.parametrize(("query", "error"), with_behind("error"))
def test_errors_are_shown_literally(query: str, error: str) -> None:
    with pytest.raises(sase.SaseError) as caught:
        sase.compile(query, catalog_of(query))
    assert str(caught.value) == error.rstrip("\n")


@pytest.mark.parametrize(
    ("query", "message"),
    re.findall(r"^\| `(EVENT .*?)` \| (.*) \|$", (ROOT / "docs/language.md").read_text(encoding="utf-8"), re.MULTILINE),
)
def test_what_is_refused(query: str, message: str) -> None:
    with pytest.raises(sase.SaseError) as caught:
        sase.compile(query, catalog_of(query))
    assert [found.message for found in caught.value.diagnostics] == [message]


CASES = [case for path in DOCUMENTS for case in cases_in(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, Outcome]:
    """What became of the queries with events, by their places."""
    return {outcome.case.place: outcome for outcome in outcomes(CASES, LETTERS, spark)}


@pytest.mark.parametrize("place", [case.place for case in CASES])
def test_queries_find_what_is_shown(found: dict[str, Outcome], place: str) -> None:
    assert found[place].passed, str(found[place])


@pytest.mark.parametrize("block", of_kind("sql"))
def test_statements_compile(block: Block) -> None:
    assert sase.compile_sql(block.text, "trino").job


@pytest.mark.parametrize("block", of_kind("toml"))
def test_catalogs_load(block: Block, tmp_path: Path) -> None:
    (tmp_path / "catalog.toml").write_text(block.text, encoding="utf-8")
    sase.Catalog.load(tmp_path / "catalog.toml")


# ---- names and links ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        elif not target.startswith("http"):
            assert (path.parent / target.split("#")[0]).exists(), target


def test_the_names_in_the_glossary_exist() -> None:
    folders = ("compiler", "runtime", "templates", "sase")
    code = "\n".join(
        file.read_text(encoding="utf-8")
        for name in folders
        for file in (ROOT / name).rglob("*.*")
        if file.suffix in (".py", ".jinja")
    )
    for row in (ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines():
        for name in re.findall(r"`([\w./-]+)`", row.split("|")[2]) if row.startswith("|") else []:
            assert (ROOT / name).exists() or re.search(rf"(?<!\w){name.split('.')[-1]}\b", code), name
