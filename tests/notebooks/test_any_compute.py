"""The notebooks that only read run on any compute: over Spark Connect, in a process that has no JVM."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip(
    "grpc_status", reason="Spark Connect's client is not installed: pip install grpcio-status zstandard"
)
pytest.importorskip("matplotlib", reason="Matplotlib is not installed: make notebooks installs it")
pytest.importorskip("mlflow", reason="MLflow is not installed: make notebooks installs it")

from tests.notebooks.headless import ROOT, SHOWN
from tests.notebooks.spark_connect import CATALOG, SCHEMA
from tests.whole_job.metrics_endpoint import free_port

pytestmark = pytest.mark.job

MODULE = [sys.executable, "-m", "tests.notebooks.spark_connect"]


@pytest.fixture(scope="module")
def address(demo: Path) -> Iterator[str]:
    """The address of a server that knows the demo's tables as folders and in a schema."""
    port = free_port()
    command = [*MODULE, "serve", str(demo / "warehouse"), str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        assert server.stdout.readline() == "ready\n"
        yield f"sc://127.0.0.1:{port}"
        server.stdin.close()


def shown(name: str, address: str, demo: Path, widgets: dict[str, str]) -> tuple[int, int]:
    """The numbers of pictures and of tables that a notebook shows in a process without Java."""
    environment = os.environ | {
        "DATABRICKS_RUNTIME_VERSION": "client.4.0",  # as in a workspace, the first cell does nothing
        "MLFLOW_TRACKING_URI": f"sqlite:///{demo / 'mlflow.db'}",
        "JAVA_HOME": "/nowhere",
    }
    command = [*MODULE, "run", name, address, json.dumps(widgets)]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    return counts["Figure"], counts["table"]


def test_the_tables_of_a_catalog_are_shown_without_a_jvm(address: str, demo: Path) -> None:
    widgets = {"catalog": CATALOG, "schema": SCHEMA}
    assert shown("03_query_sessions", address, demo, widgets) == SHOWN["03_query_sessions"]


def test_tables_in_folders_are_shown_without_a_jvm(address: str, demo: Path) -> None:
    widgets = {"warehouse": str(demo / "warehouse")}
    assert shown("03_query_sessions", address, demo, widgets) == SHOWN["03_query_sessions"]


def test_runs_are_compared_without_a_jvm(address: str, demo: Path) -> None:
    assert shown("05_compare_runs", address, demo, {}) == SHOWN["05_compare_runs"]


def test_missing_tables_are_named_without_a_jvm(address: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=f"{tmp_path} does not hold session_changes, sessions"):
        shown("03_query_sessions", address, tmp_path, {"warehouse": str(tmp_path)})
