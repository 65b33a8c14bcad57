"""Notebooks are committed without what they showed: nbstripout would change nothing, and pre-commit runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebooks.headless import ROOT


def strip_verify(file: Path) -> int:
    command = [sys.executable, "-m", "nbstripout", "--keep-id", "--verify", str(file)]
    return subprocess.run(command, check=False, capture_output=True).returncode


def committed() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", "*.ipynb"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name]


@pytest.mark.parametrize("file", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda file: file.stem)
def test_nothing_would_be_stripped(file: Path) -> None:
    assert strip_verify(file) == 0, f"run .venv/bin/nbstripout --keep-id {file.relative_to(ROOT)}"
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells), "every cell keeps an id of its own"


def test_all_notebooks_are_those_of_the_folder() -> None:
    assert {file.parent.name for file in committed()} <= {"notebooks"}


def test_an_output_is_found(tmp_path: Path) -> None:
    file = ROOT / "notebooks/01_tour.ipynb"
    notebook = json.loads(file.read_text(encoding="utf-8"))
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": ["seen\n"]}]
    copied = tmp_path / file.name
    copied.write_text(json.dumps(notebook), encoding="utf-8")
    assert strip_verify(copied) == 1


def test_pre_commit_strips() -> None:
    assert "nbstripout --keep-id" in (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
