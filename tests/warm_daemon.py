"""Spark's daemon of Python workers, which has loaded what our workers load: each of them is a copy of it.

Spark starts a worker for every task that runs beside others, ends it after a minute of rest, and ends it at once where
a task did not read all of its input. To load libraries and compiled kernels takes a worker two seconds.
"""

from __future__ import annotations

import gc
import importlib
from contextlib import suppress

from pyspark import daemon

OPERATORS = ("operator.choice", "operator.partition", "operator.rows", "operator.totals", "stream.worker")
KERNELS = ("arrivals", "combinations", "fold", "furthest", "products", "rows", "sequences", "sort")


def load() -> None:
    import pandas  # noqa: F401
    import pyarrow.compute  # noqa: F401

    for name in OPERATORS:
        importlib.import_module(f"sase.runtime.{name}")
    for name in KERNELS:
        importlib.import_module(f"sase.runtime.kernels.{name}")._compiled()
    gc.freeze()  # after each task a worker looks for garbage, and need not look here


if __name__ == "__main__":
    with suppress(ModuleNotFoundError):  # where a test hides them, the worker says what it misses
        load()
    daemon.manager()
