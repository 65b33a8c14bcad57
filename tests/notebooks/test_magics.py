"""`%sql` and `%run` in IPython, as a notebook's cells have them: Spark stands still, what it is asked is looked at."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("IPython", reason="IPython is not installed: make notebooks installs it")

from IPython.core.interactiveshell import InteractiveShell

from sessionization.local.laptop_notebook import _teach_magics


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def shell(asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    made = InteractiveShell()
    spark: Any = SimpleNamespace(sql=lambda text: (asked.append(text), SimpleNamespace(columns=[], text=text))[1])
    _teach_magics(made, spark)
    _teach_magics(made, spark)  # the first cell may be run again
    return made


def run(shell: Any, cell: str) -> None:
    result = shell.run_cell(cell)
    result.raise_error()


def test_sql_is_the_whole_cell(shell: Any, asked: list[str]) -> None:
    run(shell, "%sql\nSELECT platform, 'a;b' AS text\nFROM sessions -- all of them\n;\n")
    assert asked == ["SELECT platform, 'a;b' AS text\nFROM sessions -- all of them"]
    run(shell, "assert _sqldf.text.startswith('SELECT platform')")


def test_sql_on_one_line(shell: Any, asked: list[str]) -> None:
    run(shell, "%sql SELECT 1")
    assert asked == ["SELECT 1"]


def test_other_cells_stay_as_they_are(shell: Any, asked: list[str]) -> None:
    run(shell, "text = '''\n%sql\nSELECT 1\n'''")
    assert asked == []


def test_run_takes_a_notebook_into_these_names(shell: Any, asked: list[str], tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(
        "# Databricks notebook source\nx = 41\n\n# COMMAND ----------\n\n# MAGIC %sql SELECT 2\n"
    )
    run(shell, "%run ./other")
    run(shell, "assert x + 1 == 42")
    assert asked == ["SELECT 2"]


def test_run_of_a_script_is_what_it_was(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("y = 7\n")
    run(shell, "%run script.py")
    run(shell, "assert y == 7")
