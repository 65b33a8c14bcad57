"""`%sql` and `%run` in IPython, as in the cells of a notebook; a stand-in for Spark records its queries."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("IPython", reason="IPython is not installed: make notebooks installs it")

from IPython.core.interactiveshell import InteractiveShell

from sessionization_laptop.laptop_notebook import _teach_magics

pytestmark = pytest.mark.job


@pytest.fixture
def queries() -> list[str]:
    return []


@pytest.fixture
def shell(queries: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    ipython = InteractiveShell()
    spark: Any = SimpleNamespace(sql=lambda text: (queries.append(text), SimpleNamespace(columns=[], text=text))[1])
    _teach_magics(ipython, spark)
    _teach_magics(ipython, spark)  # the first cell may be run again
    return ipython


def run(shell: Any, cell: str) -> None:
    result = shell.run_cell(cell)
    result.raise_error()


def test_sql_takes_the_whole_cell(shell: Any, queries: list[str]) -> None:
    run(shell, "%sql\nSELECT platform, 'a;b' AS text\nFROM sessions -- all of them\n;\n")
    assert queries == ["SELECT platform, 'a;b' AS text\nFROM sessions -- all of them"]
    run(shell, "assert _sqldf.text.startswith('SELECT platform')")


def test_sql_takes_the_rest_of_its_line(shell: Any, queries: list[str]) -> None:
    run(shell, "%sql SELECT 1")
    assert queries == ["SELECT 1"]


def test_other_cells_run_unchanged(shell: Any, queries: list[str]) -> None:
    run(shell, "text = '''\n%sql\nSELECT 1\n'''")
    assert queries == []


def test_run_executes_a_notebook_in_the_same_namespace(shell: Any, queries: list[str], tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(
        "# Databricks notebook source\nx = 41\n\n# COMMAND ----------\n\n# MAGIC %sql SELECT 2\n"
    )
    run(shell, "%run ./other")
    run(shell, "assert x + 1 == 42")
    assert queries == ["SELECT 2"]


def test_run_of_a_script_works_as_in_plain_ipython(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("y = 7\n")
    run(shell, "%run script.py")
    run(shell, "assert y == 7")
