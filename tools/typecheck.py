"""Run mypy over the packages under the names that they are imported by.

mypy knows no package-dir, so it reads a tree of links that is laid out as the installed package is. Messages name the
files of the checkout.
"""

from __future__ import annotations

import os
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

from mypy import api

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / ".mypy_cache" / "tree"


def main() -> int:
    folders: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    for package, folder in folders.items():
        link_files(ROOT / folder, TREE.joinpath(*package.split(".")))
    os.environ["MYPYPATH"] = str(TREE)
    os.chdir(ROOT)
    report, trouble, status = api.run(["--package", "sase"])
    for package, folder in reversed(folders.items()):
        report = report.replace(f"{TREE.relative_to(ROOT)}/{package.replace('.', '/')}/", f"{folder}/")
    sys.stdout.write(report)
    sys.stderr.write(trouble)
    return status


def link_files(source: Path, target: Path) -> None:
    """Make `target` hold a link to each Python file of `source`, and no other file."""
    target.mkdir(parents=True, exist_ok=True)
    names = {file.name for file in source.iterdir() if file.suffix in (".py", ".pyi") or file.name == "py.typed"}
    for stale in (file for file in target.iterdir() if file.is_symlink() and file.name not in names):
        stale.unlink(missing_ok=True)
    for name in names:
        with suppress(FileExistsError):
            (target / name).symlink_to(source / name)


if __name__ == "__main__":
    sys.exit(main())
