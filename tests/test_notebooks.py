"""The notebooks run from top to bottom, and show what is committed; and the stop button stops what they run."""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from quick_spark import environment

from sase.runtime.java import ensure_java

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parent.parent
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelManager]:
    """One for all tests here: its Spark takes as long to start as most of them take to run."""
    ensure_java()
    with tool().kernel(environment(compiled=True)) as manager:
        yield manager


@pytest.fixture(scope="module")
def executed(kernel: KernelManager) -> dict[str, Any]:
    """All notebooks, after the kernel has run them."""
    notebooks = tool()
    return {path.stem: notebook for path, notebook in notebooks.executed(notebooks.NOTEBOOKS, kernel)}


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


# ---- a live kernel ------------------------------------------------------------------------------


@dataclass
class Cell:
    """What came of a cell, and how long after the press of the stop button it was over."""

    status: str = ""
    messages: list[tuple[str, Any]] = field(default_factory=list)
    lasted: float = 0.0

    @property
    def printed(self) -> str:
        return "".join(content["text"] for kind, content in self.messages if kind == "stream")

    @property
    def error(self) -> list[str]:
        return [line for kind, content in self.messages if kind == "error" for line in content["traceback"]]


class Frontend:
    """As much of a notebook's page as there is between its buttons and the kernel."""

    def __init__(self, kernel: KernelManager, client: BlockingKernelClient) -> None:
        self.kernel, self.client = kernel, client

    def run(self, code: str, stop_at: str | None = None) -> Cell:
        """Runs a cell, and presses the stop button once its progress matches."""
        cell, pressed = Cell(), list[float]()

        def receive(message: Any) -> None:
            kind, content = message["msg_type"], message["content"]
            cell.messages.append((kind, content))
            if stop_at and not pressed and re.search(stop_at, content.get("data", {}).get("text/plain", "")):
                pressed.append(time.monotonic())
                self.kernel.interrupt_kernel()

        reply = self.client.execute_interactive(code, output_hook=receive, allow_stdin=False, timeout=120)
        assert bool(pressed) is bool(stop_at)
        cell.status, cell.lasted = reply["content"]["status"], time.monotonic() - pressed[0] if pressed else 0.0
        return cell


LIFTERS = """
EVENT SEQ(SHELF-READING x, !(COUNTER-READING y), EXIT-READING z)
WHERE [id] WITHIN 12 hours RETURN x.id"""

SETUP = """
import sase, time
%load_ext sase
spark = sase.session()
readings = spark.read.parquet("../examples/data/retail.parquet")

def wait(batches):
    for batch in batches:
        time.sleep(100)
        yield batch

slow = readings.mapInArrow(wait, readings.schema)
slow_stream = spark.readStream.schema(readings.schema).parquet("../examples/data").mapInArrow(wait, readings.schema)
many = spark.range(100_000).selectExpr("'A' AS type", "id AS ts").coalesce(1)

def busy():
    tracker = spark.sparkContext.statusTracker()
    time.sleep(0.5)
    return [*tracker.getActiveJobsIds(), *tracker.getActiveStageIds(), *spark.streams.active]
"""


@pytest.fixture(scope="module")
def frontend(kernel: KernelManager) -> Iterator[Frontend]:
    client = kernel.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    frontend = Frontend(kernel, client)
    assert frontend.run(SETUP).status == "ok"
    yield frontend
    client.stop_channels()


@pytest.mark.parametrize(
    ("cell", "stop_at", "outcome"),
    [
        (f"%%sase found --events slow{LIFTERS}", "of [1-9].* tasks", "the Spark job was cancelled"),
        # In the kernel's loop, which knows nothing of signals: Spark has to end the process.
        (
            "%%sase found --events many --count\nEVENT SEQ(A a, A b, A c, A d)",
            "of [1-9].* tasks · [3-9] s",
            "the Spark job was",
        ),
        (f"%%sase found --events slow_stream --stream{LIFTERS}", "waiting .* [1-9] s", "the stream was cancelled"),
    ],
)
def test_the_stop_button_ends_the_cell_and_what_it_began(
    frontend: Frontend, cell: str, stop_at: str, outcome: str
) -> None:
    stopped = frontend.run(cell, stop_at)
    assert stopped.status == "error" and len(stopped.error) == 1
    assert re.fullmatch(rf"interrupted after [\d.]+ s; {outcome}.*", stopped.error[0])
    assert stopped.lasted < 15
    assert [kind for kind, _ in stopped.messages][-3:-1] == ["clear_output", "error"]  # no bar is left behind
    after = frontend.run(f"print(busy())\nget_ipython().run_cell_magic('sase', 'found --events readings', {LIFTERS!r})")
    assert after.printed == "[]\n"
    shown = [content["data"]["text/plain"] for _, content in after.messages if "data" in content]
    assert "found: 7 matches" in shown[-1]


def test_the_stop_button_never_shows_a_trace_whenever_it_is_pressed(frontend: Frontend) -> None:
    """Most of the time is spent in calls to the JVM, and an exception must not come out of one of them."""
    press = "import os, threading; threading.Timer({}, os.kill, (os.getpid(), 2)).start()"
    for after in (0.03, 0.06, 0.1, 0.15, 0.2, 0.3):
        cell = frontend.run(
            f"{press.format(after)}\nget_ipython().run_cell_magic('sase', 'found --events slow', {LIFTERS!r})"
        )
        assert len(cell.error) == 1 and cell.error[0].startswith("interrupted "), cell.error
        assert cell.printed == ""
    assert frontend.run("print(busy(), spark.range(3).count())").printed == "[] 3\n"


def test_the_extension_may_be_loaded_again(frontend: Frontend) -> None:
    again = frontend.run("%load_ext sase\n%reload_ext sase\n%load_ext autoreload\n%autoreload 2")
    assert again.status == "ok" and "already loaded" in again.printed
    cell = "%%sase found --events readings\nEVENT SEQ(SHELF-READING probe, EXIT-READING z) WHERE pro"
    message = frontend.client.complete(cell, len(cell), reply=True, timeout=20)
    assert message["content"]["matches"] == ["probe."]
    assert frontend.run(f"%%sase found --events readings{LIFTERS}").status == "ok"
