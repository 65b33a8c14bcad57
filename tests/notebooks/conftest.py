"""The demo's tables once for all notebooks, and the tour beside them: it waits most of its time."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from sessionization.local.session import SHORT_LIVED_JVM
from tests.notebooks.headless import NOTEBOOKS, ROOT, Executed, beside_the_code, execute

collect_ignore = ["broken"]  # notebooks for nutter, not for pytest
_LOAD_S = 400


@pytest.fixture(scope="session", autouse=True)
def before() -> set[Path]:
    """What was there before any notebook ran."""
    return beside_the_code()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `make notebook-data` fills it, with fewer sessions and shorter runs."""
    folder = tmp_path_factory.mktemp("notebooks") / "an evening"  # a space, as folders of people have
    load = "from pathlib import Path; from sessionization.local.notebook_demo import load; "
    load += f"load(Path({str(folder)!r}), live=40, run_for_ms=8_000)"
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "lib"),
        "JAVA_TOOL_OPTIONS": SHORT_LIVED_JVM,
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
    }
    done = subprocess.run(
        [sys.executable, "-c", load], env=environment, capture_output=True, text=True, check=False, timeout=_LOAD_S
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="session")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future[dict[str, Executed]]]:
    """01_tour, which needs no tables: begun before all else."""
    folder = tmp_path_factory.mktemp("tour")
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(execute, ["01_tour"], folder, {})


@pytest.fixture(scope="session")
def executed(demo: Path) -> dict[str, Executed]:
    """The other notebooks, the job first; its run goes into an experiment of a name of its own, and is found there."""
    names = [name for name in NOTEBOOKS if name != "01_tour"]
    return execute(names, demo, {"run-for": "15s", "heartbeat": "2s", "mlflow": "evenings/by hand"})
