"""An archive of the classes that Spark loads, which Java maps instead of reading them from 300 jars, one by one.

A JVM is up in half the time with it. An archive fits one Java and one set of jars, and its name says which: Java goes
on without one that is missing, empty or unfit. From Java 19 on, the JVM makes it by itself when it ends. Before that,
`python -m sase.archive` does, which the first run leaves behind when it is over.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pyspark

from sase import cache
from sase.runtime.java import Java

BY_ITSELF = 19
"""The first Java that makes an archive by itself, and anew when it does not fit."""

SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Else Java says on stdout that an archive does not fit."""


def archive(java: Java) -> Path | None:
    """Where the archive is, or would be; None where there is no place for it, or nobody wants it."""
    place = cache.folder()
    if place is None or os.environ.get("SASE_CLASS_ARCHIVE") == "0":
        return None
    jars = sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))
    found = [(str(jar), status.st_size, status.st_mtime_ns) for jar in jars for status in [jar.stat()]]
    return place / f"spark-{sha256(repr((java.identity, found)).encode()).hexdigest()[:32]}.jsa"


def mapped(file: Path) -> str:
    """What Java is told, so that it takes its classes from there."""
    return f"-XX:SharedArchiveFile={quoted(file)} {SILENT}"


def quoted(file: Path) -> str:
    """As Spark reads it where it takes options apart."""
    escaped = str(file).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def archive_options(java: Java) -> str:
    """What Java is told: to take the archive that there is. Where there is none, it will be made."""
    file = archive(java)
    if file is None:
        return ""
    if java.version >= BY_ITSELF:
        return f"-XX:+AutoCreateSharedArchive {mapped(file)}"
    if not file.exists():
        if find_spec("sase.archive") is not None:  # a standalone job has none
            atexit.register(_make)
        return ""
    if not file.stat().st_size:
        return ""  # it could not be made
    os.utime(file)  # it is in use
    return mapped(file)


def _make() -> None:
    """Leaves a process behind that makes the archive, and that nobody waits for."""
    nowhere = subprocess.DEVNULL
    command = [sys.executable, "-m", "sase.archive"]
    subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
