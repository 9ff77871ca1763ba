"""The process of the command `sase`, which ends with its command."""

from __future__ import annotations

import gc
import os
import sys

from sase import collector
from sase.cli import main


def process() -> int:
    collector.wait()
    try:
        status = main()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever reads what is printed, as `head` does, has had enough. Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    finally:
        gc.freeze()  # else all of it would be looked through at the end


if __name__ == "__main__":
    raise SystemExit(process())
