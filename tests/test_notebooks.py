"""The notebooks run from top to bottom, and show what is committed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

from sase.runtime.java import ensure_java

ROOT = Path(__file__).parent.parent
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def executed() -> dict[str, Any]:
    """All notebooks, after one kernel has run them."""
    ensure_java()
    notebooks = tool()
    return {path.stem: notebook for path, notebook in notebooks.executed(notebooks.NOTEBOOKS)}


def shown(notebook: Any) -> list[list[Any]]:
    """What each cell shows, as far as it is the same on every machine: its texts without times, and the kinds of its
    other forms. Where the letters of a picture stand depends on the fonts."""
    return [_joined([_shown(output) for output in cell.get("outputs", [])]) for cell in notebook.cells]


def _joined(outputs: list[Any]) -> list[Any]:
    """What is printed comes in pieces, and where it is cut depends on the moment."""
    joined: list[Any] = []
    for kind, text in outputs:
        if joined and kind in ("stdout", "stderr") and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + text)
        else:
            joined.append((kind, text))
    return joined


def _shown(output: Any) -> Any:
    match output["output_type"]:
        case "stream":
            return output["name"], output["text"]
        case "error":
            return output["ename"], "\n".join(output["traceback"])
        case _:
            return sorted(output["data"]), re.sub(r"\d[\d.]* s$", "… s", output["data"]["text/plain"])


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_what_is_committed(executed: dict[str, Any], name: str) -> None:
    committed = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    assert shown(executed[name]) == shown(committed), "`make notebooks` saves what the notebooks show now"


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_small_and_quiet(name: str) -> None:
    path = ROOT / "notebooks" / f"{name}.ipynb"
    assert path.stat().st_size < 250_000
    notebook = nbformat.read(path, as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs and not any(output.get("name") == "stderr" for output in outputs)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.parametrize("name", NAMES)
def test_it_ends_with_what_to_try_next_and_links_to_what_is_there(name: str) -> None:
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert notebook.cells[-1].cell_type == "markdown" and "## What to try next" in notebook.cells[-1].source
    for target in re.findall(r"\]\((?!https:)([^)]+)\)", "\n".join(prose)):
        assert (ROOT / "notebooks" / target).exists(), target
