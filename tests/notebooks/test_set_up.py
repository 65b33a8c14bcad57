"""A notebook's first cell on a laptop and `%sql`, in IPython; stand-ins replace Spark and the simulator."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("IPython", reason="IPython is not installed: make notebooks installs it")

from IPython.core.interactiveshell import InteractiveShell

from sessionization_laptop import laptop_notebook, notebook_data
from sessionization_laptop.laptop_notebook import _teach_sql
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
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    return InteractiveShell()


@pytest.fixture
def run(shell: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a cell and returns its output."""
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


def test_the_notebook_of_players_has_a_week_of_its_own(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionization_laptop.player_week.load_week", lambda _spark, week, _say: week)
    show = "dbutils.widgets.text('warehouse', '', '')\nprint(dbutils.widgets.get('warehouse'))"
    assert run("set_up(week=True)".join(SET_UP.rsplit("set_up(players=True)", 1))) == ""
    assert run(show).strip() == str(folder / "week")
    monkeypatch.setenv("SESSIONIZATION_WIDGETS", '{"warehouse": "/my/tables"}')
    run("set_up(week=True)")
    assert run(show).strip() == "/my/tables", "one that the user chose"


def test_an_error_that_the_user_can_fix_is_shown_in_one_line(run: Run) -> None:
    shown = run("from sessionization.errors import CheckpointError\nraise CheckpointError('the folder is in use')")
    assert shown.strip() == "CheckpointError: the folder is in use"
    assert "Traceback" in run("raise KeyError('a bug')")


@pytest.fixture
def queries(shell: Any) -> list[str]:
    """The queries that `%sql` gives to Spark."""
    queries: list[str] = []
    spark: Any = SimpleNamespace(sql=lambda text: (queries.append(text), SimpleNamespace(columns=[], text=text))[1])
    _teach_sql(shell, spark)
    _teach_sql(shell, spark)  # the first cell may be run again
    return queries


@pytest.mark.parametrize(
    ("cell", "query"),
    [
        ("%sql SELECT 1", "SELECT 1"),
        (
            "%sql\nSELECT platform, 'a;b' AS text\nFROM sessions -- all of them\n;\n",
            "SELECT platform, 'a;b' AS text\nFROM sessions -- all of them",
        ),
    ],
)
def test_sql_takes_the_rest_of_its_line_or_the_whole_cell(
    shell: Any, queries: list[str], cell: str, query: str
) -> None:
    shell.run_cell(cell).raise_error()
    assert queries == [query]
    shell.run_cell(f"assert _sqldf.text == {query!r}").raise_error()


def test_other_cells_run_unchanged(shell: Any, queries: list[str]) -> None:
    shell.run_cell("text = '''\n%sql\nSELECT 1\n'''").raise_error()
    assert queries == []
