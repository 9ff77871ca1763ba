"""The archive of Spark's classes: which one a run takes, when one is made, and that Java is silent about a bad one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sase import cache
from sase.runtime import archive as archives
from sase.runtime.archive import archive, archive_options, mapped
from sase.runtime.errors import SaseRunError
from sase.runtime.io.files import FEW, few
from sase.runtime.java import Java, ensure_java

OLD, NEW = Java(17, "java 17.0.1"), Java(21, "java 21.0.1")


@pytest.fixture(autouse=True)
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """A cache and jars of its own; and what is left for the end of the process."""
    registered: list[Callable[[], None]] = []
    monkeypatch.setenv("SASE_CACHE_DIR", str(tmp_path / "it's cached"))
    monkeypatch.delenv("SASE_CLASS_ARCHIVE", raising=False)
    monkeypatch.setattr("atexit.register", registered.append)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark.jar").write_bytes(b"classes")
    monkeypatch.setattr("pyspark.__file__", str(tmp_path / "__init__.py"))
    return registered


def test_an_archive_is_made_where_there_is_none_and_taken_from_then_on(later: list[Callable[[], None]]) -> None:
    assert archive_options(OLD) == "" and later == [archives._make]
    file = archive(OLD)
    assert file is not None
    file.write_bytes(b"classes")
    assert archive_options(OLD) == mapped(file) and len(later) == 1


def test_where_none_could_be_made_nobody_tries_again(later: list[Callable[[], None]]) -> None:
    file = archive(OLD)
    assert file is not None
    file.touch()
    assert archive_options(OLD) == "" and not later


def test_a_newer_java_makes_its_own(later: list[Callable[[], None]]) -> None:
    file = archive(NEW)
    assert file is not None
    assert archive_options(NEW) == f"-XX:+AutoCreateSharedArchive {mapped(file)}" and not later


def test_another_java_and_other_jars_have_another_archive(tmp_path: Path) -> None:
    files = {archive(OLD), archive(NEW), archive(Java(17, "java 17.0.2"))}
    (tmp_path / "jars" / "spark.jar").write_bytes(b"other classes")
    assert len(files | {archive(OLD)}) == 4


def test_nobody_has_to_have_one(later: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SASE_CLASS_ARCHIVE", "0")
    assert archive_options(OLD) == archive_options(NEW) == "" and not later
    monkeypatch.delenv("SASE_CLASS_ARCHIVE")
    monkeypatch.setattr(cache, "folder", lambda: None)
    assert archive_options(OLD) == archive_options(NEW) == "" and not later


def test_any_folder_will_do(tmp_path: Path) -> None:
    assert mapped(Path('/a "b" \\c')).startswith('-XX:SharedArchiveFile="/a \\"b\\" \\\\c" ')


def test_java_goes_on_without_a_word(tmp_path: Path) -> None:
    try:
        ensure_java()
    except SaseRunError:
        pytest.skip("no Java")
    (tmp_path / "bad.jsa").write_bytes(b"no archive at all" * 1000)
    options = [option.replace('"', "") for option in mapped(tmp_path / "bad.jsa").split()]
    answer = subprocess.run(["java", *options, "-version"], capture_output=True, text=True, check=True)
    assert answer.stdout == "" and answer.stderr.startswith("openjdk version")


def test_few_events_are_small_files_of_this_machine(tmp_path: Path) -> None:
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    small.write_bytes(b"x")
    large.write_bytes(b"x" * FEW)
    assert few([str(small)]) and few([f"LOGIN={small}", str(small)]) and few([str(large)])
    assert not few([str(small), str(large)]) and not few([str(tmp_path)]) and not few(["a.table"]) and not few([])
