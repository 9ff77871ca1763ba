"""Where a standalone job unpacks the runtime: a place that nobody else can have prepared or can change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sase.standalone import preamble

WHERE = "import sase.runtime.pattern\nprint(sase.runtime.pattern.__file__)"


def unpack(folder: Path, user: int | None = None) -> subprocess.CompletedProcess[str]:
    """What a job does first, with `folder` for temporary files."""
    somebody = "" if user is None else f"import os\nos.getuid = lambda: {user}\n"
    environment = {key: value for key, value in os.environ.items() if key not in ("SASE_CACHE_DIR", "PYTHONPATH")}
    return subprocess.run(
        [sys.executable, "-I", "-"],
        input=f"{somebody}{preamble()}\n{WHERE}",
        capture_output=True,
        text=True,
        env=environment | {"TMPDIR": str(folder)},
    )


def home(folder: Path) -> Path:
    return folder / f"sase-{os.getuid()}"


def test_the_files_are_private_and_used_again(tmp_path: Path) -> None:
    first, second = unpack(tmp_path), unpack(tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    assert Path(first.stdout.strip()).is_relative_to(home(tmp_path))
    folders = [home(tmp_path), *(path for path in home(tmp_path).rglob("*") if path.is_dir())]
    assert {oct(path.stat().st_mode & 0o777) for path in folders if path.name != "__pycache__"} == {"0o700"}


def test_a_file_that_differs_is_written_again(tmp_path: Path) -> None:
    file = Path(unpack(tmp_path).stdout.strip())
    file.write_text("raise SystemExit('changed')")
    assert unpack(tmp_path).returncode == 0


def open_to_all(folder: Path) -> None:
    home(folder).mkdir()
    home(folder).chmod(0o777)


def a_link(folder: Path) -> None:
    (folder / "elsewhere").mkdir(mode=0o700)
    home(folder).symlink_to(folder / "elsewhere")


def open_further_down(folder: Path) -> None:
    assert unpack(folder).returncode == 0
    (runtime,) = home(folder).glob("*/sase/runtime")
    runtime.chmod(0o777)


def a_link_further_down(folder: Path) -> None:
    assert unpack(folder).returncode == 0
    (runtime,) = home(folder).glob("*/sase/runtime")
    runtime.rename(folder / "elsewhere")
    runtime.symlink_to(folder / "elsewhere")


@pytest.mark.parametrize("prepared", [open_to_all, a_link, open_further_down, a_link_further_down])
def test_a_place_that_others_can_change_is_refused(tmp_path: Path, prepared: Callable[[Path], None]) -> None:
    prepared(tmp_path)
    answer = unpack(tmp_path)
    assert answer.returncode == 1
    assert "is a link, or others can write to it: set SASE_CACHE_DIR to a folder of your own" in answer.stderr


def test_a_place_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sase-4711").mkdir(mode=0o700)
    answer = unpack(tmp_path, user=4711)
    assert answer.returncode == 1
    assert f"{tmp_path / 'sase-4711'} belongs to somebody else" in answer.stderr


def test_a_temporary_folder_in_which_anybody_can_rename_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    answer = unpack(tmp_path)
    assert answer.returncode == 1
    assert f"anybody can replace what is in {tmp_path}" in answer.stderr
    tmp_path.chmod(0o1777)
    assert unpack(tmp_path).returncode == 0
