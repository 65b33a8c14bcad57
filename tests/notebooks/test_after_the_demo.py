"""After `make demo` its tables have rows, a second demo continues them, and the notebooks open them."""

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed: make notebooks installs it")

from sessionization.local.demo import QUERIES
from tests.notebooks.headless import execute
from tests.notebooks.test_execute import assert_shows
from tests.whole_job.job import ROOT, command, environment

pytestmark = [pytest.mark.job, pytest.mark.long]

_DEMO_S = 300
_NAMES = ["03_query_sessions", "04_inspect_state"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the notebooks take for this project's."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "databricks.yml").touch()
    return folder


@pytest.fixture(scope="module")
def lines_of_two_demos(project: Path) -> list[list[str]]:
    return [play_demo(project) for _ in range(2)]


def play_demo(project: Path) -> list[str]:
    """Run the demo without a terminal, and return what it printed."""
    words = command("--folder=.demo", entry=(ROOT / "jobs" / "demo.py",))
    played = subprocess.run(
        words, env=environment(COLUMNS="120"), cwd=project, capture_output=True, text=True, timeout=_DEMO_S, check=False
    )
    assert played.returncode == 0, played.stderr
    return played.stdout.splitlines()


def test_the_demo_prints_lines_and_answers(lines_of_two_demos: list[list[str]]) -> None:
    first, _ = lines_of_two_demos
    assert first[0].startswith("Spark is starting")
    assert any(" live" in line for line in first)
    text = "\n".join(first)
    for question, _ in QUERIES:
        assert question in text
    assert "reported" in text[text.index(QUERIES[0][0]) :]


def test_a_second_demo_says_that_it_continues_the_first(lines_of_two_demos: list[list[str]]) -> None:
    first, second = lines_of_two_demos
    said = "this demo continues the tables of an earlier one; to begin anew, delete .demo"
    assert said not in first
    assert said in second


@pytest.mark.usefixtures("lines_of_two_demos")
def test_the_notebooks_open_the_demos_tables_without_a_widget(project: Path) -> None:
    executed = execute(_NAMES, project / ".notebooks", {}, opened_in=project)
    for name in _NAMES:
        assert_shows(executed[name], name)
