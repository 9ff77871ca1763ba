"""The process of the command `sase`, which ends with its command."""

from __future__ import annotations

import gc

from sase.cli import main


def process() -> int:
    """Most of what a compiler makes stays until the end, and Python would look through all of it, again and again, and
    once more at the end."""
    gc.set_threshold(1_000_000)
    try:
        return main()
    finally:
        gc.freeze()


if __name__ == "__main__":
    raise SystemExit(process())
