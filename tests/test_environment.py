"""What `make setup` does beside installing."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "environment", Path(__file__).resolve().parent.parent / "tools" / "environment.py"
)
assert _spec is not None and _spec.loader is not None
environment = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(environment)


def test_modules_of_an_archive_are_compiled_and_what_it_is_linked_to_stays_as_it_is(tmp_path: Path) -> None:
    kept, archive = tmp_path / "kept.zip", tmp_path / "pyspark.zip"
    with zipfile.ZipFile(kept, "w") as made:
        for name, text in {"worker.py": "SIX = 6\n", "tests/test_worker.py": "broken(\n", "notes.txt": "x"}.items():
            made.writestr(f"pyspark/{name}", text)
        made.writestr("pyspark/__init__.py", "")
    os.link(kept, archive)
    before = kept.read_bytes()
    environment.compile_modules(archive)
    assert kept.read_bytes() == before
    asked = "from pyspark import worker; print(worker.SIX, worker.__file__)"
    told = subprocess.run(
        [sys.executable, "-c", asked], env={**os.environ, "PYTHONPATH": str(archive)}, capture_output=True, text=True
    )
    assert told.stdout.split() == ["6", str(archive / "pyspark" / "worker.pyc")]
