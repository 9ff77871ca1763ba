"""The part of a standalone job that carries the runtime."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import jinja2

import sase


def runtime_sources(stream: bool) -> Iterator[tuple[str, str]]:
    """The files of the runtime below `sase/`, with their text; those of streams only where they are asked for."""
    waiting = [("runtime", files("sase.runtime"))]
    while waiting:
        path, folder = waiting.pop()
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                yield f"{path}/{entry.name}", entry.read_text(encoding="utf-8")
            elif entry.is_dir() and entry.name != "__pycache__" and (stream or entry.name != "stream"):
                waiting.append((f"{path}/{entry.name}", entry))


def preamble(stream: bool = False) -> str:
    """Python source that makes `sase.runtime` importable wherever it runs."""
    sources = [("sase/__init__.py", f'__version__ = "{sase.__version__}"\n')]
    cache = files("sase").joinpath("cache.py").read_text(encoding="utf-8")
    for path, source in [("cache.py", cache), *sorted(runtime_sources(stream))]:
        assert "'''" not in source, f"{path} is written between triple single quotes"
        sources.append((f"sase/{path}", source))
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    template = files("sase.templates").joinpath("standalone.py.jinja").read_text(encoding="utf-8")
    needs = "pyspark, numpy, pyarrow, pandas and protobuf" if stream else "pyspark, numpy and pyarrow"
    text: str = environment.from_string(template).render(version=sase.__version__, sources=sources, needs=needs)
    return text.rstrip("\n")
