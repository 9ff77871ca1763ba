"""Python's garbage collector, in a process of the command `sase`.

Most of what a compiler makes stays until the end, and the collector would look through all of it, again and again. So
it waits while modules are loaded and a query is compiled. A stream goes on for months: of what Spark has shown to
Python, Java lets go when Python does.
"""

from __future__ import annotations

import gc

_LATER = 1_000_000
_usual: list[tuple[int, int, int]] = []


def wait() -> None:
    """Until `go_on`, or the end of the process."""
    _usual.append(gc.get_threshold())
    gc.set_threshold(_LATER)


def go_on() -> None:
    """As usual from now on, if it was told to wait; what is there by now stays, and is not looked at again."""
    if _usual:
        gc.freeze()
        gc.set_threshold(*_usual.pop())
