"""A notebook's first cell on a laptop, in IPython; stand-ins replace Spark and the simulator."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("IPython", reason="IPython is not installed: make notebooks installs it")

from IPython.core.interactiveshell import InteractiveShell

from sessionization_laptop import laptop_notebook, notebook_data
from sessionization_laptop.notebook_folders import write_widget_values

pytestmark = pytest.mark.job

Run = Callable[[str], str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `make notebook-data`, as it leaves it, in a project where `make demo` has not run."""
    (tmp_path / "databricks.yml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SESSIONIZATION_NOTEBOOKS", str(tmp_path))
    monkeypatch.delenv("SESSIONIZATION_WIDGETS", raising=False)
    write_widget_values(tmp_path, heartbeat="5s")
    return tmp_path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a cell and returns its output."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    shell: Any = InteractiveShell()
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell)
    monkeypatch.setattr(laptop_notebook, "_session", lambda _folder: SimpleNamespace())

    def run_cell(source: str) -> str:
        shell.run_cell(source)
        return capsys.readouterr().out

    return run_cell


@pytest.fixture
def simulator_folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    folders: list[Path] = []
    monkeypatch.setattr(notebook_data, "play_evening", folders.append)
    return folders


SET_UP = "from sessionization_laptop.laptop_notebook import set_up\nset_up(players=True)"


def test_the_simulator_writes_into_the_input_of_the_demo(folder: Path, run: Run, simulator_folders: list[Path]) -> None:
    assert run(SET_UP) == ""
    assert run("dbutils.widgets.text('input', '', '')\nprint(dbutils.widgets.get('input'))").strip() == str(
        folder / "input"
    )
    assert simulator_folders == [folder / "input"]


def test_the_simulator_does_not_write_into_an_input_that_the_user_chose(
    folder: Path, run: Run, simulator_folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONIZATION_WIDGETS", '{"input": "/my/events"}')
    assert run(SET_UP) == ""
    assert simulator_folders == []


def test_without_the_demo_the_first_cell_says_so_and_the_tour_has_its_folder(
    folder: Path, run: Run, simulator_folders: list[Path]
) -> None:
    (folder / "widgets.json").unlink()
    assert "make notebook-data" in run(SET_UP)
    assert run("dbutils.widgets.text('folder', '', '')\nprint(dbutils.widgets.get('folder'))").strip() == str(
        folder / "tour"
    )
    assert simulator_folders == []


def test_an_error_that_the_user_can_fix_is_shown_in_one_line(run: Run) -> None:
    shown = run("from sessionization.errors import CheckpointError\nraise CheckpointError('the folder is in use')")
    assert shown.strip() == "CheckpointError: the folder is in use"
    assert "Traceback" in run("raise KeyError('a bug')")
