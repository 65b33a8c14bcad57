"""A release: what `make release` refuses, and a wheel and an sdist with a script for each job."""

from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools.release import build, refuse_other_wheel_of_sdist, released, scripts_of, with_version

ROOT = Path(__file__).parents[2]
JOBS = {path.stem for path in (ROOT / "jobs").glob("*.py")}
PROJECT = '[project]\nversion = "0.2.0" # note\nrequires-python = ">=3.11"\n'
WHEEL = "[tool.hatch.version]\nexpression = \"version('0.2.0', 'sessionization')\"\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheel and the sdist of this checkout."""
    return build(ROOT, tmp_path_factory.mktemp("dist"), "wheel", "sdist")


@pytest.mark.parametrize("project", [PROJECT, WHEEL])
def test_a_release_sets_the_version_alone(project: str) -> None:
    assert with_version(project, "0.3.0") == project.replace("0.2.0", "0.3.0")


@pytest.mark.parametrize("version", ["0.2.0", "0.1.9", "0.3.0rc1", "0.3", "v0.3.0", ""])
def test_a_version_that_is_not_newer_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match=r"does not come after 0\.2\.0"):
        with_version(PROJECT, version)


def test_a_release_names_the_next_section() -> None:
    text = "# Changelog\n\n## Next release\n\n- News.\n\n## 0.2.0\n\nThe first.\n"
    assert released(text, "0.3.0") == text.replace("Next release", "0.3.0")


@pytest.mark.parametrize("text", ["## 0.2.0\n\nThe first.\n", "## Next release\n\n\n## 0.2.0\n\nThe first.\n"])
def test_a_release_without_news_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="says nothing"):
        released(text, "0.3.0")


def test_each_job_has_a_script(built: list[Path]) -> None:
    """`sessionize`, and for the other jobs `session-` and the name, such as `session-erase-account`."""
    names = {job: "sessionize" if job == "sessionize" else f"session-{job.replace('_', '-')}" for job in JOBS}
    expected = {name: f"sessionization_jobs.{job}:command" for job, name in names.items()}
    assert scripts_of(built[0]) == expected
    for value in expected.values():
        module, _, function = value.partition(":")
        assert callable(getattr(import_module(module), function))


def test_the_wheel_has_all_packages_with_all_their_files(built: list[Path]) -> None:
    packed = {name for name in ZipFile(built[0]).namelist() if ".dist-info/" not in name}
    files = [file for folder in ("jobs", "lib") for file in (ROOT / folder).rglob("*") if file.is_file()]
    names = {file.relative_to(ROOT).as_posix() for file in files if file.suffix != ".pyc"}
    places = {name.removeprefix("lib/") if name.startswith("lib/") else f"sessionization_{name}" for name in names}
    projects = {"sessionization/pyproject.toml", "sessionization_simulator/pyproject.toml"}
    assert packed == places - projects


def test_the_sdist_gives_the_same_wheel_without_a_network(built: list[Path]) -> None:
    wheel, sdist = built
    refuse_other_wheel_of_sdist(sdist, wheel)
