"""A notebook's first cell on a laptop, in IPython; Spark stands still, and nobody plays."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("IPython", reason="IPython is not installed: make notebooks installs it")

from IPython.core.interactiveshell import InteractiveShell

from sessionization.errors import ConfigurationError
from sessionization.local import laptop_notebook, notebook_data

Run = Callable[[str], str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo's folder, as `make notebook-data` leaves it."""
    monkeypatch.setenv("SESSIONIZATION_NOTEBOOKS", str(tmp_path))
    monkeypatch.delenv("SESSIONIZATION_WIDGETS", raising=False)
    (tmp_path / "widgets.json").write_text(json.dumps(notebook_data._widgets(tmp_path)))
    return tmp_path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a cell; returns what it shows."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    shell: Any = InteractiveShell()
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell)
    monkeypatch.setattr(laptop_notebook, "_session", lambda _folder: SimpleNamespace())

    def run_cell(source: str) -> str:
        shell.run_cell(source)
        return capsys.readouterr().out

    return run_cell


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    into: list[Path] = []
    monkeypatch.setattr(notebook_data, "play_evening", into.append)
    return into


SET_UP = "from sessionization.local.laptop_notebook import set_up\nset_up(players=True)"


def test_players_play_into_the_demo(folder: Path, run: Run, played: list[Path]) -> None:
    assert run(SET_UP) == ""
    assert run("dbutils.widgets.text('input', '', '')\nprint(dbutils.widgets.get('input'))").strip() == str(
        folder / "input"
    )
    assert played == [folder / "input"]


def test_nobody_plays_into_an_input_of_ones_own(
    folder: Path, run: Run, played: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONIZATION_WIDGETS", '{"input": "/my/events"}')
    assert run(SET_UP) == ""
    assert played == []


def test_without_the_demo_it_says_so_and_the_tour_has_its_folder(folder: Path, run: Run, played: list[Path]) -> None:
    (folder / "widgets.json").unlink()
    assert "make notebook-data" in run(SET_UP)
    assert run("dbutils.widgets.text('folder', '', '')\nprint(dbutils.widgets.get('folder'))").strip() == str(
        folder / "tour"
    )
    assert played == []


@pytest.mark.parametrize("said", ["{", "[1]", '"text"'])
def test_widgets_that_cannot_be_read_are_told(folder: Path, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONIZATION_WIDGETS", said)
    with pytest.raises(ConfigurationError, match="SESSIONIZATION_WIDGETS holds no values of widgets"):
        laptop_notebook._given(folder)


def test_an_error_that_a_person_can_put_right_is_one_line(run: Run) -> None:
    shown = run("from sessionization.errors import CheckpointError\nraise CheckpointError('the folder is in use')")
    assert shown.strip() == "CheckpointError: the folder is in use"
    assert "Traceback" in run("raise KeyError('a bug')")
