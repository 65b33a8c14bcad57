"""After `make demo` its tables have rows, a second demo continues them, and the notebooks open them."""

import os
import signal
import subprocess
import threading
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed: make notebooks installs it")

from sessionization_laptop.demo import QUERIES
from tests.support.headless import execute
from tests.support.job import ROOT, command, environment

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
    """Of a demo that ends by itself, and of a second one that Ctrl-C ends."""
    return [play_demo(project), play_demo(project, interrupt_after="heartbeats late")]


def play_demo(project: Path, interrupt_after: str | None = None) -> list[str]:
    """Run the demo without a terminal, and return what it printed; press Ctrl-C after a line with this text."""
    words = command("--folder=.demo", entry=(ROOT / "jobs" / "demo.py",))
    demo = subprocess.Popen(
        words,
        env=environment(COLUMNS="120"),
        cwd=project,
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
        start_new_session=True,
    )
    cut_off = threading.Timer(_DEMO_S, demo.kill)
    cut_off.start()
    lines: list[str] = []
    with demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            lines.append(line.removesuffix("\n"))
            if interrupt_after is not None and interrupt_after in line:
                interrupt_after = None
                os.killpg(demo.pid, signal.SIGINT)
    cut_off.cancel()
    assert demo.returncode == 0, lines
    assert interrupt_after is None, lines
    assert not any("Traceback" in line or "Exception" in line for line in lines), lines
    return lines


def test_the_demo_prints_lines_and_answers(lines_of_two_demos: list[list[str]]) -> None:
    for lines in lines_of_two_demos:
        assert lines[0].startswith("Spark is starting")
        assert any(" events in, " in line for line in lines)
        text = "\n".join(lines)
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
        executed[name].assert_shows(name)
