"""JupyterLab in Chromium: open a notebook, run it from the menu, take screenshots."""

import json
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.headless import environment

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))), None
)
_SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    # Render cells outside the screen too, so that tests can wait for them.
    "notebook-extension/tracker": {"windowingMode": "none"},
}
_START_S = 180
_RUN_MS = 300_000
_CLICK_MS = 60_000
_WIDTH, _HEIGHT = 1_280, 1_600
_RUNNING = ".jp-InputPrompt:has-text('[*]')"
_CHARTS = ".jp-OutputArea-output img"


@dataclass(frozen=True, slots=True)
class Lab:
    """A JupyterLab that listens on this machine only."""

    port: int
    token: str

    def address(self, notebook: str) -> str:
        return f"http://127.0.0.1:{self.port}/lab/tree/{notebook}.ipynb?reset&token={self.token}"


@contextmanager
def lab(folder: Path, demo: Path, work: Path) -> Iterator[Lab]:
    """JupyterLab over a folder of notebooks, with the tables of `demo`; its settings and its log go into `work`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        jupyter = Lab(probe.getsockname()[1], secrets.token_hex(16))
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--ServerApp.root_dir={folder}",
        "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={jupyter.port}", "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={jupyter.token}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.extension_manager=readonly",
    ]  # fmt: skip
    for name, values in _SETTINGS.items():
        file = work / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")
    env = environment(demo, {}) | {"JUPYTERLAB_SETTINGS_DIR": str(work / "settings")}
    with (work / "jupyterlab.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            _wait_for(f"http://127.0.0.1:{jupyter.port}/api", server)
            yield jupyter
        finally:
            server.terminate()
            try:
                server.wait(20)
            finally:
                server.kill()


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


@contextmanager
def page() -> Iterator[Any]:
    """An empty page in a new browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        try:
            tab = browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT}, device_scale_factor=1)
            tab.set_default_timeout(_CLICK_MS)
            yield tab
        finally:
            browser.close()


def run_all_cells(tab: Any, address: str) -> None:
    """Open a notebook, run it from the menu, and wait until its last cell has run."""
    from playwright.sync_api import expect

    tab.goto(address)
    tab.locator(".jp-Notebook .jp-Cell").first.wait_for()
    # Wait for the kernel: before it is ready, running cells opens a dialog that asks for one.
    tab.get_by_text(re.compile(r"\| Idle$")).wait_for(timeout=_RUN_MS)
    tab.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
    tab.locator(".lm-Menu-itemLabel", has_text=re.compile("^Run All Cells$")).click()
    tab.locator(_RUNNING).first.wait_for()
    expect(tab.locator(_RUNNING)).to_have_count(0, timeout=_RUN_MS)


def charts(tab: Any) -> list[bytes]:
    """A screenshot of every chart."""
    found = tab.locator(_CHARTS)
    return [found.nth(at).screenshot() for at in range(found.count())]


def errors(tab: Any) -> list[str]:
    return tab.locator("[data-mime-type='application/vnd.jupyter.error']").all_inner_texts()


def save_screenshot(tab: Any, file: Path) -> None:
    """Save a screenshot of the whole notebook, from its first cell to its last."""
    height = tab.locator(".jp-Notebook .jp-WindowedPanel-inner").first.evaluate("element => element.scrollHeight")
    tab.set_viewport_size({"width": _WIDTH, "height": max(_HEIGHT, int(height) + 200)})
    tab.locator(".jp-Notebook .jp-WindowedPanel-outer").first.evaluate("element => element.scrollTo(0, 0)")
    file.parent.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=file)
