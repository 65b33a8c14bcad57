"""Notebooks are committed without outputs: nbstripout would change nothing, and pre-commit runs it."""

import subprocess
import sys

from tests.support.headless import ROOT

FILES = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_no_notebook_has_outputs() -> None:
    command = [sys.executable, "-m", "nbstripout", "--keep-id", "--verify", *map(str, FILES)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"run .venv/bin/nbstripout --keep-id notebooks/*.ipynb: {done.stdout}{done.stderr}"


def test_all_committed_notebooks_are_in_the_folder_notebooks() -> None:
    listed = subprocess.run(["git", "ls-files", "-z", "*.ipynb"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert {name.partition("/")[0] for name in listed.stdout.split("\0") if name} == {"notebooks"}
