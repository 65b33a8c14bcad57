"""The workspace tests on this machine, run as the bundle's job runs them."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("runtime.nutterfixture", reason="nutter is not installed: make notebooks installs it")

from pyspark.sql import SparkSession

from sessionization.command_line.widgets import JOB_RUN_ID
from sessionization_laptop import laptop_notebook
from tests.support.headless import ROOT
from tests.support.notebook_cells import find_notebook, run_cells

pytestmark = pytest.mark.job


def run_task(file: Path, spark: SparkSession, widgets: Mapping[str, str]) -> None:
    """Run a notebook like a task of a job: with these widget values and a namespace of its own."""

    def run_other(path: str, _timeout_s: int, given: Mapping[str, str]) -> None:
        run_task(find_notebook(path, file.parent), spark, given)

    dbutils = SimpleNamespace(widgets=laptop_notebook.LaptopWidgets(widgets), notebook=SimpleNamespace(run=run_other))
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark, "dbutils": dbutils, "display": print}
    magics = {"%run": lambda name, folder: run_cells(find_notebook(name, folder), namespace, magics)}
    with patch.object(laptop_notebook, "set_up"):
        run_cells(file, namespace, magics)


def passed(name: str, spark: SparkSession, capsys: pytest.CaptureFixture[str], **widgets: object) -> int:
    """How many tests of a notebook pass; it raises an error where one does not."""
    texts = {key: str(value) for key, value in widgets.items()} | {JOB_RUN_ID: "1"}
    run_task(ROOT / "tests/nutter" / f"{name}.py", spark, texts)
    return capsys.readouterr().out.count(" seconds)")


def test_the_demos_tables_pass_the_tests_of_a_deployment(
    tmp_path: Path, demo: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    assert passed("test_deployment", spark, capsys, folder=tmp_path, warehouse=demo / "warehouse") == 4


@pytest.mark.long
def test_the_stream_passes_its_tests(tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    trial = tmp_path / "trial"
    assert passed("test_stream", spark, capsys, folder=trial, warehouse=tmp_path / "warehouse") == 5
    assert not list(trial.iterdir()), "the trial left something behind"
