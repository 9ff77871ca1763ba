"""A worker that keeps the memory that it has had.

Large arrays come and go, and by default each is memory that the system gives anew and takes back: to have its pages
made takes as long as to fill them. A third of a worker's time went there.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from functools import cache

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Options of glibc's `mallopt`."""
_KEPT = 512 << 20
"""Bytes that may be free before some are given back."""


@cache
def keep_memory() -> None:
    """For a worker of Spark's, once, where the C library is glibc."""
    if "pyspark.worker" not in sys.modules:
        return
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - other libraries have none, and other numbers of options
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, _KEPT)
        pa.set_memory_pool(pa.system_memory_pool())
