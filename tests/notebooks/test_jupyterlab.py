"""JupyterLab in a real browser: a notebook is opened, run from the menu, and its chart looked at.

The screenshot is left in `build/jupyterlab.png`.
"""

import io
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sessionization.notebook import style
from tests.notebooks.headless import ROOT, environment

pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: make notebooks installs it")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test installs it")

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))), None
)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine: install the package chromium to run this"
)

NOTEBOOK = "03_query_sessions.ipynb"
SCREENSHOT = ROOT / "build" / "jupyterlab.png"
_START_S = 180
_RUN_MS = 300_000
_CLICK_MS = 60_000


@contextmanager
def lab(folder: Path, demo: Path) -> Iterator[str]:
    """JupyterLab over a folder of notebooks, reachable from this machine only; yields its address with the token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--ServerApp.root_dir={folder}", "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.extension_manager=readonly",
    ]  # fmt: skip
    settings = folder.parent / "settings"
    (settings / "@jupyterlab/apputils-extension").mkdir(parents=True)
    quiet = settings / "@jupyterlab/apputils-extension" / "notification.jupyterlab-settings"
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}', encoding="utf-8")
    said = (folder.parent / "jupyterlab.log").open("wb")
    env = environment(demo, {}) | {"JUPYTERLAB_SETTINGS_DIR": str(settings)}
    server = subprocess.Popen(command, cwd=folder, env=env, stdout=said, stderr=said, start_new_session=True)
    try:
        _wait_for(f"http://127.0.0.1:{port}/api", server)
        yield f"http://127.0.0.1:{port}/lab/tree/{NOTEBOOK}?reset&token={token}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        finally:
            server.kill()
            said.close()


def _wait_for(address: str, server: "subprocess.Popen[bytes]") -> None:
    deadline_s = time.monotonic() + _START_S
    while True:
        assert server.poll() is None, "JupyterLab ended on its own"
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except OSError:
            assert time.monotonic() < deadline_s, "JupyterLab does not answer"
            time.sleep(0.2)


def test_a_notebook_runs_from_the_menu_and_shows_its_chart(tmp_path: Path, demo: Path) -> None:
    # A copy: what is run is saved with its outputs.
    folder = tmp_path / "notebooks"
    shutil.copytree(
        ROOT / "notebooks", folder, ignore=lambda _, names: [name for name in names if not name.endswith(".ipynb")]
    )
    with lab(folder, demo) as address, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1_280, "height": 1_600})
        page.set_default_timeout(_CLICK_MS)
        try:
            page.goto(address)
            _run_all_cells(page)
            chart = page.locator(".jp-OutputArea-output img").first
            chart.wait_for(timeout=_RUN_MS)
            playwright.expect(page.locator(".jp-InputPrompt", has_text="[*]")).to_have_count(0, timeout=_RUN_MS)
            chart.scroll_into_view_if_needed()
            SCREENSHOT.parent.mkdir(exist_ok=True)
            page.screenshot(path=SCREENSHOT)
            seen = chart.screenshot()
            errors = page.locator("[data-mime-type='application/vnd.jupyter.error']").all_inner_texts()
        finally:
            SCREENSHOT.parent.mkdir(exist_ok=True)
            page.screenshot(path=SCREENSHOT.with_stem("jupyterlab-last"))
            browser.close()
    assert errors == []
    for colour in (style.BLUE, style.ORANGE):
        assert pixels_of(seen, colour) > 50, f"no line of the colour {colour}: the chart is empty"


def _run_all_cells(page: Any) -> None:
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    # The kernel must be there: whoever runs cells before that is asked to choose one.
    page.get_by_text(re.compile(r"\| Idle$")).wait_for(timeout=_RUN_MS)
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Run All Cells$")).click()


def pixels_of(picture: bytes, colour: str) -> int:
    from PIL import Image

    wanted = tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
    found = Image.open(io.BytesIO(picture)).convert("RGB").getcolors(1 << 24) or []
    return sum(
        count for count, seen in found if all(abs(one - other) < 12 for one, other in zip(seen, wanted, strict=True))
    )
