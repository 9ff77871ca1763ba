"""What a worker needs of this package, which its machine may not have.

Functions for Spark are pickled by value, without an object of this package: so a worker can say what it misses, or have
it brought along first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sase import __version__


def from_package(module: str, name: str, bootstrap: Callable[[], None] | None) -> Callable[[], Any]:
    """A function that imports it where it is called, after `bootstrap`."""
    version = __version__

    def load() -> Any:
        import importlib
        import socket

        if bootstrap is not None:
            bootstrap()
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("sase"):
                raise
            raise RuntimeError(
                f"sase {version} is not installed on this executor ({socket.gethostname()}): install it there "
                f"(pip install sase=={version}) or compile the job with --standalone, which carries the runtime inside"
            ) from error

    return load
