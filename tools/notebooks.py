"""Execute the notebooks, all in one kernel, and save them with outputs that are small.

Between notebooks the kernel forgets its variables; its Spark session stays, which spares a JVM a notebook.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CELL_SECONDS = 300

FORGET = "get_ipython().reset(new_session=False); get_ipython().extension_manager.loaded.discard('sase')"


@contextmanager
def kernel(environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[KernelManager]:
    """Its sockets are files. A port is free again when the kernel ends, and a client that goes on calling it there
    would disturb whoever has it then: one of Spark's answers was lost to that."""
    with tempfile.TemporaryDirectory() as folder:
        manager = KernelManager(kernel_name="python3", transport="ipc", connection_file=f"{folder}/kernel.json")
        manager.start_kernel(cwd=str(ROOT / "notebooks"), env=os.environ | {"TZ": "UTC", **environment})
        try:
            yield manager
        finally:
            manager.shutdown_kernel(now=True)


def executed(paths: list[Path], manager: KernelManager) -> Iterator[tuple[Path, Any]]:
    """Each notebook as it is after a run from top to bottom. An error that a cell does not announce is raised."""
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        client = NotebookClient(notebook, km=manager, timeout=CELL_SECONDS)
        with client.setup_kernel():
            client.kc.execute_interactive(FORGET, silent=True, timeout=CELL_SECONDS)
            client.execute(reset_kc=False)
        slim(notebook)
        yield path, notebook


def slim(notebook: Any) -> None:
    """Drops what changes from run to run, and the JavaScript library: without it, a picture stands still."""
    from sase.pictures.picture import LIBRARY_START

    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), 1):
        cell.metadata.pop("execution", None)
        cell.execution_count = number
        for output in cell.get("outputs", []):
            output.pop("transient", None)
            if "execution_count" in output:
                output["execution_count"] = number
            html = output.get("data", {}).get("text/html", "")
            if html.startswith(LIBRARY_START):
                output["data"]["text/html"] = html.partition("</script>")[2]


def main() -> None:
    with kernel() as manager:
        for path, notebook in executed(NOTEBOOKS, manager):
            path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
