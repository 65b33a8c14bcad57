"""Notebooks run in a kernel from the first cell to the last without error; no picture and no table is empty."""

import re
from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed: make notebooks installs it")

from tests.notebooks.seen import assert_shows
from tests.support.headless import NOTEBOOKS, SHOWN, Executed, project_entries

pytestmark = pytest.mark.job


def test_every_notebook_has_expected_counts() -> None:
    assert sorted(SHOWN) == NOTEBOOKS


def test_the_job_notebook_shows_a_chart_and_stops(executed: dict[str, Executed]) -> None:
    assert_shows(executed["02_sessionize"], "02_sessionize")
    assert "live now" in executed["02_sessionize"].text(), "the summary"


def test_the_comparison_shows_every_run(executed: dict[str, Executed]) -> None:
    compared = executed["05_compare_runs"]
    assert_shows(compared, "05_compare_runs")
    (table,) = compared.tables()
    assert table.count("<tr") == 1 + 3, "two runs of the demo, and one of the notebook"
    assert "<th>heartbeat</th>" in table, "what the runs differ in"


def test_the_tour_has_the_same_ends_in_the_core_and_in_the_operator(executed: dict[str, Executed]) -> None:
    tour = executed["01_tour"]
    assert_shows(tour, "01_tour")
    (ends,) = tour.results()
    assert re.search(r"pc-2 +2 +reported", ends)


def test_notebooks_leave_no_file_in_the_project(executed: dict[str, Executed], entries_before: set[Path]) -> None:
    assert executed
    assert project_entries() - entries_before == set()
