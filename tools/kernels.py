"""Compile the kernels into numba's cache: the first query, test or demo need not.

It takes one core a minute, so `make test` has something else for the other one. What is wrong with a broken kernel is
for the tests to report.
"""

from __future__ import annotations

import sys
import time

from sase.runtime.kernels import (
    arrivals,
    combinations,
    fold,
    furthest,
    hashing,
    murmur,
    products,
    rows,
    sequences,
    sort,
)

KERNELS = (sequences, sort, hashing, murmur, combinations, rows, products, arrivals, furthest, fold)


def main() -> None:
    started = time.monotonic()
    print("[setup] Kernels: compiling them into numba's cache", flush=True)
    try:
        for kernel in KERNELS:
            kernel._compiled()
    except Exception as error:
        print(f"[setup] Kernels: not compiled ({' '.join(str(error).split())[:200]})", flush=True)
    else:
        print(f"[setup]   {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
