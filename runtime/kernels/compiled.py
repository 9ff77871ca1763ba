"""Kernels in machine code. numba keeps what it has compiled in its cache, so only the first time takes long."""

from __future__ import annotations

import gc
import sys
from typing import Any

_UNCOUNTED = {"_nrt": False}
"""numba counts the references to an array wherever one is taken out of a tuple: two atomic instructions each time, and
three quarters of a search were spent on them. This is the option by which it does not; it is not documented."""


def in_machine_code(function: Any, signature: Any, *, allocates: bool = True) -> Any:
    """What `allocates` no array has nobody to free one, and counts no references."""
    options = {} if allocates else _UNCOUNTED
    try:
        return _compiled(function, signature, options)
    except KeyError:  # a numba that has no such option
        return _compiled(function, signature, {})
    finally:
        _keep_libraries()


def over_strings(function: Any, number: str) -> Any | None:
    """One that is given the ends of strings, their letters and a number for each, and makes numbers of these. None
    without numba."""
    try:
        import numba
    except ImportError:
        return None
    types: Any = numba.types
    ends, letters = (types.Array(kind, 1, "C", readonly=True) for kind in (types.int64, types.uint8))
    numbers = types.Array(getattr(types, number), 1, "C")
    return in_machine_code(function, numbers(ends, letters, numbers))


def _compiled(function: Any, signature: Any, options: dict[str, bool]) -> Any:
    import numba

    njit: Any = numba.njit
    try:
        return njit(signature, cache=True, nogil=True, **options)(function)
    except RuntimeError:  # nowhere to keep the cache
        return njit(signature, nogil=True, **options)(function)


def _keep_libraries() -> None:
    """Spark's workers look for garbage between two tasks, and numba has so many objects that this takes a tenth of a
    second each time. What a worker has loaded it needs to its end, and it is not looked at again."""
    if "pyspark.worker" in sys.modules:
        gc.freeze()
