"""Notebooks run in a kernel without error and with full pictures and tables; nutter's run as the bundle's job does."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed: make notebooks installs it")
pytest.importorskip("runtime.nutterfixture", reason="nutter is not installed: make notebooks installs it")

from pyspark.sql import SparkSession

from sessionization.command_line.widgets import JOB_RUN_ID
from sessionization_laptop import laptop_notebook
from tests.support.headless import NOTEBOOKS, ROOT, SHOWN, Executed, project_entries
from tests.support.notebook_cells import find_notebook, run_cells

pytestmark = pytest.mark.job


def test_every_notebook_has_expected_counts() -> None:
    assert sorted(SHOWN) == NOTEBOOKS


def test_the_job_notebook_shows_a_chart_and_stops(executed: dict[str, Executed]) -> None:
    executed["02_sessionize"].assert_shows("02_sessionize")
    assert "live now" in executed["02_sessionize"].text(), "the summary"


def test_the_comparison_shows_every_run(executed: dict[str, Executed]) -> None:
    compared = executed["05_compare_runs"]
    compared.assert_shows("05_compare_runs")
    (table,) = compared.tables()
    assert table.count("<tr") == 1 + 3, "two runs of the demo, and one of the notebook"
    assert "<th>heartbeat</th>" in table, "what the runs differ in"


def test_the_tour_has_the_same_ends_in_the_core_and_in_the_operator(executed: dict[str, Executed]) -> None:
    tour = executed["01_tour"]
    tour.assert_shows("01_tour")
    (ends,) = tour.results()
    assert re.search(r"pc-2 +2 +reported", ends)


def test_notebooks_leave_no_file_in_the_project(executed: dict[str, Executed], entries_before: set[Path]) -> None:
    assert executed
    assert project_entries() - entries_before == set()


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
