"""What is made once and kept for later runs, in a folder of the user's own.

Some of it is run when it is read back, so nobody else may be able to write there. A name says all that the content
depends on: what is kept never changes, and what does not fit is never found.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

DAYS = 60
"""How long a file is kept that is not touched."""


def folder() -> Path | None:
    """`sase` in $SASE_CACHE_DIR or in the user's cache folder, made if it is missing; None where there can be none, or
    where it is not ours alone."""
    try:
        base = os.environ.get("SASE_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        place = Path(base) / "sase"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return None
        if found.st_mode & 0o022:
            place.chmod(0o700)
    except (OSError, RuntimeError):  # RuntimeError: no home
        return None
    return place


def read(name: str) -> bytes | None:
    place = folder()
    if place is not None:
        with suppress(OSError):
            return (place / name).read_bytes()
    return None


def write(name: str, content: bytes, mode: int = 0o600) -> Path | None:
    """Keeps it, if there is a place. What nobody has made or touched for long goes."""
    place = folder()
    if place is None:
        return None
    with suppress(OSError):
        put(place / name, content, mode)
        forget(place)
        return place / name
    return None


def forget(place: Path) -> None:
    for path in place.iterdir():
        if path.is_file() and path.stat().st_mtime < time.time() - DAYS * 86_400:
            path.unlink(missing_ok=True)


def put(path: Path, content: bytes, mode: int) -> None:
    """In one step: another process sees all of it or nothing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, staged = tempfile.mkstemp(dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.chmod(staged, mode)
        os.replace(staged, path)
    except BaseException:
        os.unlink(staged)
        raise
