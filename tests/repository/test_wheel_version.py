"""The bundle's wheels: what is in each, and its version. The same code has the same version, other code another one."""

import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MODULE = runpy.run_path(str(ROOT / "wheel_version.py"))
version: Callable[[Path], str] = partial(MODULE["version"], "0.2.0", "sessionization")
PACKAGES = ("sessionization", "sessionization_simulator")


def project_of(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    package = tmp_path / "lib/sessionization"
    (package / "core").mkdir(parents=True)
    (package / "pyproject.toml").write_text("[project]\n")
    (package / "__init__.py").write_text("")
    (package / "core/session_rules.py").write_text("LIVE = 1\n")
    return tmp_path


@pytest.mark.parametrize("package", PACKAGES)
def test_the_version_is_the_newest_release_of_the_changelog_and_a_hash(package: str) -> None:
    """Hatch evaluates the expression in the same way."""
    settings = project_of(ROOT / "lib" / package)["tool"]["hatch"]["version"]
    release, plus, digits = eval(settings["expression"], dict(MODULE)).partition("+")
    assert (plus, len(digits)) == ("+", 12)
    newest = re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert release == newest[1] == project_of(ROOT)["project"]["version"]


def test_a_cluster_needs_no_other_package_than_a_release() -> None:
    release, library = (project_of(folder)["project"] for folder in (ROOT, ROOT / "lib/sessionization"))
    assert set(release["dependencies"]) - set(library["dependencies"]) == {"numpy>=2"}, "of the simulator"
    assert set(library["dependencies"]) <= set(release["dependencies"])
    assert release["requires-python"] == library["requires-python"]


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
        ("lib/sessionization/pyproject.toml", "[project]\ndependencies = []\n"),
    ],
)
def test_other_code_has_another_version(project: Path, file: str, text: str) -> None:
    original = version(project)
    (project / file).write_text(text)
    assert version(project) != original


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_has_one_package_with_all_its_files(package: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(words, cwd=ROOT / "lib" / package, check=True, capture_output=True)
    [wheel] = tmp_path.glob(f"{package}-*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = [file for file in (ROOT / "lib" / package).rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert packed == {str(file.relative_to(ROOT / "lib")) for file in files if file.name != "pyproject.toml"}
