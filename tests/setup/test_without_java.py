"""`make setup` works on a machine without Java, in a folder with a space in its name."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS

pytestmark = [pytest.mark.job, pytest.mark.long]

ROOT = Path(__file__).parents[2]
_BATCH = Path(__file__).with_name("one_batch.py")
_NEEDED = ("Makefile", "pyproject.toml", "README.md", "wheel_version.py", *map(str, ROOT.glob("requirements*.lock")))
_NOT_INHERITED = ("JAVA_", "JDK_", "PYSPARK_", "SPARK_", "PYTHONPATH", "VIRTUAL_ENV", "MAKE", "MFLAGS")


def environment_without_java(folder: Path) -> dict[str, str]:
    """This process's environment without Java: `PATH` is one folder of links to all commands except `java`."""
    folder.mkdir()
    for path in map(Path, os.get_exec_path()):
        for command in sorted(path.iterdir()) if path.is_dir() else ():
            if command.name != "java" and not (folder / command.name).is_symlink():
                (folder / command.name).symlink_to(command)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    return inherited | {"PATH": str(folder), "JAVA_TOOL_OPTIONS": SHORT_LIVED_JVM_OPTIONS}


def test_setup_and_one_micro_batch_work_on_a_machine_without_java(tmp_path: Path) -> None:
    environment = environment_without_java(tmp_path / "commands")
    assert shutil.which("java", path=environment["PATH"]) is None
    checkout = tmp_path / "a checkout"
    shutil.copytree(ROOT / "lib", checkout / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in _NEEDED:
        shutil.copy(ROOT / name, checkout)
    subprocess.run(["make", "setup"], cwd=checkout, env=environment, check=True, timeout=600)
    assert (checkout / ".venv" / "share" / "sessionization" / "java" / "bin" / "java").is_file()
    python = checkout / ".venv" / "bin" / "python"
    process = subprocess.run(
        [python, _BATCH, tmp_path / "a batch"],
        env=environment,
        check=True,
        timeout=300,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout == "[(0, 3), (1, 3)]\n"
