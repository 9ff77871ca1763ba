"""Kernels in machine code. numba keeps what it has compiled in its cache, so only the first time takes long."""

from __future__ import annotations

import gc
import sys
from typing import Any


def in_machine_code(function: Any, signature: Any) -> Any:
    import numba

    try:
        return numba.njit(signature, cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere to keep the cache
        return numba.njit(signature, nogil=True)(function)
    finally:
        _keep_libraries()


def _keep_libraries() -> None:
    """Spark's workers look for garbage between two tasks, and numba has so many objects that this takes a tenth of a
    second each time. What a worker has loaded it needs to its end, and it is not looked at again."""
    if "pyspark.worker" in sys.modules:
        gc.freeze()
