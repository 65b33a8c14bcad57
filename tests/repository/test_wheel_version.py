"""The wheels: what is in each, and its version. The same code has the same version, other code has another one."""

import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = runpy.run_path(str(ROOT / "wheel_version.py"))
version: Callable[[Path], str] = partial(MODULE["version"], "0.2.0", "sessionization")
PROJECTS = {"sessionization": ROOT, "sessionization_simulator": ROOT / "lib" / "sessionization_simulator"}
"""By wheel the folder of its pyproject.toml."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    package = tmp_path / "lib/sessionization"
    (package / "core").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (package / "__init__.py").write_text("")
    (package / "core/session_rules.py").write_text("LIVE = 1\n")
    return tmp_path


@pytest.mark.parametrize("package", PROJECTS)
def test_the_version_is_the_newest_release_of_the_changelog_and_a_hash(package: str) -> None:
    """Hatch evaluates the expression in the same way."""
    settings = tomllib.loads((PROJECTS[package] / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"][
        "version"
    ]
    release, plus, digits = eval(settings["expression"], dict(MODULE)).partition("+")
    assert (plus, len(digits)) == ("+", 12)
    newest = re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert release == newest[1]


def test_the_same_code_has_the_same_version_in_every_folder(project: Path, tmp_path: Path) -> None:
    original = version(project)
    (project / "lib/sessionization/core/__pycache__").mkdir()
    (project / "lib/sessionization/core/__pycache__/sessions.pyc").write_bytes(b"compiled")
    (project / "README.md").write_text("other words")
    assert version(project.rename(tmp_path.with_name("elsewhere"))) == original


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("lib/sessionization/core/session_rules.py", "LIVE = 2\n"),
        ("lib/sessionization/core/more.py", ""),
        ("pyproject.toml", "[project]\ndependencies = []\n"),
    ],
)
def test_other_code_has_another_version(project: Path, file: str, text: str) -> None:
    original = version(project)
    (project / file).write_text(text)
    assert version(project) != original


@pytest.mark.parametrize("package", PROJECTS)
def test_a_wheel_has_one_package_with_all_its_files(package: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(words, cwd=PROJECTS[package], check=True, capture_output=True)
    [wheel] = tmp_path.glob(f"{package}-*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = [file for file in (ROOT / "lib" / package).rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert packed == {str(file.relative_to(ROOT / "lib")) for file in files if file.name != "pyproject.toml"}
