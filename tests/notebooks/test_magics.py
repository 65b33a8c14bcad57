"""`%sql` in IPython, as in the cells of a notebook; a stand-in for Spark records its queries."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("IPython", reason="IPython is not installed: make notebooks installs it")

from IPython.core.interactiveshell import InteractiveShell

from sessionization_laptop.laptop_notebook import _teach_sql

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
    _teach_sql(ipython, spark)
    _teach_sql(ipython, spark)  # the first cell may be run again
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
