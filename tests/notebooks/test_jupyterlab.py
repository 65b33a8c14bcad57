"""JupyterLab in a real browser: a notebook is opened, run from the menu, and its charts are checked.

Screenshots go into `build/jupyterlab`.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebooks import browser
from tests.notebooks.seen import coloured_pixels
from tests.support.headless import NOTEBOOKS, ROOT, SHOWN

pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: make notebooks installs it")
pytest.importorskip("playwright", reason="playwright is not installed: make test installs it")
pytestmark = [
    pytest.mark.job,
    pytest.mark.long,
    pytest.mark.skipif(
        browser.BROWSER is None, reason="no Chromium on this machine: install the package chromium to run this"
    ),
]

SCREENSHOTS = ROOT / "build" / "jupyterlab"
WITHOUT_BENCHMARKS = {"05_compare_runs": 1}
"""The number of charts to check: the demo of the tests has no benchmarks, so the chart of their rates is empty."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, demo: Path) -> Iterator[browser.Lab]:
    work = tmp_path_factory.mktemp("jupyterlab")
    # Copies, because JupyterLab saves a notebook with its outputs.
    folder = work / "notebooks"
    folder.mkdir()
    for name in NOTEBOOKS:
        shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", folder)
    with browser.lab(folder, demo, work) as server:
        yield server


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_from_the_menu_and_shows_its_charts(lab: browser.Lab, name: str) -> None:
    with browser.page() as page:
        try:
            browser.run_all_cells(page, lab.address(name))
            charts, errors = browser.charts(page), browser.errors(page)
        finally:
            browser.save_screenshot(page, SCREENSHOTS / f"{name}.png")
    for number, chart in enumerate(charts, 1):
        (SCREENSHOTS / f"{name}-{number}.png").write_bytes(chart)
    assert errors == []
    assert len(charts) == SHOWN[name][0]
    for chart in charts[: WITHOUT_BENCHMARKS.get(name)]:
        assert coloured_pixels(chart) > 50, "a chart shows axes and nothing in them"
