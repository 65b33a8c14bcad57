"""Notebooks are committed without outputs: nbstripout would change nothing, and pre-commit runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.headless import ROOT

FILES = sorted((ROOT / "notebooks").glob("*.ipynb"))


def strip_verify(*files: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "nbstripout", "--keep-id", "--verify", *map(str, files)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def committed() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", "*.ipynb"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_notebook_has_outputs() -> None:
    code, output = strip_verify(*FILES)
    assert code == 0, f"run .venv/bin/nbstripout --keep-id notebooks/*.ipynb: {output}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_cell_has_an_id_of_its_own(file: Path) -> None:
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)


def test_all_committed_notebooks_are_in_the_folder_notebooks() -> None:
    assert {file.parent.name for file in committed()} <= {"notebooks"}


def test_the_check_finds_an_output(tmp_path: Path) -> None:
    file = ROOT / "notebooks/01_tour.ipynb"
    notebook = json.loads(file.read_text(encoding="utf-8"))
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": ["seen\n"]}]
    copied = tmp_path / file.name
    copied.write_text(json.dumps(notebook), encoding="utf-8")
    code, _ = strip_verify(*FILES[1:], copied)
    assert code == 1, "one of several is enough"


def test_pre_commit_strips_outputs() -> None:
    assert "nbstripout --keep-id" in (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
