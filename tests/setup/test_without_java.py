"""`make setup` works on a machine without Java, in a folder with a space in its name."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS
from tests.support.delta import read_table

pytestmark = [pytest.mark.job, pytest.mark.long]

ROOT = Path(__file__).parents[2]
_NEEDED = ("Makefile", "pyproject.toml", "README.md", *map(str, ROOT.glob("requirements*.lock")))
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


def test_setup_and_a_job_work_on_a_machine_without_java(tmp_path: Path) -> None:
    environment = environment_without_java(tmp_path / "commands")
    assert shutil.which("java", path=environment["PATH"]) is None
    checkout = tmp_path / "a checkout"
    for folder in ("lib", "jobs"):
        shutil.copytree(ROOT / folder, checkout / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _NEEDED:
        shutil.copy(ROOT / name, checkout)
    subprocess.run(["make", "setup"], cwd=checkout, env=environment, check=True, timeout=600)
    assert (checkout / ".venv" / "share" / "sessionization" / "java" / "bin" / "java").is_file()
    python = checkout / ".venv" / "bin" / "python"
    for job, *options in (
        ("simulate", "--output=input", "--duration=1m", "--pace=max"),
        ("sessionize", "--input=input", "--warehouse=tables", "--checkpoints=checkpoints", "--run-for=30s"),
    ):
        command = [python, checkout / "jobs" / f"{job}.py", *options]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=300)
    assert len(read_table(tmp_path / "tables" / SESSION_CHANGES.name)) > 0
