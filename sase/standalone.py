"""The part of a standalone job that carries the runtime."""

from __future__ import annotations

from importlib.resources import files

import jinja2

import sase

_MODULES = (
    *("__init__", "arguments", "delta", "encode", "errors", "events", "inputs", "java", "job", "kernel", "output"),
    *("pattern", "report", "session", "ssc"),
)
_STREAM = ("live", "live_line", "live_worker", "sink", "stream", "stream_job")


def preamble(stream: bool = False) -> str:
    """Python source that makes `sase.runtime` importable wherever it runs."""
    sources = [("sase/__init__.py", f'__version__ = "{sase.__version__}"\n')]
    for name in (*_MODULES, *(_STREAM if stream else ())):
        source = files("sase.runtime").joinpath(f"{name}.py").read_text(encoding="utf-8")
        assert "'''" not in source, f"runtime/{name}.py is written between triple single quotes"
        sources.append((f"sase/runtime/{name}.py", source))
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    template = files("sase.templates").joinpath("standalone.py.jinja").read_text(encoding="utf-8")
    needs = "pyspark, numpy, pyarrow, pandas and protobuf" if stream else "pyspark, numpy and pyarrow"
    text: str = environment.from_string(template).render(version=sase.__version__, sources=sources, needs=needs)
    return text.rstrip("\n")
