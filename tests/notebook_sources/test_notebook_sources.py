"""Notebooks use what Databricks and a laptop both have, and are committed without outputs. No cell is run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.headless import ROOT
from tests.support.notebook_cells import Cell, find_notebook, read_cells

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
IN_A_WORKSPACE = sorted((ROOT / "tests/nutter").glob("[!_c]*.py"))
_BOOTSTRAP = "if not on_databricks():"
_ONE_SIDED = re.compile(r"\b(sessionization_laptop|databricks\.sdk|pyspark\.dbutils|dbruntime)\b")


def dbutils_of(cells: list[Cell]) -> set[str]:
    return {name for cell in cells for name in re.findall(r"\bdbutils\.(?:notebook\.)?\w+", cell.source)}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_uses_what_both_sides_have(notebook: Path) -> None:
    first, *others = read_cells(notebook)
    assert _BOOTSTRAP in first.source
    assert {cell.magic for cell in others} <= {"", "%sql"}
    assert dbutils_of(others) <= {"dbutils.widgets"}
    for cell in others:
        assert not _ONE_SIDED.search(cell.source), f"cell {cell.number}"
        in_code = cell.source if not cell.magic else ""
        assert not re.search(r"^\s*[!%]", in_code, re.MULTILINE), "Databricks takes a magic at the head of a cell only"
        assert ";" not in cell.source.rstrip().removesuffix(";") or not cell.magic, "%sql takes one statement"


def test_the_notebooks_of_a_workspace_find_those_that_they_run() -> None:
    cells = [(file, cell) for file in IN_A_WORKSPACE for cell in read_cells(file)]
    assert {cell.magic for _, cell in cells} == {"", "%run"}
    assert all(find_notebook(cell.source, file.parent) for file, cell in cells if cell.magic)
    assert dbutils_of([cell for _, cell in cells]) == {"dbutils.widgets", "dbutils.notebook.run"}


def test_no_notebook_has_outputs() -> None:
    """So nbstripout, which pre-commit runs, would change nothing."""
    command = [sys.executable, "-m", "nbstripout", "--keep-id", "--verify", *map(str, NOTEBOOKS)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"run .venv/bin/nbstripout --keep-id notebooks/*.ipynb: {done.stdout}{done.stderr}"


def test_all_committed_notebooks_are_in_the_folder_notebooks() -> None:
    listed = subprocess.run(["git", "ls-files", "-z", "*.ipynb"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert {name.partition("/")[0] for name in listed.stdout.split("\0") if name} == {"notebooks"}
