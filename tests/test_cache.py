"""What is kept between runs: found again, never trusted where it is damaged or somebody else's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sase import cache

ROOT = Path(__file__).parent.parent
EXAMPLE = ["examples/shoplifters.sase", "--catalog", "examples/retail.toml"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SASE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sase"


def compiled() -> str:
    """The job, by a process of its own: nothing is kept in memory."""
    answer = subprocess.run(
        [sys.executable, "-m", "sase", "compile", *EXAMPLE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not answer.stderr
    return answer.stdout


def test_a_second_run_finds_what_the_first_has_made_and_makes_anew_what_is_damaged(place: Path) -> None:
    job = compiled()
    made = {path: path.read_bytes() for path in place.iterdir()}
    assert sorted(path.name.partition("-")[0] for path in made) == ["grammar", "template", "template", "template"]
    assert {path.stat().st_mode & 0o777 for path in made} == {0o600} and place.stat().st_mode & 0o777 == 0o700
    times = {path: path.stat().st_mtime_ns for path in made}
    assert compiled() == job
    assert {path: path.stat().st_mtime_ns for path in made} == times, "made again"
    for path, content in made.items():
        path.write_bytes(content[: len(content) // 2])
    assert compiled() == job
    assert sorted(place.iterdir()) == sorted(made)
    assert all(path.stat().st_size > 0.9 * len(content) for path, content in made.items()), "left as they were"


def test_what_is_kept_answers_as_what_was_made() -> None:
    from sase.compiler.languages.sase.grammar import parser_of

    made = parser_of.__wrapped__()
    found = parser_of.__wrapped__()
    assert (made.source_path, found.source_path) == ("<string>", "<deserialized>")
    text = "FROM s EVENT SEQ(A a, !(B b), ANY(C, D) c) WHERE [id] AND a.x = b.x + 1 WITHIN 3 hours RETURN a.id"
    assert found.parse(text) == made.parse(text)
    assert found.parse(text).meta.end_pos == len(text)


def test_a_folder_of_somebody_else_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.folder() == place
    (place / "mine").write_bytes(b"kept")
    assert cache.read("mine") == b"kept"
    monkeypatch.setattr("os.getuid", lambda: place.stat().st_uid + 1)
    assert cache.folder() is None and cache.read("mine") is None
    assert cache.write("other", b"") is None and not (place / "other").exists()


def test_a_link_is_not_followed(place: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place.parent.mkdir()
    place.symlink_to(elsewhere)
    assert cache.folder() is None


def test_others_lose_the_right_to_write(place: Path) -> None:
    place.mkdir(parents=True)
    place.chmod(0o777)
    assert cache.folder() == place and place.stat().st_mode & 0o777 == 0o700


def test_no_place_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SASE_CACHE_DIR", str(tmp_path / "file"))
    assert cache.folder() is None and cache.read("x") is None and cache.write("x", b"") is None


def test_what_nobody_touches_goes(place: Path) -> None:
    old, touched = cache.write("old", b""), cache.write("touched", b"")
    assert old is not None and touched is not None
    long_ago = time.time() - (cache.DAYS + 1) * 86_400
    os.utime(old, (long_ago, long_ago))
    cache.write("new", b"")
    assert sorted(path.name for path in place.iterdir()) == ["new", "touched"]
