"""The wheel holds all that an installed `sase` reads, under one top-level name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "sase", "compiler", "runtime", "templates")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """Built from a copy: setuptools leaves its build folders beside what it builds."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    build = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
    answer = subprocess.run([sys.executable, "-c", build], cwd=copy, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    (path,) = copy.glob("dist/sase-*.whl")
    return ZipFile(path)


def test_the_wheel_holds_every_file_of_the_packages(wheel: ZipFile) -> None:
    here = {
        "/".join(("sase", *([] if folder == "sase" else [folder]), *file.relative_to(ROOT / folder).parts))
        for folder in ("sase", "compiler", "runtime", "templates")
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and file.parent.name != "__pycache__"
    }
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == here


def test_the_unpacked_wheel_finds_its_grammar_and_templates(wheel: ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = """if True:
        import sys
        sys.path.insert(0, ".")
        from importlib.resources import files
        for package, suffix in [
            ("sase.compiler.languages.sase", ".lark"),
            ("sase.compiler.languages.sql", ".lark"),
            ("sase.compiler.languages.telegraphcq", ".lark"),
            ("sase.compiler.languages.vdms_pq", ".lark"),
            ("sase.templates", ".jinja"),
        ]:
            found = [file for file in files(package).iterdir() if file.name.endswith(suffix)]
            assert found and all(file.read_text(encoding="utf-8") for file in found), package
            assert str(found[0]).startswith(sys.argv[1]), found
    """
    answer = subprocess.run([sys.executable, "-I", "-c", code, tmp_path], cwd=tmp_path, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
