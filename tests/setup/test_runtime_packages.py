"""Job, forecast and notebooks with the packages of Databricks Runtime 19 and what the bundle installs, and no others.

Spark and Delta are their open-source releases, because the runtime's own builds are in no package index.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from subprocess import DEVNULL

import pytest
from packaging.version import Version

from sessionization.core.session_state import Rules
from sessionization.job.stop_file import STOP_FILE
from sessionization.spark.tables.schemas import SESSION_PREDICTIONS
from sessionization_laptop.engine.java import java_home
from tests.support.delta import read_table
from tests.support.headless import SHOWN
from tests.support.job import ROOT, SIMULATE, Job, environment, run_to_end
from tests.support.metrics_endpoint import free_port
from tests.support.oracle import build_oracle
from tests.support.sources import sources
from tests.support.tables import differences, read_tables
from tools.bundle.pins import installed_with_the_wheel, runtime_versions

LANE = Path(sys.prefix) / "databricks" / "bin" / "python"
"""The Python that has the runtime's packages: `make .venv/.databricks` installs them."""

pytestmark = [pytest.mark.job, pytest.mark.skipif(not LANE.exists(), reason="make .venv/.databricks is to come first")]

HEARTBEAT_MS = 5_000
NOTEBOOKS_S = 900


@pytest.fixture(scope="module", autouse=True)
def _lane() -> Iterator[None]:
    """Every job of these tests runs in the Python of the runtime's packages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(LANE))
        yield


def run(*words: str, **variables: str) -> str:
    """What a module prints in the lane."""
    given = {"PYTHONPATH": f"{ROOT / 'lib'}{os.pathsep}{ROOT}", **variables}
    done = subprocess.run(
        [LANE, *words], cwd=ROOT, env=environment(**given), check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_lane_has_the_runtimes_packages_and_no_other() -> None:
    expected = runtime_versions() | installed_with_the_wheel(
        frozenset({"avro", "forecast", "metrics", "kafka", "serving"})
    )
    found = {package.name: package.version for package in distributions(path=[str(site_packages())])}
    assert found.keys() >= {"pyspark", "pandas", "mlflow-skinny", "orjson", "prometheus_client"}
    for name, version in found.items():
        assert Version(version) == Version(expected[name.lower().replace("_", "-").replace(".", "-")]), name


def site_packages() -> Path:
    [folder] = (LANE.parents[1] / "lib").glob("python3*/site-packages")
    return folder


def test_every_module_that_runs_on_databricks_can_be_imported() -> None:
    modules = [
        path.removeprefix("lib/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path, _text in sources()
        if path.startswith("lib/")
    ]
    run("-c", "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]", *modules)


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a tracking server: the runtime has MLflow's client alone."""
    pytest.importorskip("mlflow", reason="MLflow is not installed: make notebooks installs it")
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    words = [Path(sys.prefix) / "bin" / "python", "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    words += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}", "--artifacts-destination", str(folder)]
    # Otherwise the server starts eight more processes, which take a core for minutes.
    variables = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with subprocess.Popen(words, cwd=folder, env=variables, stdout=DEVNULL, stderr=DEVNULL) as server:
        yield f"http://127.0.0.1:{port}"
        server.terminate()


@pytest.fixture(scope="module")
def played(mlflow_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """An hour of players, simulated and processed in the lane, and then notebooks on their tables."""
    folder = tmp_path_factory.mktemp("lane")
    job = Job(folder, f"--heartbeat={HEARTBEAT_MS}ms", entry=(Path(__file__).with_name("lane_job.py"),))
    job.library = Path(f"{ROOT / 'lib'}{os.pathsep}{ROOT}")
    job.variables = {"MLFLOW_TRACKING_URI": mlflow_server, "JAVA_HOME": str(java_home())}  # the lane has no Java
    options = ("--live=40", "--session-length=5m", "--duration=1h", "--pace=max", "--file-interval=5m", "--dirt=0.3")
    ended = run_to_end(f"--output={job.input}", *options, cwd=folder, entry=(SIMULATE,))
    assert ended.code == 0, ended.lines
    with job:
        job.start()
        job.wait_until_done()
        (job.checkpoints / STOP_FILE).touch()
        assert job.wait_for_end(within_s=NOTEBOOKS_S) == 0, job.output_lines()[-20:]
        yield job


def test_a_whole_job_writes_the_tables_of_the_reference(played: Job) -> None:
    oracle = build_oracle(played.checkpoints, Rules(heartbeat_ms=HEARTBEAT_MS))
    assert differences(oracle, read_tables(played.warehouse), played.checkpoints) == []


def test_notebooks_show_their_pictures_and_tables_and_the_last_one_forecasts(played: Job) -> None:
    counts = json.loads((played.warehouse.parent / "shown.json").read_text(encoding="utf-8"))
    assert {name: (shown["Figure"], shown["table"]) for name, shown in counts.items()} == {
        name: SHOWN[name] for name in counts
    }
    assert len(read_table(played.warehouse / SESSION_PREDICTIONS.name)) > 0
